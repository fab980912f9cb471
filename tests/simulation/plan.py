"""What a seed says of a world: its configuration, the records that are sent, and the faults."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config, SourceConfig, WorkerConfig
from prequential.configuration.settings.streams import BY_INSTANCE, DetectorConfig, StreamConfig
from prequential.topics.clients import KafkaConfig
from prequential.topics.partitioning import key_of

from tests.simulation.machine import POISON


class Send(NamedTuple):
    """A record of an input, and when it is sent (seconds from the beginning)."""

    time: float
    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None = None
    #: For a record in a transaction of its producer: after how many seconds it ends, and whether it commits.
    in_transaction: tuple[float, bool] | None = None


@dataclass(frozen=True)
class Fault:
    """What happens at some time, for how long, how much, and to which worker."""

    time: float
    kind: str
    worker: int = 0
    seconds: float = 0.0
    strength: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        parts = [self.kind]
        if self.kind in ("kill", "terminate", "pause", "cut", "stray"):
            parts.append(f"worker {self.worker}")
        if self.seconds:
            parts.append(f"for {self.seconds:.2f} s")
        if self.strength:
            parts.append(f"({self.strength:.3g})")
        if self.settings:
            parts.append(str(dict(self.settings)))
        return "fault: " + " ".join(parts)


@dataclass(frozen=True)
class Plan:
    """A world as its seed says."""

    config: Config
    workers: int
    #: Processes of `ingest`, which then writes the labels.
    ingests: int
    sends: Sequence[Send]
    faults: Sequence[Fault]
    shuffles: bool = True
    is_static: bool = False
    #: Whether a record is among them at which workers die.
    has_poison: bool = False
    #: By stream and model, how many outcomes there must be: instances with a prediction and a label.
    outcomes: Mapping[tuple[str, str], int] = field(default_factory=dict, hash=False)


#: Kinds of faults, and how often each comes in relation to others.
_KINDS = {
    "kill": 9, "terminate": 3, "pause": 4, "slow": 3, "lose": 6, "cut": 4, "markers": 2, "clock": 1,
    "compact": 2, "reconfigure": 1, "stray": 2, "rebuild": 1, "damage": 1, "grow": 1,
}  # fmt: skip


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(f"plan {seed}")
    partitions, workers = rng.choice([1, 1, 2, 2, 3]), rng.choice([1, 2, 2])
    stream = _stream(rng)
    wide = {_WIDE: replace(stream, key=BY_INSTANCE, emit_outcomes=None)} if rng.random() < 0.2 else {}
    ingests = rng.choice([1, 1, 2]) if rng.random() < 0.2 else 0
    config = Config(
        kafka=KafkaConfig(partitions=partitions), defaults=stream, streams=wide, worker=_worker(rng),
        ingest=(_source(),) if ingests else (),
    )  # fmt: skip
    seconds = rng.choice([6.0, 12.0, 20.0])
    streams = [*wide, *(f"s-{number}" for number in range(rng.choice([1, 2, 3])))]
    is_quick = random.Random(f"quick {seed}").random() < 0.2  # labels follow predictions at once
    sends, outcomes = _sends(rng, streams, seconds, is_quick)
    if ingests:
        sends = [send._replace(topic=SOURCE) if send.topic == "labels" else send for send in sends]
    programs = [*range(max(2, workers)), *(INGESTS + number for number in range(ingests))]
    has_poison = rng.random() < 0.15
    if has_poison:
        sends = sorted([*sends, poison_at(rng.random() * seconds, streams[-1])], key=lambda send: send.time)
    return Plan(
        config, workers, ingests, sends, _faults(rng, programs, seconds), shuffles=rng.random() < 0.7,
        is_static=rng.random() < 0.2, has_poison=has_poison, outcomes=outcomes,
    )  # fmt: skip


def poison_at(time: float, stream: str) -> Send:
    """A record at which workers die."""
    value = {"stream": stream, "instance_id": POISON, "model": "m", "y_pred": "a"}
    return Send(time, "predictions", stream.encode(), json.dumps(value).encode())


#: The stream whose records lie in all partitions.
_WIDE = "wide"

#: The topic from which `ingest` takes labels, its partitions, and the number of the first process of it.
SOURCE, SOURCE_PARTITIONS, INGESTS = "truths", 2, 10


@cache
def _source() -> SourceConfig:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ingest.yaml"
        path.write_text(_INGEST, encoding="utf-8")
        return load_config(str(path)).ingest[0]


_INGEST = f"""
ingest:
  {SOURCE}:
    as: labels
    stream: value.stream
    instance_id: value.instance_id
    y_true: value.y_true
