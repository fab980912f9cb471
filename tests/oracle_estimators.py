"""Outcomes and the estimators that remember them, for the test oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oracle_cohorts import Place
from oracle_measures import (
    FURTHER,
    MEASURES,
    OF_COSTS,
    Kind,
    Measured,
    cost_by_value_measures,
    cost_measures,
    measures,
    positive_of,
)
from oracle_ranks import RANKED, Score, histogram, own_positive, rank_measures
from oracle_records import Settings, Target
from oracle_residuals import residuals
from oracle_scores import (
    FURTHER_NUMERIC,
    NUMERIC,
    OF_TOP,
    PROBABILISTIC,
    WEIGHTED,
    Number,
    Probable,
    number_measures,
    probability_measures,
    weighted_measures,
)

#: Weights below it are none.
NOTHING = 1e-200

#: Milliseconds.
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

ALL_MEASURES = (*MEASURES, *PROBABILISTIC, *NUMERIC)


@dataclass
class Outcome:
    """An outcome in its sequence; `truth` and `of_label` follow revisions, the rest never changes.

    Methods with `revised` take the label as it is now, or as it was at first.
    """

    instance_id: str
    ts: int
    truth: Target | None  # None: its label is withdrawn
    y_pred: Target
    persistent_right: bool
    majority_right: bool
    proba: Mapping[str, float]
    propensity: float | None = None
    label_known: bool = True  # whether the baselines had seen any label
    place: Place = field(default_factory=Place)
    of_prediction: float | None = None  # what is at stake by the prediction, and by the label
    of_label: float | None = None
    interval: tuple[float, float] | None = None
    quantiles: Mapping[float, float] | None = None
    baseline: float | None = None  # the seasonal one
    weight: float = 1.0
    first_truth: Target = field(init=False)
    first_value: float | None = field(init=False)
    first_kind: Kind = field(init=False)  # its place in the confusion matrix, with its first label

    def __post_init__(self) -> None:
        assert self.truth is not None
        self.first_truth, self.first_value = self.truth, self.value
        self.first_kind = self.kind()

    @property
    def value(self) -> float | None:
        """What is at stake."""
        return self.of_prediction if self.of_label is None else self.of_label

    def revise(self, truth: Target | None, value: float | None) -> None:
        """Take the label, and what is at stake by it, as they are now."""
        self.truth, self.of_label = truth, value

    def kind(self) -> Kind:
        """Its place in the confusion matrix, with the label as it is now."""
        y, h = str(self.truth), str(self.y_pred)
        return Kind(y, h, self.persistent_right, self.majority_right, self.label_known)

    def label(self, *, revised: bool) -> Target:
        """Its label."""
        if not revised:
            return self.first_truth
        assert self.truth is not None, "a withdrawn label is asked for"
        return self.truth

    def probable(self, *, revised: bool) -> Probable:
        """What the measures of probabilities need."""
        return Probable(str(self.label(revised=revised)), str(self.y_pred), self.proba)

    def score(self, weight: float, configured: str | None, *, revised: bool) -> Score:
        """How it is ranked, with a weight, by the positive class that its label says."""
        label = str(self.label(revised=revised))
        positive = own_positive(configured, label)
        p = 0.0 if positive is None else self.proba.get(positive, 0.0)
        return Score(weight, p, positive, label == positive)

    def number(self, *, revised: bool) -> Number:
        """The sums that measures for regression need."""
        y_true, y_pred = float(self.label(revised=revised)), float(self.y_pred)
        return Number(y_true, y_pred, self.interval, self.quantiles, self.baseline, self.weight)

    def loss(self, settings: Settings) -> float:
        """What `error` is for detectors; revisions never reach it."""
        if settings.task == "classification":
            return int(self.first_truth != self.y_pred)
        apart = abs(float(self.first_truth) - float(self.y_pred))
        return apart**2 if settings.loss == "squared" else apart


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

    def add(self, kind: Kind, factor: float | None = None) -> None:
        """Let every kind decay, by another factor if there is one, then add 1 to this outcome's."""
        factor = self.factor if factor is None else factor
        faded = {known: weight * factor for known, weight in self.weights.items()}
        self.weights = {known: weight for known, weight in faded.items() if weight >= NOTHING}
        self.weights[kind] = self.weights.get(kind, 0.0) + 1.0
        self.n = 1.0 + factor * self.n


