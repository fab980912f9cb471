"""What detectors would have said on the past: their alarms, and how right they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from prequential.cli.main import main
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.detectors import DETECTORS
from prequential.offline.backtesting import changes as detection
from prequential.offline.backtesting.changes import Injection, Judged, KnownChange, SequenceChange, judge
from prequential.offline.backtesting.making import alarms_of, inject
from prequential.offline.backtesting.sequences import PastSequence, ResampledRun, log_of, sequences
from prequential.offline.replay.sources import Source
from prequential.topics.decoding import KINDS
from prequential.topics.outputs import Alarm, Output

from tests.nightly import few

Captured = pytest.CaptureFixture[str]

COUNT, CHANGE = 3_000, 1_500

SIGNALS = ("fading:0.99", "window:50/window:500", "window:100:kappa", "window:100:cost")
#: What one of the mistakes costs; the other one is free.
COSTS = {"1": {"0": 5.0}}


def records(seed: int = 1, *, numbers: bool = False) -> dict[str, list[dict[str, Any]]]:
    """A model that becomes worse after outcome `CHANGE`, and one that doesn't."""
    rng = np.random.default_rng(seed)
    lines: dict[str, list[dict[str, Any]]] = {"predictions": [], "labels": []}
    for i in range(COUNT):
        about = {"stream": "s", "instance_id": i}
        y = float(rng.normal()) if numbers else int(rng.integers(0, 2))
        for model, error in (("worse", 0.1 if i < CHANGE else 0.4), ("same", 0.1)):
            off = rng.random() < error
            said = y + off * rng.normal() if numbers else (1 - y if off else y)
            lines["predictions"].append({**about, "model": model, "ts": 1_000 * i, "y_pred": said})
        lines["labels"].append({**about, "ts": 1_000 * i + 500, "y_true": y})
    return lines


