"""Random worlds: about what the contract allows, in any order and form."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from helpers import HOUR, SIGNALS, Topics, World
from oracle_scores import FURTHER_NUMERIC, NUMERIC
from prequential.configuration.settings.durations import duration
from prequential.configuration.settings.stages import CONFIGURED, parse
from prequential.configuration.settings.streams import (
    BASELINES,
    COMPARE_LOSSES,
    DEFAULT_MEASURES,
    DETAILS,
    INCIDENT_LOSSES,
)
from prequential.engine.measures.registry import NAMES as MEASURES
from prequential.engine.measures.registry import OF_SETS

#: All that can be computed, those of every message first.
ALL_MEASURES = (*DEFAULT_MEASURES, *(name for name in MEASURES if name not in DEFAULT_MEASURES))

#: Signals that are measures: two of these in each world.
OF_CLASSES = (
    "all:kappa", "window:20:kappa_per", "fading:0.9:f1", "window:3:mcc", "all:kappa_z",
    "window:5:balanced_accuracy", "fading:0.99:kappa_plus", "all:log_loss", "window:20:brier",
    "fading:0.9:ece",
)  # fmt: skip
OF_NUMBERS = ("all:mae", "window:20:r2", "fading:0.9:rmse", "window:3:mse")

#: Bounds of the bins of confidence, and the extremes: denormal numbers, what rounds to 1, a negative 0.
PROBABILITIES = (
    0, 1, 0.2, 0.4, 0.6, 0.8, 1 / 3, 1 / 15, 2 / 15, 1e-17, 0.0, 1.0, -0.0, 1e-320, 5e-324, 1 - 2**-53,
)  # fmt: skip

#: No probabilities of classes: outside 0 … 1, or too much together.
NO_PROBABILITIES: tuple[tuple[float, ...], ...] = (
    (1.5,), (-0.25,), (1e200,), (-1e200, 1), (-5e-324,), (1e308, 1e308), (2.0,), (0.9, 0.2), (1, 1),
    (1, 0.0011),
)  # fmt: skip


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
    stakes = _beside(rng)
    intervals, withdrawing = _beside(rng), _beside(_beside(rng))
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
            if rng.random() < 0.7:  # a roll-out in the middle, and one model that goes back and forth
                rolled_out = 1 + number * 2 // size
                obj["model_version"] = rng.choice(["1", 2]) if obj["model"] == "m1" else rolled_out
            if sort.probable and rng.random() < 0.7:
                obj["y_proba"] = _random_probabilities(rng, classes)
                if unusable and rng.random() < 0.1:
                    obj["y_proba"] = dict(zip("ab", rng.choice(NO_PROBABILITIES)))
                    rows.append((time, json.dumps(obj).encode()))  # like all that can't be decoded
                    continue
        elif kind == 2:
            obj["y_true"] = rng.choice(truth if rng.random() < 0.9 else rng.choice(classes))
            if withdrawing.random() < 0.1:
                obj["y_true"] = None
        if world_settings["defaults"].get("cost_per_value") and kind > 0 and stakes.random() < 0.6:
            obj["value"] = stakes.choice([0, 1, 2.5, stakes.uniform(0, 1000), None])
            if unusable and stakes.random() < 0.05:
                obj["value"] = stakes.choice(["x", -1, True, 1e101, []])
        if sort.regression and kind == 1 and intervals.random() < 0.7:
            obj |= _random_interval(intervals, classes, unusable=unusable)
            obj |= _random_quantiles(_beside(intervals), classes, unusable=unusable)
            weights = _beside(_beside(intervals))
            obj["weight"] = weights.choice([None, 0, 1, 2.5, weights.uniform(0, 9)])
            if unusable and weights.random() < 0.05:
                obj["weight"] = weights.choice(_NO_WEIGHTS)
        if unusable and kind > 0 and rng.random() < 0.03:
            bad = ["x", True, "1", 1e101] if sort.regression else [0.5]
            obj["y_pred" if kind == 1 else "y_true"] = rng.choice(bad)
        rows.append((time, obj))
    return World(world_settings, topics)


#: Detectors of a world besides Page-Hinkley's test for an increase.
_OTHERS = 4


def _beside(rng: random.Random) -> random.Random:
    """Other random numbers: what is drawn from them doesn't change those that come next."""
    return random.Random(repr(rng.getstate()))


#: Half-lives from less than an outcome's distance to the next to longer than any world.
_DECAY = ("decay:40ms", "decay:1s", "decay:2h")


def _by_time(rng: random.Random, regression: bool) -> dict[str, list[Any]]:
    """Estimators that forget by time, and detectors on them, in half of all worlds."""
    if rng.random() < 0.5:
        return {"estimators": [], "detectors": []}
    measure = rng.choice(["mae", "r2"] if regression else ["kappa", "brier", "f1"])
    signals = [rng.choice(_DECAY), "decay:40ms/decay:1s", f"{rng.choice(_DECAY)}:{measure}"]
    return {
        "estimators": rng.sample(_DECAY, rng.choice([1, 1, 2])),
        "detectors": [
            {
                "detector": "page-hinkley", "signal": signal, "delta": rng.choice([0, 0.1]),
                "lambda": rng.choice([0.5003719, 2.0071937]), "min_outcomes": rng.choice([1, 30]),
            }
            for signal in rng.sample(signals, 2)
        ],
    }  # fmt: skip


