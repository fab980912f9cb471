"""How text reaches a terminal: names are data, never markup; numbers and times have a short form."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

import rich.console
from prequential.topics.dead_letters import clock as exact_clock
from prequential.topics.errors import printable, redacted
from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text

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


#: Units of an age in ms, the largest first.
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000))

#: Suffixes for thousands, millions, …, which shorten numbers with more than four digits before the point.
_THOUSANDS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def clock(ts: int) -> str:
    """Return epoch milliseconds as UTC to the second; as a number outside of the years 1 to 9999.

    >>> clock(1700000000123)
    '2023-11-14T22:13:20Z'
    """
    return exact_clock(ts - ts % 1000)


def moment(ts: int, now: int) -> str:
    """Return the time of day (UTC) of `ts`, with the date if its day is not that of `now`; both in epoch ms.

    >>> moment(1700000000000, 1700000001000), moment(1700000000000, 1800000000000)
    ('22:13:20', '2023-11-14 22:13')
    """
    date, _, time = clock(ts).rstrip("Z").partition("T")
    return time if time and clock(now).startswith(date) else f"{date} {time[:5]}".strip()


def age(ms: float) -> str:
    """Return a length of time in its largest unit.

    >>> age(59_900), age(60_000), age(7_300_000), age(20 * 86_400_000), age(-5)
    ('59s', '1m', '2h', '20d', '0s')
    """
    for unit, size in _UNITS:
        if ms >= size:
            return f"{int(ms // size)}{unit}"
    return f"{max(0, int(ms // 1000))}s"


def duration(ms: float) -> str:
    """Return a measured length of time with three digits.

    >>> duration(5.4), duration(5490), duration(7_300_000)
    ('5.4 ms', '5.49 s', '2.03 h')
    """
    for unit, size in _UNITS:
        if ms >= size:
            return f"{ms / size:.3g} {unit}"
    return f"{ms / 1000:.3g} s" if ms >= 1000 else f"{ms:.3g} ms"


def rows(ms: float) -> str:
    """Return a length of time as rows, for records without times: each row is a millisecond.

    >>> rows(1500)
    '1,500 rows'
    """
    return f"{count(ms)} rows"


def elide(text: str, width: int) -> str:
    """Shorten a name to at most `width` columns: keep its beginning, and more of its end.

    >>> elide("fraud-cards-europe-west", 16), elide("fraud-cards-europe-east", 16)
    ('fraud-c…ope-west', 'fraud-c…ope-east')
    """
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    head = (width - 1) // 2
    return f"{_cut(text, head)}…{_cut(text[::-1], width - 1 - head)[::-1]}"


def _cut(text: str, width: int) -> str:
    cells = 0
    for index, character in enumerate(text):
        cells += cell_len(character)
        if cells > width:
            return text[:index]
    return text


def number(value: float) -> str:
    """Return a measure's value as text of at most eight columns.

    >>> [number(value) for value in (0.8101, -2.13301, 31.25, 4711.2, 104446, -1.5e9, 1e100)]
    ['0.810', '-2.133', '31.25', '4711.2', '104.4k', '-1.5G', '1.0e+100']
    """
    size = abs(value)
    if size < 1e4:
        return f"{value:.3f}" if size < 10 else f"{value:.2f}" if size < 100 else f"{value:.1f}"
    for unit, letter in _THOUSANDS:
        if unit <= size < 1e15:
            return f"{value / unit:.4g}{letter}"
    return f"{value:.1e}"


def count(value: float) -> str:
    """Return a whole number as text of at most eight columns.

    >>> count(45312), count(12_345_678)
    ('45,312', '12.35M')
    """
    return f"{value:,.0f}" if value < 1e6 else number(value)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1.

    >>> counted(1, "stream"), counted(1000, "stream")
    ('1 stream', '1,000 streams')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def measure_text(value: float | None) -> Text:
    """Return a measure as text; one below zero, which is worse than the baseline, is red."""
    if value is None:
        return Text("-", style="dim")
    return Text(number(value), style="red" if value < 0 else "")
