"""Output topics from near their ends: what is no matter of a broker."""

from __future__ import annotations

from typing import Any

import pytest
from prequential.topics.clients import KafkaConfig
from prequential.views.state.output_records import OutputRecord
from prequential.views.watching import tail
from prequential.views.watching.tail import Tail


class Message:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return "eu.metrics"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return b"%d" % self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000 + self._offset

    def headers(self) -> list[tuple[str, bytes]] | None:
        return [("other", b"1"), ("settings", b"2")] if self._offset == 7 else None


class BusyConsumer:
    """Of a partition that is written to all the time: its end is never seen."""

    def __init__(self, _: object) -> None:
        self._next = 0

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        return 2, 9

    def assign(self, places: list[Any]) -> None:
        [place] = places
        self._next = place.offset

    def consume(self, *_: object) -> list[Message]:
        self._next += 2
        return [Message(self._next - 2), Message(self._next - 1)]


def test_what_is_there_has_an_end_where_messages_come_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prequential.topics.clients.Consumer", BusyConsumer)
    monkeypatch.setattr(tail.admin, "partition_counts", lambda *_: {"eu.metrics": 1})
    monkeypatch.setattr(tail.permissions, "require", lambda *_: None)
    monkeypatch.setattr(tail, "TAIL_RECORDS", 4)
    reading = Tail(KafkaConfig(prefix="eu."), ("metrics",), from_beginning=False)
    assert reading.catching_up
    said = {7: b"2"}
    assert list(reading.to_end()) == [
        OutputRecord("metrics", b"%d" % i, 1000 + i, said.get(i)) for i in range(5, 9)
    ]
    assert not reading.catching_up
    assert reading.since == {"metrics": 1005}
