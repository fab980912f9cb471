"""The test oracle: prequential evaluation as one plain, slow, obviously right loop.

It follows the contract, not the engine: everything is kept in dictionaries and lists, each record
is handled alone, nothing is batched. Engine and oracle share no code, on purpose.

Covered: both tasks, all stages, estimators and measures, Page-Hinkley. Not covered: segments (the
only segment is null), unusable records (ValueError).

What one record does, in this order:

1. Messages that the record time has made due are emitted, with the state before the record.
2. The stream's event clock advances, and what it has passed expires.
3. The record is handled; an outcome feeds estimators and detectors, and every
   `emit.outcomes`-th one emits at once.
4. What the record brought that was overdue already expires.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from oracle_cohorts import Place, Timeline
from oracle_coverage import Account, Latest, quantiles
from oracle_estimators import Outcome
from oracle_records import (
    RANK,
    Record,
    Settings,
    Target,
    amount,
    class_name,
    identifier,
    interval,
    merge,
    number,
    quantile_set,
    settings_of,
    time_of,
    weight,
)
from oracle_stages import Classes, Model, Prediction, choose, groups_of_stages, told_stages

__all__ = ["Counts", "Record", "Result", "merge", "run"]

#: A ts may push the event clock this far (ms), or a tenth of the horizon, beyond the record time.
CLOCK_LEAD = 3_600_000


class Counts(dict[tuple[str, str | None], Counter[str]]):
    """Counters by (stream, model), model None for the stream's own; absent ones read as empty."""

    def __missing__(self, key: tuple[str, str | None]) -> Counter[str]:
        return Counter()

    def add(self, stream: str, model: str | None, name: str) -> None:
        """Count one event."""
        self.setdefault((stream, model), Counter())[name] += 1


@dataclass
class Meeting:
    """Which life of an instance an outcome is of, which of its stream's records completed it, and how sure
    the model was.
    """

    life: int
    record: int
    proba: Mapping[str, float]
    place: Place  # in the stream's timeline


@dataclass
class Encounter:
    """An instance that two models have predicted, as the later of their first predictions came."""

    stream: str
    models: frozenset[str]  # one: it has predicted the instance again
    differs: bool
    ts: int  # of the earlier one of both predictions, at most the clock
    record: int  # which of the stream's records it was


@dataclass
class Result:
    """All that came of a run, each list in order of emission."""

    metrics: list[dict[str, Any]] = field(default_factory=list)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    outcomes: list[dict[str, Any]] = field(default_factory=list)  # as they were when they came
    meetings: list[Meeting] = field(default_factory=list)  # of each outcome, more about it
    counts: Counts = field(default_factory=Counts)
    accounts: dict[tuple[str, str], Account] = field(default_factory=dict)  # by stream and model
    encounters: list[Encounter] = field(default_factory=list)  # of instances that models have predicted


@dataclass
class Label:
    """An instance's label; t1 and the baselines just before it stay those of the first one."""

    y: Target | None  # None: it is withdrawn
    t1: int
    baselines: Classes
    at_horizon: bool = False  # whether nothing but the horizon's end says it
    value: float | None = None  # what is at stake


@dataclass
class Memory:
    """What is remembered of one instance: waiting, then a tombstone, or settled."""

    state: str = "waiting"
    instance_ts: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    prediction_ts: list[int] = field(default_factory=list)
    waiting: list[Prediction] = field(default_factory=list)  # in order of delivery
    label: Label | None = None
    outcomes: dict[str, list[tuple[Model, Outcome]]] = field(default_factory=dict)  # by model
    propensity: float | None = None
    met: list[Prediction] = field(default_factory=list)
    arrival: int | None = None  # t0 when the label met the first prediction
    until: int = 0  # event time, of a tombstone or a settled memory

    def t0(self) -> int | None:
        """Arrival: the smallest ts of instance records, else of predictions delivered so far."""
        return min(self.instance_ts or self.prediction_ts, default=None)

    def deadline(self, horizon: int) -> int:
        """The event time beyond which this state ends."""
        if self.state != "waiting":
            return self.until
        if self.label is not None:
            return self.label.t1 + horizon
        t0 = self.t0()
        assert t0 is not None, "a memory without a label has an arrival"
        return t0 + horizon

    def label_too_late(self, t1: int, horizon: int) -> bool:
        """Whether a label of time t1 is beyond the horizon of what has arrived."""
        t0 = self.t0()
        return t0 is not None and t1 - t0 > horizon


