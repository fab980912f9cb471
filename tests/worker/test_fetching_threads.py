"""In which thread a worker fetches: in a backlog next to the loop, else in the loop's own."""

from __future__ import annotations

import asyncio
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from prequential.runtime.kafka import transport

#: Records of a fetch in a backlog, and of one without.
MANY, FEW = transport._MANY, 3


class Fetches:
    """In place of the fetcher: fetches bring so many records, and note in which thread they ran."""

    def __init__(self, sizes: list[int]) -> None:
        self._sizes = iter(sizes)
        self.threads: list[str] = []

    def fetch(self, now: float, thread: str = "loop") -> list[Any]:
        self.threads.append(thread)
        size = next(self._sizes)
        return [[SimpleNamespace(kind=0, size=size)]] if size else []

    async def fetch_beside(self, now: float) -> list[Any]:
        return self.fetch(now, "beside")


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        # A backlog: shards have enough for a moment, then it goes on.
        ([MANY, MANY, 0, MANY, 0], ["loop", "beside", "beside", "beside", "beside"]),
        # Its end: few records, and at last none.
        ([MANY, FEW, 0, MANY], ["loop", "beside", "loop", "loop"]),
        ([MANY, *[0] * 6], ["loop", *["beside"] * 4, "loop", "loop"]),
        ([FEW, 0, FEW], ["loop", "loop", "loop"]),
    ],
)
def test_a_fetch_runs_next_to_the_loop_in_a_backlog(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], expected: list[str]
) -> None:
    async def no_time(seconds: float) -> None:
        pass

    monkeypatch.setattr(transport.asyncio, "sleep", no_time)
    fetches = Fetches(sizes)
    app = SimpleNamespace(input_topics=["labels"], consumer_generation_id=0)
    consumer: Any = SimpleNamespace(
        app=app, fetcher=fetches, flow_active=True, _deliveries=count(1), _had_many=True, _beside=False,
        _pause=transport._PAUSE_SECONDS, _to_message=lambda *_: None,
    )  # fmt: skip

    async def fetch_all() -> None:
        for _ in sizes:
            async for _ in transport.BatchConsumer.getmany(consumer, 1.0):
                pass

    asyncio.run(fetch_all())
    assert fetches.threads == expected
