"""Disparity between segments: against a plain loop, in any division into batches, after restarts."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import Feed, Life, Topics, World, advance, catch_up, live, shard_with, state_of
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config, ConfigError
from prequential.engine.detectors.confidence_sequence import (
    RHO,
    add_block,
    inflation,
    needed_for,
    new_blocks,
    radius,
)
from prequential.engine.disparity import FEWEST, STRATUM, needed_of
from prequential.engine.shard import Shard
from prequential.engine.snapshot.snapshot import split
from prequential.evaluation import evaluate
from prequential.runtime.worker.series import DISPARITY_FAMILIES, add_disparities
from prequential.topics.disparities import Disparity
from prequential.topics.encoding import identity
from prequential.web.http import GAUGE, Family

from tests.engine.helpers import decoded, restored, snapshot_of

#: By region: the share of errors. Values beyond `segments_per_key` share `other`; None: no region.
ERRORS = {"north": 0.1, "south": 0.6, "east": 0.1, "west": 0.1, None: 0.9}

SETTINGS: dict[str, Any] = {
    "disparity": {"segments": ["region"], "level": 0.2}, "segments": ["tariff"], "segments_per_key": 2,
    "estimators": ["all"], "stages": ["initial", "final"], "detectors": [], "compare": "off",
    "emit": {"outcomes": None, "every": None, "comparisons": "200s", "idle": None},
}  # fmt: skip


def world(seed: int, size: int = 900, again: float = 0.0, **changed: Any) -> World:
    """Two models, whose errors depend on the region; a share of instances has a second prediction of `b`."""
    rng = random.Random(seed)
    topics: Topics = ([], [], [])
    for i in range(size):
        now, region, label = 1_000 * i, rng.choice(list(ERRORS)), rng.choice("001")
        segments = {"tariff": rng.choice("xy")} | ({"region": region} if region else {})
        for model in "ab":
            for later in range(1 + (model == "b" and rng.random() < again)):
                wrong = rng.random() < (ERRORS[region] if model == "a" else 0.3)
                guess = "10"[int(label)] if wrong else label
                obj = {"stream": "s", "model": model, "instance_id": i, "y_pred": guess, "ts": now + later}
                topics[1].append((now + later, obj | {"segments": segments}))
        topics[2].append((now + 5, {"stream": "s", "instance_id": i, "y_true": label, "ts": now + 5}))
    return World({"defaults": SETTINGS | changed}, topics)


def said(life: Life) -> list[Disparity]:
    return [one for one in life.outputs if isinstance(one, Disparity)]


# ---- a plain loop


class Group:
    """The outcomes of a group in the strata so far, as (x of the group, n of the stratum, total of it)."""

    def __init__(self) -> None:
        self.strata: list[tuple[list[int], int, int]] = []
        self.fresh: list[int] = []

    @property
    def values(self) -> list[int]:
        return [x for some, _, _ in self.strata for x in some]

    def sums(self, count: int | None = None) -> tuple[float, float, float]:
        """S, V and W of the first strata."""
        excess = variance = weight = 0.0
        for some, n, total in self.strata[:count]:
            mean, own = total / n, len(some)
            excess += sum(some) - own * mean
            variance += own * (n - own) / (n - 1) * mean * (1 - mean)
            weight += own * (n - own) / n
        return excess, variance, weight

    def inflation(self) -> float:
        blocks, before = new_blocks(1), (0.0, 0.0, 0.0)
        for i, (some, _, _) in enumerate(self.strata):
            after = self.sums(i + 1)
            excess, variance, weight = (b - a for a, b in zip(before, after))
            known = before[0] / before[2] if before[2] else 0.0
            if some:
                add_block(blocks, 0, len(some), excess - known * weight, variance)
            before = after
        return inflation(blocks, 0, len(self.values))

    def interval(self, least: float, needed: float) -> tuple[float, float] | None:
        values, f = self.values, self.inflation()
        if len(values) < FEWEST or f == 0.0:
            return None
        f = max(f, least)
        excess, variance, weight = self.sums()
        p = sum(values) / len(values)
        expected = p - excess / len(values)
        if p * (1 - p) > expected * (1 - expected):
            variance *= p * (1 - p) / (expected * (1 - expected))
        wide = f * radius(variance / f, needed, RHO)
        return max((excess - wide) / weight, -1.0), min((excess + wide) / weight, 1.0)


def compared(groups: dict[str, Group], needed: float) -> dict[str, tuple[float, float]] | None:
    """The groups' intervals, once the fresh outcomes have made a stratum."""
    n, total = (sum(map(kind, (one.fresh for one in groups.values()))) for kind in (len, sum))
    if n < STRATUM / 2:
        return None
    for one in groups.values():
        one.strata.append((one.fresh, n, total))
        one.fresh = []
    known = [(len(one.values), one.inflation()) for one in groups.values()]
    known = [(count, f) for count, f in known if f > 0.0]
    least = sum(count * f for count, f in known) / sum(count for count, _ in known) if known else 0.0
    found = {name: one.interval(least, needed) for name, one in groups.items()}
    return {name: one for name, one in found.items() if one}


