"""Messages about a stream in all partitions, at one moment: the sums of its parts, by merged names.

Models and segments come to partitions in different orders, and each partition applies the limits separately.
The merged names are as in a single partition. They are ordered by their first record in any partition. A
segment that one partition counts as `KEY=other` belongs to `KEY=other` in all partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import FINAL, INITIAL, PERIOD, parts, reported
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.streams import OTHER
from prequential.engine.comparisons import DEFINED, REASONS, measuring
from prequential.engine.comparisons.disagreement import Disagreement, as_message
from prequential.engine.comparisons.measuring import NAMES as OF_PAIRS
from prequential.engine.comparisons.reporting import is_parted, unit_of
from prequential.engine.delay import latency, maturity
from prequential.engine.delay.latest_estimates import Waiting
from prequential.engine.estimators.naming import RANDOM_SUFFIX, parse_estimator
from prequential.engine.measures.registry import by_name
from prequential.engine.merging.parting import ALL
from prequential.engine.merging.sums import MergedClasses, added, called, foreseen, measured, news, totals
from prequential.engine.output.counts import OF_MODELS
from prequential.engine.output.estimates import EstimatorState, intermediate
from prequential.engine.output.pending_estimates import together
from prequential.engine.tables.streams import MODEL
from prequential.topics.encoding import encode, identity
from prequential.topics.outputs import ALL_PARTITIONS, BY_PARTITION, Comparison, Encoded, Metrics
from prequential.topics.parts import FORGOTTEN, LOST, Compared, Evaluated, Part, PredictedByBoth
from prequential.topics.specs import COMPARISONS, METRICS


class PartNames:
    """The names that the parts of a stream have at one moment."""

    def __init__(self, config: Config, parts: Sequence[Part]) -> None:
        self._parts, self._limits = parts, config.limits
        stream = config.stream(parts[0].stream)
        self._champion = stream.champion if stream.compare == "champion" else None
        self._models = _ranks(part.models for part in parts)
        self._retired = {name for part in parts for name in part.retired}
        #: Segments that belong to `KEY=other`.
        self._folded: dict[str, str] = {}
        for key in stream.segments:
            other_segment = f"{key}={OTHER}"
            ranks = _ranks(part.values.get(key, {}) for part in parts)
            full = [
                part
                for part in parts
                if any(evaluated.segment == other_segment for evaluated in part.evaluated)
            ]
            for value, rank in ranks.items():
                if rank >= stream.segments_per_key or any(value not in part.values[key] for part in full):
                    self._folded[f"{key}={value}"] = other_segment
        pairs = sorted(
            {self._ordered(*pair) for part in parts for pair in part.pairs},
            key=lambda pair: tuple(self._models[name] for name in reversed(pair)),
        )
        limit = config.limits.pairs_per_stream if stream.compare == "all" else len(pairs)
        self._pairs = set([pair for pair in pairs if self._retired.isdisjoint(pair)][:limit])

    def parts(self) -> Sequence[Part]:
        """The parts without the versions that gave way to newer ones in some partition."""
        if not self._retired:
            return self._parts
        return [
            replace(
                part,
                evaluated=[evaluated for evaluated in part.evaluated if evaluated.model not in self._retired],
            )
            for part in self._parts
        ]

    def has(self, model: str, segment: str | None) -> bool:
        """Whether a model, or one of its segments, has messages."""
        name = model.removesuffix(RANDOM_SUFFIX)
        return name in self._models and name not in self._retired and segment not in self._folded

    def segment(self, name: str | None) -> str | None:
        """The segment to which a partition's segment belongs."""
        return name if name is None else self._folded.get(name, name)

    def pair(self, compared: Compared | PredictedByBoth) -> tuple[str, str] | None:
        """Models A and B of a partition's pair; None: the pair has no messages."""
        if compared.model == compared.against:
            return None if compared.model in self._retired else (compared.model, compared.against)
        pair = self._ordered(compared.model, compared.against)
        return pair if pair in self._pairs else None

    def _ordered(self, a: str, b: str) -> tuple[str, str]:
        """The pair in order: the champion first, or else the model that came first."""
        first, second = sorted((a, b), key=lambda name: (name != self._champion, self._models[name]))
        return first, second

    def without_model(self, model: str) -> list[int]:
        """Partitions without room for a model, which may therefore have refused predictions of it."""
        limit = self._limits.models_per_stream
        return [
            part.partition for part in self._parts
            if model not in part.models and len(part.models) >= limit
        ]  # fmt: skip

    def without_pair(self, pair: tuple[str, str]) -> list[int]:
        """Partitions that evaluate two models without comparing them, or that may have refused one."""
        a, b = pair
        if a == b:
            return self.without_model(a)
        refused = {*self.without_model(a), *self.without_model(b)}
        return [
            part.partition for part in self._parts
            if part.partition in refused
            or (part.models.keys() >= {a, b} and (a, b) not in part.pairs and (b, a) not in part.pairs)
        ]  # fmt: skip


