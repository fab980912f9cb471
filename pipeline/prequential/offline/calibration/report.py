"""The result of a calibration: as JSON, as tables, and as lines of the configuration."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import msgspec
from prequential.configuration.settings.streams import DetectorConfig, Value
from prequential.engine.detectors import DETECTORS
from prequential.offline.backtesting.report import new_grid
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
        reasons = "; ".join(f"{one.stream} {one.what}: {one.why}" for one in report.left)
        raise WorkError(printable(f"no threshold was found: {reasons or 'no detector is configured'}"))


def tables(report: CalibrationReport) -> Iterator[Table]:
    """Yield a calibration as tables for people, with plots of alarms by threshold."""
    if report.notes:
        yield _list("to be known first", report.notes)
    grid = new_grid("alarms of a stream in the time of its budget")
    for name in ("stream", "budget", "detector"):
        grid.add_column(name, overflow="fold")
    for name in ("now", "alarms", "new", "alarms", "95%", "rise", "after", "found"):
        grid.add_column(name, justify="right", overflow="fold")
    for one in report.detectors:
        expected, low, high = one.alarms
        grid.add_row(
            *map(Text, (printable(one.stream), report.budgets[one.stream], printable(one.detector))),
            _short(one.before), _short(one.alarms_before), _short(one.after), _short(expected),
            f"{_short(low)}–{_short(high)}", f"{report.changes[one.stream]:g}",
            "-" if one.delay is None else f"{one.delay:,.0f}",
            "-" if one.found is None else f"{one.found:.0%}",
        )  # fmt: skip
    yield grid
    for one in report.detectors:
        yield _plot(one)
    if report.left:
        yield _list("left as it is", report.left)


def _list(title: str, some: list[Left]) -> Table:
    grid = new_grid(title)
    for name in ("stream", "what", "why"):
        grid.add_column(name, overflow="fold")
    for left in some:
        grid.add_row(*(Text(printable(text)) for text in (left.stream, left.what, left.why)))
    return grid


def _plot(one: Calibrated) -> Table:
    """Return a table of alarms by threshold; its bars are logarithmic."""
    grid = new_grid(f"{printable(one.stream)}, {printable(one.detector)}: alarms by {one.parameter}")
    for name in (one.parameter, "alarms", "counted"):
        grid.add_column(name, justify="right")
    grid.add_column("")
    least = min(rate.alarms for rate in one.rates if rate.alarms > 0)
    for rate in one.rates:
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
    for one in declared.parameters:
        if one.name in changed or one is declared.threshold:
            yield f"{one.name}: {_yaml(complete[one.name])}"


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
