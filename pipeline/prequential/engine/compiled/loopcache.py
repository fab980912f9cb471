"""The cache of compiled loops: numba's cache, extended to all files from which a loop is compiled.

numba drops a cached loop when the loop's file changes. But a loop contains the code of the loops that it
calls, which may be in other files. After an upgrade, numba would therefore run old code of these. This cache
also drops a loop when a file that its own file imports, directly or indirectly, has changed. For a loop that
a factory made, the same holds for the files of the loops in its closure.

If a cache file is damaged, or can't be read or written, one warning is logged and the loops are compiled
again.

With `NUMBA_CACHE_DIR`, the loops are kept in that directory, which may be read-only, as in an image. Several
versions and environments can share it: folders in it are named by what is compiled, not by where it is
installed. Otherwise the loops are kept next to the sources, or in the user's cache directory. A platform
wheel (`make wheel`) contains loops that are compiled for a common processor; the cache looks these up first.

A loop that is in the cache runs without numba's compiler: neither types of functions nor LLVM code are loaded
until another loop has to be compiled.
"""

from __future__ import annotations

import hashlib
import json
import logging
import pickle
import re
import sys
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
from llvmlite import binding  # type: ignore[import-untyped]
from numba.core import caching, codegen, compiler
from numba.core.environment import Environment
from numba.core.runtime import rtsys  # type: ignore[attr-defined]

_log = logging.getLogger(__name__)

#: Folders of the package: one if installed, two in a checkout.
_ROOTS = tuple(map(Path, sys.modules["prequential"].__path__))
#: The form of files with code, as a number: see `_Payload`. Files of other forms aren't read.
_FORMAT = 2

_IMPORT = re.compile(r"^ *from (prequential[.\w]*) import (\([^)]*\)|.*)$", re.MULTILINE)


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """The files of this package that a file imports."""
    paths = []
    for module, names in _IMPORT.findall(path.read_text(encoding="utf-8")):
        for root in _ROOTS:
            folder = root.joinpath(*module.split(".")[1:])
            paths += [folder / f"{name}.py" for name in re.findall(r"\w+", names)]
            paths += [folder.with_suffix(".py"), folder / "__init__.py"]
    # This file keeps code, and has no part in it.
    return tuple(file for file in paths if file.exists() and file != Path(__file__))


@cache
def stamp(path: Path) -> str:
    """A digest of a file and of all files of this package that it needs."""
    files, new = {path}, [path]
    while new:
        new = [imported for imported in _imported(new.pop()) if imported not in files] + new
        files.update(new)
    digest = hashlib.sha256()
    for file in sorted(files):
        root = next(root for root in _ROOTS if root in file.parents)
        digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _stamps(function: Any) -> str:
    """The digests of all files from which a function and those in its closure are compiled."""
    return "".join(map(stamp, sorted(sources(function))))


class _Stamped:
    _py_file: str

    def get_source_stamp(self) -> str:
        """A digest of all files from which the loop is compiled."""
        return stamp(Path(self._py_file))


class GivenFolder(_Stamped, caching.UserProvidedCacheLocator):
    """Keeps loops in `NUMBA_CACHE_DIR`, or only reads them there if the directory is read-only.

    The loops of a file are in a folder that is named by what is compiled: environments with the same versions
    share it, and other versions have folders of their own.
    """

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[no-untyped-call]
        numpy = ".".join(np.__version__.split(".")[:2])
        content = f"{numba.__version__} {numpy} {_stamps(py_func)}"
        folder = f"{Path(py_file).stem}-{hashlib.sha256(content.encode()).hexdigest()[:20]}"
        self._cache_path = str(Path(numba.config.CACHE_DIR) / folder)  # type: ignore[attr-defined]

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
    """Keeps loops in `__pycache__`."""


class OfUser(_Stamped, caching.UserWideCacheLocator):
    """Keeps loops in the user's cache directory."""


