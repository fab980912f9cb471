"""What a condition says."""

from __future__ import annotations

from typing import NamedTuple


class Answer(NamedTuple):
    """What a condition says of a model: `failed` if it holds, or if it can't be told."""

    failed: bool
    sentence: str
