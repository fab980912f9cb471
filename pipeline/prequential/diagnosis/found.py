"""A finding: one sentence about a likely mistake."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """A likely mistake. `code` is its kind; `stream` is None if it is about no single stream.

    Findings `about` the same are one finding, even if the numbers in their sentences differ.
    """

    code: str
    stream: str | None
    sentence: str
    about: str = ""

    def __str__(self) -> str:
        return self.sentence if self.stream is None else f"{self.stream}: {self.sentence}"
