"""Intervals of windows by cluster of prediction time: what they are, what keeps them, how often they hold."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import Life, batch_of, examples, metrics_of, restored, snapshot_of
from hypothesis import given
from hypothesis import strategies as st
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import Objective, StreamConfig
from prequential.engine.details.intervals import wilson
from prequential.engine.shard import Shard
from prequential.topics.outputs import Metrics
from scipy.stats import t as student
from sequences import NO_CLASS, Codes, Outcomes
from test_intervals import rows_of

from tests.nightly import few

DAY = 86_400_000

CONFIG = StreamConfig(estimators=("window:30", "all"), details=("intervals",), detectors=())


class Outcome:
    """An outcome; its label may change."""

    def __init__(self, codes: Codes, ts: int) -> None:
        self.codes, self.ts = codes, ts
        self.label: int | None = codes[0]


def plain(window: list[Outcome], positive: int, cluster: int) -> dict[str, tuple[float, float]]:
    """The intervals of the last outcomes, one after the other."""
    parts: dict[str, dict[int, list[int]]] = {}
    for one in window:
        y, (label, h, persistent, majority) = one.label, one.codes
        if y is None:
            continue
        said = {
            "error": (True, y != h), "accuracy": (True, y == h),
            # What baselines had right is kept as it was at the first label.
            "p_per": (True, persistent == label), "p_maj": (True, majority == label),
            "recall": (y == positive, h == positive), "precision": (h == positive, y == positive),
            "specificity": (y != positive, h != positive),
        }  # fmt: skip
        for name, (counts, value) in said.items():
            if counts:
                of_cluster = parts.setdefault(name, {}).setdefault(one.ts // cluster, [0, 0])
                of_cluster[0] += value
                of_cluster[1] += 1
    found = {}
    for name, by_cluster in parts.items():
        total, whole = (sum(one[i] for one in by_cluster.values()) for i in range(2))
        g = whole**2 / sum(w * w for _, w in by_cluster.values())
        if g < 5:
            continue
        p = total / whole
        variance = g / (g - 1) * math.fsum((a - p * w) ** 2 for a, w in by_cluster.values()) / whole**2
        variance = max(variance, p * (1 - p) / whole)
        independent = p * (1 - p) / variance if variance else whole
        found[name] = wilson(p, independent * (1.959964 / student.ppf(0.975, g - 1)) ** 2)
    return found


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 99)), min_size=1, max_size=80),
    st.lists(st.tuples(st.integers(1, 80), st.sampled_from([0, 1, 2, NO_CLASS])), max_size=6),
    st.sampled_from([1, 5, 9, 100]), st.integers(1, 79), st.sampled_from([4, 128]),
)  # fmt: skip
def test_a_plain_loop(
    found: list[tuple[int, int, int]], revisions: list[tuple[int, int]], cluster: int, cut: int, room: int
) -> None:
    """However outcomes are cut; with labels that change or are withdrawn, and room for more classes."""
    outcomes = [Outcome((y, h, ts % 3, h), ts) for y, h, ts in found]
    sequence = Outcomes(CONFIG, 4, names=["0", "1", "2"], positive="1")
    for start, stop in pairwise([0, *[cut] * (cut < len(outcomes)), len(outcomes)]):
        some = outcomes[start:stop]
        sequence.update([one.codes for one in some], ts=[one.ts for one in some])
        if stop == cut and room > 4:
            sequence.grow(room)
    for number, label in revisions:
        if number <= len(outcomes):
            one = outcomes[number - 1]
            if one.label != (label := None if label == NO_CLASS else label):
                codes = [NO_CLASS if code is None else code for code in (label, one.label)]
                sequence.revise(number, codes[0], one.codes, codes[1])
                one.label = label
    if all(one.label is None for one in outcomes[-30:]):
        return
    details = sequence.measured("window:30", cluster=cluster).details
    expected = plain(outcomes[-30:], 1, cluster)
    assert details.get("intervals", {}) == {
        name: pytest.approx(ends, abs=2e-4) for name, ends in expected.items()
    }
    assert sequence.measured("all", cluster=cluster).details.get("intervals")  # by neighbours


# ---- in a shard


def rows(count: int, per_day: int, seed: int = 0) -> list[tuple[int, dict[str, Any], dict[str, Any]]]:
    """Time, prediction and label of instances, `per_day` of them; days are good or bad."""
    rng = random.Random(seed)
    found = []
    for i in range(count):
        ts = i * DAY // per_day
        wrong = rng.random() < (0.1 if ts // DAY % 3 else 0.3)
        about = {"stream": "s", "instance_id": i, "ts": ts}
        found.append((ts, {**about, "model": "m", "y_pred": "ab"[wrong]}, {**about, "y_true": "a"}))
    return found


def feed(shard: Shard, start: int, stop: int, per_day: int = 20, batch: int = 70) -> list[Any]:
    """The messages of some of these instances."""
    data = rows(stop, per_day)
    for kind in (1, 2):
        shard.add(batch_of(kind, [(ts + kind, row[kind - 1]) for ts, *row in data], start, stop))
    life = Life(shard)
    while shard.advance([1 << 62] * 3, batch):
        life.flush()
    life.flush()
    return life.outputs


def config_of(cluster: int | None = DAY, **changed: Any) -> Config:
    settings: dict[str, Any] = {
        "estimators": ("all", "window:200"), "details": ("intervals",), "emit_outcomes": 20,
        "emit_every": None, "label_horizon": 5 * DAY, "cluster": cluster, "stages": ("final",), **changed,
    }  # fmt: skip
    return Config(defaults=StreamConfig(**settings))


def of_window(outputs: list[Any]) -> list[Metrics]:
    return [one for one in metrics_of(outputs) if one.estimator == "window:200" and one.model == "m"]


def test_messages_say_what_intervals_rest_on() -> None:
    outputs = feed(Shard(config_of()), 0, 400)
    found = {one.outcomes: one for one in of_window(outputs)}
    for outcomes, days in ((80, 4), (100, 5), (400, 10)):
        one = found[outcomes]
        few = {"reason": "few_clusters"} if days < 5 else {}
        assert one.cluster == {"length_ms": DAY, "count": days, "effective": float(days), **few}
        assert (one.intervals is msgspec.UNSET) == (days < 5)
    assert all(one.cluster is msgspec.UNSET for one in metrics_of(outputs) if one.estimator == "all")


def test_auto_is_by_days_once_there_are_twenty() -> None:
    found = of_window(feed(Shard(config_of(None)), 0, 500))
    assert {one.outcomes for one in found if one.cluster is msgspec.UNSET} == {*range(20, 401, 20)}
    assert found[-1].cluster == {"length_ms": DAY, "count": 10, "effective": 10.0}
    by_neighbours = found[19].intervals["accuracy"]  # type: ignore[index]
    by_days = found[20].intervals["accuracy"]  # type: ignore[index]
    assert by_days[1] - by_days[0] > by_neighbours[1] - by_neighbours[0]


@pytest.mark.parametrize(
    ("cluster", "stop", "batch"),
    few(((cluster, *cut) for cut in ((110, 70), (410, 33), (0, 7)) for cluster in (DAY, None)), 2),
)
def test_restored_and_in_any_batches_to_the_bit(cluster: int | None, stop: int, batch: int) -> None:
    config = config_of(cluster, objective=Objective({}, reference=100))
    whole, shard = feed(Shard(config), 0, 500), Shard(config)
    before = feed(shard, 0, stop, batch=batch) if stop else []
    assert [*before, *feed(restored(config, snapshot_of(shard)), stop, 500, batch=batch)] == whole
    last = of_window(whole)[-1]
    assert last.cluster is not msgspec.UNSET
    assert last.reference["measures"]["error"]["interval"] is not None  # type: ignore[index]


def test_a_window_that_began_without_times_goes_by_neighbours_until_it_has_them() -> None:
    """So does one whose stream gets another length at once."""
    shard = Shard(config_of(details=()))
    feed(shard, 0, 300)
    shard = restored(config_of(), snapshot_of(shard))
    found = of_window(feed(shard, 300, 520))
    assert {one.outcomes for one in found if one.cluster is msgspec.UNSET} == {*range(320, 500, 20)}
    assert all(one.intervals is not msgspec.UNSET for one in found)
    halves = Shard(config_of(DAY // 2))
    halves.restore(map(msgspec.msgpack.decode, snapshot_of(shard)))
    assert of_window(feed(halves, 520, 540))[-1].cluster == {
        "length_ms": DAY // 2,
        "count": 20,
        "effective": 20.0,
    }


def test_a_reference_without_an_interval_while_there_are_few_clusters() -> None:
    """The difference is there; of the present value alone, nothing is known of its days."""
    config = config_of(objective=Objective({}, reference=100), details=())
    found = {one.outcomes: one for one in of_window(feed(Shard(config), 0, 1600, per_day=100))}
    said = found[400]
    assert said.cluster["reason"] == "few_clusters"  # type: ignore[index]
    assert said.reference["measures"]["error"]["interval"] is None  # type: ignore[index]
    assert said.reference["measures"]["error"]["difference"]  # type: ignore[index]


# ---- coverage


RUNS = 400


@pytest.mark.slow
@pytest.mark.parametrize(("per_day", "today"), [(500, 0.44), (100, 0.83)])
def test_intervals_hold_where_days_differ(per_day: int, today: float) -> None:
    """Of nominal 95%, for days that are right in 75% or in 85%; by neighbours they hold far less often."""
    rng = np.random.default_rng(1)
    inside = {0: 0, DAY: 0}
    for _ in range(RUNS):
        n = rng.poisson(per_day, 2 * 5_000 // per_day)
        level = np.repeat(rng.choice([0.75, 0.85], len(n)), n)
        day = np.repeat(np.arange(len(n)), n)
        first = int(rng.integers(0, len(day) - 5_000))  # windows begin and end within days
        wrong = (rng.random(len(day)) >= level)[first : first + 5_000]
        sequence = Outcomes(replace(CONFIG, estimators=("window:5000",)), 2, positive="1")
        sequence.update(rows_of(0, wrong, NO_CLASS, NO_CLASS), ts=day[first : first + 5_000] * DAY)
        for cluster in inside:
            low, high = sequence.measured("window:5000", cluster=cluster).details["intervals"]["accuracy"]
            inside[cluster] += low <= 0.8 <= high
    shares = {cluster: count / RUNS for cluster, count in inside.items()}
    print(per_day, shares)
    assert shares[DAY] > 0.92
    assert shares[0] == pytest.approx(today, abs=0.04)