class Halving:
    """How much is left of what was before at each outcome: 2^(-Δt/H), Δt >= 0 from the latest label time.

    >>> halving = Halving(10)
    >>> [halving.left(ts) for ts in (5, 15, 12, 35)]
    [1.0, 0.5, 1.0, 0.25]
    """

    def __init__(self, half_life: int) -> None:
        self.half_life = half_life  # ms
        self.latest: int | None = None

    def left(self, ts: int) -> float:
        """Of an outcome with this label time (ms), the next one."""
        before = ts if self.latest is None else self.latest
        self.latest = max(before, ts)
        return float(2.0 ** (-(self.latest - before) / self.half_life))


def parse_estimator(text: str) -> tuple[str, float | None]:
    """Name and parameter of an estimator; ValueError for anything else.

    >>> parse_estimator("all"), parse_estimator("window:1000"), parse_estimator("fading:0.999")
    (('all', None), ('window', 1000), ('fading', 0.999))
    >>> parse_estimator("decay:1h"), parse_estimator("decay:20ms")
    (('decay', 3600000), ('decay', 20))
    """
    name, _, parameter = text.partition(":")
    if text == "all":
        return "all", None
    if name == "window" and parameter.isdigit() and int(parameter) > 0:
        return "window", int(parameter)
    if name == "fading" and 0 < float(parameter) <= 1:
        return "fading", float(parameter)
    if name == "decay" and (unit := parameter.lstrip("0123456789")) in UNITS:
        return "decay", int(parameter.removesuffix(unit)) * UNITS[unit]
    raise ValueError(f"unknown estimator {text!r}; known: all, window:W, fading:A, decay:H")


def labelled(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes whose labels aren't withdrawn."""
    return [outcome for outcome in outcomes if outcome.truth is not None]


def kinds_now(outcomes: Sequence[Outcome]) -> Mapping[Kind, float]:
    """How many outcomes there are of each kind, by their labels as they are now."""
    return Counter(outcome.kind() for outcome in labelled(outcomes))


class Estimator:
    """An estimator's memory of a sequence, and all measures of it."""

    def __init__(self, text: str, settings: Settings, *, ranked: bool = False) -> None:
        self.text, self.settings = text, settings
        self.ranked = ranked or not set(RANKED).isdisjoint(settings.measures)
        self.name, self.parameter = parse_estimator(text)
        self.outcomes: list[Outcome] = []
        self.fading = Fading(self.parameter if self.name == "fading" else 1.0)  # type: ignore[arg-type]
        self.halving = Halving(int(self.parameter or 0)) if self.name == "decay" else None
        self.factors: list[float] = []  # by outcome: what is left at it of what was before

    def add(self, outcome: Outcome) -> None:
        """Remember an outcome, the latest."""
        self.outcomes.append(outcome)
        self.factors.append(self.halving.left(outcome.ts) if self.halving else self.fading.factor)
        self.fading.add(outcome.first_kind, self.factors[-1])

    @property
    def n(self) -> float:
        """Outcomes in memory; faded, N."""
        if self.forgets:
            return self.fading.n
        return len(labelled(self.last()))

    @property
    def forgets(self) -> bool:
        """Whether older outcomes count less."""
        return self.name in ("fading", "decay")

    def last(self) -> list[Outcome]:
        """The outcomes in memory."""
        return self.outcomes[-int(self.parameter or 0) :] if self.name == "window" else self.outcomes

    def weighted(self, *, revised: bool = False) -> list[tuple[float, Outcome]]:
        """The outcomes in memory with their weights: faded, A to the power of their age, or by time.

        If `revised`, without those whose labels are withdrawn.
        """
        found = []
        weight = 1.0
        for outcome, factor in zip(reversed(self.last()), reversed(self.factors)):
            if weight >= NOTHING:
                found.append((weight, outcome))
            weight *= factor
        return [(w, o) for w, o in found if not revised or o.truth is not None]

    def kinds(self, *, revised: bool) -> Mapping[Kind, float]:
        """The weight of each kind of outcome in memory."""
        if self.forgets:
            return self.fading.weights
        if not revised:
            return Counter(outcome.first_kind for outcome in self.last())
        return kinds_now(self.last())

    def confusion(self, *, revised: bool) -> dict[str, dict[str, float]]:
        """Weights by label, then by prediction."""
        matrix: dict[str, dict[str, float]] = {}
        for kind, weight in self.kinds(revised=revised).items():
            row = matrix.setdefault(kind.y_true, {})
            row[kind.y_pred] = row.get(kind.y_pred, 0) + weight
        return matrix

    def value(self, measure: str) -> float | None:
        """A measure, with the labels as they were at first; None where it has no value."""
        if self.settings.task == "classification" and measure in (*MEASURES, *FURTHER):
            return measures(self.kinds(revised=False), self.settings.positive_class)[0].get(measure)
        return self.measures(revised=False)[0].get(measure)

    def measures(self, *, revised: bool) -> Measured:
        """All measures, with the labels as they are now or as they were at first."""
        now = revised and not self.forgets  # fading memories keep what they saw
        memory_now = self.weighted(revised=now)
        if self.settings.task == "regression":
            memory = ((w, o.number(revised=now)) for w, o in memory_now)
            values, undefined = number_measures(memory, self.settings.quantile, self.settings.hit_tolerance)
            others = (*MEASURES, *FURTHER, *OF_COSTS, *PROBABILISTIC, *OF_TOP, *RANKED, *WEIGHTED)
            if not self.outcomes:
                return {}, undefined | dict.fromkeys(others, "empty")
            undefined.update(dict.fromkeys(others, "not_classification"))
            return values, undefined
        kinds = self.kinds(revised=revised)
        values, undefined = measures(kinds, self.settings.positive_class)
        if self.outcomes and not kinds:  # all labels in memory are withdrawn
            others = (*OF_COSTS, *PROBABILISTIC, *OF_TOP, *RANKED, *WEIGHTED, *NUMERIC, *FURTHER_NUMERIC)
            return {}, undefined | dict.fromkeys(others, "empty")
        of_probabilities: Measured = {}, dict.fromkeys((*PROBABILISTIC, *OF_TOP), "empty")
        if self.outcomes:
            probable = [(w, o.probable(revised=now)) for w, o in memory_now if o.proba]
            of_probabilities = probability_measures(probable, self.settings.top_k)
        of_weights: Measured = {}, dict.fromkeys(WEIGHTED, "empty")
        if self.outcomes:
            known = [(w, o) for w, o in memory_now if o.propensity is not None]
            of_weights = weighted_measures(
                (w, o.label(revised=now) == o.y_pred, o.propensity or 0.0) for w, o in known
            )
        of_ranks: Measured = {}, dict.fromkeys(RANKED, "empty")
        if self.outcomes and self.ranked:
            labels = {kind.y_true for kind in kinds}
            positive = positive_of(labels, self.settings.positive_class)
            of_ranks = rank_measures(self.scores(revised=now), positive, window=self.name == "window")
        of_costs = self.costs(revised=revised)
        values |= of_costs[0]
        undefined |= {**of_probabilities[1], **of_weights[1], **of_ranks[1], **of_costs[1]}
        why = "not_regression" if self.outcomes else "empty"
        undefined |= dict.fromkeys((*NUMERIC, *FURTHER_NUMERIC), why)
        return {**values, **of_probabilities[0], **of_weights[0], **of_ranks[0]}, undefined

    def costs(self, *, revised: bool) -> Measured:
        """What outcomes cost."""
        costs, whole = self.settings.costs, not self.forgets
        if costs is None or not self.settings.by_value:
            return cost_measures(self.kinds(revised=revised), costs, whole=whole)
        return cost_by_value_measures(
            (
                (w, str(o.truth), str(o.y_pred), o.value) if revised and whole
                else (w, str(o.first_truth), str(o.y_pred), o.first_value)
                for w, o in self.weighted() if not (revised and whole and o.truth is None)
            ),
            costs, whole=whole,
        )  # fmt: skip

    def scores(self, *, revised: bool) -> list[Score]:
        """The outcomes in memory that have probabilities, as they are ranked."""
        positive = self.settings.positive_class
        weighted = self.weighted(revised=revised)
        return [o.score(w, positive, revised=revised) for w, o in weighted if o.proba]

    def details(self) -> dict[str, Any]:
        """What messages say of it beyond its measures."""
        if self.settings.task == "regression":
            if "residuals" not in self.settings.details:
                return {}
            now = self.name == "window"  # others keep what they saw
            last = labelled(self.last()) if now else self.last()
            factors = self.factors[-len(last) :] if self.forgets else [1.0] * len(last)
            deciles = residuals(
                (factor, float(o.label(revised=now)), float(o.y_pred)) for factor, o in zip(factors, last)
            )
            return {} if deciles is None else {"residuals": deciles}
        if "scores" not in self.settings.details or not self.kinds(revised=True):
            return {}
        found = histogram(self.scores(revised=not self.forgets), whole=not self.forgets)
        return {} if found is None else {"scores": found}
