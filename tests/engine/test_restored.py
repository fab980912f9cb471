"""A change of configuration in one line: what is kept, what begins empty, what ended, and of how many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from helpers import advance, batch_of, snapshot_of
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.shard import Shard
from prequential.topics.decoding import LABELS, PREDICTIONS

BASE = StreamConfig(
    estimators=("all", "window:10"), stages=("initial", "final"), segments=("region", "plan"), period=1_000,
    detectors=(DetectorConfig(), DetectorConfig(signal="all")), details=("dependence",),
    baselines=("persistent",), measures=("accuracy",),
)  # fmt: skip

#: Two models, a baseline, and for each model one segment of each key; all pairs, and the models by segment.
ENTITIES, MODELS, PAIRS = 7, 2, 5


@pytest.fixture(scope="module")
def written() -> list[bytes]:
    shard = Shard(Config(defaults=BASE))
    about = {"stream": "s", "ts": 5, "segments": {"region": "eu", "plan": "free"}}
    predictions: list[Any] = [
        (5, {**about, "model": model, "instance_id": i, "y_pred": "x"}) for i in range(3) for model in "ab"
    ]
    labels: list[Any] = [(6, {"stream": "s", "ts": 6, "instance_id": i, "y_true": "x"}) for i in range(3)]
    shard.add(batch_of(PREDICTIONS, predictions, 0, len(predictions)))
    shard.add(batch_of(LABELS, labels, 0, len(labels)))
    advance(shard, 100)
    shard.flush()
    return snapshot_of(shard)


def restored(written: list[bytes], **changed: Any) -> Any:
    shard = Shard(Config(defaults=replace(BASE, **changed)))
    return shard.restore(msgspec.msgpack.decode(part) for part in written)


def test_without_a_change_there_is_nothing_to_say(written: list[bytes]) -> None:
    found = restored(written)
    assert (found.begun, found.ended, found.summary) == ([], {}, "")
    assert found.kept == {
        ("stage", "initial"): ENTITIES, ("stage", "final"): ENTITIES,
        ("estimator", "all"): ENTITIES, ("estimator", "window:10"): ENTITIES,
        ("detector", "page-hinkley on error"): ENTITIES - 1,
        ("detector", "page-hinkley on all"): ENTITIES - 1,
        ("segments", "region"): MODELS, ("segments", "plan"): MODELS, ("period", "1s"): MODELS,
        ("detail", "dependence"): MODELS, ("baseline", "persistent"): 1, ("comparison", "by error"): PAIRS,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "begun", "ended"),
    [
        ({"estimators": ("all", "window:5")}, "estimator window:5", "estimator window:10 (7)"),
        ({"stages": ("final", "after:1h")}, "stage after:1h", "stage initial (7)"),
        ({"detectors": (DetectorConfig(),)}, "", "detector page-hinkley on all (6)"),
        ({"segments": ("region",)}, "", "segments plan (2)"),
        ({"period": 2_000}, "period 2s", "period 1s (2)"),
        ({"period": None}, "", "period 1s (2)"),
        ({"details": ()}, "", "detail dependence (2)"),
        ({"dependence_order": 2}, "detail dependence", ""),
        ({"baselines": ("majority",)}, "baseline majority", "baseline persistent (1)"),
        ({"compare": "off"}, "", "comparison by error (5)"),
    ],
)
def test_each_key(written: list[bytes], changed: dict[str, Any], begun: str, ended: str) -> None:
    found = restored(written, **changed)
    parts = dict(part.split(": ", 1) for part in found.summary.split("; "))
    assert begun in parts.get("begun empty", "")
    assert bool(begun) == ("begun empty" in parts)
    assert ended in parts.get("ended", "")
    assert bool(ended) == ("ended" in parts)
    assert not {one.item for one in found.begun} & set(found.ended)
    what = next(iter(changed))
    for kind, many in (("stage final", ENTITIES), ("estimator all", ENTITIES), ("segments region", MODELS)):
        if kind.partition(" ")[0] not in what:
            gone = {"segments": MODELS, "baselines": 1}.get(what, 0) if many == ENTITIES else 0
            assert f"{kind} ({many - gone})" in parts["kept"], found.summary


def test_all_is_one_line(written: list[bytes]) -> None:
    found = restored(written, estimators=("fading:0.9",), stages=("final",), period=None)
    assert found.summary.startswith("begun empty: estimator fading:0.9 (7)")
    assert "; ended: " in found.summary
    assert "\n" not in found.summary