def _random_detectors(rng: random.Random, regression: bool) -> list[dict[str, Any]]:
    """Some of those besides Page-Hinkley's test for an increase, with which short sequences have alarms.

    No sum of rational errors comes to rest on their thresholds. KSWIN orders values, so it is on those that
    rounding can't tell apart.
    """
    wide = ["scaled_error", *SIGNALS] if regression else SIGNALS
    exact = ["error"] if regression else ["error", "all", "window:20", "window:1"]
    direction = rng.choice(["increase", "decrease", "both"])
    confidences = {"drift_confidence": rng.choice([0.05, 0.4]), "two_sided_test": rng.random() < 0.5}
    found: list[dict[str, Any]] = [
        {
            "detector": "adwin", "signal": rng.choice(wide), "delta": rng.choice([0.3, 0.9]),
            "clock": rng.choice([1, 3]), "max_buckets": rng.choice([2, 5]),
            "min_window_length": rng.choice([1, 2]), "grace_period": rng.choice([0, 5]),
        },
        {
            "detector": "page-hinkley", "signal": rng.choice(wide), "delta": 0.005, "lambda": 0.5103719,
            "min_outcomes": 5, "direction": direction,
        },
        {
            "detector": "cusum", "signal": rng.choice(["error", *exact]), "k": 0.1037193, "h": 2.0071937,
            "min_outcomes": rng.choice([2, 5]), "direction": direction,
        },
        {
            "detector": "kswin", "signal": rng.choice(exact), "alpha": 0.4003719, "window_size": 12,
            "stat_size": rng.choice([3, 5]),
        },
    ]  # fmt: skip
    if not regression:
        found += [
            {"detector": "ddm", "warm_start": rng.choice([1, 5]), "drift_threshold": 1.0071937},
            {"detector": "eddm", "warm_start": rng.choice([1, 3]), "alpha": 0.97, "beta": 0.9503719},
            {"detector": "hddm-a", "warning_confidence": 0.5, **confidences},
            {"detector": "hddm-w", "lambda_val": rng.choice([0.05, 0.3]), **confidences},
            {"detector": "ecdd", "average_run_length": rng.choice([100, 400]), "min_outcomes": 5},
        ]
    return rng.sample(found, _OTHERS)


def _clusters(rng: random.Random, task: str) -> dict[str, Any]:
    """Clusters of all kinds, and a budget by which incidents open easily, so that there are some."""
    losses = [one for one in INCIDENT_LOSSES[task] if one not in ("cost", "pinball")]
    return {
        "incident_loss": rng.choice(["error", rng.choice(losses)]),
        "cluster": rng.choice(["auto", "off", "1ms", "10ms", "100ms"]),
        "incident_budget": rng.choice(["1 per 1ms", "1 per 1s", "1 per 30d", None]),
    }


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
    detectors += _random_detectors(_beside(rng), sort.regression)
    by_time = _by_time(_beside(rng), sort.regression)
    detectors += by_time["detectors"]
    window = rng.choice([1, 3, 50])
    fading = rng.choice([0.5, 0.9, 0.999, 1.0])
    emit = {
        "outcomes": rng.choice([1, 7, 1000, None]),
        "every": rng.choice(["50ms", "1s", None]),
        "comparisons": _beside(rng).choice(["50ms", "1s", "1m", None]),
    }
    stages = [["initial", "final"], ["final", "initial"], ["final"], ["initial"]]
    if sort.binned:
        stages = [
            ["initial", "final", "bins", "intermediate"], ["intermediate", "final"], ["bins"],
            ["bins", "initial"], ["intermediate"], ["final", "intermediate", "bins", "initial"],
        ]  # fmt: skip
    if rng.random() < 0.33:
        within = ["after:1ms", "lead:30ms", "after:100ms", *(["after:1s"] if horizon >= 1000 else [])]
        ages = rng.sample(within, 2)
        stages = [[*some, *ages] for some in stages] + [ages]
    defaults = {
        "task": "regression" if sort.regression else "classification",
        "loss": rng.choice(["absolute", "squared"]),
        "positive_class": rng.choice([None, None, None, rng.choice(classes)[0], "nothing's"]),
        "estimators": ["all", f"window:{window}", f"fading:{fading}", *by_time["estimators"]],
        "stages": rng.choice(stages),
        "bins": rng.choice([1, 2, 3, 5]),
        "alpha": rng.choice([0.5, 1, 2.0, 10]),
        "label_horizon": f"{horizon}ms",
        "settle": f"{rng.choice([1, 50, 500, 5000])}ms",
        "emit": emit,
        "detectors": detectors,
        **_clusters(_beside(rng), "regression" if sort.regression else "classification"),
    }
    if sort.regression:
        defaults["positive_class"] = None
    of_task = ["absolute", "squared"] if sort.regression else ["log_loss", "brier"]
    if rng.random() < 0.5:
        defaults["compare_losses"] = rng.choice([["error", *of_task], of_task[:1], [of_task[1], "error"]])
    if rng.random() < 0.2:
        defaults |= rng.choice([{"compare": "champion", "champion": "m1"}, {"compare": "off"}])
    if {"initial", "final"} <= set(defaults["stages"]) and rng.random() < 0.5:
        defaults["compare_stages"] = ["initial/final"]
    if rng.random() < 0.2:
        defaults["versions"] = "separate"
    if rng.random() < 0.1:
        defaults["measures"] = ["kappa_plus", rng.choice(["ece", "mcc"]), "r2", "error"]
    if sort.weighted:
        defaults["measures"] = [*DEFAULT_MEASURES, "ipw_accuracy", "ipw_n"]
    if not sort.regression and _beside(rng).random() < 0.3:
        defaults["label_at_horizon"] = _beside(rng).choice([classes[0][0], classes[-1][0], "nothing's"])
    if not sort.regression:
        defaults |= _paid(_beside(random.Random(repr(rng.getstate()))), defaults, classes)
        defaults |= _ranked(_beside(rng), defaults, sort)
        if (beside := _beside(rng)).random() < 0.5:
            defaults["objective"] = {"reference": beside.choice(["1ms", "100ms", "500ms", "3s", "1d"])}
    else:
        defaults |= _of_numbers(_beside(random.Random(repr(rng.getstate()))), defaults, horizon)
    return {
        "defaults": defaults,
        "streams": {
            "s1": {"emit": {"every": rng.choice(["70ms", "3s", None])}, "detectors": detectors[-3:]}
        },
    }


