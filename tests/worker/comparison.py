"""What the workers published, against the replay of the same topics and against the oracle."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import accumulate, chain, groupby, product
from pathlib import Path
from typing import Any, NamedTuple

import oracle
import pytest
import yaml
from confluent_kafka import Message
from oracle_coverage import ACCURACIES, as_said
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import reported
from prequential.topics.clients import KafkaConfig
from prequential.topics.decoding import KINDS
from prequential.topics.specs import COMPARISONS, DEAD_LETTERS, DRIFT_ALARMS, INCIDENTS, METRICS
from processes import (
    HANGS,
    Journals,
    Labels,
    WorkerProcess,
    eventually,
    id_of,
    outputs,
    prequential,
    read_topic,
    repeated,
)

#: Messages bit for bit, in order, by (stream, model).
Sequences = dict[tuple[str, str], list[bytes]]

#: A dead letter's reason, key and value.
Letter = tuple[str, str | None, str | None]

#: Exported samples, by name and labels.
Samples = dict[str, dict[Labels, float]]

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


class Origin(NamedTuple):
    """Where a dead letter came from: topic without prefix, partition, offset, and row of the message."""

    topic: str
    partition: int
    offset: int
    row: int | None


class Replay(NamedTuple):
    """What `prequential replay --from-topics` says."""

    metrics: Sequences  # without the last set
    comparisons: Sequences  # likewise
    alarms: Sequences
    incidents: Sequences
    last: list[dict[str, Any]]  # the metrics' last set
    letters: dict[Origin, Letter]
    settings: Config


def replayed(config: Path, seconds: float = 3 * HANGS) -> Replay:
    """Run the replay, which must end within `seconds`."""
    kinds = ("metrics", "comparisons", "alarms", "incidents", "dead-letters")
    paths = [config.parent / f"{name}.jsonl" for name in kinds]
    names = [f"--{name}-out" for name in kinds]
    options = [option for pair in zip(names, paths) for option in pair]
    done = prequential(
        "replay", "--from-topics", "--config", config, *options, cwd=config.parent, seconds=seconds
    )
    assert done.returncode == 0, done.stderr
    metrics, comparisons, alarms, incidents, letters = (path.read_bytes().splitlines() for path in paths)
    found, last = _without_last_set(sequences(metrics), ("segment", "stage", "estimator"))
    pairs, _ = _without_last_set(sequences(comparisons), ("against", "segment", "stage", "estimator", "loss"))
    settings = load_config(str(config))
    told: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for message in last:
        for stage in (message["stage"], *message.get("same", ())):
            told[message["stream"], message["model"]].add((stage, message["estimator"]))
    for (stream, model), both in told.items():
        own = settings.stream(stream)
        assert both == set(product(reported(own.stages, own.bins), own.estimators)), (stream, model)
    return Replay(
        found, pairs, sequences(alarms), sequences(incidents), last,
        dict(_as_letter(json.loads(line)) for line in letters), settings,
    )  # fmt: skip


def _without_last_set(said: Sequences, keys: tuple[str, ...]) -> tuple[Sequences, list[dict[str, Any]]]:
    """What was said before the last set, and that set: each of the `keys` that there are, once more.

    A stage that is the same as another one has none of its own; from its first message on it is in every set.
    """
    found, last = {}, []
    for about, messages in said.items():
        read = [json.loads(message) for message in messages]
        each = {tuple(map(message.get, keys)) for message in read}
        own = read[-len(each) :]
        assert {tuple(map(message.get, keys)) for message in own} == each, about
        last += own
        if before := messages[: -len(each)]:
            found[about] = before
    return found, last


def assert_as_replayed(
    kafka: KafkaConfig, config: Path, seconds: float = 3 * HANGS, sources: Collection[str] = ()
) -> Replay:
    """All outputs were each published once, and are what the replay says, digit for digit.

    Dead letters of `sources` are those of `ingest`.
    """
    replay = replayed(config, seconds)
    for topic, expected in (
        (METRICS, replay.metrics), (COMPARISONS, replay.comparisons), (DRIFT_ALARMS, replay.alarms),
        (INCIDENTS, replay.incidents),
    ):  # fmt: skip
        found = published(kafka, topic)
        assert found.keys() == expected.keys(), topic
        for about, messages in found.items():
            theirs = expected[about]
            for place, (ours, their) in enumerate(zip(messages, theirs)):
                assert ours == their, (topic, about, place)
            more, missing = messages[len(theirs) :], theirs[len(messages) :]
            assert len(messages) == len(theirs), (topic, about, more, missing)
    every = [_published_letter(kafka, message) for message in read_topic(kafka, DEAD_LETTERS)]
    letters = [(origin, letter) for origin, letter in every if origin.topic not in sources]
    assert len(letters) == len(dict(letters)), "a dead letter was published twice"
    assert dict(letters) == replay.letters
    return replay


def _as_letter(row: dict[str, Any]) -> tuple[Origin, Letter]:
    origin = Origin(row["topic"], row["partition"], row["offset"], row.get("row"))
    return origin, (row["error"], row["key"], row["value"])


def _published_letter(kafka: KafkaConfig, message: Message) -> tuple[Origin, Letter]:
    """A dead letter as the replay writes it."""
    error, topic, partition, offset, *row = (value.decode() for _, value in message.headers())
    key, value = (
        None if part is None else part.decode("utf-8", "replace") for part in (message.key(), message.value())
    )
    short = topic.removeprefix(kafka.prefix)
    origin = Origin(short, int(partition), int(offset), int(row[0]) if row else None)
    return origin, (error, key, value)


# ---- each once


def assert_published_once(kafka: KafkaConfig) -> int:
    """A read_committed reader finds each id of metrics and alarms once; returns how many."""
    count = 0
    for topic in (METRICS, COMPARISONS, DRIFT_ALARMS, INCIDENTS):
        messages = outputs(kafka, topic)
        assert repeated(messages) == {}, topic
        count += len(messages)
    return count


def assert_plain_repeats_are_copies(kafka: KafkaConfig) -> int:
    """A read_uncommitted reader finds an id twice at most with the same content; returns how many."""
    again = 0
    for topic in (METRICS, COMPARISONS, DRIFT_ALARMS, INCIDENTS):
        contents: dict[str, bytes] = {}
        for message in read_topic(kafka, topic, "read_uncommitted"):
            value = message.value()
            id = id_of(json.loads(value))
            first = contents.setdefault(id, value)
            again += first is not value
            assert first == value, f"{topic}: {id} has two contents"
    return again


# ---- counters


def counters(kafka: KafkaConfig, *workers: WorkerProcess) -> Samples:
    """What all workers together export, as soon as they hold every shard once and restore none."""
    found: list[Samples] = []

    def settled() -> bool:
        found[:] = [worker.metrics() for worker in workers]
        states: Counter[str] = Counter()
        for samples in found:
            for labels, count in samples["prequential_shards"].items():
                states[dict(labels)["state"]] += int(count)
        return states == Counter(running=kafka.partitions)

    eventually("the workers hold every shard once", settled)
    whole: Samples = {}
    for samples in found:
        for name, values in samples.items():
            both = whole.setdefault(name, {})
            for labels, value in values.items():
                both[labels] = both.get(labels, 0) + value
    return whole


def assert_counters(found: Samples, replay: Replay, kafka: KafkaConfig) -> None:
    """The workers' counters at their end, which came through every recovery, are the replay's."""
    for name, expected in _expected(replay, kafka).items():
        samples = found.get(f"prequential_{name}_total", {})  # none, where nothing was counted
        ours = {labels: value for labels, value in samples.items() if value}
        assert ours == {labels: value for labels, value in expected.items() if value}, name
    counts = {(last["stream"], last["model"]): last["counts"]["duplicate"] for last in replay.last}
    assert _duplicates(found, counts) == sum(counts.values())


def _duplicates(found: Samples, models: Iterable[tuple[str, str]]) -> float:
    """The sum of all models' duplicates: those of instances and labels count for each model."""
    each = Counter(stream for stream, _ in models)
    total = 0.0
    for labels, count in found["prequential_duplicates_total"].items():
        own = dict(labels)
        total += count * (1 if own["topic"] == "predictions" else each[own["stream"]])
    return total


