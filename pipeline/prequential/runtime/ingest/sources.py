"""Make a translator for each configured source, and check the topics before records are taken."""

from __future__ import annotations

import logging
from functools import partial

from prequential.configuration.settings.model import Config, SourceConfig
from prequential.mapping.evaluations import RATING_FORMATS
from prequential.mapping.model import Path
from prequential.runtime.ingest import formats, registry
from prequential.runtime.ingest.formats import Content, Decode, Json, with_parts
from prequential.runtime.ingest.mapped_parts import of_deleted_row, operation_path
from prequential.runtime.ingest.records import SourceTranslator
from prequential.runtime.ingest.registry import Framed, SchemaRegistry
from prequential.topics.admin import find, partition_counts, partition_errors, present
from prequential.topics.clients import connect
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.permissions import INGEST, READ, Permission, lacking, needs, require
from prequential.topics.specs import DEAD_LETTER_HEADER_BYTES, DEAD_LETTERS, topic_specs


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
        return formats.decode
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


_SCHEMAS = {
    "avro": (registry.avro_reader, Content),
    "protobuf": (registry.protobuf_reader, registry.ProtobufMessages),
}


def _framed(config: Config, format: str, *, of_keys: bool = False) -> Decode:
    registry = SchemaRegistry(config.kafka, format)
    reader, content = _SCHEMAS[format]
    return Framed(partial(reader, registry), of_keys=of_keys, content=content)


log = logging.getLogger(__name__)

#: The setting that limits the size of a topic's records.
_LARGEST = "max.message.bytes"


def check_sources(config: Config) -> None:
    """Raise WorkError if topics that `ingest` reads are missing; those that it writes need not exist yet.

    Raises UsageError as `check_topics` does.
    """
    kafka = config.kafka
    sources = _sources(config)
    require(kafka, dict.fromkeys(sources, READ))
    there = present(kafka, sources)
    if missing := [f"source {topic!r} is missing" for topic in sources if topic not in there]:
        raise WorkError(f"nothing can be ingested at {kafka.bootstrap_servers}: {'; '.join(missing)}")


def _sources(config: Config) -> list[str]:
    sources = [topic for source in config.ingest for topic in source.topics]
    if not sources:
        raise UsageError("no section ingest is configured: expected topics and what their records become")
    refuse_own_topics(config)
    return sources


def check_topics(config: Config) -> int:
    """Raise WorkError if topics are missing or don't fit; returns the dead letters' number of partitions.

    Raises UsageError if a source is one of our own topics: `ingest` would read its own messages again.
    """
    kafka = config.kafka
    specs = topic_specs(kafka)
    sources = _sources(config)
    require(kafka, {**dict.fromkeys(sources, READ), **needs(specs, INGEST)})
    needed = [spec for spec in specs if spec.role in INGEST]
    names = [spec.name for spec in needed]
    letters = kafka.topic(DEAD_LETTERS)
    # Only the worker needs the inputs' settings, so `ingest` needs no permission to read them.
    existing = find(kafka, connect(kafka), [*sources, letters], as_far_as_possible=True)
    there = present(kafka, names)
    if unseen := [name for name, topic in existing.items() if not topic.seen]:
        hidden = [Permission("DescribeConfigs", "topic", name) for name in unseen]
        log.info("not checking whether dead letters may be too large: %s", lacking(kafka, hidden))
    wrong = [f"source {topic!r} is missing" for topic in sources if topic not in existing]
    missing = [name for name in names if name not in there]
    wrong += [f"topic {name!r} is missing: `prequential topics create` makes it" for name in missing]
    counts = partition_counts(kafka, sorted(there))
    wrong += partition_errors(needed, counts)
    if letters in existing:
        sizes = {name: topic.configs.get(_LARGEST) for name, topic in existing.items()}
        wrong += _too_large(letters, sources, sizes)
    if wrong:
        raise WorkError(f"nothing can be ingested at {kafka.bootstrap_servers}: {'; '.join(wrong)}")
    return counts[letters]


def refuse_own_topics(config: Config) -> None:
    """Raise UsageError if a source is one of our own topics: ingest would read its own messages again."""
    sources = [topic for source in config.ingest for topic in source.topics]
    ours = sorted({spec.name for spec in topic_specs(config.kafka)}.intersection(sources))
    if ours:
        raise UsageError(f"ingest reads {', '.join(ours)}, which are our own topics: expected other ones")


def _too_large(letters: str, sources: list[str], sizes: dict[str, str | None]) -> list[str]:
    """Describe sources with records too large for the dead letters' topic; unknown sizes are skipped."""
    limit = sizes.get(letters)
    if limit is None:
        return []
    return [
        f"source {topic!r} has {_LARGEST}={size}, and {letters!r} {limit}: expected at least "
        f"{int(size) + DEAD_LETTER_HEADER_BYTES} there, so that it can take any record with the reason"
        for topic in sources
        if (size := sizes.get(topic)) is not None and int(size) + DEAD_LETTER_HEADER_BYTES > int(limit)
    ]
