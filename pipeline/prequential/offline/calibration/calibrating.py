"""Find thresholds of a stream's detectors within a budget of false alarms, and report them.

The budget of a stream is divided equally among its detectors. A detector's part covers all sequences that the
detector watches (models, stages, segments), each by its rate of outcomes. All sequences share one threshold,
so the sequences with the most dependent errors use up most of the budget.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np
from prequential.configuration.settings.durations import DEFAULT_BUDGET, Budget, parse_budget
from prequential.configuration.settings.streams import DetectorConfig, Value
from prequential.engine.compiled.kernel import copy_of_rows
from prequential.engine.detectors import DETECTORS
from prequential.offline.backtesting.changes import Injection, SequenceChange, name_of
from prequential.offline.backtesting.making import inject
from prequential.offline.backtesting.report import new_grid
from prequential.offline.backtesting.sequences import PastSequence
from prequential.offline.calibration import rates
from prequential.offline.calibration.pasts import best_phase, far, reach_of
from prequential.topics.errors import WorkError, printable
from rich.table import Table
from rich.text import Text

#: Length of the longest bar, and of one power of ten, in characters.
_BAR, _DECADE = 36, 6


class Rate(msgspec.Struct):
    """Alarms of a stream at one threshold."""

    threshold: float
    #: Expected alarms in the budget's period, by the curve.
    alarms: float
    #: Alarms counted in generated streams; None: not counted at this threshold.
    counted: int | None
    #: Whether this is the new threshold.
    chosen: bool


class Calibrated(msgspec.Struct):
    """A detector of a stream, with its old and its new threshold."""

    stream: str
    detector: str
    #: How many sequences the detector watches.
    sequences: int
    parameter: str
    before: float
    after: float
    #: Expected false alarms in the budget's period: with the old threshold; and with the new one, with 95%
    #: bounds.
    alarms_before: float
    alarms: list[float]
    #: Median outcomes from the change to the alarm (None: most runs miss it), and the share of runs that find
    #: it.
    delay: float | None
    found: float | None
    rates: list[Rate]


class Left(msgspec.Struct):
    """A detector or a sequence that was left out, and why."""

    stream: str
    what: str
    why: str


class CalibrationReport(msgspec.Struct):
    """A complete calibration, as `--json` prints it."""

    #: By stream: its budget, and the rise of the mean loss for which delays are measured.
    budgets: dict[str, str]
    changes: dict[str, float]
    detectors: list[Calibrated]
    left: list[Left]
    #: By stream: its detectors with the new thresholds.
    streams: dict[str, list[DetectorConfig]]
    #: Notes to read first: sequences of which only a part is used, and results that are very uncertain.
    notes: list[Left] = []


def check_found(report: CalibrationReport) -> None:
    """Raise WorkError if no threshold was found, with the reasons."""
    if not report.detectors:
        reasons = "; ".join(f"{entry.stream} {entry.what}: {entry.why}" for entry in report.left)
        raise WorkError(printable(f"no threshold was found: {reasons or 'no detector is configured'}"))


def calibration_tables(report: CalibrationReport) -> Iterator[Table]:
    """Yield a calibration as tables for people, with plots of alarms by threshold."""
    if report.notes:
        yield _list("to be known first", report.notes)
    grid = new_grid("alarms of a stream in the time of its budget")
    for name in ("stream", "budget", "detector"):
        grid.add_column(name, overflow="fold")
    for name in ("now", "alarms", "new", "alarms", "95%", "rise", "after", "found"):
        grid.add_column(name, justify="right", overflow="fold")
    for calibrated in report.detectors:
        expected, low, high = calibrated.alarms
        grid.add_row(
            *map(Text,
                (printable(calibrated.stream), report.budgets[calibrated.stream],
                    printable(calibrated.detector))),
            _short(calibrated.before), _short(calibrated.alarms_before), _short(calibrated.after),
            _short(expected),
            f"{_short(low)}–{_short(high)}", f"{report.changes[calibrated.stream]:g}",
            "-" if calibrated.delay is None else f"{calibrated.delay:,.0f}",
            "-" if calibrated.found is None else f"{calibrated.found:.0%}",
        )  # fmt: skip
    yield grid
    for calibrated in report.detectors:
        yield _plot(calibrated)
    if report.left:
        yield _list("left as it is", report.left)


def _list(title: str, entries: list[Left]) -> Table:
    grid = new_grid(title)
    for name in ("stream", "what", "why"):
        grid.add_column(name, overflow="fold")
    for entry in entries:
        grid.add_row(*(Text(printable(text)) for text in (entry.stream, entry.what, entry.why)))
    return grid


def _plot(calibrated: Calibrated) -> Table:
    """Return a table of alarms by threshold; its bars are logarithmic."""
    grid = new_grid(
        f"{printable(calibrated.stream)}, {printable(calibrated.detector)}: alarms by {calibrated.parameter}"
    )
    for name in (calibrated.parameter, "alarms", "counted"):
        grid.add_column(name, justify="right")
    grid.add_column("")
    least = min(rate.alarms for rate in calibrated.rates if rate.alarms > 0)
    for rate in calibrated.rates:
        length = round(1 + _DECADE * math.log10(rate.alarms / least)) if rate.alarms > 0 else 0
        bar = ("█" if rate.counted is not None else "▒") * min(length, _BAR) + (" ◂" if rate.chosen else "")
        counted = "" if rate.counted is None else f"{rate.counted:,}"
        grid.add_row(_short(rate.threshold), _short(rate.alarms), counted, Text(bar))
    return grid


def lines(report: CalibrationReport) -> Iterator[str]:
    """Yield lines of configuration with the new thresholds, in YAML."""
    yield "streams:"
    for stream, detectors in report.streams.items():
        yield f"  {json.dumps(stream, ensure_ascii=not stream.isprintable())}:"
        yield f"    alarm_budget: {report.budgets[stream]}"
        yield f"    alarm_change: {_yaml(report.changes[stream])}"
        yield "    detectors:"
        for detector in detectors:
            yield f"      - {{{', '.join(_entries(detector))}}}"


def _entries(detector: DetectorConfig) -> Iterator[str]:
    declared = DETECTORS[detector.detector]
    yield f"detector: {detector.detector}"
    yield f"signal: {json.dumps(detector.signal)}"
    changed, complete = declared.changed(detector.params), declared.complete(detector.params)
    for parameter in declared.parameters:
        if parameter.name in changed or parameter is declared.threshold:
            yield f"{parameter.name}: {_yaml(complete[parameter.name])}"


def _yaml(value: Value) -> str:
    """Return a parameter's value in YAML 1.1, where a float with an exponent also needs a point.

    >>> _yaml(1e-22), _yaml(120.5), _yaml(True), _yaml("both")
    ('1.0e-22', '120.5', 'true', '"both"')
    """
    text = json.dumps(value)
    mantissa, exponent, power = text.partition("e")
    if isinstance(value, float) and exponent and "." not in mantissa:
        return f"{mantissa}.0e{power if power[0] in '+-' else '+' + power}"
    if isinstance(value, float) and exponent and power[0] not in "+-":
        return f"{mantissa}e+{power}"
    return text


def _short(value: float) -> str:
    """Return the value with three digits."""
    if value == 0 or 0.001 <= abs(value) < 1e6:
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.2e}"


#: Outcomes that are generated from each sequence by default, and the least and the most that are allowed.
OUTCOMES = 5_000_000
LEAST_OUTCOMES, MOST_OF_CALIBRATION = 100_000, 1_000_000_000

#: With fewer outcomes than this, the dependence of errors on each other cannot be estimated.
_LEAST_OUTCOMES = 1_000

#: The most outcomes between two alarms of a detector, as a multiple of the outcomes of the past. Beyond that,
#: an error of a tenth in the decay of the rate, which few outcomes don't reveal, amounts to several powers of
#: ten.
_MOST_TIMES = 2_000

#: Streams with a change that are made from each past one: how many, and outcomes before and after the change.
_STREAMS, _BEFORE, _AFTER = 10, 50_000, 100_000

#: Thresholds in a plot of several sequences, evenly spaced.
_SHOWN = 5

#: The half width of a 95% interval in standard deviations that are estimated from ten streams (Student's t).
_INTERVAL = 2.262

#: If the upper 95% bound exceeds the expected value by more than this factor, the report notes it before the
#: table.
_UNSURE = 10.0

#: The least effective sample size of a past. With fewer outcomes, the variance is not known to a seventh.
_LEAST_INDEPENDENT = 100


class CalibrationOptions(NamedTuple):
    """The options of a calibration: budget and rise to find (None: as configured), outcomes and seed."""

    #: None: the budgets of the streams' settings.
    budget: Budget | None
    #: Rise of the mean loss for which the delay is measured; None: the rises of the streams' settings.
    change: float | None
    #: Outcomes that are generated from each sequence.
    outcomes: int
    seed: int


def calibrate(
    pasts: Iterable[PastSequence], settings: CalibrationOptions, done: Callable[[], None] = lambda: None
) -> CalibrationReport:
    """Return thresholds for each stream with detectors, with the expected false alarms and delays.

    `done` is called after each sequence.
    """
    report = CalibrationReport({}, {}, [], [], {})
    by_stream: dict[str, list[PastSequence]] = {}
    for past in pasts:
        by_stream.setdefault(past.stream, []).append(past)
    for stream, pasts in by_stream.items():
        config = pasts[0].config
        budget = settings.budget or parse_budget(config.alarm_budget or DEFAULT_BUDGET)
        report.budgets[stream] = str(budget)
        report.changes[stream] = config.alarm_change if settings.change is None else settings.change
        _calibrate(stream, pasts, budget, settings, report, done)
    return report


def _calibrate(
    stream: str, pasts: Sequence[PastSequence], budget: Budget, settings: CalibrationOptions,
    report: CalibrationReport, done: Callable[[], None],
) -> None:  # fmt: skip
    configured = pasts[0].config.detectors
    able = [
        configured_detector
        for configured_detector in configured
        if DETECTORS[configured_detector.detector].threshold is not None
    ]
    for configured_detector in configured:
        if configured_detector not in able:
            why = f"{configured_detector.detector} has no threshold that sets a rate of false alarms"
            report.left.append(Left(stream, name_of(configured_detector), why))
    part = budget.rate / max(1, len(able))
    phases = [_phase(past, report) for past in pasts]
    usable = [past for past in phases if not _problem(past, len(pasts) / part, report)]
    if not able or not usable:
        return
    curves_of: list[list[PacedCurve]] = [[] for _ in able]  # by detector, those of the sequences
    for past in usable:
        pace = _pace(past)
        longest = pace * len(usable) / part
        _note_long_dependence(past, longest, settings.outcomes, report)
        curves = rates.curves(past, able, longest, settings.outcomes, settings.seed)
        for paced_curves, curve in zip(curves_of, curves):
            if curve is not None:
                paced_curves.append(PacedCurve(pace, curve))
        done()
    new = list(configured)
    found_of: dict[int, Calibrated] = {}
    for able_index, detector in enumerate(able):
        outcome = _of_detector(stream, detector, curves_of[able_index], part)
        if isinstance(outcome, Left):
            report.left.append(outcome)
            continue
        calibrated, after = outcome
        calibrated.alarms_before *= budget.period
        calibrated.alarms = [alarms * budget.period for alarms in calibrated.alarms]
        for rate in calibrated.rates:
            rate.alarms *= budget.period
        _note_wide_bounds(calibrated, report)
        index = configured.index(detector)
        new[index], found_of[index] = after, calibrated
        report.detectors.append(calibrated)
    report.streams[stream] = new
    _delays(stream, usable, tuple(new), found_of, report)


def _pace(past: PastSequence) -> float:
    """Return the number of outcomes per ms."""
    return (len(past) - 1) / float(past.t1.max() - past.t1.min())


def _phase(past: PastSequence, report: CalibrationReport) -> PastSequence:
    """Return the sequence's phases with the lowest mean loss; the report notes it if others are left out."""
    indices = best_phase(past.loss)
    if len(indices) == len(past):
        return past
    rows = copy_of_rows(past.rows, indices)
    mean, all_of_it = float(past.loss[indices].mean()), float(past.loss.mean())
    why = (
        f"its level changes: thresholds are those of its best {len(indices):,} of {len(past):,} outcomes, "
        f"from outcome {int(indices[0]) + 1:,} to {int(indices[-1]) + 1:,}, "
        f"whose mean loss is {mean:.3g}, of all {all_of_it:.3g}"
    )
    report.notes.append(Left(past.stream, _name(past), why))
    return replace(past, rows=rows)


