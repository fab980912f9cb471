"""Periods of a stream in several partitions: those of one, what is expected of them, and when it is said."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import partitioned
import pytest
from helpers import HOUR, World, examples
from hypothesis import event, given
from hypothesis import strategies as st
from partitioned import merged, of_periods, parts_of, shuffled, world
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.merging.merged import Merged
from prequential.engine.merging.merger import Merger
from prequential.engine.merging.sums import MergedPeriod, news
from prequential.engine.tables.streams import MODEL
from prequential.runtime.worker.merging import LatestMessages
from prequential.runtime.worker.series import EXPECTED_FAMILIES, MERGED_FAMILIES, add_merged
from prequential.topics import parts
from prequential.topics.outputs import ALL_PARTITIONS, Encoded, Metrics, decoded
from prequential.topics.partitioning import partition_of
from prequential.topics.specs import PARTS
from prequential.web.http import GAUGE, Family
from worlds import zoned_world


def newest(messages: Sequence[Metrics]) -> dict[tuple[str, str], Metrics]:
    """By model and period."""
    return {(one.model, one.estimator): one for one in messages}


COUNTED = ("start", "end", "status", "predictions", "labelled", "labelled_share", "at_horizon")


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4]))
@examples(40, 2)
def test_periods_of_all_partitions_are_those_of_one(seed: int, partitions: int) -> None:
    rng, given = random.Random(seed), partitioned.with_periods(world(seed), seed)
    config = given.config
    found = of_periods(merged(config, shuffled(rng, parts_of(config, given.topics, partitions, rng))))
    ours, theirs = newest(found), newest(of_periods(partitioned.whole(config, given.topics, rng)))
    assert ours.keys() == theirs.keys()
    for name, other in theirs.items():
        one = ours[name]
        said, wanted = ({name: about.period.get(name) for name in COUNTED} for about in (one, other))
        assert said == wanted
        assert said["status"] == "final"
        assert (one.partition, one.n, one.outcomes) == (ALL_PARTITIONS, other.n, other.outcomes)
        assert (one.ts, one.config) == (other.ts, other.config)
        for measure, value in one.measures.items():
            assert partitioned.close(value, other.measures[measure]), (measure, one, other)
        of_labels_before = {measure for measure, why in one.undefined.items() if why == "by_partition"}
        assert of_labels_before <= {"p_per", "kappa_maj"}
        for measure, why in one.undefined.items():
            assert measure in of_labels_before or other.undefined[measure] == why
    by_id: dict[str, Metrics] = {}
    for one in found:  # at the end some are said once more
        before = by_id.setdefault(one.id, one)
        assert (one.measures, one.n, one.ts) == (before.measures, before.n, before.ts)
        assert one.period["status"] == before.period["status"]


def test_periods_of_a_zone_are_those_of_one_partition() -> None:
    rng, given = random.Random(1), zoned_world(24 * HOUR, "America/New_York")
    given = World({**given.settings, "streams": {"s": {"key": "instance"}}}, given.topics)
    found = of_periods(merged(given.config, shuffled(rng, parts_of(given.config, given.topics, 2, rng))))
    ours, theirs = newest(found), newest(of_periods(partitioned.whole(given.config, given.topics, rng)))
    assert ours.keys() == theirs.keys()
    hours = {(one.period["end"] - one.period["start"]) // HOUR for one in ours.values()}
    assert hours == {23, 24, 25}
    assert [(one.period["end"], one.n) for one in ours.values()] == [
        (theirs[name].period["end"], theirs[name].n) for name in ours
    ]
    # What partitions expect of a period is found by its start, which isn't a multiple of its length in UTC.
    assert all(one.expected is not msgspec.UNSET for one in found if one.period["status"] == "provisional")
    assert any(is_whole(one) for one in found)


def said_of(one: Metrics) -> tuple[Any, ...]:
    """What a message about a period is made of, beside what goes by partition."""
    own = {key: value for key, value in one.period.items() if key != "expected_share"}
    return one.model, one.estimator, json.dumps(own)


@given(st.integers(0, 2**32))
@examples(20, 2)
def test_what_is_expected_of_one_partition_is_what_it_expects_itself(seed: int) -> None:
    rng, given = random.Random(seed), partitioned.with_periods(world(seed, 400), seed)
    given.settings["defaults"] |= {"expected": True, "label_horizon": "2s", "period": "1s"}
    config = given.config
    outputs = partitioned.run(config, given.topics, 0, 1, rng)
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
        assert partitioned.close(one.expected["correction"], other["correction"])
        assert one.expected["by_partition"] == ["record", "signals"]
        for name, value in other["measures"].items():
            ours = one.expected["measures"][name]
            assert partitioned.close(ours["value"], value["value"]), name
            assert ours["record"] is None
            assert ("interval" in ours) == ("interval" in value)
            with_values += 1
            if "interval" in value:
                assert all(map(partitioned.close, ours["interval"], value["interval"]))
                with_intervals += 1
    event(f"intervals: {with_intervals > 0}")
    assert with_values
    waits: dict[Any, list[Any]] = {}
    for one in partitioned.covering(own):
        waits.setdefault((one.model, one.outcomes), []).append(one.coverage.get("waiting_expected"))
    for one in partitioned.covering(found):
        assert one.coverage.get("waiting_expected") in waits[one.model, one.outcomes]


# ---- by hand


class Story:
    """Parts of two partitions about periods of model `m`, 1,000 ms long, with a horizon of 5,000 ms."""

    config = StreamConfig(
        period=1_000, label_horizon=5_000, settle=1_000, emit_every=1_000, measures=("accuracy",)
    )

    def part(self, number: int, clock: int, *periods: parts.PeriodPart) -> parts.Part:
        about = parts.Evaluated("m", None, MODEL, None, 1, 0, 0, True, True, {}, [], periods=list(periods))
        return parts.Part("s", number, 2, "", 1_000, 0, 0, clock, evaluated=[about])

    def news(self, now: Sequence[parts.Part], before: Sequence[parts.Part] | None) -> list[MergedPeriod]:
        return news(self.config, now, [True] * len(now), before).get("m", [])


def period(start: int, predictions: int, labelled: int, **others: Any) -> parts.PeriodPart:
    memory = parts.MemoryPart("period", "all", cells=[(0, 0, float(labelled))])
    return parts.PeriodPart(start, start + 1_000, predictions, memory, labelled, ts=start + 500, **others)


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


#: Of a stream in two partitions with periods of 1 s; an instance of each.
BY_HAND = {
    "estimators": ["all"], "stages": ["final"], "detectors": [], "compare": "off", "measures": ["accuracy"],
    "emit": {"outcomes": None, "every": "100ms"}, "period": "1s", "label_horizon": "5s", "settle": "1m",
    "expected": False,
}  # fmt: skip
OWN = [next(name for name in map(str, range(9)) if partition_of(name, 2) == number) for number in range(2)]


def said_by_hand(
    *rows: tuple[int, int, dict[str, Any]], partitions: int = 2, **settings: Any
) -> list[Metrics]:
    """What is said of periods, of these records: kind, time in the log, fields."""
    topics: Any = ([], [], [])
    for kind, time, fields in rows:
        named = {"model": "m"} if kind == 1 else {}
        topics[kind].append((time, {"stream": "s", "ts": time, **named, **fields}))
    for time in range(1_000, 20_000, 100):  # record time goes on in both partitions, the clock doesn't
        topics[0].extend((time, {"stream": "s", "instance_id": f"t{n}", "ts": 1_000}) for n in range(6))
    for rows_of_topic in topics:
        rows_of_topic.sort(key=lambda row: row[0])
    streams = {"s": {"key": "instance"}}
    config = World({"defaults": BY_HAND | settings, "streams": streams}, topics).config
    rng = random.Random(1)
    if partitions == 1:
        return of_periods(partitioned.whole(config, topics, rng))
    return of_periods(merged(config, shuffled(rng, parts_of(config, topics, partitions, rng))))


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("withdrawn", [0, 1])
def test_the_time_of_a_period_never_goes_back(partitions: int, withdrawn: int) -> None:
    """Labels of both instances come and are withdrawn, in any order of the two; then one comes again."""
    a, b = OWN[withdrawn], OWN[1 - withdrawn]
    found = said_by_hand(
        *((1, 1_000, {"instance_id": name, "y_pred": "x"}) for name in OWN),
        (2, 1_300, {"instance_id": b, "y_true": "x"}), (2, 1_600, {"instance_id": a, "y_true": "x"}),
        (2, 2_300, {"instance_id": a, "y_true": None}), (2, 2_600, {"instance_id": b, "y_true": None}),
        (2, 2_900, {"instance_id": b, "y_true": "y"}), partitions=partitions,
    )  # fmt: skip
    assert [one.n for one in found if one.period["status"] == "provisional"][:5] == [1, 2, 1, 0, 1]
    times = [one.ts for one in found]
    assert times == sorted(times)
    assert times[-1] == 1_600


def test_a_final_period_names_the_partitions_whose_clocks_lag_behind() -> None:
    """One partition is two horizons behind: its label counts once it comes."""
    ahead, behind = OWN
    later = [next(n for n in map(str, range(100, 199)) if partition_of(n, 2) == own) for own in range(2)]
    found = said_by_hand(
        (1, 1_000, {"instance_id": ahead, "y_pred": "x"}), (2, 1_300, {"instance_id": ahead, "y_true": "x"}),
        (1, 1_000, {"instance_id": behind, "y_pred": "x"}),
        (0, 12_500, {"instance_id": later[0]}),  # the clock of this partition alone
        (2, 13_000, {"instance_id": behind, "y_true": "x", "ts": 1_900}),
        (0, 14_000, {"instance_id": later[1], "ts": 7_001}), settle="1s",
    )  # fmt: skip
    assert [
        (one.n, one.period["status"], one.period["labelled_share"], one.period.get("unfinished_partitions"))
        for one in found
    ] == [
        (1, "provisional", 0.5, None), (1, "final", 0.5, [1]), (2, "final", 1.0, [1]),
        (2, "final", 1.0, None),
    ]  # fmt: skip


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

    def expected(first: parts.PeriodPart, second: parts.PeriodPart) -> dict[str, Any]:
        some = [Story().part(number, 2_000, one) for number, one in enumerate((first, second))]
        for part, names in zip(some, ("ab", "ba")):
            part.classes = list(names)
            part.evaluated[0].counts = dict.fromkeys(("late", "expired", "duplicate", "at_horizon"), 0)
            part.evaluated[0].coverage = {"met": [[0, 0]] * 13}
            part.counts = dict.fromkeys((
                "duplicate_instances", "duplicate_labels", "late_label", "unmatched_label", "after_settle",
                "revisions", "withdrawn", "instances_without_predictions", "predictions_without_instance",
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


# ---- series


class StandIn:
    """What the exporter asks of a worker's merging."""

    passed_over = 0

    def __init__(self, said: Sequence[Encoded]) -> None:
        self._latest = LatestMessages()
        for one in said:
            self._latest.note(one)

    def latest(self) -> list[LatestMessages]:
        return [self._latest]

    def moments(self) -> dict[str, int]:
        return {}


