"""Stages in words, where one is the same as another."""

from __future__ import annotations

from collections.abc import Iterable

#: What stages are, for captions; and what it means that two are the same.
_STAGES = "initial: an instance's first prediction; final: the last one before its label"
_SAME = "final = initial: each instance had one prediction"


def stage_in_words(stage: str, same: Iterable[str] = ()) -> str:
    """A stage, and those that are the same up to now.

    >>> stage_in_words("final", ["initial"]), stage_in_words("final")
    ('final = initial', 'final')
    """
    return " = ".join((stage, *same))


def caption_of_stages(same: Iterable[Iterable[str]]) -> str:
    """What a table says of its stages, by what is the same as each.

    >>> caption_of_stages([["initial"], ["initial"]])
    'final = initial: each instance had one prediction. '
    """
    known = [bool(list(one)) for one in same]
    said = [_STAGES] if not all(known) else []
    return "".join(f"{one}. " for one in (*said, *([_SAME] if any(known) else [])))
