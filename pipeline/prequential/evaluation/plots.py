"""Plots of a result: a measure's course by model, from messages, and of losses, from the summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from prequential.configuration.settings.stages import FINAL
from prequential.engine.estimators.naming import is_baseline
from prequential.engine.measures.declaration import REGRESSION
from prequential.engine.measures.registry import MEASURES
from prequential.offline.replay.summary import SequenceSummary
from prequential.topics.outputs import Incident, Metrics
from prequential.views.state.ranking import look_by_name
from prequential.views.svg import Band, Line, Plot
from prequential.views.wording.measures import COLUMNS, baseline_references
from prequential.views.wording.status import cause_name, span_of

#: The most plots of a summary; further streams are only in the table.
_STREAMS = 6


def plot_of(messages: Sequence[Metrics], measure: str, incidents: Sequence[Incident], title: str) -> Plot:
    """Plot a measure by model, from messages of one stream, segment, stage and estimator.

    For the share of correct predictions, or 1 minus that share, the plot also shows both baselines. Their
    values come from the first model's messages.
    """
    times = [message.ts for message in messages]
    timed = not messages[0].untimed and max(times) > min(times)
    models: dict[str, list[Metrics]] = {}
    for message in messages:
        models.setdefault(message.model, []).append(message)
    looks = look_by_name(models)
    lines = [
        _line(own, model, measure, timed)._replace(look=looks.get(model)) for model, own in models.items()
    ]
    first = next(iter(models.values()))
    for baseline in baseline_references(measure):
        if any(baseline.measure in message.measures for message in first):
            line = _line(first, baseline.line.short, baseline.measure, timed)
            ys = [None if y is None else 1 - y for y in line.y] if baseline.one_less else line.y
            lines.append(line._replace(y=ys, faint=True))
    shown = (incident for incident in incidents if incident.model in models)
    declared = MEASURES[measure]
    bounds = declared.low, declared.high
    return Plot(title, lines, list(_bands(shown, timed)), timed=timed, bounds=bounds)


class OutcomeTimes(NamedTuple):
    """Label times (epoch ms) after numbers of outcomes, in order, from the messages of one model."""

    outcomes: list[int]
    times: list[int]

    def times_after(self, outcomes: Sequence[float]) -> list[float]:
        """Return the times after these numbers of outcomes; between messages they are interpolated."""
        return [float(time) for time in np.interp(outcomes, self.outcomes, self.times)]


def times_of(messages: Iterable[Metrics]) -> dict[tuple[str, int, str], OutcomeTimes]:
    """Return by stream, partition and model the times of outcomes; without models whose records have none."""
    times_by_outcome: dict[tuple[str, int, str], dict[int, int]] = {}
    for message in messages:
        whole = message.segment is None and FINAL in (message.stage, *(message.same or ()))
        if whole and message.outcomes and not message.untimed:
            times_by_outcome.setdefault((message.stream, message.partition, message.model), {})[
                message.outcomes
            ] = message.ts
    return {
        key: OutcomeTimes(sorted(own), [own[n] for n in sorted(own)])
        for key, own in times_by_outcome.items() if max(own.values()) > min(own.values())
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
    for sequence in sequences:
        if sequence.is_of(FINAL) and sequence.course.loss:
            streams.setdefault((sequence.stream, sequence.task), []).append(sequence)
    incidents = list(incidents)
    for (stream, task), own in list(streams.items())[:_STREAMS]:
        measure = COLUMNS[task][0]
        shows_correct = task != REGRESSION
        clocks = {
            sequence.model: times.get((sequence.stream, sequence.partition, sequence.model))
            for sequence in own
        }
        timed = all(clock is not None for clock in clocks.values())
        looks = look_by_name(sequence.model for sequence in own)
        lines = [
            Line(
                sequence.model, _axis_positions(sequence, clocks[sequence.model] if timed else None),
                [1 - loss if shows_correct else loss for loss in sequence.course.loss],
                is_baseline(sequence.model),
                looks.get(sequence.model),
            )
            for sequence in own
        ]  # fmt: skip
        sizes = {sequence.course.outcomes for sequence in own}
        points_text = (
            "each outcome"
            if sizes == {1}
            else f"means of {min(sizes):,} outcomes"
            if len(sizes) == 1
            else ("means of blocks of outcomes")
        )
        models = {sequence.model for sequence in own}
        shown = (incident for incident in incidents if incident.stream == stream and incident.model in models)
        bands = _bands(shown, timed)
        bounds = (0.0, 1.0) if shows_correct else (0.0, float("inf"))
        yield Plot(f"{stream}: {measure}, {points_text}", lines, list(bands), timed=timed, bounds=bounds)


def _axis_positions(sequence: SequenceSummary, clock: OutcomeTimes | None) -> Sequence[float]:
    """Return where the points of a course are: at the ends of its blocks; the last may be shorter."""
    course = sequence.course
    ends = [min(sequence.outcomes, course.outcomes * (block + 1)) for block in range(len(course.loss))]
    return ends if clock is None else clock.times_after(ends)


def _line(messages: Sequence[Metrics], name: str, measure: str, timed: bool) -> Line:
    # If several points have the same place, the last one counts: the last set of messages repeats earlier
    # ones.
    newest = {
        message.ts if timed else message.outcomes: message.measures.get(measure) for message in messages
    }
    return Line(name, list(newest), list(newest.values()), is_baseline(name))


def _bands(incidents: Iterable[Incident], timed: bool) -> Iterator[Band]:
    axis = "ts" if timed else "outcome"
    for incident in incidents:
        cause = cause_name(incident.causes[0]) if incident.causes else incident.status
        yield Band(*span_of(incident, axis), f"{incident.model}: {cause}")
