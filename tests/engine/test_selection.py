"""Labels that aren't a fair sample: it shows, and weights put it right."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from helpers import World, assert_cuts_change_no_bit, catch_up, metrics_of
from prequential.engine.delay import selection
from prequential.engine.tables.logs import EXPIRED, MET, new_events
from prequential.topics.decoding import INSTANCES, decode

#: Probability of a label, by what the model says: frauds are reviewed.
PROPENSITIES = {"fraud": 0.8, "fine": 0.1}


def counted(tables: selection.Selection, model: int, first: int, second: int) -> selection.Selection:
    """Nine predictions of the first class meet their label, and one of two of the second."""
    events = new_events(11)
    events.model[:], events.kind[:] = model, [*[MET] * 10, EXPIRED]
    events.prediction[:] = [*[first] * 9, second, second]
    return selection.update(tables, events, 0, 11)


def test_classes_that_nobody_predicted_are_none() -> None:
    """Code 1 may be a label's only."""
    tables = selection.with_rows(selection.new_selection(), 3, 1)
    tables = counted(counted(tables, 1, 0, 2), 2, 0, 1)
    one, other = selection.indices(tables, np.array([1, 2]))
    assert one == other
    assert selection.shares(tables, 1, ["a", "b", "c"]) == {"a": 1.0, "c": 0.5}


def test_blocks_of_models_that_are_gone_are_used_again() -> None:
    tables = selection.with_rows(selection.new_selection(), 4, 0)
    tables = counted(counted(tables, 0, 0, 2), 1, 0, 2)
    used = int(tables.blocks[0])
    tables = selection.forget(tables, [0, 1], np.zeros(0, dtype=np.int64))
    for model in (0, 2, 3):
        tables = counted(tables, model, 0, 2)
    assert tables.blocks[0] == used
    found = [selection.by_class(tables, model).tolist() for model in (0, 2, 3)]
    assert found == [[], *2 * [[[9, 0], [0, 0], [1, 1], [0, 0]]]]


def reviewed(count: int) -> tuple[World, float]:
    """A stream of which reviewers see what looks like fraud; and the model's accuracy on all of it."""
    rng = random.Random(7)
    topics: Any = ([], [], [])
    right = 0
    for i in range(count):
        t0 = 10 * i
        truth = "fraud" if rng.random() < 0.1 else "fine"
        said = truth if rng.random() < 0.95 else ("fine" if truth == "fraud" else "fraud")
        right += said == truth
        about = {"stream": "s", "instance_id": i, "ts": t0}
        topics[0].append((t0, {**about, "label_propensity": PROPENSITIES[said], "segments": {"land": said}}))
        topics[1].append((t0, {**about, "model": "m", "y_pred": said}))
        if rng.random() < PROPENSITIES[said]:
            topics[2].append((t0 + 500, {**about, "ts": t0 + 500, "y_true": truth}))
    defaults = {
        "measures": ["accuracy", "ipw_accuracy", "ipw_n"], "estimators": ["all", "window:2000"],
        "stages": ["final"], "label_horizon": "1s", "settle": "1s", "segments": ["land"],
        "emit": {"outcomes": 1000, "every": "1s"}, "detectors": [],
    }  # fmt: skip
    return World({"defaults": defaults}, topics), right / count


@pytest.mark.slow
def test_weights_put_a_biased_sample_right() -> None:
    world, true_accuracy = reviewed(20_000)
    last = {(m.segment, m.estimator): m for m in metrics_of(catch_up(world).outputs)}
    whole = last[None, "all"]
    assert abs(whole.measures["accuracy"] - true_accuracy) > 0.1
    assert whole.measures["ipw_accuracy"] == pytest.approx(true_accuracy, abs=0.01)
    assert whole.measures["ipw_n"] < 0.6 * whole.n
    coverage: Any = whole.coverage
    assert coverage["labelled_by_class"] == pytest.approx(PROPENSITIES, abs=0.02)
    assert coverage["prediction_psi"] > 1
    # Here segments are what was predicted.
    assert coverage["segment_psi"]["land"] == pytest.approx(coverage["prediction_psi"], rel=1e-9)
    # Within a segment all weigh the same.
    inside = last["land=fine", "all"]
    assert inside.measures["ipw_accuracy"] == pytest.approx(inside.measures["accuracy"], rel=1e-9)
    assert inside.measures["ipw_n"] == pytest.approx(inside.n, rel=1e-9)


@pytest.mark.slow
def test_cuts_change_no_bit() -> None:
    assert_cuts_change_no_bit(reviewed(300)[0], 1)


@pytest.mark.parametrize(
    ("value", "usable"),
    [("1", True), ("0.001", True), ("1.0", True), ("null", True), ("1e-9", True), ("1e-10", False),
     ("0", False), ("-0.1", False), ("1.01", False), ('"0.5"', False), ("NaN", False), ("true", False)],
)  # fmt: skip
def test_a_propensity_is_above_0_and_up_to_1(value: str, usable: bool) -> None:
    text = f'{{"stream":"s","instance_id":1,"label_propensity":{value}}}'
    decoded = decode(INSTANCES, [text.encode()])
    assert (decoded.records[0] is not None) is usable
    assert usable or decoded.reasons[0]