def by_hand(given: World, model: str) -> list[dict[str, Any]]:
    """The messages about a model, of regions, at each beginning or end of `differs`, and at the end."""
    needed = needed_of(given.config.defaults)
    values: dict[str, dict[str, Group]] = {"error": {}, "recall": {}, "selection_rate": {}}
    bounds: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in values}
    received = dict.fromkeys(values, 0)
    labels = {obj["instance_id"]: obj["y_true"] for _, obj in given.topics[2]}  # type: ignore[index, call-overload]
    known: dict[str, None] = {}
    verdicts, since, found, n = dict.fromkeys(values, "too_few"), dict.fromkeys(values, 0), [], 0

    def message(name: str) -> dict[str, Any]:
        return {
            "measure": name, "outcomes": n, "verdict": verdicts[name],
            "since": since[name] if verdicts[name] == "differs" else None,
            "groups": {
                region: {"n": len(one.values), "value": sum(one.values) / len(one.values)}
                | (
                    {"interval": bounds[name][region], "difference": one.sums()[0] / one.sums()[2]}
                    if region in bounds[name] else {}
                )
                for region, one in values[name].items() if one.values
            },
        }  # fmt: skip

    for _, obj in given.topics[1]:
        assert isinstance(obj, dict)
        region, guess, label = obj["segments"].get("region"), obj["y_pred"], labels[obj["instance_id"]]
        if region and (region in known or len(known) < 2):
            known[region] = None
        if obj["model"] != model:
            continue
        n += 1
        region = region if region in known or region is None else "other"
        changed = False
        for name, x, counts in (
            ("error", guess != label, True), ("recall", guess == "1", label == "1"),
            ("selection_rate", guess == "1", True),
        ):  # fmt: skip
            if not counts or region is None:
                continue
            values[name].setdefault(region, Group()).fresh.append(int(x))
            received[name] = (received[name] + 1) % STRATUM
            if received[name] or (intervals := compared(values[name], needed)) is None:
                continue
            bounds[name], verdict = intervals, "too_few"
            if len(intervals) > 1:
                apart = any(low > 0.0 or high < 0.0 for low, high in intervals.values())
                verdict = "differs" if apart else "no_difference_found"
            if verdict != verdicts[name]:
                changed |= "differs" in (verdict, verdicts[name])
                verdicts[name], since[name] = verdict, n
        if changed:
            found += [message(name) for name in values]
    return found + [message(name) for name in values]


@pytest.mark.parametrize("model", ["a", "b"])
def test_against_a_plain_loop(model: str) -> None:
    given = world(1, emit={**SETTINGS["emit"], "comparisons": None})
    ours = [one for one in said(catch_up(given)) if one.model == model and one.stage == "final"]
    theirs = by_hand(given, model)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs):
        assert {name: getattr(one, name) for name in other if name != "groups"} == {
            name: value for name, value in other.items() if name != "groups"
        }
        assert sorted(one.groups) == sorted(other["groups"])
        for region, group in one.groups.items():
            assert group.keys() == other["groups"][region].keys()
            for name, value in group.items():
                assert value == pytest.approx(other["groups"][region][name], abs=1e-9), (region, name)
    assert ("differs" in {one.verdict for one in ours}) == (model == "a")


