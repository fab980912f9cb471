"""How text reaches a terminal: a name is data there, never markup and never a control character."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

import rich.console
from prequential.topics.errors import printable, redacted
from rich.segment import Segment

#: Streams of this process whose readers have gone.
_UNREAD: list[Any] = []


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

    def on_broken_pipe(self) -> None:
        """Go on without a reader; rich would end the program."""
        _to_nowhere(self.file)


def printable_lines(text: str) -> str:
    """Text from outside as `printable` makes it, but with its line ends."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def say(line: str) -> None:
    """Print a line on standard output; characters that aren't printable are shown as U+FFFD."""
    _print(printable(line), sys.stdout)


def is_read() -> bool:
    """Whether standard output may still have a reader: what prints for ever ends without one."""
    return sys.stdout not in _UNREAD


def write(content: bytes) -> None:
    """Write bytes to standard output; once its reader has gone they go nowhere, and that is no error."""
    try:
        sys.stdout.buffer.write(content)
    except BrokenPipeError:
        _to_nowhere(sys.stdout)


def flush() -> None:
    """Write out what standard output and standard error hold back; a reader that has gone is no error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # it was closed before the program began
                stream.flush()
        except BrokenPipeError:
            _to_nowhere(stream)


def complain(sentences: object) -> None:
    """Print sentences for people on standard error, after the program's name and without secrets."""
    _print(f"prequential: {redacted(printable_lines(str(sentences)))}", sys.stderr)


def _print(text: str, stream: Any) -> None:
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        _to_nowhere(stream)


def _to_nowhere(stream: Any) -> None:
    """Let a stream whose reader has gone, as `| head` does, swallow the rest: the work goes on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    _UNREAD.append(stream)
