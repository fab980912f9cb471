"""A small real replay: forty days of flights from New York, and answers about its messages.

The records are those of `prequential.datasets.flights`: real flights, with the predictions of two models.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from prequential.cli.main import main
from prequential.configfile.reading.reader import load_config
from prequential.datasets import flights
from prequential.runtime.agents.sources import answers_of
from prequential.views.answers.tools import Answers
from prequential.views.state.output_records import OutputRecord, records_of

#: What is evaluated: also losses by probability, and the first prediction of each flight.
SETTINGS = {
    "defaults": {
        "positive_class": "late",
        "emit": {"outcomes": 1000, "every": "7d", "comparisons": "7d"},
        "compare_losses": ["error", "brier"],
    }
}

#: Files of messages by the option that writes them.
_OUTPUTS = ("metrics", "comparisons", "alarms", "incidents")


def replay(folder: Path, stream: str = "flights", models: dict[str, str] | None = None) -> list[Path]:
    """Replay the flights, under other names if any are given; return the files with the messages."""
    data = flights()
    names = models or {}
    for kind, rows in (("predictions", data.predictions), ("labels", data.labels)):
        lines = (
            json.dumps({
                "stream": stream,
                **row,
                **({"model": names.get(row["model"], row["model"])} if "model" in row else {}),
            })
            for row in rows
        )  # fmt: skip
        (folder / f"{kind}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = folder / "prequential.yaml"
    config.write_text(yaml.safe_dump(SETTINGS), encoding="utf-8")
    files = [folder / f"{name}.jsonl" for name in _OUTPUTS]
    outputs = [word for name, file in zip(_OUTPUTS, files) for word in (f"--{name}-out", str(file))]
    words = ["replay", "--config", str(config), *outputs]
    for kind in ("predictions", "labels"):
        words += [f"--{kind}", str(folder / f"{kind}.jsonl")]
    assert main(words) == 0
    return files


def records(files: Iterable[Path]) -> list[OutputRecord]:
    """The messages of files."""
    found = []
    for file in files:
        with file.open("rb") as lines:
            found += records_of(str(file), lines)
    return found


def answers(files: Iterable[Path]) -> Answers:
    """Answers about the messages of files."""
    return answers_of(load_config(None), records(files))


def messages(files: Iterable[Path]) -> dict[tuple[str, str, int | None], Any]:
    """All published messages by topic, id, and revision."""
    found: dict[tuple[str, str, int | None], Any] = {}
    for record in records(files):
        message = json.loads(record.value or b"")
        found[record.topic, message["id"], message.get("revision")] = message
    return found
