"""`true` and 1 are one class of a stream, and so are `false` and 0, in the form that came first."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from helpers import advance, batch_of, metrics_of, snapshot_of
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.shard import Shard
from prequential.topics.decoding import LABELS, PREDICTIONS

SETTINGS = StreamConfig(
    estimators=("all", "window:20"), detectors=(), emit_outcomes=1, emit_every=None, measures=("accuracy",
    "kappa", "recall", "precision", "log_loss", "brier", "auc", "kappa_per"),
)  # fmt: skip


def rows(seed: int, forms: Any) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
    """Predictions and labels of a stream; `forms` says how a boolean is written each time."""
    rng = random.Random(seed)
    predictions, labels = [], []
    for i in range(60):
        truth = rng.random() < 0.4
        guess = truth if rng.random() < 0.7 else not truth
        p = rng.random()
        # Two draws for keys, three for values, whichever form is used: streams differ in nothing else.
        written = [forms(rng.random(), one) for one in (guess, truth)]
        keys = [forms(rng.random(), one) for one in (True, False)]
        names = [json.dumps(one) for one in keys]
        about = {"stream": "s", "instance_id": str(i), "ts": 1_000 * i}
        proba = dict(zip(names, (p, 1 - p)))
        prediction = {**about, "model": "m", "y_pred": written[0], "y_proba": proba}
        predictions.append((1_000 * i, json.dumps(prediction).encode()))
        label = {**about, "y_true": written[1], "ts": 1_000 * i + 500}
        labels.append((1_000 * i + 500, json.dumps(label).encode()))
    return predictions, labels


def booleans(draw: float, value: bool) -> Any:
    return value


def numbers(draw: float, value: bool) -> Any:
    return int(value)


def mixed(draw: float, value: bool) -> Any:
    return value if draw < 0.5 else int(value)


def said(
    seed: int, forms: Any, config: StreamConfig = SETTINGS, vector: int | None = None
) -> list[Mapping[str, Any]]:
    """Everything but names of classes; a snapshot is taken and restored after `vector` instances."""
    given = rows(seed, forms)
    shard, outputs = Shard(Config(defaults=config)), []
    for start, stop in ((0, 60),) if vector is None else ((0, vector), (vector, 60)):
        for kind, of in zip((PREDICTIONS, LABELS), given):
            padded: list[Any] = [(0, b"")] * start + of[start:stop]
            shard.add(batch_of(kind, padded, start, stop))
        advance(shard)
        outputs += shard.flush()[0]
        if stop == vector:
            written = snapshot_of(shard)
            shard = Shard(Config(defaults=config))
            shard.restore(msgspec.msgpack.decode(part) for part in written)
    return [
        {"id": one.id, "n": one.n, "measures": one.measures, "undefined": one.undefined}
        for one in metrics_of(outputs)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_stream_that_mixes_them_is_one_that_does_not(seed: int) -> None:
    expected = said(seed, numbers)
    assert expected
    assert said(seed, booleans) == expected
    assert said(seed, mixed) == expected
    assert said(seed, mixed, vector=25) == expected


@pytest.mark.slow
@pytest.mark.parametrize("positive", ["1", "true", "0", "false"])
def test_the_positive_class_may_be_named_in_either_form(positive: str) -> None:
    config = replace(SETTINGS, positive_class=positive)
    other = replace(SETTINGS, positive_class={"1": "true", "true": "1", "0": "false", "false": "0"}[positive])
    expected = said(7, numbers, config)
    assert "recall" in expected[-1]["measures"]
    for forms in (numbers, booleans, mixed):
        assert said(7, forms, other) == expected


def test_messages_name_them_in_the_form_that_came_first() -> None:
    shard = Shard(Config(defaults=replace(SETTINGS, details=("per_class",))))
    texts = [b"true", b"0", b"1", b"false", b'"other"']
    for i, text in enumerate(texts):
        about = b'{"stream":"s","instance_id":"%d","ts":%d,' % (i, i)
        before: list[Any] = [(0, b"")] * i
        prediction = about + b'"model":"m","y_pred":%s}' % text
        shard.add(batch_of(PREDICTIONS, [*before, (i, prediction)], i, i + 1))
        shard.add(batch_of(LABELS, [*before, (i, about + b'"y_true":%s}' % text)], i, i + 1))
    advance(shard)
    newest = metrics_of(shard.flush()[0])[-1]
    assert newest.measures["accuracy"] == 1.0
    assert set(newest.per_class) == {"true", "false", "other"}  # type: ignore[arg-type]
