"""Read the records of an evaluation again: for backtests of detectors, and thresholds for a budget."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from prequential.configuration.settings.durations import parse_budget
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig
from prequential.evaluation.inputs import Inputs
from prequential.evaluation.shown import Shown
from prequential.offline.backtesting import changes as detection
from prequential.offline.backtesting import report as backtests
from prequential.offline.backtesting.making import MOST_OUTCOMES, MOST_SEEDS, BacktestOptions, backtest
from prequential.offline.backtesting.report import plot
from prequential.offline.backtesting.sequences import PastSequence, read_past, watched
from prequential.offline.calibration import calibrating
from prequential.offline.calibration.calibrating import calibrate
from prequential.offline.replay.summary import Summary
from prequential.runtime.compilation import compile_loops, progress_bar
from prequential.topics.errors import UsageError
from prequential.topics.outputs import Alarm, Output
from prequential.topics.values import milliseconds
from prequential.views.wording.console import complain

if TYPE_CHECKING:
    import os

    from rich.table import Table

#: A change: after which outcome (from 1), or its fields.
Change = int | Mapping[str, Any]

#: Spellings of arguments whose names differ from those of the command-line options.
_SPELLED = {"detector": "detectors="}


class Backtest(Shown):
    """The alarms that drift detectors would have raised on the past, and how accurate those are.

    Attributes
    ----------
    report
        The complete report: sequences with their alarms, detectors, and their scores against changes, as
        `prequential detectors --json` prints it.
    """

    def __init__(self, report: backtests.BacktestReport, svg: str) -> None:
        self.report = report
        self._svg = svg

    @property
    def alarms(self) -> list[Alarm]:
        """All alarms on the past, by sequence and in order, as structs of `prequential.topics.outputs`."""
        return [alarm for sequence in self.report.past.sequences for alarm in sequence.alarms]

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict for each detector on the past (`on`: `past`), and in streams like it (`injected`).

        Each dict has `detector`, `sequences`, `outcomes` and `alarms`. The scores against changes are
        `changes`, `found`, `probability` (the share found), `false_alarms_per_10000`, `delay_mean`,
        `delay_median` (in outcomes) and `f1`. They are None if no change is known, or if the divisor is 0.
        """
        injected = self.report.injected
        parts = [("past", self.report.past.lines), ("injected", injected.lines if injected else [])]
        names = (
            "changes", "found", "probability", "false_alarms_per_10000", "delay_mean", "delay_median", "f1",
        )  # fmt: skip
        return [
            {
                "on": on, "detector": line.detector, "sequences": line.sequences, "outcomes": line.outcomes,
                "alarms": line.alarms, **{name: getattr(line.scores, name, None) for name in names},
            }
            for on, lines in parts for line in lines
        ]  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write the plot of alarms over the course of the error as SVG; returns its bytes.

        Raises OSError if the file can't be written.
        """
        return Path(path).write_bytes(self._svg.encode())

    def _tables(self) -> Iterable[Table]:
        return backtests.tables(self.report)

    def _repr_html_(self) -> str:
        return super()._repr_html_() + self._svg


class Calibration(Shown):
    """Thresholds of drift detectors for a budget of false alarms.

    Attributes
    ----------
    report
        The complete report, as `prequential calibrate --json` prints it. It also has the alarms by threshold,
        and what was left out and why.
    """

    def __init__(self, report: calibrating.CalibrationReport) -> None:
        self.report = report

    @property
    def text(self) -> str:
        """The configuration's lines with the new thresholds, as YAML."""
        return "".join(f"{line}\n" for line in calibrating.lines(self.report))

    @property
    def config(self) -> dict[str, Any]:
        """The same as a dict: `evaluate(…, config=found.config)` has the new thresholds."""
        config: dict[str, Any] = yaml.safe_load(self.text)
        return config

    @property
    def left(self) -> list[dict[str, str]]:
        """Detectors and sequences that were left out: `stream`, `what` and `why` of each."""
        return [{"stream": entry.stream, "what": entry.what, "why": entry.why} for entry in self.report.left]

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict for each detector that has a new threshold.

        Each dict has `stream`, `budget`, `detector`, `sequences`, `parameter`, and its values `before` and
        `after`. `alarms_before` and `alarms` are the false alarms expected in the budget's period;
        `alarms_low` and `alarms_high` are the 95% bounds of `alarms`. For a rise of the mean loss by
        `change`, there are the median `delay` in outcomes (None: most runs don't find the rise) and the share
        `found`.
        """
        return [
            {
                "stream": calibrated.stream, "budget": self.report.budgets[calibrated.stream],
                "detector": calibrated.detector,
                "sequences": calibrated.sequences, "parameter": calibrated.parameter,
                "before": calibrated.before,
                "after": calibrated.after, "alarms_before": calibrated.alarms_before,
                "alarms": calibrated.alarms[0],
                "alarms_low": calibrated.alarms[1], "alarms_high": calibrated.alarms[2],
                "change": self.report.changes[calibrated.stream], "delay": calibrated.delay,
                "found": calibrated.found,
            }
            for calibrated in self.report.detectors
        ]  # fmt: skip

    def _tables(self) -> Iterable[Table]:
        return calibrating.calibration_tables(self.report)


class Looking:
    """Reads the records of an evaluation again, and compares the new summary with `summary`."""

    def __init__(self, inputs: Inputs | None, config: Config, summary: Summary) -> None:
        if inputs is None:
            raise UsageError(
                "an Evaluator keeps no records: expected a result of evaluate, whose tables are read again"
            )
        inputs.check_again()
        self._inputs, self._config, self._summary = inputs, config, summary

    def backtest(
        self, detectors: Sequence[str | Mapping[str, Any]], changes: Sequence[Change],
        inject: Sequence[str], wanted: Mapping[str, str | None], *, tolerance: int, seeds: int | None,
        block: int | None,
    ) -> Backtest:  # fmt: skip
        """See `Result.detectors`."""
        _check_whole("tolerance", tolerance, 1, MOST_OUTCOMES)
        _check_whole("seeds", seeds, 1, MOST_SEEDS)
        _check_whole("block", block, 1, MOST_OUTCOMES)
        asked = BacktestOptions(
            [detection.parse_known(_timed(change), f"changes[{index}]") for index,
                change in enumerate(changes)],
            [detection.parse_injection(str(text), "inject") for text in inject], inject, tolerance, seeds,
            block,
        )  # fmt: skip
        asked.check(_spelled)
        config = self._config
        if parsed_detectors := [parsed for detector in detectors for parsed in _detectors(detector)]:
            config = detection.with_detectors(config, parsed_detectors, "detectors")
        compile_loops(complain, config)
        messages: list[Output] = []
        past = watched(self._past(config, messages.append), wanted, _spelled)
        report = backtest(past, messages, asked, complain, _spelled)
        return Backtest(report, plot(report, past))

    def calibrate(
        self, budget: str | None, change: float | None, outcomes: int, seed: int, stream: str | None
    ) -> Calibration:
        """See `Result.calibrate`."""
        _check_whole("outcomes", outcomes, calibrating.LEAST_OUTCOMES, calibrating.MOST_OF_CALIBRATION)
        _check_whole("seed", seed, -(1 << 62), 1 << 62)
        if change is not None and not (isinstance(change, (int, float)) and 0 < change < math.inf):
            raise UsageError(f"change is {change!r}: expected a number above 0")
        parsed = None if budget is None else parse_budget(budget)
        compile_loops(complain, self._config)
        pasts = watched(self._past(self._config, lambda output: None), {"stream": stream}, _spelled)
        settings = calibrating.CalibrationOptions(parsed, change, outcomes, seed)
        with progress_bar(unit=None) as bar:
            task = bar.add_task("calibrating", total=len(pasts))
            report = calibrate(pasts, settings, partial(bar.advance, task))
        calibrating.check_found(report)
        return Calibration(report)

    def _past(self, config: Config, put: Any) -> list[PastSequence]:
        """Read the tables again and return all sequences; raises UsageError if the tables have changed."""
        with progress_bar() as bar:
            sources = self._inputs.sources(config, self._inputs.open(), bar)
            past, summary = read_past(config, sources, put, bar)
        if list(_levels(summary)) != list(_levels(self._summary)):
            raise UsageError(
                "the tables have changed since they were evaluated: expected the same records, or another "
                "evaluation of them as they are"
            )
        return past


def _levels(summary: Summary) -> Iterator[tuple[Any, ...]]:
    """Yield the values that two evaluations of the same records share, whatever their detectors."""
    for sequence in summary.sequences:
        yield sequence.stream, sequence.model, sequence.stage, sequence.outcomes, sequence.measures


def _detectors(declared: str | Mapping[str, Any]) -> list[DetectorConfig]:
    """Parse a detector given as text or as a configuration's dict; both are parsed as on a command line."""
    if isinstance(declared, Mapping):
        fields = dict(declared)
        words = [str(fields.pop("detector", ""))]
        for name, value in fields.items():
            words.append(f"{name}={str(value).lower() if isinstance(value, bool) else value}")
        declared = " ".join(words)
    elif not isinstance(declared, str):
        raise UsageError(f"detectors: {declared!r:.40}: expected text such as 'adwin delta=0.01', or a dict")
    return detection.parse_detector(declared, "detectors")


def several(value: Any) -> list[Any]:
    """Return the entries of a list or another iterable; anything else is one entry."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, (str, Mapping)) else [value]


def _timed(change: Change) -> Change:
    """Return the change with a datetime converted to epoch milliseconds."""
    if isinstance(change, Mapping) and not isinstance(change.get("ts"), (str, int, type(None))):
        try:
            return {**change, "ts": milliseconds(change["ts"])}
        except ValueError as error:
            raise UsageError(f"changes: {error}") from None
    return change


def _check_whole(name: str, value: Any, least: int, most: int) -> None:
    """Raise UsageError unless the value is None or a whole number within bounds."""
    if value is not None and (type(value) is not int or not least <= value <= most):
        raise UsageError(f"{name} is {value!r:.40}: expected a whole number from {least} to {most}")


def _spelled(name: str) -> str:
    return _SPELLED.get(name, f"{name}=")
