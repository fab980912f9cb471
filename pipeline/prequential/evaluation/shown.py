"""Results that are displayed as tables: as text, as HTML for a notebook, as frames and rows for programs."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import datetime
from html import escape
from typing import Any

from prequential.evaluation.html import STYLE
from prequential.offline.tables.formats import needs_pyarrow
from prequential.topics.errors import UsageError, printable
from prequential.views.wording.console import Console, printable_lines
from rich.table import Table as RichTable
from rich.text import Text

#: The width of a line in characters, which tables with courses need.
WIDTH = 120

#: The most rows of a table that are displayed, and the characters between two columns.
_ROWS, _BETWEEN_COLUMNS = 40, 3

#: Numbers below this one are displayed with four decimals.
_FOUR_DECIMALS = 10


class Shown(ABC):
    """A result that consists of tables: `print` shows them as text, a notebook as HTML."""

    @abstractmethod
    def _tables(self) -> Iterable[RichTable]:
        """Return the tables, for people."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Return the result for programs: a dict for each row, all with the same keys."""

    @property
    def table(self) -> Any:
        """`rows` as an Arrow table (`.to_pandas()`, `polars.from_arrow(…)`).

        Raises UsageError if pyarrow isn't installed.
        """
        needs_pyarrow("a table of rows is Arrow")
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows())

    def to_pandas(self) -> Any:
        """Return `rows` as a pandas frame. Raises UsageError if pyarrow or pandas isn't installed."""
        return pandas_of(self.table)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return text_of(lambda console: console.print(*self._tables(), sep="\n"))

    def _repr_html_(self) -> str:
        tables = "".join(_html(one) for one in self._tables())
        return f'<div class="prequential">{STYLE}{tables}</div>'


class Table(Shown):
    """A table with a row for each model, or for each model and day.

    `print` and notebooks display it. `.to_pandas()` returns a pandas frame, `polars.DataFrame(table)` a
    polars frame, `.table` an Arrow table and `.rows()` a list of dicts.
    """

    def __init__(self, names: Iterable[str], rows: Iterable[dict[str, Any]]) -> None:
        self._names = list(names)
        self._rows = list(rows)

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict for each row, all with the same keys; a missing value is None."""
        return [{name: row.get(name) for name in self._names} for row in self._rows]

    @property
    def table(self) -> Any:
        """`rows` as an Arrow table. Raises UsageError if pyarrow isn't installed."""
        needs_pyarrow("a table of rows is Arrow")
        import pyarrow as pa

        columns = {}
        for name in self._names:
            column = pa.array([row.get(name) for row in self._rows])
            columns[name] = column.cast(pa.float64()) if pa.types.is_null(column.type) else column
        return pa.table(columns)

    def __len__(self) -> int:
        return len(self._rows)

    def _repr_html_(self) -> str:
        return f'<div class="prequential">{STYLE}{_html(self._drawn(self._names, []))}</div>'

    def _tables(self) -> Iterable[RichTable]:
        """Return the table with the columns that fit; the names of the others are below it."""
        shown, width = [], 1
        for name in self._names:
            width += max(len(name), *(len(_cell(row.get(name))) for row in self._rows), 0) + _BETWEEN_COLUMNS
            if width > WIDTH:
                break
            shown.append(name)
        left = self._names[len(shown) :]
        return [self._drawn(shown, [f"and {len(left)} more columns: {', '.join(left)}"] if left else [])]

    def _drawn(self, shown: list[str], notes: list[str]) -> RichTable:
        """Return the table with these columns; notes and the number of hidden rows are below it."""
        places: list[int] = list(range(len(self._rows)))
        if len(places) > _ROWS:
            places = places[: _ROWS // 2] + places[-_ROWS // 2 :]
            notes.append(f"{len(self._rows) - _ROWS:,} rows in the middle aren't shown: .to_pandas() has all")
        table = RichTable(caption="; ".join(notes) or None, caption_justify="left")
        for name in shown:
            is_text = any(isinstance(row.get(name), str) for row in self._rows)
            table.add_column(name, justify="left" if is_text else "right", no_wrap=True)
        for place in places:
            table.add_row(*(Text(_cell(self._rows[place].get(name))) for name in shown))
        return table


def pandas_of(table: Any) -> Any:
    """Return an Arrow table as a pandas frame; raises UsageError if pandas isn't installed."""
    try:
        return table.to_pandas()
    except ImportError as error:
        raise UsageError("a frame needs pandas: pip install pandas") from error


def _cell(value: Any) -> str:
    """Return a value as text: numbers with four decimals, times without empty hours.

    >>> _cell(0.81), _cell(12000), _cell(999.99), _cell(None), _cell(datetime(2013, 3, 8)), _cell("nb")
    ('0.8100', '12,000', '1,000', '', '2013-03-08', 'nb')
    """
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float, datetime)):
        return printable(str(value))
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}" if abs(value) < _FOUR_DECIMALS else f"{value:,.4g}"


def text_of(show: Callable[[Console], None]) -> str:
    """Return the text that is printed on a console, without blanks at the ends of lines."""
    text = io.StringIO()
    # In a notebook the text must also go to `file`, since the notebook shows `_repr_html_` instead.
    show(Console(file=text, width=WIDTH, force_terminal=False, force_jupyter=False, color_system=None))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _html(table: RichTable) -> str:
    """Return a table of rich as HTML; columns of text are aligned left."""
    kinds = ["" if column.justify == "right" else ' class="l"' for column in table.columns]
    head = "".join(
        f"<th{kind}>{_text(column.header)}</th>" for kind, column in zip(kinds, table.columns)
    )
    cells = [list(column.cells) for column in table.columns]
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{_text(cell)}</td>' for kind, cell in zip(kinds, row))}</tr>"
        for row in zip(*cells)
    )
    title = f"<caption>{_text(table.title)}</caption>" if table.title else ""
    more = f"<pre>{_text(table.caption)}</pre>" if table.caption else ""
    return f"<table>{title}<tr>{head}</tr>{body}</table>{more}"


def _text(part: object) -> str:
    """Return a part of a table as HTML."""
    return escape(printable_lines(str(part)))
