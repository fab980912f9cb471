"""Settled instances in compact rows: what they cost, and that they act as those in the other tables."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import World, catch_up, live
from oracle import Record
from oracle_cases import inst, lab, pred, tick
from prequential.configuration.settings.model import Config
from prequential.engine.catalog import state
from prequential.engine.compiled.kernel import grown, tables_of
from prequential.engine.shard import Shard
from prequential.engine.tables import compact
from prequential.topics.outputs import Encoded
from test_between_lives import Lives
from test_shard_against_oracle import assert_same, world_from

from tests.bench.feeding import feed
from tests.bench.messages import Record as Message
from tests.nightly import scaled

DAY = 86_400_000

#: Maximum number of bytes of a settled instance with one prediction, of a stream without optional fields.
MOST = 40


def _store_after(shard: Shard, numbers: range) -> dict[str, int]:
    """Bytes by table of the store, after instances each of which got its label a minute later."""

    def messages() -> Any:
        for number in range(numbers.start, numbers.stop + 60):
            ts = 1_000 * number
            head = f'{{"stream":"s","ts":{ts},"instance_id":"assessment-'
            if number < numbers.stop:
                value = f'{head}{number}","model":"m","y_pred":"{number % 3}"}}'
                yield Message(ts, "predictions", b"s", value.encode())
            if number - 60 >= numbers.start:
                value = f'{head}{number - 60}","y_true":"{number % 2}"}}'
                yield Message(ts, "labels", b"s", value.encode())

    for _ in feed(shard, messages(), size=2_000):
        pass
    return {name: array.nbytes for name, array in tables_of(shard.state.store).items()}


def test_bytes_of_a_settled_instance() -> None:
    """Another 30,000 instances make the compact tables larger, and nothing else."""
    shard = Shard(replace(Config(), defaults=replace(Config().defaults, settle=28 * DAY, emit_every=DAY)))
    before = _store_after(shard, range(10_000))
    after = _store_after(shard, range(10_000, 40_000))
    assert shard.state.remembered == 40_000
    assert shard.state.store.compact.counts[compact.LIVE] >= 39_900  # full buckets of the index
    grew = {name for name, size in after.items() if size > before[name]}
    assert grew == {"compact.rows", "compact.chunks", "compact.entries"}
    assert sum(size for name, size in after.items() if name.startswith("compact.")) <= MOST * 40_000


def test_forgotten_instances_make_room() -> None:
    shard = Shard(replace(Config(), defaults=replace(Config().defaults, settle=60_000, emit_every=DAY)))
    before = _store_after(shard, range(5_000))
    assert _store_after(shard, range(5_000, 20_000)) == before
    assert shard.state.store.compact.counts[compact.LIVE] <= 120


# ---- the same as in the other tables


def _history(seed: int, count: int = 60) -> list[Record]:
    """Instances of three streams with one prediction, some with more; and all that may come after a label."""
    rng = random.Random(seed)
    records: list[Record] = []
    for number in range(count):
        start, stream = 10 * number, f"s{number % 3}"
        more: dict[str, Any] = {"stream": stream}
        first = start + rng.choice([0, 1, 30, 300])
        if rng.random() < 0.5:
            records.append(inst(number, start - rng.choice([0, 5]), at=start, **more))
        records.append(pred(number, start, rng.choice("abc"), **more))
        records.append(lab(number, first, rng.choice("abc"), at=first + rng.choice([0, 0, 7]), **more))
        for _ in range(rng.choice([0, 0, 1, 2, 3])):
            at, ts = first + rng.randrange(1, 500), rng.choice([start, first + 1])
            model, version = rng.choice("mmn"), rng.choice([None, 0, 3])
            records.append(
                rng.choice([
                    lab(number, first, rng.choice(["a", "b", None]), at=at, **more),
                    pred(number, ts, rng.choice("ab"), at=at, **more, model=model),
                    inst(number, start, at=at, **more, **({} if version is None else {"version": version})),
                ])
            )  # fmt: skip
    return sorted([*records, tick(5_000)], key=lambda one: one[2])


def _world(seed: int, **settings: Any) -> World:
    rng = random.Random(seed)
    settle = {"settle": rng.choice(["1ms", "50ms", "400ms", "1h"]), "label_horizon": rng.choice(["1s", "2h"])}
    return world_from(_history(seed), **settle | settings)


def _without_room(table: compact.Compact, streams: int, more: int) -> compact.Compact:
    """As `ensure_compact`, but nothing fits."""
    return table._replace(ends=grown(table.ends, streams))


@pytest.mark.parametrize("seed", range(scaled(6, 40)))
def test_records_after_a_label(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All outputs are the same without compact rows, with any cuts and takeovers, and those of the oracle."""
    world = _world(seed)
    found = catch_up(world).outputs
    assert_same(world, found)
    last = live(world, random.Random(seed), takeovers=True)
    assert [one.id for one in last.outputs if one in found] == [one.id for one in last.outputs]
    monkeypatch.setattr(state, "ensure_compact", _without_room)
    plain = catch_up(world)
    assert plain.outputs == found
    assert not plain.shard.state.store.compact.counts[compact.LIVE]


