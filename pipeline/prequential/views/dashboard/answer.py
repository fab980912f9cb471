"""The answer of a condition."""

from __future__ import annotations

from typing import NamedTuple


class Answer(NamedTuple):
    """The answer of a condition about a model: `failed` if it holds, or if the result is unknown."""

    failed: bool
    sentence: str


def lately(better: str | None, since: int | None) -> str:
    """Return a sentence about the better model by the recent verdict; None: undecided.

    >>> lately("tree", 1300), lately(None, None)
    ('tree is better since about outcome 1,300', 'recently undecided')
    """
    if better is None:
        return "recently undecided"
    return f"{better} is better since about outcome {since:,}"
