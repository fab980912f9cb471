"""Objectives are tested: what a configuration asks for, through the shard, against a plain loop."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import oracle
import pytest
from helpers import advance, alarms_of, batch_of, catch_up, live, restored, snapshot_of
from oracle_detectors import TESTS
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig, Objective, StreamConfig
from prequential.engine.detectors.objectives import every_detector
from prequential.engine.shard import Shard
from prequential.topics.outputs import Alarm
from test_comparisons import world_of_verdicts

from tests.nightly import few, scaled

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

COUNT = 4_800


def outcomes(seed: int, task: str = "classification") -> list[Any]:
    """Of a model that gets worse half-way: labels, predictions, probabilities; or numbers."""
    some = random.Random(seed)
    found: list[Any] = []
    for place in range(COUNT):
        bad = place >= COUNT / 2
        if task == "regression":
            found.append((0.0, some.gauss(0, 3 if bad else 1)))
            continue
        label = some.random() < 0.4
        wrong = some.random() < (0.45 if bad else 0.08)
        p = 0.7 + 0.25 * some.random()
        prediction = label != wrong
        found.append((label, prediction, p if prediction else 1 - p))
    return found


def raised(settings: StreamConfig, given: list[Any], most: int = 500, halves: bool = False) -> list[Alarm]:
    """Alarms of a stream with these outcomes, taken in rounds of so many records, by one shard or by two."""
    config = Config(defaults=replace(settings, stages=("final",), emit_every=None))
    rows: list[Any] = [[], [], []]
    for i, (label, *said) in enumerate(given):
        about = {"stream": "s", "instance_id": i, "ts": i}
        proba = {"y_proba": {"true": said[1], "false": 1 - said[1]}} if len(said) > 1 else {}
        rows[1].append((i, {**about, "model": "m", "y_pred": said[0], **proba}))
        rows[2].append((i, {**about, "y_true": label}))
    shard, outputs = Shard(config), list[Any]()
    for start, stop in ((0, 2_450), (2_450, COUNT)):
        shard.add(batch_of(1, rows[1], start, stop))
        shard.add(batch_of(2, rows[2], start, stop))
        advance(shard, most)
        outputs += shard.flush()[0]
        if halves:
            shard = restored(config, snapshot_of(shard))
    return [alarm for alarm in alarms_of(outputs) if alarm.detector == "harm"]


def losses(signal: str, given: list[Any]) -> list[float | None]:
    """What each outcome counts, by the definition of the measure."""
    found: list[float | None] = []
    for label, prediction, *p in given:
        if signal == "error":
            found.append(float(label != prediction))
        elif signal == "mse":
            found.append((prediction - label) ** 2)
        elif signal == "mae":
            found.append(abs(prediction - label))
        elif signal == "brier":
            found.append(2 * (p[0] - label) ** 2)
        elif signal == "recall":
            found.append(float(not prediction) if label else None)
        elif signal == "precision":
            found.append(float(not label) if prediction else None)
        else:
            found.append(float(prediction) if not label else None)
    return found


CASES: list[tuple[dict[str, float], str, dict[str, Any]]] = [
    ({"accuracy": 0.9}, "error", {"bound": 0.1, "tolerance": 0.02}),
    ({"recall": 0.85}, "recall", {"bound": 0.15, "tolerance": 0.02}),
    ({"error": 0.1}, "error", {"bound": 0.1, "tolerance": 0.02}),
    ({"precision": 0.85}, "precision", {"bound": 0.15, "tolerance": 0.02}),
    ({"specificity": 0.85}, "specificity", {"bound": 0.15, "tolerance": 0.02}),
    ({"brier": 0.2}, "brier", {"bound": 0.2, "tolerance": 0.02, "scale": 2.002001}),
    ({"mae": 1.0}, "mae", {"bound": 1.0, "tolerance": 0.02, "scale": 1.02}),
    ({"rmse": 1.5}, "mse", {"bound": 2.25, "tolerance": 0.0604, "scale": 2.3104}),
]


@pytest.mark.parametrize(("bounds", "signal", "params"), few(CASES, 2))
def test_a_bound_is_tested_by_its_losses(
    bounds: dict[str, float], signal: str, params: dict[str, Any]
) -> None:
    task = "regression" if signal in ("mae", "mse") else "classification"
    given = outcomes(3, task)
    settings = StreamConfig(task=task, objective=Objective(bounds, 0.02, 0.05), detectors=())
    found = raised(settings, given)
    test, expected = TESTS["harm"]({**params, "level": 0.05}, 0), []
    for place, loss in enumerate(losses(signal, given), start=1):
        alarm = test.add(loss) if loss is not None else None
        expected += [(place, *alarm)] if alarm is not None else []
    assert [alarm.outcome for alarm in found] == [place for place, _, _ in expected]
    (alarm,) = found
    ((place, low, theta),) = expected
    assert place > COUNT / 2
    assert (alarm.signal, alarm.statistic) == (signal, pytest.approx(low, rel=1e-6))
    assert alarm.threshold == pytest.approx(theta)
    shown = {"bound": params["bound"], "tolerance": params["tolerance"], "level": 0.05}
    assert alarm.params == {**shown, **({"scale": params["scale"]} if "scale" in params else {})}
    # Neither cuts nor a successor change anything.
    assert raised(settings, given, most=scaled(300, 7), halves=True) == found


@pytest.mark.parametrize(  # of the other seeds too many labels never come
    ("seed", "cluster"), few([(0, "auto"), (2, "5ms"), (2, "auto"), (4, "auto"), (0, "20ms")], 2)
)
def test_outcomes_count_by_cohorts_of_predictions(seed: int, cluster: str) -> None:
    """Labels as chance has it: alarms are those of the oracle's loop, live and in one go."""
    world = world_of_verdicts(seed, cluster=cluster)
    world.settings["defaults"]["detectors"] = [
        {"detector": "harm", "signal": "error", "bound": 0.05, "level": 0.5, "restart": 150}
    ]
    expected = oracle.run(world.settings, world.in_order()).alarms
    found = alarms_of(catch_up(world).outputs)
    assert [(one.model, one.outcome) for one in found] == [(one["model"], one["outcome"]) for one in expected]
    for one, other in zip(found, expected):
        assert one.statistic == pytest.approx(other["statistic"], rel=1e-6)
    assert found
    if seed == 0:
        assert alarms_of(live(world, random.Random(seed), takeovers=True).outputs) == found


