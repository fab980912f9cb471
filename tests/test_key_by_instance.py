"""`key: instance`: what the configuration takes, and who keys records by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import ConfigError
from prequential.configuration.settings.streams import StreamConfig
from prequential.runtime.worker.growing import grow
from prequential.topics.clients import KafkaConfig
from prequential.topics.producer import StreamProducer
from prequential.topics.specs import PARTS, topic_specs


def loaded(tmp_path: Path, **content: Any) -> Any:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_config(str(path))


def test_such_streams_are_wide_and_have_messages_by_time_alone(tmp_path: Path) -> None:
    config = loaded(tmp_path, streams={"ads": {"key": "instance"}, "clicks": {}})
    assert config.wide == ("ads",)
    assert config.stream("ads").emit_outcomes is None
    assert config.stream("clicks").emit_outcomes == StreamConfig().emit_outcomes
    assert config.stream("ads").digest != config.stream("clicks").digest == StreamConfig().digest


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"defaults": {"key": "instance"}}, "defaults.key: instance belongs to a stream"),
        ({"streams": {"s": {"key": "user"}}}, "expected stream or instance|expected one of"),
        ({"streams": {"s": {"key": "instance", "emit": {"outcomes": 10}}}}, "outcomes of several partitions"),
        ({"streams": {"s": {"key": "instance", "emit": {"every": None}}}}, "emit.every is null"),
        (
            {
                "defaults": {"period": "1m", "label_horizon": "1d", "settle": "1h"},
                "streams": {"s": {"key": "instance"}},
            },
            r"streams.s.period 1m: 2,940 periods would be remembered .*: expected at most 2,000",
        ),
    ],
)
def test_what_cannot_be(tmp_path: Path, content: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as raised:
        loaded(tmp_path, **content)
    assert "config.yaml" in str(raised.value)


def test_no_count_of_outcomes_is_fine(tmp_path: Path) -> None:
    config = loaded(tmp_path, streams={"s": {"key": "instance", "emit": {"outcomes": None}}})
    assert config.wide == ("s",)


def test_producers_key_such_streams_by_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = StreamProducer(KafkaConfig(), wide={"ads"}, log_level=0)
    keys: list[tuple[str, bytes | None]] = []
    monkeypatch.setattr(producer, "send", lambda topic, key, value: keys.append((topic, key)))
    producer.instance("ads", 17)
    producer.prediction("ads", "nb", "17", "UP")
    producer.label("ads", 17, "UP")
    producer.label("clicks", 17, "UP")
    assert keys == [("instances", b"17"), ("predictions", b"17"), ("labels", b"17"), ("labels", b"clicks")]


def test_there_is_a_topic_for_what_partitions_know_only_then() -> None:
    assert PARTS not in {spec.name for spec in topic_specs(KafkaConfig())}
    assert PARTS in {spec.name for spec in topic_specs(KafkaConfig(), wide=True)}


def test_partitions_cannot_grow(tmp_path: Path) -> None:
    config = loaded(tmp_path, streams={"ads": {"key": "instance"}})
    with pytest.raises(Exception, match=r"streams\.ads has key: instance"):
        grow(config, 8, print)
