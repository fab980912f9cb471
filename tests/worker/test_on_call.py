"""What goes wrong beside a worker's shards: said in a sentence, waited for, and no harm to the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from prequential.configuration.settings.model import Config
from prequential.demo.broker import pick_port
from prequential.engine.shard import Shard
from prequential.offline.replay import from_topics
from prequential.runtime.ingest import app as ingest_app
from prequential.runtime.ingest import dryrun
from prequential.runtime.ingest.app import Ingest
from prequential.runtime.ingest.reading import SourceFetcher
from prequential.runtime.kafka import process, served
from prequential.runtime.kafka.fetching import Fetcher
from prequential.runtime.kafka.readers import failure_of
from prequential.runtime.kafka.rejected import complain
from prequential.runtime.worker import app
from prequential.runtime.worker.app import Worker
from prequential.runtime.worker.journal import Generation, TopicsOrigin
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError

GONE = UsageError("kafka.security: sasl.password is 'file:/p', but the file /p can't be read: No such file")


class Ended(BaseException):
    """In place of the process's end."""


@pytest.fixture(autouse=True)
def _ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(status: int) -> int:
        raise Ended(status)

    monkeypatch.setattr(process, "leave", leave)
    monkeypatch.setattr(served, "leave", leave)


def config() -> Config:
    return Config(kafka=KafkaConfig(f"127.0.0.1:{pick_port()}", security={"log_level": "0"}))


def worker_of(loop: asyncio.AbstractEventLoop) -> Worker:
    """A worker that finds no broker, and hasn't begun."""
    worker = Worker(config())
    worker._loop, worker._origin = loop, TopicsOrigin(4)
    return worker


@pytest.mark.parametrize("error", [GONE, WorkError("no")])
def test_what_a_person_can_mend_ends_the_process_with_a_sentence(
    error: Exception, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Ended, match="1"):
        process.die("shard 0", error)
    assert capsys.readouterr().err == f"prequential: {error}\n"
    assert caplog.text == ""


def failing(then: Exception, *first: Exception) -> tuple[Callable[..., Any], list[Exception]]:
    """A function that raises these one after the other; and those that are left."""
    left = [*first, then]

    def fail(*_: Any) -> Any:
        raise left.pop(0)

    return fail, left


def told(module: Any, watch: Callable[[], Any], left: list[Exception], caplog: Any) -> list[str]:
    """What a module logs while it watches the cluster, until it has had enough."""

    async def watching() -> None:
        await watch()

    with pytest.raises(RuntimeError, match="enough"):
        asyncio.run(watching())
    assert left == []
    return [one.getMessage() for one in caplog.records if one.name == module.__name__]


def test_a_look_at_the_cluster_that_fails_is_told_and_repeated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where it is a secret that isn't there for a moment: clients that are connected go on."""
    look, left = failing(RuntimeError("enough"), WorkError("no broker"), GONE)
    monkeypatch.setattr(app, "present_origin", look)
    monkeypatch.setattr(app, "_WATCH_SECONDS", 0.0)
    found = told(app, lambda: worker_of(asyncio.get_running_loop())._watch_cluster(), left, caplog)
    assert found == ["checking the input topics: no broker", f"checking the input topics: {GONE}"]


def test_ingest_waits_for_its_first_look_at_the_cluster_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    look, left = failing(RuntimeError("enough"), WorkError("no broker"), GONE)
    monkeypatch.setattr(ingest_app, "partition_counts", look)
    monkeypatch.setattr(ingest_app, "_WATCH_SECONDS", 0.0)
    found = told(ingest_app, lambda: Ingest(config(), {"source": None})._watch(), left, caplog)  # type: ignore[dict-item]
    assert found == ["checking the inputs: no broker", f"checking the inputs: {GONE}"]


def test_advice_that_fails_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app, "LOOK_SECONDS", 0.0)

    async def look() -> int:
        worker, looks = worker_of(asyncio.get_running_loop()), 0

        async def fail(*_: Any) -> None:
            nonlocal looks
            looks += 1
            raise KeyError("a stream that has gone")

        worker._findings.look = fail  # type: ignore[method-assign]
        looking = asyncio.ensure_future(worker._look_for_findings())
        while looks < 3:
            assert not looking.done()
            await asyncio.sleep(0)
        looking.cancel()
        return looks

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(look()) >= 3
    assert "a stream that has gone" in caplog.text


