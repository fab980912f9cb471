"""Plain measures, estimators, signals, Page-Hinkley and sequences for the test oracle.

Slow and literal: dictionaries and loops. Measures are computed with exact fractions of the weights
in memory, so a measure is undefined here exactly when its denominator is zero and never because
of rounding. See `oracle.py` for the join, the sequences and the messages.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from oracle_records import Settings

MEASURES = (
    "error", "accuracy", "kappa", "kappa_se", "kappa_z", "p_per", "kappa_per", "p_maj", "kappa_maj",
    "kappa_plus", "balanced_accuracy", "g_mean", "mcc", "precision", "recall", "specificity", "f1",
    "macro_precision", "macro_recall", "macro_f1", "weighted_f1",
)  # fmt: skip

ZERO = Fraction(0)  # no weight

DEFAULT_DELTA = 0.005  # the contract's default detector on the 0/1 loss
DEFAULT_LAMBDA = 50.0  # ditto
DEFAULT_MIN_OUTCOMES = 30  # outcomes; the contract's default


class Kind(NamedTuple):
    """All that the measures need to know of one outcome."""

    y_true: str
    y_pred: str
    persistent_right: bool
    majority_right: bool


def measures(
    memory: Mapping[Kind, float], positive_class: str | None = None
) -> tuple[dict[str, float], dict[str, str]]:
    """Values and reasons of absence, from the weight of each kind of outcome in memory.

    Weights are whole numbers for `all` and `window`, faded ones for `fading`.

    >>> right = Kind("a", "a", False, False)
    >>> wrong = Kind("b", "a", True, False)
    >>> values, reasons = measures({right: 3, wrong: 1})
    >>> values["accuracy"], values["p_per"], values["kappa"], reasons
    (0.75, 0.25, 0.0, {})
    """
    weights = {kind: Fraction(weight) for kind, weight in memory.items()}
    total = sum(weights.values(), ZERO)
    if total == 0:
        return {}, dict.fromkeys(MEASURES, "empty")

    p = sum((w for k, w in weights.items() if k.y_true == k.y_pred), ZERO) / total
    p_per = sum((w for k, w in weights.items() if k.persistent_right), ZERO) / total
    p_maj = sum((w for k, w in weights.items() if k.majority_right), ZERO) / total
    p_ran = ZERO
    for name in {k.y_true for k in weights} | {k.y_pred for k in weights}:
        labelled = sum((w for k, w in weights.items() if k.y_true == name), ZERO)
        predicted = sum((w for k, w in weights.items() if k.y_pred == name), ZERO)
        p_ran += (labelled / total) * (predicted / total)

    exact = {"error": 1 - p, "accuracy": p, "p_per": p_per, "p_maj": p_maj}
    undefined = {}
    for name, chance, reason in (
        ("kappa", p_ran, "p_ran_one"),
        ("kappa_per", p_per, "p_per_one"),
        ("kappa_maj", p_maj, "p_maj_one"),
    ):
        if chance == 1:
            undefined[name] = reason
        else:
            exact[name] = (p - chance) / (1 - chance)

    values = {name: float(value) for name, value in exact.items()}
    if "kappa" in exact and "kappa_per" in exact:
        square = max(ZERO, exact["kappa"]) * max(ZERO, exact["kappa_per"])
        values["kappa_plus"] = math.sqrt(square)
    else:
        undefined["kappa_plus"] = undefined.get("kappa") or undefined["kappa_per"]
    if p_ran == 1:
        undefined["kappa_se"] = undefined["kappa_z"] = "p_ran_one"
    else:
        values["kappa_se"] = math.sqrt(p * (1 - p) / (total * (1 - p_ran) ** 2))
        if p_ran == 0:
            undefined["kappa_z"] = "zero_denominator"
        else:
            values["kappa_z"] = float(exact["kappa"]) / math.sqrt(p_ran / (total * (1 - p_ran)))
    _matrix_measures(weights, values, undefined)
    _positive_measures(weights, positive_class, values, undefined)
    return values, undefined


def _cells(weights: Mapping[Kind, Fraction], y: str | None, h: str | None) -> Fraction:
    """Weight of the outcomes with this label and prediction (None: any)."""
    return sum(
        (w for k, w in weights.items() if y in (None, k.y_true) and h in (None, k.y_pred)), ZERO
    )


def _class_values(weights: Mapping[Kind, Fraction], name: str) -> dict[str, Fraction | str]:
    """Precision, recall, specificity and F1 of one class against all others, or why there is none."""
    tp, labelled = _cells(weights, name, name), _cells(weights, name, None)
    predicted, total = _cells(weights, None, name), _cells(weights, None, None)
    found: dict[str, Fraction | str] = {}
    found["precision"] = tp / predicted if predicted else "no_predicted_positives"
    found["recall"] = tp / labelled if labelled else "no_positives"
    negatives = total - labelled
    found["specificity"] = (negatives - (predicted - tp)) / negatives if negatives else "no_negatives"
    if not labelled:
        found["f1"] = "no_positives"
    elif not predicted:
        found["f1"] = "no_predicted_positives"
    else:
        found["f1"] = 2 * tp / (labelled + predicted)
    return found


def _positive_measures(
    weights: Mapping[Kind, Fraction],
    positive: str | None,
    values: dict[str, float],
    undefined: dict[str, str],
) -> None:
    labels = {k.y_true for k, w in weights.items() if w}
    if positive is None and labels <= {"true", "false"}:
        positive = "true"
    elif positive is None and labels <= {"0", "1"}:
        positive = "1"
    for name in ("precision", "recall", "specificity", "f1"):
        value = "no_positive_class" if positive is None else _class_values(weights, positive)[name]
        if isinstance(value, str):
            undefined[name] = value
        else:
            values[name] = float(value)


def _matrix_measures(
    weights: Mapping[Kind, Fraction], values: dict[str, float], undefined: dict[str, str]
) -> None:
    labels = {k.y_true for k, w in weights.items() if w}
    present = labels | {k.y_pred for k, w in weights.items() if w}
    by_class = {name: _class_values(weights, name) for name in present}
    recalls = [float(by_class[name]["recall"]) for name in labels]
    values["balanced_accuracy"] = sum(recalls) / len(labels)
    values["g_mean"] = math.prod(recalls) ** (1 / len(labels))
    total = _cells(weights, None, None)
    for name in ("precision", "recall", "f1"):
        each = {c: ZERO if isinstance(v[name], str) else Fraction(v[name]) for c, v in by_class.items()}
        values[f"macro_{name}"] = float(sum(each.values(), ZERO) / len(present))
        if name == "f1":
            weighted = sum((each[c] * _cells(weights, c, None) for c in present), ZERO)
            values["weighted_f1"] = float(weighted / total)
    right = sum((_cells(weights, c, c) for c in present), ZERO)
    agreement = sum((_cells(weights, c, None) * _cells(weights, None, c) for c in present), ZERO)
    spread_y = total**2 - sum((_cells(weights, c, None) ** 2 for c in present), ZERO)
    spread_h = total**2 - sum((_cells(weights, None, c) ** 2 for c in present), ZERO)
    if spread_y and spread_h:
        root = math.sqrt(spread_y) * math.sqrt(spread_h)
        values["mcc"] = float(right * total - agreement) / root
    else:
        undefined["mcc"] = "zero_denominator"


class Fading:
    """Faded weights (2013 paper, section 3.2.1): S = x + A*S for each kind, N = 1 + A*N.

    >>> fading = Fading(0.5)
    >>> for y_pred in "baa":
    ...     fading.add(Kind("a", y_pred, False, False))
    >>> fading.n, measures(fading.weights)[0]["error"] == 1 / 7
    (1.75, True)
    """

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.n = 0.0
        self.weights: dict[Kind, float] = {}

    def add(self, kind: Kind) -> None:
        """Let every kind decay, then add 1 to this outcome's."""
        for known in self.weights:
            self.weights[known] *= self.factor
        self.weights[kind] = self.weights.get(kind, 0.0) + 1.0
        self.n = 1.0 + self.factor * self.n


