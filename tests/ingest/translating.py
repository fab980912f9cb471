"""What a source's records become, without Kafka."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Message
from prequential.configfile.reading.reader import load_config
from prequential.runtime.ingest.reading import SourceCounts
from prequential.runtime.ingest.records import SourceTranslator
from prequential.runtime.ingest.sources import translators

#: When every record was written, in epoch ms.
WRITTEN = 1_700_000_000_123


def record(
    value: Any, key: bytes | None = None, headers: Mapping[str, bytes] | None = None, offset: int = 0,
    written: int = WRITTEN,
) -> Message:  # fmt: skip
    """A record of a source; a value that isn't bytes or None is JSON."""
    is_bytes = value is None or isinstance(value, bytes)
    return Message(
        topic="source", partition=3, offset=offset, key=key,
        value=value if is_bytes else json.dumps(value).encode(),
        headers=list((headers or {}).items()), timestamp=(1, written),
    )  # fmt: skip


def translator(folder: Path, source: Any, **kafka: Any) -> SourceTranslator:
    """The translator of a source as a configuration file has it."""
    path = folder / "ingest.yaml"
    path.write_text(yaml.safe_dump({"kafka": kafka, "ingest": {"source": source}}), encoding="utf-8")
    return translators(load_config(str(path)), letters=2)["source"]


def become(translate: SourceTranslator, records: Sequence[Message]) -> list[tuple[str, bytes | None, Any]]:
    """Topic, key and content of each message; of a dead letter the reason."""
    found = []
    for one in translate.translate(3, records, SourceCounts()):
        content = json.loads(one.value or b"") if not one.headers else dict(one.headers)["error"].decode()
        found.append((one.topic, one.key, content))
    return found
