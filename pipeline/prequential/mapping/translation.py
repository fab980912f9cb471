"""Translate a source's records, batch by batch, into input records, or into the reason why one is invalid.

The results equal those of `prequential.topics.decoding` for the same record as JSON. A source's values may
have forms that an input record does not allow, so the translation converts them:

- Whole numbers lose their fraction. Tables write them with a fraction if the column has empty cells.
- Text becomes a number where the field needs one.
- Dates become epoch milliseconds, and UTF-8 bytes become text.

An empty cell, NaN and null all count as no value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any

import numpy as np
from prequential.mapping import conversion
from prequential.mapping.columns import FieldColumn, ObjectColumns, Translated, whole_column, whole_numbers
from prequential.mapping.model import (
    ROW,
    TARGETS,
    Field,
    Path,
    ProbabilityField,
    RecordCondition,
    RecordMapping,
    Uses,
    as_text,
)
from prequential.mapping.rows import RowColumns, SourceColumns, has_name, pick
from prequential.mapping.units import Clocks
from prequential.topics import messages, values

#: Structs by kind.
STRUCTS: tuple[type[Any], ...] = (messages.Instance, messages.Prediction, messages.Label)

#: Types of which no value is absent, and those of predictions that aren't text.
_NEVER_ABSENT, _NO_TEXT = {str, int, bool}, {int, float, bool}

#: Types of probabilities that are no arrays.
_NEVER_ARRAYS = {dict, type(None), float}

_REQUIRED = ("stream", "model", "instance_id", *TARGETS)

Converter = Callable[[str, Any], Any]


class KafkaRecords:
    """A batch of Kafka records: decoded values, and keys, headers, topics and timestamps (ms) if known.

    >>> KafkaRecords([{"a": {"b": 1}}, {}]).column(Path.parse("value.a.b"))
    [1, None]
    """

    def __init__(
        self, values: Sequence[Any], keys: Sequence[Any] | None = None, headers: Sequence[Any] | None = None,
        topics: Sequence[str] | None = None, timestamps: Sequence[int | None] | None = None,
    ) -> None:  # fmt: skip
        self._roots = {
            "value": values, "key": keys, "headers": headers, "topic": topics, "timestamp": timestamps,
        }  # fmt: skip
        self._count = len(values)

    def __len__(self) -> int:
        return self._count

    def column(self, path: Path) -> list[Any]:
        """Return the value of every record at a path, in their order; None where there is none."""
        roots = self._roots[path.root]
        if roots is None:
            return [None] * self._count
        if path.root == "headers":
            return [_header(headers, path.keys[0]) for headers in roots]
        return pick(roots, path.keys)

    def has_null(self, path: Path, index: int) -> bool:
        """Whether a record without a value at a path has it as null."""
        roots = self._roots[path.root]
        return roots is not None and has_name(roots[index], path.keys)


def _header(headers: Any, name: str) -> Any:
    """Return the last header with a name, from the form of Kafka's clients."""
    if isinstance(headers, Mapping):
        return headers.get(name)
    return next((content for key, content in reversed(headers or ()) if key == name), None)


