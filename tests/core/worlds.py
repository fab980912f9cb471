"""Random worlds: about what the contract allows, in any order and form."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from helpers import HOUR, SIGNALS, Topics, World

from pipeline.config import KNOWN_MEASURES

#: Signals that are measures: two of these in each world.
OF_CLASSES = (
    "all:kappa", "window:20:kappa_per", "fading:0.9:f1", "window:3:mcc", "all:kappa_z",
    "window:5:balanced_accuracy", "fading:0.99:kappa_plus", "all:log_loss", "window:20:brier",
    "fading:0.9:ece",
)  # fmt: skip
OF_NUMBERS = ("all:mae", "window:20:r2", "fading:0.9:rmse", "window:3:mse", "all:kappa")

#: Bounds of the bins of confidence, and what is no probability.
PROBABILITIES = (0, 1, 0.2, 0.4, 0.6, 0.8, 1 / 3, 1 / 15, 2 / 15, 1e-17, 1.5, -0.25)


@dataclass
class Sort:
    """Of which sort a world is."""

    regression: bool
    binned: bool  # stages beyond initial and final, and several predictions before each label
    probable: bool  # probabilities with some predictions
    weighted: bool  # propensities of labels with most instances

    @classmethod
    def any(cls, rng: random.Random) -> Sort:
        """About half of all worlds have nothing but classes, and the stages initial and final."""
        return cls(rng.random() < 0.2, rng.random() < 0.33, rng.random() < 0.33, rng.random() < 0.25)


def random_world(
    rng: random.Random, size: int, class_count: int, *, unusable: bool = False
) -> World:
    """About `size` deliveries.

    With `unusable`, also records that can't be used, and limits that some records break.
    """
    sort = Sort.any(rng)
    horizon = rng.choice([200, 1000, 5000, 2 * HOUR])
    classes = _random_numbers(rng, class_count) if sort.regression else _random_classes(rng, class_count)
    world_settings = _random_settings(rng, horizon, sort, classes)
    if unusable:
        world_settings["limits"] = {
            "classes_per_stream": rng.choice([2, 4, 256]),
            "models_per_stream": rng.choice([2, 200]),
            "predictions_per_instance": rng.choice([2, 1000]),
            "instances_per_shard": rng.choice([20, 10_000_000]),
            "streams_per_shard": rng.choice([1, 10_000]),
        }
    shifts = [0] * 20 + [-5, 30, -100, -horizon // 2, horizon // 2]
    # Clocks that are wrong, rarely: a ts far ahead makes much expire (all, under a short horizon).
    wild = [-horizon - 1, horizon + 1, -2 * HOUR]
    if horizon > HOUR:
        wild += [HOUR, 2 * HOUR + 1, 5 * HOUR]
    streams = ["s0", "s1"][: rng.choice([1, 1, 2])]
    models = ["m0", "m1", "m2"][: rng.choice([1, 2] if sort.binned else [1, 2, 3])]
    kinds = [0, 1, 1, 1, 1, 1, 1, 2] if sort.binned else [0, 1, 1, 1, 2, 2]
    records_each = 8 if sort.binned else 4  # of an instance
    topics: Topics = ([], [], [])
    # Now and then all records are at multiples of `emit.every`.
    steps = rng.choice([[0, 0, 1, 5, 20], [0, 0, 0, 50]])
    now = 1_000
    for number in range(size):
        now += rng.choice(steps)
        kind = rng.choice(kinds)
        rows = topics[kind]
        time = now - rng.choice([0] * 9 + [50])
        if rows and rng.random() < 0.2:  # delivered again, at once or much later
            rows.append((time, rng.choice(rows[-rng.choice([1, 1, 40]) :])[1]))
            continue
        if unusable and rng.random() < 0.05:
            rows.append((time, rng.choice([b"", b"{}", b'{"stream":"s0"}', b"\xff"])))
            continue
        instance = max(0, number // records_each - rng.choice([0, 0, 0, 1, 2, 8]))
        obj: dict[str, Any] = {
            "stream": rng.choice(streams),
            "instance_id": rng.choice([instance, str(instance)]),
        }
        if rng.random() < 0.9:
            obj["ts"] = now + rng.choice(wild if rng.random() < 0.02 else shifts)
        # Classes come in runs; most labels are right, and most predictions until the drift.
        truth = classes[instance // 3 % class_count]
        if kind == 0 and rng.random() < 0.3:
            obj["version"] = rng.randrange(3)
        if kind == 0 and sort.weighted and rng.random() < 0.8:
            obj["label_propensity"] = rng.choice([1, 0.5, 0.1, rng.uniform(0.01, 1)])
        elif kind == 1:
            guess = truth if rng.random() < (0.9 if 2 * number < size else 0.2) else None
            obj["model"] = rng.choice(models)
            obj["y_pred"] = rng.choice(guess or rng.choice(classes))
            if sort.probable and rng.random() < 0.7:
                obj["y_proba"] = _random_probabilities(rng, classes)
        elif kind == 2:
            obj["y_true"] = rng.choice(truth if rng.random() < 0.9 else rng.choice(classes))
        if unusable and kind > 0 and rng.random() < 0.03:
            bad = ["x", True, "1", 1e101] if sort.regression else [0.5]
            obj["y_pred" if kind == 1 else "y_true"] = rng.choice(bad)
        rows.append((time, obj))
    return World(world_settings, topics)


def _random_settings(
    rng: random.Random, horizon: int, sort: Sort, classes: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    of_measures = rng.sample(OF_NUMBERS if sort.regression else OF_CLASSES, 2)
    detectors = [
        {
            "detector": "page-hinkley",
            "signal": signal,
            "delta": rng.choice([0, 0.005, 0.1]),
            # No sum of rational errors comes to rest on these, so rounding decides nothing.
            "lambda": rng.choice([0.0500371, 0.5003719, 2.0071937]),
            "min_outcomes": rng.choice([1, 5, 30]),
        }
        for signal in (*SIGNALS, *of_measures)
    ]
    window = rng.choice([1, 3, 50])
    fading = rng.choice([0.5, 0.9, 0.999, 1.0])
    emit = {
        "outcomes": rng.choice([1, 7, 1000, None]),
        "every": rng.choice(["50ms", "1s", None]),
    }
    stages = [["initial", "final"], ["final", "initial"], ["final"], ["initial"]]
    if sort.binned:
        stages = [
            ["initial", "final", "bins", "intermediate"], ["intermediate", "final"], ["bins"],
            ["bins", "initial"], ["intermediate"], ["final", "intermediate", "bins", "initial"],
        ]  # fmt: skip
    if rng.random() < 0.33:
        ages = rng.sample(["after:1ms", "after:30ms", "after:100ms", "after:1s"], 2)
        stages = [[*some, *ages] for some in stages] + [ages]
    defaults = {
        "task": "regression" if sort.regression else "classification",
        "loss": rng.choice(["absolute", "squared"]),
        "positive_class": rng.choice([None, None, None, rng.choice(classes)[0], "nothing's"]),
        "estimators": ["all", f"window:{window}", f"fading:{fading}"],
        "stages": rng.choice(stages),
        "bins": rng.choice([1, 2, 3, 5]),
        "alpha": rng.choice([0.5, 1, 2.0, 10]),
        "label_horizon": f"{horizon}ms",
        "settle": f"{rng.choice([1, 50, 500, 5000])}ms",
        "emit": emit,
        "detectors": detectors,
    }
    if sort.regression:
        defaults["positive_class"] = None
    if rng.random() < 0.1:
        defaults["measures"] = ["kappa_plus", rng.choice(["ece", "mcc"]), "r2", "error"]
    if sort.weighted:
        defaults["measures"] = [*KNOWN_MEASURES, "ipw_accuracy", "ipw_n"]
    return {
        "defaults": defaults,
        "streams": {
            "s1": {"emit": {"every": rng.choice(["70ms", "3s", None])}, "detectors": detectors[-3:]}
        },
    }


def _random_classes(rng: random.Random, count: int) -> list[list[Any]]:
    """Classes, each as the values that stand for it in messages."""
    if count == 2 and rng.random() < 0.5:
        return [[False, "false"], [True, "true"]]
    if rng.random() < 0.5:
        return [[number, str(number)] for number in range(count)]
    return [["UP"], ["DOWN"], ["größer"], ["c"], ["d"], ["e"], ["f"], ["g"]][:count]


def _random_numbers(rng: random.Random, count: int) -> list[list[Any]]:
    """Levels, each as numbers around it: the same ones again and again, or hardly ever the same."""
    way = rng.choice(["few", "many", "far"])
    if way == "few":
        return [[level, float(level), level + 0.25] for level in range(count)]
    origin = 1e6 if way == "far" else 0.0
    return [[origin + level + rng.randrange(-500, 500) / 1000 for _ in range(20)] for level in range(count)]


def _random_probabilities(rng: random.Random, classes: Sequence[Sequence[Any]]) -> Any:
    """Often none for some class; seldom a sum of 1."""
    if rng.random() < 0.1:
        return rng.choice([None, {}])
    named = rng.sample([str(values[-1]) for values in classes], rng.randint(1, len(classes)))
    found = {name: rng.choice([rng.random(), rng.choice(PROBABILITIES)]) for name in named}
    if rng.random() < 0.1:
        found["of no label"] = 0.5
    return found