def test_a_message_says_how_far_groups_are_apart() -> None:
    one = next(one for one in said(catch_up(world(1))) if one.verdict == "differs")
    assert (one.key, one.same, one.level, one.tolerance) == ("region", ["initial"], 0.2, 0.0)
    assert one.largest == "south"
    largest, smallest = (one.groups[name]["value"] for name in (one.largest, one.smallest))  # type: ignore[index]
    assert (one.difference, one.ratio) == (largest - smallest, smallest / largest)
    assert one.interval is not None
    assert one.difference is not None
    assert 0.0 < one.interval[0] < one.difference < one.interval[1]
    assert one.since == one.outcomes
    whose = "s", 0, one.model, "final", "region", one.measure, one.outcomes, one.ts, 0
    assert one.id == identity(*whose)


def test_differences_up_to_the_tolerance_are_none() -> None:
    changed = {**SETTINGS["disparity"], "tolerance": 0.7}
    assert {one.verdict for one in said(catch_up(world(1, disparity=changed)))} == {
        "no_difference_found", "too_few"
    }  # fmt: skip


def test_without_a_positive_class_errors_are_compared_alone() -> None:
    given = world(1, size=300)
    for kind, name in ((1, "y_pred"), (2, "y_true")):
        for _, obj in given.topics[kind]:
            assert isinstance(obj, dict)
            obj[name] = {"0": "no", "1": "yes"}[obj[name]]
    reasons = {(one.measure, one.reason) for one in said(catch_up(given)) if one.verdict == "too_few"}
    assert {("recall", "no_outcomes"), ("selection_rate", "no_outcomes")} <= reasons
    named = World({"defaults": SETTINGS | {"positive_class": "yes"}}, given.topics)
    assert "no_outcomes" not in {one.reason for one in said(catch_up(named))[-6:]}


# ---- batches, snapshots, models that go


@pytest.mark.parametrize("cluster", ["auto", "60s"])
@pytest.mark.parametrize("seed", range(2))
def test_any_division_into_batches_gives_the_same_bits(seed: int, cluster: str) -> None:
    given = world(seed, 400, again=0.1, cluster=cluster)
    at_once = catch_up(given)
    in_parts = live(given, random.Random(seed), takeovers=True)
    assert said(in_parts) == said(at_once) != []
    assert {one.stage for one in said(at_once) if one.model == "b"} == {"initial", "final"}
    assert state_of(in_parts.shard) == state_of(at_once.shard)


def test_a_part_of_a_snapshot_has_it() -> None:
    shard = catch_up(world(1, 300)).shard
    parts = split(decoded(snapshot_of(shard)), {"s"}.__contains__, moved=True)
    other = restored(shard.config, list(map(msgspec.msgpack.encode, parts)))
    streams = range(len(shard.catalog.streams))
    assert list(other.disparities.statuses(streams)) == list(
        shard.disparities.statuses(streams)
    )


@pytest.mark.parametrize(
    ("changed", "more", "begun"),
    [
        ({"level": 0.01}, {}, False), ({"tolerance": 0.5}, {}, False), ({"measures": ["error"]}, {}, True),
        ({"segments": ["tariff"]}, {}, True), ({}, {"positive_class": "0"}, True),
        ({}, {"segments_per_key": 1}, False), ({}, {"segments_per_key": 5, "segments": []}, False),
        ({}, {"stages": ["final", "bins"], "bins": 2}, False),
    ],
)  # fmt: skip
def test_another_configuration_starts_what_it_changes(
    changed: dict[str, Any], more: dict[str, Any], begun: bool
) -> None:
    """It goes on in any case, also with more classes than there was room for."""
    given, half = world(1, 600), world(1, 300)
    config = world(1, 600, disparity=SETTINGS["disparity"] | changed, **more).config
    shard = Shard(config)
    found = shard.restore(decoded(snapshot_of(catch_up(half).shard)))
    assert any("disparity" in str(one) for one in found.begun) == begun
    groups = next(shard.disparities.statuses([0]), None)
    assert (groups is None) == begun
    feed = Feed(shard, given.topics)
    feed.given = list(shard.merge.vector)
    for _, obj in given.topics[2][400:]:
        assert isinstance(obj, dict)
        obj["y_true"] = obj["instance_id"] % 7
    for kind in range(3):
        feed.give(kind, 2_000)
    advance(shard, 1 << 30)
    for one in shard.disparities.statuses([0]):
        assert one.outcomes == 600
        assert all(group["n"] > 0 for group in one.groups.values())


