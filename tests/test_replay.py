"""Replay of files: Elec2 from end to end against plain loops, and the command around it."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import oracle_detection
import pytest
from prequential.cli.main import main
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.offline.replay.sources import Source, by_count, every_for, read_lines, replay
from prequential.offline.replay.sources import for_files as files_config
from prequential.topics.decoding import INSTANCES, KINDS, LABELS, PREDICTIONS
from prequential.topics.outputs import Alarm, Comparison, DeadLetter, Incident, Message, Metrics, decoded

ELEC2 = Path(__file__).parent / "data" / "elec2.csv.gz"

HALF_HOUR = 1_800_000  # ms
DAY = 48 * HALF_HOUR

#: ts of the first row (ms): 7 May 1996, the data set's first day.
START = 831_427_200_000

Captured = pytest.CaptureFixture[str]

#: Rows of Elec2; a label that repeats the one before; labels DOWN (see tests/data/README.md).
ROWS, REPEATS, DOWN = 45_312, 38_664, 26_075


@cache
def elec2() -> list[str]:
    """The labels."""
    with gzip.open(ELEC2, "rt", encoding="ascii") as file:
        return [row["class"] for row in csv.DictReader(file)]


Lines = dict[str, list[bytes]]


def lines_of(labels: Sequence[str], delay: int) -> Lines:
    """The three files. Labels come `delay` ms after their instance and its predictions.

    Two models: `persistent` says the label before (at first DOWN, which is wrong), `majority` DOWN.
    """
    files: Lines = {kind: [] for kind in KINDS}
    said = "DOWN"
    for i, label in enumerate(labels):
        t0 = START + i * HALF_HOUR
        about = f'{{"stream":"elec2","instance_id":{i},"ts":{t0}'
        files["instances"].append(f"{about}}}".encode())
        for model, guess in (("persistent", said), ("majority", "DOWN")):
            line = f'{about},"model":"{model}","y_pred":"{guess}"}}'
            files["predictions"].append(line.encode())
        line = f'{{"stream":"elec2","instance_id":"{i}","ts":{t0 + delay},"y_true":"{label}"}}'
        files["labels"].append(line.encode())
        said = label
    return files


def outputs_of(config: Config, files: Lines) -> list[Message]:
    """All that a replay puts out."""
    outputs: list[Message] = []
    sources = [Source(KINDS.index(kind), lines) for kind, lines in files.items()]
    replay(config, sources, lambda output: outputs.append(decoded(output)))
    return outputs


@dataclass
class Truth:
    """What a plain loop over Elec2 says, for one model."""

    right: list[bool]
    persistent: list[bool]
    majority: list[bool]

    @classmethod
    def of(cls, model: str) -> Truth:
        truth = cls([], [], [])
        counts: Counter[str] = Counter()  # keeps the order in which classes came
        last = None
        for label in elec2():
            guess = (last or "DOWN") if model == "persistent" else "DOWN"
            truth.right.append(guess == label)
            truth.persistent.append(last == label)
            most = max(counts, key=counts.__getitem__) if counts else None  # ties: seen first
            truth.majority.append(most == label)
            counts[label] += 1
            last = label
        return truth


@pytest.fixture(scope="module")
def outputs() -> list[Message]:
    """Elec2 with immediate labels: although of the same ts, they come after the predictions."""
    config = Config(defaults=StreamConfig(emit_every=None))
    return outputs_of(config, lines_of(elec2(), 0))


def last_of(outputs: list[Message]) -> dict[tuple[str, str, str], Metrics]:
    """The last message of each (model, stage, estimator)."""
    return {(m.model, m.stage, m.estimator): m for m in outputs if isinstance(m, Metrics)}


BOTH_MODELS = pytest.mark.parametrize("model", ["persistent", "majority"])


@pytest.mark.slow
class TestElec2:
    def test_the_data_are_what_their_readme_says(self) -> None:
        labels = elec2()
        assert len(labels) == ROWS
        assert sum(a == b for a, b in pairwise(labels)) == REPEATS
        assert Counter(labels) == {"DOWN": DOWN, "UP": ROWS - DOWN}

    def test_one_model_is_as_good_as_its_baseline_and_the_other_as_chance(
        self, outputs: list[Message]
    ) -> None:
        """Both are exactly so: the first one says what the persistent baseline says, the other a constant."""
        last = last_of(outputs)
        persistent, majority = (last[model, "final", "all"] for model in ("persistent", "majority"))
        assert (persistent.n, persistent.outcomes) == (ROWS, ROWS)
        assert persistent.measures["accuracy"] == persistent.measures["p_per"] == REPEATS / ROWS
        assert persistent.measures["kappa_per"] == persistent.measures["kappa_plus"] == 0.0
        assert not persistent.undefined.keys() & {"accuracy", "kappa", "kappa_per", "kappa_plus", "mcc"}
        assert persistent.ts == START + (ROWS - 1) * HALF_HOUR
        assert (majority.measures["accuracy"], majority.measures["kappa"]) == (DOWN / ROWS, 0.0)

    @BOTH_MODELS
    def test_all_measures_of_all_estimators(self, outputs: list[Message], model: str) -> None:
        truth = Truth.of(model)
        last = last_of(outputs)

        def faded(right: list[bool]) -> float:
            s = n = 0.0
            for x in right:
                s, n = x + 0.999 * s, 1 + 0.999 * n
            return s / n

        shares = {
            "all": lambda right: sum(right) / ROWS,
            "window:1000": lambda right: sum(right[-1000:]) / 1000,
            "fading:0.999": faded,
        }
        for estimator, share in shares.items():
            found = last[model, "final", estimator].measures
            p, p_per, p_maj = map(share, (truth.right, truth.persistent, truth.majority))
            wanted = {
                "accuracy": p, "error": 1 - p, "p_per": p_per, "p_maj": p_maj,
                "kappa_per": (p - p_per) / (1 - p_per), "kappa_maj": (p - p_maj) / (1 - p_maj),
            }  # fmt: skip
            for name, value in wanted.items():
                assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-9), (estimator, name)
            assert abs(found["kappa_per"]) < 1e-3 or model == "majority"

    @BOTH_MODELS
    def test_alarms_are_at_their_places(self, outputs: list[Message], model: str) -> None:
        right = Truth.of(model).right
        for config in StreamConfig().detectors:
            delta, threshold = (0.005, 50.0) if config.signal == "error" else (0.1, 100.0)
            detector = oracle_detection.PageHinkley(delta, threshold, 30)
            signal = signal_of(config.signal, right)
            wanted = [
                (place, statistic)
                for place, x in enumerate(signal, start=1)
                if x is not None and (statistic := detector.add(x)) is not None
            ]
            found = [
                alarm for alarm in outputs
                if isinstance(alarm, Alarm) and alarm.signal == config.signal
                and (alarm.model, alarm.stage) == (model, "final")
            ]  # fmt: skip
            assert [alarm.outcome for alarm in found] == [place for place, _ in wanted]
            assert [alarm.statistic for alarm in found] == pytest.approx([s for _, s in wanted])
            assert [alarm.instance_id for alarm in found] == [str(p - 1) for p, _ in wanted]
            assert all(alarm.threshold == threshold for alarm in found)
            assert found or config.signal != "error"

    def test_messages_come_after_every_thousandth_outcome_and_at_the_end(
        self, outputs: list[Message]
    ) -> None:
        """Both models, two stages that are one, three estimators; nothing else is put out but alarms."""
        metrics = [m for m in outputs if isinstance(m, Metrics)]
        places = [*range(1000, ROWS, 1000), ROWS]
        assert len(metrics) == 6 * len(places) == 276
        for key in last_of(outputs):
            mine = [m.outcomes for m in metrics if (m.model, m.stage, m.estimator) == key]
            assert mine == places
        assert len({m.id for m in metrics}) == len(metrics)
        others = sum(isinstance(output, (Alarm, Comparison, Incident)) for output in outputs)
        assert len(metrics) + others == len(outputs)
        zero = dict.fromkeys(metrics[0].counts, 0)
        assert all(m.counts == zero for m in metrics)

    def test_labels_a_millisecond_later_change_nothing_but_times(self) -> None:
        config = Config(defaults=StreamConfig(emit_every=None, coverage=False))
        at_once, later = (
            [
                output for output in outputs_of(config, lines_of(elec2()[:1200], delay))
                if not isinstance(output, Incident)
            ]
            for delay in (0, 1)
        )  # fmt: skip
        for output in later:
            assert isinstance(output, (Metrics, Alarm, Comparison))
            output.ts -= 1
        for output in (*at_once, *later):
            if isinstance(output, Comparison):
                output.id = ""  # which has the time
        assert len(later) == len(at_once)
        assert all(delayed == undelayed for delayed, undelayed in zip(later, at_once))

    @pytest.mark.parametrize("delay", [0, DAY])
    def test_messages_come_when_time_passes_a_multiple(self, delay: int) -> None:
        """With the state just before: labels of the multiple itself belong to the next one."""
        every = 30 * DAY
        count = 9_000
        settings = StreamConfig(emit_outcomes=None, emit_every=every)
        outputs = outputs_of(Config(defaults=settings), lines_of(elec2()[:count], delay))
        label_times = [START + i * HALF_HOUR + delay for i in range(count)]
        first, end = START, label_times[-1]
        multiples = [m * every for m in range(first // every + 1, end // every + 1)]
        wanted = [sum(t < multiple for t in label_times) for multiple in multiples]
        assert len(wanted) > 5
        found = [
            m.outcomes for m in outputs if isinstance(m, Metrics)
            and (m.model, m.stage, m.estimator) == ("majority", "final", "all")
        ]  # fmt: skip
        assert found == [*wanted, count]


def signal_of(name: str, right: list[bool]) -> Iterator[float | None]:
    """`error`, or a ratio of two fading errors."""
    if name == "error":
        yield from (float(not x) for x in right)
        return
    factors = [float(part.partition(":")[2]) for part in name.split("/")]
    sums, counts = [0.0, 0.0], [0.0, 0.0]
    for seen, x in enumerate(right, start=1):
        for i, factor in enumerate(factors):
            sums[i] = (not x) + factor * sums[i]
            counts[i] = 1 + factor * counts[i]
        short, long = (s / n for s, n in zip(sums, counts))
        yield short / long if long > 0 and seen >= 30 else None


# ---- sources


class TestSource:
    def test_lines(self) -> None:
        stream = io.BytesIO(b"a\nb\r\n\nc d \n\xff")
        assert read_lines(stream) == [b"a", b"b", b"", b"c d ", b"\xff"]

    def test_records_without_a_time_go_with_the_one_before(self) -> None:
        """So do those without any sense; those at the start go with the first that has a time.

        A blank line is no record.
        """
        lines = [
            b'{"stream":"s","instance_id":"a"}',
            b"junk",
            *(
                json.dumps({"stream": "s", "instance_id": name, **ts}).encode()
                for name, ts in (
                    ("b", {"ts": 20}), ("c", {}), ("d", {"ts": 10}), ("e", {"ts": None}),
                    ("f", {"ts": "1970-01-01T00:00:00.020Z"}), ("g", {"ts": 15}),
                )
            ),
            b"",
        ]  # fmt: skip
        source = Source(INSTANCES, lines)
        (batch,) = source.batches()
        assert batch.times.tolist() == [10, 10, 15, 20, 20, 20, 20, 20]
        names = [None if r is None else r.instance_id for r in batch.records]  # type: ignore[union-attr]
        assert names == ["d", "e", "g", "a", None, "b", "c", "f"]
        assert [source.row(offset) + 1 for offset in batch.offsets] == [5, 6, 8, 1, 2, 3, 4, 7]

    def test_no_time_at_all(self) -> None:
        (batch,) = Source(LABELS, [b"junk", b"{}"]).batches()
        assert batch.times.tolist() == [0, 0]
        assert list(Source(PREDICTIONS, []).batches()) == []

    def test_many_batches_are_one_file(self) -> None:
        lines = [json.dumps({"stream": "s", "instance_id": i, "ts": i % 3}).encode() for i in range(25_000)]
        batches = list(Source(INSTANCES, lines).batches())
        assert len(batches) > 1
        offsets = [offset for batch in batches for offset in batch.offsets]
        assert offsets == list(range(25_000))
        found = [int(r.instance_id) for batch in batches for r in batch.records if r is not None]
        assert found == sorted(range(25_000), key=lambda i: i % 3)


def test_an_empty_replay() -> None:
    assert outputs_of(Config(), {kind: [] for kind in KINDS}) == []
    assert outputs_of(Config(), {}) == []


def test_progress_counts_every_record() -> None:
    files = lines_of(elec2()[:700], 0)
    files["labels"].append(b"junk")
    processed: list[int] = []
    sources = [Source(KINDS.index(kind), lines) for kind, lines in files.items()]
    config = Config(defaults=StreamConfig(emit_every=None))
    replay(config, sources, lambda output: None, processed.append)
    assert sum(processed) == sum(map(len, files.values())) == 2801


def test_the_order_of_lines_doesnt_matter_where_times_differ() -> None:
    """Files needn't be sorted."""
    files = lines_of(elec2()[:500], 1)
    config = Config(defaults=StreamConfig(emit_outcomes=50, emit_every=None))
    wanted = outputs_of(config, files)
    # Predictions of one time keep their order: it says which model comes first.
    pairs = list(zip(files["predictions"][::2], files["predictions"][1::2]))
    random.Random(1).shuffle(pairs)
    mixed = {**files, "predictions": [line for pair in pairs for line in pair]}
    for kind in ("instances", "labels"):
        mixed[kind] = random.Random(2).sample(files[kind], 500)
    assert outputs_of(config, mixed) == wanted


