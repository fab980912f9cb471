"""What a condition says."""

from __future__ import annotations

from typing import NamedTuple


class Answer(NamedTuple):
    """What a condition says of a model: `failed` if it holds, or if it can't be told."""

    failed: bool
    sentence: str


def lately(better: str | None, since: int | None) -> str:
    """Who is better now, by the verdict that forgets; None: nobody.

    >>> lately("tree", 1300), lately(None, None)
    ('tree is better since about outcome 1,300', 'recently undecided')
    """
    if better is None:
        return "recently undecided"
    return f"{better} is better since about outcome {since:,}"
