"""What a shard's topics say about it: beginnings that are gone, manifests that were taken back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException
from prequential.configuration.settings.model import Config
from prequential.demo.broker import pick_port
from prequential.engine.input.merge import OffsetVector
from prequential.runtime.worker import recovery
from prequential.runtime.worker.journal import JournalEntry, Lost, TopicsOrigin, encode_entry
from prequential.runtime.worker.recovery import (
    GENERATION,
    RecoveredState,
    read_known,
    read_partition,
    refusal,
)
from prequential.runtime.worker.runner import ShardRunner
from prequential.runtime.worker.snapshots import FORMAT, MANIFEST_KEY, ChunkWriter, Manifest, chunk_key
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError
from prequential.topics.specs import JOURNAL, SNAPSHOTS

ORIGIN, FORMER = TopicsOrigin(1), TopicsOrigin(2)


class Written:
    """A record of a topic."""

    def __init__(
        self, offset: int, value: bytes | None, key: bytes | None = None, generation: int = 0
    ) -> None:
        self._parts = offset, key, value, [(GENERATION, b"%d" % generation)]

    def offset(self) -> int:
        return self._parts[0]

    def key(self) -> bytes | None:
        return self._parts[1]

    def value(self) -> bytes | None:
        return self._parts[2]

    def headers(self) -> list[tuple[str, bytes]]:
        return self._parts[3]


def entries(first: int, *vectors: list[OffsetVector], origin: TopicsOrigin = ORIGIN) -> list[Written]:
    """Journal records, numbered from `first` on."""
    numbered = enumerate(vectors, first)
    return [Written(n - 1, encode_entry(JournalEntry(n, own, origin))) for n, own in numbered]


def snapshot(generation: int, number: int, *, damaged: bool = False) -> list[Written]:
    """A snapshot's records: chunks and manifest."""
    writer = ChunkWriter()
    chunks = list(writer.chunks_of(iter([{"state": generation}])))
    manifest = Manifest(
        -1 if damaged else FORMAT, generation, writer.chunks, writer.size, writer.checksum, (1, 1, 1), number,
        number, "", ORIGIN,
    )  # fmt: skip
    return [
        *(Written(0, chunk, chunk_key(generation, i), generation) for i, chunk in enumerate(chunks)),
        Written(0, msgspec.msgpack.encode(manifest), MANIFEST_KEY, generation),
    ]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RecoveredState]:
    def known(
        journal: list[Written], snapshots: list[Written] | None = None, *,
        lows: tuple[int, int, int] = (0, 0, 0), refusals: tuple[Exception, ...] = (), **options: Any,
    ) -> RecoveredState:  # fmt: skip
        topics = {JOURNAL: journal, SNAPSHOTS: snapshots or []}

        def records(_: Any, topic: str, __: int, offset: int, *___: Any, **____: Any) -> Iterator[Written]:
            return (record for record in topics[topic] if record.offset() >= offset)

        left: list[int | Exception] = [*refusals, *lows]

        class FakeConsumer:
            def __init__(self, _: Any) -> None: ...

            def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
                low = left.pop(0)
                if isinstance(low, Exception):
                    raise low
                return low, 100

            def close(self) -> None: ...

        monkeypatch.setattr(recovery, "read_partition", records)
        monkeypatch.setattr("prequential.topics.clients.Consumer", FakeConsumer)
        monkeypatch.setattr(recovery, "_POLL_SECONDS", 0.0)
        rebuild = options.pop("rebuild", False)
        return read_known(Config(), 0, ORIGIN, rebuild, lambda: False, **options)

    return known


