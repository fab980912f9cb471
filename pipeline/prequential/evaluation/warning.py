"""What Python users see meanwhile: warnings, short tracebacks, and that loops are compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from prequential.configuration.settings.model import Config
from prequential.offline.replay.summary import Summary
from prequential.offline.replay.text import finding_in_words
from prequential.runtime.program.compilation import compile_loops
from prequential.topics.errors import UsageError, WorkError
from prequential.views.wording.console import complain

#: The share of dropped records of a kind above which a warning is given.
_MOST = 0.5


def warn(summary: Summary, stacklevel: int) -> None:
    """Call `warnings.warn` for each finding, and for each kind of which most records were dropped.

    `stacklevel` is as in `warnings.warn`: 1 stands for the caller.
    """
    for name, kind in summary.records.items():
        if kind.dropped > _MOST * kind.read:
            first = next(drop for drop in summary.dropped if drop.kind == name)
            said = f"{kind.dropped:,} of {kind.read:,} {name} were dropped; most often: {first.reason}"
            warnings.warn(said, UserWarning, stacklevel=stacklevel + 1)
    for finding in summary.findings:
        said = f"looks wrong: {finding_in_words(finding)}"
        warnings.warn(said, UserWarning, stacklevel=stacklevel + 1)


P = ParamSpec("P")
T = TypeVar("T")


def with_short_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function with errors that show one traceback, without the errors that caused them.

    For errors in arguments and tables, the traceback also omits the code of this package.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (UsageError, WorkError) as error:
            raise error.with_traceback(None) from None
        except (TypeError, ValueError) as error:
            raise error from None

    return wrapper


def compile_once(config: Config) -> None:
    """Compile the loops that a configuration needs, once in a process, with a message on standard error."""
    compile_loops(complain, config)
