"""Incidents open where something has changed, and nowhere else: simulated streams, from seeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
from prequential.topics.outputs import Alarm, Incident, Output

from tests.evidence.budgets import World, chain
from tests.incident_streams import QUIET, Stream, live

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes an hour without the compiler"),
]


def outputs(*parts: tuple[World, int], seed: int, **settings: Any) -> list[Output]:
    """What a shard with the default detectors puts out of a stream of these parts."""
    wrong = np.concatenate([np.zeros(n, np.uint8) for _, n in parts])
    start = 0
    for place, (world, n) in enumerate(parts):
        chain(1_000 * seed + place, world, wrong[start : start + n])
        start += n
    labels = np.random.default_rng(seed).integers(0, 2, len(wrong))
    return live(Stream(labels, wrong.astype(np.int64)).records(), replace(QUIET, estimators=(), **settings))


def opened(found: list[Output]) -> list[Incident]:
    """First messages of incidents."""
    return [one for one in found if isinstance(one, Incident) and one.revision == 1]


@pytest.mark.parametrize("world", [World(0.003), World(0.01), World(0.01, 0.8), World(0.1, 0.8)])
def test_alarms_of_streams_without_a_change_open_none(world: World) -> None:
    found = [outputs((world, 30_000), seed=seed) for seed in range(2)]
    assert sum(isinstance(one, Alarm) for run in found for one in run) >= 5
    assert sum(len(opened(run)) for run in found) == 0


@pytest.mark.parametrize(
    ("before", "after", "most"), [(0.05, 0.3, 450), (0.1, 0.5, 450), (0.01, 0.1, 450)]
)
def test_changes_do_as_soon_as_there_is_evidence(before: float, after: float, most: int) -> None:
    for seed in range(3):
        run = outputs((World(before), 6_000), (World(after), 3_000), seed=seed)
        [one] = opened(run)
        assert 6_000 < one.opened["outcome"] <= 6_000 + most
        begin = one.change_point["outcome"]  # earlier alarms are false, and belong to no incident
        alarms = [alarm.id for alarm in run if isinstance(alarm, Alarm) and alarm.outcome >= begin]
        assert one.alarms == alarms[: one.alarm_count]


def test_evidence_that_comes_later_opens_one_behind_its_alarm() -> None:
    """Errors in runs: the alarm is there long before it is clear that it is no chance.

    The stream lasts for seven hours, so clusters are given: on a first day the rise could be that of an hour.
    """
    run = outputs((World(0.3, 0.8), 20_000), (World(0.5, 0.8), 5_000), seed=1, cluster=5 * 60_000)
    [one] = opened(run)
    first = next(alarm for alarm in run if isinstance(alarm, Alarm) and alarm.id == one.alarms[0])
    assert 20_000 < one.opened["outcome"] <= 24_000
    assert first.outcome < one.opened["outcome"]
