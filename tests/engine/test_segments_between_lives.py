"""Other `segments` or `segments_per_key`: what is evaluated still goes on, what ended keeps its ids."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
import pytest
from helpers import alarms_of, comparisons_of, metrics_of
from oracle_cases import Record, inst, lab, pred
from prequential.configuration.settings.streams import DetectorConfig
from prequential.engine.incidents.history import column_of_segment
from prequential.engine.incidents.incidents import Incidents
from prequential.topics.outputs import Metrics, Output
from test_between_lives import Lives

SETTINGS: dict[str, Any] = {
    "segments": ("arm",), "segments_per_key": 3, "stages": ("initial", "final", "after:1ms"),
    "estimators": ("all", "window:5", "fading:0.9"), "baselines": ("persistent", "majority"),
    "detectors": (DetectorConfig("page-hinkley", "error", {"threshold": 1.0, "min_instances": 1}),),
    "temporal_correction": True, "compare_losses": ("error", "brier"),
}  # fmt: skip


def records_of(numbers: Iterator[int], many: int) -> list[Record]:
    """Two models of which one changes its mind, five arms and two sites; labels come later, some twice."""
    found: list[Record] = []
    for number in [next(numbers) for _ in range(many)]:
        now, arm = 10 * number, {"arm": "ABCDE"[number % 5]}
        found.append(inst(number, now, segments={"site": "xy"[number % 2], **(arm if number % 3 else {})}))
        for model, said in (("m", number % 3), ("n", number % 2), ("m", number % 4)):
            about = {"y_proba": {"a": 0.75, "b": 0.25}, **({"segments": arm} if model == "m" else {})}
            found.append(pred(number, now, "ab"[said > 0], model=model, **about))
        if number > 3:
            found.append(lab(number - 3, now + 5, "aab"[number % 3]))
            found += [lab(number - 4, now + 6, "b")] * (number % 4 == 0 and number > 4)
    return found


def content(message: Any) -> dict[str, Any]:
    """What a message says, without what its configuration is."""
    found: dict[str, Any] = msgspec.to_builtins(message)
    for other in ("config", "counts", "coverage", "pairs", "interval", "verdict", "since", "recent"):
        found.pop(other, None)
    return found


def messages(outputs: list[Output]) -> list[Any]:
    """Those whose ids are functions of numbers."""
    return [*metrics_of(outputs), *alarms_of(outputs), *comparisons_of(outputs)]


def test_segments_that_are_evaluated_still_go_on() -> None:
    """As if the others had never been there."""
    ways: list[list[Any]] = []
    for changes in ([{}, {}], [{"segments": ("site", "arm", "more")}, {"segments": ("arm", "site")}]):
        lives, numbers, found = Lives(**SETTINGS), count(1), []
        for change in (None, *changes):
            if change is not None:
                lives.next(**SETTINGS | change)
            found += metrics_of(lives.go(*records_of(numbers, 20)))
        ways.append([content(one) for one in found if "site" not in (one.segment or "")])
    assert len({one["segment"] for one in ways[0]}) == 5
    assert ways[1] == ways[0]


CHANGES: list[dict[str, Any]] = [
    {"segments": ()}, {"segments": ("site", "arm")}, {"segments_per_key": 1}, {"segments_per_key": 9},
    {"stages": ("initial", "final", "after:2ms")}, {"baselines": ()}, {"temporal_correction": False},
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_no_id_is_used_again_for_other_content(change: dict[str, Any]) -> None:
    lives, numbers = Lives(**SETTINGS), count(1)
    said: dict[str, dict[str, Any]] = {}
    for step in (None, change, {}, change, {}):
        if step is not None:
            lives.next(**SETTINGS | step)
        for message in messages(lives.go(*records_of(numbers, 14))):
            assert said.setdefault(message.id, content(message)) == content(message)
    assert len(said) > 1_000


def final(outputs: list[Output], segment: str) -> Metrics:
    return [
        one for one in metrics_of(outputs)
        if (one.segment, one.stage, one.estimator) == (segment, "final", "all")
    ][-1]  # fmt: skip


def outcome(number: int, arm: str, y: str = "a") -> list[Record]:
    return [pred(number, number, y, segments={"arm": arm}), lab(number, number, "a")]


def test_values_beyond_a_lower_bound_end_and_are_said() -> None:
    lives = Lives(segments=("arm",), segments_per_key=2)
    lives.go(*outcome(1, "A"), *outcome(2, "B", "b"), *outcome(3, "C"), *outcome(4, "B"))
    lives.go(pred(5, 5, "a", segments={"arm": "B"}))
    lives.next(segments=("arm",), segments_per_key=1)
    assert lives.ended == {("segments", "arm"): 1}
    # What waits of it, and what comes, is one of the others; what they had, they have.
    other = final(lives.go(lab(5, 6, "a")), "arm=other")
    assert (other.outcomes, other.measures["accuracy"], other.started_empty) == (2, 1.0, msgspec.UNSET)
    # A label of it is corrected: nobody has this outcome.
    revised = metrics_of(lives.go(lab(2, 7, "b"), *outcome(8, "A"), *outcome(9, "D", "b")))
    other = final(revised, "arm=other")
    assert (other.outcomes, other.measures["accuracy"]) == (3, 2 / 3)
    entities = lives.shard.catalog.entities
    [row] = [one.row for one in filter(None, entities) if one.segment == "arm=other"]
    assert lives.shard.catalog.columns.entities.revisions[row] == 0
    lives.next(segments=("arm",), segments_per_key=2)
    assert lives.ended == {}


def test_a_segment_that_begins_anew_goes_on_counting_and_says_so() -> None:
    lives = Lives(segments=("arm",), segments_per_key=2, estimators=("all", "window:9"))
    lives.go(*outcome(1, "A"), *outcome(2, "A", "b"), lab(2, 3, "b"))
    for segments in ((), ("arm",)):
        lives.next(segments=segments, estimators=("all", "window:9"))
    found = metrics_of(lives.go(*outcome(4, "A"), lab(1, 5, "b"), *outcome(6, "A", "b")))
    for estimator in ("all", "window:9"):
        [*_, newest] = [m for m in found if (m.segment, m.estimator) == ("arm=A", estimator)]
        assert (newest.outcomes, newest.n, newest.measures["accuracy"]) == (4, 2, 0.5)
        assert newest.started_empty is True
    lives.next(segments=("arm",), estimators=("all", "window:9"))
    assert final(lives.go(*outcome(7, "A")), "arm=A").started_empty is True


def columns(incidents: Incidents, owner: int) -> dict[str, tuple[float, float]]:
    """Outcomes and losses by segment, of all clusters."""
    view = incidents.view(owner)
    cells = view.clusters.cells.sum(axis=0)
    found = {}
    for i, name in enumerate(view.names.segments):
        first = column_of_segment(view.classes, i)
        found[name] = float(cells[first]), float(cells[first + 1])
    return found


def test_columns_of_incidents_are_their_segments() -> None:
    lives, numbers = Lives(**SETTINGS | {"segments": ("site", "arm")}), count(1)
    lives.go(*records_of(numbers, 30))
    owner = lives.shard.catalog.by_name["s"].models["m"]
    before = columns(lives.shard.state.incidents, owner)
    lives.next(**SETTINGS | {"segments": ("arm",), "segments_per_key": 2})
    after = columns(lives.shard.state.incidents, owner)
    kept = {one.segment for one in filter(None, lives.shard.catalog.entities) if one.segment}
    assert after == {name: of for name, of in before.items() if name in kept}
    assert len(before) == 6
    assert len(after) == 3
