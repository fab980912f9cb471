"""What a shard knows beside its state: counts and times of records, lateness, keys, what it has dropped."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from helpers import advance, catch_up
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.input.merge import Batch
from prequential.engine.shard import Shard
from prequential.engine.tables.logs import DUPLICATE, EXPIRED_PREDICTION, LATE_LABEL, LATE_PREDICTION
from prequential.offline.replay.summary import Account
from prequential.topics.decoding import INSTANCES, KINDS, LABELS, PREDICTIONS, decode
from prequential.views.diagnosis.facts import read_by, since, streams_of, unpaired
from worlds import random_world

HOUR = 3_600_000

Row = tuple[int, dict[str, Any] | bytes]
Rows = list[Row]


def inst(time: int, name: str, **more: Any) -> Row:
    """An instance record at a record time, which is its `ts` unless `more` has another."""
    return time, {"stream": "s", "instance_id": name, "ts": time, **more}


def pred(time: int, name: str, y: str, **more: Any) -> Row:
    """A prediction of model `m`."""
    return time, {"stream": "s", "model": "m", "instance_id": name, "y_pred": y, "ts": time, **more}


def lab(time: int, name: str, y: str, **more: Any) -> Row:
    """A label."""
    return time, {"stream": "s", "instance_id": name, "y_true": y, "ts": time, **more}


def shard_of(topics: tuple[Rows, Rows, Rows], vectors: int = 1_000_000, **settings: Any) -> Shard:
    """A shard that has processed these, at most `vectors` of each topic at once."""
    shard = Shard(Config(defaults=StreamConfig(**{"label_horizon": HOUR, **settings})))
    for kind, rows in enumerate(topics):
        values = [row if isinstance(row, bytes) else json.dumps(row).encode() for _, row in rows]
        if rows:
            shard.add(Batch(kind, range(len(rows)), [time for time, _ in rows], decode(kind, values)))
    advance(shard, vectors)
    return shard


def test_the_first_record_that_was_dropped_for_each_reason() -> None:
    topics = (
        [inst(0, "a"), inst(5, "a"), inst(6, "a")],
        [
            pred(1, "a", "X"), pred(1, "a", "X"), pred(20, "b", "X"), pred(21, "b", "X"),
            pred(3 * HOUR, "c", "X"), pred(5 * HOUR, "c", "X", ts=3 * HOUR),
        ],
        [
            lab(10, "a", "X"), lab(11, "a", "X"), lab(12, "b", "X"), lab(3 * HOUR + 1, "z", "X"),
            lab(4 * HOUR + 10, "c", "X"), lab(4 * HOUR + 11, "c", "X"),
        ],
    )  # fmt: skip
    for vectors in (1_000, 1):
        assert shard_of(topics, vectors).dropped == {
            DUPLICATE + INSTANCES: (INSTANCES, 1), DUPLICATE + PREDICTIONS: (PREDICTIONS, 1),
            DUPLICATE + LABELS: (LABELS, 1), LATE_PREDICTION: (PREDICTIONS, 2), LATE_LABEL: (LABELS, 4),
            EXPIRED_PREDICTION: (PREDICTIONS, 5),
        }  # fmt: skip


@pytest.mark.parametrize("with_instances", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_lateness_is_counted_from_the_horizon(seed: int, with_instances: bool) -> None:
    """Whether the label comes to an instance that waits, has expired, or comes before its predictions."""
    rng = random.Random(seed)
    lateness = [rng.randrange(1, HOUR) for _ in range(301)]
    arrivals = [i * 60_000 for i in range(len(lateness))]
    instances = [inst(t0, str(i)) for i, t0 in enumerate(arrivals)] if with_instances else []
    predictions = [pred(t0 + 1 if with_instances else t0, str(i), "X") for i, t0 in enumerate(arrivals)]
    labels = sorted(
        (lab(t0 + HOUR + late, str(i), "X") for i, (t0, late) in enumerate(zip(arrivals, lateness))),
        key=lambda row: row[0],
    )
    shard = shard_of((instances, predictions, labels))
    (facts,) = streams_of(shard)
    assert (facts.late_labels, facts.matched) == (len(lateness), 0)
    assert facts.lateness == pytest.approx(sorted(lateness)[len(lateness) // 2], rel=0.01)


def test_lateness_that_shows_only_later() -> None:
    """A label waits for its predictions, and an instance says how early it was."""
    shard = shard_of(([inst(20, "a", ts=0)], [], [lab(10, "a", "X", ts=HOUR + 60_000)]))
    (facts,) = streams_of(shard)
    assert facts.late_labels == 1
    assert facts.lateness == pytest.approx(60_000, rel=0.01)


def test_a_label_that_is_late_by_the_clock_alone_has_no_lateness() -> None:
    rows = [pred(0, "a", "X"), pred(2 * HOUR, "b", "X")]
    (facts,) = streams_of(shard_of(([], rows, [lab(2 * HOUR + 1, "a", "X", ts=5)])))
    assert (facts.late_labels, facts.lateness) == (1, None)


def test_counts_and_times_by_kind() -> None:
    topics: tuple[Rows, Rows, Rows] = (
        [inst(50, "a")],
        [pred(60, "a", "X", ts=55), pred(70, "b", "X"), (80, b"junk")],
        [lab(90, "a", "X", ts=65)],
    )
    shard = shard_of(topics)
    (facts,) = streams_of(shard)
    assert (facts.records, facts.earliest, facts.latest) == ((1, 2, 1), (50, 55, 65), (50, 70, 65))
    assert read_by(shard) == (1, 3, 1)
    assert [tuple(one) for one in shard.refusals.reasons()] == [
        (PREDICTIONS, "JSON is malformed: invalid character (byte 0)", 2, 1)
    ]
    later = since(facts, facts)
    assert (later.records, later.matched, facts.matched) == ((0, 0, 0), 0, 1)


def test_keys_of_segments() -> None:
    rows = [pred(1, "a", "X", segments={"arm": "A", "land": "x"}), pred(2, "b", "X", segments={"zone": "y"})]
    (facts,) = streams_of(shard_of(([], rows, []), segments=("arm", "aisle")))
    assert (facts.unseen_keys, facts.other_keys) == (("aisle",), ("land", "zone"))


def test_a_restored_shard_knows_the_keys_that_it_has_seen() -> None:
    rows = [pred(1, "a", "X", segments={"arm": "A"})]
    shard = shard_of(([], rows, []), segments=("arm", "aisle"))
    shard.flush()
    restored = Shard(shard.config)
    restored.restore(iter(list(shard.snapshot())))
    (facts,) = streams_of(restored)
    assert facts.unseen_keys == ("aisle",)
    assert facts.records == (0, 0, 0), "of this life"


def test_examples_are_of_instances_that_wait_or_did() -> None:
    shard = shard_of(([inst(0, "seen")], [pred(1, "p", "X")], [lab(2, "l", "X")]))
    (stream,) = shard.catalog.streams
    assert unpaired(shard, stream) == (("p", "l"), (["l"], ["p"]))
    shard = shard_of(([], [pred(0, "p", "X")], [lab(2 * HOUR, "l", "X")]))
    (stream,) = shard.catalog.streams
    assert unpaired(shard, stream) == (("p", "l"), (["l"], ["p", "p"]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_summary_accounts_for_every_record(seed: int) -> None:
    """What is neither dropped nor waits is used, and that is what has met, revised or withdrawn something."""
    world = random_world(random.Random(seed), 300, 3, unusable=seed % 2 == 1)
    shard = catch_up(world).shard
    account = Account(lambda kind, partition, offset: {"file": "f", "row": offset})
    account.add(shard)
    found = account.summary(None).records
    assert [found[name].read for name in KINDS] == [len(rows) for rows in world.topics]
    count, streams = len(shard.catalog.streams), shard.catalog.columns.streams
    met, revised, withdrawn = (
        int(of_streams[:count].sum())
        for of_streams in (streams.completed, streams.revisions, streams.withdrawn)
    )
    closing = any(stream.config.label_at_horizon is not None for stream in shard.catalog.streams)
    used = found["labels"].used
    # A label that was withdrawn before it met anything is used, too.
    assert used <= met + revised + 2 * withdrawn
    assert closing or used >= met + revised + withdrawn  # a label at the horizon's end is no record
    coverage = shard.state.accounts.coverage
    paired = coverage.cohorts.met[coverage.pool.owner >= 0].sum() + coverage.models.folded[:, 2:].sum()
    assert found["predictions"].used == paired > 0