def test_the_first_outcomes_are_the_reference() -> None:
    settings = StreamConfig(objective=Objective({}, 0.02, 0.01, 1_000), detectors=())
    given = outcomes(4)
    (alarm,) = raised(settings, given)
    reference = sum(label != prediction for label, prediction, _ in given[:1_000]) / 1_000
    assert reference + 0.02 < alarm.threshold < reference + 0.07
    assert COUNT / 2 < alarm.outcome < COUNT / 2 + 700
    assert alarm.params == {"bound": 0.0, "tolerance": 0.02, "level": 0.01, "reference": 1_000}


def test_what_is_no_mean_of_losses_has_a_bound_and_no_test(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("defaults: {objective: {kappa: 0.9, accuracy: 0.9}}")
    config = load_config(str(file)).defaults
    assert [one.detector for one in every_detector(config)] == ["page-hinkley", "page-hinkley", "harm"]
    assert [one.detector for one in config.detectors] == ["page-hinkley", "page-hinkley"]


def test_it_is_a_detector_as_others(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "defaults:\n  objective: {error: 0.1, tolerance: 0.01}\n"
        "  detectors: [{detector: harm, signal: brier, bound: 0.3}]\n"
        "streams: {numbers: {task: regression, objective: {reference: null, mse: 2}}}\n"
    )
    config = load_config(str(file))
    first, second = every_detector(config.defaults)
    assert first == DetectorConfig("harm", "brier", {"bound": 0.3})
    assert (second.signal, second.params["bound"], second.params["tolerance"]) == ("error", 0.1, 0.01)
    (of_numbers,) = every_detector(config.stream("numbers"))
    assert (of_numbers.signal, of_numbers.params["scale"]) == ("mse", 2.0)


def test_baselines_and_segments() -> None:
    """A baseline has no objective; a segment of a model has it by itself."""
    given = outcomes(5)
    config = Config(
        defaults=StreamConfig(
            objective=Objective({"accuracy": 0.9}), detectors=(), stages=("final",), emit_every=None,
            baselines=("persistent",), segments=("half",),
        )
    )  # fmt: skip
    shard = Shard(config)
    for kind in (1, 2):
        rows = []
        for i, (label, prediction, _) in enumerate(given):
            about: dict[str, Any] = {"stream": "s", "instance_id": i, "ts": i}
            if kind == 1:
                about |= {"model": "m", "y_pred": prediction, "segments": {"half": str(2 * i // COUNT)}}
            else:
                about["y_true"] = label
            rows.append((i, about))
        shard.add(batch_of(kind, rows, 0, COUNT))
    advance(shard, 500)
    found = alarms_of(shard.flush()[0])
    assert {(alarm.model, alarm.segment) for alarm in found} == {("m", None), ("m", "half=1")}
