"""Members of groups: the settings they ask for, and what the group's reports mean by either protocol."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, TopicPartition
from prequential.configuration.settings.model import Config, WorkerConfig
from prequential.runtime.ingest.reading import SourceFetcher
from prequential.runtime.kafka import membership
from prequential.runtime.kafka.committed_progress import CommittedProgress
from prequential.runtime.kafka.fetching import Fetcher
from prequential.runtime.kafka.membership import CO_PARTITIONED, Membership, new_member
from prequential.topics import clients
from prequential.topics.clients import CLASSIC, CONSUMER, KafkaConfig
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.specs import INPUTS
from processes import eventually, prequential, write_config

from tests.group_protocols import BOTH

_NOBODY = KafkaConfig("127.0.0.1:1")

#: What librdkafka says of a member whose membership has ended for good.
_FATAL = "ConsumerGroupHeartbeat fatal error: "

FETCHERS: list[Callable[[Config], Any]] = [
    lambda config: Fetcher(config, lambda partitions: None),
    lambda config: SourceFetcher(config, ["t"], lambda assignment: None),
]


def config_of(protocol: str, session: int = 10_000) -> Config:
    return Config(
        kafka=replace(_NOBODY, group_protocol=protocol), worker=WorkerConfig(session_timeout=session)
    )


def fatal(code: int) -> KafkaError:
    return KafkaError(KafkaError._FATAL, _FATAL + KafkaError(code).str())


@pytest.mark.parametrize("fetcher", FETCHERS, ids=["worker", "ingest"])
@pytest.mark.parametrize(("session", "heartbeat"), [(10_000, 2_500), (2_000, 500), (45_000, 3_000), (1, 1)])
def test_heartbeats_are_several_in_a_session(
    fetcher: Callable[[Config], object], session: int, heartbeat: int, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(clients, "Consumer", asked.append)
    fetcher(config_of(CLASSIC, session))
    [member] = [settings for settings in asked if "session.timeout.ms" in settings]
    assert (member["session.timeout.ms"], member["heartbeat.interval.ms"]) == (session, heartbeat)


@pytest.mark.parametrize("fetcher", FETCHERS, ids=["worker", "ingest"])
def test_settings_that_brokers_have_are_left_out(
    fetcher: Callable[[Config], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka would refuse them with the `consumer` protocol."""
    fetcher(config_of(CONSUMER))  # a real client takes its settings
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(clients, "Consumer", asked.append)
    fetcher(config_of(CONSUMER))
    [member] = [settings for settings in asked if settings.get("group.protocol") == CONSUMER]
    assert not {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"} & {*member}


def test_an_old_librdkafka_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent_kafka, "libversion", lambda: ("2.11.1", 0x020B01FF))
    new_member(config_of(CLASSIC).kafka, "g", 10_000, CO_PARTITIONED).close()
    with pytest.raises(UsageError, match=r"librdkafka is 2\.11\.1: expected 2\.12 or later"):
        new_member(config_of(CONSUMER).kafka, "g", 10_000, CO_PARTITIONED)


@pytest.mark.parametrize("name", ["session.timeout.ms", "partition.assignment.strategy"])
def test_a_client_setting_of_the_classic_protocol_is_refused(name: str, tmp_path: Path) -> None:
    """By `config check` as by a worker, in one sentence."""
    kafka = replace(_NOBODY, group_protocol=CONSUMER, security={name: "1"})
    path = write_config(tmp_path, kafka)
    done = prequential("config", "check", path, cwd=tmp_path)
    assert done.returncode == 2
    assert f"kafka.security has {name}, which group_protocol: consumer excludes" in done.stderr
    with pytest.raises(UsageError, match=name):
        Fetcher(Config(kafka=kafka), lambda partitions: None)


