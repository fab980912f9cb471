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

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prequential.evaluation import Evaluator, evaluate
    __version__: str

__all__ = ["Evaluator", "__version__", "evaluate"]

#: Where each name is defined. The modules are imported at the first use of a name.
_SOURCES = {
    "Evaluator": ("prequential.evaluation", "Evaluator"),
    "evaluate": ("prequential.evaluation", "evaluate"),
    "__version__": ("prequential.runtime.program", "VERSION"),
}

# A checkout has `prequential.topics` in a folder of its own; an installation has one folder. The usual
#     __path__ = __import__("pkgutil").extend_path(__path__, __name__)
# would also take unrelated folders called `prequential` from the working directory. griffe, which reads the
# sources for the API pages, finds the second folder by that line.
_topics = Path(__file__).parents[2] / "topics" / "prequential"
if _topics.is_dir():
    __path__.append(str(_topics))


def __getattr__(name: str) -> Any:
    """Return a public name, from the module that defines it."""
    if name not in _SOURCES:
        raise AttributeError(f"module 'prequential' has no attribute {name!r}: it has {', '.join(__all__)}")
    module, attribute = _SOURCES[name]
    value = globals()[name] = getattr(import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