def is_whole(said: Any) -> bool:
    """Whether something is expected of a period whose time is over."""
    return said.expected is not msgspec.UNSET and said.expected["maturity"] is not None


def test_series_of_all_partitions_have_no_partition_and_only_the_newest_whole_period() -> None:
    given = partitioned.with_periods(world(5, 400), 5)
    given.settings["defaults"] |= {"expected": True, "label_horizon": "2s", "period": "1s"}
    config, rng = given.config, random.Random(5)
    merger, said = Merger(config), list[Encoded]()
    for part in shuffled(rng, parts_of(config, given.topics, 2, rng)):
        said += merger.add(part, 0)
    said = said[: len(said) // 2]  # as long as something waits
    names = (*config.http.measures, *(name for name, _, _ in (*MERGED_FAMILIES, *EXPECTED_FAMILIES)))
    families = {name: Family(name, GAUGE, "") for name in names}
    add_merged(families, cast(Any, StandIn(said)), config)
    lines = [line for one in families.values() for line in one.text().splitlines() if "#" not in line]
    assert not any("partition=" in line or 'stage="period"' in line for line in lines)
    messages = list(map(decoded, said))
    for model in "mn":
        partitioned.whole = [
            one for one in of_periods(messages) if one.model == model and is_whole(one)
        ]  # fmt: skip
        newest_start = max(one.period["start"] for one in partitioned.whole)
        [*_, last] = [one for one in partitioned.whole if one.period["start"] == newest_start]
        for name, value in last.expected["measures"].items():
            where = f'stream="s",model="{model}",measure="{name}"'
            [line] = [one for one in lines if one.startswith(f"expected{{{where}}}")]
            assert float(line.split()[1]) == pytest.approx(value["value"])
        [*_, covered] = [one.coverage for one in partitioned.covering(messages) if one.model == model]
        waits = f'waiting_expected_labels{{stream="s",model="{model}"'
        found = [float(one.split()[1]) for one in lines if one.startswith(waits)]
        assert found == [pytest.approx(covered["waiting_expected"]["labels"])]
