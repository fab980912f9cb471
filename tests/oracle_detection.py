"""Detectors and their signals for the test oracle (contract, section 4)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from oracle_detectors import TESTS, Harm, Test, seed_of
from oracle_estimators import ALL_MEASURES, Estimator, Halving, Outcome, parse_estimator
from oracle_ranks import RANKED
from oracle_records import Settings
from oracle_scores import FURTHER_NUMERIC, OF_TOP, WEIGHTED

DEFAULT_DELTA = 0.005  # the contract's default detector on the 0/1 loss
DEFAULT_LAMBDA = 50.0  # ditto
DEFAULT_MIN_OUTCOMES = 30  # outcomes; the contract's default


class ErrorEstimate:
    """An estimator's error: the mean of the losses as they were when the outcomes came.

    Revisions never reach it: detectors keep what they saw.
    """

    def __init__(self, text: str) -> None:
        self.name, self.parameter = parse_estimator(text)
        self.losses: list[float] = []
        self.faded_sum = 0.0
        self.faded_n = 0.0
        self.halving = Halving(int(self.parameter or 0)) if self.name == "decay" else None

    def add(self, loss: float, ts: int = 0) -> float:
        """The estimator's error after this loss, of an outcome with this label time (ms)."""
        self.losses.append(loss)
        if self.parameter is None:
            return math.fsum(self.losses) / len(self.losses)
        if self.name == "window":
            memory = self.losses[-int(self.parameter) :]
            return math.fsum(memory) / len(memory)
        factor = self.halving.left(ts) if self.halving else self.parameter
        self.faded_sum = loss + factor * self.faded_sum
        self.faded_n = 1.0 + factor * self.faded_n
        return self.faded_sum / self.faded_n


class Signal:
    """What a detector is fed with: `error`, an estimator, or a ratio of two (short over long)."""

    def __init__(self, text: str, min_outcomes: int) -> None:
        self.min_outcomes = min_outcomes
        self.seen = 0
        names = [] if text == "error" else text.split("/")
        if len(names) > 2:
            raise ValueError(f"unknown signal {text!r}; known: error, ESTIMATOR, SHORT/LONG")
        self.estimates = [ErrorEstimate(name) for name in names]

    def add(self, loss: float, ts: int = 0) -> float | None:
        """The signal after this outcome, or None when the detector is not fed with it."""
        self.seen += 1
        errors = [estimate.add(loss, ts) for estimate in self.estimates]
        if not errors:
            return float(loss)
        if len(errors) == 1:
            return errors[0]
        short, long = errors
        if long > 0 and self.seen >= self.min_outcomes:
            return short / long
        return None


class ScaledError:
    """`scaled_error`: x/(x + s), s the median of the losses above 0 among the first hundred outcomes."""

    def __init__(self) -> None:
        self.first: list[float] = []

    def add(self, loss: float) -> float | None:
        """The signal after this outcome; None for the first hundred."""
        if len(self.first) < 100:
            self.first.append(loss)
            return None
        above = [x for x in self.first if x > 0]
        scale = statistics.median(above) if above else 0.0
        return loss / (loss + scale) if loss > 0 else 0.0


class MeasureSignal:
    """`ESTIMATOR:MEASURE`: what points to worse; revisions never reach it."""

    LESS_IS_BETTER = ("error", "kappa_se", "log_loss", "brier", "ece", "mae", "mse", "rmse", "cost", "mape",
                      "pinball", "interval_width")  # fmt: skip

    def __init__(self, estimator: str, measure: str, settings: Settings) -> None:
        ranked = measure in RANKED
        self.estimator, self.measure = Estimator(estimator, settings, ranked=ranked), measure

    def add(self, outcome: Outcome) -> float | None:
        """The signal after this outcome, or None where the measure has no value."""
        self.estimator.add(outcome)
        value = self.estimator.value(self.measure)
        if value is None or self.measure in self.LESS_IS_BETTER:
            return value
        if self.measure == "bias":
            return abs(value)
        return 1.0 - value