"""

#: So sensitive that short streams have alarms and incidents.
_DETECTORS = (DetectorConfig("page-hinkley", "error", {"delta": 0.01, "lambda": 1.0}, fixed=True),)


def _stream(rng: random.Random) -> StreamConfig:
    return StreamConfig(
        emit_outcomes=rng.choice([1, 3, 5, None]) if rng.random() < 0.8 else None,
        emit_every=rng.choice([1_000, 2_000, 5_000]),
        emit_idle=rng.choice([None, 1_000, 3_000]),
        estimators=("all", "window:10") if rng.random() < 0.5 else ("all",),
        label_horizon=600_000,
        settle=rng.choice([5_000, 60_000]),
        compare="all" if rng.random() < 0.15 else "off",
        detectors=_DETECTORS if rng.random() < 0.3 else (),
        measures=("error", "accuracy"),
    )


def _worker(rng: random.Random) -> WorkerConfig:
    return WorkerConfig(
        session_timeout=rng.choice([2_000, 4_000]),
        grace=rng.choice([100, 200]),
        commit_every=rng.choice([50, 200, 500]),
        snapshot_every=rng.choice([100, 500, 3_000]),
        quarantine_after=rng.choice([2, 3]),
        stop_within=30_000,
    )


def _sends(
    rng: random.Random, streams: Sequence[str], seconds: float, is_quick: bool
) -> tuple[list[Send], dict[tuple[str, str], int]]:
    """Instances, predictions of two models, and labels; some come twice, some in transactions."""
    sends: list[Send] = []
    outcomes: dict[tuple[str, str], int] = {}
    in_transactions = rng.random() < 0.3
    count = rng.choice([10, 20, 40])
    bursts = [rng.random() * seconds * 0.7 for _ in range(3)] if rng.random() < 0.4 else []
    for number in range(count):
        stream = rng.choice(streams)
        begins = rng.random() * seconds * 0.8
        if bursts:  # and silences in between
            begins = rng.choice(bursts) + rng.random() * 0.4
        truth = rng.choice("ab")
        label_at = begins + 1.0 + rng.random() * (0.4 if bursts else seconds * 0.2)
        if is_quick:
            label_at = begins + 0.11 + 0.02 * (label_at - begins)

        key = key_of(stream, f"i{number:03}", {_WIDE})

        def send(topic: str, time: float, **fields: Any) -> None:
            value = {"stream": stream, "instance_id": f"i{number:03}", **fields}  # noqa: B023
            transaction = None
            if in_transactions and rng.random() < 0.2:
                transaction = (rng.random() * rng.choice([0.5, 4.0]), True)
                if rng.random() < 0.3:  # an attempt that is aborted, with something else in it
                    wrong = {**value, "instance_id": f"aborted{number}"}  # noqa: B023
                    aborted = json.dumps(wrong).encode()
                    sends.append(Send(time, topic, key, aborted, None, (rng.random(), False)))  # noqa: B023
            for again in range(rng.choice([1] * 9 + [2])):
                later = time + again * rng.random() * 0.2
                sends.append(Send(later, topic, key, json.dumps(value).encode(), None, transaction))  # noqa: B023

        if rng.random() < 0.7:
            send("instances", begins)
        has_label = rng.random() < 0.9
        models = [model for model in ("m", "n") if rng.random() < 0.9] or ["m"]
        for model in models:
            said = truth if rng.random() < 0.7 else "ab".replace(truth, "")
            send("predictions", begins + rng.random() * 0.1, model=model, y_pred=said)
            if has_label:
                outcomes[stream, model] = outcomes.get((stream, model), 0) + 1
        if has_label:
            send("labels", label_at, y_true=truth)
    sends.sort(key=lambda send: send.time)
    return sends, outcomes


def _faults(rng: random.Random, programs: Sequence[int], seconds: float) -> list[Fault]:
    kinds = rng.choices(list(_KINDS), list(_KINDS.values()), k=rng.choice([0, 1, 2, 3, 4, 6]))
    faults = [
        Fault(
            rng.random() * seconds,
            kind,
            worker=rng.choice(programs),
            seconds=_seconds(rng, kind),
            strength=_strength(rng, kind),
            settings=_settings(rng) if kind == "reconfigure" else {},
        )
        for kind in kinds
    ]
    return sorted(faults, key=lambda fault: fault.time)


def _seconds(rng: random.Random, kind: str) -> float:
    if kind == "rebuild":
        return 2.0
    if kind in ("pause", "cut"):
        return rng.choice([0.1, 1.0, 3.0, 8.0, 15.0, 30.0]) * rng.random()
    return rng.choice([1.0, 5.0]) * rng.random() if kind in ("slow", "lose", "markers") else 0.0


def _strength(rng: random.Random, kind: str) -> float:
    if kind in ("kill", "grow"):  # at once, or after so many requests
        return float(rng.choice([0, 1, 1, 2, 3, 5]))
    if kind == "slow":
        return rng.choice([10.0, 100.0, 1_000.0])
    if kind == "lose":
        return rng.choice([0.05, 0.3, 0.8])
    if kind == "markers":
        return rng.choice([0.3, 3.0])
    return rng.choice([-5.0, -0.2, 0.3, 60.0]) if kind == "clock" else 0.0


def _settings(rng: random.Random) -> dict[str, Any]:
    return {
        "commit_every": rng.choice([50, 300, 1_000]),
        "snapshot_every": rng.choice([100, 3_000]),
        "grace": rng.choice([100, 300]),
    }
