"""A summary as HTML for a notebook: what was found in a sentence, plots, tables, and counts of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import FINAL
from prequential.evaluation.plots import course_plots
from prequential.offline.replay.summary import SequenceSummary, Summary
from prequential.offline.replay.text import (
    IN_PYTHON,
    finding_in_words,
    incident_lines,
    measures_in_table,
    outcome_lines,
    record_lines,
    reference_lines,
    shown_estimators,
)
from prequential.topics.reasons import printable
from prequential.views.wording.comparing import report
from prequential.views.wording.measures import COLUMNS, baseline_references
from prequential.views.wording.stages import stage_in_words

#: The most rows in a table; and the most streams and models in sentences.
_ROWS, _STREAMS, _MODELS = 40, 6, 4

STYLE = (
    "<style>.prequential table{border-collapse:collapse}.prequential td,.prequential th{padding:2px 8px;"
    "text-align:right;border-bottom:1px solid #8884}.prequential .l{text-align:left}"
    ".prequential pre{margin:6px 0;white-space:pre-wrap}</style>"
)


def page_of(summary: Summary, config: Config) -> str:
    """Return the summary as an HTML fragment: one `div` with its style, all text escaped."""
    parts = [STYLE, *(f"<p>{escape(printable(one))}</p>" for one in _sentences(summary, config))]
    parts.append(_text(f"looks wrong: {finding_in_words(one)}" for one in summary.findings))
    parts += [one._repr_html_() for one in course_plots(summary.sequences, summary.incidents)]
    for task in COLUMNS:
        rows = [one for one in summary.sequences if one.task == task]
        if rows:
            parts.append(_table(rows[:_ROWS], measures_in_table(rows, config)))
            if len(rows) > _ROWS:
                parts.append(_text([f"… and {len(rows) - _ROWS:,} more"]))
    parts.append(_text(reference_lines(summary)))
    parts.append(_text([*report(summary.comparisons, IN_PYTHON.pairs), *incident_lines(summary, IN_PYTHON)]))
    parts.append(_text([*record_lines(summary, IN_PYTHON), *outcome_lines(summary)]))
    return f'<div class="prequential">{"".join(parts)}</div>'


def _sentences(summary: Summary, config: Config) -> Iterator[str]:
    """Yield a sentence for each stream: its models' main measure over the whole run, and the baselines'."""
    streams: dict[tuple[str, str], list[SequenceSummary]] = {}
    for one in summary.sequences:
        if one.is_of(FINAL):
            streams.setdefault((one.stream, one.task), []).append(one)
    for (stream, _), own in list(streams.items())[:_STREAMS]:
        measure = next(iter(measures_in_table(own, config)), "")
        found = [
            f"{one.model} {value:.3f} in {one.outcomes:,} outcomes" for one in own[:_MODELS]
            if (value := one.measures[shown_estimators(one.measures)[0]].get(measure)) is not None
        ]  # fmt: skip
        if len(own) > _MODELS:
            found.append(f"and {len(own) - _MODELS:,} more models")
        baselines = [
            f"{name} {whole:.3f}" for name, whole, _ in _baselines(own[0], measure) if whole is not None
        ]
        if found:
            said = f"{stream}, {measure} over the whole run: {', '.join(found)}"
            yield f"{said}; baselines: {', '.join(baselines)}." if baselines else f"{said}."


def _baselines(
    one: SequenceSummary, measure: str
) -> Iterator[tuple[str, float | None, float | None]]:
    """Yield the baselines of a sequence's main measure: names, and values of the whole run and of now."""
    estimators = shown_estimators(one.measures)
    for baseline in baseline_references(measure):
        values = [one.measures[name].get(baseline.measure) for name in estimators]
        if any(value is not None for value in values):
            whole, latest = (
                1 - value if value is not None and baseline.one_less else value for value in values
            )
            yield baseline.line.name, whole, latest


def _text(lines: Iterable[str]) -> str:
    text = escape("\n".join(map(printable, lines)))
    return f"<pre>{text}</pre>" if text else ""


def _table(rows: Sequence[SequenceSummary], latest: Sequence[str]) -> str:
    whole = latest[:1]
    several = len({one.stream for one in rows}) > 1
    head = ["model", "stage", "outcomes", *(f"{name}, whole run" for name in whole)]
    head += [f"{name}, latest" for name in latest]
    lines = []
    for place, one in enumerate(rows):
        first, last = shown_estimators(one.measures)
        name = f"{one.stream}/{one.model}" if several else one.model
        numbers = [one.measures[first].get(measure) for measure in whole]
        numbers += [one.measures[last].get(measure) for measure in latest]
        lines.append(_row(name, stage_in_words(one.stage, one.same), f"{one.outcomes:,}", numbers))
        following = rows[place + 1] if place + 1 < len(rows) else None
        if following is None or following.stream != one.stream:
            owner = f"{one.stream}/" if several else ""
            for name, value, newest in _baselines(one, "".join(whole)):
                numbers = [value, newest, *([None] * (len(latest) - 1))]
                lines.append(_row(f"{owner}{name}", "", "", numbers))
    last = shown_estimators(rows[0].measures)[1]
    heads = "".join(f"<th>{escape(text)}</th>" for text in head)
    stream = "" if several else f"{escape(printable(rows[0].stream))}; "
    caption = f"{stream}latest: {escape(last)}"
    return f"<table><caption>{caption}</caption><tr>{heads}</tr>{''.join(lines)}</table>"


def _row(name: str, stage: str, outcomes: str, numbers: Sequence[float | None]) -> str:
    cells = "".join(f"<td>{'' if number is None else f'{number:.3f}'}</td>" for number in numbers)
    first = f'<td class="l">{escape(printable(name))}</td><td class="l">{escape(stage)}</td>'
    return f"<tr>{first}<td>{outcomes}</td>{cells}</tr>"