class PageHinkley:
    """One-sided Page-Hinkley test for an increase (2013 paper, section 5.1; contract section 4).

    >>> test = PageHinkley(delta=0.0, threshold=0.6, min_outcomes=1)
    >>> [test.add(x) for x in (0.0, 0.0, 1.0)]
    [None, None, 0.6666666666666667]
    >>> test.t
    0
    """

    def __init__(self, delta: float, threshold: float, min_outcomes: int) -> None:
        self.delta = delta
        self.threshold = threshold
        self.min_outcomes = min_outcomes
        self.restart()

    def restart(self) -> None:
        """T = 0, m_0 = M_0 = 0, and a mean of nothing."""
        self.t = 0
        self.total = 0.0
        self.m = 0.0
        self.smallest_m = 0.0

    def add(self, x: float) -> float | None:
        """The statistic m_T - M_T if x raises the alarm, else None."""
        self.t += 1
        self.total += x
        mean = self.total / self.t
        self.m = self.m + x - mean - self.delta
        self.smallest_m = min(self.smallest_m, self.m)
        statistic = self.m - self.smallest_m
        if statistic > self.threshold and self.t >= self.min_outcomes:
            self.restart()
            return statistic
        return None


class Detector:
    """A configured detector of one sequence: its signal, its test, and the alarm's fields."""

    def __init__(
        self, config: Mapping[str, Any], settings: Settings, names: tuple[str | None, ...] = ()
    ) -> None:
        self.name = config["detector"]
        if self.name not in TESTS:
            raise ValueError(f"unknown detector {self.name!r}; known: {', '.join(TESTS)}")
        self.settings = settings
        self.signal_name = str(config.get("signal", "error"))
        min_outcomes = int(config.get("min_outcomes", DEFAULT_MIN_OUTCOMES))
        self.params = {key: value for key, value in config.items() if key not in ("detector", "signal")}
        self.test: PageHinkley | Test
        if self.name == "page-hinkley":
            self.params.pop("min_outcomes", None)  # told only where it isn't the default
            self.params.setdefault("delta", DEFAULT_DELTA)
            self.params.setdefault("lambda", DEFAULT_LAMBDA)
        if self.name == "page-hinkley" and config.get("direction", "increase") == "increase":
            self.params.pop("direction", None)  # likewise
            delta, threshold = float(self.params["delta"]), float(self.params["lambda"])
            self.test = PageHinkley(delta, threshold, min_outcomes)
        else:
            self.test = TESTS[self.name](config, seed_of(*names, self.signal_name))
        estimator, _, measure = self.signal_name.rpartition(":")
        self.signal: Signal | ScaledError | MeasureSignal
        if self.signal_name == "scaled_error":
            self.signal = ScaledError()
        elif estimator and measure in (*ALL_MEASURES, *RANKED, *OF_TOP, *WEIGHTED, *FURTHER_NUMERIC, "cost"):
            self.signal = MeasureSignal(estimator, measure, settings)
        else:
            self.signal = Signal(self.signal_name, min_outcomes)

    def add(self, outcome: Outcome) -> dict[str, Any] | None:
        """The detector's own part of an alarm message, if this outcome raises one."""
        if isinstance(self.signal, MeasureSignal):
            x = self.signal.add(outcome)
        elif isinstance(self.signal, Signal):
            x = self.signal.add(outcome.loss(self.settings), outcome.ts)
        else:
            x = self.signal.add(outcome.loss(self.settings))
        if x is None:
            return None
        found = self.test.add_at(x, outcome.place) if isinstance(self.test, Harm) else self.test.add(x)
        if found is None:
            return None
        statistic, threshold = found if isinstance(found, tuple) else (found, float(self.params["lambda"]))
        return {
            "detector": self.name,
            "signal": self.signal_name,
            "statistic": statistic,
            "threshold": threshold,
            "params": dict(self.params),
        }
