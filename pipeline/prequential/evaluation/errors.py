"""Errors in a notebook: one short traceback, which ends in the sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from prequential.topics.errors import UsageError, WorkError

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
