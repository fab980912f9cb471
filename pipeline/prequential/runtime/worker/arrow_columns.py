"""From rows of Arrow messages to the engine's columns, as files of Arrow and Parquet become these."""

from __future__ import annotations

from typing import Any

from prequential.configuration.settings.model import Config
from prequential.engine.input.plain import Parser, Plain
from prequential.engine.input.translated_columns import ParserNumbers, plain_of
from prequential.mapping.model import REQUIRED
from prequential.mapping.parsing import same_names, with_times
from prequential.mapping.translation import Translator
from prequential.topics.decoding import LABELS, Decoded


class ArrowParser:
    """Parses rows of Arrow messages, with the numbers of names of a parser of JSON."""

    def __init__(self, config: Config, parser: Parser) -> None:
        self._config = config
        self._numbers = ParserNumbers(parser)
        self._segments = sorted(
            {key for stream in (config.defaults, *config.streams.values()) for key in stream.segments}
        )
        self._translators: dict[Any, Translator | str] = {}

    def parse(self, kind: int, rows: Any) -> Decoded | Plain:
        """The records of `mapping.arrow_rows.ArrowRows`: as columns if all are valid and of usual types."""
        translator = self._translator(kind, rows.schema)
        if isinstance(translator, str):
            return Decoded([None] * len(rows), dict.fromkeys(range(len(rows)), translator))
        translated = translator(rows)
        plain = None if translated.reasons else plain_of(translated, self._numbers)
        return Decoded(translated.records, translated.reasons) if plain is None else plain

    def _translator(self, kind: int, schema: Any) -> Translator | str:
        """The translator for a schema, or why its rows are no records of this kind."""
        key = kind, tuple((field.name, str(field.type)) for field in schema)
        if key not in self._translators:
            if len(self._translators) >= _MOST_SCHEMAS:
                self._translators.clear()
            self._translators[key] = self._new(kind, schema)
        return self._translators[key]

    def _new(self, kind: int, schema: Any) -> Translator | str:
        from prequential.mapping.arrow_rows import type_of_time

        if missing := [name for name in REQUIRED[kind] if name not in schema.names]:
            return f"the Arrow stream lacks columns: {', '.join(missing)}"
        mapping = same_names(kind, schema.names, segments=self._segments)
        time = mapping.fields.get("ts")
        if time is not None and time.path is not None:
            mapping = with_times(mapping, type_of_time(schema, time.path))
        config = self._config
        return Translator(
            mapping, lambda stream: config.stream(stream).task,
            classes_of=lambda stream: config.stream(stream).classes, withdraws=kind == LABELS,
        )  # fmt: skip


#: Most schemas of which translators are kept: schemas come from strangers.
_MOST_SCHEMAS = 100
