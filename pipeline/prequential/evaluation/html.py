"""A summary as HTML for a notebook: a plot for each stream, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from prequential.evaluation.plots import course_plots
from prequential.replay.summary import SequenceSummary as Evaluated
from prequential.replay.summary import Summary
from prequential.replay.text import (
    COLUMNS,
    IN_PYTHON,
    finding_in_words,
    incident_lines,
    outcome_lines,
    record_lines,
    reference_lines,
    shown_estimators,
)
from prequential.topics.reasons import printable
from prequential.wording.comparing import report
from prequential.wording.stages import stage_in_words

#: The most rows in a table.
_ROWS = 40

STYLE = (
    "<style>.prequential table{border-collapse:collapse}.prequential td,.prequential th{padding:2px 8px;"
    "text-align:right;border-bottom:1px solid #8884}.prequential .l{text-align:left}"
    ".prequential pre{margin:6px 0;white-space:pre-wrap}</style>"
)


def page_of(summary: Summary) -> str:
    """Return the summary as an HTML fragment: one `div` with its style, all text escaped."""
    parts = [STYLE, _text([*record_lines(summary, IN_PYTHON), *outcome_lines(summary)])]
    parts += [one._repr_html_() for one in course_plots(summary.sequences, summary.incidents)]
    for task in COLUMNS:
        rows = [one for one in summary.sequences if one.task == task]
        if rows:
            parts.append(_table(rows[:_ROWS], task))
            if len(rows) > _ROWS:
                parts.append(_text([f"… and {len(rows) - _ROWS:,} more"]))
    parts.append(_text(reference_lines(summary)))
    parts.append(_text([*report(summary.comparisons, IN_PYTHON.pairs), *incident_lines(summary, IN_PYTHON)]))
    parts.append(_text(f"looks wrong: {finding_in_words(one)}" for one in summary.findings))
    return f'<div class="prequential">{"".join(parts)}</div>'


def _text(lines: Iterable[str]) -> str:
    text = escape("\n".join(map(printable, lines)))
    return f"<pre>{text}</pre>" if text else ""


def _table(rows: Sequence[Evaluated], task: str) -> str:
    whole, latest = COLUMNS[task]
    several = len({one.stream for one in rows}) > 1
    head = ["model", "stage", "outcomes", *(f"{name}, whole run" for name in whole)]
    head += [f"{name}, latest" for name in latest]
    lines = []
    for one in rows:
        first, last = shown_estimators(one.measures)
        name = f"{one.stream}/{one.model}" if several else one.model
        numbers = [one.measures[first].get(measure) for measure in whole]
        numbers += [one.measures[last].get(measure) for measure in latest]
        cells = "".join(f"<td>{'' if number is None else f'{number:.3f}'}</td>" for number in numbers)
        stage = stage_in_words(one.stage, one.same)
        lines.append(
            f'<tr><td class="l">{escape(printable(name))}</td><td class="l">{escape(stage)}</td>'
            f"<td>{one.outcomes:,}</td>{cells}</tr>"
        )
    last = shown_estimators(rows[0].measures)[1]
    heads = "".join(f"<th>{escape(text)}</th>" for text in head)
    stream = "" if several else f"{escape(printable(rows[0].stream))}; "
    caption = f"{stream}latest: {escape(last)}"
    return f"<table><caption>{caption}</caption><tr>{heads}</tr>{''.join(lines)}</table>"
