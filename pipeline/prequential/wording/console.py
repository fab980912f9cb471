"""How text reaches a terminal: a name is data there, never markup and never a control character."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import rich.console
from prequential.topics.reasons import printable
from rich.segment import Segment


class Console(rich.console.Console):
    r"""A console of rich that shows every text as it is: no markup, no emoji codes, no control characters.

    >>> Console(width=40).print("[/b]x :bug: a\x1b[31mb")
    [/b]x :bug: a\ufffd[31mb
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(
        self, renderable: Any, options: rich.console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as rich does; the text between rich's own control codes is made printable."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable_lines(segment.text))


def printable_lines(text: str) -> str:
    """Text from outside as `printable` makes it, but with its line ends."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def say(line: str) -> None:
    """Print a line on standard output; characters that aren't printable are shown as U+FFFD."""
    print(printable(line), flush=True)


def complain(sentences: object) -> None:
    """Print sentences for people on standard error, after the program's name."""
    print(f"prequential: {printable_lines(str(sentences))}", file=sys.stderr, flush=True)
