"""What the test oracle reads: records (times, ids, classes, order of files) and configuration.

Literal readings of the contract's sections 1, 5 and 6. What cannot be used is a ValueError: the
oracle is given only what the engine should accept.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

Record = tuple[str, dict[str, Any], int]
Target = str | float  # a class's name, or in regression a number

RANK = {"instances": 0, "predictions": 1, "labels": 2}  # ties of time are taken in this order
UNIT = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}  # ms
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

TASKS = ("classification", "regression")
OF_PROBABILITIES = {"log_loss", "brier", "ece", "top_k_accuracy", "auc", "pr_auc"}
LOSSES = ("absolute", "squared")
STAGES = ("initial", "final", "bins", "intermediate")
MOST_PROBABILITY = 1.001  # of all classes together: models in half precision
LARGEST_NUMBER = 1e100  # of a target in regression; the square of a difference is still finite

DEFAULTS: dict[str, Any] = {  # contract, section 5
    "task": "classification",
    "loss": "absolute",
    "positive_class": None,
    "estimators": ["all", "window:1000", "fading:0.999"],
    "measures": [],  # all
    "stages": ["initial", "final"],
    "bins": 10,
    "alpha": 2.0,
    "label_horizon": "7d",
    "settle": "5m",
    "detectors": None,  # those of the task
    "emit": {"outcomes": 1000, "every": "1s", "comparisons": "1m"},
}


DETECTORS: dict[str, list[dict[str, Any]]] = {
    task: [
        {"detector": "page-hinkley", "signal": signal, "delta": 0.005, "lambda": 50},
        {
            "detector": "page-hinkley",
            "signal": "fading:0.997/fading:0.9994",
            "delta": 0.1,
            "lambda": 100,
        },
    ]
    for task, signal in (("classification", "error"), ("regression", "scaled_error"))
}


@dataclass
class Settings:
    """The configuration of one stream, durations in ms."""

    task: str
    loss: str
    positive_class: str | None
    measures: list[str]  # empty: all
    stages: list[str]
    bins: int
    alpha: float
    estimators: list[str]
    detectors: list[dict[str, Any]]
    horizon: int
    settle: int
    emit_outcomes: int | None
    emit_every: int | None
    emit_comparisons: int | None
    compare_level: float
    versions: str = "mark"
    at_horizon: str | None = None  # the class of what has no label by then
    costs: Mapping[str, Mapping[str, float]] | None = None
    by_value: bool = False  # whether costs are times what is at stake
    top_k: int = 5  # of how many most probable classes the label is to be one
    quantile: float | None = None  # what predicted numbers are of what may come
    hit_tolerance: float | None = None  # the largest error of a hit
    intervals: bool = False  # whether predictions' intervals are read
    weights: bool = False  # … and their weights
    quantiles: bool = False  # … and their quantiles
    season: int | None = None  # after which labels repeat, where a measure needs it
    probabilities: bool = True  # whether those of predictions are evaluated
    details: tuple[str, ...] = ()  # those that the oracle knows: scores, residuals
    reference: int | None = None  # first outcomes of each sequence beside which later ones stand
    reference_time: int | None = None  # … or their label time
    main_stage: str = "final"  # of which messages stand beside it
    cluster: int | None = None  # length of clusters of prediction time; None: `auto`; 0: `off`


def costs_of(costs: Mapping[Any, Mapping[Any, float]] | None) -> dict[str, dict[str, float]] | None:
    """Costs by names of classes.

    >>> costs_of({True: {0: 5}}), costs_of(None)
    ({'true': {'0': 5.0}}, None)
    """
    if costs is None:
        return None
    return {
        class_name(label): {class_name(prediction): float(cost) for prediction, cost in row.items()}
        for label, row in costs.items()
    }


def asks_for(merged: Mapping[str, Any], *measures: str) -> bool:
    """Whether one of these is a measure, a signal or the loss of incidents of a stream for regression.

    >>> settings = {"task": "regression", "measures": [], "detectors": [{"signal": "all:interval_width"}]}
    >>> asks_for(settings, "mae", "interval_width"), asks_for(settings, "mae")
    (True, False)
    """
    signals = [str(one.get("signal", "")).rpartition(":")[2] for one in merged["detectors"] or ()]
    asked = {*merged["measures"], *signals, merged.get("incident_loss")}
    return merged["task"] == "regression" and not asked.isdisjoint(measures)


def asks_for_probabilities(merged: Mapping[str, Any]) -> bool:
    """Whether a measure, a signal, a detail or a comparison is of probabilities; of all measures some are.

    >>> asks_for_probabilities({"task": "classification", "measures": ["kappa"], "detectors": None})
    False
    """
    signals = [str(one.get("signal", "")) for one in merged["detectors"] or ()]
    names = {*merged["measures"], *(signal.rpartition(":")[2] for signal in signals)}
    losses = merged.get("compare_losses") or () if merged.get("compare") != "off" else ()
    return merged["task"] == "classification" and bool(
        not merged["measures"] or names & OF_PROBABILITIES or "scores" in merged.get("details", ())
        or merged.get("temporal_correction") or {"log_loss", "brier"} & {*losses}
    )  # fmt: skip


def settings_of(config: Mapping[str, Any], stream: str) -> Settings:
    """The settings of one stream: its own section over `defaults` over the contract's defaults."""
    merged = copy.deepcopy(DEFAULTS)
    for section in (config.get("defaults"), (config.get("streams") or {}).get(stream)):
        for key, value in (section or {}).items():
            merged[key] = {**merged["emit"], **value} if key == "emit" else value
    for key, known in (("task", TASKS), ("loss", LOSSES), ("stages", STAGES)):
        named = [merged[key]]
        if key == "stages":
            named = [stage for stage in merged[key] if not stage.startswith(("after:", "lead:"))]
        if not set(named) <= set(known):
            raise ValueError(f"unknown {key} in {named!r}; the oracle knows {', '.join(known)}")
    reference = (merged.get("objective") or {}).get("reference")
    timed = isinstance(reference, str)
    scales_by_season = asks_for(merged, "mase", "rmsse")
    every, comparisons = merged["emit"]["every"], merged["emit"]["comparisons"]
    positive = merged["positive_class"]
    return Settings(
        task=merged["task"],
        loss=merged["loss"],
        positive_class=None if positive is None else class_name(positive),
        measures=list(merged["measures"]),
        bins=int(merged["bins"]),
        alpha=float(merged["alpha"]),
        stages=list(merged["stages"]),
        estimators=list(merged["estimators"]),
        detectors=DETECTORS[merged["task"]] if merged["detectors"] is None else list(merged["detectors"]),
        horizon=duration(merged["label_horizon"]),
        settle=duration(merged["settle"]),
        emit_outcomes=merged["emit"]["outcomes"],
        emit_every=None if every is None else duration(every),
        emit_comparisons=None if comparisons is None else duration(comparisons),
        compare_level=merged.get("compare_level", 0.05),
        versions=merged.get("versions", "mark"),
        at_horizon=None if (given := merged.get("label_at_horizon")) is None else class_name(given),
        costs=costs_of(merged.get("costs")),
        by_value=bool(merged.get("cost_per_value", False)),
        top_k=int(merged.get("top_k", 5)),
        quantile=merged.get("quantile"),
        hit_tolerance=merged.get("hit_tolerance"),
        intervals=asks_for(merged, "interval_coverage", "interval_width"),
        quantiles=asks_for(merged, "wis"),
        weights=asks_for(merged, "weighted_mae"),
        season=duration(merged["season"]) if merged.get("season") and scales_by_season else None,
        probabilities=asks_for_probabilities(merged),
        details=tuple(merged.get("details", ())),
        reference=None if timed else reference,
        reference_time=duration(reference) if timed else None,
        cluster=None if (length := merged.get("cluster", "auto")) == "auto" else _length_of(length),
        main_stage="final" if "final" in merged["stages"] else merged["stages"][0].replace("bins", "bin:1"),
    )