class Nowhere(BesideSources):
    """Keeps no loops: no directory is writable, but the package came with compiled loops."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """A locator, if the package came with compiled loops that can run here."""
        return None if shipped_target() is None else cls(py_func, py_file)  # type: ignore[no-untyped-call]

    def ensure_cache_path(self) -> None:
        """Do nothing: there is no directory to make."""


#: The locators in the form of numba's setting.
LOCATORS = ",".join(
    f"{locator.__module__}.{locator.__name__}" for locator in (GivenFolder, BesideSources, OfUser, Nowhere)
)


class _Files(caching.IndexDataCacheFile):
    """The cache files of one loop; files with code contain a digest, so that a damaged one is never run.

    numba writes each file under another name, and renames it when it is complete. The name of a file with
    code follows from the loop's types and sources, so that processes which save at the same time can't
    confuse two loops.
    """

    def __init__(self, path: str, name: str, stamps: str) -> None:
        super().__init__(path, name, stamps)  # type: ignore[no-untyped-call]
        # numba compares the version before it unpickles an index, which may name modules that are gone.
        self._version = f"{numba.__version__} {_FORMAT} {stamps}"
        self._name = name

    def save(self, key: Any, data: Any) -> None:
        """Save code under its key; code of other sources is removed."""
        index = self._load_index()  # type: ignore[no-untyped-call]
        if key not in index:
            if not index:
                for stale in Path(self._cache_path).glob(self._data_name("*")):
                    stale.unlink(missing_ok=True)
            made_of = hashlib.sha256(f"{key} {self._version}".encode())
            index[key] = self._data_name(made_of.hexdigest()[:16])
            self._save_index(index)  # type: ignore[no-untyped-call]
        self._save_data(index[key], data)

    def _data_name(self, number: str) -> str:
        return f"{self._name}.{number}.nbc"

    def _save_data(self, name: str, data: Any) -> None:
        content: bytes = self._dump(data)  # type: ignore[no-untyped-call]
        super()._save_data(name, hashlib.sha256(content).digest() + content)  # type: ignore[no-untyped-call]

    def _load_data(self, name: str) -> Any:
        path = Path(self._data_path(name))  # type: ignore[no-untyped-call]
        content: Any = super()._load_data(name)  # type: ignore[no-untyped-call]
        if not isinstance(content, bytes) or hashlib.sha256(content[32:]).digest() != content[:32]:
            raise ValueError(f"{path} is damaged, or belongs to another loop")
        return _CodeReader(BytesIO(content[32:])).load()


class _CodeReader(pickle.Unpickler):
    """Reads a file with code, without the parts of numba that the code came from.

    numba imports the module of each function that became part of the code, and these import scipy where it is
    installed: together 20 MB. Only the compiler needs them.
    """

    def find_class(self, module: str, name: str) -> Any:
        """What the file names: a class, or a function that makes an object."""
        if (module, name) == ("numba.core.environment", "_rebuild_env"):
            return _environment
        return super().find_class(module, name)


def _environment(module: str, constants: list[Any], name: str) -> Environment:
    """What the code of a function needs of Python: constants, and its module's names if that is loaded."""
    names = vars(sys.modules[module]) if module in sys.modules else {"__name__": module}
    function = SimpleNamespace(env_name=name, lookup_globals=lambda: names)
    environment = Environment.from_fndesc(function)  # type: ignore[no-untyped-call]
    if not environment.consts:
        environment.consts[:] = constants
    return environment


def closure_of(function: Any) -> tuple[Any, ...]:
    """The values in a function's closure, with compiled loops replaced by their Python functions."""
    values = (cell.cell_contents for cell in function.__closure__ or ())
    return tuple(getattr(value, "py_func", value) for value in values)


def sources(function: Any) -> set[Path]:
    """The files that contain a function and the functions in its closure."""
    files = {Path(function.__code__.co_filename)}
    return files.union(*(sources(value) for value in closure_of(function) if hasattr(value, "__code__")))


def description(function: Any) -> str:
    """A description of a function and its closure that is the same in every process.

    numba's own description of a loop in a closure differs between processes, so the cache would never find
    it.
    """
    parts = [
        description(value) if hasattr(value, "__code__") else repr(value) for value in closure_of(function)
    ]
    return f"{function.__module__}.{function.__qualname__}({', '.join(parts)})"


#: The directory of loops that came with the package. `target` in the file `TARGET` is their target.
SHIPPED = Path(__file__).with_name("loops")
TARGET = "target.json"


def _without_release(triple: str) -> str:
    """Return a target's triple without macOS's release: later ones run the code of earlier ones.

    >>> _without_release("arm64-apple-darwin23.6.0"), _without_release("x86_64-unknown-linux-gnu")
    ('arm64-apple-darwin', 'x86_64-unknown-linux-gnu')
    """
    return re.sub(r"(darwin|macosx)[\d.]+$", r"\1", triple)


