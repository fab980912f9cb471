"""Apply a mapping to the parts of records, and to the rows within them; and to records that delete a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

from prequential.mapping.model import Field, Path, RecordMapping
from prequential.mapping.rows import RowColumns, follow, has_name
from prequential.mapping.translation import KafkaRecords, Translator
from prequential.topics.decoding import LABELS
from prequential.topics.errors import existing

#: The most dead letters of one record; the last one then names all other events and rows that can't be read.
_MOST_LETTERS = 100


class MappedParts(NamedTuple):
    """The result of one mapping for the parts of a batch: `places` has the part of each of its records.

    `reasons` and `passed` are by part, `of_rows` are reasons by part, path of the rows and number of the row.
    """

    rows: RowColumns | None
    records: list[Any]
    places: Sequence[int]
    reasons: dict[int, str]
    passed: frozenset[int]
    of_rows: dict[tuple[int, Path, int], str]

    def note(self, wrong: Mapping[int, str], reasons: dict[int, str]) -> None:
        """Note reasons by place among the records: in `reasons` for whole parts, else in `of_rows`."""
        for index, why in wrong.items():
            if self.rows is None or index in self.rows.refused:
                reasons.setdefault(self.places[index], why)
            else:
                self.of_rows.setdefault(self._key(self.rows, index), why)

    def lost(self, gone: Set[int], of_rows: Mapping[tuple[int, Path, int], str]) -> list[int]:
        """Return the places of the records of parts that are `gone`, and of rows with a reason."""
        if self.rows is None:
            return list(gone)
        return [
            index for index, index_of_record in enumerate(self.places)
            if index_of_record in gone or (of_rows and self._key(self.rows, index) in of_rows)
        ]  # fmt: skip

    def _key(self, rows: RowColumns, index: int) -> tuple[int, Path, int]:
        return self.places[index], rows.path, rows.numbers[index]


def mapped(translator: Translator, table: KafkaRecords) -> MappedParts:
    """Apply a mapping to the parts of a batch, or to the rows within them; returns the records made."""
    path = translator.mapping.rows
    if path is None:
        whole = translator(table)
        return MappedParts(None, whole.records, range(len(table)), whole.reasons, whole.passed, {})
    rows = RowColumns(table, path, [path_of_field for _, path_of_field in translator.mapping.paths()])
    of_rows = translator(rows)
    meant = {
        index_of_record
        for index, index_of_record in enumerate(rows.record_indices)
        if index not in of_rows.passed
    }
    passed = frozenset(range(len(table))) - meant
    parts = MappedParts(rows, of_rows.records, rows.record_indices, {}, passed, {})
    parts.note(of_rows.reasons, parts.reasons)
    return parts


def few_reasons(reasons: Sequence[str]) -> list[str]:
    """Return the reasons of a record's dead letters; the last of many stands for all others.

    >>> few_reasons(["row 0: bad", "row 7: bad"])
    ['row 0: bad', 'row 7: bad']
    >>> few_reasons([f"row {number}: bad" for number in range(102)])[-1]
    'row 99: bad (and 2 more from row 100 to row 101)'
    """
    if len(reasons) <= _MOST_LETTERS:
        return list(reasons)
    *few, last = reasons[:_MOST_LETTERS]
    rest = reasons[_MOST_LETTERS:]
    first_name, last_name = (reason.partition(": ")[0] for reason in (rest[0], rest[-1]))
    return [*few, f"{last} (and {len(rest)} more from {first_name} to {last_name})"]


#: Fields of Debezium's events with the row as it is now, as it was before, and the operation.
_AFTER, _BEFORE, _OPERATION = "after", "before", "op"

#: The operation that deletes a row; and those without a current row: also truncation, and an application's
#: own messages.
DELETION, WITHOUT_ROW = "d", frozenset("dtm")

#: The operation that changes a row.
UPDATE = "u"

#: The fields of a label that a withdrawal also has.
_NAMING = "stream", "instance_id", "ts"


def operation_path(paths: Iterable[Path]) -> tuple[str, ...] | None:
    """Return the keys of Debezium's operation in a value, if a path leads into the current row.

    >>> operation_path([Path.parse("value.payload.after.id")])
    ('payload', 'op')
    >>> operation_path([Path.parse("value.id")])
    """
    for path in paths:
        if _is_in_row(path):
            return (*path.keys[: path.keys.index(_AFTER)], _OPERATION)
    return None


def of_deleted_row(mapping: RecordMapping) -> RecordMapping | None:
    """Return the mapping from Debezium's deletions to withdrawals, from the row as it was before.

    None if the mapping gives no labels, or if its label is not in the row.

    >>> from prequential.mapping.parsing import parse
    >>> labels = parse({"as": "labels", "stream": {"const": "s"}, "instance_id": "value.after.id",
    ...     "y_true": "value.after.paid"})
    >>> str(of_deleted_row(labels).fields["instance_id"].path)
    'value.before.id'
    """
    if mapping.kind != LABELS or not any(map(_is_in_row, mapping.fields["y_true"].paths)):
        return None
    fields = {name: _before(entry) for name, entry in mapping.fields.items() if name in _NAMING}
    conditions = tuple(entry._replace(path=_path_before(entry.path)) for entry in mapping.when)
    return replace(mapping, fields=fields, when=conditions)


def of_cleared_row(mapping: RecordMapping) -> RecordMapping | None:
    """Return the mapping from rows whose label was updated to null to withdrawals.

    None where `of_deleted_row` is None, and for rows within records.

    >>> from prequential.mapping.parsing import parse
    >>> labels = parse({"as": "labels", "stream": {"const": "s"}, "instance_id": "value.after.id",
    ...     "y_true": "value.after.paid"})
    >>> sorted(of_cleared_row(labels).fields)
    ['instance_id', 'stream']
    """
    if mapping.rows is not None or of_deleted_row(mapping) is None:
        return None
    fields = {name: field for name, field in mapping.fields.items() if name in _NAMING}
    return replace(mapping, fields=fields, withdrawn=())


def had_no_label(mapping: RecordMapping, value: Any) -> bool:
    """Return whether Debezium's event has the row as it was before, without a label.

    >>> from prequential.mapping.parsing import parse
    >>> labels = parse({"as": "labels", "stream": {"const": "s"}, "instance_id": "value.after.id",
    ...     "y_true": "value.after.paid"})
    >>> had_no_label(labels, {"before": {"paid": None}}), had_no_label(labels, {"before": None})
    (True, False)
    """
    path = _path_before(existing(mapping.fields["y_true"].path, "the path of the label"))
    return has_name(value, path.keys) and follow(value, path.keys) is None


def of_tombstone(mapping: RecordMapping) -> RecordMapping | None:
    """Return the mapping from tombstones to withdrawals, which keys and headers name.

    None if the mapping gives no labels, or if its condition, stream or instance needs a value.

    >>> from prequential.mapping.parsing import parse
    >>> labels = parse({"as": "labels", "stream": {"const": "s"}, "instance_id": "key.id",
    ...     "y_true": "value.y"})
    >>> sorted(of_tombstone(labels).fields)
    ['instance_id', 'stream']
    """
    if mapping.kind != LABELS or any(entry.path.root == "value" for entry in mapping.when):
        return None
    fields = {
        name: entry for name, entry in mapping.fields.items()
        if name in _NAMING and not any(path.root == "value" for path in entry.paths)
    }  # fmt: skip
    return replace(mapping, fields=fields) if {"stream", "instance_id"} <= fields.keys() else None


def _is_in_row(path: Path) -> bool:
    return path.root == "value" and _AFTER in path.keys[:-1]


def _path_before(path: Path) -> Path:
    """The path in the row as it was before; other paths stay."""
    if not _is_in_row(path):
        return path
    position = path.keys.index(_AFTER)
    keys = (*path.keys[:position], _BEFORE, *path.keys[position + 1 :])
    return Path("value", keys, ".".join(("value", *keys)))


def _before(field: Field) -> Field:
    path = None if field.path is None else _path_before(field.path)
    return replace(field, path=path, parts=tuple(map(_path_before, field.parts)))