class Translator:
    """Applies a mapping.

    `task_of` returns a stream's task. For `regression`, text must be a number; for `multilabel`, it may be
    an array of labels in JSON. `classes_of` returns a stream's classes by place, for arrays of
    probabilities. The targets of `text` sources (CSV) are read as tables write them: `1.0` as 1, `True` as
    true. With `unlabelled`, rows without a label are skipped; with `withdraws`, a null label withdraws the
    label.

    >>> from prequential.mapping.parsing import parse
    >>> section = {"as": "labels", "stream": {"const": "s"}, "instance_id": "value.id",
    ...     "y_true": {"path": "value.paid", "map": {"1": "good", "0": "bad"}},
    ...     "ts": {"path": "value.at", "unit": "s"}}
    >>> translate = Translator(parse(section))
    >>> translate(KafkaRecords([{"id": 7, "paid": 1, "at": 1.5}])).records
    [Label(stream='s', instance_id='7', y_true='good', ts=1500, value=None)]
    >>> translate(KafkaRecords([{"id": 7, "paid": "2"}])).reasons
    {0: "value.paid is '2': expected 1 or 0"}
    """

    def __init__(
        self, mapping: RecordMapping, task_of: Callable[[str], str] = lambda stream: "classification", *,
        classes_of: Callable[[str], Sequence[str] | None] = lambda stream: None,
        text: bool = False, unlabelled: bool = False, withdraws: bool = False,
    ) -> None:  # fmt: skip
        self.mapping = mapping
        self._task_of, self._classes_of = task_of, classes_of
        self._text, self._unlabelled = text, unlabelled
        self._withdraws = withdraws
        self._struct = STRUCTS[mapping.kind]
        #: Counts the times by their kind of zone, if the caller sets it.
        self.clocks: Clocks | None = None
        #: Counts the entries and conditions of the mapping that occurred.
        self.uses = Uses(mapping)

    def __call__(self, table: SourceColumns) -> Translated:
        """Return the input records of a batch."""
        count, mapping = len(table), self.mapping
        kept = self._kept(table, count)
        batch = _Batch(table, kept, {})
        if isinstance(table, RowColumns) and table.refused:
            batch.reasons.update({index: table.refused[index] for index in kept if index in table.refused})
        fields: dict[str, FieldColumn] = {}
        for name in self._struct.__struct_fields__:
            fields[name] = self._column(name, batch, fields.get("stream"))
        if "y_proba" in mapping.objects:
            fields["y_proba"] = self._named_as_predictions(fields["y_proba"], fields["y_pred"], batch)
        if isinstance(table, RowColumns):
            batch.reasons.update((index, table.named(index, why)) for index, why in batch.reasons.items())
        return Translated(self._struct, fields, count, kept, batch.reasons)

    @property
    def paths_of_times(self) -> list[Path]:
        """The paths of times and conditions, which is all that `times` reads."""
        time_field = self.mapping.fields.get("ts")
        paths = [] if time_field is None else time_field.paths
        return [*paths, *(condition.path for condition in self._conditions)]

    def times(self, table: SourceColumns) -> tuple[frozenset[int], list[int | None] | None]:
        """Return the places of the skipped records, and the `ts` (ms) of all others in their order.

        The `ts` is None for a record without a time; instead of the list it is None if the records have no
        such field.
        """
        count = len(table)
        batch = _Batch(table, self._kept(table, count), {})
        every = len(batch.kept) == count
        passed = frozenset[int]() if every else frozenset(range(count)).difference(batch.kept)
        return passed, self._column("ts", batch, None)

    @property
    def _conditions(self) -> tuple[RecordCondition, ...]:
        if self._unlabelled:
            label = self.mapping.fields["y_true"]
            if label.path is not None and label.default is None:
                return (*self.mapping.when, RecordCondition(label.path))
        return self.mapping.when

    def _kept(self, table: SourceColumns, count: int) -> Sequence[int]:
        """Return the places of the records that the conditions select."""
        kept: Sequence[int] = range(count)
        for number, condition in enumerate(self._conditions):
            column, asked = table.column(condition.path), kept
            if condition.value is not None or not {*map(type, column)} <= _NEVER_ABSENT:
                kept = [index for index in kept if _holds(condition, column[index])]
            if number < len(self.mapping.when):
                self.uses.note_condition(number, [column[index] for index in asked], len(kept))
        return kept

    def _column(self, name: str, batch: _Batch, streams: Any) -> Any:
        """Return the values of one field; `streams` are those of the field `stream`."""
        mapping = self.mapping
        if name == "y_proba":
            declared: Any = mapping.objects.get(name)
            if isinstance(declared, Path):
                named = self._named_by_place(declared, batch, streams)
                return batch.converted(named, declared, conversion.probabilities)
            return None if declared is None else _probabilities(declared, batch)
        if name in mapping.objects:
            return _object_of(name, mapping.objects[name], batch)
        field = mapping.fields.get(name)
        if field is None:
            return None
        if name == "instance_id":
            return _ids(field, batch)
        if field.path is None:
            return [conversion.CONVERTERS[name](name, field.const)] * len(batch.kept)
        column = batch.column(field.path, field.default)
        self.uses.note_values(name, column)
        if field.threshold is not None:
            self.uses.note_scores(name, column)
        if name in TARGETS and field.threshold is None:
            column = self._targets(column, streams if field.names is None else ())
        converter = _converter(name, field)
        if name == "ts" and self.clocks is not None:
            times = partial(conversion.time, unit=field.unit, timezone=field.timezone)
            converter = partial(times, clocks=self.clocks)
        if name == "y_true":
            withdrawn = batch.holding(mapping.withdrawn) if mapping.withdrawn else frozenset()
            if withdrawn:
                column = [None if index in withdrawn else value for index, value in enumerate(column)]
            return batch.converted(
                column, field.path, converter, required=True, nullable=self._withdraws, withdrawn=withdrawn
            )
        return batch.converted(column, field.path, converter, required=name in _REQUIRED)

    def _named_by_place(self, path: Path, batch: _Batch, streams: Any) -> list[Any]:
        """Return the values of a path, with arrays of probabilities as objects by class."""
        column = batch.column(path)
        if {*map(type, column)} <= _NEVER_ARRAYS:
            return column
        classes = {name: None if name is None else self._classes_of(name) for name in set(streams)}
        named = []
        for index, (value, stream) in enumerate(zip(column, streams)):
            array = conversion.array_of(value)
            if array is not None:
                try:
                    value = values.by_place(path.text, array, classes[stream])
                except ValueError as error:
                    batch.fail(index, str(error))
                    value = None
            named.append(value)
        return named

    def _named_as_predictions(self, column: Any, predictions: Any, batch: _Batch) -> FieldColumn:
        """Return probabilities whose classes are named as the same values in predictions.

        The `map` of predictions also applies to these classes. Text such as `1.0` or `True` is read as a
        number or a boolean if the prediction is one, or if the source contains only text.
        """
        names = self.mapping.fields["y_pred"].names
        mapped_names = {*map(as_text, (names or {}).values())}

        def renamed(name: str, plain: bool) -> str:
            read = as_text(values.class_of_text(name)) if plain else name
            if names is None or read in mapped_names:
                return read
            return as_text(names.get(name, names.get(as_text(values.class_of_text(name)), read)))

        types = {*map(type, predictions)}
        if isinstance(column, ObjectColumns) and (self._text or types == {str} or types <= _NO_TEXT):
            renamed_classes = tuple(renamed(name, self._text or types <= _NO_TEXT) for name in column.names)
            if len(set(renamed_classes)) == len(renamed_classes):
                return column._replace(names=renamed_classes)
        probabilities = column.objects() if isinstance(column, ObjectColumns) else column
        new_names = {
            (name, plain): renamed(name, plain)
            for name in set().union(*filter(None, probabilities)) for plain in (False, True)
        }  # fmt: skip
        if all(name == new for (name, _), new in new_names.items()):
            return probabilities
        for index, (shares, prediction) in enumerate(zip(probabilities, predictions)):
            if not shares:
                continue
            plain = self._text or (prediction is not None and not isinstance(prediction, str))
            named = {new_names[name, plain]: share for name, share in shares.items()}
            if len(named) < len(shares):
                twice = ", ".join(map(values.quoted, shares))
                batch.fail(index, f"y_proba has a class twice: {twice} are {', '.join(named)}")
            probabilities[index] = named
        return probabilities

    def _targets(self, column: list[Any], streams: Any) -> list[Any]:
        """Return targets as numbers or classes, by their stream and source, before they are checked."""
        tasks = {name: self._task_of(name) for name in set(streams) if name is not None}
        if not {"regression", "multilabel"}.isdisjoint(tasks.values()):
            by_task = {"regression": conversion.number_of_text, "multilabel": _set_of_text}
            of_class = values.class_of_text if self._text else _same
            return [by_task.get(tasks.get(name, ""), of_class)(value) for name, value in zip(streams, column)]
        return list(map(values.class_of_text, column)) if self._text else column