class Runner:
    """A shard that closes as it is told to."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.closed = False

    async def close(self) -> None:
        if self.error is not None:
            raise self.error
        for _ in range(5):
            await asyncio.sleep(0)
        self.closed = True


def test_a_shard_that_fails_to_close_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    runners = {0: Runner(WorkError("too large")), 1: Runner(None), 2: Runner(KeyError("x")), 3: Runner(None)}

    async def close() -> Any:
        worker = worker_of(asyncio.get_running_loop())
        worker.runners.update(runners)  # type: ignore[arg-type]
        return await worker._close_shards()

    assert asyncio.run(close()) == ("shard 0", runners[0].error)
    assert [number for number, runner in runners.items() if runner.closed] == [1, 3]
    assert "shard 2: KeyError('x')" in caplog.text


def test_a_worker_that_is_told_to_stop_opens_no_shard_any_more() -> None:
    """Neither one that the group gives it then, nor one that it has lost: it would only fence others."""

    async def close() -> list[int]:
        worker, opened = worker_of(asyncio.get_running_loop()), []
        worker._open = lambda partition, gone=None: opened.append(partition)  # type: ignore[method-assign]
        worker._assign(frozenset({1}))
        worker._reopen(1, None)
        assert opened == [1, 1]
        await worker._close_shards()
        worker._assign(frozenset({1, 2}))
        worker._reopen(2, None)
        return opened

    assert asyncio.run(close()) == [1, 1]


DENIED = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "FindCoordinator: Group authorization failed.")


class Denied:
    """A member that may not join its group, as librdkafka says it."""

    def poll(self, _: float) -> Message:
        return Message(error=DENIED)


def fetchers() -> list[Any]:
    """Those of a worker and of ingest."""
    return [Fetcher(config(), lambda _: None), SourceFetcher(config(), ["source"], lambda _: None)]


def lacks(what: str) -> str:
    return f"^the client's principal \\(kafka.security\\) lacks {what} at 127.0.0.1:"


def test_who_may_not_join_the_group_ends_and_names_it() -> None:
    """Else it would wait for the group for ever."""
    for fetcher, group in zip(fetchers(), ("prequential", "prequential-ingest")):
        fetcher._member = Denied()
        with pytest.raises(WorkError, match=lacks(f"Read on group '{group}'")):
            fetcher.fetch(0.0)


def test_other_complaints_about_the_group_are_told_and_it_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gone = KafkaError(KafkaError.GROUP_SUBSCRIBED_TO_TOPIC, "JoinGroup failed")
    for fetcher in fetchers():
        complain._logged.clear()
        caplog.clear()
        fetcher._member = SimpleNamespace(poll=lambda _: Message(error=gone))
        assert fetcher.fetch(0.0) == []
        assert "Kafka: JoinGroup failed" in caplog.messages


def test_an_error_that_is_of_no_partition_is_a_whole_sentence() -> None:
    worker, ingest = fetchers()
    failed = KafkaError(KafkaError.UNKNOWN, "Something failed")
    for name, fail in (
        ("prequential-fetch", lambda error: worker._fail(0, failure_of(Message(error=error), error))),
        ("prequential-ingest-fetch", lambda error: ingest._note_event(Message(error=error))),
    ):
        with pytest.raises(WorkError, match=lacks(f"Describe on group '{name}'")):
            fail(DENIED)
        with pytest.raises(WorkError, match=r"^fetching: Something failed$"):
            fail(failed)


def test_a_broker_that_goes_away_while_ends_are_asked_for_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a replay from topics, and of a dry run of ingest."""

    class Alone:
        def __init__(self, _: Any) -> None: ...

        def get_watermark_offsets(self, *_: Any, **__: Any) -> Any:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

        def close(self) -> None: ...

    monkeypatch.setattr("prequential.topics.clients.Consumer", Alone)
    monkeypatch.setattr("prequential.topics.reading.partition_counts", lambda *_: {"source": 1})
    monkeypatch.setattr("prequential.topics.reading.require", lambda *_: None)
    one = Config(kafka=KafkaConfig("kafka:9092"))
    journals = [[Generation(None, None, [], [], [])]]
    cluster = from_topics._Cluster(one, journals, *[None] * 4, True, None)  # type: ignore[arg-type]
    sentence = "^Kafka at kafka:9092: Local: Broker transport failure$"
    with pytest.raises(WorkError, match=sentence):
        from_topics._ShardReplay(cluster, Shard(one)).run()
    with pytest.raises(WorkError, match=sentence):
        dryrun.newest(one, "source", 5)
