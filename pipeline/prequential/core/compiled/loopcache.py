"""Where compiled loops are kept: numba's cache, which doesn't see all that a loop is made of.

numba drops a cached loop when the file that it stands in changes. But a loop holds the code of those that it
calls, which stand in other files: after an upgrade it would go on doing what they did. Here it is dropped
when any file that its own imports, directly or not, has changed; of a loop that a factory has made, also when
any file has that the loops in its closure stand in, or that these import.

A file that is torn, or can't be read or written, costs time and one warning: its loops are compiled again.

With `NUMBA_CACHE_DIR` they are kept there, also where nothing can be written, as in an image; else beside the
sources, or in the user's cache directory. A platform wheel (`make wheel`) brings its own, compiled for a
processor that many have: they are looked up first.
"""

from __future__ import annotations

import hashlib
import json
import logging
import pickle
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding  # type: ignore[import-untyped]
from numba.core import caching

_log = logging.getLogger(__name__)

#: Folders of the package: one if installed, two in a checkout.
_ROOTS = tuple(map(Path, sys.modules["prequential"].__path__))
_IMPORT = re.compile(r"^ *from (prequential[.\w]*) import (\([^)]*\)|.*)$", re.MULTILINE)


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """Files of ours that a file imports."""
    paths = []
    for module, names in _IMPORT.findall(path.read_text(encoding="utf-8")):
        for root in _ROOTS:
            folder = root.joinpath(*module.split(".")[1:])
            paths += [folder / f"{name}.py" for name in re.findall(r"\w+", names)]
            paths += [folder.with_suffix(".py"), folder / "__init__.py"]
    return tuple(one for one in paths if one.exists())


@cache
def stamp(path: Path) -> str:
    """A digest of a file and of all files of ours that it needs."""
    files, new = {path}, [path]
    while new:
        new = [one for one in _imported(new.pop()) if one not in files] + new
        files.update(new)
    digest = hashlib.sha256()
    for file in sorted(files):
        root = next(root for root in _ROOTS if root in file.parents)
        digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


class _Stamped:
    _py_file: str

    def get_source_stamp(self) -> str:
        """Changes with what the loop is made of."""
        return stamp(Path(self._py_file))


class GivenFolder(_Stamped, caching.UserProvidedCacheLocator):
    """In `NUMBA_CACHE_DIR`; if nothing can be written there, for reading."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """A locator, if the variable is set."""
        if not numba.config.CACHE_DIR:  # type: ignore[attr-defined]
            return None
        locator = super().from_function(py_func, py_file)  # type: ignore[no-untyped-call]
        if locator is None and Path(numba.config.CACHE_DIR).is_dir():  # type: ignore[attr-defined]
            return cls(py_func, py_file)  # type: ignore[no-untyped-call]
        return locator


class BesideSources(_Stamped, caching.InTreeCacheLocator):
    """In `__pycache__`."""


class OfUser(_Stamped, caching.UserWideCacheLocator):
    """In the user's cache directory."""