def merge(
    instances: Iterable[dict[str, Any]],
    predictions: Iterable[dict[str, Any]],
    labels: Iterable[dict[str, Any]],
) -> list[Record]:
    """The records of three files in order of (ts, topic, place in the file); record time = ts.

    >>> merge([], [{"ts": 5, "n": 1}, {"ts": 4, "n": 2}], [{"ts": 4, "n": 3}])
    ... # doctest: +NORMALIZE_WHITESPACE
    [('predictions', {'ts': 4, 'n': 2}, 4), ('labels', {'ts': 4, 'n': 3}, 4),
     ('predictions', {'ts': 5, 'n': 1}, 5)]
    """
    records = []
    for kind, objects in zip(RANK, (instances, predictions, labels), strict=True):
        for obj in objects:
            if obj.get("ts") is None:
                raise ValueError(f"a record of a file needs a ts to be merged by: {obj!r}")
            records.append((kind, obj, time_of(obj, 0)))
    return sorted(records, key=lambda record: (record[2], RANK[record[0]]))  # stable: file order


def _length_of(cluster: Any) -> int:
    """The length of clusters, ms; 0: `off`."""
    return 0 if cluster in ("off", False) else duration(cluster)


def duration(text: str) -> int:
    """Milliseconds of a duration.

    >>> duration("7d"), duration("250ms")
    (604800000, 250)
    """
    found = re.fullmatch(r"(\d+)(ms|s|m|h|d)", str(text))
    if found is None:
        raise ValueError(f"bad duration {text!r}; expected a whole number and ms, s, m, h or d")
    return int(found[1]) * UNIT[found[2]]


