"""Outcomes of the past by sequence: what a plain loop says, and what detectors saw."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.catalog.plans import Plan
from prequential.offline.backtesting.sequences import PastSequence, sequences
from prequential.offline.replay.sources import Source
from prequential.topics.decoding import KINDS
from prequential.topics.outputs import Alarm, Output

DETECTORS = (
    DetectorConfig("page-hinkley", "error", {"lambda": 5.0}),
    DetectorConfig("page-hinkley", "window:20/window:200", {"lambda": 5.0, "delta": 0.1}),
    DetectorConfig("page-hinkley", "window:50:kappa", {"lambda": 2.0}),
)

Key = tuple[str, str, str | None, str]


def files(seed: int, *, numbers: bool = False, count: int = 1_500) -> list[Source]:
    """Two streams, two models, two predictions of each for an instance, labels late, and some revised."""
    rng = random.Random(seed)
    lines: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for i in range(count):
        t0 = 1_000 * i
        about = {"stream": rng.choice("ab"), "instance_id": i, "segments": {"region": rng.choice("xy")}}
        lines["instances"].append({**about, "ts": t0})
        y = rng.gauss(0, 1) if numbers else rng.choice("012345678"[: 2 + i // 200])
        error = 0.1 if i < count // 2 else 0.5
        for model in ("m", "n"):
            for age in (10, 200):
                said = y if rng.random() > error else (y + rng.gauss(0, 1) if numbers else "0")
                lines["predictions"].append({**about, "model": model, "ts": t0 + age, "y_pred": said})
        delay = rng.randrange(300, 5_000)
        lines["labels"].append({**about, "ts": t0 + delay, "y_true": y})
        if rng.random() < 0.05:
            other = y + 1 if numbers else "1"
            lines["labels"].append({**about, "ts": t0 + delay + 50, "y_true": other})
    return [
        Source(KINDS.index(kind), [json.dumps(line).encode() for line in of]) for kind, of in lines.items()
    ]


def key_of(one: PastSequence | Alarm) -> Key:
    return one.stream, one.model, one.segment, one.stage


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [False, True])
def test_a_plan_over_a_sequence_raises_the_alarms_of_the_replay(numbers: bool) -> None:
    task = "regression" if numbers else "classification"
    config = StreamConfig(
        task=task, segments=("region",), detectors=DETECTORS[: 2 if numbers else 3], bins=2,
        stages=("initial", "final", "bins", "after:1s"), baselines=("persistent",),
    )  # fmt: skip
    alarms: dict[Key, list[tuple[int, str, float]]] = defaultdict(list)

    def put(output: Output) -> None:
        if isinstance(output, Alarm):
            alarms[key_of(output)].append((output.outcome, output.signal, output.statistic))

    found = sequences(Config(defaults=config), files(1, numbers=numbers), put)
    assert {one.stream for one in found} == {"a", "b"}
    watched = {key_of(one) for one in found if one.watched}
    assert len(watched) == 2 * 2 * (5 + 2 * 4)  # streams, models; stages of all and of two segments
    assert {one.model for one in found if not one.watched} == (set() if numbers else {"@persistent"})
    assert len(alarms) > 20
    for one in found:
        plan = Plan(0, config, (one.stage,), one.watched, max(2, len(one.classes)))
        plan.take(0, 0, one.stream, one.model, one.segment)
        log = one.rows.copy()
        log.sequence[:] = 0
        raised = plan.consume(log, np.arange(len(one), dtype=np.int32), one.positives)
        again = [
            (int(raised.position[i]) + 1, plan.watches[raised.detector[i]].config.signal, raised.statistic[i])
            for i in range(int(raised.raised[0]))
        ]
        assert sorted(again) == sorted(alarms.pop(key_of(one), []))
    assert not alarms


def test_columns_are_those_of_a_plain_loop() -> None:
    labels = ["u", "d", "u", "u", "d"]
    said = ["u", "u", "d", "u", "u"]
    delays = [900, 100, 400, 900, 100]
    lines: dict[str, list[bytes]] = {"predictions": [], "labels": []}
    for i, (y, h, delay) in enumerate(zip(labels, said, delays)):
        about = {"stream": "s", "instance_id": i}
        lines["predictions"].append(json.dumps({**about, "model": "m", "ts": 100 * i, "y_pred": h}).encode())
        lines["labels"].append(json.dumps({**about, "ts": 100 * i + delay, "y_true": y}).encode())
    sources = [Source(KINDS.index(kind), of) for kind, of in lines.items()]
    [one] = sequences(Config(defaults=StreamConfig(stages=("final",))), sources)
    order = [1, 4, 2, 0, 3]  # in which labels came
    assert key_of(one) == ("s", "m", None, "final")
    assert [one.classes[code] for code in one.label] == [labels[i] for i in order]
    assert [one.classes[code] for code in one.prediction] == [said[i] for i in order]
    assert one.loss.tolist() == [float(labels[i] != said[i]) for i in order]
    assert one.ts.tolist() == [100 * i for i in order]
    assert one.t1.tolist() == [100 * i + delays[i] for i in order]


def test_nothing_is_no_sequence() -> None:
    assert sequences(Config(), []) == []
