"""Errors meant for the person at the command line: one clear sentence, no traceback."""

from __future__ import annotations

from typing import TypeVar

from prequential.topics.secrets import redacted

T = TypeVar("T")


class _Sentence(Exception):
    """An error that people read: its text never has a secret, whatever it quotes."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(redacted(one) if isinstance(one, str) else one for one in args))


class UsageError(_Sentence):
    """The command line, the configuration or a client's settings are wrong (exit status 2)."""


class WorkError(_Sentence):
    """The work that was asked for failed, although it was asked for rightly (exit status 1)."""


class Fault(Exception):
    """The program has found what can't be: a fault of its own. No record is passed over because of it."""


def existing(value: T | None, what: str) -> T:
    """The value, which must be there; raises Fault where it isn't.

    >>> existing(7, "the number")
    7
    >>> existing(None, "the number")
    Traceback (most recent call last):
    ...
    prequential.topics.errors.Fault: the number is missing: this is a fault of prequential, please report it
    """
    if value is None:
        raise Fault(f"{what} is missing: this is a fault of prequential, please report it")
    return value