def _ranks(times_by_name: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Names with their ranks, from 0, by their first times; ties are broken by partition and order there.

    >>> _ranks([{"a": 20, "b": 30}, {"b": 10, "c": 20}])
    {'b': 0, 'a': 1, 'c': 2}
    """
    first: dict[str, tuple[int, int, int]] = {}
    for partition, names in enumerate(times_by_name):
        for position, (name, time) in enumerate(names.items()):
            came = time, partition, position
            first[name] = min(came, first.get(name, came))
    return {name: rank for rank, name in enumerate(sorted(first, key=first.__getitem__))}


class _EntityKey(NamedTuple):
    """An evaluated entity."""

    kind: int
    model: str
    segment: str | None
    age: str | None

    @property
    def order(self) -> tuple[int, str, str, str]:
        """Its place in the order of messages."""
        return self.kind, self.model, self.segment or "", self.age or ""


class _PartitionResults(NamedTuple):
    """The results of an entity in one partition."""

    number: int  # of the partition's part
    evaluated: Evaluated


#: Outcomes and revisions of what has had no messages so far.
_NOTHING = 0, 0


class Merged:
    """A stream at one moment, with one part for each partition, in their order."""

    def __init__(self, config: Config, parts: Sequence[Part], changed: Sequence[bool]) -> None:
        """`changed`: which partitions may have changed at this moment."""
        self.names = PartNames(config, parts)
        self._parts = parts = self.names.parts()
        self._name = parts[0].stream
        self._config: StreamConfig = config.stream(self._name)
        self._settings, self._changes = config, changed
        self._used = {
            name for part in parts for evaluated in part.evaluated for memory in evaluated.memories
            for name in called(memory.cells, part)
        }  # fmt: skip
        self._classes = MergedClasses(config, self._name, self._used)
        self._places = self._classes.places(parts)
        self._of_stream = totals(part.counts for part in parts)
        lost = [self._of_stream[name] for name in (*LOST, FORGOTTEN) if name in self._of_stream]
        #: The last part of message ids, as in messages of a single partition.
        self._loss = (sum(lost),) if lost else ()
        self._estimators = [name for name in self._config.estimators if parse_estimator(name).memory.adds_up]
        #: By entity: the results of each partition.
        self._by_entity = self._results(parts)

    def _results(self, parts: Sequence[Part]) -> dict[_EntityKey, list[_PartitionResults]]:
        """By entity, the results of each partition."""
        results: dict[_EntityKey, list[_PartitionResults]] = {}
        for number, part in enumerate(parts):
            for evaluated in part.evaluated:
                segment = self.names.segment(evaluated.segment)
                entity = _EntityKey(evaluated.kind, evaluated.model, segment, evaluated.age)
                results.setdefault(entity, []).append(_PartitionResults(number, evaluated))
        return results

    # ---- metrics

    def metrics(self, before: Sequence[Part] | None) -> Iterator[Encoded]:
        """Messages about all entities that have changed; a model's first message has its label coverage.

        `before` has the parts at the previous moment that had messages; it is empty if there was no such
        moment. None: it is unknown which messages that moment had.
        """
        former = self._numbers(before or ())
        present = self._numbers(self._parts)
        changed = [entity for entity, numbers in present.items() if former.get(entity, _NOTHING) != numbers]
        covered: set[str] = set()
        for entity in sorted(changed, key=lambda key: key.order):
            yield from self._metrics(entity, covered)

    def _numbers(self, parts: Sequence[Part]) -> dict[_EntityKey, tuple[int, ...]]:
        """By entity, the numbers whose changes make a message due: see `estimates.reported_numbers`."""
        of_stream = totals(part.counts for part in parts)
        numbers: dict[_EntityKey, tuple[int, ...]] = {}
        for entity, by_entity in self._results(parts).items():
            results = [partition.evaluated for partition in by_entity]
            numbers[entity] = (
                sum(evaluated.outcomes for evaluated in results),
                sum(evaluated.revisions for evaluated in results),
            )
            if entity.kind in OF_MODELS:
                numbers[entity] += tuple(self._counts(entity.kind, results, of_stream).values())
        return numbers

    def _moment(self, results: Sequence[Evaluated]) -> tuple[int, int, int]:
        """The outcomes, the revisions, and the stream's changes since (see `estimates.changes_since`)."""
        since = self._of_stream.get("changes", 0) - sum(evaluated.newest_change for evaluated in results)
        return (
            sum(evaluated.outcomes for evaluated in results),
            sum(evaluated.revisions for evaluated in results),
            since,
        )

    def _metrics(self, entity: _EntityKey, covered: set[str]) -> Iterator[Encoded]:
        kind, model = entity.kind, entity.model
        results = [partition.evaluated for partition in self._by_entity[entity]]
        outcomes, revisions, since = self._moment(results)
        if not outcomes and not (kind in OF_MODELS and self._predicts(model)):
            return
        clock = max(part.clock for part in self._parts)
        config, initial_is_final = self._config, all(evaluated.initial_is_final for evaluated in results)
        counts = self._counts(kind, results, self._of_stream)
        by_chance = "random" in config.baselines and config.has_classes
        for chance in (False, True) if by_chance else (False,):
            name = model + RANDOM_SUFFIX if chance else model
            for stage, made_of in self._stages(entity.age, initial_is_final):
                for estimator in self._estimators:
                    states = [self._state(entity, part, estimator, chance) for part in made_of]
                    state = states[0] if len(states) == 1 else intermediate(states, config.alpha)
                    key = self._name, ALL_PARTITIONS, name, entity.segment, stage, estimator
                    message = Metrics(
                        identity(*key, outcomes, revisions, [since], *self._loss), *key, state.n, outcomes,
                        max((evaluated.ts for evaluated in results if evaluated.outcomes), default=clock),
                        *by_name(config.measures, state.values, state.reasons), counts, config.digest,
                    )  # fmt: skip
                    if initial_is_final and stage == FINAL and self._classes.stream.reports(INITIAL):
                        message.same = [INITIAL]
                    if missing := self.names.without_model(model):
                        message.missing_partitions = missing
                    if config.coverage and kind == MODEL and model not in covered:
                        covered.add(model)
                        message.coverage = self._coverage(results)
                    yield Encoded(METRICS, self._name, encode(message))

    def _predicts(self, model: str) -> bool:
        """Whether predictions of a model have been processed: see `estimates.predicting`."""
        partitions = self._by_entity.get(_EntityKey(MODEL, model, None, None), ())
        results = [partition.evaluated for partition in partitions]
        counts = totals(evaluated.counts for evaluated in results)
        predictions = sum(counts.get(name, 0) for name in ("waiting", "late", "expired", "duplicate"))
        return predictions + sum(evaluated.outcomes for evaluated in results) > 0

    def _stages(self, age: str | None, initial_is_final: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The stages of messages, each with the stages from which it is computed."""
        if age is not None:
            yield age, (age,)
            return
        stream = self._classes.stream
        for stage in reported(stream.everywhere, stream.bins):
            if not (initial_is_final and stage == INITIAL):
                yield stage, parts(stage, stream.bins)

    def _state(self, entity: _EntityKey, stage: str, estimator: str, chance: bool) -> EstimatorState:
        memories = [
            (memory, self._places[partition.number])
            for partition in self._by_entity[entity] for memory in partition.evaluated.memories
            if memory.stage == (FINAL if partition.evaluated.initial_is_final and stage == INITIAL else stage)
            and memory.estimator == estimator
        ]  # fmt: skip
        return measured(added(memories, estimator, self._classes.capacity), self._classes, chance=chance)

    def _counts(
        self, kind: int, results: Sequence[Evaluated], of_stream: Mapping[str, int]
    ) -> dict[str, int]:
        """The `counts` of an entity's messages, from its results and the sums of its stream's counts."""
        of_model = totals(evaluated.counts for evaluated in results)
        counts = {
            "late": of_model["late"],
            "expired": of_model["expired"],
            "duplicate": of_model["duplicate"] + of_stream["duplicate_instances"]
            + of_stream["duplicate_labels"],
            "late_label": of_stream["late_label"],
            "unmatched_label": of_stream["unmatched_label"],
            "after_settle": of_stream["after_settle"],
            "revisions": of_stream["revisions"],
            "withdrawn": of_stream["withdrawn"],
        }  # fmt: skip
        if kind in OF_MODELS:
            counts["waiting"] = of_model.get("waiting", 0)
        if self._config.label_at_horizon is not None:
            counts["at_horizon"] = of_model["at_horizon"]
        return counts | {name: of_stream[name] for name in LOST if name in of_stream}

    def _coverage(self, results: Sequence[Evaluated]) -> dict[str, Any]:
        coverages = [evaluated.coverage for evaluated in results if evaluated.coverage is not None]
        of_stream = self._of_stream
        clock = max(part.clock for part in self._parts)
        lives, recents = zip(*(part.latencies for part in self._parts))
        latencies, first = latency.of_counts(totals(lives), totals(recents)), np.zeros(1, dtype=np.int64)
        waiting = sum(coverage["waiting"] for coverage in coverages)
        since = min((coverage["since"] for coverage in coverages if coverage["waiting"]), default=clock)
        message: dict[str, Any] = {
            "waiting": waiting,
            "oldest_waiting_ms": clock - since if waiting else 0,
            "labelled": maturity.curve_of(np.sum([coverage["met"] for coverage in coverages], axis=0)),
            "label_latency_ms": latency.quantiles(latencies, first)[0],
            "recent_label_latency_ms": latency.recent_quantiles(latencies, first)[0],
            "unpredicted_labels": of_stream["unmatched_label"],
        }
        for name in ("instances_without_predictions", "predictions_without_instance"):
            message[name] = of_stream[name]
        if self._config.label_at_horizon is not None:
            message["at_horizon"] = sum(evaluated.counts["at_horizon"] for evaluated in results)
        waits = [
            Waiting(*coverage["expected"]) for coverage in coverages if coverage.get("expected") is not None
        ]
        if waits:
            message["waiting_expected"] = together(waits).as_message()
        return message

    # ---- periods

    def periods(self, before: Sequence[Part] | None) -> Iterator[Encoded]:
        """Messages about all periods that have news.

        `before` has the parts at the previous moment that had messages; it is empty if there was no such
        moment. None: it is unknown which messages that moment had.
        """
        if self._config.period is None:
            return
        due = news(self._config, self._parts, self._changes, before)
        used = self._used.union(*(
            called(cells, self._parts[number])
            for periods in due.values() for whole in periods for number, part in whole.periods
            for cells in (part.memory.cells, part.expected.cells if part.expected else ())
        ))  # fmt: skip
        classes = self._classes if used == self._used else MergedClasses(self._settings, self._name, used)
        places = classes.places(self._parts)
        for model, periods in due.items():
            entity = _EntityKey(MODEL, model, None, None)
            results = [partition.evaluated for partition in self._by_entity[entity]]
            met = np.sum(
                [evaluated.coverage["met"] for evaluated in results if evaluated.coverage is not None], axis=0
            )
            share, counts = (
                maturity.curve_of(met).get("horizon"),
                self._counts(MODEL, results, self._of_stream),
            )
            moment = self._moment(results)
            for whole in periods:
                memories = [(part.memory, places[number]) for number, part in whole.periods]
                measures = measured(added(memories, ALL, classes.capacity), classes, chance=False)
                state = whole.state._replace(expected_share=share)
                key = self._name, ALL_PARTITIONS, model, None, PERIOD, state.name
                period = state.as_message(closes=self._config.label_at_horizon is not None)
                if whole.unfinished:
                    period |= {"unfinished_partitions": whole.unfinished}
                message = Metrics(
                    identity(*key, *whole.identity, moment, *self._loss), *key, state.labelled,
                    state.labelled, state.newest_ts,
                    *by_name(self._config.measures, measures.values, measures.reasons), counts,
                    self._config.digest,
                    missing_partitions=self.names.without_model(model) or msgspec.UNSET,
                    period=period,
                )  # fmt: skip
                if whole.is_expected:
                    message.expected = foreseen(whole, classes, places)
                yield Encoded(METRICS, self._name, encode(message))

    # ---- comparisons

    def comparisons(self, before: Sequence[Part]) -> Iterator[Encoded]:
        """Messages about all pairs of models that have more joint outcomes than in the parts `before`.

        Those of a pair without outcomes: more instances that both have predicted.
        """
        former_predictions, predictions = self._predicted(before), self._predicted(self._parts)
        former = {
            key: _outcomes(results) or -_instances(former_predictions.get(key[:2], ()))
            for key, results in self._pairs(before).items()
        }
        for key, results in self._pairs(self._parts).items():
            predicted = predictions.get(key[:2], ())
            if (_outcomes(results) or -_instances(predicted)) != former.get(key):
                yield from self._comparisons(key, results, predicted)

    def _predicted(self, parts: Sequence[Part]) -> dict[tuple[str, str], list[PredictedByBoth]]:
        """The partitions' predictions of pairs of models."""
        results: dict[tuple[str, str], list[PredictedByBoth]] = {}
        for part in parts:
            for predicted in part.predicted:
                pair = self.names.pair(predicted)
                if pair is not None:
                    results.setdefault(pair, []).append(predicted)
        return results

    def _pairs(self, parts: Sequence[Part]) -> dict[tuple[Any, ...], list[Compared]]:
        """The partitions' results for pairs of models, by pair, segment, stage and loss.

        A partition in which `initial` and `final` are still one sequence has one result for both. It counts
        in both stages as soon as they are different sequences in another partition.
        """
        results: dict[tuple[Any, ...], list[Compared]] = {}
        parted = {
            (self.names.pair(compared), self.names.segment(compared.segment), compared.loss)
            for part in parts for compared in part.compared if compared.stage == INITIAL
        }  # fmt: skip
        for part in parts:
            for compared in part.compared:
                pair, segment = self.names.pair(compared), self.names.segment(compared.segment)
                if pair is None:
                    continue
                results.setdefault((*pair, segment, compared.stage, compared.loss), []).append(compared)
                if INITIAL in compared.same and (pair, segment, compared.loss) in parted:
                    results.setdefault((*pair, segment, INITIAL, compared.loss), []).append(compared)
        return results

    def _comparisons(
        self, key: tuple[Any, ...], results: Sequence[Compared], predicted: Sequence[PredictedByBoth]
    ) -> Iterator[Encoded]:
        model, against, segment, stage, loss = key
        missing = self.names.without_pair((model, against))
        outcomes = _outcomes(results)
        config = self._config
        are_alike = all(compared.same == results[0].same for compared in results)
        same = results[0].same if stage == FINAL and are_alike else []
        revisions = sum(compared.revisions for compared in results)
        ts = max(compared.ts for compared in results)
        if not outcomes:
            ts = max((part.ts for part in predicted), default=0)
        numbers = outcomes, ts, revisions, is_parted(stage, same), *self._loss
        disagreement = None
        if predicted and segment is None:
            once = all(part.once for part in predicted)
            numbers = *numbers, [_instances(predicted), int(once)]
            disagreement = _disagreement(predicted, config, first_only=once or INITIAL in (stage, *same))
        for estimator in self._estimators:
            statistics = _statistics_of(results, estimator, model)
            whole = statistics.whole
            counts = (OF_PAIRS[measuring.N01], OF_PAIRS[measuring.N10]) if whole else ()
            subject = self._name, ALL_PARTITIONS, model, against, segment, stage, estimator
            message = Comparison(
                identity(*subject, loss, *numbers), *subject, loss,
                int(statistics.n) if whole else statistics.n, outcomes, ts,
                {name: int(value) if name in counts else value for name, value in statistics.values.items()},
                statistics.undefined, None, config.compare_level if outcomes else None,
                max(compared.pairs for compared in results), BY_PARTITION, None, config.digest,
            )  # fmt: skip
            if disagreement is not None:
                message.disagreement = disagreement
            if same:
                message.same = same
            if missing:
                message.missing_partitions = missing
            if statistics.mcnemar is not None:
                message.significant = statistics.is_significant(config.mcnemar_level)
            yield Encoded(COMPARISONS, self._name, encode(message))


class _PairStatistics(NamedTuple):
    """A pair's statistics by one estimator, of all partitions together."""

    n: float
    whole: bool  # whether `n` and the counts of errors are numbers of outcomes
    values: dict[str, float]  # the defined ones, by name
    undefined: dict[str, str]  # why the others aren't, by name

    @property
    def mcnemar(self) -> float | None:
        """McNemar's statistic; None: it is undefined."""
        return self.values.get(OF_PAIRS[measuring.MCNEMAR])

    def is_significant(self, level: float) -> bool:
        """Whether McNemar's test rejects at this level; by the exact test where it is defined."""
        p = self.values.get(OF_PAIRS[measuring.P_VALUE])
        return p < level if p is not None else abs(self.mcnemar or 0.0) > measuring.threshold(level)


def _statistics_of(results: Sequence[Compared], estimator: str, model: str) -> _PairStatistics:
    """A pair's statistics by an estimator: its memories of all partitions added up, as of the newest.

    `model` is the pair's A; partitions may have it as B.
    """
    memory, parameter = parse_estimator(estimator)
    memories = [
        (time, values if compared.model == model else _swapped(values, counted=compared.counted))
        for compared in results for name, time, values in compared.memories if name == estimator
    ]  # fmt: skip
    newest = max(time for time, _ in memories)
    cells = np.zeros(len(memories[0][1]))
    for time, values in memories:
        cells += np.array(values) * memory.weight_left(parameter, 0, newest - time)
    measures, why = np.zeros((1, len(OF_PAIRS))), np.zeros((1, len(OF_PAIRS)), dtype=np.int64)
    if results[0].counted:
        measuring.from_counts(cells[None], memory.whole, measures, why)
        n = float(cells.sum())
    else:
        measuring.from_sums(cells[None], measures, why)
        n = float(cells[-1])
    values, reasons = measures[0].tolist(), why[0].tolist()
    return _PairStatistics(
        n, memory.whole,
        {name: value for name, value, reason in zip(OF_PAIRS, values, reasons) if reason == DEFINED},
        {
            name: REASONS[reason] for name, reason in zip(OF_PAIRS, reasons)
            if reason not in (DEFINED, measuring.ABSENT)
        },
    )  # fmt: skip


def _swapped(values: Sequence[float], *, counted: bool) -> list[float]:
    """The memory of a pair (`Compared.memories`) as the memory of the same pair with B before A.

    >>> _swapped([9.0, 1.0, 2.0, 3.0], counted=True), _swapped([0.5, 0.75, 4.0], counted=False)
    ([9.0, 2.0, 1.0, 3.0], [0.75, 0.5, 4.0])
    """
    if counted:
        neither, of_b, of_a, both = values
        return [neither, of_a, of_b, both]
    of_a, of_b, n = values
    return [of_b, of_a, n]


def _instances(predicted: Sequence[PredictedByBoth]) -> int:
    return sum(part.n for part in predicted)


def _disagreement(
    predicted: Sequence[PredictedByBoth], config: StreamConfig, *, first_only: bool
) -> dict[str, Any]:
    """The field `disagreement` of all partitions together; the bound is the mean of theirs, by instances."""
    n = _instances(predicted)
    bound = sum(part.n * part.at_most for part in predicted) / n
    by_days = [part.clusters for part in predicted if part.clusters is not None]
    clusters, needed = min(by_days, key=lambda days: days[0] - days[1], default=(None, 0))
    disagreement = Disagreement(n, sum(part.differing for part in predicted), bound, clusters, needed)
    return as_message(disagreement, first_only=first_only, unit=unit_of(config))


def _outcomes(results: Sequence[Compared]) -> int:
    return sum(compared.outcomes for compared in results)