def write(folder: Path, config: str, seed: int = 1) -> list[str]:
    """Options of a command that reads these records, with this configuration."""
    options = []
    for kind, lines in records(seed).items():
        (folder / f"{kind}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        options += [f"--{kind}", str(folder / f"{kind}.jsonl")]
    (folder / "config.yaml").write_text(config)
    return [*options, "--config", str(folder / "config.yaml")]


def everything(config: StreamConfig) -> list[PastSequence]:
    lines = records(numbers=config.task == "regression")
    sources = [
        Source(KINDS.index(kind), [json.dumps(line).encode() for line in of]) for kind, of in lines.items()
    ]
    return sequences(Config(defaults=config), sources)


def report(capsys: Captured, *options: str) -> Any:
    assert main(["detectors", *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


class TestJudging:
    def test_against_a_plain_loop(self) -> None:
        """An alarm finds a change within its window, which ends with the next change; further ones repeat."""
        rng = np.random.default_rng(1)
        for _ in range(200):
            n, tolerance = int(rng.integers(1, 60)), int(rng.integers(1, 30))
            alarms = np.flatnonzero(rng.random(n) < 0.2) + 1
            places = sorted({int(place) for place in rng.integers(1, 70, 3)})
            changes = [SequenceChange(place, int(rng.integers(0, 5))) for place in places]
            kept = [change for change in changes if change.outcome < n]
            delays: list[int | None] = [None] * len(kept)
            false_alarms = repeated = quiet = 0
            for outcome in range(1, n + 1):
                own = [
                    at for at, change in enumerate(kept)
                    if change.outcome < outcome <= change.outcome + change.width + tolerance
                ][-1:]
                if own and any(change.outcome < outcome for change in kept[own[0] + 1 :]):
                    own = []
                quiet += not own
                if outcome in alarms:
                    if not own:
                        false_alarms += 1
                    elif delays[own[0]] is None:
                        delays[own[0]] = outcome - kept[own[0]].outcome
                    else:
                        repeated += 1
            expected = Judged(tuple(delays), false_alarms, repeated, quiet)
            assert judge(alarms, changes, n, tolerance) == expected

    def test_who_always_and_who_never_raises_an_alarm(self) -> None:
        changes = [SequenceChange(5_000)]
        one, none = (
            detection.scores([judge(alarms, changes, 10_000, 1_000)], 1_000)
            for alarms in (np.arange(1, 10_001), np.zeros(0, np.int64))
        )
        assert (one.probability, one.false_alarms_per_10000, one.delay_mean) == (1.0, 10_000.0, 1.0)
        assert one.f1 == pytest.approx(2 / (2 + 9_000))
        assert (none.probability, none.false_alarms_per_10000, none.f1) == (0.0, 0.0, 0.0)
        assert none.delay_mean is None

    def test_what_has_nothing_to_be_divided_by_has_no_value(self) -> None:
        of = detection.scores([judge(np.zeros(0, np.int64), [], 100, 10)], 10)
        assert (of.probability, of.delay_mean, of.delay_median, of.precision, of.f1) == (None,) * 5
        assert of.false_alarms_per_10000 == 0.0


class TestDetectors:
    @pytest.mark.parametrize("signal", few(["error", *SIGNALS], 2))
    def test_all_of_the_registry_raise_the_alarms_of_a_replay(
        self, signal: str, tmp_path: Path, capsys: Captured
    ) -> None:
        names = [name for name in DETECTORS if signal == "error" or not DETECTORS[name].binary]
        costs = f"  costs: {json.dumps(COSTS)}\n"
        config = f"defaults:\n  stages: [final]\n{costs}  detectors:\n" + "".join(
            f"    - {{detector: {name}, signal: '{signal}'}}\n" for name in names
        )
        files = write(tmp_path, config)
        assert main(["replay", *files, "--alarms-out", str(tmp_path / "alarms.jsonl")]) == 0
        replayed = [json.loads(line) for line in (tmp_path / "alarms.jsonl").read_text().splitlines()]
        (tmp_path / "none.yaml").write_text(f"defaults:\n  stages: [final]\n  detectors: []\n{costs}")
        capsys.readouterr()
        for options in (files, [*files[:-1], str(tmp_path / "none.yaml"), "--detector", f"all {signal}"]):
            past = report(capsys, *options)["past"]
            found = [alarm for one in past["sequences"] for alarm in one["alarms"]]
            assert sorted(found, key=lambda one: one["id"]) == sorted(replayed, key=lambda one: one["id"])
        assert len(replayed) > 3

    def test_alarms_of_the_past_as_a_run_are_its_alarms(self) -> None:
        config = StreamConfig(
            stages=("final",), costs=COSTS,
            detectors=tuple(
                one for name in DETECTORS if name != "kswin" for one in detection.parse_detector(name)
            ) + tuple(DetectorConfig("page-hinkley", signal, {"lambda": 3.0}) for signal in SIGNALS),
        )  # fmt: skip
        outputs: list[Output] = []
        lines = records()
        sources = [
            Source(KINDS.index(kind), [json.dumps(line).encode() for line in of])
            for kind, of in lines.items()
        ]
        pasts = sequences(Config(defaults=config), sources, outputs.append)
        alarms = [output for output in outputs if isinstance(output, Alarm)]
        for past in pasts:
            itself = log_of(past, ResampledRun(np.arange(len(past)), None))
            twice = list(alarms_of(past, [("1", itself), ("2", itself)]))
            for detector, one, other in zip(config.detectors, *twice):
                own = [
                    alarm.outcome for alarm in alarms
                    if (alarm.model, alarm.detector, alarm.signal)
                    == (past.model, detector.detector, detector.signal)
                ]  # fmt: skip
                assert one.tolist() == other.tolist() == own
        assert len(alarms) > 20

    def test_names_can_be_given_again(self) -> None:
        for text in ("adwin", "page-hinkley window:9/all delta=0.1 lambda=100", "cusum k=0.25 direction=both",
                     "hddm-a two_sided_test=true"):  # fmt: skip
            [one] = detection.parse_detector(text)
            assert detection.parse_detector(detection.name_of(one)) == [one]
        assert len(detection.parse_detector("all")) == len(DETECTORS)

    def test_a_rise_is_found_more_often_the_larger_it_is(self) -> None:
        config = StreamConfig(stages=("final",), detectors=(DetectorConfig(params={"lambda": 20.0}),))
        past = next(one for one in everything(config) if one.model == "same")
        found = []
        for rise in (0.02, 0.1, 0.4):
            [judged] = inject(past, [Injection(rise, SequenceChange(1_000))], 30, 500, None)
            found.append(detection.scores(judged, 500))
        shares = [of.probability for of in found]
        assert shares == sorted(shares)
        assert shares[0] < 0.3
        assert shares[-1] == 1.0
        assert found[-1].delay_mean < 150

    def test_losses_of_numbers_rise_too(self) -> None:
        config = StreamConfig(
            task="regression", stages=("final",), detectors=tuple(detection.parse_detector("cusum h=20")),
        )  # fmt: skip
        past = next(one for one in everything(config) if one.model == "same")
        [judged] = inject(past, [detection.parse_injection("abrupt:0.3@1000")], 10, 500, None)
        of = detection.scores(judged, 500)
        assert of.probability == 1.0
        assert of.delay_mean < 300


class TestChanges:
    def test_a_time_is_a_place_in_each_sequence(self) -> None:
        past = everything(StreamConfig(stages=("final",)))[0]
        assert KnownChange(ts=1_000 * 99).change(past) == SequenceChange(100)
        assert KnownChange(ts=1_000 * 99 - 1).change(past) == SequenceChange(99)
        assert KnownChange(ts="1970-01-01T00:01:39Z").change(past) == SequenceChange(100)
        assert KnownChange(ts=10**12).change(past) is None
        assert KnownChange(ts=-1).change(past) is None
        assert KnownChange(outcome=COUNT).change(past) is None

    def test_a_change_is_of_the_sequences_that_it_names(self) -> None:
        same, worse = sorted(everything(StreamConfig(stages=("final",))), key=lambda one: one.model)
        known = [
            KnownChange(outcome=9),
            KnownChange(outcome=5, model="worse", width=3),
            KnownChange(outcome=9, width=2),
        ]
        assert detection.changes_of(known, same) == [SequenceChange(9, 2)]
        assert detection.changes_of(known, worse) == [SequenceChange(5, 3), SequenceChange(9, 2)]


class TestCommand:
    def test_tests_of_an_objective_are_detectors_too(self, tmp_path: Path, capsys: Captured) -> None:
        config = "defaults: {stages: [final], detectors: [], objective: {accuracy: 0.9, tolerance: 0.02}}"
        options = write(tmp_path, config)
        (line,) = report(capsys, *options)["past"]["lines"]
        assert line["detector"] == "harm error tolerance=0.02"
        (line,) = report(capsys, *options, "--detector", "adwin")["past"]["lines"]
        assert line["detector"] == "adwin error"

    CONFIG = "defaults: {stages: [final], detectors: [{detector: page-hinkley, lambda: 20}]}"

    def test_a_known_change_is_found(self, tmp_path: Path, capsys: Captured) -> None:
        (tmp_path / "changes.jsonl").write_text(f'{{"outcome": {CHANGE}, "model": "worse"}}\n\n')
        found = report(
            capsys, *write(tmp_path, self.CONFIG), "--changes", str(tmp_path / "changes.jsonl"),
            "--tolerance", "500",
        )  # fmt: skip
        by_name = {line["detector"]: line["scores"] for line in found["past"]["lines"]}
        one = by_name["page-hinkley error lambda=20"]
        assert (one["changes"], one["found"]) == (1, 1)
        assert 0 < one["delay_mean"] < 200
        assert sorted(one["delays"]) == [[], [int(one["delay_mean"])]]
        assert by_name["(always)"]["false_alarms_per_10000"] == 10_000
        assert by_name["(never)"]["f1"] == 0
        incidents = by_name["(incidents)"]
        [opened] = [one["opened"]["outcome"] for one in found["incidents"]["incidents"]]
        assert (incidents["changes"], incidents["found"]) == (1, 1)
        assert incidents["delay_mean"] == opened - CHANGE
        assert found["injected"] is None

    def test_tables_and_a_plot(self, tmp_path: Path, capsys: Captured) -> None:
        options = write(tmp_path, self.CONFIG)
        read_snapshot = tmp_path / "plot.svg"
        status = main([
            "detectors", *options, "--changes", str(CHANGE), "--inject", "gradual:0.3@1000+200",
            "--seeds", "5", "--model", "worse", "--detector", "adwin",
            "--detector", "page-hinkley window:100:kappa", "--plot", str(read_snapshot),
        ])  # fmt: skip
        assert status == 0
        said = capsys.readouterr().out
        for word in ("page-hinkley window:100:kappa", "adwin error", "(always)", "(never)", "10,000.00",
                     "gradual:0.3@1000+200: 5 streams like each past one, of 3,200 outcomes"):  # fmt: skip
            assert word in said
        svg = ElementTree.fromstring(read_snapshot.read_text())
        texts = [one.text or "" for one in svg.iter("{http://www.w3.org/2000/svg}text")]
        assert sum("share of changes found" in text for text in texts) == 2
        assert any("s, worse, final" in text for text in texts)

    def test_runs_are_the_same_each_time(self, tmp_path: Path, capsys: Captured) -> None:
        options = [*write(tmp_path, self.CONFIG), "--inject", "abrupt:0.1@500", "--seeds", "3"]
        options += ["--detector", "kswin", "--detector", "page-hinkley lambda=5"]
        assert report(capsys, *options) == report(capsys, *options)

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (["--detector", "adwim"], "--detector 'adwim': unknown detector 'adwim'; known: page-hinkley, "),
            (["--detector", "adwin delta=2"], "'adwin delta=2': delta: 2: expected a number above 0"),
            (["--detector", "adwin lambda=2"], "unknown parameter 'lambda'; known: signal, delta, clock"),
            (["--detector", "ddm window:9"], "detector ddm takes nothing but 0 and 1"),
            (["--detector", "adwin window:9:mae"], "never has a value with task classification"),
            (["--detector", "adwin", "--detector", "adwin error"], "--detector 'adwin error' is there twice"),
            (["--changes", "0"], "outcome 0: expected at least 1"),
            (["--changes", "{folder}/none"], "can't read"),
            (["--changes", "{folder}/bad"], "bad line 2: object contains unknown field `outcom`"),
            (["--inject", "abrupt:0.05"], "--inject 'abrupt:0.05': expected abrupt:RISE@OUTCOME"),
            (["--inject", "gradual:0.05@10"], "expected abrupt:RISE@OUTCOME or gradual"),
            (["--inject", "abrupt:0@10"], "all above 0"),
            (["--seeds", "5"], "--seeds is about streams that are made: expected --inject"),
            (["--inject", "abrupt:0.1@9", "--seeds", "0"], "'0': expected a whole number from 1"),
            (["--tolerance", "x"], "'x': expected a whole number"),
            (["--from-topics"], "--from-topics and --predictions exclude each other"),
            (["--plot", "{folder}/no/such.svg"], "can't write"),
        ],
    )
    def test_bad_input_is_one_sentence(
        self, options: list[str], says: str, tmp_path: Path, capsys: Captured
    ) -> None:
        (tmp_path / "bad").write_text('{"outcome": 5}\n{"outcom": 5}\n')
        files = write(tmp_path, self.CONFIG)
        try:
            status = main(["detectors", *files, *(one.format(folder=tmp_path) for one in options)])
        except SystemExit as ended:
            status = int(ended.code or 0)
        error = capsys.readouterr().err
        assert status == 2
        assert says in error
        assert error.count("\n") == 1

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (["--changes", "3000"], "no change of --changes lies within a sequence: the longest has 3000"),
            (["--inject", "abrupt:0.95@100"], "no streams could be made"),
            (["--model", "other"], "no sequence of --model 'other': there are same, worse"),
            (["--labels", "/dev/null"], "no labels"),
            (["--config", "{folder}/none.yaml"], "expected --detector"),
        ],
    )
    def test_nothing_to_be_said_has_failed(
        self, options: list[str], says: str, tmp_path: Path, capsys: Captured
    ) -> None:
        (tmp_path / "none.yaml").write_text("defaults: {detectors: []}")
        options = [one.format(folder=tmp_path) for one in options]
        assert main(["detectors", *write(tmp_path, self.CONFIG), *options]) == 1
        assert says in capsys.readouterr().err