def test_a_removed_model_has_no_messages() -> None:
    shard = catch_up(world(1, 300)).shard
    stream = shard.catalog.streams[0]
    shard._forget(shard.catalog.remove_model(stream, "a"))
    assert {one.model for one in shard.disparities.statuses([0])} == {"b"}


# ---- series, configuration


def test_series_say_what_messages_say() -> None:
    shard = catch_up(world(1)).shard
    families = {name: Family(name, kind, text, "") for name, kind, text in DISPARITY_FAMILIES}
    assert {kind for _, kind, _ in DISPARITY_FAMILIES} == {GAUGE}
    http = shard.config.http
    add_disparities(families, shard.catalog, shard.disparities, [0], http)
    text = "".join(family.text() for family in families.values())
    where = 'stream="s",partition="0",model="a",stage="final",key="region",measure="error"'
    assert f"disparity_verdict{{{where}}} 1" in text
    assert text.count("disparity_verdict{") == 6
    hidden = {name: Family(name, kind, "", "") for name, kind, _ in DISPARITY_FAMILIES}
    add_disparities(
        hidden, shard.catalog, shard.disparities, [0], replace(http, stages=("bins",))
    )
    assert "{" not in "".join(family.text() for family in hidden.values())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("defaults: {disparity: {level: 0.05}}", "names no key of segments: expected e.g. segments: ["),
        ("defaults: {disparity: {segments: []}}", "expected a list with at least one entry"),
        ("defaults: {disparity: {segments: [a], measures: [f1]}}", "expected error, recall or selection"),
        ("defaults: {disparity: {segments: [a], tolerance: 1}}", "expected a difference between two shares"),
        ("defaults: {task: regression, disparity: {segments: [a]}}", "expected task classification"),
        ("streams: {s: {key: instance, disparity: {segments: [a]}}}", "key instance spreads"),
        (
            "defaults: {disparity: {segments: [a]}, stages: ['after:1s', 'lead:1m']}",
            "compared at ages, as in stages ['after:1s', 'lead:1m']: expected another stage, such as final",
        ),
    ],
)  # fmt: skip
def test_settings_that_it_cant_have(text: str, sentence: str, tmp_path: Any) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="line 1: ") as found:
        load_config(str(path))
    assert sentence in str(found.value)


def test_its_keys_are_segments_and_other_streams_go_without(tmp_path: Any) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "defaults: {disparity: {segments: [a]}}\n"
        "streams: {n: {task: regression}, w: {key: instance}, o: {disparity: null},\n"
        " a: {stages: ['after:1s']}}", encoding="utf-8",
    )  # fmt: skip
    config = load_config(str(path))
    assert config.defaults.segments == ("a",)
    assert config.finds_disparity
    assert [config.stream(name).disparity for name in "nwoa"] == [None] * 4


def test_a_model_that_is_evaluated_at_ages_alone_has_no_groups() -> None:
    """Such a configuration can be made without a file."""
    given = world(1)
    config = replace(given.config.defaults, stages=("after:1s",))
    shard = shard_with(Config(defaults=config), given.topics)
    assert shard.catalog.streams[0].models
    assert list(shard.disparities.statuses([0])) == []


def test_the_level_is_shared_by_all_intervals() -> None:
    config = world(1).config.defaults
    assert needed_of(config) == pytest.approx(needed_for(0.2 / (3 * 3) / 2))


def test_the_text_of_a_result_says_whether_segments_differ() -> None:
    rng = np.random.default_rng(3)
    region = rng.choice(["north", "south", "east"], 3_000, p=[0.5, 0.3, 0.2])
    label = rng.random(3_000) < 0.4
    wrong = rng.random(3_000) < np.where(region == "east", 0.5, 0.1)
    table = {
        "y_true": label.tolist(), "y_pred": (label ^ wrong).tolist(),
        "segments.region": region.tolist(), "ts": list(range(0, 3_000_000, 1_000)),
    }  # fmt: skip
    result = evaluate(table, disparity={"segments": ["region"], "measures": ["error"]}, progress=False)
    [one] = result.summary.disparities
    assert (one.verdict, one.largest, one.outcomes) == ("differs", "east", 3_000)
    value = one.groups["east"]["value"]
    assert value == pytest.approx(wrong[region == "east"].mean(), abs=0.01)  # the newest aren't counted yet
    assert f"error differs between segments of region: east {value:.3f}, " in str(result)
