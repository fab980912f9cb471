"""Which model is better, in words."""

from __future__ import annotations

from typing import Any

import boards
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prequential.topics.encoding import encode
from prequential.topics.outputs import Comparison
from prequential.views.state.readings import decode_comparison
from prequential.views.wording import comparing, comparison_report


def pair(**changed: Any) -> comparing.Pair:
    about: dict[str, Any] = {
        "stream": "elec2", "partition": 0, "model": "nb", "against": "tree", "segment": None,
        "stage": "final", "loss": "error", "outcomes": 4_000, "ts": 0, "difference": 0.031,
        "interval": (0.012, 0.05), "level": 0.05, "verdict": "b_better", "since": 712,
    }  # fmt: skip
    return comparing.Pair(**{**about, **changed})


def comparison(outcomes: int = 4_000, **changed: Any) -> Comparison:
    said = boards.comparison(outcomes, **{"n": 4_000, "ts": 0, **changed})
    return msgspec.json.decode(said.value or b"", type=Comparison)


UNDECIDED = {"verdict": "undecided", "since": None}

#: Of predictions, with or without labels; a pair that has none.
HALF_A_POINT = {"share": 0.005, "at_most": 0.006, "n": 100_000}
NO_OUTCOME = {
    **UNDECIDED, "outcomes": 0, "difference": None, "interval": (-1.0, 1.0), "level": None,
}  # fmt: skip

#: Of all partitions together.
MERGED = {"partition": -1, "verdict": "by_partition", "interval": None, "since": None}


def test_merged_comparisons_can_be_read() -> None:
    said = comparison(**MERGED, missing_partitions=[2])
    read = comparing.pair_of(decode_comparison(encode(said)))
    assert (read.missing_partitions, read.is_decided, comparing.contradicted(read)) == ([2], False, False)


@pytest.mark.parametrize(("changed", "said"), [
    ({}, "tree beats nb over the whole run: error lower by 0.031 (0.012 to 0.050), since outcome 712 of 4,000 at 95% confidence"),  # noqa: E501
    ({"difference": -0.031, "interval": (-0.05, -0.012), "verdict": "a_better"},
     "nb beats tree over the whole run: "
     "error lower by 0.031 (0.012 to 0.050), since outcome 712 of 4,000 at 95% confidence"),
    ({"difference": -0.0004, "interval": (-0.02, 0.01), **UNDECIDED},
     "nb vs tree over the whole run: "
     "error lower by 0.0004 (-0.010 to 0.020), undecided after 4,000 outcomes"),
    ({"difference": 0.0, "interval": (-0.02, 0.01), **UNDECIDED},
     "nb and tree over the whole run: "
     "no difference in error (-0.020 to 0.010), undecided after 4,000 outcomes"),
    ({"difference": 1234.5, "interval": None, "loss": "squared", **UNDECIDED},
     "tree vs nb over the whole run: squared error lower by 1,234.500, undecided after 4,000 outcomes"),
    ({**UNDECIDED, "provisional": {"verdict": "b_better", "days": 2, "needed": 8}},
     "tree vs nb over the whole run: error lower by 0.031 after 4,000 outcomes; "
     "tree is ahead in these 2 days; not yet known for other days (a verdict needs 8)"),
    ({**UNDECIDED, "provisional": {"verdict": "undecided", "clusters": 9, "needed": 10}},
     "tree vs nb over the whole run: error lower by 0.031 after 4,000 outcomes; "
     "undecided in these 9 clusters (a verdict needs 10)"),
    ({"interval": (-0.01, 0.05), **UNDECIDED, "needed": {"outcomes": 21_000, "days": 40}},
     "tree vs nb over the whole run: error lower by 0.031 (-0.010 to 0.050), "
     "undecided after 4,000 outcomes, about 40 more days at this pace"),
    ({"interval": (-0.01, 0.05), **UNDECIDED, "disagreement": HALF_A_POINT},
     "tree vs nb over the whole run: error lower by 0.031 (-0.010 to 0.050), undecided after 4,000 outcomes; "
     "they disagree on 0.5% of 100,000 predictions: accuracies differ by at most 0.6 points"),
    ({**NO_OUTCOME, "disagreement": HALF_A_POINT},
     "nb and tree have no labels yet; "
     "they disagree on 0.5% of 100,000 predictions: accuracies differ by at most 0.6 points"),
    ({"difference": 0.001, "interval": (-0.004, 0.006), "verdict": "equivalent"},
     "nb and tree are equivalent over the whole run: "
     "error differs by 0.001 (-0.004 to 0.006), since outcome 712 of 4,000 at 95% confidence"),
    (MERGED,
     "tree vs nb over the whole run: error lower by 0.031, after 4,000 outcomes; "
     "each partition has its own verdict"),
    (MERGED | {"difference": -0.031, "missing_partitions": [2, 3]},
     "nb vs tree over the whole run: error lower by 0.031, after 4,000 outcomes, without those of "
     "partitions 2, 3, which reached a limit; each partition has its own verdict"),
    ({"against": "nb", "stage": "initial/final"},
     "final of nb beats initial of nb over the whole run: "
     "error lower by 0.031 (0.012 to 0.050), since outcome 712 "
     "of 4,000 at 95% confidence"),
    ({"difference": None},
     "tree beats nb over the whole run: "
     "error lower (0.012 to 0.050), since outcome 712 of 4,000 at 95% confidence"),
    ({"difference": None, "interval": (-0.02, 0.01), **UNDECIDED},
     "nb and tree over the whole run: "
     "difference in error (-0.020 to 0.010), undecided after 4,000 outcomes"),
])  # fmt: skip
def test_who_leads_by_how_much_is_it_sure_since_when(changed: dict[str, Any], said: str) -> None:
    assert comparing.standing(pair(**changed)) == said


