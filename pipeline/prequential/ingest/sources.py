"""The configuration's sources, each with what reads and translates its records."""

from __future__ import annotations

from prequential.config import Config, SourceConfig
from prequential.ingest import cloudevents
from prequential.ingest.formats import Decode, Json
from prequential.ingest.records import SourceTranslator, operation_path


def translators(config: Config, letters: int = 1) -> dict[str, SourceTranslator]:
    """What translates the records of each topic; `letters` is the dead letters' number of partitions."""
    found = {}
    for source in config.ingest:
        for topic in source.topics:
            found[topic] = SourceTranslator(
                config, topic, source.mappings, _decoder(source),
                decode_key=_key_decoder(source), letters=letters,
            )  # fmt: skip
    return found


def _decoder(source: SourceConfig) -> Decode:
    paths = [path for mapping in source.mappings for _, path in mapping.paths()]
    below = [path.keys for path in paths if path.root == "value"]
    if (operation := operation_path(paths)) is not None:
        below.append(operation)
    if source.format == "cloudevents":
        return cloudevents.decode
    return Json(below, framed=source.format == "json_schema")


def _key_decoder(source: SourceConfig) -> Decode | None:
    return None
