"""Make a translator for each configured source."""

from __future__ import annotations

from functools import partial

from prequential.configuration.settings.model import Config, SourceConfig
from prequential.mapping.evaluations import RATING_FORMATS
from prequential.mapping.model import Path
from prequential.runtime.ingest import avro, cloudevents, protobuf
from prequential.runtime.ingest.deletions import of_deleted_row, operation_path
from prequential.runtime.ingest.formats import Content, Decode, Json, with_parts
from prequential.runtime.ingest.records import SourceTranslator
from prequential.runtime.ingest.registry import Framed, SchemaRegistry


def translators(config: Config, letters: int = 1) -> dict[str, SourceTranslator]:
    """Return the translator of each topic's records; `letters` is the dead letters' number of partitions.

    Raises UsageError if a format needs a setting or a package that is missing.
    """
    return {
        topic: SourceTranslator(
            config, topic, source.mappings, _decoder(config, source),
            decode_key=_key_decoder(config, source), letters=letters, nullable=source.format == "avro",
        )
        for source in config.ingest
        for topic in source.topics
    }  # fmt: skip


def _paths(source: SourceConfig, root: str) -> list[Path]:
    paths = [path for mapping in source.mappings for _, path in mapping.paths()]
    return [path for path in paths if path.root == root]


def _decoder(config: Config, source: SourceConfig) -> Decode:
    if source.format == "cloudevents":
        return cloudevents.decode
    if source.format in _SCHEMAS:
        return _framed(config, source.format)
    if (form := RATING_FORMATS.get(source.format)) is not None:
        decode, parts = Json([()]), form.parts
        return lambda messages: with_parts(decode(messages), lambda value: parts(value))
    paths = _paths(source, "value")
    below = [path.keys for path in paths]
    for mapping in filter(None, map(of_deleted_row, source.mappings)):
        below += [path.keys for _, path in mapping.paths() if path.root == "value"]
    if (operation := operation_path(paths)) is not None:
        below.append(operation)
    return Json(below, framed=source.format == "json_schema")


def _key_decoder(config: Config, source: SourceConfig) -> Decode | None:
    """Return the decoder of keys if paths lead into them: that of the values' format, else JSON."""
    if not any(path.keys for path in _paths(source, "key")):
        return None
    if source.format in _SCHEMAS:
        return _framed(config, source.format, of_keys=True)
    return Json([], framed=source.format == "json_schema", of_keys=True)


_SCHEMAS = {"avro": (avro.reader, Content), "protobuf": (protobuf.reader, protobuf.ProtobufMessages)}


def _framed(config: Config, format: str, *, of_keys: bool = False) -> Decode:
    registry = SchemaRegistry(config.kafka, format)
    reader, content = _SCHEMAS[format]
    return Framed(partial(reader, registry), of_keys=of_keys, content=content)
