"""Alarms of periods before their labels are there: each once, wherever a process ends; and incidents."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from helpers import alarms_of, read
from oracle_cases import lab, pred
from prequential.configuration.settings.streams import Objective, PeriodAlarmConfig
from prequential.engine.detectors.objectives import MISS, UNUSUAL
from prequential.topics.outputs import Incident, Metrics, Output
from test_between_lives import Lives

from tests.nightly import scaled

SETTINGS: dict[str, Any] = {
    "period": 1_000, "emit_every": 500, "label_horizon": 2_800, "emit_outcomes": None, "detectors": (),
    "measures": ("accuracy",), "stages": ("final",), "baselines": (), "compare": "off",
    "objective": Objective({"accuracy": 0.7}),
    "period_alarms": PeriodAlarmConfig(1.5, 1.0, 2.0, 0.6),
}  # fmt: skip
CHANGE, END = 400, 500


def records(worse: float = 0.3) -> list[Any]:
    """Ten predictions a second, right in 90%, after `CHANGE` in `worse`; one in ten gets no label."""
    rng, found = random.Random(7), []
    for i in range(END):
        ts, guess = 1_000 + 100 * i, rng.choice("ab")
        right = rng.random() < (0.9 if i < CHANGE else worse)
        label = guess if right else "ab".replace(guess, "")
        came, missing = ts + 50 + int(rng.expovariate(1 / 600)), rng.random() < 0.1
        found.append((ts, pred(i, ts, guess, y_proba={guess: 0.75, "ab".replace(guess, ""): 0.25})))
        if not missing and came < ts + 2_500:
            found.append((came, lab(i, came, label)))
    return [record for _, record in sorted(found, key=lambda one: one[0])]


def test_they_are_what_messages_say_beyond_the_thresholds() -> None:
    found = [read(one) for one in Lives(**SETTINGS).go(*records())]
    thresholds, expected = SETTINGS["period_alarms"], []
    for message in found:
        if not isinstance(message, Metrics) or message.expected is msgspec.UNSET:
            continue
        said: Any = message.expected
        if "signals" not in said:
            continue
        start = message.period["start"]  # type: ignore[index, union-attr]
        for name, value in said["signals"].items():
            threshold = getattr(thresholds, name)
            if value is not None and abs(value) > threshold:
                expected.append((start, UNUSUAL, name, value, threshold, said["maturity"]))
        chance = said["measures"]["accuracy"].get("miss", 0.0)
        if chance >= thresholds.miss:
            expected.append((start, MISS, "accuracy", chance, thresholds.miss, said["maturity"]))
    first = {one[:3]: one for one in reversed(expected)}
    wanted = [one for one in expected if first[one[:3]] is one]
    raised = alarms_of(found)
    assert [
        (one.period["start"], one.detector, one.signal, one.statistic, one.threshold, one.period["maturity"])
        for one in raised if one.period is not msgspec.UNSET
    ] == wanted  # fmt: skip
    assert {one.signal for one in raised} == {"concept", "delays", "inputs", "accuracy"}
    assert len({one.id for one in raised}) == len(raised) < len(expected)
    assert {(one.stage, one.segment, one.instance_id) for one in raised} == {("period", None, "")}


def test_a_process_that_ends_says_none_twice() -> None:
    whole = alarms_of(Lives(**SETTINGS).go(*records()))
    for seed in range(scaled(1, 3)):
        rng, lives, found, rest = random.Random(seed), Lives(**SETTINGS), list[Output](), records()
        while rest:
            stop = rng.randrange(1, 200)
            found += lives.go(*rest[:stop])
            rest = rest[stop:]
            lives.next(**SETTINGS)
        assert alarms_of(found) == whole


def test_alarms_of_periods_join_the_incident_of_their_change() -> None:
    """They open none: in other records of the same alarms there is no lasting worsening yet."""
    silent = PeriodAlarmConfig(None, None, None, 0.95)
    found = Lives(**{**SETTINGS, "period_alarms": silent, "cluster": 1_000}).go(*records())
    [first, *others] = alarms_of(found)
    # Of a period behind the change, before all of its labels could be there.
    assert first.period["start"] >= 1_000 + 100 * CHANGE - 1_000  # type: ignore[index]
    assert first.statistic >= 0.95
    assert not [one for one in found[: found.index(first)] if isinstance(one, Incident)]
    [opened, *_] = incidents = [one for one in found if isinstance(one, Incident)]
    assert (opened.status, opened.alarms[0]) == ("open", first.id)
    assert opened.signals[0] == {
        "detector": MISS, "signal": "accuracy", "stage": "period", "segment": None,
        "outcome": first.outcome, "level": "alarm",
    }  # fmt: skip
    assert incidents[-1].alarms == [one.id for one in (first, *others)]


def test_unusual_periods_alone_open_no_incident() -> None:
    settings = {**SETTINGS, "objective": None, "cluster": 1_000}
    found = Lives(**settings).go(*records(0.9))
    assert alarms_of(found)
    assert not [one for one in found if isinstance(one, Incident)]
    found = Lives(**settings).go(*records(0.1))
    opened = next(one for one in found if isinstance(one, Incident))
    assert {one["detector"] for one in opened.signals} == {UNUSUAL}
    assert opened.causes[0]["cause"] != "not_clear"


@pytest.mark.parametrize("changed", [
    {"period_alarms": PeriodAlarmConfig(None, None, None, None)}, {"expected": False}, {"period": None},
])  # fmt: skip
def test_none_where_none_is_asked_for(changed: dict[str, Any]) -> None:
    assert not alarms_of(Lives(**{**SETTINGS, **changed, "objective": None}).go(*records()))
