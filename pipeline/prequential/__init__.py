"""Evaluates streaming machine learning: late labels, forgetting, drift, comparisons of models.

>>> from prequential import Evaluator
>>> evaluator = Evaluator(estimators=["all"])
>>> evaluator.predict("order-1", "fraud")
>>> evaluator.learn("order-1", "ok")
>>> evaluator.get("accuracy")
0.0

`evaluate` evaluates tables of past predictions and labels. `prequential.evaluation` has the other names.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prequential.evaluation import Evaluator, evaluate

    __version__: str

__all__ = ["Evaluator", "__version__", "evaluate"]


class _AtFirstUse:
    """A function or class whose module is imported when it is first called, inspected or derived from.

    An import of the library then costs nothing: the engine takes a second to load.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module, self.__name__, self.__qualname__ = module, name, name

    def _loaded(self) -> Any:
        return getattr(import_module(self._module), self.__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._loaded()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loaded(), name)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._loaded(),)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self._loaded())

    def __subclasscheck__(self, kind: Any) -> bool:
        return issubclass(kind, self._loaded())

    def __repr__(self) -> str:
        return f"<{self._module}.{self.__name__}>"

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature of the function or class, for editors, notebooks and `help`."""
        return inspect.signature(self._loaded())

    #: That of the function or class.
    __doc__ = property(lambda self: self._loaded().__doc__)  # type: ignore[assignment]


#: The names, and where the version is defined.
_PUBLIC = {name: _AtFirstUse("prequential.evaluation", name) for name in ("Evaluator", "evaluate")}
_VERSION = "prequential.runtime.program", "VERSION"

# A checkout has `prequential.topics` in a folder of its own; an installation has one folder. The usual
#     __path__ = __import__("pkgutil").extend_path(__path__, __name__)
# would also take unrelated folders called `prequential` from the working directory. griffe, which reads the
# sources for the API pages, finds the second folder by that line.
_topics = Path(__file__).parents[2] / "topics" / "prequential"
if _topics.is_dir():
    __path__.append(str(_topics))


def __getattr__(name: str) -> Any:
    """Return a public name, from the module that defines it."""
    if name == "__version__":
        module, attribute = _VERSION
        value = globals()[name] = getattr(import_module(module), attribute)
        return value
    if name not in _PUBLIC:
        raise AttributeError(f"module 'prequential' has no attribute {name!r}: it has {', '.join(__all__)}")
    return _PUBLIC[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
