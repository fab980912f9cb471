"""Plots of a result: a measure's course by model, from messages, and of losses, from the summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from prequential.configuration.settings.stages import FINAL
from prequential.engine.measures.declaration import REGRESSION
from prequential.engine.measures.registry import MEASURES
from prequential.offline.replay.summary import SequenceSummary
from prequential.topics.outputs import Incident, Metrics
from prequential.views.svg import Band, Line, Plot
from prequential.views.watching.ranking import is_baseline, look_by_name
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
    looks = look_by_name(models)
    lines = [
        _line(own, model, measure, timed)._replace(look=looks.get(model)) for model, own in models.items()
    ]
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


class OutcomeTimes(NamedTuple):
    """Label times (epoch ms) after numbers of outcomes, in order, from the messages of one model."""

    outcomes: list[int]
    times: list[int]

    def at(self, outcomes: Sequence[float]) -> list[float]:
        """Return the times after these numbers of outcomes; between messages they are interpolated."""
        return [float(time) for time in np.interp(outcomes, self.outcomes, self.times)]


def times_of(messages: Iterable[Metrics]) -> dict[tuple[str, int, str], OutcomeTimes]:
    """Return by stream, partition and model the times of outcomes; without models whose records have none."""
    found: dict[tuple[str, int, str], dict[int, int]] = {}
    for one in messages:
        whole = one.segment is None and FINAL in (one.stage, *(one.same or ()))
        if whole and one.outcomes and not one.untimed:
            found.setdefault((one.stream, one.partition, one.model), {})[one.outcomes] = one.ts
    return {
        key: OutcomeTimes(sorted(own), [own[n] for n in sorted(own)])
        for key, own in found.items() if max(own.values()) > min(own.values())
    }  # fmt: skip


def course_plots(
    sequences: Iterable[SequenceSummary], incidents: Iterable[Incident],
    times: Mapping[tuple[str, int, str], OutcomeTimes] | None = None,
) -> Iterator[Plot]:  # fmt: skip
    """Yield a plot for each stream: the mean loss of its models by blocks of outcomes, in the final stage.

    The axis has dates if `times` are known of all of its models, else numbers of outcomes.
    """
    times = times or {}
    streams: dict[tuple[str, str], list[SequenceSummary]] = {}
    for one in sequences:
        if one.is_of(FINAL) and one.course.loss:
            streams.setdefault((one.stream, one.task), []).append(one)
    incidents = list(incidents)
    for (stream, task), own in list(streams.items())[:_STREAMS]:
        measure = COLUMNS[task][0]
        right = task != REGRESSION
        known = {one.model: times.get((one.stream, one.partition, one.model)) for one in own}
        timed = all(clock is not None for clock in known.values())
        looks = look_by_name(one.model for one in own)
        lines = [
            Line(
                one.model, _places(one, known[one.model] if timed else None),
                [1 - loss if right else loss for loss in one.course.loss], is_baseline(one.model),
                looks.get(one.model),
            )
            for one in own
        ]  # fmt: skip
        sizes = {one.course.outcomes for one in own}
        of = "each outcome" if sizes == {1} else f"means of {min(sizes):,} outcomes" if len(sizes) == 1 else (
            "means of blocks of outcomes"
        )
        models = {one.model for one in own}
        bands = _bands((one for one in incidents if one.stream == stream and one.model in models), timed)
        bounds = (0.0, 1.0) if right else (0.0, float("inf"))
        yield Plot(f"{stream}: {measure}, {of}", lines, list(bands), timed=timed, bounds=bounds)


def _places(sequence: SequenceSummary, clock: OutcomeTimes | None) -> Sequence[float]:
    """Return where the points of a course are: at the ends of its blocks; the last may be shorter."""
    course = sequence.course
    ends = [min(sequence.outcomes, course.outcomes * (place + 1)) for place in range(len(course.loss))]
    return ends if clock is None else clock.at(ends)


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
