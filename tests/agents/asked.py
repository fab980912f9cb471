"""The recorded questions: `python -m tests.agents.asked` writes the expected answers into `questions.jsonl`.

Ids of messages stand as `ID`, because they change with the settings that they are made of.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from prequential.views.answers.answer import AgentAnswer
from prequential.views.answers.tools import Answers

from tests.agents import replayed

QUESTIONS = Path(__file__).parent / "questions.jsonl"

_ID = re.compile(r"\b[0-9a-f]{32}\b|(?<=metrics )[0-9a-f]{8}\b")


def recorded() -> list[dict[str, Any]]:
    """The questions with their tool calls and expected answers."""
    return [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]


def ask(answers: Answers, question: dict[str, Any], incidents: list[str]) -> AgentAnswer:
    """The answer to a question; `INCIDENT 1` stands for the id of the first incident."""
    arguments = {
        name: incidents[int(value.split()[1]) - 1] if str(value).startswith("INCIDENT ") else value
        for name, value in question["arguments"].items()
    }
    return answers.ask(question["tool"], arguments)


def without_ids(answer: AgentAnswer) -> dict[str, Any]:
    """An answer as it is recorded."""
    return without_ids_of(answer.text(), answer.as_json())


def without_ids_of(text: str, values: Any) -> dict[str, Any]:
    """The text and the values of an answer, as they are recorded."""
    return {"text": _ID.sub("ID", text), "values": json.loads(_ID.sub("ID", json.dumps(values)))}


def main() -> None:
    """Write the answers of now."""
    with tempfile.TemporaryDirectory() as folder:
        files = replayed.replay(Path(folder))
        answers = replayed.answers(files)
        incidents = incident_ids(files)
        lines = []
        for question in recorded():
            asked = {name: question[name] for name in ("question", "tool", "arguments")}
            expected = without_ids(ask(answers, asked, incidents))
            lines.append(json.dumps({**asked, "expected": expected}, ensure_ascii=False))
    QUESTIONS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def incident_ids(files: list[Path]) -> list[str]:
    """The ids of incidents in the order in which they opened."""
    keys = [key for key in replayed.messages(files) if key[0] == "incidents"]
    return list(dict.fromkeys(identifier for _, identifier, _ in keys))


if __name__ == "__main__":
    main()
