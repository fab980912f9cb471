"""Results that are displayed as tables: as text, as HTML for a notebook, and as rows for programs."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from html import escape
from typing import Any

from prequential.evaluation.html import STYLE
from prequential.tables.formats import needs_pyarrow
from prequential.wording.console import Console, printable_lines
from rich.table import Table

#: The width of a line in characters, which tables with courses need.
WIDTH = 120


class Shown(ABC):
    """A result that consists of tables: `print` shows them as text, a notebook as HTML."""

    @abstractmethod
    def _tables(self) -> Iterable[Table]:
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

    def __repr__(self) -> str:
        return text_of(lambda console: console.print(*self._tables(), sep="\n"))

    def _repr_html_(self) -> str:
        tables = "".join(_html(one) for one in self._tables())
        return f'<div class="prequential">{STYLE}{tables}</div>'


def text_of(show: Callable[[Console], None]) -> str:
    """Return the text that is printed on a console, without blanks at the ends of lines."""
    text = io.StringIO()
    # In a notebook the text must also go to `file`, since the notebook shows `_repr_html_` instead.
    show(Console(file=text, width=WIDTH, force_terminal=False, force_jupyter=False, color_system=None))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _html(table: Table) -> str:
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
