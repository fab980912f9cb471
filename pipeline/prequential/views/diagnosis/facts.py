"""The facts of a shard that `views.diagnosis.findings` judges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
from prequential.configuration.settings.streams import DEFAULT_MEASURES, MULTILABEL_MEASURES, StreamConfig
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled import ids
from prequential.engine.delay import latency
from prequential.engine.input.recurrence import meetings_of, reused_of
from prequential.engine.input.seen import AHEAD, MICROSECONDS, OTHERS, ROW, SECONDS, STEP, odd_times_of
from prequential.engine.measures.declaration import REASONS
from prequential.engine.measures.registry import INDEX, MEASURES
from prequential.engine.output.estimates import MessageSubject
from prequential.engine.shard import Shard
from prequential.engine.tables.logs import AFTER_SETTLE, NO_LABEL, NO_PREDICTION, first_end
from prequential.engine.tables.store import EXPIRED, LABELLED, WAITING
from prequential.topics.decoding import KINDS, LABELS, PREDICTIONS
from prequential.views.diagnosis.stream_facts import (
    Example,
    OddRecords,
    Step,
    StreamFacts,
    Unpaired,
    likely_cause,
)
from prequential.views.diagnosis.times import YEAR_2200, may_lack_predictions, never_meet


def triple(values: Iterable[int]) -> tuple[int, int, int]:
    """Three whole numbers by kind of record: instances, predictions, labels."""
    instances, predictions, labels = map(int, values)
    return instances, predictions, labels


#: Place of a record of a kind with an offset, in words.
PlaceOf = Callable[[int, int], str]

#: Ids of labels and of predictions that are compared at most: the latest ones, as far as slots show.
_MOST_LABELS, _MOST_PREDICTIONS = 2_000, 50_000


def streams_of(
    shard: Shard, start: int = 0, stop: int | None = None, place_of: PlaceOf | None = None
) -> list[StreamFacts]:
    """Return the facts of a shard's streams number `start` to `stop`, without examples of ids.

    Streams are numbered from 0 in the order of their first records.
    """

    def in_topic(kind: int, offset: int) -> str:
        return f"{shard.config.kafka.topic(KINDS[kind])}/{shard.partition} offset {offset}"

    return [_stream(shard, stream, place_of or in_topic) for stream in shard.catalog.streams[start:stop]]


def lacks_example(facts: StreamFacts) -> bool:
    """Return whether to search for examples of ids, which takes time in proportion to all instances."""
    return never_meet(facts) or may_lack_predictions(facts)


def with_example(shard: Shard, facts: StreamFacts) -> StreamFacts:
    """Return the facts of a stream at the end of its records, with ids of labels without predictions."""
    facts = replace(facts, ended=True)
    if not lacks_example(facts):
        return facts
    example, ids = unpaired(shard, shard.catalog.by_name[facts.name])
    return replace(facts, example=example, cause=likely_cause(ids))


def read_by(shard: Shard) -> tuple[int, int, int]:
    """Return how many records a shard has processed in this process, by kind, invalid ones included."""
    counts = shard.seen.records.sum(axis=0).tolist()
    for refusal in shard.refusals.reasons():  # the state also counts dead letters of earlier processes
        counts[refusal.kind] += refusal.records
    return triple(counts)


def since(now: StreamFacts, before: StreamFacts | None) -> StreamFacts:
    """Return the facts of a stream with counts since earlier facts; None: since its beginning.

    Labels that were waiting before may meet predictions, or lose their horizon, later. So fewer may be
    waiting than before: `waiting_labels` is negative then, and makes up for earlier labels in `unmatched`.
    The longest step of time counts if it, or a record as late, has come since; a time after the year 2200 if
    it is later than all before.
    """
    if before is None:
        return now
    counts = (
        "matched", "late_predictions", "late_labels", "unmatched", "waiting_labels", "null_labels",
        "after_settle",
    )  # fmt: skip
    earlier_numbers = {
        (odd_records.oddity, odd_records.kind): odd_records.number for odd_records in before.odd
    }
    odd = (
        odd_records._replace(
            number=odd_records.number - earlier_numbers.get((odd_records.oddity, odd_records.kind), 0)
        )
        for odd_records in now.odd
    )
    return replace(
        now,
        records=triple(a - b for a, b in zip(now.records, before.records)),
        latest=triple(
            min(latest, YEAR_2200 - 1) if latest == earlier_latest else latest
            for latest, earlier_latest in zip(now.latest, before.latest)
        ),
        step=now.step if _has_come_since(now.step, before.step) else None,
        reused=(now.reused[0] - before.reused[0], max(0, now.reused[1] - before.reused[1])),
        odd=tuple(odd_records for odd_records in odd if odd_records.number),
        **{name: getattr(now, name) - getattr(before, name) for name in counts},
    )


def _has_come_since(now: Step | None, before: Step | None) -> bool:
    """Whether a step of time, or a record as late as its own, has come since `before`."""
    if now is None or before is None:
        return now is not None
    return now.after != before.after or now.later > before.later


def _stream(shard: Shard, stream: Stream, place_of: PlaceOf) -> StreamFacts:
    catalog, code, config = shard.catalog, stream.code, stream.config
    streams, entities = catalog.columns.streams, catalog.columns.entities
    seen = shard.seen
    records = earliest = latest = (0, 0, 0)
    null_labels = 0
    if code < len(seen.records):
        null_labels = int(seen.null[code, 0])
        records, earliest, latest = (
            triple(column[code].tolist()) for column in (seen.records, seen.earliest, seen.latest)
        )
    models = list(stream.models.values())
    predicted, labelled = _named(shard, stream)
    meetings = meetings_of(shard.recurrence, code)
    after_settle = shard.dropped.get(AFTER_SETTLE)
    scored, foreign = _foreign(shard, stream)
    costs = (config.costs or {}).items()
    return StreamFacts(
        name=stream.name,
        partition=shard.partition,
        task=config.task,
        horizon=config.label_horizon,
        records=records,
        earliest=earliest,
        latest=latest,
        matched=int(streams.completed[code]),
        late_predictions=int(entities.late[models].sum()),
        late_labels=int(streams.late_label[code]),
        lateness=latency.quantiles(shard.state.accounts.late_latencies, np.array([code]))[0].get("p50"),
        reused=reused_of(shard.recurrence, code),
        latency=meetings.latency,
        sampled=(meetings.labelled, meetings.both),
        settle=config.settle,
        unmatched=int(streams.unmatched_label[code]),
        waiting_labels=int(streams.waiting_labels[code]),
        null_labels=null_labels,
        after_settle=int(streams.after_settle[code]),
        first_after_settle=None if after_settle is None else place_of(*after_settle),
        odd=tuple(_odd(shard, code, place_of)),
        step=_step(shard, code, place_of),
        predicted=predicted,
        labelled=labelled,
        positive_class=config.positive_class,
        named=tuple(stream.class_names),
        costs=tuple(dict.fromkeys(name for label, row in costs for name in (label, *row))),
        at_horizon=config.label_at_horizon,
        scored=scored,
        foreign=foreign,
        classes=_classes(shard, stream),
        unseen_keys=tuple(key for key in config.segments if key in stream.unseen_keys),
        other_keys=tuple(stream.other_keys),
        models=tuple(stream.models),
        champion=config.champion if config.compare == "champion" else None,
        lacking=tuple(_lacking(shard, stream).items()),
        estimate=config.objective.estimate if config.objective is not None else None,
        pairs_left_out=shard.state.pairing.left_out.get(code, 0),
        most_pairs=catalog.config.limits.pairs_per_stream,
        lost=any(catalog.lost),
    )


def _lacking(shard: Shard, stream: Stream) -> dict[str, str]:
    """Return measures that are explicitly configured, and lack their input in all models, with the reason."""
    config, outcomes = stream.config, shard.catalog.columns.entities.outcomes
    chosen = config.measures not in (DEFAULT_MEASURES, MULTILABEL_MEASURES)
    wanted = [*(config.measures if chosen else ()), config.incident_loss]
    absent = {name: MEASURES[name].inputs.absent for name in wanted if MEASURES[name].fits(config.task)}
    lacking = {name: "" for name, reasons in absent.items() if reasons}

    def shown(line: MessageSubject, config: StreamConfig) -> bool:
        return line.stage == config.main_stage and line.estimator == config.estimators[0]

    for row in stream.models.values():
        if not lacking:
            break
        for estimate in shard.reporter.estimates([row] if outcomes[row] else [], shown):
            for name in list(lacking):
                reason = estimate.state.reasons[INDEX[name]]
                if reason in absent[name]:
                    lacking[name] = REASONS[reason]
                else:
                    del lacking[name]

    def is_early(name: str, reason: str) -> bool:
        """Whether it is configured, and no outcome was scored by it yet: the first season hasn't passed."""
        settings = MEASURES[name].inputs.settings
        return reason in ("no_season", "no_setting") and all(
            getattr(config, key) is not None for key in settings
        )

    return {name: reason for name, reason in lacking.items() if reason and not is_early(name, reason)}


