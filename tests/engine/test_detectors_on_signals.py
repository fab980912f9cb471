"""Every detector on every sort of signal that it can watch; what it can't watch is refused."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import alarms_of, batch_of, restored, snapshot_of, vector
from prequential.configuration.reading.reader import load_config
from prequential.configuration.settings.model import Config, ConfigError
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.detectors import DETECTORS
from prequential.engine.detectors.watch import Signal, WatchedRows
from prequential.engine.measures.losses import ERROR
from prequential.engine.shard import Shard
from prequential.engine.tables.alarms import new_alarms
from prequential.engine.tables.outcomes import new_log
from prequential.topics.outputs import Alarm
from sequences import Codes, Outcomes, log_of, positives_of

BINARY = [name for name, detector in DETECTORS.items() if detector.binary]
OF_NUMBERS = [name for name in DETECTORS if name not in BINARY]

#: Those that look for a change; harm holds a signal against a bound.
OF_CHANGES = [name for name in OF_NUMBERS if name != "harm"]

#: Parameters with which they find a rise of the error in some hundred outcomes.
PARAMS: dict[str, dict[str, Any]] = {
    "page-hinkley": {"delta": 0.01, "lambda": 5.0}, "cusum": {"k": 0.5}, "adwin": {"delta": 0.5},
}  # fmt: skip

SIGNALS = (
    "error", "all", "window:100", "fading:0.99", "window:100/window:1000", "fading:0.97/fading:0.999",
    "window:50:kappa", "fading:0.97:g_mean", "all:error",
)  # fmt: skip

#: Outcomes before and after the change.
BEFORE, AFTER = 1_500, 1_000


def outcomes(seed: int) -> list[Codes]:
    """Of a model that begins to be wrong three times as often."""
    some = random.Random(seed)
    found: list[Codes] = []
    for place in range(BEFORE + AFTER):
        y = some.randrange(2)
        wrong = some.random() < (0.15 if place < BEFORE else 0.45)
        found.append((y, 1 - y if wrong else y, 0, 0))
    return found


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("name", OF_CHANGES)
def test_alarms_are_those_of_the_signals_values(name: str, signal: str) -> None:
    """However the outcomes are cut; and the change is found."""
    given = outcomes(5)
    config = DetectorConfig(name, signal, PARAMS.get(name, {}))
    sequence = Outcomes(StreamConfig(estimators=("all",), detectors=(config,)), 2)
    found: list[tuple[int, float]] = []
    for piece in vector(random.Random(1), len(given), (1, 30, 500)):
        raised = sequence.update(given[piece])
        found += [(piece.start + place, statistic) for place, statistic, _ in raised]

    log, rows = log_of(given), np.arange(len(given), dtype=np.int32)
    taken = WatchedRows(log, rows, 2, ERROR, positives_of(["0", "1"]))
    values, fed = Signal(signal, 30, 1, 2, ERROR).update(taken)
    detector = DETECTORS[name]
    settings = detector.configured(config.params)
    table: Any = detector.new_table(1, settings)
    if name == "kswin":
        table.seed[0] = sequence.plan.watches[0].table.seed[0]
    alarms = new_alarms(len(given))
    detector.run(table, settings, new_log(len(given)), rows, values, fed, 0, alarms)
    count = int(alarms.raised[0])
    assert found == list(zip(alarms.place[:count].tolist(), alarms.statistic[:count].tolist()))
    if signal not in ("all", "all:error"):  # the whole history moves too little
        assert any(BEFORE < place < BEFORE + 600 for place, _ in found)


def shard_alarms(config: Config, seed: int, stop: int, models: tuple[str, ...] = ("m",)) -> list[Alarm]:
    """Of models that get worse; another shard goes on after so many instances."""
    some = random.Random(seed)
    rows: list[Any] = [[], [], []]
    for i in range(1_200):
        about = {"stream": "s", "instance_id": i, "ts": i}
        wrong = some.random() < (0.1 if i < 800 else 0.6)
        rows[1] += [(i, {**about, "model": model, "y_pred": str(int(wrong))}) for model in models]
        rows[2].append((i, {**about, "y_true": "0"}))
    shard, found = Shard(config), []
    each = len(models)
    for start, end in ((0, stop), (stop, 1_200)):
        shard.add(batch_of(1, rows[1], start * each, end * each))
        shard.add(batch_of(2, rows[2], start, end))
        while shard.advance([1 << 62] * 3, 100):
            pass
        found += alarms_of(shard.flush()[0])
        shard = restored(config, snapshot_of(shard))
    return found


@pytest.mark.parametrize("name", DETECTORS)
def test_a_successor_raises_the_same_alarms(name: str) -> None:
    """Also in the middle of what a detector has gathered."""
    detector = DetectorConfig(name, "error", PARAMS.get(name, {}))
    config = Config(defaults=StreamConfig(detectors=(detector,), stages=("final",), emit_every=None))
    whole = shard_alarms(config, 1, 1_199)
    assert any(800 < alarm.outcome < 1_150 for alarm in whole)
    for stop in (1, 333, 810, 821):
        assert shard_alarms(config, 1, stop) == whole
    assert {alarm.detector for alarm in whole} == {name}
    assert all(list(alarm.params) == [*DETECTORS[name].params(detector.params)] for alarm in whole)


def test_sequences_draw_their_own_random_numbers() -> None:
    """The seed is a function of stream, model, segment, stage and signal, whatever comes first.

    `initial` has that of `final`, as it may be the same.
    """
    detector = DetectorConfig("kswin", "error")
    config = Config(defaults=StreamConfig(detectors=(detector,), emit_every=None))
    seeds = []
    for models in (("a", "b"), ("b", "a")):
        shard = Shard(config)
        for kind, rows in (
            (1, [(1, {"stream": "s", "instance_id": 1, "ts": 1, "model": m, "y_pred": "0"}) for m in models]),
            (2, [(1, {"stream": "s", "instance_id": 1, "ts": 1, "y_true": "0"})]),
        ):
            shard.add(batch_of(kind, rows, 0, len(rows)))
        shard.advance([1 << 62] * 3, 100)
        found = {}
        for plan in shard.catalog.plans:
            for row in range(plan.rows):
                about = shard.catalog.entities[plan.entity[row]]
                first = shard.catalog.registry.entities.first[plan.entity[row]]
                assert about is not None
                seed = int(plan.watches[0].table.seed[row])
                found[about.model, plan.stages[row - first]] = seed
        seeds.append(found)
    assert seeds[0] == seeds[1]
    assert len(seeds[0]) == 4
    assert [seeds[0][model, "initial"] == seeds[0][model, "final"] for model in "ab"] == [True, True]
    assert seeds[0]["a", "final"] != seeds[0]["b", "final"]


def load(folder: Path, text: str) -> Config:
    (folder / "c.yaml").write_text(text)
    return load_config(str(folder / "c.yaml"))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    ("signal", "task"),
    [("window:10", "classification"), ("all:kappa", "classification"), ("error", "regression")],
)
def test_what_is_made_for_0_and_1_watches_errors_of_classes_alone(
    tmp_path: Path, name: str, signal: str, task: str
) -> None:
    text = f"defaults:\n  task: {task}\n  detectors:\n  - {{detector: {name}, signal: '{signal}'}}\n"
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text)
    assert "line 4: defaults.detectors[0]: " in str(refused.value)
    assert f"detector {name} takes nothing but 0 and 1" in str(refused.value)
    assert f"here is signal {signal!r} with task {task}" in str(refused.value)


def test_a_stream_of_numbers_takes_over_what_it_can_have(tmp_path: Path) -> None:
    detectors = ", ".join(f"{{detector: {name}}}" for name in DETECTORS)
    config = load(tmp_path, f"defaults: {{detectors: [{detectors}]}}\nstreams: {{a: {{task: regression}}}}")
    assert [one.detector for one in config.streams["a"].detectors] == OF_NUMBERS


@pytest.mark.parametrize(
    ("detector", "words"),
    [
        ("{detector: adwin, delta: 1}", "delta: 1: expected a number above 0 and below 1"),
        ("{detector: adwin, max_buckets: 1}", "max_buckets: 1: expected an integer from 2 to 100"),
        ("{detector: eddm, beta: 0.96}", "alpha 0.95 is below beta 0.96: expected at least beta"),
        ("{detector: kswin, stat_size: 51}", "stat_size is 51: expected at most half of window_size 100"),
        ("{detector: ecdd, average_run_length: 1000}", "average_run_length: 1000: expected 100 or 400"),
        ("{detector: ecdd, average_run_length: true}", "average_run_length: True: expected 100 or 400"),
        ("{detector: hddm-a, two_sided_test: 1}", "two_sided_test: 1: expected true or false"),
        ("{detector: cusum, direction: down}", "direction: 'down': expected increase, decrease or both"),
    ],
)
def test_parameters_out_of_range_are_refused(tmp_path: Path, detector: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"defaults:\n  detectors:\n  - {detector}\n")
    assert "line 3: " in str(refused.value)
    assert words in str(refused.value)