# ---- the command


#: Instances of a small stream.
FEW = 120


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The three files of a small stream, and a configuration with many messages."""
    for kind, lines in lines_of(elec2()[:FEW], 1).items():
        (tmp_path / kind).write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "c.yaml").write_text("defaults: {emit: {outcomes: 20, every: null}}")
    return tmp_path


def loaded(text: str) -> Config:
    """A configuration as it is read."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        return load_config(file.name)


def rows(path: Path) -> list[Any]:
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    return [json.loads(line) for line in content.splitlines()]


def run(folder: Path, **options: Any) -> int:
    """`prequential replay` on the folder's files; an option None is left out."""
    given: dict[str, Any] = {
        "config": folder / "c.yaml", "instances": folder / "instances",
        "predictions": folder / "predictions", "labels": folder / "labels",
        "metrics_out": folder / "metrics", "alarms_out": folder / "alarms",
        "incidents_out": folder / "incidents", "dead_letters_out": folder / "dead-letters", **options,
    }  # fmt: skip
    argv = ["replay"]
    for name, argument in given.items():
        if argument is not None:
            argv += [f"--{name.replace('_', '-')}", str(argument)]
    return main(argv)


def complaint(capfd: Captured) -> str:
    """The one sentence on standard error."""
    error = capfd.readouterr().err
    assert error.startswith("prequential: ")
    assert error.count("\n") == 1
    return error


