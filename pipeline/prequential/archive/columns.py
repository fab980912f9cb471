"""Messages as rows of Parquet, and rows as messages: types follow from the structs of the topics.

A column's type depends only on the declared type of its field, so it is the same in all files of all times.
Objects with open names are maps; what has no fixed form (`coverage`, `causes`) is text, its JSON. A field
that this version doesn't know, or that has another type than here, is JSON in the map `extra`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
import pyarrow as pa
from prequential.topics import specs
from prequential.topics.dead_letters import origin_of
from prequential.topics.foreign_json import Unreadable, reader
from prequential.topics.marks import IncidentMark
from prequential.topics.schemas import STRUCTS
from prequential.topics.values import MAX_TS

#: Folder of records that are no messages, in the same form as dead letters.
UNREADABLE = "unreadable"

#: Topics whose records have an id. Of an incident, each revision is a message.
WITH_ID = (specs.METRICS, specs.COMPARISONS, specs.DISPARITIES, specs.DRIFT_ALARMS, specs.INCIDENTS)

#: Columns of all rows: the record's place in Kafka, its time, the identity of rows without an id, and more.
PARTITION, OFFSET, TIME, KEY, SETTINGS, EXTRA = (
    "kafka_partition", "kafka_offset", "kafka_time", "record_key", "settings", "extra",
)  # fmt: skip

_TIME_TYPE = pa.timestamp("ms", "UTC")
_TEXTS = pa.map_(pa.string(), pa.string())
_LARGEST = 2**63

_raw_fields = reader(dict[str, msgspec.Raw])
_any = reader()


class ConsumedRecord(NamedTuple):
    """A record of an output topic as Kafka returned it; `time` is Kafka's (epoch ms)."""

    topic: str
    partition: int
    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


class Row(NamedTuple):
    """A row of the archive: its folder, its day, its identity (16 bytes), and its cells by column."""

    folder: str
    day: str
    identity: bytes
    cells: dict[str, Any]


class _StoredType(NamedTuple):
    """How values of a type are stored; `store` raises ValueError for a value of another type."""

    type: pa.DataType
    store: Callable[[Any], Any]
    restore: Callable[[Any], Any]


def _plain(kind: type, arrow: pa.DataType) -> _StoredType:
    def store(value: Any) -> Any:
        if type(value) is not kind or (type(value) is int and not -_LARGEST <= value < _LARGEST):
            raise ValueError(f"{value!r:.40} is no {kind.__name__}")
        return value

    return _StoredType(arrow, store, lambda value: value)


def _store_number(value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value):
        raise ValueError(f"{value!r:.40} is no number")
    return float(value)


def _restore_number(value: float) -> int | float:
    """A number that may be whole in JSON, as the `n` of a window."""
    return int(value) if value.is_integer() and abs(value) < _LARGEST else value


def _store_time(value: Any) -> int:
    if type(value) is not int or abs(value) > MAX_TS:
        raise ValueError(f"{value!r:.40} is no time")
    return value


_PLAIN: Mapping[Any, _StoredType] = {
    str: _plain(str, pa.string()), int: _plain(int, pa.int64()), bool: _plain(bool, pa.bool_()),
    float: _StoredType(pa.float64(), _store_number, lambda value: value),
}  # fmt: skip
_NUMBER = _StoredType(pa.float64(), _store_number, _restore_number)
_JSON = _StoredType(pa.string(), lambda text: text, lambda text: msgspec.Raw(text.encode()))
_TIME = _StoredType(_TIME_TYPE, _store_time, lambda moment: moment)


