"""Records that are parsed before their turn give what they give when they are parsed in turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.input.plain import Parser, Plain
from prequential.engine.input.record_scanner import READ_ON_DEMAND
from prequential.engine.shard import Shard
from prequential.runtime.kafka.readers import ConsumerRecords
from prequential.runtime.worker.batches import MANY, SharedParser, to_batch
from prequential.runtime.worker.runner import ShardRunner
from prequential.topics.outputs import DeadLetter, Message, decoded

_LABELS = 2


def records_of(values: Sequence[dict[str, Any] | bytes | None], times: Sequence[int]) -> ConsumerRecords:
    text = [one if one is None or isinstance(one, bytes) else json.dumps(one).encode() for one in values]
    keys = [b"s"] * len(text)
    return ConsumerRecords(range(len(text)), np.array(times, np.int64), text, keys, by_producer=False)


def inputs(spoilt: dict[int, bytes | None]) -> list[ConsumerRecords]:
    """Instances, predictions and labels, of which some labels are spoilt, and a time is beyond all dates."""
    count = 2 * MANY
    instances = [{"stream": "s", "instance_id": f"i{n}"} for n in range(count)]
    predictions = [{**one, "model": f"m{n % 3}", "y_pred": n % 2} for n, one in enumerate(instances)]
    labels: list[Any] = [{**one, "y_true": n % 5 == 0} for n, one in enumerate(instances)]
    for place, value in spoilt.items():
        labels[place] = value
    times = [1_000 + n for n in range(count)]
    late = [time + 5 for time in times]
    late[7] = 1 << 60
    return [records_of(instances, times), records_of(predictions, times), records_of(labels, late)]


def outputs(batches: Sequence[ConsumerRecords], ahead: Sequence[int], config: Config) -> list[Message]:
    shard, parser = Shard(config), SharedParser(Parser(READ_ON_DEMAND - {"value"}))
    shard.quarantine = {(1, 3): "a worker died at it"}
    for kind, records in enumerate(batches):
        content = parser.parse_ahead(kind, records) if kind in ahead else None
        assert (content is not None) == (kind in ahead)
        shard.add(to_batch(kind, records, parser, content))
    for _ in range(4):
        shard.advance([1 << 60] * 3, MANY)
    return list(map(decoded, shard.flush()[0]))


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("spoilt", [{}, {4: b"{", 9: None, MANY: b"[]"}], ids=["plain", "not plain"])
@pytest.mark.parametrize("versions", ["mark", "separate"])
def test_it_gives_the_same(ahead: tuple[int, ...], spoilt: dict[int, bytes | None], versions: str) -> None:
    batches, config = inputs(spoilt), Config(defaults=StreamConfig(versions=versions, emit_outcomes=100))
    expected = outputs(batches, (), config)
    assert outputs(batches, ahead, config) == expected
    assert sum(isinstance(one, DeadLetter) for one in expected) == 2 + len(spoilt)


def test_few_records_are_parsed_in_turn() -> None:
    few = inputs({})[_LABELS]
    parser = SharedParser(Parser(READ_ON_DEMAND - {"value"}))
    assert isinstance(parser.parse_ahead(_LABELS, few), Plain)
    few.values = few.values[: MANY - 1]
    few.offsets = few.offsets[: MANY - 1]
    assert parser.parse_ahead(_LABELS, few) is None


@pytest.mark.parametrize(
    ("key", "headers", "wide", "withdrawn"),
    [
        (b"s", [("instance_id", b"3")], False, 1),
        (b"anything", [("trace", b"\xc3"), ("instance_id", b"3"), ("stream", b"s")], False, 1),
        (b"anything", [("instance_id", b"3\xc3"), ("stream", b"s")], False, 0),
        (b"anything", [("instance_id", b"3"), ("stream", b"s")], False, 1),
        (b'{"stream":"s","instance_id":3}', [], False, 1),
        (b"3", [], True, 1),
        (b"3", [("stream", b"s")], True, 1),
        (b"s", [], False, 0),
        (b"{", [], False, 0),
        (b"\xff", [("instance_id", b"3")], False, 0),
        (None, [("instance_id", b"3")], False, 0),
    ],
)  # fmt: skip
def test_a_tombstone_withdraws_a_label(
    key: bytes | None, headers: list[tuple[str, bytes]], wide: bool, withdrawn: int
) -> None:
    """It is a dead letter if neither a header nor its key names the instance."""
    config = Config(streams={"s": StreamConfig(key="instance" if wide else "stream")})
    shard, parser = Shard(config), SharedParser.of(config)
    rows: list[dict[str, Any]] = [{"stream": "s", "instance_id": n} for n in range(5)]
    times = list(range(1_000, 1_005))
    shard.add(to_batch(1, records_of([{**one, "model": "m", "y_pred": 1} for one in rows], times), parser))
    shard.add(to_batch(_LABELS, records_of([{**one, "y_true": 1} for one in rows], times), parser))
    tombstone = np.array([1_010]), [None], [key]
    records = ConsumerRecords(range(5, 6), *tombstone, by_producer=False, headers={0: headers})
    shard.add(to_batch(_LABELS, records, parser))
    while shard.advance([1 << 60] * 3, MANY):
        pass
    letters = [one for one in shard.flush()[0] if isinstance(one, DeadLetter)]
    streams = shard.catalog.columns.streams
    assert (streams.withdrawn.sum(), len(letters)) == (withdrawn, 1 - withdrawn)


@pytest.mark.parametrize("is_ahead", [False, True])
def test_tombstones_among_many_labels(is_ahead: bool) -> None:
    """The others are columns; one of them is the label that the first tombstone withdrew."""
    config = Config(streams={"s": StreamConfig()})
    shard, parser = Shard(config), SharedParser.of(config)
    instances, predictions, labels = inputs({})
    values, keys = [None, *labels.values[:MANY], None], [b"s"] * (MANY + 2)
    headers = {0: [("instance_id", b"i3")], MANY + 1: [("instance_id", b"i4")]}
    taken = range(2 * MANY, 3 * MANY + 2), np.full(MANY + 2, 9_000), values, keys
    tombstones = ConsumerRecords(*taken, by_producer=False, headers=headers)
    content = parser.parse_ahead(_LABELS, tombstones) if is_ahead else None
    for kind, records in enumerate((instances, predictions, labels)):
        shard.add(to_batch(kind, records, parser))
    shard.add(to_batch(_LABELS, tombstones, parser, content))
    assert isinstance(content, Plain) == is_ahead
    while shard.advance([1 << 60] * 3, MANY):
        pass
    letters = [one for one in shard.flush()[0] if isinstance(one, DeadLetter)]
    streams = shard.catalog.columns.streams
    assert (streams.withdrawn.sum(), streams.revisions.sum(), len(letters)) == (2, 1, 1)


def test_an_error_comes_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the journal knows at which records."""
    records, parser = inputs({})[_LABELS], SharedParser(Parser(READ_ON_DEMAND - {"value"}))

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(parser._parser, "parse", fail)
    batch = to_batch(_LABELS, records, parser, parser.parse_ahead(_LABELS, records))
    with pytest.raises(ZeroDivisionError):
        batch.decode()


@pytest.mark.parametrize(
    ("recovering", "isolation", "begun", "parses"),
    [(False, None, True, True), (True, None, True, False), (False, object(), True, False),
     (False, None, False, False)],
)  # fmt: skip
def test_nothing_at_which_workers_have_died_is_parsed_ahead(
    recovering: bool, isolation: object, begun: bool, parses: bool
) -> None:
    """Nor what the journal would not name, if this worker died of it: it has not said that it processes."""
    state: Any = SimpleNamespace(recovering=recovering, _isolation=isolation, _begun=begun)
    state._parser = SharedParser(Parser(READ_ON_DEMAND - {"value"}))
    state.parses_ahead = ShardRunner.parses_ahead.fget(state)  # type: ignore[attr-defined]
    fetched: Any = SimpleNamespace(kind=_LABELS, records=inputs({})[_LABELS])
    assert (ShardRunner.parse_ahead(state, fetched) is not None) is parses
