"""Mappings for records that delete a row: they withdraw the label that the row gave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from prequential.mapping.model import Field, Path, RecordMapping
from prequential.topics.decoding import LABELS

#: Fields of Debezium's events with the row as it is now, as it was before, and the operation.
_AFTER, _BEFORE, _OPERATION = "after", "before", "op"

#: The operation that deletes a row; and those without a current row: also truncation, and an application's
#: own messages.
DELETION, WITHOUT_ROW = "d", frozenset("dtm")

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
    fields = {name: _before(one) for name, one in mapping.fields.items() if name in _NAMING}
    when = tuple(one._replace(path=_path_before(one.path)) for one in mapping.when)
    return replace(mapping, fields=fields, when=when)


def of_tombstone(mapping: RecordMapping) -> RecordMapping | None:
    """Return the mapping from tombstones to withdrawals, which keys and headers name.

    None if the mapping gives no labels, or if its condition, stream or instance needs a value.

    >>> from prequential.mapping.parsing import parse
    >>> labels = parse({"as": "labels", "stream": {"const": "s"}, "instance_id": "key.id",
    ...     "y_true": "value.y"})
    >>> sorted(of_tombstone(labels).fields)
    ['instance_id', 'stream']
    """
    if mapping.kind != LABELS or any(one.path.root == "value" for one in mapping.when):
        return None
    fields = {
        name: one for name, one in mapping.fields.items()
        if name in _NAMING and not any(path.root == "value" for path in one.paths)
    }  # fmt: skip
    return replace(mapping, fields=fields) if {"stream", "instance_id"} <= fields.keys() else None


def _is_in_row(path: Path) -> bool:
    return path.root == "value" and _AFTER in path.keys[:-1]


def _path_before(path: Path) -> Path:
    """The path in the row as it was before; other paths stay."""
    if not _is_in_row(path):
        return path
    at = path.keys.index(_AFTER)
    keys = (*path.keys[:at], _BEFORE, *path.keys[at + 1 :])
    return Path("value", keys, ".".join(("value", *keys)))


def _before(one: Field) -> Field:
    path = None if one.path is None else _path_before(one.path)
    return replace(one, path=path, parts=tuple(map(_path_before, one.parts)))
