"""Stages and the sequences of a model, for the test oracle.

Most stages of a model have their outcomes at the same numbers, so they are kept together. A stage
`after:D` or `lead:D` has fewer outcomes, so it is kept as if it were a model with no other stage.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oracle_detection import Detector
from oracle_estimators import ALL_MEASURES, Estimator, Outcome
from oracle_measures import Measured
from oracle_records import Settings, Target, duration
from oracle_references import beside_reference

Classes = tuple[str | None, str | None]  # what the persistent and the majority baseline predict


@dataclass
class Prediction:
    """A delivered prediction, with the baselines' predictions at the time it was processed."""

    ts: int
    model: str
    y_pred: Target
    proba: Mapping[str, float]
    baselines: Classes
    version: str | None = None  # of the model
    value: float | None = None  # what is at stake
    interval: tuple[float, float] | None = None
    quantiles: Mapping[float, float] | None = None
    weight: float = 1.0
    seen: int = 0  # labels of the stream when it was processed
    baseline: float | None = None  # the seasonal one, once it has met its label
    fate: str = "waiting"  # then met, late or expired
    t1: int | None = None  # of the label that it met
    outcome: Outcome | None = None  # its own, whatever the stage

    def says_the_same(self, other: Prediction, settings: Settings) -> bool:
        """Whether it is a redelivery: the same model, time, class or number, and what else is evaluated."""
        proba = settings.probabilities and list(self.proba.items()) != list(other.proba.items())
        interval = settings.intervals and self.interval != other.interval
        quantiles = settings.quantiles and self.quantiles != other.quantiles
        told = (self.model, self.ts, self.y_pred) == (other.model, other.ts, other.y_pred)
        weight = self.weight != other.weight
        return told and not (proba or interval or quantiles or weight)


def told_stages(settings: Settings) -> list[str]:
    """The stages that messages are about, in their order.

    >>> from oracle_records import settings_of
    >>> told_stages(settings_of({"defaults": {"stages": ["bins", "final"], "bins": 2}}, "s"))
    ['bin:1', 'bin:2', 'final']
    """
    bins = [f"bin:{b}" for b in range(1, settings.bins + 1)]
    return [name for stage in settings.stages for name in (bins if stage == "bins" else [stage])]


def identity(*about: object) -> str:
    """The id of what is about these values.

    >>> identity("elec2", 0, "nb", None, "final", "all", 1000, 0)
    '9ad1de6c69be9de119d05361307c9c08'
    """
    text = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def groups_of_stages(settings: Settings) -> list[Settings]:
    """The stages that are kept together: those that every outcome is in, then each one at an age.

    >>> from oracle_records import settings_of
    >>> found = groups_of_stages(settings_of({"defaults": {"stages": ["after:1h", "final"]}}, "s"))
    >>> [group.stages for group in found]
    [['final'], ['after:1h']]
    """
    aged = [stage for stage in settings.stages if stage.startswith(("after:", "lead:"))]
    together = [stage for stage in settings.stages if stage not in aged]
    return [replace(settings, stages=stages) for stages in (together, *([stage] for stage in aged))]


def same_stages(settings: Settings) -> dict[str, list[str]]:
    """The stages that nothing is said of while no instance has had two predictions, by what stands for them.

    >>> from oracle_records import settings_of
    >>> same_stages(settings_of({}, "s")), same_stages(settings_of({"defaults": {"stages": ["final"]}}, "s"))
    ({'final': ['initial']}, {})
    """
    return {"final": ["initial"]} if {"initial", "final"} <= set(settings.stages) else {}


def binned_stages(settings: Settings) -> list[str]:
    """The stages of Λ(0), …, Λ(B), which `intermediate` sums up."""
    return ["initial", *(f"bin:{b}" for b in range(1, settings.bins + 1))]


def stages_with_outcomes(settings: Settings) -> list[str]:
    """The stages with outcomes of their own, also those that only `intermediate` needs."""
    told = [stage for stage in told_stages(settings) if stage != "intermediate"]
    hidden = binned_stages(settings) if "intermediate" in settings.stages else []
    return [*told, *(stage for stage in hidden if stage not in told)]


def choose(
    stage: str, counting: Iterable[Prediction], t0: int, t1: int, bins: int
) -> Prediction | None:
    """A stage's prediction of those that count, which are in order of delivery; None if it has none."""
    in_order = sorted(counting, key=lambda prediction: prediction.ts)  # stable
    if stage == "initial":
        return in_order[0]
    if stage == "final":
        return in_order[-1]
    if stage.startswith("after:"):
        age = duration(stage.removeprefix("after:"))
        made = [one for one in in_order if one.ts <= t0 + age]
        return made[-1] if made and t1 - t0 >= age else None
    if stage.startswith("lead:"):
        made = [one for one in in_order if one.ts <= t1 - duration(stage.removeprefix("lead:"))]
        return made[-1] if made else None
    b = int(stage.removeprefix("bin:"))
    made = [one for one in in_order if (one.ts - t0) * bins <= (t1 - t0) * b]
    return made[-1] if made else in_order[0]


def prioritised(states: Sequence[Measured], alpha: float) -> Measured:
    """Ψ_α of each measure over Λ(0), …, Λ(B) (2020 paper, equation 1).

    Undefined where any of them is, for the reason of the first.

    >>> prioritised([({"error": 0.5}, {}), ({"error": 0.25}, {})], 1.0)
    ({'error': 0.375}, {})
    >>> prioritised([({"f1": 1.0}, {}), ({}, {"f1": "no_positives"})], 2.0)
    ({}, {'f1': 'no_positives'})
    """
    last = len(states) - 1
    weights = [(1 / alpha) ** (b / last) for b in range(len(states))]
    values: dict[str, float] = {}
    undefined: dict[str, str] = {}
    for name in {name: None for state in states for part in state for name in part}:
        reasons = [reasons[name] for _, reasons in states if name in reasons]
        if reasons:
            undefined[name] = reasons[0]
        else:
            products = [weight * found[name] for weight, (found, _) in zip(weights, states, strict=True)]
            values[name] = sum(products) / sum(weights)
    return values, undefined