def _set_of_text(value: Any) -> Any:
    """The array of labels in a text; any other value unchanged, as the engine refuses what is no set."""
    return (values.array_of_text(value) if isinstance(value, str) else None) or value


def _same(value: Any) -> Any:
    return value


class _Batch:
    """The selected records of a batch, and the reasons why some are invalid."""

    def __init__(self, table: SourceColumns, kept: Sequence[int], reasons: dict[int, str]) -> None:
        self._table, self.kept, self.reasons = table, kept, reasons

    def column(self, path: Path, default: Any = None) -> list[Any]:
        """Return the values of the selected records at a path, or the default where there is none."""
        column = self._table.column(path)
        if len(self.kept) != len(column):
            column = [column[index] for index in self.kept]
        if default is not None:
            column = [default if conversion.is_absent(value) else value for value in column]
        return column

    def holding(self, conditions: Sequence[RecordCondition]) -> frozenset[int]:
        """Return the indexes of the selected records for which all conditions hold."""
        columns = [self.column(condition.path) for condition in conditions]
        return frozenset(
            index for index in range(len(self.kept))
            if all(_holds(condition, column[index]) for condition, column in zip(conditions, columns))
        )  # fmt: skip

    @property
    def numbers(self) -> list[int] | None:
        """The number of each selected row within its record; None if records have no rows."""
        if not isinstance(self._table, RowColumns):
            return None
        return [self._table.numbers[index] for index in self.kept]

    def fail(self, index: int, reason: str) -> None:
        """Mark a record as invalid; only its first reason is kept."""
        self.reasons.setdefault(self.kept[index], reason)

    def converted(
        self, column: list[Any], path: Path, convert: Converter, *, required: bool = False,
        nullable: bool = False, withdrawn: Set[int] = frozenset(),
    ) -> list[Any]:  # fmt: skip
        """Convert every value; None where a value is absent or invalid.

        An absent value is invalid if it is `required`, unless it is `nullable` and the record has it as null,
        or its index is `withdrawn`.
        """
        converted_values = whole_column(convert, column)
        if converted_values is not None:
            return converted_values
        converted_values = []
        for index, value in enumerate(column):
            if conversion.is_absent(value):
                is_null = index in withdrawn or (nullable and self._table.has_null(path, self.kept[index]))
                if required and not is_null:
                    self.fail(index, f"{path} is missing")
                converted_values.append(None)
                continue
            try:
                converted_values.append(convert(path.text, value))
            except ValueError as error:
                self.fail(index, str(error))
                converted_values.append(None)
        return converted_values

    def made_of(self, values: Iterable[tuple[Any, ...]], make: Callable[..., Any]) -> list[Any]:
        """Return what `make` makes of the values of each record; None where one is absent, or for invalid."""
        results: list[Any] = []
        for index, parts in enumerate(values):
            try:
                results.append(None if None in parts else make(*parts))
            except ValueError as error:
                self.fail(index, str(error))
                results.append(None)
        return results