def test_changed_labels_stay_compact() -> None:
    """Labels that are overridden, withdrawn, or both, of 30 instances with a record and 30 without."""
    records: list[Record] = []
    for number in range(60):
        records += [inst(number, 10 * number)] * (number % 2)
        records += [pred(number, 10 * number, "a"), lab(number, 10 * number + 1, "a")]
        for at, y in ((900, "b"), (1_900, None), (2_900, "a"))[: number % 4]:
            records.append(lab(number, 10 * number + 1, y, at=at + number))
    records = [*sorted(records, key=lambda one: one[2]), tick(5_000)]
    world = world_from(records, settle="1h", label_horizon="1s")
    caught = catch_up(world)
    assert_same(world, caught.outputs)
    assert caught.shard.state.store.compact.counts[compact.LIVE] == 60
    assert caught.shard.state.catalog.registry.streams.revisions.sum() >= 45


@pytest.mark.parametrize(
    "changed",
    [
        {}, {"segments": ("arm",)}, {"stages": ("initial", "final", "after:1ms")},
        {"measures": ("accuracy", "log_loss")}, {"measures": ("accuracy", "ipw_accuracy")},
        {"label_at_horizon": "a"}, {"settle": 300},
    ],
    ids=lambda changed: "".join(changed) or "none",
)  # fmt: skip
def test_another_configuration(changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compact before a restart becomes what it would be in the other tables, whatever is new."""

    def found() -> tuple[Shard, list[bytes]]:
        lives = Lives()
        lives.go(*(one for n in range(20) for one in (pred(n, n, "a"), lab(n, n + 1, "ab"[n % 2]))))
        lives.next(**changed)
        later = [lab(n, n + 1, ["b", None, "a"][n % 3], at=100 + n) for n in range(20)]
        more = [pred(n, n, "b", model="n", at=200 + n, segments={"arm": "x"}) for n in range(0, 20, 3)]
        again = [lab(n, n + 1, "b", at=250 + n) for n in range(0, 20, 2)]
        outputs = lives.go(*later, *more, *again, pred(99, 30_000, "a"))
        return lives.shard, [msgspec.json.encode(one.json) for one in outputs if isinstance(one, Encoded)]

    shard, outputs = found()
    assert len(outputs) > 10
    monkeypatch.setattr(state, "ensure_compact", _without_room)
    plain, others = found()
    assert others == outputs
    assert shard.state.remembered == plain.state.remembered


@pytest.mark.parametrize("classes", [20, 60])
def test_many_classes(classes: int) -> None:
    """Classes that have no place in a row's codes stay in the other tables."""
    records: list[Record] = []
    for number in range(2 * classes):
        y = str(number % classes)
        records += [pred(number, 10 * number, y), lab(number, 10 * number + 1, y)]
    records += [lab(number, 10 * number + 1, "0", at=30 * classes) for number in range(2 * classes)]
    world = world_from(records, settle="1h", label_horizon="1h")
    assert_same(world, catch_up(world).outputs)


# ---- the table


def test_rows_and_index_against_a_dict() -> None:
    """Rows come, are taken out of the middle, and end, in several streams, also after a snapshot."""
    rng = np.random.default_rng(1)
    table = compact.ensure_compact(compact.new_compact(), 3, 10)
    known: dict[int, tuple[int, int]] = {}
    wheel = np.zeros(3, np.int64)
    for step in range(3_000):
        stream = int(rng.integers(3))
        key = np.uint64(rng.integers(1, 1 << 63)) << np.uint64(1)
        deadline = 1_000 + step
        table = compact.ensure_compact(table, 3, 10)
        completed, model = 5 * step, step // 12
        row = compact.add_row(table, stream, key, deadline, wheel[stream], completed, model, False)
        if row and compact.enter_row(table, row):
            known[int(key)] = stream, deadline
        elif row:
            compact.remove_compact(table, row)
        if step % 7 == 0 and known:
            gone = list(known)[int(rng.integers(len(known)))]
            compact.remove_compact(table, compact.find_compact(table, np.uint64(gone)))
            del known[gone]
        first = int(table.ends.first[stream])
        if step % 5 == 0 and first:
            if table.rows.hash[first]:
                del known[int(table.rows.hash[first])]
                compact.remove_compact(table, first)
            compact.drop_first(table, stream)
        if step % 500 == 499:
            columns = compact.dump_compact(table)
            table = compact.load_compact(columns, wheel, np.full(3, 1 << 62))
            again = compact.dump_compact(table)
            assert all(np.array_equal(column, again[name]) for name, column in columns.items())
    assert table.counts[compact.LIVE] == len(known) > 1_000
    for key, (_, deadline) in known.items():
        row = compact.find_compact(table, np.uint64(key))
        assert row
        assert compact.deadline_of(table, row, 0) == deadline
    assert not compact.find_compact(table, np.uint64(12345))