def time_of(obj: Mapping[str, Any], record_time: int) -> int:
    """A record's `ts` in ms since the epoch (finer fractions are cut off), else its record time.

    >>> time_of({"ts": "1970-01-01T01:00:01.0029+01:00"}, 7), time_of({"ts": 5}, 7), time_of({}, 7)
    (1002, 5, 7)
    """
    ts = obj.get("ts")
    if ts is None:
        return record_time
    if isinstance(ts, int) and not isinstance(ts, bool):
        return ts
    found = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", str(ts)
    )
    if found is None:
        raise ValueError(f"bad ts {ts!r}; expected whole milliseconds or an RFC 3339 string")
    day, clock, fraction, sign, hours, minutes = found.groups()
    moment = datetime.fromisoformat(f"{day}T{clock}+00:00")
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    since = moment - EPOCH + (offset if sign == "-" else -offset)
    return since // timedelta(milliseconds=1) + int((fraction or "0")[:3].ljust(3, "0"))


def identifier(value: object) -> str:
    """An id or a name: a string, or an integer, which is the same id as its decimal string."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"bad id {value!r}; expected a string or an integer")
    return str(value)


def class_name(value: object) -> str:
    """A label or class as output names it: a string, an integer's decimals, `true` or `false`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int):
        raise ValueError(f"bad class {value!r}; expected a string, a finite number or a boolean")
    return str(value)


def number(value: object) -> float:
    """A target of regression: a JSON number that isn't too large to be squared.

    >>> number(3), number(-0.5)
    (3.0, -0.5)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"bad number {value!r}; expected a number")
    if not math.isfinite(value) or abs(value) > LARGEST_NUMBER:
        raise ValueError(f"bad number {value!r}; expected at most {LARGEST_NUMBER} either way")
    return float(value)


def amount(value: object) -> float | None:
    """What is at stake, if a record says it.

    >>> amount(3), amount(None)
    (3.0, None)
    """
    if value is None:
        return None
    if number(value) < 0:
        raise ValueError(f"bad value {value!r}; expected at least 0")
    return number(value)


def interval(lower: object, upper: object) -> tuple[float, float] | None:
    """A predicted interval, if a record says both of its bounds.

    >>> interval(1, 2.5), interval(None, None)
    ((1.0, 2.5), None)
    """
    if lower is None and upper is None:
        return None
    found = number(lower), number(upper)
    if found[0] > found[1]:
        raise ValueError(f"bad interval {found!r}; expected lower <= upper")
    return found


def weight(given: object) -> float:
    """A prediction's weight.

    >>> weight(0), weight(None)
    (0.0, 1.0)
    """
    found = 1.0 if given is None else number(given)
    if found < 0:
        raise ValueError(f"bad weight {found!r}; expected at least 0")
    return found


def quantile_set(given: object) -> dict[float, float] | None:
    """The quantiles of a prediction by level, in the levels' order; None: it has none.

    >>> quantile_set({"0.5": 2, "0.1": 1}), quantile_set(None)
    ({0.1: 1.0, 0.5: 2.0}, None)
    """
    if given is None or given == {}:
        return None
    if not isinstance(given, dict):
        raise ValueError(f"bad quantiles {given!r}; expected an object")
    found = dict(sorted((float(level), number(value)) for level, value in given.items()))
    rises = list(found.values()) == sorted(found.values()) and len(found) == len(given)
    if not rises or not all(0 < level < 1 for level in found):
        raise ValueError(f"bad quantiles {given!r}; expected them to rise with levels between 0 and 1")
    return found


def probabilities(value: object) -> dict[str, float]:
    """The probabilities of classes that a prediction may carry.

    >>> probabilities({"a": 1, "b": 0.001}), probabilities(None)
    ({'a': 1, 'b': 0.001}, {})
    >>> probabilities({"a": 1, "b": 0.0011})
    Traceback (most recent call last):
    ...
    ValueError: bad probabilities {'a': 1, 'b': 0.0011}; expected 0 to 1 each, at most 1.001 together
    """
    found = value or {}
    if not isinstance(found, dict):
        raise ValueError(f"bad probabilities {value!r}; expected an object")
    if not all(0 <= p <= 1 for p in found.values()) or math.fsum(found.values()) > MOST_PROBABILITY:
        raise ValueError(
            f"bad probabilities {value!r}; expected 0 to 1 each, at most {MOST_PROBABILITY} together"
        )
    return found
