"""A finding: one sentence about what looks wrong."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """Something that looks wrong. `code` is its kind; `stream` is None where it is about no stream alone.

    What is `about` the same is the same finding, whatever the numbers in its sentence are by now.
    """

    code: str
    stream: str | None
    sentence: str
    about: str = ""

    def __str__(self) -> str:
        return self.sentence if self.stream is None else f"{self.stream}: {self.sentence}"
