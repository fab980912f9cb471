"""A stream in several partitions: what adds up is that of one partition, whatever comes first."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import partitioned
import pytest
from helpers import World, examples
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec import UNSET
from partitioned import merged, oriented, parts_of, shuffled, whole, world
from prequential.engine.merging.merged import PartNames
from prequential.engine.merging.merger import Merger
from prequential.offline.replay.from_topics import KeptParts
from prequential.topics import parts
from prequential.topics.outputs import ALL_PARTITIONS, Comparison, Metrics, decoded
from prequential.topics.partitioning import partition_of

from tests.nightly import scaled


def key(message: Any) -> tuple[Any, ...]:
    """What a message is about, and behind that how far it had come."""
    of_pair = isinstance(message, Comparison)
    beside = (message.against, message.loss) if of_pair else ("", "")
    come = message.outcomes, 0 if of_pair else message.counts["revisions"]
    return type(message), message.model, *beside, message.segment, message.stage, message.estimator, come


def _less(some: dict[str, int], others: dict[str, int]) -> bool:
    return some.keys() == others.keys() and all(some[name] <= count for name, count in others.items())


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4]))
@examples(30, 4)
def test_sums_over_partitions_are_those_of_one(seed: int, partitions: int) -> None:
    rng, given = random.Random(seed), world(seed)
    parts = parts_of(given.config, given.topics, partitions, rng)
    found = list(map(partitioned.oriented, merged(given.config, shuffled(rng, parts))))
    of_one = list(map(partitioned.oriented, whole(given.config, given.topics, rng)))
    expected = {
        key(one): one for one in of_one
        if one.estimator != "window:10" and not {"@persistent", getattr(one, "against", None)} & {one.model}
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
        assert one.ts == theirs.ts or not one.outcomes
        assert one.config == theirs.config
        assert partitioned.close(one.n, theirs.n)
        for name, value in one.measures.items():
            assert partitioned.close(value, theirs.measures[name])
        gone = set(theirs.measures) - set(one.measures)
        assert gone <= {"p_per", "kappa_maj"}
        if isinstance(one, Metrics):
            assert {one.undefined[name] for name in gone} <= {"by_partition"}
            # The last set says later ones of as many outcomes.
            assert any(_less(one.counts, said) for said in counts[key(one)])
        last[key(one)[:-1]] = one
    newest = {name[:-1]: one for name, one in expected.items()}
    assert {name: one.outcomes for name, one in last.items()} == {
        name: one.outcomes for name, one in newest.items()
    }


def values_by_sequence(messages: Iterable[Any], merger: Merger) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """By sequence that still has messages, the values of its latest metrics message."""
    return {
        (one.model, one.segment, one.stage, one.estimator): (one.outcomes, one.n, one.measures, one.undefined)
        for one in messages
        if isinstance(one, Metrics) and one.period is UNSET and merger.names["s"].has(one.model, one.segment)
    }


@given(st.integers(0, 2**32), st.booleans())
@example(seed=68, periods=False)
@examples(30, 2)
def test_what_is_said_depends_on_no_order_and_on_no_restart(seed: int, periods: bool) -> None:
    """Who merges ends at any part, and the next one goes on from the offset and the moments that it left."""
    rng, given = random.Random(seed), partitioned.with_periods(world(seed), seed) if periods else world(seed)
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
        if said:
            again = values_by_sequence(map(decoded, merger.metrics_again("s")), merger)
            published = values_by_sequence(said, merger)
            assert {name: again[name] for name in published} == published
            # The initial sequence of a segment that had no outcome since the model's sequences parted.
            for model, segment, stage, estimator in again.keys() - published.keys():
                assert stage == "initial"
                assert segment is not None
                values = again[model, segment, stage, estimator]
                assert values == published[model, segment, "final", estimator]
        offset, merger = merger.needed, Merger(config, merger.reported)
    assert said == expected
    assert bool(partitioned.of_periods(said)) == periods
    kept = KeptParts()  # as a replay of topics does
    for partition, some in enumerate(found):
        for part in some:
            kept.add(partition, parts.encode(part))
    assert list(map(decoded, kept.merged(config))) == expected


def _quiet_moments(found: Sequence[Sequence[parts.Part]]) -> list[int]:
    """The moments at which no partition changes."""
    every, beginnings = found[0][0].every, {part.since for of_partition in found for part in of_partition}
    last = min(of_partition[-1].since for of_partition in found)
    begin = max(of_partition[0].until for of_partition in found)
    return [moment for moment in range(begin, last, every) if moment not in beginnings]


def _change(of_partition: list[parts.Part], moment: int, digest: str) -> None:
    """Have a partition begin a part by other settings at a moment, without a change of what it says."""
    number = next(index for index, part in enumerate(of_partition) if part.until >= moment)
    part = of_partition[number]
    of_partition.insert(number, msgspec.structs.replace(part, until=moment - part.every))
    part.since = moment
    for later in of_partition[number + 1 :]:
        later.config = digest


@given(st.integers(0, 2**32))
@example(seed=2)
@example(seed=5)
@examples(30, 2)
def test_a_change_of_settings_repeats_no_message_and_loses_none(seed: int) -> None:
    """Partitions change at different moments, and who merges them earlier or later than they do.

    A change begins a part while nothing has come to the stream since the part before.
    """
    rng, given = random.Random(seed), world(seed)
    before = given.config
    stream = before.stream("s")
    changed = replace(stream, measures=stream.measures[:2])
    after = replace(before, streams={"s": changed})
    found = parts_of(before, given.topics, 3, rng)
    expected = merged(before, shuffled(rng, found))
    quiet = _quiet_moments(found)
    assume(quiet)
    first = rng.randrange(len(quiet))
    for of_partition in found:
        _change(of_partition, rng.choice(quiet[first : first + 3]), changed.digest)
    log = list(shuffled(rng, found))
    change = next(index for index, part in enumerate(log) if part.config == changed.digest)
    # Who merges by the former settings goes on for a while, is stopped, and comes back.
    ends = sorted(rng.sample(range(max(1, change - 3), len(log)), 3))
    said, offset, merger = list[Any](), 0, Merger(before)
    for config, end in zip((before, rng.choice([before, after]), before, after), (*ends, len(log))):
        offset, merger = merger.needed, Merger(config, merger.reported)
        while offset < end:
            said += [decoded(message) for message in merger.add(log[offset], offset)]
            offset += 1
    identifiers = [(type(message), message.id) for message in said]
    assert len(set(identifiers)) == len(identifiers)
    of_last = {key(message)[:-1]: message.outcomes for message in expected}
    assert {key(message)[:-1]: message.outcomes for message in said} == of_last


@pytest.mark.parametrize("labelled", [True, False])
def test_pairs_whose_models_come_in_another_order_in_each_partition_are_one(labelled: bool) -> None:
    """Each instance has the predictions of three models in its own order: three pairs of all 400 outcomes."""
    rng, topics = random.Random(7), ([], [], [])
    for number in range(400):
        base, time = {"stream": "s", "instance_id": f"i{number}"}, 10_000 + 100 * number
        for place, model in enumerate(rng.sample("abc", 3)):
            said = {"model": model, "y_pred": rng.choice("xy"), "ts": time + place}
            topics[1].append((time + place, base | said))
        if labelled:
            topics[2].append((time + 50, base | {"y_true": "x", "ts": time + 50}))
    settings = {"estimators": ["all"], "detectors": [], "emit": {"every": "1s"}, "stages": ["final"]}
    config = World({"defaults": settings, "streams": {"s": {"key": "instance"}}}, topics).config
    of_one = last_of_pairs(whole(config, topics, rng))
    found = last_of_pairs(merged(config, shuffled(rng, parts_of(config, topics, 4, rng))))
    assert [one.outcomes for one in found.values()] == 3 * [400 if labelled else 0]
    for name, one in found.items():
        disagreement = of_one[name].disagreement
        assert (one.disagreement["share"], one.disagreement["n"]) == (disagreement["share"], 400)
        assert disagreement["at_most"] < one.disagreement["at_most"] < 1.0, "each partition has a part of it"
        assert one.disagreement["provisional"] == disagreement["provisional"]
    assert {name: one.measures for name, one in found.items()} == {
        name: one.measures for name, one in of_one.items()
    }


@pytest.mark.parametrize("twice", [0, 1])
def test_initial_of_a_pair_counts_partitions_in_which_it_is_still_final(twice: int) -> None:
    """In one of two partitions an instance has a second prediction, so there `initial` isn't `final`."""
    rng, topics, own = random.Random(3), ([], [], []), ["", ""]
    for number in range(40):
        base, time = {"stream": "s", "instance_id": f"i{number}"}, 10_000 + 100 * number
        own[partition_of(base["instance_id"], 2)] = base["instance_id"]
        segments = {"region": rng.choice("xy")}
        for place, model in enumerate(rng.sample("ab", 2)):
            said = {"model": model, "y_pred": rng.choice("xy"), "ts": time + place, "segments": segments}
            p = rng.choice([0.25, 0.5, 0.75])
            topics[1].append((time + place, base | said | {"y_proba": {"x": p, "y": 1 - p}}))
        topics[2].append((time + 50, base | {"y_true": rng.choice("xy"), "ts": time + 50}))
    of_model = [(time, row) for time, row in topics[1] if row["model"] == "a"]
    [(time, row)] = [(time, row) for time, row in of_model if row["instance_id"] == own[twice]]
    topics[1].append((time + 10, row | {"ts": time + 10, "y_pred": "yx"[row["y_pred"] == "y"]}))
    topics[1].sort(key=lambda row: row[0])
    settings = {
        "estimators": ["all"], "detectors": [], "emit": {"every": "1s"}, "stages": ["initial", "final"],
        "segments": ["region"], "compare_losses": ["error", "brier"],
    }  # fmt: skip
    config = World({"defaults": settings, "streams": {"s": {"key": "instance"}}}, topics).config
    of_one = last_of_pairs([oriented(one) for one in whole(config, topics, rng)])
    all_parts = shuffled(rng, parts_of(config, topics, 2, rng))
    found = last_of_pairs([oriented(one) for one in merged(config, all_parts)])
    assert {name: (one.outcomes, one.measures) for name, one in found.items()} == {
        name: (one.outcomes, one.measures) for name, one in of_one.items()
    }
    whole_stream = {one.stage: one.outcomes for one in found.values() if one.segment is None}
    assert whole_stream == {"initial": 40, "final": 40}


