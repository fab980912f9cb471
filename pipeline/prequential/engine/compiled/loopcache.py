"""The cache of compiled loops: numba's cache, extended to all files from which a loop is compiled.

numba drops a cached loop when the loop's file changes. But a loop contains the code of the loops that it
calls, which may be in other files. After an upgrade, numba would therefore run old code of these. This cache
also drops a loop when a file that its own file imports, directly or indirectly, has changed. For a loop that
a factory made, the same holds for the files of the loops in its closure.

If a cache file is damaged, or can't be read or written, one warning is logged and the loops are compiled
again.

With `NUMBA_CACHE_DIR`, the loops are kept in that directory, which may be read-only, as in an image.
Otherwise they are kept next to the sources, or in the user's cache directory. A platform wheel (`make wheel`)
contains loops that are compiled for a common processor; the cache looks these up first.
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
from numba.core import caching, codegen, compiler, typed_passes
from numba.core.compiler_machinery import AnalysisPass, register_pass

_log = logging.getLogger(__name__)

#: Folders of the package: one if installed, two in a checkout.
_ROOTS = tuple(map(Path, sys.modules["prequential"].__path__))
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
    return tuple(one for one in paths if one.exists())


@cache
def stamp(path: Path) -> str:
    """A digest of a file and of all files of this package that it needs."""
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
        """A digest of all files from which the loop is compiled."""
        return stamp(Path(self._py_file))


class GivenFolder(_Stamped, caching.UserProvidedCacheLocator):
    """Keeps loops in `NUMBA_CACHE_DIR`, or only reads them there if the directory is read-only."""

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
    f"{one.__module__}.{one.__name__}" for one in (GivenFolder, BesideSources, OfUser, Nowhere)
)


class _Files(caching.IndexDataCacheFile):
    """The cache files of one loop; files with code contain a digest, so that a damaged one is never run.

    numba writes each file under another name, and renames it when it is complete.
    """

    def __init__(self, path: str, name: str, stamps: str) -> None:
        super().__init__(path, name, stamps)  # type: ignore[no-untyped-call]
        # numba compares the version before it unpickles an index, which may name modules that are gone.
        self._version = f"{numba.__version__} {stamps}"

    def _save_data(self, name: str, data: Any) -> None:
        content: bytes = self._dump(data)  # type: ignore[no-untyped-call]
        super()._save_data(name, hashlib.sha256(content).digest() + content)  # type: ignore[no-untyped-call]

    def _load_data(self, name: str) -> Any:
        path = Path(self._data_path(name))  # type: ignore[no-untyped-call]
        content: Any = super()._load_data(name)  # type: ignore[no-untyped-call]
        if not isinstance(content, bytes) or hashlib.sha256(content[32:]).digest() != content[:32]:
            raise ValueError(f"{path} is damaged, or belongs to another loop")
        return pickle.loads(content[32:])


def closure_of(function: Any) -> tuple[Any, ...]:
    """The values in a function's closure, with compiled loops replaced by their Python functions."""
    values = (cell.cell_contents for cell in function.__closure__ or ())
    return tuple(getattr(value, "py_func", value) for value in values)


def sources(function: Any) -> set[Path]:
    """The files that contain a function and the functions in its closure."""
    files = {Path(function.__code__.co_filename)}
    return files.union(*(sources(one) for one in closure_of(function) if hasattr(one, "__code__")))


def description(function: Any) -> str:
    """A description of a function and its closure that is the same in every process.

    numba's own description of a loop in a closure differs between processes, so the cache would never find
    it.
    """
    parts = [
        description(one) if hasattr(one, "__code__") else repr(one) for one in closure_of(function)
    ]
    return f"{function.__module__}.{function.__qualname__}({', '.join(parts)})"


#: The directory of loops that came with the package. `target` in the file `TARGET` is their target.
SHIPPED = Path(__file__).with_name("loops")
TARGET = "target.json"