@pytest.mark.parametrize("fetcher", FETCHERS, ids=["worker", "ingest"])
@pytest.mark.parametrize(
    ("code", "says"),
    [
        (KafkaError.UNSUPPORTED_VERSION, "127.0.0.1:1 don't support it .*Apache Kafka 4.0 or later"),
        (KafkaError._UNSUPPORTED_FEATURE, "don't support it .*kafka.group_protocol: classic"),
        (KafkaError.UNSUPPORTED_ASSIGNOR, "have no assignor '(range|uniform)': .*group.consumer.assignors"),
        (KafkaError.GROUP_MAX_SIZE_REACHED, "the group has thrown this (worker|process) out"),
    ],
)
def test_brokers_without_the_protocol(fetcher: Callable[[Config], Any], code: int, says: str) -> None:
    made = fetcher(config_of(CONSUMER))
    own = (0.0,) if isinstance(made, Fetcher) else ()
    with pytest.raises(WorkError) as refused:
        made._handle(fatal(code), None, *own)
    assert re.search(says, str(refused.value)), refused.value


class FakeMember:
    """A client whose group does as it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.generation = 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **callbacks: self.calls.append(name)

    def consumer_group_metadata(self) -> bytes:
        return b"CGMDv2:" + self.generation.to_bytes(4, "little")


def parts(*places: tuple[str, int]) -> list[TopicPartition]:
    return [TopicPartition(*place) for place in places]


class Reports:
    """A membership, and what it reports."""

    def __init__(self, protocol: str) -> None:
        self.member: Any = FakeMember()
        self.reports: list[Any] = []
        self.membership = Membership(protocol, lambda _, places: self.reports.append(places))
        self.membership.subscribe(self.member, ["a", "b"])

    def call(self, name: str, *places: tuple[str, int]) -> None:
        getattr(self.membership, name)(self.member, parts(*places))


def test_partitions_come_and_go_one_by_one_with_the_consumer_protocol() -> None:
    group = Reports(CONSUMER)
    group.call("_assigned", ("a", 0), ("b", 0), ("a", 1), ("b", 1))
    group.call("_revoked", ("a", 1), ("b", 1))
    group.call("_assigned")  # librdkafka's, after each revocation
    group.call("_assigned", ("a", 2), ("b", 2))
    group.call("_lost", ("a", 0), ("b", 0), ("a", 2), ("b", 2))
    group.call("_assigned", ("a", 3), ("b", 3))
    two = {("a", 0), ("b", 0)}
    assert group.reports == [
        two | {("a", 1), ("b", 1)}, two, two | {("a", 2), ("b", 2)}, None, {("a", 3), ("b", 3)},
    ]  # fmt: skip
    assert {"assign", "unassign"}.isdisjoint(group.member.calls), "librdkafka would refuse these"


def test_all_partitions_go_and_come_with_the_classic_protocol() -> None:
    group = Reports(CLASSIC)
    group.call("_assigned", ("a", 0), ("b", 0), ("a", 1), ("b", 1))
    group.call("_revoked", ("a", 0), ("b", 0), ("a", 1), ("b", 1))
    group.call("_assigned", ("a", 1), ("b", 1))
    group.call("_assigned")
    whole = {("a", 0), ("b", 0), ("a", 1), ("b", 1)}
    assert group.reports == [whole, None, {("a", 1), ("b", 1)}, frozenset()]


def test_a_member_without_partitions_is_noticed() -> None:
    """With the `consumer` protocol nobody tells it that it has joined."""
    group = Reports(CONSUMER)
    group.membership.look(group.member, 0.0)  # it hasn't joined yet
    group.member.generation = 7
    for now in (100.0, 101.9):
        group.membership.look(group.member, now)
        assert group.reports == []
    for now in (102.0, 110.0):
        group.membership.look(group.member, now)
        assert group.reports == [frozenset()]
    group.call("_lost")
    for now in (120.0, 123.0):
        group.membership.look(group.member, now)
    assert group.reports == [frozenset(), None, frozenset()]


@pytest.mark.parametrize("protocol", BOTH)
@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_a_second_member_of_one_partition_has_none(protocol: str, cluster: KafkaConfig) -> None:
    config = Config(kafka=replace(cluster, group_protocol=protocol), worker=WorkerConfig(group="standby"))
    reported: list[list[Any]] = [[], []]
    members = [Fetcher(config, reports.append) for reports in reported]
    for member in members:
        member.subscribe()

    def settled() -> bool:
        for member in members:
            member.fetch(monotonic())
        last = [reports[-1] if reports else None for reports in reported]
        return sorted(last, key=str) == sorted([frozenset(), frozenset({0})], key=str)

    eventually("one has the partition, and the other one knows that it has none", settled)
    for member in members:
        member.stop()


def split(fetcher: Fetcher) -> None:
    """One partition of one topic only."""
    whole = {(topic, number) for topic in INPUTS for number in (0, 1)}
    fetcher._on_places(FakeMember(), frozenset(whole - {("labels", 1)}))  # type: ignore[arg-type]


def test_different_partitions_of_topics_are_refused() -> None:
    """At once where an assignment comes as a whole, else after a time in which the rest may come."""
    with pytest.raises(WorkError, match=r"labels \[0\]: expected the same of all three"):
        split(Fetcher(config_of(CLASSIC), lambda partitions: None))

    reports: list[frozenset[int] | None] = []
    fetcher = Fetcher(config_of(CONSUMER), reports.append)
    split(fetcher)
    assert reports == [frozenset({0})], "shards with all of their partitions"
    for now in (0.0, 60.0):
        fetcher._serve_group(now)
    with pytest.raises(WorkError, match=r"labels \[0\]: expected the same of all three"):
        fetcher._serve_group(61.0)

    split(fetcher)
    fetcher._on_places(FakeMember(), frozenset((topic, 1) for topic in INPUTS))  # type: ignore[arg-type]
    fetcher._serve_group(200.0)
    assert reports[-1] == frozenset({1})


def test_a_shard_that_comes_back_has_no_lag_before_it_is_restored() -> None:
    """It begins at offset 0, so the end of before would be its lag."""
    fetcher = Fetcher(config_of(CLASSIC), lambda partitions: None)
    assignment = [TopicPartition("predictions", number) for number in (0, 1)]
    consumer = SimpleNamespace(
        assignment=lambda: assignment, get_watermark_offsets=lambda part, cached: (0, 7_000)
    )
    fetcher._readers = [SimpleNamespace(consumer=consumer, open=_nothing, close=_nothing)]  # type: ignore[list-item]
    for partition in (0, 1):
        fetcher.open(partition, (0, 0, 0))
    fetcher._look_at_ends()
    assert fetcher.ends == {(0, 0): 7_000, (0, 1): 7_000}
    fetcher.close(1)
    fetcher._look_at_ends()  # the reader may be closing it
    assert fetcher.ends == {(0, 0): 7_000}


def _nothing(*_: Any) -> None: ...


def test_a_member_whose_name_is_taken_tries_again(caplog: pytest.LogCaptureFixture) -> None:
    fetcher = Fetcher(config_of(CONSUMER), lambda partitions: None)
    fetcher.open(0, (0, 0, 0))
    first = fetcher._member
    for now in (0.0, 30.0):
        fetcher._handle(fatal(KafkaError.UNRELEASED_INSTANCE_ID), None, now)
    assert caplog.text.count("still has a member with this worker.instance_id") == 1
    fetcher._serve_group(34.9)
    assert fetcher._member is first
    fetcher._serve_group(35.0)
    assert fetcher._member is not first
    assert fetcher._open == {0}, "shards go on until another worker fences them"


def test_a_stale_epoch_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A commit between a change of the group and the member's next heartbeat; the next one works."""
    progress = CommittedProgress(["a"])
    progress.answered(KafkaError(KafkaError.STALE_MEMBER_EPOCH), [])
    assert caplog.text == ""


def test_the_session_of_brokers_counts() -> None:
    """What waits until dead members are gone, waits for the longer of both."""
    assert membership.longest_session(config_of(CLASSIC).kafka, 10_000) == 10_000
    assert membership.longest_session(config_of(CONSUMER).kafka, 60_000) == 60_000