def _note_long_dependence(
    past: PastSequence, longest: float, outcomes: int, report: CalibrationReport
) -> None:
    """Add a note to the report if the dependence is too long for the extrapolation."""
    counted, reach = rates.counted_of(outcomes), far(past.loss)
    if reach and longest > counted:
        why = (
            f"its outcomes depend on each other over {reach:,} of them and more, so what is rarer than "
            f"an alarm in {counted:,.0f}, and extrapolated, is known to a factor of about 1,000: "
            f"expected at least {math.ceil(longest / counted * outcomes):,} outcomes made, to count alarms on"
        )
        report.notes.append(Left(past.stream, _name(past), why))


def _note_wide_bounds(calibrated: Calibrated, report: CalibrationReport) -> None:
    """Add a note with the bounds to the report if the expected number of alarms is very uncertain."""
    expected, low, high = calibrated.alarms
    if high > _UNSURE * expected:
        why = (
            f"{low:.2g} to {high:.2g} false alarms in the time of the budget (95%), {expected:.2g} "
            "expected: its past is short for alarms this rare; a longer one, or a budget of more alarms, "
            "narrows that"
        )
        report.notes.append(Left(calibrated.stream, calibrated.detector, why))


def _problem(past: PastSequence, apart: float, report: CalibrationReport) -> bool:
    """Return whether a sequence can't give a rate of one false alarm in `apart` ms, and report the reason."""
    why = ""
    if len(past) < _LEAST_OUTCOMES:
        why = f"it has {len(past):,} outcomes: expected at least {_LEAST_OUTCOMES:,}"
    elif float(past.loss.min()) == float(past.loss.max()):
        why = "all its losses are the same"
    elif past.t1.min() == past.t1.max():
        why = "all its labels have one time"
    elif (wanted := _pace(past) * apart) > _MOST_TIMES * len(past):
        why = (
            f"it has {len(past):,} outcomes, the budget needs {wanted:,.0f} between alarms of a detector: "
            f"expected at least {math.ceil(wanted / _MOST_TIMES):,} outcomes, or a budget of more alarms"
        )
    elif (worth := len(past) / reach_of(past.loss).inflation) < _LEAST_INDEPENDENT:
        why = (
            f"its {len(past):,} outcomes depend on each other so much that they count as {worth:,.0f} "
            f"independent ones: expected at least {_LEAST_INDEPENDENT}"
        )
    if why:
        report.left.append(Left(past.stream, _name(past), why))
    return bool(why)