class OutcomeSequence:
    """The outcomes of one (stream, model, stage)."""

    def __init__(self, settings: Settings, *names: str | None) -> None:
        self.outcomes: list[Outcome] = []
        self.estimators = [Estimator(text, settings) for text in settings.estimators]
        self.detectors = [Detector(config, settings, names) for config in settings.detectors]

    def add(self, outcome: Outcome) -> list[dict[str, Any]]:
        """Take an outcome; its detectors' parts of the alarms that it raises, in their order."""
        self.outcomes.append(outcome)
        for estimator in self.estimators:
            estimator.add(outcome)
        alarms = [detector.add(outcome) for detector in self.detectors]
        return [alarm for alarm in alarms if alarm is not None]


class Model:
    """A model of a stream: one sequence of outcomes for each stage."""

    def __init__(self, stream: str, name: str, settings: Settings, partition: int = 0) -> None:
        self.stream, self.name, self.settings, self.partition = stream, name, settings, partition
        # `initial` has the random numbers of `final`: what is equal stays so.
        self.sequences = {
            stage: OutcomeSequence(settings, stream, name, None, "final" if stage == "initial" else stage)
            for stage in stages_with_outcomes(settings)
        }
        self.twofold = False  # whether an instance with an outcome has had two predictions
        self.count = 0  # outcomes so far, the same number in every stage
        self.revisions = 0  # of its outcomes
        self.newest_change = 0  # changes of its stream at its newest outcome or revision
        self.said: tuple[Any, ...] = ()  # numbers and counts in its last messages
        self.version: tuple[str, int] | None = None  # of its newest evaluated prediction, and since when
        self.version_ts = 0

    @property
    def same(self) -> dict[str, list[str]]:
        """Stages that are the same as another one up to now."""
        return {} if self.twofold else same_stages(self.settings)

    def told(self) -> list[str]:
        """The stages that messages are about now."""
        untold = [stage for stages in self.same.values() for stage in stages]
        return [stage for stage in told_stages(self.settings) if stage not in untold]

    def add(self, outcomes: Mapping[str, Outcome], *, twofold: bool) -> list[dict[str, Any]]:
        """Take an instance's outcome of each stage; the alarms, in order of stage and detector.

        `twofold`: it is of two predictions, or more.
        """
        self.count += 1
        self.twofold |= twofold
        raised = {stage: self.sequences[stage].add(outcome) for stage, outcome in outcomes.items()}
        return [
            {
                "stream": self.stream, "partition": self.partition, "model": self.name, "segment": None,
                "stage": stage, "outcome": self.count, "instance_id": outcomes[stage].instance_id,
                "ts": outcomes[stage].ts, "same": self.same.get(stage), **alarm,
            }
            for stage in self.told() for alarm in raised.get(stage, [])
        ]  # fmt: skip

    def note_version(self, newest: Prediction) -> None:
        """Its newest prediction of the outcome that was just added says which version it has."""
        if newest.version is None or (self.version is not None and newest.ts < self.version_ts):
            return
        self.version_ts = newest.ts
        if self.version is None or newest.version != self.version[0]:
            self.version = newest.version, self.count

    def messages(
        self, counts: dict[str, int], clock: int, moment: Sequence[list[int]]
    ) -> list[dict[str, Any]]:
        """One metrics message for each stage and estimator, with the state as it is now.

        `clock` is the stream's; ids end with `moment`.
        """
        found = []
        states: dict[tuple[str, int], Measured] = {}
        for stage, sequence in self.sequences.items():
            for place, estimator in enumerate(sequence.estimators):
                states[stage, place] = estimator.measures(revised=True)
        for stage in self.told():
            sequence = self.sequences["initial" if stage == "intermediate" else stage]
            for place, estimator in enumerate(sequence.estimators):
                if stage == "intermediate":
                    binned = [states[name, place] for name in binned_stages(self.settings)]
                    values, undefined = prioritised(binned, self.settings.alpha)
                else:
                    values, undefined = states[stage, place]
                wanted = self.settings.measures or ALL_MEASURES
                about = self.stream, self.partition, self.name, None, stage, estimator.text
                found.append({
                    "id": identity(*about, self.count, self.revisions, *moment),
                    "stream": self.stream, "partition": self.partition, "model": self.name, "segment": None,
                    "stage": stage, "estimator": estimator.text, "n": estimator.n, "outcomes": self.count,
                    "ts": sequence.outcomes[-1].ts if sequence.outcomes else clock,
                    "measures": {name: values[name] for name in wanted if name in values},
                    "undefined": {name: undefined[name] for name in wanted if name in undefined},
                    "counts": dict(counts), "version": self.version, "same": self.same.get(stage),
                    **({} if stage == "intermediate" else estimator.details()),
                    **self.beside(stage, estimator),
                })  # fmt: skip
        return found

    def beside(self, stage: str, estimator: Estimator) -> dict[str, Any]:
        """What the message of a stage and an estimator says of the reference: of the main stage alone."""
        if stage == "intermediate" or stage != self.settings.main_stage:
            return {}
        found = beside_reference(self.sequences[stage].outcomes, estimator, self.settings)
        return {} if found is None else {"reference": found}
