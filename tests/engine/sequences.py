"""One sequence of outcomes, and all that is evaluated of it: as a plan does it, without a shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.catalog.catalog import Catalog, PositivesByStream
from prequential.engine.catalog.plans import Plan
from prequential.engine.catalog.state import ensure_rows, new_store
from prequential.engine.compiled.kernel import Ints32
from prequential.engine.details.notes import Notes
from prequential.engine.estimators.measuring import measured
from prequential.engine.join import scoring
from prequential.engine.measures.declaration import NO_POSITIVE, REASONS
from prequential.engine.measures.per_class import Positives
from prequential.engine.measures.registry import INDEX, NAMES
from prequential.engine.output.coverage_texts import ClassNames
from prequential.engine.output.detail_texts import DetailedLine, DetailTexts, has_details
from prequential.engine.output.estimates import MessageSubject
from prequential.engine.tables.outcomes import OUTCOME, REVISION, SCORED, Log, new_log
from prequential.engine.tables.store import Store
from prequential.engine.tables.streams import OTHER, SORTS, name_hash

from tests.tables.compiled import from_python

#: What the baselines predicted before the first label.
NO_CLASS = 0xFFFF

#: Class codes: label, prediction, what the persistent and the majority baseline predicted.
Codes = tuple[int, int, int, int]

#: Columns of a log that say what is scored, by name.
Score = dict[str, float]


class Measured(NamedTuple):
    """What is told of one estimator."""

    n: float
    values: dict[str, float]
    undefined: dict[str, str]
    details: dict[str, Any]


class Alarmed(NamedTuple):
    """An alarm: at which of the outcomes that were given, by which detector."""

    place: int
    statistic: float
    detector: DetectorConfig


def positives_of(names: Sequence[str], positive: str | None = None) -> Positives:
    """What says which class is positive, of one sequence whose classes have these names."""
    code = NO_POSITIVE if positive is None else names.index(positive) if positive in names else -1
    none = np.zeros(1, dtype=np.int32)
    sorts = np.array([SORTS.get(name, OTHER) for name in names] or [OTHER], dtype=np.uint8)
    return Positives(none, none + np.int32(code), none, none + np.int32(len(names)), sorts)


class Outcomes:
    """A plan with one sequence. Classes have the names of their codes unless others are given."""

    def __init__(
        self,
        config: StreamConfig,
        capacity: int = 8,
        *,
        names: Sequence[str] | None = None,
        positive: str | None = None,
    ) -> None:
        self.names = [str(code) for code in range(capacity)] if names is None else list(names)
        self.positives = positives_of(self.names, positive)
        self.plan = Plan(0, config, ("final",), True, capacity)
        self.plan.take(0, 0)
        self.seen = 0

    def grow(self, capacity: int) -> None:
        """Move to a plan with capacity for more classes, as a stream does."""
        old = self.plan
        self.plan = Plan(0, old.config, old.stages, True, capacity)
        self.plan.take(0, 0)
        row = np.zeros(1, dtype=np.int64)
        self.plan.adopt(old, row, row)

    def update(
        self, outcomes: Sequence[Codes], scores: Mapping[int, Score] | None = None,
        ts: Sequence[int] | None = None,
    ) -> list[Alarmed]:  # fmt: skip
        """More outcomes, with what is scored of some, and prediction times; returns the alarms."""
        log = log_of(outcomes, scores)
        if ts is not None:
            log.ts[:] = ts
        log.number[:] = np.arange(self.seen + 1, self.seen + 1 + len(outcomes))
        self.seen += len(outcomes)
        return self._consume(log)

    def revise(self, number: int, label: int, outcome: Codes, before: int | None = None) -> None:
        """The outcome of this number, from 1, gets another label than `before`, by default its first one."""
        log = log_of([outcome])
        if before is not None:
            log.label[:] = before
        log.kind[:], log.number[:], log.revised[:] = REVISION, number, label
        self._consume(log)

    def _consume(self, log: Log) -> list[Alarmed]:
        rows: Ints32 = np.arange(len(log.kind), dtype=np.int32)
        alarms = self.plan.consume(log, rows, self.positives)
        return [
            Alarmed(
                int(alarms.position[i]),
                float(alarms.statistic[i]),
                self.plan.watches[alarms.detector[i]].config,
            )
            for i in range(int(alarms.raised[0]))
        ]

    def cells(self, name: str) -> Any:
        """The joint cells of an estimator."""
        return self._estimator(name).cells_of(0).weights

    def pairs(self, name: str) -> list[Any]:
        """The pairs of neighbours of an estimator, by sign."""
        row = np.zeros(1, dtype=np.int64)
        return [accumulator.counted(row).cells[0] for accumulator in self._estimator(name).pairs]

    def _estimator(self, name: str) -> Any:
        return next(estimator for estimator in self.plan.estimators if estimator.name == name)

    def measured(self, name: str, *, chance: bool = False, cluster: int = 0) -> Measured:
        """All measures, and the details that are configured; with `chance` of random predictions.

        `cluster` is the length of clusters, ms.
        """
        estimator = self._estimator(name)
        found = measured(estimator, np.zeros(1, dtype=np.int64), self.positives, chance)
        values, undefined = {}, {}
        for measure in NAMES:
            reason = int(found.reasons[0, INDEX[measure]])
            if reason:
                undefined[measure] = REASONS[reason]
            else:
                values[measure] = float(found.values[0, INDEX[measure]])
        details = self.details(name, cluster) if has_details(self.plan.config) else {}
        return Measured(float(found.n[0]), values, undefined, details)

    def details(self, name: str, cluster: int = 0) -> dict[str, Any]:
        """The details of messages about an estimator; `cluster` as in `measured`."""
        one, none = np.full(1, self.seen), np.zeros(1, dtype=np.int64)
        entities = SimpleNamespace(plan=none, first=none, outcomes=one, newest_ts=none)
        catalog: Any = SimpleNamespace(
            plans=[self.plan], columns=SimpleNamespace(entities=entities), class_changes=0,
            positives=PositivesByStream(0, self.positives),
        )  # fmt: skip
        stream: Any = SimpleNamespace(code=0, config=self.plan.config, class_names=self.names)
        index = [estimator.name for estimator in self.plan.estimators].index(name)
        subject = MessageSubject("m", "final", name, index, False, index, (0,), [])
        texts = DetailTexts(catalog, Notes(), lambda _: cluster, ClassNames())
        return texts.objects([DetailedLine(0, stream, subject)])[0]


def log_of(outcomes: Sequence[Codes], scores: Mapping[int, Score] | None = None) -> Log:
    """Outcomes as the join writes them; number, plan and sequence are 0."""
    log = new_log(len(outcomes))
    log.kind[:] = OUTCOME
    if len(outcomes):
        label, prediction, persistent, majority = np.array(outcomes, dtype=np.int64).T
        log.label[:], log.prediction[:] = label, prediction
        log.bits[:] = 2 * (persistent == label) + (majority == label)
        log.known[:] = 1
    for row, score in (scores or {}).items():
        for column, value in score.items():
            getattr(log, column)[row] = value
    return log


# ---- what is scored

#: Columns of the log.
_SCORED = (
    "scored", "log_loss", "brier", "confidence", "positive", "is_positive", "error", "value", "weight",
)  # fmt: skip


class _Scorer(NamedTuple):
    catalog: Catalog
    log: Log


@cache
def _scorer(positive: str | None, task: str) -> _Scorer:
    measures = ("mae",) if task == "regression" else ("log_loss", "ipw_accuracy")
    config = StreamConfig(task=task, measures=measures, positive_class=positive, detectors=(), baselines=())
    catalog = Catalog(Config(defaults=config))
    catalog.add_stream("s")
    return _Scorer(catalog, new_log(1))


@cache
def _store(positive: str | None, task: str, probabilities: int) -> Store:
    """A store with capacity for one prediction with so many probabilities."""
    return ensure_rows(new_store(), _scorer(positive, task).catalog, 4, 64, probabilities + 1)


def _scored(task: str, positive: str | None, prepare: Any) -> Score:
    catalog, log = _scorer(positive, task)
    names: list[str] = []
    stream = catalog.streams[0]
    given: dict[str, float] = {}
    label = prediction = 0
    answer = prepare(given, names)
    if names:
        label, prediction = (catalog.add_class(stream, name) for name in names)
    store = _store(positive, task, len(given))
    store.predictions.label[1], store.instances.label[1], store.instances.first[1] = prediction, 1, 1
    if task == "regression":
        store.labels.number[1], store.values.number[1] = answer
    elif given:
        store.predictions.probabilities[1] = 1
        for row, (name, p) in enumerate(given.items(), 1):
            store.probabilities.name[row], store.probabilities.p[row] = name_hash(name), p
            store.probabilities.next[row] = row + 1 if row < len(given) else 0
    if task != "regression":
        store.marks.propensity[1] = answer or 0.0
    for name in Log._fields:
        getattr(log, name)[:] = 0
    from_python(scoring.score)(log, 0, catalog.registry, store, 0, 1, 1, label)
    return {name: getattr(log, name)[0].item() for name in _SCORED}


def score_probabilities(
    y: str, h: str, given: Mapping[str, float], *, positive: str | None = "1", propensity: float | None = None
) -> Score:
    """What the join scores of a prediction with these probabilities, and a label with this propensity."""

    def prepare(into: dict[str, float], names: list[str]) -> float | None:
        into.update(given)
        names += [y, h]
        return propensity

    return _scored("classification", positive, prepare)


def score_number(y: float, prediction: float) -> Score:
    """What the join scores of a predicted number."""
    found = _scored("regression", None, lambda given, names: (y, prediction))
    assert found["scored"] == SCORED
    return found
