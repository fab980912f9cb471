"""What a change is put down to: innocent events later, two changes, other models, harder inputs."""

from __future__ import annotations

import numpy as np
import pytest
from incident_streams import incidents
from prequential.engine.incidents import phases

from tests.evidence.attribution import BEFORE, CLUSTER, LATER, SCENARIOS, is_right, said


@pytest.mark.parametrize("seed", [2_000, 2_001])
@pytest.mark.parametrize(
    "name",
    [
        "innocent_version", "innocent_version_soon", "innocent_latency",
        "innocent_coverage", "worse_at_once",
        "version_of_one", "harder_inputs", "other_inputs", "sure_concept",
    ],
)  # fmt: skip
def test_what_came_with_the_change_is_its_cause(name: str, seed: int) -> None:
    scenario = SCENARIOS[name]
    found = said(scenario, seed)
    assert is_right(scenario, found[-1]), found[-1].causes


def test_two_changes_are_two_incidents_with_their_causes_and_times() -> None:
    stream = SCENARIOS["worse_version"].make(np.random.default_rng(2_000))
    found = {one.id: one for one in incidents(stream.records(), cluster=CLUSTER)}
    first, second = found.values()
    assert (first.status, second.status) == ("closed", "open")
    assert [one.causes[0]["cause"] for one in (first, second)] == ["concept", "model_version"]
    assert abs(first.change_point["outcome"] - BEFORE) <= 60
    assert abs(second.change_point["outcome"] - BEFORE - LATER) <= 100
    assert second.before["level"] == pytest.approx(0.35, abs=0.05)


def test_what_was_compared_is_said() -> None:
    last = said(SCENARIOS["harder_inputs"], 2_000)[-1]
    assert last.compared["by"] == ["label_latency", "confidence", "label", "prediction"]
    first, change = last.compared["before"]
    assert first == 1
    assert abs(change - last.change_point["outcome"]) <= 60  # of whole clusters
    assert change < last.compared["after"][0] <= last.compared["after"][1] <= last.outcome
    sure = last.causes[0]["confidence"]
    assert sure["before"] > sure["after"] + 0.05


def test_the_best_move_is_that_of_a_plain_loop() -> None:
    rng = np.random.default_rng(1)
    table = np.vstack((rng.multinomial(20, [0.5, 0.3, 0.2], 30), rng.multinomial(20, [0.3, 0.3, 0.4], 20)))
    chi = {}
    for k in range(3, 49):
        sides = np.array([table[2:k].sum(axis=0), table[k:49].sum(axis=0)], dtype=float)
        expected = sides.sum(axis=0) * sides.sum(axis=1, keepdims=True) / sides.sum()
        chi[k] = float(((sides - expected) ** 2 / expected).sum())
    best = max(chi, key=chi.__getitem__)
    at, statistic, there = phases.best_move(table.astype(float), 2, 10, 12, 49, np.zeros(3), np.zeros(3))
    assert at == best
    assert statistic == pytest.approx(chi[best])
    assert there == pytest.approx(max(chi[k] for k in (10, 11, 12)))
