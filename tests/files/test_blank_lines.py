"""Blank lines in files of JSON lines: they are no records, and the places of records stay right."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from prequential.cli.main import main
from prequential.evaluation import evaluate

#: Ways in which blank lines stand among lines.
FORMS: dict[str, Callable[[list[str]], str]] = {
    "between": lambda lines: "\n\n".join(lines) + "\n",
    "at the end": lambda lines: "\n".join(lines) + "\n\n \n",
    "at the beginning": lambda lines: "\n \t\n" + "\n".join(lines),
    "of Windows": lambda lines: "\ufeff\r\n" + "\r\n \r\n".join(lines) + "\r\n\r\n",
}


def lines(names: str) -> list[str]:
    given = {"stream": "s", "model": "m"} if names == "full" else {}
    return [
        json.dumps({**given, "instance_id": number, "y_pred": "ab"[number % 2], "y_true": "a", "ts": number})
        for number in range(40)
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("names", ["full", "default"])
def test_blank_lines_are_no_records(
    form: str, names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As files, in gzip, and from standard input, for `evaluate` and a replay."""
    plain, packed = tmp_path / "rows.jsonl", tmp_path / "rows.jsonl.gz"
    plain.write_bytes(FORMS[form](lines(names)).encode())
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    result = evaluate(str(plain), str(packed), estimators=["all"])
    assert result.measures("accuracy") == {"m" if names == "full" else "model": 0.5}
    assert not result.dead_letters
    assert not result.summary.findings
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(plain.read_bytes())))
    assert main(["replay", "--predictions", "-", "--labels", str(packed)]) == 0
    assert "read: 40 predictions, 40 labels; used: 80, dropped: 0" in capsys.readouterr().err


@pytest.mark.parametrize("form", FORMS)
def test_places_next_to_blank_lines(form: str, tmp_path: Path) -> None:
    """Files without a mapping name the line, counted from 1; those with one name the row or the line."""
    with_bad = lines("full")
    with_bad[7] = '{"instance_id": {}}'
    path = tmp_path / "rows.jsonl"
    path.write_bytes(FORMS[form](with_bad).encode())
    line = next(n for n, text in enumerate(path.read_text().splitlines()) if text == with_bad[7])
    letters = tmp_path / "letters"
    labels = tmp_path / "labels.jsonl"
    labels.write_text("\n".join(lines("full")))
    files = ["--predictions", str(path), "--labels", str(labels)]
    assert main(["replay", *files, "--dead-letters-out", str(letters)]) == 0
    assert [json.loads(text)["offset"] for text in letters.read_text().splitlines()] == [line]
    numbers = [letter["number"] for letter in evaluate(str(path), str(labels)).dead_letters]
    assert numbers == [7]
