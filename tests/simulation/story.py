"""What happens in a world, as lines that read as a story."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Line(NamedTuple):
    """What happened when, and to whom."""

    time: float
    who: str
    text: str

    def __str__(self) -> str:
        return f"{self.time:9.4f}  {self.who:<10}  {self.text}"


class Story:
    """The lines of one world; times are seconds from its beginning."""

    def __init__(self, clock: Callable[[], float], who: Callable[[], str]) -> None:
        self._clock, self._who = clock, who
        self._began = clock()
        self.lines: list[Line] = []

    def tell(self, text: str, who: str | None = None) -> None:
        """Add a line about whoever runs now, or about `who`."""
        self.lines.append(Line(self._clock() - self._began, who or self._who(), text))

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines))