def _cell(hint: Any) -> _StoredType:
    """How values of a declared type are stored."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        parts = set(inner) - {NoneType, msgspec.UnsetType}
        if parts == {int, float}:
            return _NUMBER
        return _cell(parts.pop()) if len(parts) == 1 else _JSON
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin is dict and (entry := _cell(inner[1])) is not _JSON:
        return _StoredType(pa.map_(pa.string(), entry.type), *_of_map(entry))
    if origin in (list, tuple) and (entry := _cell(inner[0])) is not _JSON:
        return _StoredType(pa.list_(entry.type), *_of_list(entry))
    return _JSON


def _of_map(entry: _StoredType) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    def store(value: Any) -> Any:
        if type(value) is not dict:
            raise ValueError("no object")
        return [(name, entry.store(below)) for name, below in value.items()]

    return store, lambda pairs: {name: entry.restore(below) for name, below in pairs}


def _of_list(entry: _StoredType) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    def store(value: Any) -> Any:
        if type(value) is not list:
            raise ValueError("no list")
        return [entry.store(below) for below in value]

    return store, lambda cells: [entry.restore(below) for below in cells]


class _StoredField(NamedTuple):
    cell: _StoredType
    #: Whether JSON has null where there is no value, instead of leaving the field out.
    has_null: bool


@cache
def _fields(topic: str) -> Mapping[str, _StoredField]:
    struct = IncidentMark if topic == specs.INCIDENT_MARKS else STRUCTS[topic]
    hints = get_type_hints(struct)
    fields = {}
    for field in msgspec.structs.fields(struct):
        hint = hints[field.name]
        cell = _TIME if field.name == "ts" else _cell(hint)
        fields[field.name] = _StoredField(cell, NoneType in get_args(hint))
    return fields


_PLACE = [pa.field(PARTITION, pa.int32()), pa.field(OFFSET, pa.int64()), pa.field(TIME, _TIME_TYPE)]

_AS_SENT = pa.schema([
    pa.field("error", pa.string()), pa.field("topic", pa.string()), pa.field("partition", pa.int64()),
    pa.field("offset", pa.int64()), pa.field("key", pa.binary()), pa.field("value", pa.binary()),
    pa.field(KEY, pa.string()), *_PLACE,
])  # fmt: skip


@cache
def arrow_schema(folder: str) -> pa.Schema:
    """The columns of a folder of the archive, of a topic or `unreadable`.

    >>> schema = arrow_schema("metrics")
    >>> schema.field("measures").type, schema.field("coverage").type, schema.field("n").type
    (MapType(map<string, double>), DataType(string), DataType(double))
    """
    if folder in (UNREADABLE, specs.DEAD_LETTERS):
        return _AS_SENT
    columns = [pa.field(name, field.cell.type) for name, field in _fields(folder).items()]
    identity = [] if folder in WITH_ID else [pa.field(KEY, pa.string())]
    settings = [pa.field(SETTINGS, pa.string())] if folder == specs.METRICS else []
    return pa.schema([*columns, pa.field(EXTRA, _TEXTS), *identity, *settings, *_PLACE])


def row_of(record: ConsumedRecord) -> Row:
    """A record as a row; one that is no message of its topic becomes a row of `unreadable`."""
    if record.topic == specs.DEAD_LETTERS:
        return _as_sent(record, record.topic, None)
    try:
        cells = _cells_of(record)
    except Unreadable as error:
        return _as_sent(record, UNREADABLE, str(error))
    if record.topic in WITH_ID:
        identity = identity_of(record.topic, cells["id"], cells.get("revision"))
    else:
        identity = _identity_of_record(record)
        cells[KEY] = identity.hex()
    if record.topic == specs.METRICS and (settings := dict(record.headers).get(specs.SETTINGS_HEADER)):
        cells[SETTINGS] = settings.decode(errors="replace")
    return Row(record.topic, day_of(cells["ts"]), identity, cells | _place(record))


def _cells_of(record: ConsumedRecord) -> dict[str, Any]:
    """The cells of a message's fields; raises Unreadable if the record is no message."""
    cells: dict[str, Any] = {}
    extra = []
    fields = _fields(record.topic)
    for name, raw in _raw_fields(record.value).items():
        field, text = fields.get(name), bytes(raw).decode()
        value = _any(text)
        if field is not None:
            try:
                if value is not None:
                    cells[name] = text if field.cell is _JSON else field.cell.store(value)
                continue
            except (ValueError, OverflowError):
                pass
        extra.append((name, text))  # another version's field, or of another type than here
    if cells.get("ts") is None or (record.topic in WITH_ID and not cells.get("id")):
        raise Unreadable("expected `id` and `ts` of a message")
    cells[EXTRA] = extra or None
    return cells