@cache
def shipped_target() -> tuple[str, str, str] | None:
    """The target of shipped loops (triple, processor, features); None: there are none that can run here.

    The processor must have the instructions in their `features`, by LLVM's names.
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
    """The cache of one function's compiled code, which is kept if possible.

    `warned`: whether the cache has logged that it can't read or write a file.
    """

    warned = False

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)  # type: ignore[no-untyped-call]
        stamps = "".join(map(stamp, sorted(sources(py_func))))
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
            if self._shipped is not None:
                target_context.refresh()
                data = self._shipped.load(self._key(sig, shipped_target()))  # type: ignore[no-untyped-call]
                if data is not None:
                    return self._impl.rebuild(target_context, data)
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
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

    def _warn(self, what: str, error: Exception) -> None:
        if not LoopCache.warned:
            LoopCache.warned = True
            _log.warning(
                "compiled loops in %s can't be %s (%s: %s): they are compiled again, which takes a while",
                self._cache_path, what, type(error).__name__, error,
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


class _Linked(codegen.JITCodeLibrary):
    """numba's library, which also links the parts that the loop reaches, each of them once."""

    _linking_libraries: list[Any]

    def finalize(self) -> None:
        """Link and optimise the code, and make machine code of it."""
        reached = _reached(self)
        self._linking_libraries = [library for library in reached if not isinstance(library, _Part)]
        for library in reached:
            if isinstance(library, _Part):
                self._reload_init.update(library._reload_init)
                self._final_module.link_in(library.alone, preserve=True)
        super().finalize()  # type: ignore[no-untyped-call]


def _reached(library: Any) -> list[Any]:
    """The libraries that a library calls, directly or through parts."""
    reached: dict[Any, None] = {}
    ahead = library._linking_libraries[::-1]
    while ahead:
        called = ahead.pop()
        if called not in reached:
            reached[called] = None
            if isinstance(called, _Part):
                ahead += called._linking_libraries[::-1]
    return list(reached)


class _Whole(_Linked):
    """The library of a loop that Python calls.

    It omits numba's first, cheaper optimisation, which is for reference counts.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        manager, builder = self._codegen._module_pass_manager()  # type: ignore[no-untyped-call]
        manager.run(self._final_module, builder)


class _Part(_Whole):
    """The library of a loop that only other loops call: it has no machine code and no address."""

    def __init__(self, generator: Any, name: str) -> None:
        super().__init__(_NoEnvironment(generator), name)  # type: ignore[no-untyped-call]

    def finalize(self) -> None:
        """Mark the code as complete: the library that calls this part also links what the part calls."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage.name == "external":
                function.linkage = "linkonce_odr"  # so that LLVM inlines it, and drops it without a caller
        self._finalized = True

    @property
    def alone(self) -> Any:
        """The module without the code that it calls, to be linked into other modules."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return self._final_module

    def _get_module_for_linking(self) -> Any:
        """The module with all code that it calls, for a loop of numba's own compiler, which has no parts."""
        if self._shared_module is None:
            self._shared_module = self.alone.clone()
            for library in _reached(self):
                called = library.alone if isinstance(library, _Part) else library._get_module_for_linking()
                self._shared_module.link_in(called, preserve=True)
        return self._shared_module

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: no code outside of loops calls it."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0


class _NoEnvironment:
    """A code generator for parts; it sets no environments, which only code with Python objects needs."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)

    def set_env(self, env_name: str, env: Any) -> None:
        """Do nothing: a loop without a wrapper for Python needs no environment."""


def _choosing(library: type[_Linked]) -> Any:
    """A pass that chooses the library of a loop before numba makes code of it; the loop stays unchanged."""

    class LibraryChoice(AnalysisPass):
        _name = f"prequential{library.__name__.lower()}"

        def __init__(self) -> None:
            AnalysisPass.__init__(self)  # type: ignore[no-untyped-call]

        def run_pass(self, state: Any) -> bool:
            state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            return False

    return register_pass(mutates_CFG=False, analysis_only=True)(LibraryChoice)  # type: ignore[no-untyped-call]


class _Compiler(compiler.CompilerBase):
    where: Any

    def define_pipelines(self) -> list[Any]:
        """numba's own pipeline, with the pass that chooses the library."""
        passes: Any = _build(self.state)
        passes.add_pass_after(self.where, typed_passes.AnnotateTypes)
        passes.finalize()
        return [passes]


_build: Any = compiler.DefaultPassBuilder.define_nopython_pipeline


class Allocating(_Compiler):
    """numba's compiler for loops that make arrays."""

    where = _choosing(_Linked)


class Whole(_Compiler):
    """numba's compiler for loops that Python calls."""

    where = _choosing(_Whole)


class LibraryPart(_Compiler):
    """numba's compiler for loops that only other loops call."""

    where = _choosing(_Part)