def parse_estimator(text: str) -> tuple[str, float | None]:
    """Name and parameter of an estimator; ValueError for anything else.

    >>> parse_estimator("all"), parse_estimator("window:1000"), parse_estimator("fading:0.999")
    (('all', None), ('window', 1000), ('fading', 0.999))
    """
    name, _, parameter = text.partition(":")
    if text == "all":
        return "all", None
    if name == "window" and parameter.isdigit() and int(parameter) > 0:
        return "window", int(parameter)
    if name == "fading" and 0 < float(parameter) <= 1:
        return "fading", float(parameter)
    raise ValueError(f"unknown estimator {text!r}; known: all, window:W, fading:A")


class ErrorEstimate:
    """An estimator's error over the losses as they were when the outcomes came (0 or 1 each).

    Revisions never reach it: detectors keep what they saw.
    """

    def __init__(self, text: str) -> None:
        self.name, self.parameter = parse_estimator(text)
        self.losses: list[int] = []
        self.faded_sum = 0.0
        self.faded_n = 0.0

    def add(self, loss: int) -> float:
        """The estimator's error after this loss."""
        self.losses.append(loss)
        if self.parameter is None:
            return sum(self.losses) / len(self.losses)
        if self.name == "window":
            memory = self.losses[-int(self.parameter) :]
            return sum(memory) / len(memory)
        self.faded_sum = loss + self.parameter * self.faded_sum
        self.faded_n = 1.0 + self.parameter * self.faded_n
        return self.faded_sum / self.faded_n


