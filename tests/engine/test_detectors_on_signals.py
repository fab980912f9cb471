"""Every detector on every sort of signal that it can watch; what it can't watch is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import batch_of
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config, ConfigError
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.detectors import DETECTORS
from prequential.engine.shard import Shard

BINARY = [name for name, detector in DETECTORS.items() if detector.binary]
OF_NUMBERS = [name for name in DETECTORS if name not in BINARY]


def test_sequences_draw_their_own_random_numbers() -> None:
    """The seed is a function of stream, model, segment, stage and signal, whatever comes first.

    `initial` has that of `final`, as it may be the same. It has a sequence of its own from an instance with a
    second prediction on.
    """
    detector = DetectorConfig("kswin", "error")
    config = Config(defaults=StreamConfig(detectors=(detector,), emit_every=None))
    seeds = []
    for models in (("a", "b"), ("b", "a")):
        shard = Shard(config)
        for kind, rows in (
            (1, [
                (ts, {"stream": "s", "instance_id": 1, "ts": ts, "model": m, "y_pred": "0"})
                for ts in (1, 2) for m in models
            ]),
            (2, [(3, {"stream": "s", "instance_id": 1, "ts": 3, "y_true": "0"})]),
        ):  # fmt: skip
            shard.add(batch_of(kind, rows, 0, len(rows)))
        shard.advance([1 << 62] * 3, 100)
        found = {}
        [plan] = shard.catalog.plans
        for row, entity in enumerate(shard.catalog.entities):
            if entity is not None:
                first = int(shard.catalog.registry.entities.first[row])
                own = plan.watches[0].table.seed[first : first + len(plan.stages)].tolist()
                found |= {(entity.model, stage): seed for stage, seed in zip(plan.stages, own)}
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
        ("{detector: page-hinkley, delta: -0.1}", "delta: -0.1: expected a number of at least 0"),
        ("{detector: page-hinkley, lambda: 0}", "lambda: 0: expected a number above 0"),
        ("{detector: page-hinkley, min_outcomes: 0}", "min_outcomes: 0: expected an integer from 1 to"),
        ("{detector: adwin, delta: 1}", "delta: 1: expected a number above 0 and below 1"),
        ("{detector: eddm, beta: 0.96}", "alpha 0.95 is below beta 0.96: expected at least beta"),
        ("{detector: kswin, stat_size: 51}", "stat_size is 51: expected at most half of window_size 100"),
        ("{detector: ecdd, average_run_length: 1000}", "average_run_length: 1000: expected 100 or 400"),
        ("{detector: ecdd, average_run_length: true}", "average_run_length: True: expected 100 or 400"),
    ],
)
def test_parameters_out_of_range_are_refused(tmp_path: Path, detector: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"defaults:\n  detectors:\n  - {detector}\n")
    assert "line 3: " in str(refused.value)
    assert words in str(refused.value)