def _expected(replay: Replay, kafka: KafkaConfig) -> dict[str, Counter[Labels]]:
    """Counters by name and labels, of what the replay has put out."""
    found: dict[str, Counter[Labels]] = defaultdict(Counter)

    def is_shown(message: dict[str, Any]) -> bool:
        own = replay.settings.stream(message["stream"])
        return replay.settings.http.shows_stage(message["stage"], own, message.get("same", ()))

    for last in replay.last:
        stream, model, counts = last["stream"], last["model"], last["counts"]
        where = about(stream=stream, partition=str(last["partition"]))
        one = where | about(model=model)
        if is_shown(last):
            found["outcomes"][one | about(stage=last["stage"])] = last["outcomes"]
        found["late_predictions"][one] = counts["late"]
        found["expired_predictions"][one] = counts["expired"]
        found["late_labels"][where] = counts["late_label"]
        found["unmatched_labels"][where] = counts["unmatched_label"]
        found["revisions"][where] = counts["revisions"]
    for (stream, model), messages in replay.alarms.items():
        for alarm in filter(is_shown, map(json.loads, messages)):
            rest = {name: str(alarm[name]) for name in ("partition", "stage", "detector", "signal")}
            if alarm["segment"] is not None:
                rest["segment"] = alarm["segment"]
            found["drift_alarms"][about(stream=stream, model=model, **rest)] += 1
    for origin in replay.letters:
        where = about(topic=kafka.prefix + origin.topic, partition=str(origin.partition))
        found["dead_letters"][where] += 1
    return found