class PacedCurve(NamedTuple):
    """A detector on one sequence."""

    pace: float  # outcomes per ms
    curve: rates.Curve  # its rates of alarms


class ShownThreshold(NamedTuple):
    """A threshold in a plot, on the scale of curves."""

    u: float
    point: rates.ThresholdRates | None = None  # where its alarms were counted; None: they weren't


def _of_detector(
    stream: str, detector: DetectorConfig, curves: Sequence[PacedCurve], part: float
) -> tuple[Calibrated, DetectorConfig] | Left:
    """Return the threshold at which all sequences together have `part` alarms per ms."""
    threshold = rates.threshold_of(detector)
    if not curves:
        return Left(stream, name_of(detector), "it hardly ever alarms, whatever its threshold")

    def total(u: float) -> float:
        return sum(paced.pace * paced.curve.rate(u) for paced in curves)

    low = 0.0
    high = max(paced.curve.u_at(min(part / (len(curves) * paced.pace), 0.5)) for paced in curves)
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if total(middle) > part else (low, middle)
    # Rates above that of the lowest threshold that was tried are unknown.
    u = max(high, min(paced.curve.points[0].u for paced in curves))
    after = rates.with_threshold(detector, u)
    u = rates.scale_of(threshold, rates.value_of(threshold, u))
    shares = [paced.pace * paced.curve.rate(u) / total(u) for paced in curves]
    spread = math.sqrt(sum((share * paced.curve.spread(u)) ** 2 for share, paced in zip(shares, curves)))
    before = float(DETECTORS[detector.detector].complete(detector.params)[threshold.name])
    factors = [math.exp(_INTERVAL * sign * spread) for sign in (0, -1, 1)]
    by_threshold = [
        Rate(
            rates.value_of(threshold, shown.u), total(shown.u),
            None if shown.point is None else int(shown.point.alarms.sum()), shown.u == u,
        )
        for shown in _shown([paced.curve for paced in curves], u)
    ]  # fmt: skip
    calibrated = Calibrated(
        stream, name_of(detector), len(curves), threshold.name, before, rates.value_of(threshold, u),
        total(rates.scale_of(threshold, before)), [total(u) * factor for factor in factors], None, None,
        by_threshold,
    )  # fmt: skip
    return calibrated, after


