"""A stream in several partitions: what adds up is that of one partition, whatever comes first."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from helpers import ENDED, Topics, World, batch_of, examples, times_of
from hypothesis import event, given
from hypothesis import strategies as st
from prequential.core.merging.merger import Merger
from prequential.core.merging.messages import Merged
from prequential.core.merging.periods import Whole, news
from prequential.core.shard import Shard
from prequential.core.tables.streams import MODEL
from prequential.settings.model import Config, StreamConfig
from prequential.topics import parts
from prequential.topics.outputs import ALL_PARTITIONS, Comparison, Encoded, Metrics, decoded
from prequential.topics.partitioning import partition_of
from prequential.topics.specs import PARTS
from prequential.worker.kept_parts import KeptParts

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
    if "label_at_horizon" in defaults:
        several, apart = 40, 0
    pause = rng.choice([2_000, 40_000]) if several > 1 else 40_000
    end = max(time for rows in topics for time, _ in rows) + pause
    for number in range(several):
        time = end + 11_000 + number * apart
        topics[0].append((time, {"stream": "s", "instance_id": f"end{number}", "ts": time}))
    for number in range(40):  # record time goes on in all, the clock doesn't
        topics[0].append((end + 16_000, {"stream": "s", "instance_id": f"more{number}", "ts": 10_000}))
    return World({**given.settings, "defaults": defaults}, topics)


def of_periods(messages: Sequence[Any]) -> list[Metrics]:
    return [one for one in messages if isinstance(one, Metrics) and one.stage == "period"]


def newest(messages: Sequence[Metrics]) -> dict[tuple[str, str], Metrics]:
    """By model and period."""
    return {(one.model, one.estimator): one for one in messages}


COUNTED = ("start", "end", "status", "predictions", "labelled", "labelled_share", "at_horizon")


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4]))
@examples(40)
def test_periods_of_all_partitions_are_those_of_one(seed: int, partitions: int) -> None:
    rng, given = random.Random(seed), with_periods(world(seed), seed)
    config = given.config
    found = of_periods(
        merged(config, shuffled(rng, parts_of(config, given.topics, partitions, rng)))
    )
    ours, theirs = newest(found), newest(of_periods(whole(config, given.topics, rng)))
    assert ours.keys() == theirs.keys()
    for name, other in theirs.items():
        one = ours[name]
        said, wanted = ({name: about.period.get(name) for name in COUNTED} for about in (one, other))
        assert said == wanted
        assert said["status"] == "final"
        assert (one.partition, one.n, one.outcomes) == (ALL_PARTITIONS, other.n, other.outcomes)
        assert (one.ts, one.config) == (other.ts, other.config)
        for measure, value in one.measures.items():
            assert close(value, other.measures[measure]), (measure, one, other)
        of_labels_before = {
            measure for measure, why in one.undefined.items() if why == "by_partition"
        }
        assert of_labels_before <= {"p_per", "kappa_maj"}
        for measure, why in one.undefined.items():
            assert measure in of_labels_before or other.undefined[measure] == why
    by_id: dict[str, Metrics] = {}
    for one in found:  # at the end some are said once more
        before = by_id.setdefault(one.id, one)
        assert (one.measures, one.n, one.ts) == (before.measures, before.n, before.ts)
        assert one.period["status"] == before.period["status"]


def said_of(one: Metrics) -> tuple[Any, ...]:
    """What a message about a period is made of, beside what goes by partition."""
    own = {key: value for key, value in one.period.items() if key != "expected_share"}
    return one.model, one.estimator, json.dumps(own)


@given(st.integers(0, 2**32))
@examples(20)
def test_what_is_expected_of_one_partition_is_what_it_expects_itself(seed: int) -> None:
    rng, given = random.Random(seed), with_periods(world(seed, 400), seed)
    given.settings["defaults"] |= {"expected": True, "label_horizon": "2s", "period": "1s"}
    config = given.config
    outputs = run(config, given.topics, 0, 1, rng)
    some = [parts.decode(one.json) for one in outputs if isinstance(one, Encoded) and one.topic == PARTS]
    found = merged(config, iter(some))
    own = [decoded(one) for one in outputs if isinstance(one, Encoded) and one.topic != PARTS]
    theirs: dict[Any, list[Any]] = {}
    for one in of_periods(own):
        theirs.setdefault(said_of(one), []).append(one)
    with_values = with_intervals = 0
    for one in of_periods(found):
        like = [other.expected for other in theirs[said_of(one)]]
        if one.expected is msgspec.UNSET:
            assert one.period["status"] == "final"
            continue
        [other] = [other for other in like if other["maturity"] == one.expected["maturity"]][:1]
        assert one.expected["undefined"] == other["undefined"]
        assert one.expected["measures"].keys() == other["measures"].keys()
        assert close(one.expected["correction"], other["correction"])
        assert one.expected["by_partition"] == ["record", "signals"]
        for name, value in other["measures"].items():
            ours = one.expected["measures"][name]
            assert close(ours["value"], value["value"]), name
            assert ours["record"] is None
            assert ("interval" in ours) == ("interval" in value)
            with_values += 1
            if "interval" in value:
                assert all(map(close, ours["interval"], value["interval"]))
                with_intervals += 1
    event(f"intervals: {with_intervals > 0}")
    assert with_values
    waits: dict[Any, list[Any]] = {}
    for one in covering(own):
        waits.setdefault((one.model, one.outcomes), []).append(one.coverage.get("waiting_expected"))
    for one in covering(found):
        assert one.coverage.get("waiting_expected") in waits[one.model, one.outcomes]


def covering(messages: Sequence[Any]) -> list[Any]:
    return [one for one in messages if isinstance(one, Metrics) and one.coverage is not msgspec.UNSET]


class Story:
    """Parts of two partitions about periods of model `m`, 1,000 ms long, with a horizon of 5,000 ms."""

    config = StreamConfig(
        period=1_000, label_horizon=5_000, settle=1_000, emit_every=1_000, measures=("accuracy",)
    )

    def part(self, number: int, clock: int, *periods: parts.Period) -> parts.Part:
        about = parts.Evaluated("m", None, MODEL, None, 1, 0, 0, True, True, {}, [], periods=list(periods))
        return parts.Part("s", number, 2, "", 1_000, 0, 0, clock, evaluated=[about])

    def news(self, now: Sequence[parts.Part], before: Sequence[parts.Part] | None) -> list[Whole]:
        return news(self.config, now, [True] * len(now), before).get("m", [])


def period(start: int, predictions: int, labelled: int, **others: Any) -> parts.Period:
    memory = parts.Memory("period", "all", cells=[(0, 0, float(labelled))])
    return parts.Period(start, predictions, memory, labelled, ts=start + 500, **others)


def test_a_period_is_final_when_it_is_in_each_partition_that_has_predictions_of_it() -> None:
    story = Story()
    [one] = story.news(
        [story.part(0, 2_500, period(0, 4, 2, said=True)), story.part(1, 900, period(0, 3, 1))], []
    )
    assert (one.state.predictions, one.state.labelled, one.state.status) == (7, 3, "provisional")
    before = [story.part(0, 3_000, period(0, 4, 4, final=True)), story.part(1, 900, period(0, 3, 1))]
    after = [before[0], story.part(1, 2_000, period(0, 3, 3, final=True, said=True))]
    [one] = story.news(after, before)
    assert (one.state.labelled, one.state.status, one.finals) == (7, "final", 2)
    # Who has none doesn't hold it up; a late prediction there does, until its label is there.
    [one] = story.news([story.part(0, 2_500, period(0, 4, 4, final=True, said=True)), story.part(1, 900)], [])
    assert one.state.status == "final"
    late = [before[0], story.part(1, 2_000, period(0, 1, 0))]
    assert story.news(late, [before[0], story.part(1, 2_000)]) == []
    [one] = story.news([before[0], story.part(1, 2_000, period(0, 1, 1, final=True, said=True))], late)
    assert (one.state.predictions, one.state.status) == (5, "final")


def test_what_others_said_at_an_earlier_moment_is_no_news() -> None:
    story = Story()
    now = [story.part(0, 2_500, period(0, 4, 2, said=True)), story.part(1, 900)]
    assert news(story.config, now, [False, True], []) == {}


def test_the_largest_clock_ends_and_forgets_periods() -> None:
    story, behind = Story(), story_behind()
    before = [story.part(0, 2_000), behind]
    assert story.news([story.part(0, 7_000), behind], before) == []
    ends = [story.part(0, 7_001), behind]
    [one] = story.news(ends, before)
    assert (one.state.labelled, one.state.status, one.finals) == (1, "final", 0)
    assert story.news([story.part(0, 7_002), behind], ends) == []
    # A label that comes there afterwards is said, until the period is forgotten.
    more = story.part(1, 900, period(0, 3, 2, said=True))
    [one] = story.news([story.part(0, 11_999), more], ends)
    assert one.state.labelled == 2
    forgotten = [story.part(0, 12_000), more]
    assert len(story.news(forgotten, [story.part(0, 11_999), more])) == 1
    assert story.news(forgotten, forgotten) == []


def story_behind() -> parts.Part:
    return Story().part(1, 900, period(0, 3, 1))


def test_what_a_partition_has_just_forgotten_still_counts() -> None:
    story, own = Story(), period(0, 4, 4, final=True)
    before = [story.part(0, 11_999, own), story_behind()]
    other = period(0, 3, 1, final=True, said=True)
    [one] = story.news([story.part(0, 12_000), story.part(1, 12_000, other)], before)
    assert (one.state.predictions, one.state.labelled, one.state.status) == (7, 5, "final")


def test_of_an_unknown_moment_before_all_is_said_once_more() -> None:
    story = Story()
    now = [story.part(0, 3_000, period(0, 4, 4, final=True), period(1_000, 2, 1)), story_behind()]
    assert [one.state.start for one in story.news(now, None)] == [0, 1_000]
    assert story.news(now, now) == []


def expected_of(**settings: Any) -> Any:
    """What is expected of all by parts of two partitions, made by `first` and `second`."""
    defaults = {
        "estimators": ["all"], "detectors": [], "emit": {"every": "1s"}, "label_horizon": "5s",
        "settle": "1s", "period": "1s", "measures": ["accuracy", "kappa", "log_loss"],
    }  # fmt: skip
    given = {"defaults": defaults | settings, "streams": {"s": {"key": "instance"}}}
    config = World(given, ([], [], [])).config

    def expected(first: parts.Period, second: parts.Period) -> dict[str, Any]:
        some = [Story().part(number, 2_000, one) for number, one in enumerate((first, second))]
        for part, names in zip(some, ("ab", "ba")):
            part.classes = list(names)
            part.evaluated[0].counts = dict.fromkeys(("late", "expired", "duplicate", "at_horizon"), 0)
            part.evaluated[0].coverage = {"met": [[0, 0]] * 13}
            part.counts = dict.fromkeys((
                "duplicate_instances", "duplicate_labels", "late_label", "unmatched_label", "revisions",
                "instances_without_predictions", "predictions_without_instance",
            ), 0)  # fmt: skip
        [said] = Merged(config, some, [True, True]).periods([])
        message = decoded(said)
        assert isinstance(message, Metrics)
        return message.expected

    return expected


def test_expected_matrices_add_up_by_the_names_of_classes() -> None:
    """Label and prediction of the first partition's cells are of `ab`, those of the second one's of `ba`."""
    first, second = period(0, 10, 2, said=True), period(0, 6, 5, said=True)
    first.expected = parts.Foreseen(
        8.0, 0.5, cells=[(0, 0, 5.0), (0, 1, 1.0), (1, 1, 2.0)], halves={"accuracy": 0.1, "kappa": 0.2}
    )
    second.expected = parts.Foreseen(6.0, 0.1, cells=[(0, 0, 4.0), (1, 0, 2.0)], halves={"accuracy": 0.05})
    said = expected_of()(first, second)
    assert (said["maturity"], said["predictions"], said["labelled_share"]) == (1 / 14, 16, 7 / 16)
    assert said["correction"] == pytest.approx((8 * 0.5 + 6 * 0.1) / 14)
    accuracy, kappa = said["measures"]["accuracy"], said["measures"]["kappa"]
    # a called a 5, a called b 1 + 2, b called b 2 + 4.
    assert accuracy["value"] == pytest.approx(11 / 14)
    half = (8 * 0.1 + 6 * 0.05) / 14
    assert accuracy["interval"] == pytest.approx([11 / 14 - half, 11 / 14 + half])
    by_chance = (8 * 5 + 6 * 9) / 14**2
    assert kappa == {"value": pytest.approx((11 / 14 - by_chance) / (1 - by_chance)), "record": None}
    assert said["undefined"] == {"log_loss": "not_estimated"}


def test_a_partition_in_which_it_is_final_adds_what_is_known() -> None:
    first, second = period(0, 10, 2, said=True), period(0, 4, 4, final=True)
    first.expected = parts.Foreseen(
        8.0, 0.5, cells=[(0, 0, 4.0), (0, 1, 4.0)], sums=[8.0, 4.0, *[0.0] * 7], halves={"accuracy": 0.1}
    )
    second.memory.sums = [4.0, 1.0, *[0.0] * 51]
    said = expected_of()(first, second)["measures"]
    assert said["accuracy"]["value"] == pytest.approx(8 / 12)
    assert said["accuracy"]["interval"] == pytest.approx([8 / 12 - 0.8 / 12, 8 / 12 + 0.8 / 12])
    assert said["log_loss"]["value"] == pytest.approx(5 / 12)


def test_where_one_partition_tells_right_from_wrong_alone_so_do_all() -> None:
    first, second = period(0, 10, 2, said=True), period(0, 10, 2, said=True)
    first.expected = parts.Foreseen(8.0, 0.5, right=(2.0, 6.0))
    second.expected = parts.Foreseen(4.0, 0.5, cells=[(0, 0, 1.0), (0, 1, 3.0)])
    said = expected_of()(first, second)
    assert said["measures"] == {"accuracy": {"value": pytest.approx(7 / 12), "record": None}}
    assert said["undefined"] == {"kappa": "too_many_classes", "log_loss": "not_estimated"}


def test_what_cant_be_expected_of_all_partitions_has_a_reason() -> None:
    first, second = period(0, 10, 2, said=True), period(0, 10, 2, said=True)
    for one in (first, second):
        one.expected = parts.Foreseen(8.0, 0.5, cells=[(0, 0, 8.0)])
    first.expected = parts.Foreseen(8.0, 0.5, known=False)
    said = expected_of(label_at_horizon="c")(first, second)
    assert set(said["undefined"].values()) == {"first_horizon"}
    assert not said["measures"]
    # Of a sample a final one's labels say nothing of its other predictions.
    ended, sample = period(0, 4, 4, final=True), expected_of(measures=["accuracy", "ipw_n"])
    said = sample(second, ended)
    assert not said["measures"]
    assert said["undefined"] == {"accuracy": "by_partition", "ipw_n": "by_partition"}
    assert sample(second, second)["measures"]["accuracy"]["value"] == 1.0


def test_as_long_as_values_are_expected_a_first_prediction_and_a_new_maturity_are_news() -> None:
    story, one = Story(), period(0, 3, 0)
    one.expected = parts.Foreseen(2.0, 0.5)
    begins = [story.part(0, 500), story.part(1, 500, one)]
    assert [said.maturity for said in story.news(begins, [story.part(0, 400), story.part(1, 400)])] == [-1]
    assert story.news(begins, begins) == []
    over = [story.part(0, 1_000), story.part(1, 700, one)]  # the largest clock says it
    assert [said.maturity for said in story.news(over, begins)] == [0]
    assert story.news(over, over) == []