def about(**pairs: str) -> Labels:
    """A sample's labels."""
    return frozenset(pairs.items())


# ---- the oracle


def assert_as_the_oracle_says(kafka: KafkaConfig, config: Path, *, grown: bool = False) -> None:
    """Metrics and alarms are what the oracle makes of the inputs in the journals' order.

    If the topics have `grown` on the way, a stream's records are those of several partitions, one after the
    other; then messages may be due by count alone.
    """
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    journals = Journals(kafka)
    journals.read()
    metrics: list[dict[str, Any]] = []
    alarms: list[dict[str, Any]] = []
    inputs = [read_topic(kafka, name) for name in KINDS]
    shards: list[tuple[int | None, Iterable[oracle.Record]]] = []
    for partition, vectors in enumerate(journals.vectors):
        shard = [[m for m in messages if m.partition() == partition] for messages in inputs]
        shards.append((partition, _in_order(shard, vectors)))
    if grown:  # a stream goes to larger numbers only
        shards = [(None, chain.from_iterable(records for _, records in shards))]
    for number, records in shards:
        result = oracle.run(settings, records, final=False, partition=number or 0)
        for message in result.metrics:
            version = message.pop("version")
            if version is not None:
                message["model_version"], message["version_since"] = version
        for message in (*result.metrics, *result.alarms):
            if number is None:
                message.pop("id", None)  # it says the partition, too
                del message["partition"]
            if not message.get("same"):
                message.pop("same", None)
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


def _in_order(topics: list[list[Message]], vectors: list[tuple[int, int, int]]) -> Iterator[oracle.Record]:
    """The usable records of a shard in the order in which they were taken.

    Between two cuts that is the order of time, ties by kind; a topic's time never goes back.
    """
    rows: list[tuple[int, int, int, int, dict[str, Any]]] = []
    for kind, messages in enumerate(topics):
        times = accumulate((message.timestamp()[1] for message in messages), max)
        for message, time in zip(messages, times):
            offset = message.offset()
            part = next(place for place, vector in enumerate(vectors) if offset < vector[kind])
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
        elif name == "coverage":
            rounded: dict[str, Any] = {
                name: as_said(expected[name], accuracy) for name, accuracy in ACCURACIES.items()
            }
            if expected.get("prediction_psi") is not None:
                rounded["prediction_psi"] = pytest.approx(expected["prediction_psi"], rel=1e-9, abs=1e-12)
            assert value == {**expected, **rounded}, (ours, theirs)
        elif name in ("n", "statistic"):
            assert value == pytest.approx(expected, rel=1e-9, abs=1e-9), (ours, theirs)
        elif name == "params":
            assert expected.items() <= value.items(), (ours, theirs)
        else:
            assert value == expected, (name, ours, theirs)