class Nowhere(BesideSources):
    """Where nothing can be written, and loops came with the package: what isn't among these isn't kept."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """A locator, if there are such loops."""
        return None if shipped_target() is None else cls(py_func, py_file)  # type: ignore[no-untyped-call]

    def ensure_cache_path(self) -> None:
        """There is no folder to make."""


#: As numba's setting has them.
LOCATORS = ",".join(
    f"{one.__module__}.{one.__name__}" for one in (GivenFolder, BesideSources, OfUser, Nowhere)
)


class _Files(caching.IndexDataCacheFile):
    """Files of one loop, the compiled ones with a digest: a torn one isn't run.

    numba puts each in place when it is whole, by renaming it.
    """

    def _save_data(self, name: str, data: Any) -> None:
        content: bytes = self._dump(data)  # type: ignore[no-untyped-call]
        super()._save_data(name, hashlib.sha256(content).digest() + content)  # type: ignore[no-untyped-call]

    def _load_data(self, name: str) -> Any:
        path = Path(self._data_path(name))  # type: ignore[no-untyped-call]
        content: Any = super()._load_data(name)  # type: ignore[no-untyped-call]
        if not isinstance(content, bytes) or hashlib.sha256(content[32:]).digest() != content[:32]:
            raise ValueError(f"{path} is torn, or of something else")
        return pickle.loads(content[32:])


def closure_of(function: Any) -> tuple[Any, ...]:
    """What a function has from the one that made it: compiled loops as the functions that they are of."""
    values = (cell.cell_contents for cell in function.__closure__ or ())
    return tuple(getattr(value, "py_func", value) for value in values)


def sources(function: Any) -> set[Path]:
    """Files that a function and those in its closure stand in."""
    files = {Path(function.__code__.co_filename)}
    return files.union(*(sources(one) for one in closure_of(function) if hasattr(one, "__code__")))


def description(function: Any) -> str:
    """A function, and what is in its closure, in words that are the same in every process.

    numba's own description of a loop in a closure isn't: it would never be found again.
    """
    parts = [
        description(one) if hasattr(one, "__code__") else repr(one) for one in closure_of(function)
    ]
    return f"{function.__module__}.{function.__qualname__}({', '.join(parts)})"


#: Loops that came with the package, and what they are compiled for: `target` of `TARGET`.
SHIPPED = Path(__file__).with_name("loops")
TARGET = "target.json"


@cache
def shipped_target() -> tuple[str, str, str] | None:
    """What shipped loops are compiled for (triple, processor, features); None: none can run here.

    They need the instructions of their `features`, by LLVM's names.
    """
    try:
        said = json.loads((SHIPPED / TARGET).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    triple, processor, features = said["target"]
    has: Any = binding.get_host_cpu_features()
    fits = triple == binding.get_process_triple() and all(map(has.get, said["features"]))
    return (triple, processor, features) if fits else None


class LoopCache(caching.FunctionCache):
    """What is compiled of one function, kept as far as that is possible.

    `warned`: whether one couldn't be read or written.
    """

    warned = False

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)  # type: ignore[no-untyped-call]
        stamps = "".join(map(stamp, sorted(sources(py_func))))
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, stamps)  # type: ignore[no-untyped-call]
        self._shipped = None
        if shipped_target() is not None:
            self._shipped = _Files(str(SHIPPED), self._impl.filename_base, stamps)  # type: ignore[no-untyped-call]

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """What a compiled loop is found by: types, processor, bytecode, closure."""
        return self._key(sig, codegen.magic_tuple())

    def _key(self, sig: Any, target: Any) -> Any:
        made_of = self._py_func.__code__.co_code + description(self._py_func).encode()
        return sig, target, hashlib.sha256(made_of).hexdigest()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """A compiled loop; None where there is none that can be used."""
        try:
            if self._shipped is not None:
                target_context.refresh()
                data = self._shipped.load(self._key(sig, shipped_target()))  # type: ignore[no-untyped-call]
                if data is not None:
                    return self._impl.rebuild(target_context, data)
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever unpickling makes of bytes
            self._warn("read", error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled loop; what can't be read makes way for it."""
        try:
            try:
                super().save_overload(sig, data)  # type: ignore[no-untyped-call]
            except OSError:
                raise
            except Exception:
                self._cache_file.flush()  # type: ignore[no-untyped-call]
                super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except Exception as error:
            self._warn("written", error)

    def _warn(self, what: str, error: Exception) -> None:
        if not LoopCache.warned:
            LoopCache.warned = True
            _log.warning(
                "compiled loops in %s can't be %s (%s: %s): they are compiled again, which takes a while",
                self._cache_path, what, type(error).__name__, error,
            )  # fmt: skip


#: How many loops are kept, of the modules that are imported.
kept = 0


def keep(compiled: Any) -> None:
    """Have what numba compiles of a function kept, and fetched if it was."""
    global kept
    kept += 1
    settings: Any = numba.config
    before, settings.CACHE_LOCATOR_CLASSES = settings.CACHE_LOCATOR_CLASSES, LOCATORS
    try:
        compiled._cache = LoopCache(compiled.py_func)
    except RuntimeError as error:  # there is no place
        if not LoopCache.warned:
            LoopCache.warned = True
            _log.warning("compiled loops can't be kept: %s", error)
    finally:
        settings.CACHE_LOCATOR_CLASSES = before
