"""What the workers published, against the replay of the same topics and against the oracle."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import oracle
import pytest
import yaml
from confluent_kafka import Message
from processes import Journals, prequential, read_topic

from pipeline.config import load_config
from topics.clients import KafkaConfig
from topics.decoding import KINDS
from topics.specs import DRIFT_ALARMS, METRICS

#: Messages bit for bit, in order, by (stream, model).
Sequences = dict[tuple[str, str], list[bytes]]

#: Where kappa is some rounding error instead of 0, the root in kappa_plus makes it this large.
_ROOT_OF_NOTHING = 1e-6


def sequences(values: list[bytes]) -> Sequences:
    """Messages by what they are about."""
    found: Sequences = {}
    for value in values:
        message = json.loads(value)
        found.setdefault((message["stream"], message["model"]), []).append(value)
    return found


def published(kafka: KafkaConfig, topic: str) -> Sequences:
    """The messages of a topic."""
    return sequences([message.value() for message in read_topic(kafka, topic)])


def replayed(config: Path) -> tuple[Sequences, Sequences]:
    """Metrics and alarms of `prequential replay --from-topics`, without the last set of metrics."""
    metrics, alarms = config.parent / "metrics.jsonl", config.parent / "alarms.jsonl"
    done = prequential(
        "replay", "--from-topics", "--config", config,
        "--metrics-out", metrics, "--alarms-out", alarms, cwd=config.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = sequences(metrics.read_bytes().splitlines())
    settings = load_config(str(config))
    for (stream, _), messages in found.items():
        own = settings.stream(stream)
        del messages[-len(own.stages) * len(own.estimators) :]
    return (
        {about: messages for about, messages in found.items() if messages},
        sequences(alarms.read_bytes().splitlines()),
    )


def assert_as_replayed(kafka: KafkaConfig, config: Path) -> None:
    """Metrics and alarms were each published once, and are what the replay says, digit for digit."""
    for topic, expected in zip((METRICS, DRIFT_ALARMS), replayed(config), strict=True):
        found = published(kafka, topic)
        assert found.keys() == expected.keys(), topic
        for about, messages in found.items():
            theirs = expected[about]
            for place, (ours, their) in enumerate(zip(messages, theirs)):
                assert ours == their, (topic, about, place)
            assert len(messages) == len(theirs), (topic, about)


def assert_as_the_oracle_says(kafka: KafkaConfig, config: Path) -> None:
    """Metrics and alarms are what the oracle makes of the inputs in the journals' order."""
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    journals = Journals(kafka)
    journals.read()
    metrics: list[dict[str, Any]] = []
    alarms: list[dict[str, Any]] = []
    inputs = [read_topic(kafka, name) for name in KINDS]
    for partition, cuts in enumerate(journals.cuts):
        shard = [[m for m in messages if m.partition() == partition] for messages in inputs]
        result = oracle.run(settings, _in_order(shard, cuts), final=False)
        metrics += result.metrics
        alarms += result.alarms
    for topic, theirs in ((METRICS, metrics), (DRIFT_ALARMS, alarms)):
        ours = [json.loads(message.value()) for message in read_topic(kafka, topic)]
        keys = ("stream", "model", "stage", "estimator" if topic == METRICS else "signal")
        found, expected = _grouped(ours, keys), _grouped(theirs, keys)
        assert found.keys() == expected.keys(), topic
        for about, messages in found.items():
            assert len(messages) == len(expected[about]), (topic, about)
            for message, wanted in zip(messages, expected[about]):
                _assert_same(message, wanted)


def _in_order(topics: list[list[Message]], cuts: list[tuple[int, int, int]]) -> Iterator[oracle.Record]:
    """The usable records of a shard in the order in which they were taken.

    Between two cuts that is the order of time, ties by kind; a topic's time never goes back.
    """
    rows: list[tuple[int, int, int, int, dict[str, Any]]] = []
    for kind, messages in enumerate(topics):
        times = accumulate((message.timestamp()[1] for message in messages), max)
        for message, time in zip(messages, times):
            offset = message.offset()
            part = next(place for place, cut in enumerate(cuts) if offset < cut[kind])
            if (obj := _usable(message.value())) is not None:
                rows.append((part, time, kind, offset, obj))
    for _, time, kind, _, obj in sorted(rows, key=lambda row: row[:4]):
        yield KINDS[kind], obj, time


def _usable(value: bytes | None) -> dict[str, Any] | None:
    """The message, unless it is one of the workload's unusable ones."""
    try:
        obj = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    good = isinstance(obj, dict) and "stream" in obj
    return obj if good and str(obj.get("instance_id", "x")).isdecimal() else None


def _grouped(
    messages: list[dict[str, Any]], keys: tuple[str, ...]
) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    def about(message: dict[str, Any]) -> tuple[str, ...]:
        return tuple(message[key] for key in keys)

    return {key: list(group) for key, group in groupby(sorted(messages, key=about), about)}


def _assert_same(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Every field that the oracle knows; fractions to a rounding error."""
    for name, expected in theirs.items():
        value = ours[name]
        if name == "measures":
            tolerances = dict.fromkeys(expected, 1e-12) | {"kappa_plus": _ROOT_OF_NOTHING}
            assert value.keys() == expected.keys(), (ours, theirs)
            for key, number in expected.items():
                assert value[key] == pytest.approx(number, rel=1e-9, abs=tolerances[key]), ours
        elif name == "counts":
            assert {key: n for key, n in value.items() if n} == expected, (ours, theirs)
        elif name in ("n", "statistic"):
            assert value == pytest.approx(expected, rel=1e-9, abs=1e-9), (ours, theirs)
        elif name == "params":
            assert expected.items() <= value.items(), (ours, theirs)
        else:
            assert value == expected, (name, ours, theirs)
