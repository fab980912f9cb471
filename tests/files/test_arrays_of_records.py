"""Lines of several records: replays of files, and `prequential produce`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prequential.cli.main import main
from prequential.cli.produce import _key

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
