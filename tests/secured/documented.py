"""What docs/reference/topics.md lets components and commands do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from prequential.topics.specs import INPUTS

from tests.prose import cells_of
from tests.secured import chart
from tests.secured.acls import Acl

_DOCS = Path(__file__).parents[2] / "docs" / "reference" / "topics.md"


def _is_wide(settings: dict[str, Any]) -> bool:
    """Whether any stream has `key: instance`."""
    return any(stream.get("key") == "instance" for stream in settings["streams"].values())


def _has_disparity(settings: dict[str, Any]) -> bool:
    """Whether any stream has `disparity`."""
    return any(stream.get("disparity") for stream in [settings["defaults"], *settings["streams"].values()])


def documented(who: str, values: str = chart.EVERYTHING) -> set[Acl]:
    """What the table of ACLs says of a component or command, with the chart's names."""
    settings = chart.settings(values)
    prefix, group = settings["kafka"]["prefix"], settings["worker"]["group"]
    text = _DOCS.read_text(encoding="utf-8")
    rows = [cells_of(line) for line in text.splitlines() if line.startswith("|")]
    found: set[Acl] = set()
    for row in rows:
        if len(row) != 3 or who not in re.split(r",\s*", row[0]):
            continue
        if "`key: instance`" in row[0] and not _is_wide(settings):
            continue
        if "`disparity`" in row[0] and not _has_disparity(settings):
            continue
        resource, operations = row[1], re.findall(r"[A-Z]\w+", row[2])
        kind = "group" if resource.startswith("group") else "topic"
        kind = "transactionalId" if resource.startswith("transactional ids") else kind
        if resource == "its sources":
            names = list(settings["ingest"])
        elif resource.startswith("inputs"):
            journal = ("prequential-journal",) if "journal" in resource else ()
            names = [prefix + one for one in (*INPUTS, *journal)]
        elif "all topics" in resource:
            names = [one["spec"]["topicName"] for one in chart.of("KafkaTopic", values)]
        else:
            named = re.findall(r"(PREFIX)?`([\w-]+)`", resource.replace("GROUP", group))
            names = [f"{prefix if prefixed else ''}{name}" for prefixed, name in named]
        prefixed = "beginning with" in resource
        found |= {Acl(kind, name, operation, prefixed) for name in names for operation in operations}
    return found
