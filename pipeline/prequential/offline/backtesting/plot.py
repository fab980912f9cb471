"""The report as a plot: alarms over the course of the error, and how soon changes were found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from prequential.engine.compiled.kernel import Floats
from prequential.engine.detectors.objectives import every_detector
from prequential.offline.backtesting.detectors import name_of
from prequential.offline.backtesting.report import BacktestReport, DetectorAlarms
from prequential.offline.backtesting.svg import Panel, figure
from prequential.offline.past.sequences import PastSequence

#: How many sequences are drawn: those with the most alarms.
_DRAWN = 8

#: The error is drawn as a moving mean of the loss: over this share of a sequence, and at least this many
#: outcomes.
_SHARE, _LEAST = 0.01, 20


def plot(report: BacktestReport, sequences: Sequence[PastSequence]) -> str:
    """A backtest as the text of an SVG image; `sequences` are the report's."""
    panels = list(_past(report, sequences))
    panels += _delays(report.past.lines, report.past.window, "on the past")
    if report.injected is not None:
        injected = report.injected
        panels += _delays(injected.lines, injected.window, " and ".join(injected.injections))
    return figure(panels)


def _past(report: BacktestReport, sequences: Sequence[PastSequence]) -> Iterator[Panel]:
    watched = report.past.sequences
    order = sorted(range(len(watched)), key=lambda place: -len(watched[place].alarms))
    for place in sorted(order[:_DRAWN]):
        one = watched[place]
        sequence = sequences[place]
        marks: dict[str, list[int]] = {name_of(detector): [] for detector in every_detector(sequence.config)}
        for alarm, detector in zip(one.alarms, one.detectors):
            marks[detector].append(alarm.outcome)
        window = min(one.outcomes, max(_LEAST, int(_SHARE * one.outcomes)))
        names = ", ".join(name for name in (one.stream, one.model, one.segment, one.stage) if name)
        title = f"{names}: mean loss of {window:,} outcomes, and alarms"
        yield Panel(title, {"": _mean_loss(sequence.loss, window)}, marks=marks, dashed=one.changes)


def _mean_loss(losses: Floats, window: int) -> Floats:
    """Return the mean of the last `window` losses at each outcome; NaN while there are fewer."""
    total = np.concatenate([np.zeros(1), np.cumsum(losses)])
    means = np.full(len(losses), np.nan)
    means[window - 1 :] = (total[window:] - total[:-window]) / window
    return means


def _delays(lines: Sequence[DetectorAlarms], window: int, title: str) -> Iterator[Panel]:
    """Yield a panel with the share of changes found within each number of outcomes, by detector."""
    curves: dict[str, Floats] = {}
    for line in lines:
        scores = line.scores
        if scores is None or not scores.changes:
            continue
        known = [delay for run in scores.delays for delay in run if delay is not None]
        counts = np.bincount(known, minlength=window + 1)[: window + 1].cumsum()
        name = f"{line.detector} ({scores.false_alarms_per_10000 or 0.0:,.2f} false per 10,000)"
        curves[name] = counts[1:] / scores.changes
    if curves:
        title = f"{title}: share of changes found, by outcomes since"
        yield Panel(title, curves, low=0.0, high=1.0, apart=True)