def _ids(field: Field, batch: _Batch) -> list[Any]:
    """Return the instances' ids; within a record, each row has the record's id and its own number."""
    if field.parts:
        ids = _together(field.parts, batch)
    elif field.path is None:
        ids = [conversion.instance("instance_id", field.const)] * len(batch.kept)
    else:
        column = batch.column(field.path)
        whole = whole_numbers(column) if field.row is None and batch.numbers is None else None
        if whole is not None:
            return whole
        ids = batch.converted(column, field.path, conversion.instance, required=True)
    numbers: Sequence[Any] | None = batch.numbers
    if field.row is not None:
        column = batch.column(field.row)
        numbers = batch.converted(column, field.row, conversion.integer, required=True)
    elif numbers is None or any(path.root == ROW for path in field.paths):
        return ids
    return batch.made_of(zip(ids, numbers), partial(conversion.of_row, ", ".join(map(str, field.paths))))


def _together(paths: tuple[Path, ...], batch: _Batch) -> list[Any]:
    """Return ids that combine several values."""
    columns = [
        batch.converted(batch.column(path), path, conversion.instance, required=True) for path in paths
    ]
    text = ", ".join(map(str, paths))
    return batch.made_of(zip(*columns), lambda *parts: conversion.together(text, parts))


def _probabilities(share_fields: Mapping[str, ProbabilityField], batch: _Batch) -> Any:
    columns = []
    for share_field in share_fields.values():
        convert = conversion.remainder if share_field.is_remainder else conversion.share
        columns.append(
            batch.converted(batch.column(share_field.path, share_field.default), share_field.path, convert)
        )
    numbers = np.array(columns, np.float64)  # (classes, records), NaN for None
    if len(columns) and (numbers.sum(0) <= messages.SUM_SURELY_WITHIN).all():  # needs no closer look
        return ObjectColumns(tuple(share_fields), columns, numbers)
    if any(None in column for column in columns):
        _refuse_parts(list(share_fields.values()), columns, batch)
    objects = ObjectColumns(tuple(share_fields), columns).objects()
    for index, probabilities in enumerate(objects):
        if probabilities and sum(probabilities.values()) > messages.SUM_SURELY_WITHIN:
            try:
                messages.check_probabilities(probabilities)
            except ValueError as error:
                batch.fail(index, str(error))
    return objects


