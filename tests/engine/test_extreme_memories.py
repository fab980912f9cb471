"""Whatever an estimator has forgotten: details and measures have values or none, and never end the engine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from helpers import metrics_of, shard_with
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DETAILS, StreamConfig
from prequential.engine.measures.registry import NAMES
from prequential.topics.outputs import Metrics


def numbers_of(value: Any) -> Iterator[Any]:
    """All that is no text in a message, however deep."""
    if isinstance(value, dict):
        for one in value.values():
            yield from numbers_of(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from numbers_of(one)
    elif not isinstance(value, str):
        yield value


def evaluated(labels: str, predictions: str, estimators: tuple[str, ...]) -> list[Metrics]:
    """Messages about outcomes one after the other, each class a character."""
    config = StreamConfig(
        estimators=estimators, details=DETAILS, measures=NAMES,
        emit_outcomes=50, emit_every=None,
    )  # fmt: skip
    about = [{"stream": "s", "instance_id": i, "ts": i} for i in range(len(labels))]
    rows: list[list[Any]] = [[], [], []]
    for fields, y, h in zip(about, labels, predictions):
        proba = {"1": 0.9, "0": 0.1} if fields["ts"] % 7 == 0 else None
        rows[1].append((fields["ts"], {**fields, "model": "m", "y_pred": h, "y_proba": proba}))
        rows[2].append((fields["ts"], {**fields, "y_true": y}))
    shard = shard_with(Config(defaults=config), rows)
    shard.last_set()
    return metrics_of(shard.flush()[0])


@pytest.mark.parametrize("factor", [1e-30, 1e-5, 0.05, 0.3, 0.5, 0.95, 0.999999999999])
@pytest.mark.parametrize(
    ("labels", "predictions"),
    [
        ("1" + "0" * 299, "1" + "0" * 299),
        ("1" + "0" * 299, "0" * 300),
        ("0" * 300, "1" + "0" * 299),
        ("10" * 2 + "0" * 4_000, "1" * 3 + "0" * 4_001),
        ("1" * 300, "0" * 300),
        ("01" * 150, "10" * 150),
        ("2" + "01" * 150, "2" + "01" * 150),
    ],
)
def test_every_detail_and_measure_is_a_number_or_has_none(
    factor: float, labels: str, predictions: str
) -> None:
    messages = evaluated(labels, predictions, ("all", "window:3", f"fading:{factor}"))
    assert len(messages) > 20
    for message in messages:
        plain = msgspec.json.decode(msgspec.json.encode(message))
        plain["segment"] = ""
        if "dependence" in plain:  # an increment that isn't defined yet is null
            plain["dependence"].pop("increments", None)
        for value in numbers_of({key: plain[key] for key in plain if key != "coverage"}):
            assert value is not None, message
            assert math.isfinite(value), message
        for name, (low, high) in plain.get("intervals", {}).items():
            assert 0 <= low <= high <= 1, (name, message)
