"""Costs are of the stream that has them, whatever other streams there are beside it."""

from __future__ import annotations

from typing import Any

from helpers import metrics_of, shard_with
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.topics.outputs import Metrics

PLAIN = StreamConfig(
    measures=("accuracy", "cost", "cost_total"), estimators=("all",), stages=("final",), detectors=(),
    compare="off", emit_outcomes=None, emit_every=None,
)  # fmt: skip
PAYING = StreamConfig(**{
    name: getattr(PLAIN, name) for name in PLAIN.__dataclass_fields__ if name != "costs"
}, costs={"b": {"a": 5.0}})  # fmt: skip


def last_set(config: Config, *streams: str) -> dict[str, Metrics]:
    """By stream the last message about a model that is wrong of each `b`."""
    rows: list[list[Any]] = [[], [], []]
    for i in range(8):
        for stream in streams:
            about = {"stream": stream, "instance_id": i, "ts": i}
            rows[1].append((i, {**about, "model": "m", "y_pred": "a"}))
            rows[2].append((i, {**about, "y_true": "ab"[i % 4 == 3]}))
    shard = shard_with(config, rows)
    shard.last_set()
    return {one.stream: one for one in metrics_of(shard.flush()[0]) if one.model == "m"}


def test_a_stream_without_costs_has_none_beside_one_that_has() -> None:
    config = Config(defaults=PLAIN, streams={"paying": PAYING})
    together = last_set(config, "plain", "paying")
    assert together["paying"].measures == {"accuracy": 0.75, "cost": 1.25, "cost_total": 10.0}
    assert together["plain"].measures == {"accuracy": 0.75}
    assert together["plain"].undefined == {"cost": "no_costs", "cost_total": "no_costs"}
    for stream in ("plain", "paying"):
        alone = last_set(config, stream)[stream]
        assert (alone.measures, alone.undefined) == (together[stream].measures, together[stream].undefined)
