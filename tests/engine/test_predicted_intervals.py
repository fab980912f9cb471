"""Intervals and quantiles of predicted numbers: `y_lower` and `y_upper`, `quantile`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from oracle_cases import lab, pred
from prequential.configuration.settings.streams import DetectorConfig, Objective, StreamConfig
from prequential.engine.detectors import objectives
from prequential.engine.measures.declaration import INTERVALS
from prequential.engine.measures.registry import fields_read, made_of
from test_costs_by_value import said_of, shard_of, successor_of

OF_INTERVALS = made_of(INTERVALS)

STREAM = StreamConfig(
    task="regression", measures=("mae", "pinball", *OF_INTERVALS),
    estimators=("all", "window:2", "fading:0.5"), detectors=(), compare="off", emit_outcomes=None,
    emit_every=None,
)  # fmt: skip

#: Of predictions without intervals.
PLAIN = replace(STREAM, measures=("mae", "pinball"))

#: Four outcomes, of which three have an interval: covered, missed, covered at a bound; widths 2, 1 and 0.
RECORDS: tuple[Any, ...] = (
    pred(1, 1, 2.0, y_lower=1, y_upper=3), lab(1, 2, 2.5),
    pred(2, 3, 2.0, y_lower=1.5, y_upper=2.5), lab(2, 4, 3),
    pred(3, 5, 2.0), lab(3, 6, 1.0),
    pred(4, 7, 4, y_lower=4, y_upper=4.0), lab(4, 8, 4.0),
)  # fmt: skip


def test_coverage_and_width_are_of_the_outcomes_with_an_interval() -> None:
    said = said_of(shard_of(*RECORDS, config=STREAM))
    found = {name: one.measures for name, one in said.items()}
    assert (found["all"]["interval_coverage"], found["all"]["interval_width"]) == (2 / 3, 1.0)
    assert (found["window:2"]["interval_coverage"], found["window:2"]["interval_width"]) == (1.0, 0.0)
    weight = 1 + 1 / 4 + 1 / 8
    assert found["fading:0.5"]["interval_coverage"] == (1 + 1 / 8) / weight
    assert found["fading:0.5"]["interval_width"] == (1 / 4 + 2 / 8) / weight
    assert found["all"]["mae"] == 0.625


@pytest.mark.parametrize(
    ("bounds", "why"),
    [({"y_lower": 1}, "y_lower 1 stands without y_upper: expected both, or neither"),
     ({"y_upper": 1.5}, "y_upper 1.5 stands without y_lower: expected both, or neither"),
     ({"y_lower": 2, "y_upper": 1.5}, "y_lower is 2 and y_upper 1.5: expected y_lower <= y_upper"),
     ({"y_lower": "x", "y_upper": 1}, "y_lower is 'x': expected a number up to 1e+100"),
     ({"y_lower": 0, "y_upper": True}, "y_upper is True: expected a number up to 1e+100"),
     ({"y_lower": -1e101, "y_upper": 0}, "y_lower is -1e+101: expected a number up to 1e+100")],
)  # fmt: skip
def test_what_is_no_interval_is_refused_where_it_is_needed(bounds: dict[str, Any], why: str) -> None:
    records = pred(1, 1, 2.0, **bounds), lab(1, 2, 2.0)
    shard = shard_of(*records, config=STREAM)
    assert [one.reason for one in shard.flush()[0] if hasattr(one, "reason")] == [why]
    assert not said_of(shard)
    assert said_of(shard_of(*records, config=PLAIN))["all"].measures == {"mae": 0.0}


def test_it_is_refused_behind_names_that_are_known_too() -> None:
    shard = shard_of(*RECORDS, pred(9, 9, 1, y_lower=1), config=STREAM)
    letters = [one.reason for one in shard.flush()[0] if hasattr(one, "reason")]
    assert letters == ["y_lower 1 stands without y_upper: expected both, or neither"]


@pytest.mark.parametrize("more", [
    {"measures": ("interval_width",)}, {"detectors": (DetectorConfig(signal="all:interval_width"),)},
    {"detectors": (DetectorConfig(signal="interval_coverage"),)},
    {"objective": Objective({"interval_coverage": 0.9})},
])  # fmt: skip
def test_intervals_are_read_where_anything_asks_for_them(more: dict[str, Any]) -> None:
    config = replace(PLAIN, **more)
    bounds = {"y_lower", "y_upper"}
    assert not fields_read(PLAIN)
    assert fields_read(config) == bounds
    assert not fields_read(replace(config, task="classification"))
    shard = shard_of(*RECORDS, config=config)
    assert shard.state.store.values.numbers.shape[1] == 3


def test_a_prediction_waits_in_as_many_bytes_as_before_where_none_asks() -> None:
    assert shard_of(*RECORDS, config=PLAIN).state.store.values.numbers.shape[1] == 0


def test_coverage_is_watched() -> None:
    detector = DetectorConfig(signal="interval_coverage", params={"lambda": 3.0, "min_outcomes": 5})
    config = replace(STREAM, detectors=(detector,))
    records = []
    for i in range(120):
        covers = i < 60 and i % 10
        records += [pred(i, 2 * i, 0.0, y_lower=-1, y_upper=1), lab(i, 2 * i + 1, 0.5 if covers else 2.0)]
    outputs = shard_of(*records, config=config).flush()[0]
    alarms = [(one.detector, one.signal) for one in outputs if hasattr(one, "threshold")]
    assert ("page-hinkley", "interval_coverage") in alarms
    (test,) = objectives.tests_of(Objective({"interval_coverage": 0.9}))
    assert (test.signal, test.params["bound"], test.params["scale"]) == ("interval_coverage", 0.1, 1.0)


class TestPinball:
    def test_as_a_signal_it_is_the_outcomes_own(self) -> None:
        detector = DetectorConfig(signal="pinball", params={"lambda": 1.0, "min_outcomes": 2, "delta": 0.0})
        config = replace(PLAIN, quantile=0.9, detectors=(detector,))
        records = [pred(1, 1, 0), lab(1, 2, 0), pred(2, 3, 0), lab(2, 4, 0), pred(3, 5, 0), lab(3, 6, 10)]
        outputs = shard_of(*records, config=config).flush()[0]
        (alarm,) = [one for one in outputs if hasattr(one, "threshold")]
        assert alarm.statistic == pytest.approx(6.0)  # 9 - 9/3
        without = replace(config, quantile=None)
        assert not [one for one in shard_of(*records, config=without).flush()[0] if hasattr(one, "threshold")]


def test_intervals_that_are_asked_for_no_more_and_again_begin_anew_in_windows() -> None:
    first = shard_of(*RECORDS, config=STREAM)
    assert said_of(successor_of(first, STREAM))["window:2"].measures["interval_width"] == 0.0
    second = successor_of(first, PLAIN)
    assert said_of(second)["window:2"].measures == {"mae": 0.5}
    third = said_of(successor_of(second, STREAM))
    assert third["window:2"].undefined["interval_width"] == "no_intervals"
    assert third["all"].measures["interval_width"] == 1.0
