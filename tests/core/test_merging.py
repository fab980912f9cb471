"""A stream in several partitions: what adds up is that of one partition, whatever comes first."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from helpers import ENDED, Topics, World, batch_of, examples, times_of
from hypothesis import given
from hypothesis import strategies as st
from prequential.core.merging.merger import Merger
from prequential.core.shard import Shard
from prequential.settings.model import Config
from prequential.topics import parts
from prequential.topics.outputs import ALL_PARTITIONS, Comparison, Encoded, Metrics, decoded
from prequential.topics.partitioning import partition_of
from prequential.topics.specs import PARTS

EVERY = 1_000


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
        region = {"segments": {"region": rng.choice("xy")}} if rng.random() < 0.9 else {}
        rows.append((now, 0, base | region))
        truth = value()
        for model in ("m", "n"):
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


def close(ours: Any, theirs: Any) -> bool:
    return bool(ours == theirs or math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9))


def key(message: Any) -> tuple[Any, ...]:
    """What a message is about, and behind that how far it had come."""
    of_pair = isinstance(message, Comparison)
    beside = (message.against, message.loss) if of_pair else ()
    come = message.outcomes, 0 if of_pair else message.counts["revisions"]
    return type(message), message.model, *beside, message.segment, message.stage, message.estimator, come


def _less(some: dict[str, int], others: dict[str, int]) -> bool:
    return some.keys() == others.keys() and all(some[name] <= count for name, count in others.items())


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4]))
@examples(30)
def test_sums_over_partitions_are_those_of_one(seed: int, partitions: int) -> None:
    rng, given = random.Random(seed), world(seed)
    found = merged(given.config, shuffled(rng, parts_of(given.config, given.topics, partitions, rng)))
    of_one = whole(given.config, given.topics, rng)
    expected = {
        key(one): one for one in of_one
        if one.estimator != "window:10" and one.model != "@persistent"
    }  # fmt: skip
    counts: dict[tuple[Any, ...], list[dict[str, int]]] = {}
    for one in of_one:
        if isinstance(one, Metrics):
            counts.setdefault(key(one), []).append(one.counts)
    assert found
    last: dict[tuple[Any, ...], Any] = {}
    for one in found:
        assert one.partition == ALL_PARTITIONS
        theirs = expected.get(key(one))
        if isinstance(one, Comparison):
            assert one.verdict == "by_partition"
            if theirs is None:  # said at other moments
                continue
        assert theirs is not None, one
        assert one.ts == theirs.ts
        assert one.config == theirs.config
        assert close(one.n, theirs.n)
        for name, value in one.measures.items():
            assert close(value, theirs.measures[name]), (name, one, theirs)
        gone = set(theirs.measures) - set(one.measures)
        assert gone <= {"p_per", "kappa_maj"}
        if isinstance(one, Metrics):
            assert {one.undefined[name] for name in gone} <= {"by_partition"}
            # The last set says later ones of as many outcomes.
            assert any(_less(one.counts, said) for said in counts[key(one)])
        last[key(one)[:-1]] = one
    newest = {name[:-1]: one for name, one in expected.items()}
    assert {name: one.outcomes for name, one in last.items() if name[0] is Metrics} == {
        name: one.outcomes for name, one in newest.items() if name[0] is Metrics
    }


@given(st.integers(0, 2**32))
@examples(20)
def test_what_is_said_depends_on_no_order_and_on_no_restart(seed: int) -> None:
    """Who merges ends at any part, and the next one goes on from the offset and the moments that it left."""
    rng, given = random.Random(seed), world(seed)
    config, found = given.config, parts_of(given.config, given.topics, 3, rng)
    expected = merged(config, shuffled(rng, found))
    assert merged(config, shuffled(rng, found)) == expected
    log = list(shuffled(rng, found))
    ends = sorted(rng.sample(range(1, len(log)), 5))  # of what each has taken; then a last one takes the rest
    merger, offset, said = Merger(config), 0, []
    for end in (*ends, len(log)):
        while offset < end:
            said += [decoded(one) for one in merger.add(log[offset], offset)]
            offset += 1
        offset, merger = merger.needed, Merger(config, merger.said)
    assert said == expected


def test_moments_of_which_a_partition_says_nothing_or_something_else_are_passed_over() -> None:
    given = world(11)
    config = given.config
    found = parts_of(config, given.topics, 2, random.Random(1))
    expected = merged(config, iter([*found[0], *found[1]]))
    merger = Merger(config)
    strange = list(found[0])
    strange[2] = parts.decode(parts.encode(strange[2]))
    strange[2].config = "another"
    said = [decoded(one) for part in (*strange, *found[1]) for one in merger.add(part, 0)]
    assert merger.passed_over >= 1
    assert len(said) < len(expected)
    last = {key(one)[:-1]: one for one in expected if isinstance(one, Metrics)}
    assert last.items() <= {key(one)[:-1]: one for one in said if isinstance(one, Metrics)}.items()
    # A part is missing: of what it would have said nothing is known.
    merger = Merger(config)
    for part in (*found[0][:2], *found[0][3:], *found[1]):
        merger.add(part, 0)
    assert merger.passed_over >= 1


def test_a_partition_that_says_nothing_holds_the_others_up() -> None:
    given = world(12)
    found = parts_of(given.config, given.topics, 2, random.Random(1))
    assert not merged(given.config, iter(found[0]))


def test_coverage_and_latencies_are_those_of_all_partitions() -> None:
    given, rng = world(13, 400), random.Random(2)
    found = merged(given.config, shuffled(rng, parts_of(given.config, given.topics, 4, rng)))
    theirs = [one for one in whole(given.config, given.topics, rng) if isinstance(one, Metrics)]
    last = {one.model: one for one in found if isinstance(one, Metrics) and one.coverage}
    expected = {one.model: one for one in theirs if one.coverage}
    assert set(last) == {"m", "n"}
    for model, one in last.items():
        other = expected[model].coverage
        assert one.coverage["waiting"] == other["waiting"] > 0
        assert one.coverage["label_latency_ms"] == other["label_latency_ms"]
        assert one.coverage["unpredicted_labels"] == other["unpredicted_labels"]
        for age, share in other["labelled"].items():
            assert one.coverage["labelled"][age] == pytest.approx(share, abs=0.05)
