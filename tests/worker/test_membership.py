"""Members of groups: worker and ingest alike send heartbeats often enough for the session they ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from prequential.configuration.settings.model import Config, WorkerConfig
from prequential.runtime.ingest.reading import SourceFetcher
from prequential.runtime.kafka.fetching import Fetcher
from prequential.topics import clients
from prequential.topics.clients import KafkaConfig


@pytest.mark.parametrize(
    "fetcher",
    [lambda config: Fetcher(config, print), lambda config: SourceFetcher(config, ["t"], print)],
    ids=["worker", "ingest"],
)
@pytest.mark.parametrize(("session", "heartbeat"), [(10_000, 2_500), (2_000, 500), (45_000, 3_000), (1, 1)])
def test_heartbeats_are_several_in_a_session(
    fetcher: Callable[[Config], object], session: int, heartbeat: int, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(clients, "Consumer", asked.append)
    fetcher(Config(kafka=KafkaConfig("127.0.0.1:1"), worker=WorkerConfig(session_timeout=session)))
    [member] = [settings for settings in asked if "session.timeout.ms" in settings]
    assert (member["session.timeout.ms"], member["heartbeat.interval.ms"]) == (session, heartbeat)
