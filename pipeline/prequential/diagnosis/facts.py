"""What a shard knows that may look wrong: the facts that `prequential.diagnosis.findings` judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from prequential.core.catalog.streams import Stream
from prequential.core.compiled import ids
from prequential.core.delay import latency
from prequential.core.input import recurrence
from prequential.core.input.seen import OTHERS
from prequential.core.shard import Shard
from prequential.core.tables.store import EXPIRED, LABELLED, WAITING
from prequential.diagnosis.findings import Example, StreamFacts, never_meet
from prequential.topics.decoding import LABELS, PREDICTIONS


def triple(values: Iterable[int]) -> tuple[int, int, int]:
    """Three whole numbers by kind of record: instances, predictions, labels."""
    instances, predictions, labels = map(int, values)
    return instances, predictions, labels


def streams_of(shard: Shard, start: int = 0, stop: int | None = None) -> list[StreamFacts]:
    """The facts of a shard's streams number `start` to `stop`, without examples.

    They are numbered from 0 as they came.
    """
    return [_stream(shard, stream) for stream in shard.catalog.streams[start:stop]]


def with_example(shard: Shard, facts: StreamFacts) -> StreamFacts:
    """The facts of a stream, with ids as an example where predictions and labels never meet.

    Looking for one takes time in proportion to all instances that are known.
    """
    if not never_meet(facts):
        return facts
    return replace(facts, example=example(shard, shard.catalog.by_name[facts.name]))


def read_by(shard: Shard) -> tuple[int, int, int]:
    """Records that a shard has processed in this process, by kind, with those that can't be used."""
    usable = shard.seen.records.sum(axis=0)
    return triple(map(sum, zip(usable.tolist(), shard.state.dead_letters)))


def since(now: StreamFacts, before: StreamFacts | None) -> StreamFacts:
    """The facts of a stream with counts of what came since former facts; None: since its beginning."""
    if before is None:
        return now
    return replace(
        now,
        records=triple(a - b for a, b in zip(now.records, before.records)),
        matched=now.matched - before.matched,
        late_predictions=now.late_predictions - before.late_predictions,
        late_labels=now.late_labels - before.late_labels,
    )


def _stream(shard: Shard, stream: Stream) -> StreamFacts:
    catalog, code, config = shard.catalog, stream.code, stream.config
    streams, entities = catalog.columns.streams, catalog.columns.entities
    seen = shard.seen
    records = earliest = latest = (0, 0, 0)
    if code < len(seen.records):
        records, earliest, latest = (
            triple(column[code].tolist()) for column in (seen.records, seen.earliest, seen.latest)
        )
    models = list(stream.models.values())
    predicted, labelled = _named(shard, stream)
    scored, foreign = _foreign(shard, stream)
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
        reused=recurrence.reused_of(shard.recurrence, code),
        latency=recurrence.latency_of(shard.recurrence, code),
        predicted=predicted,
        labelled=labelled,
        positive_class=config.positive_class,
        named=tuple(stream.class_names),
        costs=_cost_classes(config.costs),
        at_horizon=config.label_at_horizon,
        scored=scored,
        foreign=foreign,
        classes=_classes(shard, stream),
        unseen_keys=tuple(key for key in config.segments if key in stream.unseen_keys),
        other_keys=tuple(stream.other_keys),
        models=tuple(stream.models),
        champion=config.champion if config.compare == "champion" else None,
        pairs_left_out=shard.state.pairing.left_out.get(code, 0),
        most_pairs=catalog.config.limits.pairs_per_stream,
    )


def _named(shard: Shard, stream: Stream) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Classes that predictions and labels of this process have named; none if there are too many."""
    masks, code = shard.seen.classes, stream.code
    if stream.config.task == "regression" or code >= len(masks):
        return (), ()
    of_predictions, of_labels = int(masks[code, PREDICTIONS]), int(masks[code, LABELS])
    if (of_predictions | of_labels) >> OTHERS:
        return (), ()
    names = list(stream.class_names)[:OTHERS]
    return (
        tuple(name for place, name in enumerate(names) if of_predictions >> place & 1),
        tuple(name for place, name in enumerate(names) if of_labels >> place & 1),
    )


def _cost_classes(costs: Mapping[str, Mapping[str, float]] | None) -> tuple[str, ...]:
    """Classes that costs name, as labels or as predictions."""
    return tuple(dict.fromkeys(name for label, row in (costs or {}).items() for name in (label, *row)))


def _foreign(shard: Shard, stream: Stream) -> tuple[tuple[int, int], tuple[str, ...]]:
    """Predictions with probabilities, and those whose own class has none of them; names in the latter."""
    seen, code = shard.seen, stream.code
    if code >= len(seen.scored):
        return (0, 0), ()
    given, without = seen.scored[code].tolist()
    hashes = set(seen.foreign[code].tolist()) - {0}
    return (given, without), tuple(shard.encoder.names_of(hashes)) if hashes else ()


def _classes(shard: Shard, stream: Stream) -> tuple[str, ...]:
    """Classes of labels, the most frequent first; ties as they came."""
    columns = shard.catalog.columns
    start = int(columns.streams.classes[stream.code])
    seen = columns.classes.seen[start : start + len(stream.class_names)]
    order = np.argsort(-seen, kind="stable")
    return tuple(stream.class_names[code] for code in order.tolist() if seen[code])


def example(shard: Shard, stream: Stream, *, expired: bool = False) -> Example:
    """Ids of instances of a stream that have predictions or a label alone, as far as any are known now.

    With `expired`, the prediction's is one whose label's time is over.
    """
    waiting = None if expired else _waiting(shard, stream, WAITING)
    return Example(waiting or _waiting(shard, stream, EXPIRED), _waiting(shard, stream, LABELLED))


def _waiting(shard: Shard, stream: Stream, state: int) -> str | None:
    """The id of an instance of a stream in this state; of those that wait, of one with predictions."""
    known, instances = shard.state.store.ids, shard.state.store.instances
    count = min(len(known.stream), len(instances.state))
    waiting = (known.stream[:count] == stream.code) & (known.size[:count] > 0)
    waiting &= instances.state[:count] == state
    if state == WAITING:
        waiting &= instances.first[:count] > 0
    slot = int(waiting.argmax())
    return ids.text_of(known, slot).decode() if waiting[slot] else None
