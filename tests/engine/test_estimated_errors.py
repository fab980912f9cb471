"""A judge's predictions estimate errors before their labels: `objective.estimate`, against a plain loop."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from helpers import World, alarms_of, catch_up, live
from oracle_detectors import TESTS
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import ConfigError
from prequential.topics.outputs import Alarm

from tests.nightly import few, scaled

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

COUNT = 9_000

#: What may go wrong with estimates.
ALL, SOME, LATE, TWICE, CHANGED = "all", "some", "late", "twice", "changed"

OBJECTIVE = {"accuracy": 0.9, "tolerance": 0.02, "level": 0.05, "estimate": "judge"}


def world_of(seed: int, case: str, **objective: Any) -> World:
    """A model whose error rises from 10% to 22%; every fourth instance has a label, 3 s after its arrival.

    In case `SOME`, the judge predicts two of three instances. In case `LATE`, it predicts some
    later than the model, and some too late. In case `TWICE`, the model predicts an instance again late in
    the stream. In case `CHANGED`, the judge has its own changes.
    """
    some = random.Random(seed)
    predictions, labels = [], []
    for i in range(COUNT):
        t, y = 200 * i, some.random() < 0.5
        wrong = some.random() < (0.1 if i < COUNT / 2 else 0.22)
        differs = some.random() < (0.9 if wrong else 0.02)
        if case == CHANGED and i % 1_000 < 300:
            differs = some.random() < 0.4
        about = {"stream": "s", "instance_id": i}
        predictions.append((t, {**about, "ts": t, "model": "m", "y_pred": y != wrong}))
        if case == TWICE and i == COUNT - 1_500:
            predictions.append((t + 1, {**about, "ts": t + 1, "model": "m", "y_pred": y}))
        if case != SOME or i % 3:
            later = some.choice((0, 2_000, 4_000)) if case == LATE else 0
            predictions.append(
                (t + later, {**about, "ts": t + later, "model": "judge", "y_pred": y != (wrong != differs)})
            )
        if some.random() < 0.25:
            labels.append((t + 3_000, {**about, "ts": t + 3_000, "y_true": y}))
    predictions.sort(key=lambda row: row[0])
    settings: dict[str, Any] = {"objective": {**OBJECTIVE, **objective}, "detectors": [], "compare": "off"}
    settings |= {"stages": ["final"], "label_horizon": "3s", "emit": {"every": None}}
    return World({"defaults": settings}, [[], predictions, labels])


def plain(world: World) -> list[float]:
    """What each outcome of the model counts, in the order of labels, by the definitions."""
    said: dict[tuple[Any, str], bool] = {}
    deviations: dict[Any, float] = {}
    labelled: set[Any] = set()
    usual, count, used = 0.0, 0, True
    n, sum_x, sum_e, sum_xe, sum_ee = 0, 0.0, 0.0, 0.0, 0.0
    values = []

    def compare(instance: Any) -> None:
        nonlocal usual, count
        f = float(said[instance, "m"] != said[instance, "judge"])
        count += 1
        deviations[instance] = f - usual if count > 1 else 0.0
        usual += (f - usual) / min(count, 32)

    for kind, record, _ in world.in_order():
        instance = record["instance_id"]
        if kind == "labels":
            labelled.add(instance)
            x = float(record["y_true"] != said[instance, "m"])
            e, weight = deviations.get(instance, 0.0) if used else 0.0, 0.0
            if e:
                if n:
                    product, square = sum_xe - sum_x * sum_e / n, sum_ee - sum_e**2 / n
                    weight = min(max(product / (square + 1.0), 0.0), 0.5)
                n, sum_x, sum_e, sum_xe, sum_ee = n + 1, sum_x + x, sum_e + e, sum_xe + x * e, sum_ee + e * e
            values.append(x - weight * e + 0.5)
            continue
        model = record["model"]
        if (instance, model) in said and model == "m":
            used = False
        said[instance, model] = record["y_pred"]
        in_time = instance not in labelled and record["ts"] <= 200 * instance + 3_000
        if used and in_time and (instance, "m") in said and (instance, "judge") in said:
            compare(instance)
    return values


@pytest.mark.parametrize("case", few([LATE, CHANGED, ALL, SOME, TWICE], 2))
def test_alarms_are_where_a_plain_loop_has_them(case: str) -> None:
    world = world_of(1, case)
    found = harm_of(catch_up(world).outputs)
    # Half a loss more, and half a loss more allowed; `scale` gives ρ its value for estimates.
    test = TESTS["harm"]({"bound": 0.6, "tolerance": 0.02, "level": 0.05, "scale": 0.62}, 0)
    expected = [
        (place, *alarm) for place, x in enumerate(plain(world), 1) if (alarm := test.add(x)) is not None
    ]
    assert [one.outcome for one in found] == [place for place, _, _ in expected]
    ((place, low, _),) = expected
    (alarm,) = found
    assert place > COUNT / 8
    assert (alarm.statistic, alarm.threshold) == (pytest.approx(low - 0.5), pytest.approx(0.12))
    assert alarm.params["estimate"] is True
    # Neither cuts nor successors change anything.
    for seed in range(scaled(1, 5)):
        other = live(world, random.Random(seed), takeovers=0.05)  # of thousands of rounds
        assert harm_of(other.outputs) == found


def test_a_judge_that_is_right_saves_labels_and_one_that_is_never_there_costs_few() -> None:
    (with_judge,) = harm_of(catch_up(world_of(2, ALL)).outputs)
    (without,) = harm_of(catch_up(world_of(2, ALL, estimate=None)).outputs)
    (with_nobody,) = harm_of(catch_up(world_of(2, ALL, estimate="nobody")).outputs)
    change = COUNT / 8
    assert with_judge.outcome - change < 0.75 * (without.outcome - change)
    assert with_nobody.outcome - change < 1.5 * (without.outcome - change)


def harm_of(outputs: Any) -> list[Alarm]:
    return [one for one in alarms_of(outputs) if one.model == "m"]


def test_estimates_need_a_bound_of_the_error(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("defaults: {objective: {recall: 0.9, estimate: judge}}")
    with pytest.raises(ConfigError, match="it estimates errors: expected a bound of accuracy"):
        load_config(str(file))
    file.write_text("defaults: {detectors: [{detector: harm, signal: brier, estimate: true}]}")
    with pytest.raises(ConfigError, match="estimate is for signal error of classification"):
        load_config(str(file))
