"""A stream in several partitions: what adds up is that of one partition, whatever comes first."""

from __future__ import annotations

import random
from typing import Any

import pytest
from helpers import examples
from hypothesis import given
from hypothesis import strategies as st
from partitioned import close, merged, of_periods, parts_of, shuffled, whole, with_periods, world
from prequential.core.merging.merger import Merger
from prequential.topics import parts
from prequential.topics.outputs import ALL_PARTITIONS, Comparison, Metrics, decoded
from prequential.worker.kept_parts import KeptParts


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


@given(st.integers(0, 2**32), st.booleans())
@examples(30)
def test_what_is_said_depends_on_no_order_and_on_no_restart(seed: int, periods: bool) -> None:
    """Who merges ends at any part, and the next one goes on from the offset and the moments that it left."""
    rng, given = random.Random(seed), with_periods(world(seed), seed) if periods else world(seed)
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
    assert bool(of_periods(said)) == periods
    kept = KeptParts()  # as a replay of topics does
    for partition, some in enumerate(found):
        for part in some:
            kept.add(partition, parts.encode(part))
    assert list(map(decoded, kept.merged(config))) == expected


def test_what_isnt_needed_any_more_is_let_go_also_without_messages_about_pairs() -> None:
    given = world(4)
    given.settings["defaults"]["emit"]["comparisons"] = None
    merger, parts = Merger(given.config), parts_of(given.config, given.topics, 2, random.Random(1))
    log = [one for some in zip(*parts) for one in some]
    for offset, part in enumerate(log):
        assert not any(isinstance(decoded(one), Comparison) for one in merger.add(part, offset))
        assert merger.needed >= offset - 12  # of the moment before, or of one that isn't complete


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