class Signal:
    """What a detector is fed: `error`, an estimator, or a ratio of two (short over long)."""

    def __init__(self, text: str, min_outcomes: int) -> None:
        self.min_outcomes = min_outcomes
        self.seen = 0
        names = [] if text == "error" else text.split("/")
        if len(names) > 2:
            raise ValueError(f"unknown signal {text!r}; known: error, ESTIMATOR, SHORT/LONG")
        self.estimates = [ErrorEstimate(name) for name in names]

    def add(self, loss: int) -> float | None:
        """The signal after this outcome, or None when the detector is not fed with it."""
        self.seen += 1
        errors = [estimate.add(loss) for estimate in self.estimates]
        if not errors:
            return float(loss)
        if len(errors) == 1:
            return errors[0]
        short, long = errors
        if long > 0 and self.seen >= self.min_outcomes:
            return short / long
        return None


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

    def __init__(self, config: Mapping[str, Any]) -> None:
        if config["detector"] != "page-hinkley":
            raise ValueError(f"unknown detector {config['detector']!r}; known: page-hinkley")
        self.signal_name = str(config.get("signal", "error"))
        delta = float(config.get("delta", DEFAULT_DELTA))
        threshold = float(config.get("lambda", DEFAULT_LAMBDA))
        min_outcomes = int(config.get("min_outcomes", DEFAULT_MIN_OUTCOMES))
        self.params = {"delta": delta, "lambda": threshold}
        self.signal = Signal(self.signal_name, min_outcomes)
        self.test = PageHinkley(delta, threshold, min_outcomes)

    def add(self, loss: int) -> dict[str, Any] | None:
        """The detector's own part of an alarm message, if this outcome raises one."""
        x = self.signal.add(loss)
        statistic = None if x is None else self.test.add(x)
        if statistic is None:
            return None
        return {
            "detector": "page-hinkley",
            "signal": self.signal_name,
            "statistic": statistic,
            "threshold": self.test.threshold,
            "params": dict(self.params),
        }


@dataclass
class Outcome:
    """An outcome in its sequence; `truth` follows revisions, the rest never changes."""

    instance_id: str
    ts: int
    truth: str
    y_pred: str
    persistent_right: bool
    majority_right: bool

    def kind(self) -> Kind:
        """What the measures need of it, with the label as it is now."""
        return Kind(self.truth, self.y_pred, self.persistent_right, self.majority_right)


class Sequence:
    """The outcomes of one (stream, model, stage)."""

    def __init__(self, stream: str, model: str, stage: str, settings: Settings) -> None:
        self.stream, self.model, self.stage, self.settings = stream, model, stage, settings
        self.outcomes: list[Outcome] = []
        self.fadings: dict[str, Fading] = {}
        for text in settings.estimators:
            name, parameter = parse_estimator(text)
            if name == "fading":
                assert parameter is not None
                self.fadings[text] = Fading(parameter)
        self.detectors = [Detector(config) for config in settings.detectors]
        self.dirty = False  # outcomes or revisions since the last message

    def add(self, outcome: Outcome) -> list[dict[str, Any]]:
        """Take an outcome; the alarms that it raises, in the order of the detectors."""
        self.outcomes.append(outcome)
        self.dirty = True
        for fading in self.fadings.values():
            fading.add(outcome.kind())
        place = {
            "stream": self.stream, "model": self.model, "segment": None, "stage": self.stage,
            "outcome": len(self.outcomes), "instance_id": outcome.instance_id, "ts": outcome.ts,
        }  # fmt: skip
        loss = int(outcome.truth != outcome.y_pred)
        alarms = [detector.add(loss) for detector in self.detectors]
        return [{**place, **alarm} for alarm in alarms if alarm is not None]

    def messages(self, counts: dict[str, int]) -> list[dict[str, Any]]:
        """One metrics message for each estimator, with the state as it is now."""
        self.dirty = False
        found = []
        for text in self.settings.estimators:
            name, parameter = parse_estimator(text)
            if name == "fading":
                n: float = self.fadings[text].n
                values, undefined = measures(self.fadings[text].weights, self.settings.positive_class)
            else:
                last = self.outcomes if parameter is None else self.outcomes[-int(parameter) :]
                n = len(last)
                values, undefined = measures(
                    Counter(outcome.kind() for outcome in last), self.settings.positive_class
                )
            found.append({
                "stream": self.stream, "model": self.model, "segment": None, "stage": self.stage,
                "estimator": text, "n": n, "outcomes": len(self.outcomes),
                "ts": self.outcomes[-1].ts, "measures": values, "undefined": undefined,
                "counts": dict(counts),
            })  # fmt: skip
        return found