def _as_sent(record: ConsumedRecord, folder: str, error: str | None) -> Row:
    """The row of a dead letter, or of a record that is no message for the reason `error`."""
    identity = _identity_of_record(record)
    if error is None:
        letter = origin_of(record.headers)
        cells = {
            "error": letter.reason, "topic": letter.topic,
            "partition": _whole(letter.partition), "offset": _whole(letter.offset), "row": letter.row,
        }  # fmt: skip
    else:
        cells = {
            "error": error, "topic": record.topic, "partition": record.partition, "offset": record.offset,
        }  # fmt: skip
    cells |= {"key": record.key, "value": record.value, KEY: identity.hex(), **_place(record)}
    return Row(folder, day_of(record.time), identity, cells)


def _whole(number: int) -> int:
    """A number that another program wrote into a header; -1 for one that is too large."""
    return number if number < _LARGEST else -1


def _place(record: ConsumedRecord) -> dict[str, Any]:
    time = record.time if abs(record.time) <= MAX_TS else None
    return {PARTITION: record.partition, OFFSET: record.offset, TIME: time}


def _identity_of_record(record: ConsumedRecord) -> bytes:
    """The identity of a record without an id: its place, its time and its content."""
    parts = record.partition, record.offset, record.time, record.key, record.value
    return hashlib.sha256(repr(parts).encode()).digest()[:16]


def identity_of(topic: str, identifier: str, revision: int | None) -> bytes:
    """The identity of a message: of its id, and for an incident of the revision as well."""
    text = f"{identifier}:{revision}" if topic == specs.INCIDENTS else identifier
    return hashlib.sha256(text.encode()).digest()[:16]


def identities_in(folder: str, table: pa.Table) -> list[bytes]:
    """The identities of stored rows."""
    if folder not in WITH_ID:
        return [bytes.fromhex(text) for text in table.column(KEY).to_pylist()]
    ids = table.column("id").to_pylist()
    revisions: Sequence[int | None] = [None] * len(ids)
    if folder == specs.INCIDENTS:
        revisions = table.column("revision").to_pylist()
    return [identity_of(folder, identifier, revision) for identifier, revision in zip(ids, revisions)]


def identity_columns(folder: str) -> list[str]:
    """The columns that `identities_in` reads."""
    if folder == specs.INCIDENTS:
        return ["id", "revision"]
    return ["id"] if folder in WITH_ID else [KEY]


#: The first and the last day that SQL engines know, for times beyond them.
_FIRST_DAY, _LAST_DAY = "0001-01-01", "9999-12-31"
_EPOCH, _DAY_MS = date(1970, 1, 1), 86_400_000


def day_of(ts: int) -> str:
    """The day (UTC) of epoch milliseconds.

    >>> day_of(1_700_000_000_000), day_of(-1), day_of(10**17)
    ('2023-11-14', '1969-12-31', '9999-12-31')
    """
    try:
        return (_EPOCH + timedelta(days=ts // _DAY_MS)).isoformat()
    except OverflowError:
        return _LAST_DAY if ts > 0 else _FIRST_DAY


def message_of(folder: str, cells: Mapping[str, Any]) -> bytes:
    """The JSON of a message from its cells (times as epoch ms): the fields and values that were published."""
    message: dict[str, Any] = {}
    extra = dict(cells.get(EXTRA) or ())
    for name, field in _fields(folder).items():
        cell = cells.get(name)
        if cell is not None:
            message[name] = field.cell.restore(cell)
        elif field.has_null and name not in extra:
            message[name] = None
    message |= {name: msgspec.Raw(text.encode()) for name, text in extra.items()}
    return msgspec.json.encode(message)
