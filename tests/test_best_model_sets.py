"""Which models may be the best, by the verdicts of all pairs: a plain oracle, properties, words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prequential.views.wording.best_models import best_models, in_words, names_in_words, whole_streams
from prequential.views.wording.comparing import Pair, Recent

MODELS = ("a", "b", "c", "d", "e")


def pair(model: str, against: str, verdict: str = "undecided", **changed: Any) -> Pair:
    """A comparison: `>` for the first model is better, `<` for the second one, `=` for equivalent."""
    verdict = {">": "a_better", "<": "b_better", "=": "equivalent"}.get(verdict, verdict)
    fields: dict[str, Any] = {
        "stream": "s", "partition": 0, "segment": None, "stage": "final", "loss": "error",
        "outcomes": 4_000, "ts": 0, "difference": None, "interval": None, "level": 0.01,
        "since": None if verdict == "undecided" else 712,
    }  # fmt: skip
    return Pair(**{**fields, "model": model, "against": against, "verdict": verdict, **changed})


def words(*pairs: Pair, **options: Any) -> str:
    [best] = best_models(pairs, **options)
    return in_words(best)


# ---- a plain oracle


@st.composite
def tournaments(draw: st.DrawFn) -> list[Pair]:
    """Verdicts between some of the models, in any direction."""
    found = []
    for index, model in enumerate(MODELS):
        for against in MODELS[index + 1 :]:
            verdict = draw(st.sampled_from(["none", "undecided", "equivalent", ">", ">", "<", "<"]))
            if verdict != "none":
                found.append(pair(model, against, verdict, since=draw(st.integers(1, 4_000))))
    return found


def plain(pairs: Sequence[Pair]) -> set[str]:
    """By the definition: walk along all chains of verdicts without a repetition."""
    names = sorted({name for one in pairs for name in (one.model, one.against)})
    beats = {(one.model, one.against) for one in pairs if one.verdict == "a_better"}
    beats |= {(one.against, one.model) for one in pairs if one.verdict == "b_better"}

    def leads(start: str, end: str) -> bool:
        return any(
            all(step in beats for step in zip((start, *between, end)[:-1], (start, *between, end)[1:]))
            for size in range(len(names))
            for between in permutations([name for name in names if name not in (start, end)], size)
        )

    chains = {(x, y) for x in names for y in names if x != y and leads(x, y)}
    return {y for y in names if all((y, x) in chains for x in names if (x, y) in chains)}


@given(tournaments())
def test_it_is_the_set_by_the_definition(pairs: list[Pair]) -> None:
    found = best_models(pairs)
    if not pairs:
        assert found == []
        return
    [best] = found
    assert set(best.models) == plain(pairs)
    assert best.models, "never empty"
    compared = {name for one in pairs for name in (one.model, one.against)}
    assert sorted([*best.models, *(left.model for left in best.left)]) == sorted(compared)
    for left in best.left:
        against = [one for one in pairs if left.model in (one.model, one.against)
                   and one.better(one.verdict) not in (None, left.model)]  # fmt: skip
        assert sorted(defeat.by for defeat in left.defeats) == sorted(
            one.better(one.verdict) or "" for one in against
        )
        assert left.since == min(one.since or 0 for one in against)


@given(tournaments(), st.randoms(use_true_random=False))
def test_the_order_of_messages_and_of_names_does_not_matter(pairs: list[Pair], random: Any) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)
    assert best_models(shuffled) == best_models(pairs)
    opposite = {"a_better": "b_better", "b_better": "a_better"}
    turned = [
        msgspec.structs.replace(
            one, model=one.against, against=one.model, verdict=opposite.get(one.verdict, one.verdict)
        )
        for one in pairs
    ]
    assert best_models(turned) == best_models(pairs)


@given(tournaments())
def test_a_model_that_nobody_beats_is_in_the_set(pairs: list[Pair]) -> None:
    for best in best_models(pairs):
        beaten = {
            one.against if one.verdict == "a_better" else one.model for one in pairs if one.is_decided
        }
        unbeaten = {name for one in pairs for name in (one.model, one.against)} - beaten
        assert unbeaten <= set(best.models)
        assert best.contradictory == [model for model in best.models if model in beaten]


@given(tournaments(), st.sampled_from(MODELS))
def test_without_a_model_the_others_stay(pairs: list[Pair], gone: str) -> None:
    """A set can only grow if a model that has left is removed, or if one without defeats is added."""
    rest = [one for one in pairs if gone not in (one.model, one.against)]
    for before in best_models(pairs):
        remaining = {name for one in rest for name in (one.model, one.against)}
        for after in best_models(rest):
            if not before.contradictory and not after.contradictory:
                assert set(before.models) & remaining <= set(after.models)


# ---- what counts


def test_each_stream_partition_segment_stage_and_loss_has_its_own() -> None:
    fields: list[dict[str, Any]] = [
        {}, {"stream": "t"}, {"partition": 1}, {"segment": "k=v"}, {"stage": "initial"}, {"loss": "cost"},
    ]  # fmt: skip
    found = best_models(pair("a", "b", ">", **changed) for changed in fields)
    assert len(found) == len(fields)
    assert [best.segment for best in whole_streams(found)] == [None] * 4
    assert "initial" not in [best.stage for best in whole_streams(found)]


def test_a_stream_without_final_is_shown_by_its_stages() -> None:
    found = best_models([pair("a", "b", stage="bin:1"), pair("a", "b", stage="initial", same=["final"])])
    assert [best.stage for best in whole_streams(found)] == ["initial"]
    assert [best.stage for best in whole_streams(found[:1])] == ["bin:1"]


@pytest.mark.parametrize("other", [
    pair("a", "@majority", "<"), pair("a", "a@random", "<"), pair("a", "a+temporal", "<"),
    pair("a", "a", "<", stage="initial/final"), pair("a", "b", "by_partition", partition=-1),
])  # fmt: skip
def test_baselines_corrections_stages_and_partitions_together_have_no_part(other: Pair) -> None:
    assert best_models([other]) == []


def test_a_recent_verdict_removes_no_model_and_brings_none_back() -> None:
    now_b = Recent("b_better", 3_000)
    assert words(pair("a", "b", recent=now_b)) == "either of a and b may be the best by error"
    [best] = best_models([pair("a", "b", ">", recent=now_b)])
    assert (best.models, [left.is_reversed for left in best.left]) == (["a"], [True])
    assert in_words(best).endswith("b left at outcome 712 (a is better over the whole run, but not recently)")


def test_a_pair_that_a_change_of_the_champion_turned_around_counts_once() -> None:
    old, new = pair("a", "b", ">", ts=1), pair("b", "a", ">", ts=2)
    for pairs in ([old, new], [new, old]):
        [best] = best_models(pairs)
        assert (best.models, best.contradictory, best.level) == (["b"], [], 0.02)


def test_models_of_another_rank_are_sets_of_at_least_so_many() -> None:
    assert best_models([pair("a", "b")], 3) == []
    assert len(best_models([pair("a", "b"), pair("b", "c")], 3)) == 1


# ---- in words


EARLY = {"provisional": {"verdict": "undecided", "days": 2, "needed": 8}}


@pytest.mark.parametrize(("pairs", "expected"), [
    ([pair("a", "b", ">", since=31_400), pair("a", "c"), pair("b", "c")],
     "the best by error is among a and c (97% confidence); b left at outcome 31,400 (a is better)"),
    ([pair("a", "b", ">"), pair("a", "c", ">", since=9), pair("b", "c", "<", since=20)],
     "a is the best by error (97% confidence); c left at outcome 9 (a is better); "
     "b left at outcome 20 (c and a are better)"),
    ([pair("a", "b", **EARLY), pair("a", "c", outcomes=0), pair("b", "c", **EARLY)],
     "too early to tell which of a, b and c is the best by error"),
    ([pair("a", "b", "="), pair("a", "c", "="), pair("b", "c", "=")], "a, b and c are equivalent"),
    ([pair("a", "b", "="), pair("a", "c", ">"), pair("b", "c")],
     "a and b are equivalent, and the best by error (97% confidence); c left at outcome 712 (a is better)"),
    ([pair("a", "b", ">"), pair("b", "c", ">"), pair("a", "c", "<")],
     "the best by error is among a, b and c, whose verdicts contradict each other: each pair has outcomes "
     "of its own"),
    ([pair("a", "b", loss="absolute"), pair("a", "c", loss="absolute")],
     "any of a, b and c may be the best by absolute error; 1 pair of them is not compared"),
    ([pair("a", other) for other in "bcde"],
     "any of a, b, c, d and e may be the best by error; 6 pairs of them are not compared"),
])  # fmt: skip
def test_the_set_in_one_sentence(pairs: list[Pair], expected: str) -> None:
    assert words(*pairs) == expected


def test_models_without_a_pair_are_named() -> None:
    names = {("s", 0): ["a", "b", "x", "y", "@majority", "a+temporal", "z+temporal"]}
    said = words(pair("a", "b", ">"), models=names)
    assert said.endswith("; x, y and z+temporal are not compared")


def test_names_are_shown_as_asked() -> None:
    [best] = best_models([pair("a\n", "b", ">")])
    assert "\n" not in in_words(best)
    assert in_words(best, repr).startswith("'a\\n' is the best by error")
    assert names_in_words(["a"] * 7) == "a, a, a, a, a and 2 more"
