"""How code of loops is put together: numba's compiler, whose libraries link each part of a loop once.

A loop that Python calls is one module with all parts that it reaches. A part has no machine code of its own.
"""

from __future__ import annotations

from typing import Any

from numba.core import codegen, compiler, typed_passes
from numba.core.compiler_machinery import AnalysisPass, register_pass


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
