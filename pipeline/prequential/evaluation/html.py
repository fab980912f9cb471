"""A summary as HTML, for a notebook: tables, and each sequence's course as a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from prequential.replay.summary import Sequence as Evaluated
from prequential.replay.summary import Summary
from prequential.replay.text import (
    COLUMNS,
    IN_PYTHON,
    course_of,
    finding_in_words,
    incident_lines,
    outcome_lines,
    record_lines,
    shown_estimators,
)
from prequential.wording.comparing import report
from prequential.wording.stages import stage_in_words

#: Size of a course, in pixels.
_WIDTH, _HEIGHT = 140, 28

#: Rows of a table.
_ROWS = 40

_STYLE = (
    "<style>.prequential table{border-collapse:collapse}.prequential td,.prequential th{padding:2px 8px;"
    "text-align:right;border-bottom:1px solid #8884}.prequential .l{text-align:left}"
    ".prequential pre{margin:6px 0;white-space:pre-wrap}.prequential svg{vertical-align:middle}</style>"
)


def page_of(summary: Summary) -> str:
    """The summary as a piece of HTML: one `div` with its style, every text escaped."""
    parts = [_STYLE, _text([*record_lines(summary, IN_PYTHON), *outcome_lines(summary)])]
    for task in COLUMNS:
        rows = [one for one in summary.sequences if one.task == task]
        if rows:
            parts.append(_table(rows[:_ROWS], task))
            if len(rows) > _ROWS:
                parts.append(_text([f"… and {len(rows) - _ROWS:,} more"]))
    parts.append(_text([*report(summary.comparisons, IN_PYTHON.pairs), *incident_lines(summary, IN_PYTHON)]))
    parts.append(_text(f"looks wrong: {finding_in_words(one)}" for one in summary.findings))
    return f'<div class="prequential">{"".join(parts)}</div>'


def _text(lines: Iterable[str]) -> str:
    text = escape("\n".join(lines))
    return f"<pre>{text}</pre>" if text else ""


def _table(rows: Sequence[Evaluated], task: str) -> str:
    whole, latest = COLUMNS[task]
    several = len({one.stream for one in rows}) > 1
    head = ["model", "stage", "outcomes", *(f"{name}, whole run" for name in whole)]
    head += [f"{name}, latest" for name in latest] + [f"{whole[0]} over time"]
    lines = []
    for one in rows:
        first, last = shown_estimators(one.measures)
        name = f"{one.stream}/{one.model}" if several else one.model
        numbers = [one.measures[first].get(measure) for measure in whole]
        numbers += [one.measures[last].get(measure) for measure in latest]
        cells = "".join(f"<td>{'' if number is None else f'{number:.3f}'}</td>" for number in numbers)
        stage = stage_in_words(one.stage, one.same)
        lines.append(
            f'<tr><td class="l">{escape(name)}</td><td class="l">{escape(stage)}</td>'
            f"<td>{one.outcomes:,}</td>{cells}<td>{_course(one, whole[0])}</td></tr>"
        )
    last = shown_estimators(rows[0].measures)[1]
    heads = "".join(f"<th>{escape(text)}</th>" for text in head)
    caption = f"latest: {escape(last)}" if several else f"{escape(rows[0].stream)}; latest: {escape(last)}"
    return f"<table><caption>{caption}</caption><tr>{heads}</tr>{''.join(lines)}</table>"


def _course(one: Evaluated, measure: str) -> str:
    """A line from 0 at the bottom to 1 at the top."""
    heights = course_of(one)
    if not heights:
        return ""
    step = _WIDTH / max(1, len(heights) - 1)
    points = " ".join(
        f"{step * place:.1f},{1 + (_HEIGHT - 2) * (1 - height):.1f}" for place, height in enumerate(heights)
    )
    ends = f"from {heights[0]:.3f} to {heights[-1]:.3f}"
    said = escape(f"{measure}: means of {one.course.outcomes:,} outcomes, {ends}")
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{said}"><title>{said}</title>'
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )
