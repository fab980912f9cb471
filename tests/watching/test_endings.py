"""Stages and estimators that a change of the configuration has ended are forgotten, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prequential.views.state.newest import NewestMessages, SequenceName
from prequential.views.state.ranking import Ranking
from watched import comparison, metrics, state_of


def rounds(
    config: str, outcomes: Iterable[int], stages: Iterable[str], estimators: Iterable[str],
    segments: Iterable[str | None] = (None, "arm=A"),
) -> Iterator[bytes]:  # fmt: skip
    """Reports of these sequences after so many outcomes each."""
    known = list(stages), list(estimators), list(segments)
    for n in outcomes:
        for stage in known[0]:
            for segment in known[2]:
                for estimator in known[1]:
                    yield metrics(
                        config=config, stage=stage, estimator=estimator, segment=segment, outcomes=n
                    )


def sequences(state: NewestMessages) -> set[tuple[str | None, str, str]]:
    [model] = state.models.values()
    return {tuple(one) for one in model.sequences}  # type: ignore[misc]


def product(*names: Iterable[str]) -> set[tuple[str | None, str, str]]:
    stages, estimators = map(list, names)
    return {(seg, stage, one) for seg in (None, "arm=A") for stage in stages for one in estimators}


BEFORE = list(rounds("old", range(10, 60, 10), ["initial", "final"], ["all", "window:9"]))


def test_an_estimator_goes_with_the_second_report_of_its_stage() -> None:
    first = list(rounds("new", [60], ["initial", "final"], ["all", "fading:0.9"]))
    everything = product(["initial", "final"], ["all", "window:9", "fading:0.9"])
    assert sequences(state_of(*BEFORE, *first)) == everything
    second = list(rounds("new", [70], ["initial", "final"], ["all", "fading:0.9"]))
    state = state_of(*BEFORE, *first, *second)
    assert sequences(state) == product(["initial", "final"], ["all", "fading:0.9"])


def test_a_stage_goes_when_it_would_have_been_due_ten_times() -> None:
    later = list(rounds("new", range(60, 160, 10), ["final"], ["all", "window:9"]))
    assert sequences(state_of(*BEFORE, *later)) == product(["initial", "final"], ["all", "window:9"])
    state = state_of(*BEFORE, *later, *rounds("new", [160], ["final"], ["all"]))
    assert sequences(state) == product(["final"], ["all", "window:9"])
    again = state_of(*BEFORE, *later, *rounds("new", [160], ["final", "initial"], ["all"]))
    assert (None, "initial", "all") in sequences(again)


def test_a_stage_that_few_labels_reach_is_waited_for() -> None:
    """One in twenty outcomes: due ten times after two hundred reports."""
    rare = list(rounds("old", [100], ["final"], ["all"])) + list(rounds("old", [5], ["after:1h"], ["all"]))
    later = list(rounds("new", range(101, 280), ["final"], ["all"]))
    state = state_of(*rare, *later)
    assert (None, "after:1h", "all") in sequences(state)
    for value in rounds("new", range(280, 420), ["final"], ["all"]):
        state.update("metrics", value, 1)
    assert sequences(state) == product(["final"], ["all"])


def test_another_configuration_that_ends_nothing_changes_nothing() -> None:
    both = product(["initial", "final"], ["all", "window:9"])
    state = state_of(*BEFORE, *rounds("new", range(60, 400, 10), ["initial", "final"], ["all", "window:9"]))
    assert sequences(state) == both
    back = list(rounds("old", range(400, 700, 10), ["initial", "final"], ["all", "window:9"]))
    for value in back:
        state.update("metrics", value, 1)
    assert sequences(state) == both


def test_pairs_of_a_stage_go_with_it() -> None:
    said = [comparison(stage=stage) for stage in ("initial", "final")]
    later = list(rounds("new", range(60, 200, 10), ["final"], ["all", "window:9"]))
    state = state_of(*BEFORE, *said, *later)
    assert {pair.stage for pair in state.pairs("elec2", 0)} == {"final"}


def test_what_is_shown_of_a_model_is_chosen_anew() -> None:
    state = state_of(*BEFORE)
    [model] = state.models.values()
    ranking = Ranking(state)
    assert ranking.row(model).sequence == SequenceName(None, "final", "window:9")
    for value in rounds("new", [60, 70], ["initial", "final"], ["all", "window:5"]):
        state.update("metrics", value, 1)
    assert ranking.row(model).sequence == SequenceName(None, "final", "window:5")