@pytest.mark.parametrize(("margin", "changed", "said"), [
    (0.006, {}, "nb and tree are equivalent by their predictions alone: they disagree on 0.5% of"),
    (0.005, {}, "No labels yet: they disagree on 0.5% of"),
    (None, {}, "No labels yet: they disagree on 0.5% of"),
    (0.01, {"loss": "brier"}, "No labels yet: they disagree on 0.5% of"),
    (0.01, {"disagreement": HALF_A_POINT | {"provisional": {"days": 2, "needed": 8}}}, "No labels yet: "),
    (0.01, {"disagreement": HALF_A_POINT | {"at_most": None}}, "No labels yet: they disagree on 0.5% of"),
])  # fmt: skip
def test_predictions_alone_decide_within_the_margin(
    margin: float | None, changed: dict[str, Any], said: str
) -> None:
    one = pair(**{**NO_OUTCOME, "disagreement": HALF_A_POINT, **changed})
    assert comparing.promotion_reason(one, "nb", None, [], margin).startswith(said)


@pytest.mark.parametrize(("difference", "begins", "ends", "against"), [
    (-0.04, "in the latest 1,000 outcomes nb vs tree: error lower by 0.040; but tree beats nb over the "
            "whole run: error lower by 0.031", "since outcome 712 of 4,000 at 95% confidence", True),
    (0.02, "tree beats nb over the whole run: error", "; also in the latest 1,000 outcomes: by 0.020",
     False),
    (0.0, "tree beats nb over the whole run: error", "outcomes there is no difference", False),
])  # fmt: skip
def test_what_the_latest_window_says_stands_beside_and_first_where_it_contradicts(
    difference: float, begins: str, ends: str, against: bool
) -> None:
    one = pair(latest=comparing.LatestDifference("window:1000", 1_000, difference))
    assert comparing.standing(one).startswith(begins)
    assert comparing.standing(one).endswith(ends)
    assert comparing.contradicted(one) == against


@pytest.mark.parametrize(("changed", "difference", "said", "against"), [
    ({}, -0.04, ", in the latest 1,000 outcomes error is lower by 0.040; but tree beats nb over", True),
    ({}, 0.01, ", in the latest 1,000 outcomes tree vs nb: error lower by 0.010; but tree", True),
    ({}, 0.0, ", in the latest 1,000 outcomes there is no difference; but", True),
    ({}, None, "; but tree beats nb over the whole run: ", True),
    (UNDECIDED, -0.04, ", in the latest 1,000 outcomes error is lower by 0.040; tree vs nb", False),
])  # fmt: skip
def test_who_is_better_now_comes_first_where_it_isnt_who_is_over_the_whole_run(
    changed: dict[str, Any], difference: float | None, said: str, against: bool
) -> None:
    latest = None if difference is None else comparing.LatestDifference("window:1000", 1_000, difference)
    one = pair(**changed, latest=latest, recent=comparing.Recent("a_better", 2_900))
    first = "recently nb is better than tree, since about outcome 2,900"
    assert comparing.standing(one).startswith(first + said)
    assert comparing.contradicted(one) == against


def test_who_is_better_now_as_over_the_whole_run_isnt_said_twice() -> None:
    assert comparing.standing(pair(recent=comparing.Recent("b_better", 2_900))) == comparing.standing(pair())


def test_a_message_says_who_is_better_now() -> None:
    pairs = comparing.NewestPairs()
    pairs.update(comparison(recent={"verdict": "a_better", "since": 2_900}))
    assert pairs.newest()[0].recent == comparing.Recent("a_better", 2_900)
    pairs.update(comparison(outcomes=4_100, recent={"verdict": "undecided", "since": None}))
    assert pairs.newest()[0].recent is None
    pairs.update(comparison(outcomes=4_200))  # of an earlier version
    assert pairs.newest()[0].recent is None