@pytest.mark.parametrize("seed", range(scaled(3, 60)))
def test_beyond_limits_all_results_are_complete_or_say_what_is_missing(seed: int) -> None:
    """Each is that of one partition without limits; other values of a segment key share `KEY=other`."""
    rng, given, partitions = random.Random(seed), world(seed), 2 + 2 * (seed % 2)
    settings = {**given.settings["defaults"], "segments": ["region"], "estimators": ["all"]}
    most = rng.choice([1, 2, 3])
    limits = {"pairs_per_stream": rng.choice([1, 2]), "models_per_stream": rng.choice([2, 3])}
    streams = given.settings["streams"]
    few = {"defaults": settings | {"segments_per_key": most}, "streams": streams, "limits": limits}
    narrow = World(few, given.topics).config
    merger = Merger(narrow)
    parts = shuffled(rng, parts_of(narrow, given.topics, partitions, rng))
    found = [decoded(one) for part in parts for one in merger.add(part, 0)]
    names = merger.names["s"]
    complete = World({"defaults": settings, "streams": streams}, given.topics).config
    truth = {key(one)[:-1]: one for one in map(partitioned.oriented, whole(complete, given.topics, rng))}
    present = [one for one in found if names.has(one.model, one.segment)]
    last = {key(one)[:-1]: one for one in map(partitioned.oriented, present)}
    values = {name[4] for name in last} - {None, "region=other"}
    pairs = {name[1:3] for name in last if name[0] is Comparison}
    assert len(values) <= most
    assert 0 < len(pairs) <= limits["pairs_per_stream"]
    for name, one in last.items():
        others = [
            of for about, of in truth.items()
            if about[4] not in (None, *values) and about[:4] + about[5:] == name[:4] + name[5:]
        ]  # fmt: skip
        theirs = others if name[4] == "region=other" else [truth[name]]
        outcomes = sum(of.outcomes for of in theirs)
        assert one.outcomes <= outcomes
        if one.missing_partitions is UNSET:
            assert one.outcomes == outcomes, name
            measure = next(iter(one.measures), None)
            if measure in ("accuracy", "mae", "difference") and not one.model.endswith("@random"):
                total = sum(of.measures[measure] * of.outcomes for of in theirs)
                assert partitioned.close(one.measures[measure], total / outcomes)
        else:
            assert set(one.missing_partitions) <= set(range(partitions))