def _shown(curves: Sequence[rates.Curve], u: float) -> list[ShownThreshold]:
    """Return the thresholds for a plot.

    For one sequence, they are the thresholds at which alarms were counted, and the new one.
    """
    if len(curves) == 1:
        thresholds = [ShownThreshold(point.u, point) for point in curves[0].points]
    else:
        least = min(curve.points[0].u for curve in curves)
        apart = (max(curve.points[-1].u for curve in curves) - least) / _SHOWN
        thresholds = [ShownThreshold(least + apart * step) for step in range(_SHOWN + 1)]
    return sorted([*thresholds, ShownThreshold(u)], key=lambda shown: shown.u)


def _delays(
    stream: str, pasts: Sequence[PastSequence], detectors: tuple[DetectorConfig, ...],
    calibrated: dict[int, Calibrated], report: CalibrationReport,
) -> None:  # fmt: skip
    """Measure how soon the new thresholds find the change, over all sequences."""
    delays: list[list[float]] = [[] for _ in detectors]
    injections = [Injection(report.changes[stream], SequenceChange(_BEFORE))]
    for past in pasts:
        with_detectors = replace(past, config=replace(past.config, detectors=detectors, objective=None))
        try:
            by_detector = inject(with_detectors, injections, _STREAMS, _AFTER, None)
        except ValueError as error:
            report.left.append(Left(stream, _name(past), f"no delay: {error}"))
            continue
        for detector_index, judged in enumerate(by_detector):
            delays[detector_index] += [
                math.inf if d is None else float(d) for run in judged for d in run.delays
            ]
    for detector_index, result in calibrated.items():
        if delays[detector_index]:
            half = float(np.quantile(delays[detector_index], 0.5, method="lower"))
            result.delay = half if math.isfinite(half) else None
            result.found = float(np.isfinite(delays[detector_index]).mean())


def _name(past: PastSequence) -> str:
    return " ".join(name for name in (past.model, past.segment, past.stage) if name)
