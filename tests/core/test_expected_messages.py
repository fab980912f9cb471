"""What messages about periods say of their final values: fields, intervals, other configurations."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from helpers import metrics_of
from oracle_cases import lab, pred
from prequential.topics.outputs import Metrics
from prequential.worker import expecting
from test_between_lives import Lives

PERIOD = {"period": 1_000, "emit_every": 500, "label_horizon": 2_800, "emit_outcomes": None}


def records(start: int, stop: int) -> list[Any]:
    """Ten predictions a second; labels come within two seconds, one in ten never."""
    rng, found = random.Random(5), []
    for i in range(stop):
        ts, guess = 1_000 + 100 * i, rng.choice("ab")
        label = guess if rng.random() < 0.8 else rng.choice("ab")
        came, missing = ts + 50 + int(rng.expovariate(1 / 600)), rng.random() < 0.1
        if i >= start:
            found.append((ts, pred(i, ts, guess, y_proba={guess: 0.75, "ab".replace(guess, ""): 0.25})))
            if not missing and came < ts + 2_500:
                found.append((came, lab(i, came, label)))
    return [record for _, record in sorted(found, key=lambda one: one[0])]


def periods_of(outputs: Any) -> list[Metrics]:
    return [one for one in metrics_of(outputs) if one.period is not msgspec.UNSET]


def test_provisional_messages_say_what_is_expected_and_final_ones_do_not() -> None:
    lives = Lives(**PERIOD, measures=("accuracy", "kappa", "p_per", "log_loss", "f1"))
    found = periods_of(lives.go(*records(0, 400)))
    finals = {one.period["start"]: one for one in found if one.period["status"] == "final"}  # type: ignore[index]
    assert len(finals) > 25
    assert all(one.expected is msgspec.UNSET for one in finals.values())
    provisional = [one for one in found if one.period["status"] == "provisional"]  # type: ignore[index]
    graded = 0
    for one in provisional:
        said: Any = one.expected
        assert said["predictions"] == one.period["predictions"]  # type: ignore[index]
        assert set(said["measures"]) == {"accuracy", "kappa", "log_loss"} - set(said["undefined"])
        assert said["undefined"]["p_per"] == "not_estimated"
        assert said["undefined"]["f1"] == "no_positive_class"
        assert 0 <= said["correction"] <= 1
        for own in said["measures"].values():
            if own["record"] is None:
                assert "interval" not in own
                continue
            graded += 1
            assert own["interval"][0] <= own["value"] <= own["interval"][1]
            assert own["level"] == 0.9
            assert 20 <= own["record"]["finals"] <= 50
    assert graded > 10
    assert len({one.id for one in found}) == len(found)


def test_series_are_those_of_the_newest_whole_period() -> None:
    lives = Lives(**PERIOD)
    lives.go(*records(0, 300))
    families = {name: _Kept() for name, _, _ in expecting.FAMILIES}
    shard = lives.shard
    expecting.add(families, shard.catalog, shard.emission.reporter, [0])  # type: ignore[arg-type]
    assert any('measure="accuracy"' in one for one in families["expected"].labels)
    assert len(families["expected_low"].labels) == len(families["expected_coverage"].labels)


class _Kept:
    """In place of a family of series."""

    def __init__(self) -> None:
        self.labels: list[str] = []

    def add(self, labels: str, value: float) -> None:
        assert value == value
        self.labels.append(labels)


def test_it_can_be_left_out() -> None:
    found = periods_of(Lives(**PERIOD, expected=False).go(*records(0, 100)))
    assert found
    assert all(one.expected is msgspec.UNSET for one in found)


@pytest.mark.parametrize("changed", [{"label_horizon": 5_000}, {"measures": ("accuracy",)}])
def test_counters_that_do_not_fit_begin_with_the_next_period(changed: dict[str, Any]) -> None:
    lives = Lives(**PERIOD)
    lives.go(*records(0, 100))
    lives.next(**PERIOD | changed)
    assert "s/m: expected from the next period on" in lives.missing
    said = [one for one in periods_of(lives.go(*records(100, 200))) if one.expected is not msgspec.UNSET]
    assert min(one.period["start"] for one in said) == 12_000  # type: ignore[index]


def test_the_same_configuration_goes_on() -> None:
    whole, cut = Lives(**PERIOD), Lives(**PERIOD)
    wanted = periods_of(whole.go(*records(0, 100))) + periods_of(whole.go(*records(100, 200)))
    found = periods_of(cut.go(*records(0, 100)))
    cut.next(**PERIOD)
    assert cut.missing == []
    assert found + periods_of(cut.go(*records(100, 200))) == wanted
