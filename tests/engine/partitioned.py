"""Worlds of one stream in several partitions, and what these and who merges them say."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from helpers import ENDED, Topics, World, batch_of, times_of
from prequential.configuration.settings.model import Config
from prequential.engine.merging.merger import Merger
from prequential.engine.shard import Shard
from prequential.topics import parts
from prequential.topics.outputs import Comparison, Encoded, Metrics, decoded
from prequential.topics.partitioning import partition_of
from prequential.topics.specs import PARTS

#: Models of the stream `s`.
MODELS = ("m", "n", "o")


def settings(rng: random.Random, regression: bool) -> dict[str, Any]:
    """Settings of the stream `s`: what adds up, in many forms."""
    defaults: dict[str, Any] = {
        "estimators": ["all", "decay:2s", "window:10"], "detectors": [], "emit": {"every": "1s"},
        "label_horizon": "1h", "settle": "1h",
    }  # fmt: skip
    if regression:
        defaults |= {"task": "regression", "measures": ["mae", "rmse", "r2", "bias"], "loss": "absolute"}
        defaults["compare_losses"] = ["error"]
    else:
        defaults["measures"] = ["accuracy", "kappa", "p_per", "kappa_maj", "log_loss", "auc", "f1", "cost"]
        defaults["costs"] = {"a": {"b": 2}, "b": {"a": 3.5}}
        defaults["compare_losses"] = ["error", "brier"]
        if rng.random() < 0.3:
            defaults["baselines"] = ["persistent", "random"]
    if rng.random() < 0.5:
        defaults["segments"] = ["region"]
    stages = [["initial", "final"], ["final"], ["initial", "final", "bins", "intermediate", "after:1s"]]
    defaults["stages"] = rng.choice(stages)
    defaults["bins"] = 3
    return defaults


def world(seed: int, size: int = 120) -> World:
    """Instances of one stream, with labels that are late, corrected, or missing."""
    rng = random.Random(seed)
    regression, classes = rng.random() < 0.25, "abc"[: rng.choice([2, 3])]
    twice = rng.choice([0.0, 0.0, 0.2])
    rows: list[tuple[int, int, dict[str, Any]]] = []
    now = 10_000

    def value() -> Any:
        return round(rng.gauss(10, 3), 2) if regression else rng.choice(classes)

    for number in range(size):
        now += rng.choice([0, 5, 50, 50, 400, 4_000 if rng.random() < 0.1 else 10])
        base = {"stream": "s", "instance_id": f"i{number}"}
        region = {"segments": {"region": rng.choice("xxxyyzvw")}} if rng.random() < 0.9 else {}
        rows.append((now, 0, base | region))
        truth = value()
        for model in rng.sample(MODELS, rng.choice([3, 3, 3, 2, 1])):
            for again in range(1 + (rng.random() < twice)):
                said = truth if rng.random() < 0.7 else value()
                one = base | {"model": model, "y_pred": said}
                if not regression and rng.random() < 0.8:
                    p = rng.uniform(0.5, 1.0)
                    other = next(name for name in classes if name != said)
                    one["y_proba"] = {said: p, other: 1 - p}
                rows.append((now + 1 + 60 * again, 1, one))
        if rng.random() < 0.9:
            late = rng.choice([2, 100, 900, 3_000])
            rows.append((now + late, 2, base | {"y_true": truth}))
            if rng.random() < 0.1:
                rows.append((now + late + 500, 2, base | {"y_true": value()}))
    rows.sort(key=lambda row: row[0])
    topics: Topics = ([], [], [])
    for time, kind, obj in rows:
        topics[kind].append((time, obj | {"ts": time}))
    return World({"defaults": settings(rng, regression), "streams": {"s": {"key": "instance"}}}, topics)


def run(
    config: Config, topics: Topics, partition: int, partitions: int | None, rng: random.Random
) -> list[Any]:
    """Outputs of one shard, whatever comes of which topic first."""
    shard = Shard(config, partition, partitions)
    for kind, rows in enumerate(topics):
        shard.add(batch_of(kind, rows, 0, len(rows)))
    while shard.advance([ENDED] * 3, rng.choice([1, 7, 1000])):
        pass
    shard.last_set()
    return shard.flush()[0]


def split(topics: Topics, partitions: int) -> list[Topics]:
    """By partition, as producers key these records."""
    found: list[Topics] = [([], [], []) for _ in range(partitions)]
    for kind, rows in enumerate(topics):
        for time, row in zip(times_of(rows), rows):
            assert isinstance(row[1], dict)
            found[partition_of(row[1]["instance_id"], partitions)][kind].append((time, row[1]))
    return found


def parts_of(config: Config, topics: Topics, partitions: int, rng: random.Random) -> list[list[parts.Part]]:
    return [
        [
            parts.decode(output.json) for output in run(config, some, number, partitions, rng)
            if isinstance(output, Encoded) and output.topic == PARTS
        ]
        for number, some in enumerate(split(topics, partitions))
    ]  # fmt: skip


def shuffled(rng: random.Random, of: Sequence[Sequence[parts.Part]]) -> Iterator[parts.Part]:
    """Each partition's parts in their order, in any order of partitions."""
    left = [list(one) for one in of]
    while any(left):
        chosen = rng.choice([one for one in left if one])
        for _ in range(rng.choice([1, 1, 5])):
            if chosen:
                yield chosen.pop(0)


def merged(config: Config, some: Iterator[parts.Part]) -> list[Any]:
    merger = Merger(config)
    return [decoded(one) for offset, part in enumerate(some) for one in merger.add(part, offset)]


def whole(config: Config, topics: Topics, rng: random.Random) -> list[Any]:
    """What one partition says of it all at the same moments: a replay of a file."""
    return [decoded(one) for one in run(config, topics, 0, None, rng) if isinstance(one, Encoded)]


def oriented(message: Any) -> Any:
    """A comparison whose model has the lesser name; what isn't one stays as it is."""
    if not isinstance(message, Comparison) or message.model <= message.against:
        return message
    swapped = {"n01": "n10", "n10": "n01"}
    measures = {
        swapped.get(name, name): -value if name in ("difference", "q", "mcnemar") else value
        for name, value in message.measures.items()
    }  # fmt: skip
    return msgspec.structs.replace(message, model=message.against, against=message.model, measures=measures)


def close(ours: Any, theirs: Any) -> bool:
    return bool(ours == theirs or math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9))


# ---- periods


def with_periods(given: World, seed: int) -> World:
    """A world with periods; at its end their time is over, in one partition later than in another."""
    rng = random.Random(f"periods {seed}")
    defaults = {**given.settings["defaults"], "period": rng.choice(["1s", "3s"])}
    defaults["expected"] = rng.random() < 0.7
    defaults |= {"label_horizon": rng.choice(["2s", "10s"]), "settle": rng.choice(["1s", "20s"])}
    defaults["period_final_at"] = rng.choice([0.5, 0.95])
    topics: Any = tuple(map(list, given.topics))
    if defaults.get("task") != "regression":
        if rng.random() < 0.4:
            defaults |= {"cost_per_value": True, "measures": [*defaults["measures"], "cost_total"]}
            topics[1][:] = [
                (time, row | ({"value": round(rng.uniform(0, 100), 2)} if rng.random() < 0.8 else {}))
                for time, row in topics[1]
            ]
        if rng.random() < 0.4:
            defaults["label_at_horizon"] = "c"
    # In one partition, or some in each, at once or not: labels at the horizon come by each one's own clock.
    several, apart = rng.choice([1, 40]), rng.choice([0, 100])
    pause = rng.choice([2_000, 40_000]) if several > 1 else 40_000
    end = max(time for rows in topics for time, _ in rows) + pause
    if "label_at_horizon" in defaults:
        # No partition is silent from the end of a horizon until others have passed `settle`, too: its labels
        # of that time would come after the stream's period is final.
        defaults["settle"], several, apart = "60s", 40, 0
        topics[0].extend(
            (end, {"stream": "s", "instance_id": f"near{number}", "ts": end}) for number in range(40)
        )
        end += 100_000
    for number in range(several):
        time = end + 11_000 + number * apart
        topics[0].append((time, {"stream": "s", "instance_id": f"end{number}", "ts": time}))
    for number in range(40):  # record time goes on in all, the clock doesn't
        topics[0].append((end + 16_000, {"stream": "s", "instance_id": f"more{number}", "ts": 10_000}))
    return World({**given.settings, "defaults": defaults}, topics)


def of_periods(messages: Sequence[Any]) -> list[Metrics]:
    return [one for one in messages if isinstance(one, Metrics) and one.stage == "period"]


def covering(messages: Sequence[Any]) -> list[Any]:
    return [one for one in messages if isinstance(one, Metrics) and one.coverage is not msgspec.UNSET]
