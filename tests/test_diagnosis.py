"""What a replay says at its end: each thing that may look wrong from files that provoke it, word for word."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prequential.cli.main import main
from prequential.engine.input.refusals import Refusal
from prequential.views.diagnosis.findings import findings, why_nothing
from prequential.views.diagnosis.stream_facts import Example, Facts, Finding, StreamFacts

HOUR = 3_600_000
DAY = 24 * HOUR

#: ts of the first instance (ms): 14 November 2023.
START = 1_700_000_000_000

Row = dict[str, Any]
Rows = list[Row]


class Case:
    """Files of a folder, and what a replay says of them."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capfd = capfd
        self.status = -1
        self.said = ""

    def run(self, predictions: Any, labels: Any, config: str = "", **options: Any) -> Row:
        """Replay; returns the summary. What was printed is in `said`."""
        for name, rows in (("predictions", predictions), ("labels", labels)):
            lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
            (self.folder / f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        (self.folder / "c.yaml").write_text(config)
        argv = ["replay", "--config", str(self.folder / "c.yaml"), "--summary", str(self.folder / "s.json")]
        for name in ("predictions", "labels"):
            argv += [f"--{name}", str(self.folder / f"{name}.jsonl")]
        for name, value in options.items():
            argv += [f"--{name.replace('_', '-')}", str(value)]
        self._capfd.readouterr()
        self.status = main(argv)
        self.said = self._capfd.readouterr().err
        summary: Row = json.loads((self.folder / "s.json").read_bytes())
        return summary

    def finding(self, code: str, *given: Any, **options: Any) -> str:
        """Replay; returns the one sentence with this code, which must have been printed, too."""
        summary = self.run(*given, **options)
        (found,) = (one for one in summary["findings"] if one["code"] == code)
        shown = found["sentence"] if found["stream"] is None else f"{found['stream']}: {found['sentence']}"
        assert f"looks wrong: {shown}\n" in self.said
        sentence: str = found["sentence"]
        return sentence


@pytest.fixture
def case(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Case:
    return Case(tmp_path, capfd)


def records(
    count: int = 100, *, delay: int = 500, step: int = 1000, start: int = START,
    change: Callable[[int], Row] = lambda i: {},
) -> tuple[Rows, Rows]:
    """Predictions of a model that is right three times in four, and labels `delay` ms after them."""
    predictions, labels = [], []
    for i in range(count):
        truth = "UP" if i % 3 else "DOWN"
        guess = truth if i % 4 else "UP"
        about, ts = {"stream": "elec2", "instance_id": i}, start + i * step
        predictions.append({**about, "model": "nb", "y_pred": guess, "ts": ts, **change(i)})
        labels.append({**about, "y_true": truth, "ts": ts + delay})
    return predictions, labels


def codes(summary: Row) -> list[str]:
    return [one["code"] for one in summary["findings"]]


def of_segments(key: str) -> Row:
    return {"change": lambda i: {"segments": {key.format(i): "A"}}}


#: The code of a finding, the records (arguments of `records`) and the configuration that provoke it, the
#: sentence, and the exit status.
FINDINGS: list[tuple[str, Row, str, str, int]] = [
    ("seconds", {"start": START // 1000, "step": 1, "delay": 0}, "",
     "all ts are in January 1970: are they in seconds instead of milliseconds?", 0),
    ("future", {"start": START * 1000}, "",
     "all ts are in the year 55840: are they in microseconds instead of milliseconds?", 0),
    ("late_labels", {"count": 2_000, "step": HOUR, "delay": 21 * DAY}, "",
     "none of 2,000 labels came within the horizon of 7d; the median time from predictions to labels "
     "with the same instance_id is 21d: raise label_horizon", 1),
    ("late_predictions", {"delay": -500}, "",
     "all 100 predictions were made after their labels, by ts, and don't count. "
     "Set ts of predictions to when they were made, of labels to when the truth was known", 1),
    ("segments", of_segments("customer_segment"), "defaults: {segments: [customer_segmnt]}",
     "no record has the key `customer_segmnt` in its field segments; seen: customer_segment", 0),
    ("segments", {}, "defaults: {segments: [customer_segmnt]}",
     "no record has the key `customer_segmnt` in its field segments, nor any other key", 0),
    ("segments", of_segments("key-{:02}"), "defaults: {segments: [arm]}",
     "no record has the key `arm` in its field segments; "
     "seen: key-00, key-01, key-02, key-03, key-04, … (20 in all)", 0),
    ("streams", {}, "streams: {elec: {settle: 1m}, elec2: {settle: 2m}}",
     "streams.elec: no such stream occurs; streams: elec2", 0),
    ("names", {"change": lambda i: {"stream": "elec2-v2"}}, "",
     "100 predictions and no label; streams with labels and no predictions: elec2; "
     "check that the field stream is the same in both", 1),
    ("positive_class", {}, "defaults: {positive_class: up}",
     "positive_class `up` never occurs among labels; labels: UP, DOWN", 0),
    ("champion", {}, "defaults: {compare: champion, champion: best}",
     "champion `best` never occurs among models, so no models are compared; models: nb", 0),
    ("estimate", {}, "defaults: {objective: {accuracy: 0.9, estimate: judge}}",
     "objective.estimate `judge` never occurs among models, so no errors are estimated; models: nb", 0),
]


class TestFindings:
    @pytest.mark.slow
    @pytest.mark.parametrize(("code", "given", "config", "said", "status"), FINDINGS)
    def test_of_one_kind(
        self, case: Case, code: str, given: Row, config: str, said: str, status: int
    ) -> None:
        assert case.finding(code, *records(**given), config) == said
        assert case.status == status

    def test_none_where_nothing_is_wrong(self, case: Case) -> None:
        config = "{defaults: {positive_class: UP, segments: [arm]}, streams: {elec2: {settle: 1m}}}"
        given = records(change=lambda i: {"segments": {"arm": "A", "zone": "B"}})
        assert case.run(*given, config)["findings"] == []
        assert case.status == 0
        assert "looks wrong" not in case.said

    def test_labels_beyond_the_horizon(self, case: Case) -> None:
        """As labels after 7 days and up to an hour do, with the default horizon."""
        predictions, labels = records(2_000)
        for i, label in enumerate(labels):
            label["ts"] = predictions[i]["ts"] + 7 * DAY + (i * 61 * 1000) % HOUR
        late = sum(label["ts"] > row["ts"] + 7 * DAY for row, label in zip(predictions, labels))
        assert case.finding("late_labels", predictions, labels) == (
            f"{late:,} labels came after the horizon of 7d; their median latency is 7d 30m: "
            "raise label_horizon"
        )
        assert case.run(predictions, labels, "defaults: {label_horizon: 8d}")["findings"] == []

    def test_labels_so_late_that_nothing_is_known_of_their_instances(self, case: Case) -> None:
        given = records(2_000, step=HOUR, delay=21 * DAY)
        assert case.run(*given, "defaults: {label_horizon: 22d}")["findings"] == []

    def test_some_late_labels_are_usual(self, case: Case) -> None:
        predictions, labels = records()
        for label in labels[:5]:
            label["ts"] += 8 * DAY
        summary = case.run(predictions, labels)
        dropped = [(drop["code"], drop["count"]) for drop in summary["dropped"]]
        assert dropped == [("late_label", 5), ("expired", 5)]
        assert codes(summary) == []

    def test_seconds_in_one_file(self, case: Case) -> None:
        predictions, _ = records(start=START // 1000, step=1)
        _, labels = records()
        assert case.finding("seconds", predictions, labels) == (
            "all ts of predictions are in January 1970: are they in seconds instead of milliseconds?"
        )
        assert codes(case.run(predictions, labels)) == ["seconds", "late_labels"]
        assert "; their median latency is about 53 years: use the same unit of ts for" in case.said

    def test_numbers_of_instances_are_no_seconds(self, case: Case) -> None:
        assert case.run(*records(start=0, step=1, delay=0))["findings"] == []

    def test_one_clock_that_is_wrong(self, case: Case) -> None:
        predictions, labels = records()
        predictions[50]["ts"] = 9_000_000_000_000
        assert case.finding("ahead", predictions, labels) == (
            "1 of 200 records have a ts about 231 years after all others (first: "
            f"{case.folder / 'predictions.jsonl'} line 51, 2255-03-14T16:00:00Z): check that time"
        )

    def test_nanoseconds(self, case: Case) -> None:
        predictions, _ = records(start=START * 1_000_000)
        assert case.finding("unusable", predictions, records()[1]) == (
            "100 of 100 predictions are invalid; most often: expected `int` <= 8640000000000000 - at "
            "`$.ts` (ts is milliseconds since 1970: are these nanoseconds?)"
        )

    def test_ids_that_never_meet(self, case: Case) -> None:
        given = records(change=lambda i: {"instance_id": f"trip-{i}"})
        assert case.finding("ids", *given) == (
            "none of 100 labels has met a prediction: no instance_id is in both: ids of predictions begin "
            "with 'trip-', e.g. label `0`, prediction `trip-0`: add it to or remove it from the ids of one "
            "side"
        )
        assert case.status == 1
        assert "prequential: nothing was evaluated: elec2: none of 100 labels has" in case.said

    def test_pairs_that_are_not_compared(self, case: Case) -> None:
        predictions, labels = records()
        predictions += [{**row, "model": name} for row in predictions for name in ("n", "o")]
        assert case.finding("comparisons", predictions, labels, "limits: {pairs_per_stream: 2}") == (
            "pairs of models that are not compared: 1; limits.pairs_per_stream is 2: "
            "raise it, or compare: champion"
        )

    def test_classes_that_are_numbers(self, case: Case) -> None:
        predictions, labels = records()
        for i, (row, label) in enumerate(zip(predictions, labels)):
            row["y_pred"], label["y_true"] = 1000 + i, 1000 + i
        assert case.finding("task", predictions, labels) == (
            "100 classes, all whole numbers: `task: regression` if they are numbers"
        )


class TestUnusable:
    """Records that can't be used, with the commonest reason and its remedy."""

    @pytest.mark.parametrize(("change", "config", "reason", "remedy"), [
        ({"ts": "2024-05-01T12:00:00"}, "",
         "ts is '2024-05-01T12:00:00': expected epoch milliseconds or an RFC 3339 time with offset",
         "ts is integer milliseconds since 1970, or RFC 3339 with offset: 2024-05-01T12:00:00Z"),
        ({"ts": 1714564800.5}, "", "expected `int | str | null`, got `float` - at `$.ts`",
         "ts is integer milliseconds since 1970, or RFC 3339 with offset: 2024-05-01T12:00:00Z"),
        ({"y_proba": 0.7}, "", "expected `object | null`, got `float` - at `$.y_proba`",
         'y_proba is an object of probabilities by class: {"UP": 0.8, "DOWN": 0.2}'),
        ({"y_pred": ["a"]}, "",
         "y_pred is '[\"a\"]', a set of labels: expected one class, or `task: multilabel`", None),
        ({}, "defaults: {task: regression}",
         "y_pred 'UP': expected a number up to 1e+100 (task: regression)",
         "`task: classification` if these are classes"),
        (
            {"instance_id": None}, "", "expected `int | str`, got `null` - at `$.instance_id`", None,
        ),
    ])  # fmt: skip
    def test_why(self, case: Case, change: Row, config: str, reason: str, remedy: str | None) -> None:
        given = records(change=lambda i: change)
        summary = case.run(*given, config)
        sentence = f"100 of 100 predictions are invalid; most often: {reason}"
        sentence += f" ({remedy})" if remedy else ""
        assert summary["findings"][0] == {"code": "unusable", "stream": None, "sentence": sentence}
        assert case.status == 1
        assert case.said.endswith(f"prequential: nothing was evaluated: {sentence}\n")

    def test_csv(self, case: Case) -> None:
        predictions = [b"stream,model,instance_id,y_pred", *(b"elec2,nb,%d,UP" % i for i in range(20))]
        assert case.finding("unusable", predictions, records()[1]) == (
            "21 of 21 predictions are invalid; most often: JSON is malformed: invalid character (byte 0) "
            "(each record is one JSON object, and a file has one JSON object per line; a CSV file needs a "
            "name that ends in .csv)"
        )
        assert case.status == 1

    @pytest.mark.parametrize("count", [4, 5])
    def test_from_one_in_twenty_on(self, case: Case, count: int) -> None:
        predictions, labels = records()
        summary = case.run(predictions, [b"junk"] * count + labels[count:])
        assert [one["code"] for one in summary["findings"]] == ["unusable"] * (count == 5)

    def test_labels_miss_predictions_that_are_invalid(self, case: Case) -> None:
        predictions, labels = records()
        summary = case.run([b"junk"] * 10 + predictions[:-10], labels)
        assert [one["sentence"] for one in summary["findings"][1:]] == [
            "10 of 100 labels (10%) have met no prediction: 10 predictions are invalid, most often: JSON "
            "is malformed: invalid character (byte 0)"
        ]
        assert summary["dropped"][0] == {
            "kind": "predictions", "code": "unusable", "count": 10,
            "reason": "JSON is malformed: invalid character (byte 0)",
            "example": {"file": str(case.folder / "predictions.jsonl"), "line": 1},
        }  # fmt: skip

    def test_reasons_that_differ_in_names_are_one(self, case: Case) -> None:
        given = {i: {"y_proba": {f"class '{i}'": i + 1.5}} for i in range(30)}
        predictions, labels = records(change=lambda i: given.get(i, {}))
        summary = case.run(predictions, labels)
        assert [(drop["count"], drop["reason"]) for drop in summary["dropped"]] == [
            (30, '''y_proba of "class '0'" is 1.5: expected a probability from 0 to 1''')
        ]


class TestExitStatus:
    @pytest.mark.parametrize(("predictions", "kind"), [(records()[0], "labels"), ([], "predictions")])
    def test_1_where_files_are_empty(self, case: Case, predictions: Rows, kind: str) -> None:
        summary = case.run(predictions, [])
        assert (case.status, summary["evaluated"]) == (1, False)
        assert case.said.endswith(f"prequential: nothing was evaluated: there are no {kind}\n")

    def test_0_for_a_single_outcome(self, case: Case) -> None:
        predictions, labels = records()
        assert case.run(predictions, labels[:1])["evaluated"] is True
        assert case.status == 0


class TestSummary:
    @pytest.fixture
    def summary(self, case: Case) -> Row:
        """One of everything that can become of a record, beside 60 outcomes."""
        predictions, labels = records(60)
        clock = START + 60_000
        about = {"stream": "elec2", "model": "nb", "y_pred": "UP"}
        truth = {"stream": "elec2", "y_true": "UP"}
        predictions += [
            predictions[59],  # again
            {**about, "instance_id": "made late", "ts": clock + 1},
            {**about, "instance_id": "expires", "ts": clock},
            {**about, "instance_id": "waits", "ts": clock + 3 * HOUR},
        ]
        labels += [
            {**truth, "instance_id": "made late", "ts": clock},
            {**truth, "instance_id": "expires", "ts": clock + 2 * HOUR},
            {**truth, "instance_id": "nobody's", "ts": clock},
            {**truth, "instance_id": "waits, too", "ts": clock + 3 * HOUR},
            {**labels[0]},
        ]
        labels[-1]["ts"] = labels[-1]["ts"] + 1
        return case.run(predictions, [b"{", *labels], "defaults: {label_horizon: 1h}")

    def test_every_record_is_accounted_for(self, summary: Row, case: Case) -> None:
        assert summary["records"] == {
            "instances": {"read": 0, "used": 0, "dropped": 0, "waiting": 0},
            "predictions": {"read": 64, "used": 60, "dropped": 3, "waiting": 1},
            "labels": {"read": 66, "used": 60, "dropped": 5, "waiting": 1},
        }
        folder = case.folder
        assert {(x["kind"], x["code"], x["count"], *place(x, folder)) for x in summary["dropped"]} == {
            ("labels", "unusable", 1, "labels.jsonl", 1),
            ("labels", "late_label", 1, "labels.jsonl", 63),
            ("labels", "unmatched_label", 2, "labels.jsonl", 62),
            ("labels", "duplicate", 1, "labels.jsonl", 66),
            ("predictions", "duplicate", 1, "predictions.jsonl", 61),
            ("predictions", "late", 1, "predictions.jsonl", 62),
            ("predictions", "expired", 1, "predictions.jsonl", 63),
        }  # fmt: skip

    def test_it_is_printed(self, summary: Row, case: Case) -> None:
        lines = case.said.splitlines()
        assert lines[0] == "read: 64 predictions, 66 labels; used: 120, dropped: 8, pending: 2"
        place = f"(first: {case.folder / 'labels.jsonl'} line 63)"
        assert f"  dropped: 1 labels: label later than the horizon {place}" in lines
        assert "outcomes of elec2: nb 60; pending: 1 predictions, 1 labels" in lines
        assert any(line.startswith("nb ") and "│ final* │ 60 " in line for line in lines)
        assert "incidents: 0 (drift alarms: 0)" in lines

    def test_its_form(self, summary: Row) -> None:
        assert list(summary) == [
            "evaluated", "records", "dropped", "outcomes", "waiting_labels", "emission", "sequences",
            "comparisons", "alarms", "incidents", "findings", "expected", "disparities",
        ]  # fmt: skip
        assert summary["outcomes"] == [
            {"stream": "elec2", "partition": 0, "model": "nb", "outcomes": 60, "waiting": 1, "at_horizon": 0}
        ]
        assert summary["waiting_labels"] == [{"stream": "elec2", "partition": 0, "labels": 1}]
        assert summary["emission"] is None
        (last,) = summary["sequences"]
        assert (last["stage"], last["same"]) == ("final", ["initial"])
        assert list(last) == [
            "stream", "partition", "model", "stage", "task", "outcomes", "measures", "course", "same", "n",
        ]  # fmt: skip
        assert list(last["measures"]) == ["all", "window:1000", "fading:0.999"]
        wrong = [float(i % 4 == 0 and i % 3 == 0) for i in range(60)]
        assert last["course"] == {"outcomes": 1, "loss": wrong}
        assert last["measures"]["all"]["accuracy"] == 1 - sum(wrong) / 60

    def test_the_measures_are_those_of_the_last_messages(self, case: Case) -> None:
        summary = case.run(*records(200), metrics_out=case.folder / "m")
        messages = [json.loads(line) for line in (case.folder / "m").read_bytes().splitlines()]
        last = {(x["model"], x["stage"], x["estimator"]): x["measures"] for x in messages}
        for one in summary["sequences"]:
            for estimator, measures in one["measures"].items():
                assert measures == last.pop((one["model"], one["stage"], estimator))
        assert last == {}

    @pytest.mark.slow
    def test_comparisons_are_those_of_the_last_messages(self, case: Case) -> None:
        """A second model is always wrong; the stages' bins are in the messages only."""
        predictions, labels = records(600)
        worse = [{**row, "model": "bad", "y_pred": "?"} for row in predictions]
        config = "defaults: {stages: [initial, final, bins], bins: 2, baselines: [majority], cluster: off}"
        given = sorted(predictions + worse, key=lambda row: row["ts"]), labels, config
        summary = case.run(*given, comparisons_out=case.folder / "c")
        messages = [json.loads(line) for line in (case.folder / "c").read_bytes().splitlines()]
        last = {
            (x["model"], x["against"], x["stage"]): x
            for x in messages if x["estimator"] == "all" and not x["stage"].startswith("bin")
        }  # fmt: skip
        assert len(last) == 3  # `initial` is the same
        for one in summary["comparisons"]:
            said = last.pop((one["model"], one["against"], one["stage"]))
            assert one.pop("difference") == said["measures"]["difference"]
            latest = one.pop("latest")  # the same pair's, by an estimator that forgets
            assert latest["estimator"] == "fading:0.999"
            assert latest["difference"] * said["measures"]["difference"] > 0
            known = {"untimed": False, "missing_partitions": []}
            known |= dict.fromkeys(("provisional", "needed", "disagreement"))
            assert {name: {**known, **said}[name] for name in one} == one
        assert last == {}
        lines = case.said.splitlines()
        (head,) = (place for place, line in enumerate(lines) if line.startswith("model comparison"))
        assert [line.split(":")[0] for line in lines[head + 1 : head + 4]] == ["  final"] * 3
        assert lines[head + 1].startswith("  final: nb beats bad over the whole run: error lower by 0.917 (")
        assert lines[head + 1].endswith("% confidence; also recently (fading:0.999): by 0.917")
        assert lines[head + 4].startswith("incidents: ")

    def test_nobody_is_compared_where_there_is_one_model(self, case: Case) -> None:
        assert case.run(*records())["comparisons"] == []
        assert "better" not in case.said

    def test_alarms(self, case: Case) -> None:
        config = "defaults: {detectors: [{detector: page-hinkley, delta: 0, lambda: 1}]}"
        given = records(400, change=lambda i: {"y_pred": "DOWN"} if i > 200 else {})
        summary = case.run(*given, config, alarms_out=case.folder / "a", incidents_out=case.folder / "i")
        written = [json.loads(line) for line in (case.folder / "a").read_bytes().splitlines()]
        assert summary["alarms"] == written
        assert written
        messages = [json.loads(line) for line in (case.folder / "i").read_bytes().splitlines()]
        newest = {message["id"]: message for message in messages}
        assert summary["incidents"] == list(newest.values())
        assert sum(one["alarm_count"] for one in newest.values()) == len(written)
        explain = "; to explain one: prequential explain ID --from FILE"
        alarms = f"{len(written):,}, {len(written):,} of them in incidents"
        said = f"incidents: {len(newest):,} (drift alarms: {alarms}){explain}\n  elec2/nb final: "
        assert said in case.said

    def test_alarms_that_are_in_no_incident(self, case: Case) -> None:
        """Of models with no stage but such at an age there are none."""
        config = (
            "defaults: {stages: ['after:1ms'], detectors: [{detector: page-hinkley, delta: 0, lambda: 1}]}"
        )
        given = records(400, change=lambda i: {"y_pred": "DOWN"} if i > 200 else {})
        summary = case.run(*given, config)
        assert summary["alarms"]
        assert f"incidents: 0 (drift alarms: {len(summary['alarms'])})\n  elec2/nb after:1ms, " in case.said

    def test_regression(self, case: Case) -> None:
        predictions, labels = records(80)
        for i, (row, label) in enumerate(zip(predictions, labels)):
            row["y_pred"], label["y_true"] = 10.0, 10.0 + (i >= 40)
        summary = case.run(predictions, labels, "defaults: {task: regression}")
        assert summary["sequences"][0]["course"] == {"outcomes": 2, "loss": [0.0] * 20 + [1.0] * 20}
        assert "mae over time" in case.said

    def test_compressed(self, case: Case) -> None:
        wanted = case.run(*records())
        case.run(*records(), summary=case.folder / "s.json.gz")
        assert json.loads(gzip.decompress((case.folder / "s.json.gz").read_bytes())) == wanted


def place(drop: Row, folder: Path) -> Iterator[Any]:
    if drop["example"] is not None:
        yield str(Path(drop["example"]["file"]).relative_to(folder))
        yield drop["example"]["line"]


# ---- of facts that no single file has


def stream(name: str = "s", partition: int = 0, **given: Any) -> StreamFacts:
    """A stream with nothing wrong."""
    facts: Row = {
        "task": "classification", "horizon": 7 * DAY, "records": (0, 1000, 1000),
        "earliest": (0, START, START), "latest": (0, START, START), "matched": 1000, "late_predictions": 0,
        "late_labels": 0, **given,
    }  # fmt: skip
    return StreamFacts(name, partition, **facts)


def of(*streams: StreamFacts, least: int = 1, **given: Any) -> list[str]:
    return list(map(str, findings(Facts(streams, (0, 1000, 1000), **given), least)))


def test_a_stream_in_two_partitions() -> None:
    predicted, labelled = stream(partition=3, records=(0, 9, 0)), stream(partition=1, records=(0, 0, 9))
    assert of(predicted, labelled) == [
        "s: its predictions are in partition 3, its labels in 1: all producers need the partitioner murmur2"
    ]
    # Of a stream in all partitions, the first few may be a prediction here, and a label of before there.
    assert of(predicted, labelled, least=10) == []
    assert of(stream(), misplaced=(("s", 1000),)) == [
        "s: 1,000 records are in a partition that is not the stream's: all producers need the partitioner "
        "murmur2, and the stream's name as key"
    ]


def test_a_restored_stream_occurs() -> None:
    """Findings are about streams, not about what this process has read of them."""
    silent = stream("elec", records=(0, 0, 0), models=("nb",))
    assert of(silent, stream("elec2"), configured=("elec",)) == []
    assert of(stream("elec2"), configured=("elec",)) == [
        "streams.elec: no such stream occurs; streams: elec2"
    ]


def test_labels_for_predictions_of_an_earlier_process() -> None:
    """The stream's predictions came before the restart, those of another one wait for labels."""
    labelled = stream("elec", records=(0, 0, 1000), models=("nb",))
    assert of(stream("elec2", records=(0, 1000, 0), models=("nb",)), labelled) == []


def test_labels_that_are_late_by_the_clock_alone() -> None:
    assert of(stream(late_labels=500)) == [
        "s: 500 labels came after the horizon of 7d by the stream's clock, although they were on time "
        "by their ts: raise label_horizon"
    ]


def test_little_says_little() -> None:
    """A worker waits for more before it judges."""
    few = stream(records=(0, 50, 50), matched=0, example=Example("a", "b"))
    assert len(of(few)) == 1
    assert of(few, least=100) == []


def test_what_explains_most_comes_first() -> None:
    reason = Refusal(2, "the record has no value", 0, 1000)
    without = stream(records=(0, 1000, 0), matched=0, unseen_keys=("arm",))
    facts = Facts((without,), (0, 1000, 1000), (reason,))
    found = findings(facts)
    assert [one.code for one in found] == ["unusable", "segments"]
    assert why_nothing(facts, found) == (
        "nothing was evaluated: 1,000 of 1,000 labels are invalid; most often: the record has no value"
    )
    assert why_nothing(facts, []) == "nothing was evaluated: no prediction has met a label"
    sentence = "no record has the key `arm` in its field segments, nor any other key"
    assert found[1] == Finding("segments", "s", sentence, "arm")


def test_nobody_blames_ids_where_records_are_lost() -> None:
    """Labels of predictions that retention removed find none, whatever their ids are."""
    of_labels = StreamFacts(
        "s", 0, "classification", HOUR, (0, 900, 900), (START,) * 3, (START,) * 3, 0, 0, 0, reused=(900, 300)
    )
    assert {one.code for one in findings(Facts((of_labels,), (0, 900, 900)))} >= {"ids", "reused_ids"}
    without = findings(Facts((replace(of_labels, lost=True),), (0, 900, 900)))
    assert not {"ids", "reused_ids"} & {one.code for one in without}


def test_a_class_that_only_the_configuration_names_is_no_form_of_another_one() -> None:
    """A false hint otherwise: `no` and `0` would differ only in how a boolean is written."""
    given: Row = {"named": ("no", "0", "1"), "labelled": ("0", "1"), "at_horizon": "no"}
    assert of(stream(predicted=("0", "1"), **given)) == [
        "s: label_at_horizon names 'no', which was never seen among predictions and labels; seen: '0', '1'"
    ]
    [found] = of(stream(predicted=("no", "1"), **{**given, "labelled": ("no", "0", "1")}))
    assert "'no' and '0' count as different classes" in found
