"""The table of models at the end of a demo or a replay, each with its course as a row of bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from prequential.topics.reasons import printable
from prequential.views.wording.console import Console
from rich.table import Table
from rich.text import Text

#: The width of a course in characters.
_COURSE = 18
_BARS = "▁▂▃▄▅▆▇█"

#: The width of a table with courses, and of all output that doesn't go to a terminal.
_WIDE = 100


class ModelRow(NamedTuple):
    """A row of the table. The course has values from 0 to 1, and `ends` marks the last row of a group."""

    names: tuple[str, ...]
    values: tuple[float | None, ...]
    course: Sequence[float]
    ends: bool


def models_table(
    rows: Sequence[ModelRow], names: Sequence[str], columns: Sequence[str], course: str | None, *, title: str,
    caption: str,
) -> Table:  # fmt: skip
    """Return a table with a column for each of `names`, then of `columns`, then the course.

    `course` is the heading of the courses; None leaves them out.
    """
    grid = Table(
        title=title, caption=caption, title_justify="left", caption_justify="left", show_edge=False,
        pad_edge=False,
    )  # fmt: skip
    for name in names:
        grid.add_column(name, no_wrap=True)
    for name in columns:
        grid.add_column(name, justify="right", no_wrap=True)
    if course is not None:
        grid.add_column(course, no_wrap=True)
    for row in rows:
        shown = [Text(printable(name)) for name in row.names]
        bar = [] if course is None else [bars(row.course)]
        grid.add_row(*shown, *map(number, row.values), *bar, end_section=row.ends)
    return grid


def with_courses(console: Console) -> bool:
    """Return whether the console is wide enough for courses, and can print their characters."""
    return console.encoding.startswith("utf") and console.width >= _WIDE


def print_wide(table: Callable[[Console], Table], console: Console) -> None:
    """Print a table that stays, in the width for courses if the output isn't a terminal."""
    if not console.is_terminal:
        console = Console(width=_WIDE, no_color=True, file=console.file, force_jupyter=False)
    console.print(table(console))


def bars(values: Sequence[float], width: int = _COURSE) -> str:
    """Return a course as a row of bars, the newest at the right.

    The lowest bar stands for 0.5, or for 0 where some value is below 0.5; the highest for 1.

    >>> bars([0.5, 0.75, 1.0], width=3)
    '▁▅█'
    >>> bars([0.9] * 10 + [0.7] * 10, width=4)
    '▇▇▄▄'
    >>> bars([0.0, 0.5, 1.0], width=3)
    '▁▅█'
    """
    width = min(width, len(values))
    lowest = 0.5 if all(value >= 0.5 for value in values) else 0.0
    places = [len(values) * (i + 1) // width - 1 for i in range(width)]
    shares = [(values[place] - lowest) / (1 - lowest) for place in places]
    return "".join(_BARS[min(max(int(share * len(_BARS)), 0), len(_BARS) - 1)] for share in shares)


def number(value: float | None) -> Text:
    """Return a measure with three decimals; one below zero, which is worse than the baseline, is red.

    None is shown as a dash.
    """
    if value is None:
        return Text("-", style="dim")
    return Text(f"{value:.3f}", style="red" if value < 0 else "")
