"""Stages in words, with the stages that are identical."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: Meaning of stages, and of identical ones, for captions.
_STAGES = "initial: an instance's first prediction; final: the last one before its label. "
_SAME = "final*: initial is the same, as each instance had one prediction. "


def stage_in_words(stage: str, same: Iterable[str] = ()) -> str:
    """Return a stage, and those that have been identical so far.

    >>> stage_in_words("final", ["initial"]), stage_in_words("final")
    ('final = initial', 'final')
    """
    return " = ".join((stage, *same))


def marked(stage: str, same: Sequence[str]) -> str:
    """Return a stage with a mark if another one is identical; a caption explains the mark.

    >>> marked("final", ["initial"]), marked("final", [])
    ('final*', 'final')
    """
    return f"{stage}*" if same else stage


def caption_of_stages(same: Iterable[Sequence[str]]) -> str:
    """Return the caption of a table about its stages, by the stages that are identical to each.

    >>> caption_of_stages([["initial"], ["initial"]])
    'final*: initial is the same, as each instance had one prediction. '
    """
    known = list(map(bool, same))
    return (_STAGES if not all(known) else "") + (_SAME if any(known) else "")