class TestBeginnings:
    @pytest.mark.parametrize("rebuild", [False, True])
    def test_a_journal_without_its_beginning_is_refused(
        self, read: Callable[..., RecoveredState], rebuild: bool
    ) -> None:
        known = read(entries(3, [(5, 5, 5)]), rebuild=rebuild)
        assert known.lost == Lost((0, 0, 0), (0, 0, 0), 2)
        assert refusal(Config(), 0, known.lost).startswith(
            "shard 0 halted: retention deleted records that it needs: 2 entries of the journal; "
            "`prequential worker --accept-loss 0`"
        )

    def test_entries_missing_behind_a_snapshot_are_lost(self, read: Callable[..., RecoveredState]) -> None:
        known = read(entries(5, [(5, 5, 5)]), snapshot(1, 2))
        assert known.lost == Lost((1, 1, 1), (1, 1, 1), 2)

    def test_a_replay_is_told(
        self, read: Callable[..., RecoveredState], caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING):
            known = read(entries(3, [(5, 5, 5)]), lows=(9, 9, 9), rebuild=True, whole=False)
        assert known.journal_number == 3
        assert "the journal of shard 0 begins at entry 3" in caplog.text

    def test_inputs_that_begin_after_the_first_cut_are_refused(
        self, read: Callable[..., RecoveredState]
    ) -> None:
        journal = entries(1, [], [(2, 3, 4)], [(5, 5, 5)])
        assert len(read(journal, lows=(2, 3, 4), rebuild=True).journal) == 3
        assert read(journal, lows=(2, 3, 4), rebuild=True).lost is None
        lost = read(journal, lows=(0, 4, 0), rebuild=True).lost
        assert lost == Lost((0, 0, 0), (0, 4, 0), 0, (2, 3, 4))
        assert lost.missing == [0, 1, 0, 0, 3]  # outputs of three of them are published

    def test_a_broker_that_says_nothing_of_beginnings_is_waited_for_by_who_can(
        self, read: Callable[..., RecoveredState], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said: list[str | None] = []
        codes = KafkaError._TRANSPORT, KafkaError._UNKNOWN_PARTITION
        nobody = tuple(KafkaException(KafkaError(code)) for code in codes)
        journal = entries(1, [(2, 3, 4)])
        assert len(read(journal, refusals=nobody, rebuild=True, waiting=said.append).journal) == 1
        assert said == ["instances/0: Local: Broker transport failure"]  # the other is asked again at once
        with pytest.raises(WorkError, match="Kafka at localhost:9092: Local: Broker transport failure"):
            read(journal, refusals=nobody, rebuild=True)
        monkeypatch.setattr("prequential.topics.clients.REACH_SECONDS", 0.0)
        read(journal, refusals=nobody, rebuild=True, waiting=said.append)
        assert said[1:] == [
            "instances/0: Local: Broker transport failure", "instances/0: Local: Unknown partition"
        ]  # fmt: skip
        denied = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        with pytest.raises(WorkError, match="authorization failed"):
            read(journal, refusals=(denied,), rebuild=True, waiting=said.append)

    def test_inputs_may_be_gone_as_far_as_the_snapshot(self, read: Callable[..., RecoveredState]) -> None:
        known = read(entries(3, [(5, 5, 5)]), snapshot(1, 2), lows=(1, 1, 1))
        assert known.manifest is not None
        assert known.lost is None
        assert [entry.number for entry in known.journal] == [3]
        known = read(entries(3, [(5, 5, 5)]), snapshot(1, 2), lows=(1, 9, 1))
        assert known.lost == Lost((1, 1, 1), (1, 9, 1))

    def test_what_was_accepted_is_lost_once(self, read: Callable[..., RecoveredState]) -> None:
        """But not for a rebuild, which lacks more than the snapshot's successor did."""
        lost = Lost((1, 1, 1), (1, 9, 1))
        note = Written(2, encode_entry(JournalEntry(3, [], ORIGIN, lost)))
        known = read([note], snapshot(1, 2), lows=(1, 9, 1))
        assert (known.accepted, known.lost) == ((lost,), None)
        assert read([note], snapshot(1, 2), lows=(1, 11, 1)).lost == Lost((1, 9, 1), (1, 11, 1))
        journal = [*entries(1, [(2, 2, 2)], []), note]
        lost = Lost((0, 0, 0), (0, 9, 0), 0, (2, 2, 2))
        assert read(journal, lows=(1, 9, 1), rebuild=True).lost == lost

    def test_a_rebuild_passes_over_what_was_before_the_topics(
        self, read: Callable[..., RecoveredState]
    ) -> None:
        journal = [*entries(4, [(7, 7, 7)], origin=FORMER), *entries(5, [(1, 1, 1)])]
        known = read(journal, rebuild=True)
        assert ([entry.number for entry in known.journal], known.journal_number) == ([5], 5)


class TestManifests:
    def test_one_that_was_taken_back_is_none(self, read: Callable[..., RecoveredState]) -> None:
        """As a rebuild does before its first entry."""
        taken_back = Written(0, None, MANIFEST_KEY)
        known = read(entries(1, [(1, 1, 1)]), [*snapshot(7, 9), taken_back])
        assert known.manifest is None
        assert len(known.journal) == 1
        known = read(entries(1, [(1, 1, 1)], []), [*snapshot(7, 9), taken_back, *snapshot(1, 1)])
        assert known.manifest is not None
        assert (known.manifest.generation, list(known.parts)) == (1, [{"state": 1}])
        assert [entry.number for entry in known.journal] == [2]

    def test_one_that_cant_be_read_counts_until_the_next_one(
        self, read: Callable[..., RecoveredState]
    ) -> None:
        with pytest.raises(WorkError, match=rf"has format -1, this version reads .*{FORMAT}: .*--rebuild"):
            read([], [*snapshot(1, 0), *snapshot(2, 0, damaged=True)])
        known = read([], [*snapshot(2, 0, damaged=True), *snapshot(3, 0)])
        assert known.manifest is not None
        assert known.manifest.generation == 3
        assert read([], snapshot(2, 0, damaged=True), rebuild=True).manifest is None


    def test_a_successor_knows_the_size_of_the_newest_one(self, read: Callable[..., RecoveredState]) -> None:
        known = read([], snapshot(1, 0))
        assert known.manifest is not None
        fetcher: Any = SimpleNamespace(commit=lambda *_: None)
        config = Config(kafka=KafkaConfig("127.0.0.1:1"))
        runner = ShardRunner(config, 0, fetcher, ORIGIN, rebuild=False, on_lost=lambda *_: None)
        runner.checkpoint.resume(known)
        assert runner.statistics.snapshot_bytes == known.manifest.size > 0


class TestSilence:
    """Nobody answers at all."""

    def test_whoever_cant_wait_gives_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recovery, "_POLL_SECONDS", 0.01)
        with pytest.raises(WorkError, match="journal/3: nothing came for 0 s"):
            list(read_partition(_nobody(), "journal", 3, 0, lambda: False, 0.05))

    def test_whoever_waits_says_so_until_told_to_stop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, seconds in (("_POLL_SECONDS", 0.01), ("_TELL_SECONDS", 0.02), ("_SILENCE_SECONDS", 0.05)):
            monkeypatch.setattr(recovery, name, seconds)
        said: list[str | None] = []
        stopped = lambda: len(said) >= 10  # noqa: E731
        assert list(read_partition(_nobody(), "journal", 3, 0, stopped, waiting=said.append)) == []
        assert set(said) == {"journal/3: nothing came for 0 s"}


def _nobody() -> KafkaConfig:
    return KafkaConfig(f"127.0.0.1:{pick_port()}")
