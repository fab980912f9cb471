"""What Python users see: tables as text and HTML, a notebook's summary, warnings, short tracebacks."""

from __future__ import annotations

import io
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import wraps
from html import escape
from typing import Any, ParamSpec, TypeVar

from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import FINAL
from prequential.evaluation.plots import OutcomeTimes, course_plots
from prequential.offline.replay import text as terminal
from prequential.offline.replay.summary import NULL_LABEL, SequenceSummary, Summary
from prequential.offline.tables.opening import needs_pyarrow
from prequential.topics.errors import UsageError, WorkError, printable
from prequential.views.wording.comparison_report import report
from prequential.views.wording.console import Console, printable_lines
from prequential.views.wording.measures import COLUMNS
from rich.table import Table as RichTable
from rich.text import Text

#: The most rows in a table; and the most streams and models in sentences.
_MODEL_ROWS, _STREAMS, _MODELS = 40, 6, 4

STYLE = (
    "<style>.prequential table{border-collapse:collapse}.prequential td,.prequential th{padding:2px 8px;"
    "text-align:right;border-bottom:1px solid #8884}.prequential .l{text-align:left}"
    ".prequential pre{margin:6px 0;white-space:pre-wrap}</style>"
)


def page_of(
    summary: Summary, config: Config, times: Mapping[tuple[str, int, str], OutcomeTimes] | None = None
) -> str:
    """Return the summary as an HTML fragment: one `div` with its style, all text escaped.

    `times` are those of outcomes, for the axes of plots.
    """
    parts = [STYLE, *(f"<p>{escape(printable(sentence))}</p>" for sentence in _sentences(summary, config))]
    parts.append(_lines(f"looks wrong: {terminal.finding_in_words(finding)}" for finding in summary.findings))
    parts += [plot._repr_html_() for plot in course_plots(summary.sequences, summary.incidents, times)]
    for task in COLUMNS:
        rows = [sequence for sequence in summary.sequences if sequence.task == task]
        if rows:
            latest = terminal.measures_in_table(rows, config)
            shown = rows[:_MODEL_ROWS]
            parts.append(_html(terminal.table_of_models(shown, task, latest, baselines=True)))
            if len(rows) > _MODEL_ROWS:
                parts.append(_lines([f"… and {len(rows) - _MODEL_ROWS:,} more"]))
    parts.append(_lines(terminal.reference_lines(summary)))
    more = terminal.IN_PYTHON
    parts.append(_lines([*report(summary.comparisons, more.pairs), *terminal.incident_lines(summary, more)]))
    parts.append(_lines([*terminal.record_lines(summary, more), *terminal.outcome_lines(summary)]))
    return f'<div class="prequential">{"".join(parts)}</div>'


def _sentences(summary: Summary, config: Config) -> Iterator[str]:
    """Yield a sentence for each stream: its models' main measure over the whole run, and the baselines'."""
    streams: dict[tuple[str, str], list[SequenceSummary]] = {}
    for sequence in summary.sequences:
        if sequence.is_of(FINAL):
            streams.setdefault((sequence.stream, sequence.task), []).append(sequence)
    for (stream, _), own in list(streams.items())[:_STREAMS]:
        measure = next(iter(terminal.measures_in_table(own, config)), "")
        whole = terminal.shown_estimators(own[0].measures)[0]
        model_texts = [
            f"{sequence.model} {value:.3f} in {sequence.outcomes:,} outcomes" for sequence in own[:_MODELS]
            if (value := sequence.measures[whole].get(measure)) is not None
        ]  # fmt: skip
        if len(own) > _MODELS:
            model_texts.append(f"and {len(own) - _MODELS:,} more models")
        baselines = [
            f"{name} {value:.3f}" for name, [value] in terminal.baselines_of(own[0], measure, [whole])
        ]
        if model_texts:
            sentence = f"{stream}, {measure} over the whole run: {', '.join(model_texts)}"
            yield f"{sentence}; baselines: {', '.join(baselines)}." if baselines else f"{sentence}."


def _lines(lines: Iterable[str]) -> str:
    text = escape("\n".join(map(printable, lines)))
    return f"<pre>{text}</pre>" if text else ""


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
        tables = "".join(_html(table) for table in self._tables())
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
        hidden = self._names[len(shown) :]
        return [
            self._drawn(shown, [f"and {len(hidden)} more columns: {', '.join(hidden)}"] if hidden else [])
        ]

    def _drawn(self, shown: list[str], notes: list[str]) -> RichTable:
        """Return the table with these columns; notes and the number of hidden rows are below it."""
        row_indices: list[int] = list(range(len(self._rows)))
        if len(row_indices) > _ROWS:
            row_indices = row_indices[: _ROWS // 2] + row_indices[-_ROWS // 2 :]
            notes.append(f"{len(self._rows) - _ROWS:,} rows in the middle aren't shown: .to_pandas() has all")
        table = RichTable(caption="; ".join(notes) or None, caption_justify="left")
        for name in shown:
            is_text = any(isinstance(row.get(name), str) for row in self._rows)
            table.add_column(name, justify="left" if is_text else "right", no_wrap=True)
        for row_index in row_indices:
            table.add_row(*(Text(_cell(self._rows[row_index].get(name))) for name in shown))
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
    head = "".join(f"<th{kind}>{_text(column.header)}</th>" for kind, column in zip(kinds, table.columns))
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


#: The share of dropped records of a kind above which a warning is given.
_MOST = 0.5


#: Folders of this package: one if installed, two in a checkout.
_PACKAGE = tuple(sys.modules["prequential"].__path__)


def _caller() -> int:
    """Return the `stacklevel` with which warnings of the calling function name the user's code."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def warn(summary: Summary) -> None:
    """Call `warnings.warn` for each finding, and for each kind of which most records were dropped.

    Null labels aren't among these records: in tables they are labels that aren't known yet.
    The warnings name the line that called this package.
    """
    stacklevel = _caller()
    for name, kind in summary.records.items():
        drops = [drop for drop in summary.dropped if drop.kind == name]
        null = sum(drop.count for drop in drops if drop.code == NULL_LABEL)
        dropped, read = kind.dropped - null, kind.read - null
        if dropped > _MOST * read:
            first = next(drop for drop in drops if drop.code != NULL_LABEL)
            sentence = f"{dropped:,} of {read:,} {name} were dropped; most often: {first.reason}"
            warnings.warn(sentence, UserWarning, stacklevel=stacklevel)
    for finding in summary.findings:
        sentence = f"looks wrong: {terminal.finding_in_words(finding)}"
        warnings.warn(sentence, UserWarning, stacklevel=stacklevel)


P = ParamSpec("P")
T = TypeVar("T")


def with_short_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function with errors that show one traceback, without the errors that caused them.

    For errors in arguments and tables, the traceback also omits the code of this package.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (UsageError, WorkError) as error:
            raise error.with_traceback(None) from None
        except (TypeError, ValueError) as error:
            raise error from None

    return wrapper
