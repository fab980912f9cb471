"""Stages in words, where one is the same as another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: What stages are, for captions; and what it means that two are the same.
_STAGES = "initial: an instance's first prediction; final: the last one before its label. "
_SAME = "final*: initial is the same, as each instance had one prediction. "


def stage_in_words(stage: str, same: Iterable[str] = ()) -> str:
    """A stage, and those that are the same up to now.

    >>> stage_in_words("final", ["initial"]), stage_in_words("final")
    ('final = initial', 'final')
    """
    return " = ".join((stage, *same))


def marked(stage: str, same: Sequence[str]) -> str:
    """The same with a mark alone, which the caption explains: for tables without room.

    >>> marked("final", ["initial"]), marked("final", [])
    ('final*', 'final')
    """
    return f"{stage}*" if same else stage


def caption_of_stages(same: Iterable[Sequence[str]]) -> str:
    """What a table says of its stages, by what is the same as each.

    >>> caption_of_stages([["initial"], ["initial"]])
    'final*: initial is the same, as each instance had one prediction. '
    """
    known = list(map(bool, same))
    return (_STAGES if not all(known) else "") + (_SAME if any(known) else "")
