"""Lines of several records: replays of files, and `prequential produce`."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prequential.cli.main import main
from prequential.cli.produce import _key
from prequential.evaluation import evaluate

COUNT = 60


def written(folder: Path, name: str, lines: list[str]) -> str:
    path = folder / name
    path.write_text("".join(line + "\n" for line in lines), "utf-8")
    return str(path)


def replayed(folder: Path, predictions: list[str], labels: list[str]) -> tuple[str, list[dict[str, Any]]]:
    """Metrics, and dead letters, of a replay of these lines."""
    folder.mkdir()
    config = written(folder, "config.yaml", ["defaults: {emit: {outcomes: 7}}"])
    metrics, letters = folder / "metrics", folder / "letters"
    status = main([
        "replay", "--config", config, "--predictions", written(folder, "predictions.jsonl", predictions),
        "--labels", written(folder, "labels.jsonl", labels), "--metrics-out", str(metrics),
        "--dead-letters-out", str(letters),
    ])  # fmt: skip
    assert status == 0
    return metrics.read_text("utf-8"), [json.loads(line) for line in letters.read_text("utf-8").splitlines()]


@pytest.mark.slow
def test_a_line_of_several_records_counts_as_their_lines(tmp_path: Path) -> None:
    """Whatever the order of times within lines and across them."""
    order = [(7 * n) % COUNT for n in range(COUNT)]
    predictions = [
        json.dumps({"stream": "s", "model": "m", "instance_id": n, "y_pred": n % 2, "ts": 1_000 * n})
        for n in order
    ]
    labels = [
        json.dumps({"stream": "s", "instance_id": n, "y_true": n % 3 % 2, "ts": 1_000 * n + 500})
        for n in order
    ]
    bad = {5: '{"stream": "s"}', 22: "7"}
    for place, line in bad.items():
        labels.insert(place, line)
    packed = [f"[{', '.join(labels[start : start + 10])}]" for start in range(0, COUNT, 10)]
    packed += [*labels[COUNT:], "[1]"]
    single_metrics, single_letters = replayed(tmp_path / "single", predictions, [*labels, "[1]"])
    metrics, letters = replayed(tmp_path / "packed", [f" [{','.join(predictions)}]"], packed)
    assert metrics == single_metrics
    assert single_metrics
    assert {(letter["offset"], letter.get("row"), letter["value"]) for letter in letters} == {
        (0, 5, bad[5]), (2, 2, bad[22]), (8, None, "[1]")
    }  # fmt: skip
    assert sorted(one["error"] for one in letters) == sorted(one["error"] for one in single_letters)


#: Forms of a file with many records.
FORMS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "lines": lambda rows: "".join(json.dumps(row) + "\n" for row in rows),
    "one line": json.dumps,
    "indented": lambda rows: "\ufeff" + json.dumps(rows, indent=1) + "\n\n",
    "a row per line": lambda rows: "[\r\n" + ",\r\n".join(map(json.dumps, rows)) + "\r\n]",
    "arrays per line": lambda rows: "\n".join(json.dumps(rows[n : n + 9]) for n in range(0, len(rows), 9)),
    "lines, then an array": lambda rows: f"{json.dumps(rows[0])}\n{json.dumps(rows[1:])}",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("names", ["full", "default"])
def test_files_of_arrays(
    form: str, names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As files, in gzip, and from standard input, for `evaluate` and a replay.

    `default`: without names of stream and model. A text of each record makes an array longer than a record
    may be.
    """
    given = {"stream": "s", "model": "m"} if names == "full" else {}
    padding = {"note": "x" * (20_000 if form != "lines, then an array" else 200)}
    rows = [
        {**given, "instance_id": n, "y_pred": "ab"[n % 2], "y_true": "a", "ts": n, **padding}
        for n in range(80)
    ]
    plain, packed = tmp_path / "rows.json", tmp_path / "rows.json.gz"
    plain.write_text(FORMS[form](rows), "utf-8")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (str(plain), str(packed)):
        accuracy = evaluate(path, path, estimators=["all"]).measures("accuracy")
        assert accuracy == {given.get("model", "model"): 0.5}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(plain.read_bytes())))
    files = ["--predictions", "-", "--labels", str(packed), "--metrics-out", str(tmp_path / "metrics")]
    assert main(["replay", *files]) == 0
    assert "read: 80 predictions, 80 labels; used: 160" in capsys.readouterr().err


def test_places_in_files_of_arrays(tmp_path: Path) -> None:
    """Rows, which aren't lines, count from 0."""
    rows = [{"instance_id": n, "y_pred": "a", "y_true": "a"} for n in range(20)]
    del rows[7]["instance_id"]
    path = tmp_path / "rows.json"
    for form, place in (("lines", 8), ("indented", 7), ("lines, then an array", 7)):
        path.write_text(FORMS[form](rows), "utf-8")
        letters = evaluate(str(path), str(path), estimators=["all"]).dead_letters
        assert {letter["number"] for letter in letters} == {place - (form == "lines")}


def test_the_key_of_a_line() -> None:
    """It is that of all of its records."""
    row = '{"stream": "%s", "instance_id": %d}'
    assert _key(f"[{row % ('a', 1)}, {row % ('a', 2)}]".encode(), raw=False, wide=frozenset()) == b"a"
    assert _key(f"[{row % ('a', 1)}]".encode(), raw=False, wide=frozenset("a")) == b"1"
    with pytest.raises(ValueError, match="several keys, such as b'a' and b'b': expected a line for each"):
        _key(f"[{row % ('a', 1)}, {row % ('b', 2)}]".encode(), raw=False, wide=frozenset())
    for value in (b"[]", b"[1]", b'[{"stream": "a"}, 1]', b'[{"stream": "a"}'):
        with pytest.raises(ValueError, match="expected a JSON object with a string `stream`"):
            _key(value, raw=False, wide=frozenset())
        assert _key(value, raw=True, wide=frozenset()) is None
