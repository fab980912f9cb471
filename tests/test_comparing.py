"""Which model is better, in words."""

from __future__ import annotations

from typing import Any

import pytest
from prequential.comparing import Pair, Pairs, report, standing
from prequential.topics.outputs import Comparison


def pair(**changed: Any) -> Pair:
    about: dict[str, Any] = {
        "stream": "elec2", "partition": 0, "model": "nb", "against": "tree", "segment": None,
        "stage": "final", "loss": "error", "outcomes": 4_000, "ts": 0, "difference": 0.031,
        "interval": (0.012, 0.05), "level": 0.05, "verdict": "b_better", "since": 712,
    }  # fmt: skip
    return Pair(**{**about, **changed})


def comparison(**changed: Any) -> Comparison:
    about: dict[str, Any] = {
        "id": "x", "stream": "elec2", "partition": 0, "model": "nb", "against": "tree", "segment": None,
        "stage": "final", "estimator": "all", "loss": "error", "n": 4_000, "outcomes": 4_000, "ts": 0,
        "measures": {"difference": 0.031}, "undefined": {}, "interval": (0.012, 0.05), "level": 0.05,
        "pairs": 1, "verdict": "b_better", "since": 712, "config": "sha",
    }  # fmt: skip
    return Comparison(**{**about, **changed})


UNDECIDED = {"verdict": "undecided", "since": None}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "tree beats nb: error lower by 0.031 (0.012 to 0.050), sure since outcome 712 of 4,000"),
        (
            {"difference": -0.031, "interval": (-0.05, -0.012), "verdict": "a_better"},
            "nb beats tree: error lower by 0.031 (0.012 to 0.050), sure since outcome 712 of 4,000",
        ),
        (
            {"difference": -0.0004, "interval": (-0.02, 0.01), **UNDECIDED},
            "nb leads tree: error lower by 0.0004 (-0.010 to 0.020), not sure after 4,000 outcomes",
        ),
        (
            {"difference": 0.0, "interval": (-0.02, 0.01), **UNDECIDED},
            "nb and tree: no difference in error (-0.020 to 0.010), not sure after 4,000 outcomes",
        ),
        (
            {"difference": 1234.5, "interval": None, "loss": "squared", **UNDECIDED},
            "tree leads nb: squared error lower by 1,234.500, after 4,000 outcomes; "
            "never sure, as there is no bound to the loss",
        ),
        (
            {"against": "nb", "stage": "initial/final"},
            "final of nb beats initial of nb: error lower by 0.031 (0.012 to 0.050), sure since outcome 712 "
            "of 4,000",
        ),
        (
            {"difference": None},
            "tree beats nb: error lower (0.012 to 0.050), sure since outcome 712 of 4,000",
        ),
        (
            {"difference": None, "interval": (-0.02, 0.01), **UNDECIDED},
            "nb and tree: difference in error (-0.020 to 0.010), not sure after 4,000 outcomes",
        ),
    ],
)  # fmt: skip
def test_who_leads_by_how_much_is_it_sure_since_when(changed: dict[str, Any], said: str) -> None:
    assert standing(pair(**changed)) == said


class TestReport:
    def test_nothing_without_pairs(self) -> None:
        assert list(report([])) == []

    def test_of_each_stream_one_stage(self) -> None:
        stages = [pair(stage=stage) for stage in ("initial", "final", "after:1h")]
        itself = pair(against="nb", stage="initial/final")
        head, one, two, three = report([itself, *stages, pair(stream="other", stage="initial")])
        assert "with 95 % for all pairs and at all times" in head
        assert one.startswith("  elec2 final: tree beats nb")
        assert two.startswith("  other initial: tree beats nb")
        assert three.startswith("  elec2 initial/final: final of nb beats initial of nb")

    def test_one_stream_isnt_named_and_many_pairs_are_cut(self) -> None:
        baseline = pair(against="@majority")
        lines = list(report([baseline, *(pair(model=f"m{i}") for i in range(12))], ": see there"))
        assert len(lines) == 12
        assert lines[1].startswith("  final: tree beats m0")
        assert lines[-1] == "  … and 3 more pairs: see there"


class TestPairs:
    def test_one_is_said_of_all_estimators(self) -> None:
        pairs = Pairs()
        window = comparison(estimator="window:1000", measures={"difference": 0.5})
        assert pairs.update(window)
        assert [one.difference for one in pairs.known()] == [None]
        assert pairs.update(comparison())
        assert not pairs.update(window)
        assert pairs.known() == [pair()]

    def test_the_newest_counts(self) -> None:
        pairs = Pairs()
        assert pairs.update(comparison(outcomes=3_000))
        assert pairs.update(comparison())
        assert not pairs.update(comparison())
        assert pairs.update(comparison(segment="arm=A"))
        assert pairs.known() == [pair(), pair(segment="arm=A")]