class TestCommand:
    def test_it_writes_what_the_engine_puts_out(self, folder: Path) -> None:
        detector = "{detector: page-hinkley, signal: error, delta: 0.005, lambda: 2}"
        (folder / "c.yaml").write_text(
            f"defaults: {{emit: {{outcomes: 100, every: null}}, detectors: [{detector}], cluster: 5h}}"
        )
        lines = lines_of([*["DOWN", "DOWN", "UP", "DOWN"] * 75, *["UP", "UP", "DOWN", "UP"] * 75], 1)
        for kind, some in lines.items():
            (folder / kind).write_bytes(b"\n".join(some) + b"\n")
        assert run(folder) == 0
        outputs = outputs_of(load_config(str(folder / "c.yaml")), lines)
        for path, kind in (("metrics", Metrics), ("alarms", Alarm), ("incidents", Incident)):
            wanted = [msgspec.to_builtins(output) for output in outputs if isinstance(output, kind)]
            assert rows(folder / path) == wanted
            assert wanted
        assert rows(folder / "dead-letters") == []

    def test_a_terminal_sees_how_far_it_is(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
    ) -> None:
        """With rate and time left; what isn't a terminal sees the summary alone."""
        assert run(folder) == 0
        assert capfd.readouterr().err.startswith("read: 120 instances, 240 predictions, 120 labels;")
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal
        assert run(folder) == 0
        said = capfd.readouterr().err
        assert "reading labels" in said
        assert "records/s" in said
        assert "100%" in said

    def test_messages_have_the_contracts_fields(self, folder: Path) -> None:
        assert run(folder) == 0
        assert list(rows(folder / "metrics")[0]) == [
            "id", "stream", "partition", "model", "segment", "stage", "estimator", "n", "outcomes", "ts",
            "measures", "undefined", "counts", "config", "same",
        ]  # fmt: skip

    def test_instances_may_be_missing(self, folder: Path) -> None:
        """t0 is then the earliest prediction's, which is the same here. That they are missing is counted."""
        assert run(folder) == 0
        wanted = rows(folder / "metrics")
        assert run(folder, instances=None) == 0
        found = rows(folder / "metrics")
        for message in wanted:
            if "coverage" in message:
                assert message["coverage"]["predictions_without_instance"] == 0
                message["coverage"]["predictions_without_instance"] = 2 * FEW
        assert found == wanted

    def test_compressed_files_both_ways(self, folder: Path) -> None:
        assert run(folder) == 0
        wanted = (folder / "metrics").read_bytes()
        for kind in KINDS:
            (folder / f"{kind}.gz").write_bytes(gzip.compress((folder / kind).read_bytes()))
        compressed = {kind: folder / f"{kind}.gz" for kind in KINDS}
        assert run(folder, **compressed, metrics_out=folder / "metrics.gz") == 0
        assert gzip.decompress((folder / "metrics.gz").read_bytes()) == wanted

    @pytest.mark.parametrize("way", ["plain", "gz", "-"])
    def test_a_byte_order_mark_is_no_part_of_the_first_record(
        self, folder: Path, way: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of any of the files; one that holds nothing else has no record."""
        assert run(folder) == 0
        wanted = (folder / "metrics").read_bytes()
        for kind in KINDS:
            content = codecs.BOM_UTF8 + (folder / kind).read_bytes()
            path = folder / f"{kind}.bom{'.gz' if way == 'gz' else ''}"
            path.write_bytes(gzip.compress(content) if way == "gz" else content)
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
            given = {kind: "-" if way == "-" else path}
            assert run(folder, **given, dead_letters_out=folder / "letters") == 0
            assert (folder / "letters").read_bytes() == b""
            assert (folder / "metrics").read_bytes() == wanted
        assert read_lines(io.BytesIO(codecs.BOM_UTF8)) == []
        assert read_lines(io.BytesIO(codecs.BOM_UTF8 + b"\n{}")) == [b"", b"{}"]
        inside = b"{}\n" + codecs.BOM_UTF8 + b"{}"
        assert read_lines(io.BytesIO(inside)) == inside.split(b"\n"), "only at the beginning of a file"

    def test_standard_streams(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        assert run(folder) == 0
        wanted = (folder / "metrics").read_bytes()
        labels = SimpleNamespace(buffer=io.BytesIO((folder / "labels").read_bytes()))
        monkeypatch.setattr(sys, "stdin", labels)
        assert run(folder, labels="-", metrics_out="-") == 0
        assert capfdbinary.readouterr().out == wanted

    def test_outputs_that_nobody_asked_for_are_not_written(self, folder: Path) -> None:
        outs = dict.fromkeys(("metrics_out", "alarms_out", "incidents_out", "dead_letters_out"))
        before = sorted(folder.iterdir())
        assert run(folder, **outs) == 0
        assert sorted(folder.iterdir()) == before

    def test_dead_letters_tell_where_and_why(self, folder: Path) -> None:
        """By the line of the file as it is, sorted or not; the rest goes on as if they weren't."""
        assert run(folder) == 0
        wanted = (folder / "metrics").read_bytes()
        good = (folder / "labels").read_bytes().splitlines()
        random.Random(1).shuffle(good)
        bad = {3: b"3", 10: b"\xffjunk", 50: b'{"stream":"elec2"}', 100: b'{"y_true":NaN}'}
        lines = list(good)
        for place, line in bad.items():
            lines.insert(place, line)
        (folder / "labels").write_bytes(b"\n".join(lines))
        fraction = b'{"stream":"elec2","model":"majority","instance_id":0,"y_pred":["a"]}'
        with (folder / "predictions").open("ab") as file:
            file.write(fraction)
        assert run(folder) == 0
        assert (folder / "metrics").read_bytes() == wanted
        letters = rows(folder / "dead-letters")
        assert all(list(letter) == [
            "error", "topic", "partition", "offset", "key", "value",
        ] for letter in letters)  # fmt: skip
        assert {(x["topic"], x["offset"], x["value"]) for x in letters} == {
            ("predictions", 2 * FEW, fraction.decode()),
            *(("labels", place, line.decode("utf-8", "replace")) for place, line in bad.items()),
        }
        assert {x["error"] for x in letters if x["topic"] == "predictions"} == {
            "y_pred is '[\"a\"]', a set of labels: expected one class, or `task: multilabel`"
        }
        assert all(x["key"] is None and x["partition"] == 0 and x["error"] for x in letters)


#: ms between two instances of `served`, and how many there are of two models: some 83 days.
STEP, SERVED = 360_000, 20_000


@cache
def served() -> Lines:
    """Predictions of two models and labels with real times: an instance each six minutes."""
    files: Lines = {"predictions": [], "labels": []}
    for i in range(SERVED):
        about = f'{{"stream":"s","instance_id":{i},"ts":{START + i * STEP}'
        files["predictions"] += [f'{about},"model":"{model}","y_pred":"a"}}'.encode() for model in "mn"]
        files["labels"].append(f'{about},"y_true":"{"ab"[i % 7 == 0]}"}}'.encode())
    return files


@cache
def by_default() -> list[Message]:
    """What a replay of them says."""
    return outputs_of(Config(), served())


class TestEmission:
    """Files by default say something as often as a curve needs; whoever asks for more gets it."""

    @pytest.fixture
    def files(self) -> Lines:
        return served()

    @staticmethod
    def counts(outputs: list[Message]) -> Counter[tuple[str, str, str]]:
        return Counter((m.model, m.stage, m.estimator) for m in outputs if isinstance(m, Metrics))

    def test_by_default_a_sequence_has_at_most_a_thousand_points(self) -> None:
        found = self.counts(by_default())
        assert len(found) == 6
        # 2,000 hours: every three hours, every thousandth outcome (6 of which coincide), and the last set.
        assert set(found.values()) == {666 + 20 - 6 + 1}
        assert max(found.values()) <= 1000

    def test_what_is_configured_is_kept(self) -> None:
        """Also where it is what a worker does by default."""
        count = 1_010
        sizes = {"predictions": 2 * count, "labels": count}
        short = {kind: lines[: sizes[kind]] for kind, lines in served().items()}

        def points(config: str) -> int:
            (found,) = set(self.counts(outputs_of(loaded(config), short)).values())
            return found

        assert points("defaults: {emit: {every: 1s}}") == count  # after each but the last, and the last set
        assert points("{streams: {s: {emit: {every: 1s}}}, defaults: {settle: 1m}}") == count
        assert points("defaults: {emit: {every: null}}") == 2
        assert points("defaults: {emit: {outcomes: null}}") == 606  # 101 hours: every ten minutes

    def test_a_worker_and_its_replay_keep_ten_seconds(self) -> None:
        assert StreamConfig().emit_every == 10_000
        assert files_config(loaded("{}"), []).defaults.emit_every == 1_000

    @pytest.mark.parametrize(
        ("labels", "outcomes"), [(0, 1000), (500_999, 1000), (501_000, 2000), (5_000_000, 10_000)]
    )
    def test_evaluate_has_half_of_its_points_by_count(self, labels: int, outcomes: int) -> None:
        assert by_count(Config(), labels).defaults.emit_outcomes == outcomes
        for given in ("defaults: {emit: {outcomes: 1000}}", "defaults: {emit: {outcomes: null}}"):
            assert by_count(loaded(given), labels) == loaded(given)

    def test_the_digest_doesnt_know(self) -> None:
        """It says how outcomes are evaluated, not how often somebody is told."""
        (digest,) = {m.config for m in by_default() if isinstance(m, Metrics)}
        assert digest == StreamConfig().digest == StreamConfig(emit_outcomes=7, emit_every=None).digest

    def test_without_metrics_alarms_are_the_same(self, files: Lines) -> None:
        wanted = [x for x in by_default() if isinstance(x, Alarm)]
        outputs: list[Message] = []
        sources = [Source(KINDS.index(kind), lines) for kind, lines in files.items()]
        shard = replay(Config(), sources, outputs.append, metrics=False)
        assert outputs == wanted
        assert shard.state.next_tick > START + SERVED * STEP, "no tick is ever due"

    def test_the_summary_says_how_often(self, folder: Path, files: Lines, capfd: Captured) -> None:
        for kind, lines in files.items():
            (folder / kind).write_bytes(b"\n".join(lines))
        (folder / "c.yaml").write_text("")
        assert run(folder, instances=None, summary=folder / "s") == 0
        assert (
            "metrics: every 1,000 outcomes and every 3h of record time "
            "(emit.every isn't configured: at most 1,000 points a sequence)\n"
        ) in capfd.readouterr().err
        assert json.loads((folder / "s").read_bytes())["emission"] == [
            {"stream": None, "outcomes": 1000, "every_ms": 10_800_000, "by_default": True, "untimed": False}
        ]

    @pytest.mark.parametrize("points", [500, 980, 999])
    @pytest.mark.parametrize("span", [0, 1, 999_000, 86_400_000, 10**9, 10**12, 10**16])
    def test_never_more_points_than_asked_for(self, span: int, points: int) -> None:
        every = every_for(span, points)
        starts = (0, 1, every - 1, every // 2)
        assert all((start + span) // every - start // every <= points for start in starts)
        assert every == 1000 or span // (every / 2.5) + 1 > points, "and not far fewer"


class TestExitStatus:
    def test_1_for_a_damaged_input(self, folder: Path, capfd: Captured) -> None:
        good = gzip.compress((folder / "labels").read_bytes())
        changed = bytearray(good)
        changed[20:60] = bytes(40)
        wrong_checksum = bytearray(good)
        wrong_checksum[-8] ^= 1
        for content in (good[: len(good) // 2], b"no gzip", bytes(changed), bytes(wrong_checksum)):
            path = folder / "labels.gz"
            path.write_bytes(content)
            assert run(folder, labels=path) == 1
            assert repr(str(path)) in complaint(capfd)

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
    def test_1_for_an_output_that_is_full(self, folder: Path, capfd: Captured) -> None:
        for option in ("metrics_out", "summary", "report"):
            (folder / "full.gz").unlink(missing_ok=True)
            (folder / "full.gz").symlink_to("/dev/full")
            for name in ("/dev/full", str(folder / "full.gz")):
                written = {"metrics_out": folder / "m", option: name}
                assert run(folder, **written) == 1, option
                assert complaint(capfd) == f"prequential: can't write {name!r}: No space left on device\n"

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_130_for_one_that_is_interrupted(self, folder: Path, number: signal.Signals) -> None:
        """It is told while it waits for the rest of standard input; it leaves no files behind."""
        command = [sys.executable, "-m", "prequential.cli.main", "replay", "--config", "c.yaml"]
        command += ["--predictions", "-", "--labels", "labels", "--metrics-out", "m.gz"]
        command += ["--dead-letters-out", "last"]  # opened after the others
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_DISABLE_JIT": "1"}
        with subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            while not list(folder.glob(".last.*.tmp")):
                time.sleep(0.05)
            process.send_signal(number)
            assert process.wait(60) == 130
            assert process.stderr is not None
            assert b"Traceback" not in process.stderr.read()
        assert not {"m.gz", "last"} & {path.name for path in folder.iterdir()}
        assert list(folder.glob(".*.tmp")) == []

    @pytest.mark.parametrize(
        ("changed", "words"),
        [
            ({"labels": None}, "expected --predictions and --labels"),
            ({"predictions": None}, "expected --predictions and --labels"),
            ({"labels": "/nowhere/labels"}, "can't read '/nowhere/labels': No such file"),
            ({"labels": "/"}, "can't read '/': Is a directory"),
            ({"metrics_out": "/nowhere/metrics"}, "can't write '/nowhere/metrics': No such file"),
            ({"config": "/nowhere/c.yaml"}, "can't read the configuration '/nowhere/c.yaml'"),
        ],
    )
    def test_2_for_a_wrong_command_line(
        self, folder: Path, capfd: Captured, changed: dict[str, Any], words: str
    ) -> None:
        assert run(folder, **changed) == 2
        assert words in complaint(capfd)

    def test_2_for_an_output_that_is_none_or_written_twice(self, folder: Path, capfd: Captured) -> None:
        """Of those that are read `tests/cli/test_outputs.py` knows."""
        for changed, words in (
            ({"metrics_out": folder / "new", "report": folder / "new"}, f"'{folder}/new' is written as well"),
            ({"alarms_out": ""}, "can't write '': expected the name of a file"),
        ):
            assert run(folder, **changed) == 2
            assert words in complaint(capfd)
        assert run(folder, metrics_out="/dev/null", report="/dev/null") == 0

    def test_0_where_standard_output_is_closed(self) -> None:
        command = ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-m", "prequential.cli.main"]
        command += ["schema", "metrics"]
        done = subprocess.run(command, stderr=subprocess.PIPE, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, b"")

    def test_130_for_ctrl_c_while_commands_are_imported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(name: str) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("importlib.import_module", interrupted)
        assert main(["replay"]) == 130

    def test_2_for_a_wrong_configuration(self, folder: Path, capfd: Captured) -> None:
        (folder / "c.yaml").write_text("defaults:\n  bin: 5")
        assert run(folder) == 2
        assert "line 2: unknown key 'bin' in defaults; did you mean bins?" in complaint(capfd)

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["--from-topics", "--labels", "l"], "--from-topics and --labels exclude each other"),
            (["--predictions", "-", "--labels", "-"], "standard input (-) can be only one of the files"),
        ],
    )
    def test_2_for_inputs_that_exclude_each_other(self, words: list[str], says: str, capfd: Captured) -> None:
        assert main(["replay", *words]) == 2
        assert says in complaint(capfd)

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["replay", "--lables", "x"], "arguments: --lables x; run `prequential replay --help`"),
            (["topics", "check", "--bogus"], "arguments: --bogus; run `prequential topics --help`"),
            (["bogus"], "invalid choice: 'bogus'"),
            (["produce", "bogus", "x"], "invalid choice: 'bogus'"),
            ([], "required: COMMAND"),
        ],
    )
    def test_2_and_one_sentence_for_words_that_mean_nothing(
        self, words: list[str], says: str, capfd: Captured
    ) -> None:
        with pytest.raises(SystemExit) as raised:
            main(words)
        assert raised.value.code == 2
        said = capfd.readouterr().err
        assert said.startswith("prequential: ")
        assert says in said
        assert said.count("\n") == 1


def test_dead_letters_of_the_engine_name_offset_and_kind() -> None:
    outputs = outputs_of(Config(), {"labels": [b"junk", b'{"stream":"s"}']})
    assert [(x.kind, x.offset) for x in outputs if isinstance(x, DeadLetter)] == [
        (LABELS, 0), (LABELS, 1),
    ]  # fmt: skip
