"""The detail `confusion`: the matrices that messages carry are those that plain loops count."""

from __future__ import annotations

import random

import pytest
from oracle_estimators import Estimator, Outcome
from oracle_records import settings_of
from prequential.configuration.settings.streams import StreamConfig
from sequences import NO_CLASS, Outcomes

ESTIMATORS = ["all", "window:50", "fading:0.97"]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("classes", [2, 7])
def test_cells_are_those_of_plain_loops(estimator: str, classes: int) -> None:
    rng = random.Random(classes)
    sequence = Outcomes(StreamConfig(details=("confusion",), detectors=(), estimators=(estimator,)))
    plain = Estimator(estimator, settings_of({"defaults": {"estimators": [estimator]}}, "s"))
    for number in range(300):
        y, h, persistent, majority = (rng.randrange(classes) for _ in range(4))
        before = (persistent, majority) if number else (NO_CLASS, NO_CLASS)
        sequence.update([(y, h, *before)])
        plain.add(Outcome(str(number), number, str(y), str(h), *(one == y for one in before), {}))
        found = sequence.measured(estimator).details["confusion"]
        expected = plain.confusion(revised=True)
        assert found.keys() == expected.keys()
        for label, row in expected.items():
            assert found[label] == pytest.approx(row, rel=1e-12)
    assert sum(sum(row.values()) for row in found.values()) == pytest.approx(plain.n)


def test_a_revision_moves_an_outcome_to_its_new_cell() -> None:
    sequence = Outcomes(StreamConfig(details=("confusion",), detectors=(), estimators=("all",)))
    sequence.update([(0, 0, NO_CLASS, NO_CLASS), (1, 0, 0, 0)])
    assert sequence.measured("all").details["confusion"] == {"0": {"0": 1.0}, "1": {"0": 1.0}}
    sequence.revise(1, 1, (0, 0, NO_CLASS, NO_CLASS))
    assert sequence.measured("all").details["confusion"] == {"1": {"0": 2.0}}


def test_classes_without_room_or_outcomes_are_left_out() -> None:
    config = StreamConfig(details=("confusion",), detectors=(), estimators=("all",))
    sequence = Outcomes(config, 2, names=["a", "b", "c"])
    sequence.update([(0, 0, 0, 1)] * 3 + [(1, 1, 0, 1)])
    assert sequence.measured("all").details["confusion"] == {"a": {"a": 3.0}, "b": {"b": 1.0}}
