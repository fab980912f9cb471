"""From rows of Arrow messages to the engine's columns, as files of Arrow and Parquet become these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from prequential.configuration.settings.model import Config
from prequential.engine.input.plain import Parser, Plain
from prequential.engine.input.translated_columns import ParserNumbers, plain_of
from prequential.mapping.model import REQUIRED, MappingError
from prequential.mapping.parsing import same_names, with_times
from prequential.mapping.translation import Translator
from prequential.topics.decoding import LABELS, Decoded


class _Reading(NamedTuple):
    """How rows with a schema are read."""

    translator: Translator
    #: The column of each field; None if some fields are objects.
    fields: dict[str, str] | None
    #: All columns that the translator reads.
    columns: tuple[str, ...]


def _non_finite(batch: Any, columns: Sequence[str]) -> dict[int, str]:
    """Why rows with NaN or an infinity are invalid: JSON has neither, and a table's empty cells are null."""
    from prequential.mapping.arrow_numbers import non_finite_rows

    reasons: dict[int, str] = {}
    for name in columns:
        for row, number in non_finite_rows(batch.column(batch.schema.names.index(name))).items():
            reasons.setdefault(row, f"{name} has {number}: expected finite numbers or null")
    return reasons


class _Rows:
    """The rows of Arrow messages as objects (`RecordObjects`)."""

    def __init__(self, rows: Any, translator: Translator) -> None:
        self._rows, self._translator = rows, translator

    def __len__(self) -> int:
        return len(self._rows)

    def part(self, start: int, stop: int) -> _Rows:
        """Return some of these records."""
        return _Rows(self._rows.part(start, stop), self._translator)

    def record(self, position: int) -> Any:
        """Return the record at a place."""
        return self.part(position, position + 1).records()[0]

    def records(self) -> list[Any]:
        """Return all records."""
        return self._translator(self._rows).records


class ArrowParser:
    """Parses rows of Arrow messages, with the numbers of names of a parser of JSON."""

    def __init__(self, config: Config, parser: Parser) -> None:
        self._config = config
        self._numbers = ParserNumbers(parser)
        self._segments = sorted(
            {key for stream in (config.defaults, *config.streams.values()) for key in stream.segments}
        )
        self._readings: dict[Any, _Reading | str] = {}

    def parse(self, kind: int, rows: Any) -> Decoded | Plain:
        """The records of `mapping.arrow_rows.ArrowRows`: as columns if all are valid and of usual types."""
        reading = self._reading(kind, rows.schema)
        if isinstance(reading, str):
            return Decoded([None] * len(rows), dict.fromkeys(range(len(rows)), reading))
        translator = reading.translator
        if reading.fields is not None:
            from prequential.runtime.worker.arrow_fields import columns_of

            columns = columns_of(rows.batch, reading.fields, self._numbers, self._task_of)
            if columns is not None:
                return Plain(columns, self._numbers.known, [_Rows(rows, translator)], {})
        translated = translator(rows)
        non_finite = _non_finite(rows.batch, reading.columns)
        if not translated.reasons and not non_finite:
            plain = plain_of(translated, self._numbers)
            if plain is not None:
                return plain
        records = [None if row in non_finite else record for row, record in enumerate(translated.records)]
        return Decoded(records, {**translated.reasons, **non_finite})

    def _task_of(self, stream: str) -> str:
        return self._config.stream(stream).task

    def _reading(self, kind: int, schema: Any) -> _Reading | str:
        """How to read rows with a schema, or why they are no records of this kind."""
        key = kind, tuple((field.name, str(field.type)) for field in schema)
        if key not in self._readings:
            if len(self._readings) >= _MOST_SCHEMAS:
                self._readings.clear()
            self._readings[key] = self._new(kind, schema)
        return self._readings[key]

    def _new(self, kind: int, schema: Any) -> _Reading | str:
        from prequential.mapping.arrow_rows import column_of, type_of_time

        if missing := [name for name in REQUIRED[kind] if name not in schema.names]:
            return f"the Arrow stream lacks columns: {', '.join(missing)}"
        try:
            mapping = same_names(kind, schema.names, segments=self._segments)
        except MappingError as error:
            return f"the columns of the Arrow stream are no fields: {error}"
        fields = {name: field.path.text for name, field in mapping.fields.items() if field.path is not None}
        time = mapping.fields.get("ts")
        if time is not None and time.path is not None:
            mapping = with_times(mapping, type_of_time(schema, time.path))
        translator = Translator(
            mapping, self._task_of, classes_of=lambda stream: self._config.stream(stream).classes,
            withdraws=kind == LABELS,
        )  # fmt: skip
        columns = dict.fromkeys(column_of(path, schema.names) for _, path in mapping.paths())
        return _Reading(translator, None if mapping.objects else fields, tuple(filter(None, columns)))


#: Most schemas of which translators are kept: schemas come from strangers.
_MOST_SCHEMAS = 100
