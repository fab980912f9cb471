"""The number of workers, by the answers of a cluster to which no request ever waits."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from prequential.topics.clients import KafkaConfig
from prequential.views.watching import workers


def answered(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(result, Exception):
        future.set_exception(result)
    elif result is not None:
        future.set_result(result)
    return future


def group(state: ConsumerGroupState, members: int) -> Any:
    return SimpleNamespace(state=state, members=[object()] * members)


@pytest.mark.parametrize(("result", "members"), [
    (group(ConsumerGroupState.STABLE, 2), 2), (group(ConsumerGroupState.EMPTY, 0), 0),
    (group(ConsumerGroupState.DEAD, 0), 0), (group(ConsumerGroupState.PREPARING_REBALANCING, 0), None),
    (KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)), None), (None, None),
])  # fmt: skip
def test_members_of_the_group(result: Any, members: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = workers.WorkerWatch(KafkaConfig("127.0.0.1:1"), "prequential")
    asked = SimpleNamespace(describe_consumer_groups=lambda names, **_: {names[0]: answered(result)})
    monkeypatch.setattr(watch, "_admin", asked)
    assert watch.members() is None  # the answer is not awaited
    assert watch.members() == members