def _refuse_parts(share_fields: list[Any], columns: list[list[Any]], batch: _Batch) -> None:
    """Mark records as invalid in which some classes have a probability and others have none."""
    for index, shares in enumerate(zip(*columns)):
        if None in shares:
            with_share = next(
                (class_index for class_index, share in enumerate(shares) if share is not None), None
            )
            if with_share is not None:
                absent = share_fields[shares.index(None)].path
                batch.fail(
                    index, conversion.missing_probability(absent.text, share_fields[with_share].path.text)
                )


def _object_of(name: str, declared: Any, batch: _Batch) -> Any:
    """Return the values of a field that is an object: of segments by key, or of quantiles by level."""
    if isinstance(declared, Path):
        return _whole(declared, batch, conversion.segments if name == "segments" else conversion.quantiles)
    columns = [
        [conversion.CONVERTERS[name](key, field.const)] * len(batch.kept) if field.path is None
        else batch.converted(batch.column(field.path, field.default), field.path, _converter(name, field))
        for key, field in declared.items()
    ]  # fmt: skip
    return ObjectColumns(tuple(declared), columns)


def _whole(path: Path | None, batch: _Batch, convert: Converter) -> Any:
    """Return the values of a field that is an object in the source."""
    return None if path is None else batch.converted(batch.column(path), path, convert)


def _converter(name: str, field: Field) -> Converter:
    convert = conversion.CONVERTERS[name]
    if field.threshold is not None:
        return partial(conversion.above_or_below, field=field)
    if field.names is not None:
        return lambda path, value: convert(path, conversion.one_of(path, value, field))
    if field.unit is not None or field.timezone is not None:
        return partial(conversion.time, unit=field.unit, timezone=field.timezone)
    return convert


def _holds(condition: RecordCondition, value: Any) -> bool:
    if condition.value is None:
        return not conversion.is_absent(value)
    wanted = condition.value
    if not isinstance(value, str):  # `1.0` and `True` as `as_text` has them
        wanted = as_text(values.class_of_text(wanted))
    return (as_text(value) == wanted) is condition.equal