class Stream:
    """One stream: its clock, its labels so far, its instances and its sequences."""

    def __init__(self, name: str, settings: Settings, result: Result, partition: int = 0) -> None:
        self.name, self.settings, self.result, self.partition = name, settings, result, partition
        self.clock: int | None = None
        self.soonest: int | None = None  # no deadline is before it; saves looking at every memory
        self.label_counts: Counter[str] = Counter()  # keeps the order in which classes came
        self.last_label: str | None = None
        self.labels_seen = 0  # where seasonal baselines are needed, here and below
        self.labels_by_time: dict[int, tuple[int, Target | None]] = {}  # None: several differ
        self.models: dict[str, list[Model]] = {}  # by name, in order of first sight
        self.memories: dict[str, Memory] = {}
        self.accounts: dict[str, Account] = {}  # by model
        self.latencies: list[int] = []  # of labels
        self.latest = Latest()
        self.timeline = Timeline(settings.horizon, settings.cluster)
        self.places: dict[int, Place] = {}  # by `ts`, of predictions with outcomes by this record
        self.processed = 0  # records
        self.changes = 0  # how often records have moved the clock, or come to an instance
        self.settled: dict[str, int] = {}  # forgotten instances with outcomes: until when that is known
        self.forgotten: list[Memory] = []  # kept, so that none has the identity of another
        self.unpredicted_instances = self.predictions_without_instance = 0

    def process(self, kind: str, obj: dict[str, Any], record_time: int) -> None:
        """Steps 2 to 4 of the module's docstring."""
        self.processed += 1
        instance_id = identifier(obj["instance_id"])
        ts = time_of(obj, record_time)
        seen = min(ts, record_time + min(CLOCK_LEAD, self.settings.horizon // 10))
        before = self.clock or 0
        self.clock = seen if self.clock is None else max(self.clock, seen)
        self.changes += self.clock != before
        self.expire()
        self.changes += 1
        known = instance_id in self.memories
        if kind == "labels" and not known and self.settled.get(instance_id, self.clock - 1) >= self.clock:
            self.count("after_settle")
            return
        if kind == "labels" and not known and obj["y_true"] is None:
            self.count("duplicate")
            return
        memory = self.memories.setdefault(instance_id, Memory())
        if kind == "instances":
            self.instance(memory, ts, obj.get("version"), obj.get("label_propensity"))
        elif kind == "predictions":
            model, version = identifier(obj["model"]), obj.get("model_version")
            if version is not None and self.settings.versions == "separate":
                model = f"{model}:{version}"
            if model not in self.models:
                self.accounts[model] = Account(self.settings.horizon)
                self.result.accounts[self.name, model] = self.accounts[model]
                self.models[model] = [
                    Model(self.name, model, group, self.partition)
                    for group in groups_of_stages(self.settings)
                ]
            classes = self.settings.task == "classification"
            proba = (obj.get("y_proba") or {}) if classes else {}
            y_pred = self.target(obj["y_pred"])
            version = None if version is None else str(version)
            bounds = (
                interval(obj.get("y_lower"), obj.get("y_upper")) if self.settings.intervals else None
            )
            prediction = Prediction(
                ts, model, y_pred, proba, self.baselines(), version, self.amount(obj), bounds,
                quantile_set(obj.get("quantiles")) if self.settings.quantiles else None,
                weight(obj.get("weight")) if self.settings.weights else 1.0, self.labels_seen,
            )  # fmt: skip
            self.prediction(instance_id, memory, prediction)
        elif kind == "labels" and obj["y_true"] is None:
            self.withdraw(instance_id, memory)
        elif kind == "labels":
            self.label(instance_id, memory, ts, self.target(obj["y_true"]), self.amount(obj))
        else:
            raise ValueError(f"unknown kind {kind!r}; known: {', '.join(RANK)}")
        if instance_id not in self.memories:  # a label was withdrawn, and nothing else was known
            return
        deadline = memory.deadline(self.settings.horizon)
        self.soonest = deadline if self.soonest is None else min(self.soonest, deadline)
        self.expire()

    def target(self, value: object) -> Target:
        """A class or a number, as the task has it."""
        return number(value) if self.settings.task == "regression" else class_name(value)

    def note(self, kind: str, prediction: Prediction) -> None:
        """Something became of a prediction."""
        assert self.clock is not None
        self.timeline.follow(kind, prediction.ts, self.clock)

    def locate(self, met: list[Prediction]) -> None:
        """Where predictions lie that have just met their label; what is complete with them is closed."""
        if met:
            assert self.clock is not None
            self.timeline.outcomes += 1
            self.timeline.find_length()
            places = {one.ts: self.timeline.place_of(one.ts) for one in met}
            frontier = self.timeline.close(self.clock)
            self.places = {ts: place._replace(frontier=frontier) for ts, place in places.items()}

    def count(self, name: str, model: str | None = None) -> None:
        """Count one event of the stream, or of one of its models."""
        self.result.counts.add(self.name, model, name)

    def baselines(self) -> Classes:
        """What the persistent and the majority baseline predict now; ties: the class seen first."""
        if self.last_label is None:
            return None, None
        most = max(self.label_counts.values())
        return self.last_label, next(y for y, n in self.label_counts.items() if n == most)

    def amount(self, obj: Mapping[str, Any]) -> float | None:
        """What is at stake by a record, where costs ask for it."""
        return amount(obj.get("value")) if self.settings.by_value else None

    def expire(self) -> None:
        """End every state whose deadline the clock has passed."""
        assert self.clock is not None
        if self.soonest is None or self.clock <= self.soonest:
            return
        horizon = self.settings.horizon
        if self.settings.at_horizon is not None:
            self.close()
        for instance_id, memory in list(self.memories.items()):
            while self.clock > memory.deadline(horizon):
                if memory.state == "waiting" and memory.label is None:
                    self.bury(memory)
                    continue
                if memory.state == "waiting":
                    self.count("unmatched_label")
                    self.unpredicted_instances += bool(memory.instance_ts)
                elif memory.state == "settled":
                    self.settled[instance_id] = memory.until + horizon
                self.forgotten.append(self.memories.pop(instance_id))
                break
        self.soonest = min((m.deadline(horizon) for m in self.memories.values()), default=None)

    def bury(self, memory: Memory) -> None:
        """No label came by the horizon: what waits expires, and the id is kept for another horizon."""
        assert self.clock is not None
        for prediction in memory.waiting:
            self.count("expired", prediction.model)
            prediction.fate = "expired"
            self.note("expired", prediction)
            self.predictions_without_instance += not memory.instance_ts
        self.unpredicted_instances += not memory.waiting
        memory.waiting = []
        memory.until = self.clock + self.settings.horizon
        memory.state = "tombstone"

    def close(self) -> None:
        """Give what has no label by its horizon the class for that: by the horizons' ends, ties by ids.

        What has no prediction that it could be the label of expires in its turn.
        """
        assert self.clock is not None
        assert self.settings.at_horizon is not None
        due = []
        for instance_id, memory in self.memories.items():
            if memory.state != "waiting" or memory.label is not None:
                continue
            end = memory.deadline(self.settings.horizon)
            if self.clock > end:
                due.append((end, len(instance_id.encode()), instance_id.encode(), instance_id))
        for end, _, _, instance_id in sorted(due):
            memory = self.memories[instance_id]
            if not any(one.ts <= end for one in memory.waiting):
                self.bury(memory)
                continue
            self.processed += 1  # as if a record said it
            self.first_label(instance_id, memory, end, self.settings.at_horizon, at_horizon=True)
            memory.until = self.clock + max(self.settings.horizon, self.settings.settle)

    def instance(
        self, memory: Memory, ts: int, version: int | None, propensity: float | None
    ) -> None:
        """An instance record."""
        if memory.state == "tombstone":
            self.count("duplicate")
            return
        version = version or 0
        nothing_newer = memory.instance_ts and version <= max(memory.versions)
        if nothing_newer and (memory.state == "settled" or ts >= min(memory.instance_ts)):
            self.count("duplicate")
            return
        memory.instance_ts.append(ts)
        memory.versions.append(version)
        sampled = self.settings.at_horizon is None  # else each instance gets a label
        if memory.state == "waiting" and propensity is not None and sampled:
            memory.propensity = propensity
        self.drop_waiting_label_if_late(memory)

    def drop_waiting_label_if_late(self, memory: Memory) -> None:
        """A label may have come first, and what arrives then shows that it was too late."""
        label = memory.label
        if memory.state != "waiting" or label is None:
            return
        if memory.label_too_late(label.t1, self.settings.horizon):
            memory.label = None
            self.count("late_label")

    def prediction(self, instance_id: str, memory: Memory, new: Prediction) -> None:
        """A prediction record."""
        if memory.state == "tombstone":
            self.count("expired", new.model)
            return
        if memory.label is not None and new.ts > memory.label.t1:
            memory.prediction_ts.append(new.ts)
            self.count("late", new.model)
            return
        if memory.state == "settled":
            if new.model in memory.outcomes:
                self.count("duplicate", new.model)
            elif memory.label is not None and memory.label.y is None:
                self.count("expired", new.model)
            else:
                self.meet_others(new, memory.met)
                self.note("waits", new)
                self.note("met", new)
                self.locate([new])
                self.evaluate(instance_id, memory, new.model, [new], label_was_first=True)
            return
        memory.prediction_ts.append(new.ts)
        self.drop_waiting_label_if_late(memory)
        if memory.label is not None:
            self.note("waits", new)
            self.note("met", new)
            self.locate([new])
            self.evaluate(instance_id, memory, new.model, [new], label_was_first=True)
            return
        before = [old for old in memory.waiting if (old.model, old.ts) == (new.model, new.ts)]
        if before and new.says_the_same(before[-1], self.settings):
            self.count("duplicate", new.model)
            return
        self.meet_others(new, memory.waiting)
        memory.waiting.append(new)
        self.note("waits", new)
        self.accounts[new.model].predictions.append(new)

    def meet_others(self, new: Prediction, before: list[Prediction]) -> None:
        """A prediction of an instance of which there are others; of each model, the first one counts."""
        assert self.clock is not None
        first = {prediction.model: prediction for prediction in reversed(before)}
        others = [first[new.model]] if new.model in first else first.values()
        for other in others:
            self.result.encounters.append(
                Encounter(
                    self.name, frozenset((new.model, other.model)), new.y_pred != other.y_pred,
                    min(new.ts, other.ts, self.clock), self.processed,
                )
            )  # fmt: skip

    def label(
        self, instance_id: str, memory: Memory, t1: int, y: Target, value: float | None
    ) -> None:
        """A label record."""
        if memory.state == "tombstone":
            self.count("late_label")
        elif memory.label is not None:
            self.further_label(memory, memory.label, y, value)
        elif memory.label_too_late(t1, self.settings.horizon):
            self.count("late_label")
        else:
            self.first_label(instance_id, memory, t1, y, value=value)

    def first_label(
        self,
        instance_id: str,
        memory: Memory,
        t1: int,
        y: Target,
        *,
        at_horizon: bool = False,
        value: float | None = None,
    ) -> None:
        """An instance gets its label, which meets what waits, or waits itself."""
        memory.label = Label(y, t1, self.baselines(), at_horizon, value)
        if isinstance(y, str):  # numbers have no baselines
            self.label_counts[y] += 1
            self.last_label = y
        if self.settings.season is not None:
            self.labels_seen += 1
            order, same = self.labels_by_time.get(t1, (self.labels_seen, y))
            self.labels_by_time[t1] = order, y if same == y else None
        waiting, memory.waiting = memory.waiting, []
        for prediction in waiting:
            self.note("met" if prediction.ts <= t1 else "late", prediction)
        self.locate([prediction for prediction in waiting if prediction.ts <= t1])
        for model in self.models:
            own = [prediction for prediction in waiting if prediction.model == model]
            counting = [prediction for prediction in own if prediction.ts <= t1]
            for _ in range(len(own) - len(counting)):
                self.count("late", model)
            for prediction in own:
                if prediction not in counting:
                    prediction.fate = "late"
            if counting:
                self.evaluate(instance_id, memory, model, counting, label_was_first=False)

    def seasonal(self, prediction: Prediction, t1: int, *, label_was_first: bool) -> float | None:
        """The seasonal baseline of a prediction whose label has the time t1."""
        season, horizon = self.settings.season, self.settings.horizon
        if season is None:
            return None
        assert self.clock is not None
        seen, known = prediction.seen, self.labels_by_time
        if label_was_first:
            seen = min(seen, known[t1][0] - 1)
        since = self.clock - 2 * horizon - self.settings.settle - season
        for time in range(t1 - season, since - 1, -season):
            if time in known and known[time][0] <= seen:
                value = known[time][1]
                return None if value is None else float(value)
        return None

    def further_label(
        self, memory: Memory, label: Label, y: Target, value: float | None
    ) -> None:
        """A second label of an instance: a redelivery, or a revision of what there is."""
        if y == label.y:
            self.count("duplicate")
            return
        self.count("revisions")
        label.y, label.at_horizon = y, False
        if value is not None:
            label.value = value
        self.revise(memory, label)

    def withdraw(self, instance_id: str, memory: Memory) -> None:
        """An instance's label is withdrawn: its outcomes have none, or it waits as if none had come."""
        label = memory.label
        if memory.state == "tombstone" or label is None or label.y is None:
            self.count("duplicate")
            return
        self.count("withdrawn")
        if memory.state == "settled":
            assert memory.arrival is not None
            label.y = label.value = None
            memory.until = max(memory.until, memory.arrival + self.settings.horizon)
            self.revise(memory, label)
        elif memory.instance_ts:
            memory.label = None
        else:
            self.forgotten.append(self.memories.pop(instance_id))

    def revise(self, memory: Memory, label: Label) -> None:
        """The outcomes of an instance get its label as it is now."""
        for revised in memory.outcomes.values():
            for model in {id(model): model for model, _ in revised}.values():
                model.revisions += 1
                model.newest_change = self.changes
            for _, outcome in revised:
                outcome.revise(label.y, label.value)
        for prediction in memory.met:
            assert prediction.outcome is not None
            prediction.outcome.revise(label.y, label.value)

    def evaluate(
        self,
        instance_id: str,
        memory: Memory,
        model: str,
        counting: list[Prediction],
        *,
        label_was_first: bool,
    ) -> None:
        """A model's outcomes of an instance, one for each stage."""
        label = memory.label
        assert label is not None
        assert label.y is not None
        assert self.clock is not None
        if memory.state == "waiting":
            memory.state = "settled"
            memory.until = self.clock + self.settings.settle
            memory.arrival = memory.t0()
            assert memory.arrival is not None, "a prediction has come"
            self.latencies.append(max(0, label.t1 - memory.arrival))
            self.latest.add(self.latencies[-1], self.clock)
        t0 = memory.arrival
        assert t0 is not None
        for prediction in counting:
            prediction.fate, prediction.t1 = "met", label.t1
            prediction.baseline = self.seasonal(prediction, label.t1, label_was_first=label_was_first)
            if label.at_horizon:
                self.count("at_horizon", model)
            own = label.baselines if label_was_first else prediction.baselines
            prediction.outcome = Outcome(
                instance_id, label.t1, label.y, prediction.y_pred,
                *(baseline == label.y for baseline in own), prediction.proba, memory.propensity,
                own[0] is not None, interval=prediction.interval, of_prediction=prediction.value,
                of_label=label.value, quantiles=prediction.quantiles, baseline=prediction.baseline,
                weight=prediction.weight,
            )  # fmt: skip
            memory.met.append(prediction)
            self.predictions_without_instance += not memory.instance_ts
            if label_was_first:
                self.accounts[model].predictions.append(prediction)
        memory.outcomes[model] = []
        for evaluated in self.models[model]:
            outcomes = {}
            for stage in evaluated.sequences:
                chosen = choose(stage, counting, t0, label.t1, self.settings.bins)
                if chosen is not None:
                    outcomes[stage] = self.outcome(
                        instance_id, memory, label, evaluated, stage, chosen, label_was_first
                    )
            if outcomes:
                memory.outcomes[model] += [(evaluated, outcome) for outcome in outcomes.values()]
                evaluated.newest_change = self.changes
                self.result.alarms += evaluated.add(outcomes, twofold=len(counting) > 1)
                if evaluated is self.models[model][0]:  # stages at an age are groups of their own
                    newest = choose("final", counting, t0, label.t1, self.settings.bins)
                    assert newest is not None
                    evaluated.note_version(newest)
                every = self.settings.emit_outcomes
                if every is not None and evaluated.count % every == 0:
                    self.emit(evaluated)

    def outcome(
        self,
        instance_id: str,
        memory: Memory,
        label: Label,
        evaluated: Model,
        stage: str,
        chosen: Prediction,
        label_was_first: bool,
    ) -> Outcome:
        """The outcome of a stage's prediction."""
        assert label.y is not None
        persistent, majority = label.baselines if label_was_first else chosen.baselines
        if stage in told_stages(evaluated.settings):
            self.result.outcomes.append({
                "stream": self.name, "model": evaluated.name, "stage": stage,
                "outcome": evaluated.count + 1, "instance_id": instance_id,
                "y_true": label.y, "y_pred": chosen.y_pred,
                "persistent": persistent, "majority": majority, "ts": label.t1,
                "value": chosen.value, "value_of_label": label.value,
            })  # fmt: skip
            self.result.meetings.append(
                Meeting(id(memory), self.processed, chosen.proba, self.places[chosen.ts])
            )
        return Outcome(
            instance_id, label.t1, label.y, chosen.y_pred,
            persistent == label.y, majority == label.y, chosen.proba, memory.propensity,
            persistent is not None, self.places[chosen.ts], chosen.value, label.value, chosen.interval,
            chosen.quantiles, chosen.baseline, chosen.weight,
        )  # fmt: skip

    def counts_of(self, model: Model) -> dict[str, int]:
        """What the messages of a model count, but for zeros."""
        counts = self.result.counts[self.name, None] + self.result.counts[self.name, model.name]
        waiting = len(self.accounts[model.name].waiting())
        return dict(counts) | ({"waiting": waiting} if waiting else {})

    def numbers(self, model: Model) -> tuple[Any, ...]:
        """What makes messages due when it changes."""
        return model.count, model.revisions, sorted(self.counts_of(model).items())

    def emit(self, model: Model, *, all_records: bool = False, covered: bool = False) -> None:
        """Emit a model's messages; with `covered`, the first says what became of its predictions.

        `all_records`: they are about all records so far, and not about an outcome among them.
        """
        assert self.clock is not None
        counts, account = self.result.counts, self.accounts[model.name]
        model.said = self.numbers(model)
        moment = [[self.changes - model.newest_change]] if all_records else []
        messages = model.messages(self.counts_of(model), self.clock, moment)
        if covered and messages:
            coverage = {
                "waiting": len(account.waiting()),
                "oldest_waiting_ms": account.oldest(self.clock),
                "labelled": dict(account.labelled(self.clock)),
                "label_latency_ms": quantiles(self.latencies),
                "recent_label_latency_ms": quantiles(self.latest.latencies()),
                "unpredicted_labels": counts[self.name, None]["unmatched_label"],
                "instances_without_predictions": self.unpredicted_instances,
                "predictions_without_instance": self.predictions_without_instance,
            }
            if self.settings.at_horizon is not None:
                coverage["at_horizon"] = counts[self.name, model.name]["at_horizon"]
            if self.settings.task == "classification":
                coverage |= account.selection()
            messages[0]["coverage"] = coverage
        self.result.metrics += messages

    def emit_all(self, *, only_dirty: bool) -> None:
        """Emit all models, or those with news."""
        said = set()
        for model in (group for groups in self.models.values() for group in groups):
            if model.told() and (not only_dirty or model.said != self.numbers(model)):
                self.emit(model, all_records=True, covered=model.name not in said)
                said.add(model.name)


def run(
    config: Mapping[str, Any], records: Iterable[Record], *, final: bool = True, partition: int = 0
) -> Result:
    """Evaluate records that are in processing order.

    `config` is the parsed YAML of the contract's section 5, a record is (kind, object, record time
    in ms). With `final`, each sequence emits once more at the end. They are of one
    `partition`. ValueError: something is not covered, or a record cannot be used.
    """
    result = Result()
    streams: dict[str, Stream] = {}  # in order of first sight
    newest: int | None = None
    for kind, obj, record_time in records:
        before = newest
        newest = record_time if before is None else max(before, record_time)
        if before is not None:
            for stream in streams.values():
                every = stream.settings.emit_every
                if every is not None and newest // every > before // every:
                    stream.emit_all(only_dirty=True)
        name = identifier(obj["stream"])
        if name not in streams:
            streams[name] = Stream(name, settings_of(config, name), result, partition)
        streams[name].process(kind, obj, record_time)
    if final:
        for stream in streams.values():
            stream.emit_all(only_dirty=False)
    return result