@cache
def shipped_target() -> tuple[str, str, str] | None:
    """The target of shipped loops (triple, processor, features); None: there are none that can run here.

    The processor must have the instructions in their `features`, by LLVM's names.
    """
    try:
        target = json.loads((SHIPPED / TARGET).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    triple, processor, features = target["target"]
    has: Any = binding.get_host_cpu_features()
    same_system = _without_release(triple) == _without_release(binding.get_process_triple())
    fits = same_system and all(map(has.get, target["features"]))
    return (triple, processor, features) if fits else None


class _Payload(caching.CompileResultCacheImpl):
    """What a file with code contains: numba's content, preceded by the names of the functions it calls."""

    def reduce(self, result: Any) -> Any:
        """The content for a compiled loop."""
        module = result.library._final_module
        called = [function.name for function in module.functions if function.is_declaration]
        external = tuple(name for name in called if not name.startswith("llvm."))
        return external, *super().reduce(result)  # type: ignore[no-untyped-call]

    def load(self, target_context: Any, files: _Files, key: Any) -> Any:
        """The compiled loop; None if the files have none with this key."""
        payload = files.load(key)  # type: ignore[no-untyped-call]
        if payload is None:
            return None
        external, (name, _, (machine_code, _)), descriptor, environment, signature, *_ = payload
        *_, lifted, annotation, initialisers, environments = payload
        generator = target_context.codegen()
        rtsys.initialize(target_context)  # type: ignore[no-untyped-call]
        if not all(map(binding.address_of_symbol, external)):
            target_context.refresh()  # registers all functions that numba has
        for initialise in initialisers or ():
            initialise()

        def bitcode() -> bytes:
            again = files.load(key)  # type: ignore[no-untyped-call]
            if again is None:
                raise FileNotFoundError(f"{descriptor.qualname}: its compiled code is gone from the cache")
            code: bytes = again[1][2][1]
            return code

        library = _Loaded(generator, name, machine_code, bitcode)
        library.define(descriptor.mangled_name, descriptor.llvm_cpython_wrapper_name, descriptor.env_name)
        result = compiler.CompileResult(  # type: ignore[call-arg]
            target_context=target_context, typing_context=target_context.typing_context, library=library,
            environment=environment, fndesc=descriptor, signature=signature, lifted=lifted,
            entry_point=target_context.get_executable(library, descriptor, environment),
            type_annotation=annotation, objectmode=False, typing_error=None, call_helper=None, metadata=None,
            reload_init=initialisers, referenced_envs=environments,
        )  # fmt: skip
        for referenced in environments:
            generator.set_env(referenced.env_name, referenced)
        return result


class _Loaded(codegen.JITCodeLibrary):
    """The library of a cached loop: machine code. Its LLVM code is read when another loop links it.

    numba reads the LLVM code of each loop, which takes far more memory than the machine code.
    """

    def __init__(self, generator: Any, name: str, machine_code: bytes, bitcode: Callable[[], bytes]) -> None:
        super().__init__(generator, name)  # type: ignore[no-untyped-call]
        self._bitcode = bitcode
        self.enable_object_caching()  # type: ignore[no-untyped-call]
        self._set_compiled_object(machine_code)  # type: ignore[no-untyped-call]
        self._finalize_final_module()  # type: ignore[no-untyped-call]

    def define(self, *names: str) -> None:
        """Note functions and variables of the machine code, so that numba asks for their addresses."""
        self._codegen._engine._defined_symbols.update(names)

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = binding.parse_bitcode(self._bitcode())
        return self._shared_module


class LoopCache(caching.FunctionCache):
    """The cache of one function's compiled code, which is kept if possible.

    `warned`: whether the cache has logged that it can't read or write a file.
    """

    warned = False
    _impl_class = _Payload

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)  # type: ignore[no-untyped-call]
        stamps = _stamps(py_func)
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, stamps)
        self._shipped = None
        if shipped_target() is not None:
            self._shipped = _Files(str(SHIPPED), self._impl.filename_base, stamps)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """The key of a compiled loop: types, processor, bytecode, closure."""
        return self._key(sig, codegen.magic_tuple())

    def _key(self, sig: Any, target: Any) -> Any:
        made_of = self._py_func.__code__.co_code + description(self._py_func).encode()
        return sig, target, hashlib.sha256(made_of).hexdigest()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """A compiled loop; None if the cache has none that can be used."""
        try:
            loop = None
            if self._shipped is not None:
                loop = self._impl.load(target_context, self._shipped, self._key(sig, shipped_target()))
            if loop is None:
                key = self._index_key(sig, target_context.codegen())
                loop = self._impl.load(target_context, self._cache_file, key)
            return loop
        except Exception as error:  # unpickling damaged bytes may raise anything
            self._warn("read", error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled loop; it replaces files that can't be read."""
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

    def _warn(self, action: str, error: Exception) -> None:
        if not LoopCache.warned:
            LoopCache.warned = True
            _log.warning(
                "compiled loops in %s can't be %s (%s: %s): they are compiled again, which takes a while",
                self._cache_path, action, type(error).__name__, error,
            )  # fmt: skip


#: Number of cached loops in the imported modules.
kept = 0


def keep(compiled: Any) -> None:
    """Let numba cache the code that it compiles for a function, and load code that is cached already."""
    global kept
    kept += 1
    settings: Any = numba.config
    before, settings.CACHE_LOCATOR_CLASSES = settings.CACHE_LOCATOR_CLASSES, LOCATORS
    try:
        compiled._cache = LoopCache(compiled.py_func)
    except RuntimeError as error:  # no directory is writable
        if not LoopCache.warned:
            LoopCache.warned = True
            _log.warning("compiled loops can't be kept: %s", error)
    finally:
        settings.CACHE_LOCATOR_CLASSES = before