def test_versions_that_gave_way_in_a_partition_have_no_messages() -> None:
    """Another partition still has them: what it has is a part of their outcomes."""
    topics: Any = ([], [], [])
    for number in range(200):
        time, version = 10_000 + 100 * number, 1 + number // 40
        base = {"stream": "s", "instance_id": f"i{number}", "ts": time}
        topics[1].append((time, base | {"model": "m", "y_pred": "x", "model_version": version}))
        topics[2].append((time + 50, base | {"y_true": "x", "ts": time + 50}))
    settings = {
        "estimators": ["all"], "detectors": [], "emit": {"every": "1s"}, "stages": ["final"],
        "versions": "separate",
    }  # fmt: skip
    given = {"defaults": settings, "streams": {"s": {"key": "instance"}}}
    config, rng = World({**given, "limits": {"versions_per_model": 2}}, topics).config, random.Random(1)
    found = parts_of(config, topics, 4, rng)
    outcomes: dict[str, list[int]] = {}
    for one in merged(config, shuffled(rng, found)):
        if isinstance(one, Metrics):
            outcomes.setdefault(one.model, []).append(one.outcomes)
    assert all(some == sorted(some) for some in outcomes.values())
    last = {name: some[-1] for name, some in outcomes.items()}
    assert last == {f"m:{number}": 40 for number in range(1, 6)}
    # One partition still evaluates a version that others have dropped.
    parts = [own[-1] for own in found]
    parts[0].evaluated.append(msgspec.structs.replace(parts[0].evaluated[0], model="m:1"))
    names = PartNames(config, parts)
    assert not names.has("m:1", None)
    assert {one.model for part in names.parts() for one in part.evaluated} == {"m:4", "m:5"}


def last_of_pairs(messages: list[Any]) -> dict[tuple[Any, ...], Comparison]:
    return {key(one)[:-1]: one for one in messages if isinstance(one, Comparison)}


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
    assert set(last) == set(partitioned.MODELS)
    for model, one in last.items():
        other = expected[model].coverage
        assert one.coverage["waiting"] == other["waiting"] > 0
        assert one.coverage["label_latency_ms"] == other["label_latency_ms"]
        assert one.coverage["unpredicted_labels"] == other["unpredicted_labels"]
        for age, share in other["labelled"].items():
            assert one.coverage["labelled"][age] == pytest.approx(share, abs=0.05)