def _odd(shard: Shard, code: int, place_of: PlaceOf) -> Iterator[OddRecords]:
    for oddity in (SECONDS, MICROSECONDS, AHEAD):
        for kind, count in enumerate(odd_times_of(shard.seen, code, oddity)):
            if count:
                offset = shard.first_odd.get((code, kind, oddity))
                yield OddRecords(oddity, kind, count, None if offset is None else place_of(kind, offset))


def _step(shard: Shard, code: int, place_of: PlaceOf) -> Step | None:
    if code >= len(shard.seen.step) or not shard.seen.step[code, ROW]:
        return None
    before, after, kind, _, earlier, later = shard.seen.step[code].tolist()
    offset = shard.first_odd.get((code, kind, STEP))
    return Step(before, after, kind, earlier, later, None if offset is None else place_of(kind, offset))


def _named(shard: Shard, stream: Stream) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return classes that predictions and labels of this process have named; none if there are too many."""
    masks, code = shard.seen.classes, stream.code
    if stream.config.task == "regression" or code >= len(masks):
        return (), ()
    of_predictions, of_labels = int(masks[code, PREDICTIONS]), int(masks[code, LABELS])
    if (of_predictions | of_labels) >> OTHERS:
        return (), ()
    names = list(stream.class_names)[:OTHERS]
    return (
        tuple(name for index, name in enumerate(names) if of_predictions >> index & 1),
        tuple(name for index, name in enumerate(names) if of_labels >> index & 1),
    )


def _foreign(shard: Shard, stream: Stream) -> tuple[tuple[int, int], tuple[str, ...]]:
    """Return counts of predictions with probabilities, and without one of their class, and names."""
    seen, code = shard.seen, stream.code
    if code >= len(seen.scored):
        return (0, 0), ()
    scored, without = seen.scored[code].tolist()
    hashes = set(seen.foreign[code].tolist()) - {0}
    return (scored, without), tuple(shard.encoder.class_hashes.names(hashes)) if hashes else ()


def _classes(shard: Shard, stream: Stream) -> tuple[str, ...]:
    """Return classes of labels, the most frequent first; ties in the order of their first labels."""
    columns = shard.catalog.columns
    start = int(columns.streams.classes[stream.code])
    seen = columns.classes.seen[start : start + len(stream.class_names)]
    order = np.argsort(-seen, kind="stable")
    return tuple(stream.class_names[code] for code in order.tolist() if seen[code])


def unpaired(shard: Shard, stream: Stream) -> tuple[Example, Unpaired]:
    """Return ids of labels without a prediction and of predictions without a label, and one of each.

    They are those known now: pending ones, expired predictions, and the first ones of all.
    """
    id_columns, store = shard.state.store.ids, shard.state.store
    count = min(len(id_columns.stream), len(store.instances.state))
    states, first = store.instances.state[:count], store.instances.first[:count] > 0
    ours = (id_columns.stream[:count] == stream.code) & (id_columns.size[:count] > 0)
    predicted = ours & ((states == WAITING) & first | (states == EXPIRED))
    logs, ids_of_sides, one_of_each = shard.state.logs, [], []
    for mask, most, way in (
        (predicted, _MOST_PREDICTIONS, NO_LABEL), (ours & (states == LABELLED), _MOST_LABELS, NO_PREDICTION)
    ):  # fmt: skip
        slots = np.flatnonzero(mask)
        slots = slots[np.argsort(store.links.deadline[slots], kind="stable")]
        texts = [text.decode() for text in ids.texts_of(id_columns, slots[-most:])]
        ended = first_end(logs, way, stream.code)
        one_of_each.append(ids.text_of(id_columns, int(slots[0])).decode() if len(slots) else ended)
        ids_of_sides.append(texts if ended is None else [*texts, ended])
    predictions, labels = ids_of_sides
    return Example(*one_of_each), Unpaired(labels, predictions)
