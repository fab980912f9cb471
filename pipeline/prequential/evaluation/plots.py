"""Plots of a result: a measure's course by model, from messages, and of losses, from the summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prequential.configuration.settings.stages import FINAL
from prequential.engine.measures.declaration import REGRESSION
from prequential.engine.measures.registry import MEASURES
from prequential.offline.replay.summary import SequenceSummary
from prequential.topics.outputs import Incident, Metrics
from prequential.views.svg import Band, Line, Plot
from prequential.views.watching.ranking import is_baseline
from prequential.views.wording.measures import COLUMNS, baseline_references
from prequential.views.wording.status import cause_name, span_of

#: The most plots of a summary; further streams are only in the table.
_STREAMS = 6


def plot_of(messages: Sequence[Metrics], measure: str, incidents: Sequence[Incident], title: str) -> Plot:
    """Plot a measure by model, from messages of one stream, segment, stage and estimator.

    For the share of correct predictions, or 1 minus that share, the plot also shows both baselines. Their
    values come from the first model's messages.
    """
    times = [one.ts for one in messages]
    timed = not messages[0].untimed and max(times) > min(times)
    models: dict[str, list[Metrics]] = {}
    for one in messages:
        models.setdefault(one.model, []).append(one)
    lines = [_line(own, model, measure, timed) for model, own in models.items()]
    first = next(iter(models.values()))
    for baseline in baseline_references(measure):
        if any(baseline.measure in one.measures for one in first):
            line = _line(first, baseline.line.short, baseline.measure, timed)
            ys = [None if y is None else 1 - y for y in line.y] if baseline.one_less else line.y
            lines.append(line._replace(y=ys, faint=True))
    shown = (one for one in incidents if one.model in models)
    declared = MEASURES[measure]
    bounds = declared.low, declared.high
    return Plot(title, lines, list(_bands(shown, timed)), timed=timed, bounds=bounds)


def course_plots(sequences: Iterable[SequenceSummary], incidents: Iterable[Incident]) -> Iterator[Plot]:
    """Yield a plot for each stream: the mean loss of its models by blocks of outcomes, in the final stage."""
    streams: dict[tuple[str, str], list[SequenceSummary]] = {}
    for one in sequences:
        if one.is_of(FINAL) and one.course.loss:
            streams.setdefault((one.stream, one.task), []).append(one)
    incidents = list(incidents)
    for (stream, task), own in list(streams.items())[:_STREAMS]:
        measure = COLUMNS[task][0]
        right = task != REGRESSION
        lines = [
            Line(
                one.model,
                # A block's point is at its end. The last block may not be full.
                [
                    min(one.outcomes, one.course.outcomes * (place + 1))
                    for place in range(len(one.course.loss))
                ],
                [1 - loss if right else loss for loss in one.course.loss], is_baseline(one.model),
            )
            for one in own
        ]  # fmt: skip
        sizes = {one.course.outcomes for one in own}
        of = "each outcome" if sizes == {1} else f"means of {min(sizes):,} outcomes" if len(sizes) == 1 else (
            "means of blocks of outcomes"
        )
        models = {one.model for one in own}
        bands = _bands((one for one in incidents if one.stream == stream and one.model in models), False)
        bounds = (0.0, 1.0) if right else (0.0, float("inf"))
        yield Plot(f"{stream}: {measure}, {of}", lines, list(bands), bounds=bounds)


def _line(messages: Sequence[Metrics], name: str, measure: str, timed: bool) -> Line:
    # If several points have the same place, the last one counts: the last set of messages repeats earlier
    # ones.
    newest = {one.ts if timed else one.outcomes: one.measures.get(measure) for one in messages}
    return Line(name, list(newest), list(newest.values()), is_baseline(name))


def _bands(incidents: Iterable[Incident], timed: bool) -> Iterator[Band]:
    axis = "ts" if timed else "outcome"
    for one in incidents:
        cause = cause_name(one.causes[0]) if one.causes else one.status
        yield Band(*span_of(one, axis), f"{one.model}: {cause}")
