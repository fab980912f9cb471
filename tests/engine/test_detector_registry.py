"""A detector is a file and a line of the registry: whatever else knows detectors learns of it from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from helpers import advance, alarms_of, batch_of, restored, snapshot_of
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config, ConfigError
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.compiled.kernel import Ints
from prequential.engine.detectors import DETECTORS
from prequential.engine.detectors.declaration import Detector, Parameter
from prequential.engine.shard import Shard
from prequential.engine.tables.logs import raise_alarm
from prequential.topics.outputs import Alarm


class _Runs(NamedTuple):
    """By sequence: values in a row that were high (or low)."""

    length: Ints
    alarms: Ints


class _Settings(NamedTuple):
    length: int
    level: float
    side: int
    patient: bool


def _run(
    table: Any, settings: Any, log: Any, rows: Any, values: Any, fed: Any, detector: int, alarms: Any
) -> None:
    """An alarm after so many values in a row beyond a level."""
    for i, row in enumerate(rows):
        if fed[i]:
            q = log.sequence[row]
            far = values[i] > settings.level if settings.side == 0 else values[i] < settings.level
            table.length[q] = table.length[q] + 1 if far else 0
            if table.length[q] == settings.length:
                table.length[q] = 0
                table.alarms[q] += 1
                raise_alarm(alarms, i, detector, float(settings.length), settings.level)


def _problem(values: Any) -> str:
    return "level 0 needs side above" if values["level"] == 0 and values["side"] == "below" else ""


RUNS = Detector(
    (
        Parameter("length", 5, "values in a row", 1, 100),
        Parameter("level", 0.5, "where they begin to count", 0, 1, below=True),
        Parameter("side", "above", "of the level", among=("above", "below")),
        Parameter("patient", False, "nothing", always=False),
    ),
    _Settings,
    _Runs,
    _run,
    problem=_problem,
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry has one more."""
    monkeypatch.setitem(DETECTORS, "runs", RUNS)


def load(folder: Path, detector: str) -> DetectorConfig:
    file = folder / "c.yaml"
    file.write_text(f"defaults:\n  detectors:\n  - {detector}\n")
    (found,) = load_config(str(file)).defaults.detectors
    return found


def alarms(detector: DetectorConfig, wrong: str) -> list[Alarm]:
    """Those of a model that is wrong at these (1) of its predictions; halfway another shard takes over."""
    config = Config(defaults=StreamConfig(detectors=(detector,), stages=("final",), emit_every=None))
    about = [{"stream": "s", "instance_id": i, "ts": i} for i in range(len(wrong))]
    topics: list[Any] = [
        [],
        [(i, {**one, "model": "m", "y_pred": wrong[i] == "1"}) for i, one in enumerate(about)],
        [(i, {**one, "y_true": False}) for i, one in enumerate(about)],
    ]
    shard, outputs = Shard(config), []
    half = len(wrong) // 2
    for start, stop in ((0, half), (half, len(wrong))):
        for kind, rows in enumerate(topics):
            shard.add(batch_of(kind, rows, start if rows else 0, stop if rows else 0))
        advance(shard, 2)
        outputs += shard.flush()[0]
        shard = restored(config, snapshot_of(shard))
    return alarms_of(outputs)


def test_it_is_configured_runs_and_says_its_own_parameters(tmp_path: Path) -> None:
    config = load(tmp_path, "{detector: runs, length: 3}")
    assert config == DetectorConfig("runs", "error", {"length": 3})
    found = alarms(config, "0111011110111111")
    assert [alarm.outcome for alarm in found] == [4, 8, 13, 16]
    assert found[0].params == {"length": 3, "level": 0.5, "side": "above"}
    assert (found[0].detector, found[0].statistic, found[0].threshold) == ("runs", 3.0, 0.5)
    below = load(tmp_path, "{detector: runs, side: below, length: 2, patient: true}")
    (alarm,) = alarms(below, "0011")
    assert alarm.params == {"length": 2, "level": 0.5, "side": "below", "patient": True}
    assert alarm.id != found[0].id


def test_equal_detectors_are_equal_however_they_are_written(tmp_path: Path) -> None:
    assert load(tmp_path, "{detector: runs, level: 0.5, length: 5, side: above}") == DetectorConfig("runs")
    with pytest.raises(ConfigError, match="has the detector on error twice"):
        load(tmp_path, "{detector: runs}\n  - {detector: runs, length: 5}")


@pytest.mark.parametrize(
    ("detector", "words"),
    [
        ("{detector: runs, lenght: 5}", "'lenght' in defaults.detectors[0]; did you mean length?"),
        ("{detector: runs, delta: 5}", "'delta' in defaults.detectors[0]; known: detector, signal,"),
        ("{detector: page-hinkley, length: 5}", "unknown key 'length'"),
        ("{detector: runs, length: 101}", "detectors[0].length: 101: expected an integer from 1 to 100"),
        ("{detector: runs, length: true}", "length: True: expected an integer"),
        ("{detector: runs, level: 1}", "level: 1: expected a number of at least 0 and below 1"),
        ("{detector: runs, level: .nan}", "level: nan: expected a number"),
        ("{detector: runs, side: left}", "side: 'left': expected above or below"),
        ("{detector: runs, side: 1}", "side: 1: expected above or below"),
        ("{detector: runs, patient: 1}", "patient: 1: expected true or false"),
        ("{detector: runs, level: 0, side: below}", "defaults.detectors[0]: level 0 needs side above"),
        ("{detector: run}", "unknown detector 'run'; known: page-hinkley"),
    ],
)
def test_what_it_doesnt_accept_is_refused_with_line_and_expectation(
    tmp_path: Path, detector: str, words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, detector)
    assert "line 3: " in str(refused.value)
    assert words in str(refused.value)


def test_a_parameter_that_is_not_the_default_makes_another_detector() -> None:
    """Of a snapshot only the state of the same one is taken over."""
    settings = StreamConfig(detectors=(DetectorConfig("runs"),), stages=("final",), emit_every=None)
    shard = Shard(Config(defaults=settings))
    for kind, obj in ((1, {"model": "m", "y_pred": "a"}), (2, {"y_true": "b"})):
        shard.add(batch_of(kind, [(1, {"stream": "s", "instance_id": 1, "ts": 1, **obj})], 0, 1))
    advance(shard, 100)
    shard.flush()
    written = snapshot_of(shard)
    for params, missing in (({}, 0), ({"length": 5}, 0), ({"length": 6}, 1)):
        other = StreamConfig(
            detectors=(DetectorConfig("runs", params=params),), stages=("final",), emit_every=None
        )
        restored = Shard(Config(defaults=other)).restore(msgspec.msgpack.decode(part) for part in written)
        assert len(restored.begun) == missing, restored