def _paid(
    rng: random.Random, defaults: dict[str, Any], classes: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """Costs, measures of them and a signal, in a quarter of all worlds."""
    if rng.random() < 0.75:
        return {}
    some = [rng.choice(one) for one in classes]
    costs = {
        label: {prediction: rng.choice([0, 1, 5, -2.5, 1e-3]) for prediction in rng.sample(some, 2)}
        for label in rng.sample(some, rng.randint(1, len(some)))
    }
    detector = {
        "detector": "page-hinkley", "signal": f"{rng.choice(defaults['estimators'])}:cost",
        "delta": 0.1037193, "lambda": 0.5003719, "min_outcomes": 5,
    }  # fmt: skip
    return {
        "costs": costs, "measures": [*defaults.get("measures", DEFAULT_MEASURES), "cost", "cost_total"],
        "detectors": [*defaults["detectors"], detector],
        "compare_losses": [*defaults.get("compare_losses", ["error"]), "cost"],
        "incident_loss": _beside(rng).choice(["error", "cost"]),
        **_beside(rng).choice([{}, {"cost_per_value": True}, {"cost_per_value": True}]),
    }  # fmt: skip


def _of_numbers(rng: random.Random, defaults: dict[str, Any], horizon: int) -> dict[str, Any]:
    """Measures of numbers that messages don't have by default, and a signal, in half of all worlds."""
    if rng.random() < 0.5:
        return {}
    signal = f"{rng.choice(defaults['estimators'])}:{rng.choice(FURTHER_NUMERIC)}"
    detector = {
        "detector": "page-hinkley", "signal": signal, "delta": 0.1037193, "lambda": 0.5003719,
        "min_outcomes": 5,
    }  # fmt: skip
    return {
        "measures": [*defaults.get("measures", DEFAULT_MEASURES), *FURTHER_NUMERIC],
        "detectors": [*defaults["detectors"], detector],
        **rng.choice([{}, {"quantile": 0.9}, {"quantile": 0.5}]),
        "season": _beside(rng).choice([None, *(f"{max(ms, horizon // 1000)}ms" for ms in (5, 50))]),
        "hit_tolerance": _beside(_beside(rng)).choice([None, 0.5, 2.0, 1000.0]),
        "details": rng.choice([[], ["residuals"], ["residuals"]]),
    }


def _ranked(rng: random.Random, defaults: dict[str, Any], sort: Sort) -> dict[str, Any]:
    """Measures of ranks, histograms of scores in messages, and signals of them, in half of all worlds."""
    if rng.random() < (0.3 if sort.probable else 0.8):
        return {}
    of_ranks = rng.choice([["auc"], ["pr_auc"], ["pr_auc", "auc"], ["f2", "f0_5"], ["top_k_accuracy"], []])
    more: dict[str, Any] = {"details": rng.choice([[], ["scores"], ["scores", "per_class"]])}
    if of_ranks:
        more["measures"] = rng.choice([of_ranks, [*defaults.get("measures", DEFAULT_MEASURES), *of_ranks]])
    more |= rng.choice([{}, {"top_k": 1}, {"top_k": 2}])
    estimator = rng.choice(defaults["estimators"])
    more["detectors"] = [
        *defaults["detectors"],
        {
            "detector": "page-hinkley",
            "signal": f"{estimator}:{rng.choice(['auc', 'pr_auc', 'top_k_accuracy'])}",
            "delta": 0.1037193, "lambda": 0.5003719, "min_outcomes": 5,
        },
    ]  # fmt: skip
    return more


#: Bounds that are none.
_NO_INTERVALS: tuple[dict[str, Any], ...] = (
    {"y_lower": 1}, {"y_upper": 2.5}, {"y_lower": 1, "y_upper": None}, {"y_lower": 2, "y_upper": 1},
    {"y_lower": "1", "y_upper": 2}, {"y_lower": 1, "y_upper": True}, {"y_lower": -1e101, "y_upper": 0},
    {"y_lower": [], "y_upper": {}},
)  # fmt: skip


def _random_interval(
    rng: random.Random, numbers: Sequence[Sequence[Any]], *, unusable: bool
) -> dict[str, Any]:
    """Bounds around some number, now and then the number itself, or none."""
    if unusable and rng.random() < 0.05:
        return dict(rng.choice(_NO_INTERVALS))
    middle = rng.choice(rng.choice(numbers))
    below, above = (rng.choice([0, 0, 1, rng.uniform(0, 3)]) for _ in range(2))
    return {"y_lower": middle - below, "y_upper": middle + above}


#: Weights that are none.
_NO_WEIGHTS: tuple[Any, ...] = ("1", -1, True, 1e101, [], {})

#: Quantiles that are none.
_NO_QUANTILES: tuple[Any, ...] = (
    3, [1, 2], {"0.1": 2, "0.5": 1}, {"1": 1}, {"0": 1}, {"low": 1}, {"0.5": "1"}, {"0.5": True},
    {"0.5": None}, {"0.5": 1e101}, {"0.5": 1, "0.50": 2},
)  # fmt: skip


def _random_quantiles(
    rng: random.Random, numbers: Sequence[Sequence[Any]], *, unusable: bool
) -> dict[str, Any]:
    """Some quantiles around some number, or none."""
    if unusable and rng.random() < 0.05:
        return {"quantiles": rng.choice(_NO_QUANTILES)}
    levels = rng.choice([(), (0.5,), (0.05, 0.5, 0.95), (0.1, 0.35)])
    middle, width = rng.choice(rng.choice(numbers)), rng.choice([2, 0.1, 0])
    return {"quantiles": {str(q): middle + width * (q - 0.5) for q in levels} or None}


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
    if rng.random() < 0.1:
        named.append("of no label")
    return probabilities(rng, named)


def probabilities(rng: random.Random, named: Sequence[str]) -> dict[str, float]:
    """Probabilities of these classes, with a sum of at most 1.001."""
    if len(named) > 1 and rng.random() < 0.1:  # as much as may be
        return dict(zip(named, rng.choice([(1.0, 0.001), (0.001, 1.0), (0.5, 0.501)])))
    found: dict[str, float] = {}
    for name in named:
        p = rng.choice([rng.random(), rng.choice(PROBABILITIES)])
        if math.fsum([*found.values(), p]) > 1:
            p = rng.choice([0, -0.0, 1e-320, 5e-324])
        found[name] = p
    return found


# ---- pace


def visits(rng: random.Random, size: int, horizon: int, settle: int) -> Iterator[tuple[int, int]]:
    """(time, number of the instance) of about `size` deliveries: bursts and trickles, with gaps.

    Numbers come again, whole stretches of them: soon, when they are settled, and when they are forgotten.
    """
    now = newest = 0
    gaps = (
        0, 1, settle // 2, settle - 1, settle, settle + 1, horizon // 2, horizon + 1, 2 * horizon + settle,
    )  # fmt: skip
    while size > 0:
        count = min(size, rng.choice([1, 2, 5, 5, 30, 100, 200]))
        size -= count
        now += rng.choice(gaps)
        step = rng.choice([0, 0, 1, max(1, settle // 50)])
        again = newest > 0 and rng.random() < 0.45
        if again:
            count = min(count, newest, rng.choice([1, 5, 5, 60]))
        first = rng.randrange(newest - count + 1) if again else newest
        for number in range(first, first + count):
            now += step
            yield now, number
        newest = max(newest, first + count)


#: What is delivered of an instance on one visit, in this order: instance, prediction, label.
_HABITS: tuple[tuple[int, ...], ...] = (
    (1, 2), (1, 2), (0, 1, 2), (2, 1), (1,), (2,), (0,), (0, 1, 1, 2, 2), (1, 2, 1),
)  # fmt: skip


def paced_world(rng: random.Random, size: int) -> World:
    """One of pace for the oracle: see `visits`."""
    horizon, settle = rng.choice([(5_000, 300), (1_000, 5_000), (60_000, 1_000), (300, 300)])
    classes = [["a"], ["b"], ["c"]]
    settings = _random_settings(rng, horizon, Sort(False, rng.random() < 0.2, False, False), classes)
    settings["defaults"]["settle"] = f"{settle}ms"
    detectors = settings["defaults"]["detectors"]
    settings["defaults"]["detectors"] = rng.sample(detectors[:-_OTHERS], 2) + detectors[-_OTHERS:]
    settings["defaults"]["emit"] = {"outcomes": rng.choice([None, 50]), "every": rng.choice(["1s", None])}
    models = ["m0", "m1"][: rng.choice([1, 1, 2])]
    streams = rng.choice([["s0"], ["s0"], ["s0", "s0", "s0", "s1"]])
    rows: list[tuple[int, int, dict[str, Any]]] = []
    habit, delay, before = _HABITS[0], 0, -1
    for now, number in visits(rng, size, horizon, settle):
        if now != before and rng.random() < 0.1:
            habit = rng.choice(_HABITS)
            delay = rng.choice([0, 0, 1, settle // 3, settle + 1, horizon, horizon + 1])
        before = now
        for kind in habit:
            time = now + (delay if kind == habit[-1] else 0)
            stream = streams[number % len(streams)]
            obj: dict[str, Any] = {"stream": stream, "instance_id": number, "ts": time}
            if rng.random() < 0.05:
                obj["ts"] -= rng.choice([1, settle, horizon])
            if kind == 1:
                obj |= {"model": rng.choice(models), "y_pred": rng.choice("abc")}
            elif kind == 2:
                obj["y_true"] = "abc"[number // 3 % 3] if rng.random() < 0.95 else rng.choice("abc")
            rows.append((time, kind, obj))
    return World(settings, _by_topic(rows))


def drifting_world(size: int, **defaults: Any) -> World:
    """A model that is right up to half of the instances and wrong from then on: there is an incident."""
    topics: Topics = ([], [], [])
    for n in range(size):
        about = {"stream": "s", "instance_id": n, "ts": n}
        topics[1].append((n, about | {"model": "m", "y_pred": str(int(2 * n >= size))}))
        topics[2].append((n, about | {"y_true": "0"}))
    return World({"defaults": defaults}, topics)


def _by_topic(rows: Sequence[tuple[int, int, Any]]) -> Topics:
    topics: Topics = ([], [], [])
    for time, kind, obj in sorted(rows, key=lambda row: row[0]):
        topics[kind].append((time, obj))
    return topics


# ---- extremes

#: The longest names, and those that separators, baselines and other tasks might take for something else.
NAMES = (
    "s", "m", "", "x" * 256, "ü" * 128, "größer", "a=b", "=", "/", "0/0", "\x00", "\u2028", "😀", " ", "null",
    "@none", "m+temporal", "m@random", "@persistent", "other", "true",
)  # fmt: skip

#: Times that are allowed, as far from all others as can be.
_FAR_TIMES: tuple[Any, ...] = (
    8_640_000_000_000_000, -8_640_000_000_000_000, 0, -1, "1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z",
    "0001-01-01T00:00:00Z", "2024-02-29T12:00:00.123456789+14:00",
)  # fmt: skip

_NUMBERS = (
    0, -0.0, 0.0, 1, -1, 0.1, 5e-324, -5e-324, 1e-320, 1e-100, 1e-8, 1e8, 1e15, 1e50, -1e50, 1e99, 1e100,
    -1e100, 10**100, 2**53 + 1, -(2**53) - 1, 2**63, 1.7976931348623157e308, 1e101,
)  # fmt: skip

_CLASSES: tuple[Any, ...] = (
    "a", "b", "c", True, False, 1, 0, "1", "true", 2**53 + 1, 2**63 - 1, -(2**63), *NAMES,
)  # fmt: skip

_FADING = ("fading:0.05", "fading:0.5", "fading:0.9", "fading:0.999", "fading:1", "fading:1e-30")
_ESTIMATORS = ("all", "window:1", "window:2", "window:30", "window:1000", *_FADING)
_EXTREME_DECAY = ("decay:1ms", "decay:1h", "decay:36525d")
_OF_NUMBERS = (*NUMERIC, *FURTHER_NUMERIC)
_SEGMENT_KEYS = ("arm", "x=arm", "=", "ü" * 128, "x" * 256, " ")


def zoned_world(width: int, zone: str) -> World:
    """Predictions of one model around both changes of New York's clock in 2026, all with labels."""
    rng = random.Random(f"{zone} {width}")
    defaults = {
        "period": f"{width}ms", "period_zone": zone, "label_horizon": "8h", "settle": "1h",
        "emit": {"outcomes": None, "every": "1h"}, "estimators": ["all"], "measures": ["accuracy"],
        "detectors": [],
    }  # fmt: skip
    topics: Topics = ([], [], [])
    for number, change in enumerate((1_772_953_200_000, 1_793_512_800_000)):
        times = sorted(change + rng.randrange(-180_000_000, 180_000_000) for _ in range(150))
        for place, ts in enumerate(times):
            about = {"stream": "s", "instance_id": f"{number} {place}"}
            label_ts = ts + rng.randrange(6 * 3_600_000)
            topics[1].append((ts, {**about, "model": "m", "y_pred": rng.choice("ab"), "ts": ts}))
            topics[2].append((label_ts, {**about, "y_true": "a", "ts": label_ts}))
        end = change + 80 * 3_600_000
        topics[0].append((end, {"stream": "s", "instance_id": f"end {number}", "ts": end}))
    topics[2].sort(key=lambda row: row[0])
    return World({"defaults": defaults}, topics)


def _extreme_signals(rng: random.Random, regression: bool) -> list[str]:
    """Of every sort."""
    known = [name for name in ALL_MEASURES if name not in OF_SETS]
    measures = [name for name in known if (name in _OF_NUMBERS) == regression]
    of_measures = [
        f"{rng.choice(_ESTIMATORS)}:{measure}"
        for measure in (rng.choice(measures), rng.choice(measures), "rmse" if regression else "ipw_n")
    ]
    ratio = f"{rng.choice(_ESTIMATORS)}/{rng.choice(_ESTIMATORS)}"
    return list(dict.fromkeys(["error", rng.choice(_ESTIMATORS), ratio, *of_measures]))


def _extreme_detectors(rng: random.Random, regression: bool) -> list[dict[str, Any]]:
    """Those besides Page-Hinkley's test for an increase, with parameters as far apart as they may be."""
    signals = [*_extreme_signals(rng, regression), *(["scaled_error"] if regression else [])]
    most, first = 1 - 2**-53, rng.choice([1, 30])
    either, direction = rng.random() < 0.5, rng.choice(["increase", "decrease", "both"])
    least = {"drift_confidence": rng.choice([1.5e-12, 0.05, most]), "two_sided_test": either}
    found: list[dict[str, Any]] = [
        {
            "detector": "adwin", "signal": rng.choice(signals), "delta": rng.choice([1.5e-300, 0.1, most]),
            "clock": rng.choice([1, 32, 1 << 40]), "max_buckets": rng.choice([2, 5, 100]),
            "min_window_length": rng.choice([1, 5]), "grace_period": rng.choice([0, 10]),
        },
        {"detector": "page-hinkley", "signal": rng.choice(signals), "lambda": 1.5, "direction": direction},
        {
            "detector": "cusum", "signal": rng.choice(signals), "k": rng.choice([0, 0.1, 1e6]),
            "h": rng.choice([1.5e-12, 3, 60]), "min_outcomes": rng.choice([2, 30]), "direction": direction,
        },
        {
            "detector": "kswin", "signal": rng.choice(signals), "alpha": rng.choice([1.5e-9, 0.1, most]),
            **rng.choice([{}, {"window_size": 2, "stat_size": 1}, {"window_size": 9, "stat_size": 4}]),
        },
    ]  # fmt: skip
    if not regression:
        found += [
            {"detector": "ddm", "warm_start": first, "drift_threshold": rng.choice([0, 3, 1e6])},
            {"detector": "eddm", "warm_start": first, "alpha": 1, "beta": rng.choice([0.5, 1])},
            {"detector": "hddm-a", **least},
            {"detector": "hddm-w", "lambda_val": rng.choice([1.5e-9, 0.05, 1]), **least},
            {"detector": "ecdd", "average_run_length": rng.choice([100, 400]), "min_outcomes": 1},
        ]
    return _some(rng, found, _OTHERS)


def _some(rng: random.Random, values: Sequence[Any], most: int) -> list[Any]:
    return rng.sample(values, rng.randint(0, min(most, len(values))))


def _extreme_defaults(rng: random.Random, task: str) -> dict[str, Any]:
    """Everything that can be switched on, most of it on (to YAML 1e-9 is no number, 1.5e-9 is)."""
    horizon = rng.choice([200, 5_000, 60_000, 86_400_000])
    detectors = [
        {
            "detector": "page-hinkley",
            "signal": signal,
            "delta": rng.choice([0, 1.5e-9, 0.005, 1e6]),
            "lambda": rng.choice([1.5e-12, 0.0500371, 2.0071937, 1e9]),
            "min_outcomes": rng.choice([1, 1, 5, 30]),
        }
        for signal in _extreme_signals(rng, task == "regression")
    ]
    ages = rng.sample([0, 1, 30, horizon // 2, horizon], rng.choice([0, 0, 2]))
    ages = [f"{kind}:{age}ms" for kind, age in zip(("after", "lead"), ages)]
    stages = _some(rng, CONFIGURED, 4) + ages or ["final"]
    every = rng.choice([None, "50ms", "1s", "1h"])
    period = rng.choice([None, None, max(1, horizon // 50), 3_600_000 + horizon])
    return _with_costs(_beside(rng), {
        "task": task,
        "loss": rng.choice(["absolute", "squared"]),
        "positive_class": rng.choice([None, None, "a", True, 1, "", "nothing's"]),
        "estimators": [
            *rng.sample(_ESTIMATORS, rng.choice([1, 2, 3])), *_some(_beside(rng), _EXTREME_DECAY, 2),
        ],
        "measures": list(ALL_MEASURES),
        "details": list(DETAILS) if rng.random() < 0.8 else _some(rng, DETAILS, 3),
        "dependence_order": rng.choice([1, 3, 30]),
        "stages": rng.sample(stages, len(stages)),
        "bins": rng.choice([1, 2, 3, 10]),
        "top_k": _beside(rng).choice([1, 2, 5, 300]),
        "quantile": _beside(rng).choice([None, 0.5, 1.5e-9, 1 - 2**-53]),
        "alpha": rng.choice([0.5, 1, 2.0, 10, 1.5e-6, 1e6]),
        "temporal_correction": rng.random() < 0.4,
        "baselines": _some(rng, BASELINES, 3),
        "segments": _some(rng, _SEGMENT_KEYS, 2) if rng.random() < 0.5 else [],
        "segments_per_key": rng.choice([1, 2, 20]),
        "period": None if every is None or period is None else f"{period}ms",
        "period_zone": _beside(rng).choice(["UTC", "America/New_York", "Asia/Kolkata"]),
        "period_final_at": rng.choice([1.5e-9, 0.5, 1]),
        "book_periods": _beside(rng).choice([None, 1, 3]),
        "coverage": rng.random() < 0.9,
        "label_horizon": f"{horizon}ms",
        "settle": f"{rng.choice([1, 300, 5_000, 300_000])}ms",
        "label_at_horizon": _beside(rng).choice([None, None, "a", 0] if task != "regression" else [None]),
        "compare": rng.choice(["all", "all", "champion", "off"]),
        "champion": rng.choice(NAMES),
        "compare_losses": rng.sample(of_task := _OF_TASK[task], rng.randint(1, len(of_task))),
        "compare_level": rng.choice([1.5e-9, 0.05, 0.5]),
        "versions": rng.choice(["mark", "mark", "separate"]),
        "emit": {"outcomes": rng.choice([1, 7, 100, None]), "every": every},
        "detectors": [
            *rng.sample(detectors, rng.choice([0, 2, len(detectors)])),
            *_extreme_detectors(_beside(rng), task == "regression"),
            *_by_time(_beside(rng), task == "regression")["detectors"],
        ],
        **_clusters(_beside(rng), task),
    })  # fmt: skip


#: Losses that models are compared by, as far as they need no more settings.
_OF_TASK = {task: [one for one in losses if one != "cost"] for task, losses in COMPARE_LOSSES.items()}

#: What may be at stake, and what may not.
_STAKES: tuple[Any, ...] = (0, -0.0, 1, 5e-324, 1e-100, 0.1, 2**53 + 1, 1e100, None)
_NO_STAKES: tuple[Any, ...] = (-1, -5e-324, 1.1e100, "1", "", True, [], {"a": 1}, 2**64)


def _with_costs(rng: random.Random, defaults: dict[str, Any]) -> dict[str, Any]:
    """These settings with costs, perhaps by what is at stake."""
    if rng.random() < 0.5:
        return defaults | {"costs": None, "cost_per_value": False}
    by_label = {y: {h: rng.choice([0, 1, -2.5, 1e12]) for h in ("a", True, 1)} for y in ("a", "b", 0)}
    more = {"costs": by_label, "cost_per_value": rng.random() < 0.7}
    if defaults["task"] == "classification" and rng.random() < 0.7:
        more["compare_losses"] = [*defaults["compare_losses"], "cost"]
    return defaults | more


def _extreme_limits(rng: random.Random) -> dict[str, int]:
    """Mostly ones that never matter."""
    limits = {
        "streams_per_shard": [1, 2], "models_per_stream": [1, 2], "classes_per_stream": [2, 3, 5],
        "instances_per_shard": [1, 20, 100], "predictions_per_instance": [1, 2], "pairs_per_stream": [1, 2],
        "versions_per_model": [1, 2],
    }  # fmt: skip
    return {name: rng.choice(few) for name, few in limits.items() if rng.random() < 0.25}


def extreme_settings(rng: random.Random, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """A configuration; or another one for what has lived under the one before: the task alone stays."""
    if before is None:
        task = rng.choice(["classification"] * 3 + ["regression"])
        return {"defaults": _extreme_defaults(rng, task), "limits": _extreme_limits(rng)}
    other = _extreme_defaults(rng, before["defaults"]["task"])
    changed = rng.sample(sorted(other), rng.choice([1, 2, 5, len(other)]))
    defaults = before["defaults"] | {name: other[name] for name in changed}
    if defaults["costs"] is None:  # which others need
        defaults |= {"cost_per_value": False}
        defaults["compare_losses"] = [x for x in defaults["compare_losses"] if x != "cost"] or ["error"]
    horizon = duration(defaults["label_horizon"])
    stages = [
        stage
        for stage in defaults["stages"]
        if not (age := parse(stage)).is_age or age.number <= horizon
    ]
    defaults["stages"] = stages or ["final"]
    if defaults["period"] is not None:  # needs time, and not too many in a horizon
        defaults |= {"period": "1h", "emit": defaults["emit"] | {"every": "1s"}}
    limits = _extreme_limits(rng) if rng.random() < 0.5 else before["limits"]
    return {"defaults": defaults, "limits": limits}


def extreme_world(rng: random.Random, size: int) -> World:
    """Every field of every message with every value that is well formed, at any pace (see `visits`)."""
    settings = extreme_settings(rng)
    defaults = settings["defaults"]
    made = _Extremes(rng, defaults)
    base = rng.choice([0, 1_700_000_000_000, 32_503_680_000_000, -86_400_000])
    rows: list[tuple[int, int, bytes]] = []
    habit, delay = rng.choice(_HABITS), 0
    horizon, settle = duration(defaults["label_horizon"]), duration(defaults["settle"])
    for now, number in visits(rng, size, horizon, settle):
        if rng.random() < 0.03:
            habit = rng.choice(_HABITS)
            delay = rng.choice([0, 1, 40, settle, settle + 1, horizon // 3, horizon, horizon + 1])
        for kind in habit:
            time = base + now + (delay if kind == habit[-1] else rng.choice([0, 0, 0, 1]))
            rows.append((time, kind, made.record(kind, number, time)))
    return World(settings, _by_topic(rows))


class _Extremes:
    """The records of one world: it has some names and values, which come again and again."""

    def __init__(self, rng: random.Random, defaults: dict[str, Any]) -> None:
        self.rng = rng
        self.regression = defaults["task"] == "regression"
        self.keys = [*defaults["segments"], "arm", ""]
        self.valued = defaults["cost_per_value"]
        self.streams = rng.sample(NAMES[:12], rng.choice([1, 1, 1, 3]))
        self.models = rng.sample(NAMES, rng.choice([1, 1, 2, 4]))
        self.targets = rng.sample(_NUMBERS if self.regression else _CLASSES, rng.choice([1, 2, 2, 3, 6]))
        self.many = self.regression and rng.random() < 0.5
        self.named = [*map(_written, self.targets), *rng.sample(NAMES, 2)]
        self.prefix = rng.choice(["", "", "-", "00", "1" * 30, "x" * 240, "ü"])
        #: How often a value is one that few worlds have much of.
        self.odd = rng.choice([0.0, 0.02, 0.3])
        self.probable = rng.choice([0.0, 0.5, 1.0])
        self.right = rng.choice([0.0, 0.5, 0.9, 1.0])

    def record(self, kind: int, number: int, time: int) -> bytes:
        rng = self.rng
        instance = f"{self.prefix}{number}"
        numeric = not self.prefix or self.prefix == "1" * 30
        obj: dict[str, Any] = {
            "stream": self.streams[number % len(self.streams)],
            "instance_id": int(instance) if numeric and rng.random() < 0.5 else instance,
        }
        if rng.random() < 0.9:
            obj["ts"] = rng.choice(_FAR_TIMES) if rng.random() < self.odd / 10 else self._time(time)
        if kind == 0:
            obj |= self._of_instance()
        else:
            truth = self.targets[number // 3 % len(self.targets)]
            usual = rng.random() < (self.right if kind == 1 else 0.95)
            value = truth if usual else rng.choice(self.targets)
            if self.many and rng.random() < 0.8:
                value = rng.uniform(-1, 1) * 10 ** rng.randrange(-3, 3)
            obj["y_pred" if kind == 1 else "y_true"] = value
            if kind == 2 and _beside(rng).random() < 0.05:
                obj["y_true"] = None
        if kind == 1:
            obj |= self._of_prediction()
        elif kind == 2:
            obj |= self._stake()
        return json.dumps(obj, ensure_ascii=rng.random() < 0.5).encode()

    def _time(self, time: int) -> int | str:
        ts = time + self.rng.choice([0, 0, 0, 0, 0, 0, -1, 1, -50, 50])
        if self.rng.random() < self.odd / 2:
            moment = datetime(1970, 1, 1) + timedelta(milliseconds=ts)
            return moment.isoformat(timespec="microseconds") + self.rng.choice(["Z", "+00:00", "-00:00"])
        return ts

    def _of_instance(self) -> dict[str, Any]:
        rng = self.rng
        obj: dict[str, Any] = {}
        if rng.random() < 0.3:
            obj["version"] = rng.choice([0, 1, -1, 2**63 - 1, -(2**63) + 1, None])
        if rng.random() < 0.6:
            obj["label_propensity"] = rng.choice([1, 1.0, 1e-9, 0.5, 1e-3, 1 - 2**-53, None])
        return obj | self._segments(0.7)

    def _of_prediction(self) -> dict[str, Any]:
        rng = self.rng
        obj: dict[str, Any] = {"model": rng.choice(self.models), **self._stake()}
        if rng.random() < 0.2:
            obj["model_version"] = rng.choice([None, "", 1, 2**53 + 1, -(10**200), *NAMES])
        if rng.random() < self.probable:
            named = rng.sample(list(dict.fromkeys(self.named)), rng.randint(1, len(set(self.named))))
            obj["y_proba"] = probabilities(rng, named)
            if rng.random() < self.odd / 3:
                obj["y_proba"] = dict(zip(self.named, rng.choice(NO_PROBABILITIES)))
        return obj | self._segments(0.5) | self._interval()

    def _interval(self) -> dict[str, Any]:
        """Bounds, of numbers; now and then such that are none."""
        rng = _beside(self.rng)
        if not self.regression or rng.random() < 0.3:
            return {}
        if rng.random() < self.odd / 3:
            return dict(rng.choice(_NO_INTERVALS))
        lower, upper = sorted(rng.sample(_NUMBERS, 2))
        weight = rng.choice([None, 0, 2.5, *(_NO_WEIGHTS if rng.random() < self.odd / 3 else ())])
        return {"y_lower": lower, "y_upper": upper, "weight": weight}

    def _stake(self) -> dict[str, Any]:
        """What is at stake, where costs ask for it; now and then what is none."""
        rng = _beside(self.rng)
        if not self.valued or rng.random() < 0.3:
            return {}
        values = _NO_STAKES if rng.random() < self.odd / 3 else _STAKES
        return {"value": rng.choice(values)}

    def _segments(self, often: float) -> dict[str, Any]:
        rng = self.rng
        if rng.random() > often:
            return {}
        keys = _some(rng, self.keys, 2)
        return {"segments": {key: rng.choice(["A", "B", *NAMES]) for key in keys} or None}


def _written(target: Any) -> str:
    """A class's name in objects."""
    return str(target).lower() if isinstance(target, bool) else str(target)