def test_an_undecided_pair_is_contradicted_by_nothing() -> None:
    one = pair(**UNDECIDED, latest=comparing.LatestDifference("fading:0.99", 100.0, -0.04))
    assert comparing.standing(one).endswith("; recently (fading:0.99) nb vs tree: error lower by 0.040")
    assert not comparing.contradicted(one)


class TestReport:
    def test_nothing_without_pairs(self) -> None:
        assert list(comparison_report.report([])) == []

    def test_of_each_stream_one_stage(self) -> None:
        stages = [pair(stage=stage) for stage in ("initial", "final", "after:1h")]
        itself = pair(against="nb", stage="initial/final")
        pairs = [itself, *stages, pair(stream="other", stage="initial")]
        head, one, two, three = comparison_report.report(pairs)
        assert "at any number of looks, if dependence is short" in head
        assert one.startswith("  elec2 final: tree beats nb")
        assert two.startswith("  other initial: tree beats nb")
        assert three.startswith("  elec2 initial/final: final of nb beats initial of nb")

    def test_one_stream_isnt_named_and_many_pairs_are_cut(self) -> None:
        baseline = pair(against="@majority")
        undecided = [pair(model=f"m{i}", **UNDECIDED) for i in range(12)]
        lines = list(comparison_report.report([baseline, *undecided], ": see there"))
        assert len(lines) == 13
        assert lines[1].startswith("  final: any of m0, m1, m10, m11, m2 and 8 more may be the best by error")
        assert lines[2].startswith("  final: tree vs m0 over the whole run")
        assert lines[-1] == "  … and 3 more pairs: see there"

    def test_pairs_of_worse_models_are_counted_unless_the_latest_outcomes_contradict_them(self) -> None:
        loses = [pair(model=f"m{i}") for i in range(3)]
        now = pair(model="m3", recent=comparing.Recent("a_better", 2_900))
        _, best, contradicted, rest = comparison_report.report([*loses, now], ": see there")
        assert best.startswith("  final: tree is the best by error (80% confidence); m0 left at outcome 712")
        assert best.endswith("m3 left at outcome 712 (tree is better over the whole run, but not recently)")
        assert contradicted.startswith("  final: recently m3 is better than tree")
        assert rest == "  … and 3 more pairs: see there"


class TestPairs:
    def test_one_is_said_of_all_estimators(self) -> None:
        pairs = comparing.NewestPairs()
        window = comparison(estimator="window:1000", measures={"difference": 0.5})
        assert pairs.update(window)
        assert [one.difference for one in pairs.newest()] == [None]
        assert pairs.update(comparison())
        assert not pairs.update(window)
        assert pairs.newest() == [pair()]

    def test_the_shortest_window_says_who_is_better_now(self) -> None:
        pairs = comparing.NewestPairs()
        for estimator, n, difference in (
            ("all", 4_000, 0.031), ("window:5000", 4_000, 0.5), ("fading:0.9", 9.9, 0.2),
            ("window:1000", 1_000, -0.04), ("window:2000", 2_000, 0.1),
        ):  # fmt: skip
            pairs.update(comparison(estimator=estimator, n=n, measures={"difference": difference}))
        assert pairs.newest() == [pair(latest=comparing.LatestDifference("window:1000", 1_000, -0.04))]
        assert pairs.update(comparison(outcomes=5_000, measures={"difference": 0.02}))
        assert not pairs.update(comparison(outcomes=5_000, measures={"difference": 0.02}))
        newer = {"estimator": "window:1000", "n": 1_000, "outcomes": 5_000}
        assert pairs.update(comparison(**newer, measures={"difference": -0.05}))
        [one] = pairs.newest()
        assert (one.difference, one.latest) == (0.02, comparing.LatestDifference("window:1000", 1_000, -0.05))

    def test_the_newest_counts(self) -> None:
        pairs = comparing.NewestPairs()
        assert pairs.update(comparison(outcomes=3_000))
        assert pairs.update(comparison())
        assert not pairs.update(comparison())
        assert pairs.update(comparison(segment="arm=A"))
        assert pairs.newest() == [pair(), pair(segment="arm=A")]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
_FIELDS = st.fixed_dictionaries(
    {
        "share": st.floats(0, 1), "at_most": st.none() | st.floats(0.001, 0.999) | _JSON,
        "n": st.integers(1) | _JSON,
    },
    optional={
        "": _JSON,
        "provisional": _JSON | st.dictionaries(st.sampled_from(["days", "clusters", "needed"]), _JSON),
    },
)  # fmt: skip


@given(fields=_JSON | _FIELDS)
def test_any_field_about_disagreements_is_worded_or_left_out(fields: Any) -> None:
    """Other programs may write messages, too: a page shows all that it knows."""
    disagreement = comparing.disagreement_of(fields)
    assert (comparing.agreement_in_words(disagreement) == "") == (disagreement is None)
