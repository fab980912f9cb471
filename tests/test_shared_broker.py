"""One broker for the processes of a run: the first launches it, and it stays as long as anybody needs it."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from tests import shared_broker
from tests.brokers import Broker
from tests.kafka_jars import Unavailable
from tests.shared_broker import SharedBroker


class Launched(Broker):
    """A broker without a process."""

    kind = "java"
    stopped = False

    def __init__(self, number: int) -> None:
        self.bootstrap_servers = f"127.0.0.1:{number}"

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Launched]:
    """The brokers that have been launched so far."""
    found: list[Launched] = []

    def launch(kind: str) -> Broker:
        assert kind == "kafka"
        found.append(Launched(len(found)))
        return found[-1]

    monkeypatch.setattr(shared_broker, "launch", launch)
    return found


@pytest.mark.slow
def test_who_launched_it_stops_it_after_all_others(launched: list[Launched], tmp_path: Path) -> None:
    first, second = SharedBroker(tmp_path), SharedBroker(tmp_path)
    assert first.get() is first.get() is launched[0]
    assert second.get().bootstrap_servers == launched[0].bootstrap_servers
    ending = Thread(target=first.stop)
    ending.start()
    ending.join(5 * shared_broker._LOOK_SECONDS)
    assert ending.is_alive()
    # A third process may begin to use it as long as it is there.
    third = SharedBroker(tmp_path)
    third.get()
    for last in (second, third):
        assert not launched[0].stopped
        last.stop()
    ending.join(60)
    assert launched[0].stopped
    assert len(launched) == 1


def test_who_comes_after_its_end_launches_another_one(launched: list[Launched], tmp_path: Path) -> None:
    for number in range(2):
        one = SharedBroker(tmp_path)
        assert one.get() is launched[number]
        one.stop()
        one.stop()
    assert [one.stopped for one in launched] == [True, True]


def test_where_none_can_be_had_nobody_has_to_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def launch(kind: str) -> Broker:
        raise Unavailable("no Java")

    monkeypatch.setattr(shared_broker, "launch", launch)
    for _ in range(2):
        one = SharedBroker(tmp_path)
        with pytest.raises(Unavailable, match="no Java"):
            one.get()
        one.stop()
