"""Rows of records as columns: tables turn numbers of names, and hashes of class names, into codes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.compiled.calls import entry_of
from prequential.engine.compiled.kernel import Bytes, Ints, Ints32, Words, inlined, inner, kernel
from prequential.engine.input import record_scanner as scanner
from prequential.engine.input.fields import set_name
from prequential.engine.input.plain import PlainRecords
from prequential.engine.input.record_scanner import MODEL, MODEL_VERSION, STREAM, TARGET, Columns
from prequential.engine.measures.registry import OF_KIND
from prequential.engine.tables.records import INSTANCE, PREDICTION, Rows, Unusable, new_rows
from prequential.engine.tables.streams import Registry, name_hash
from prequential.topics.errors import existing
from prequential.topics.messages import MAX_AMOUNT, NUMBERS

#: Names that are remembered; beyond these all are forgotten.
_MOST = 100_000


class ClassHashes:
    """The hashes of names of classes in probabilities."""

    def __init__(self) -> None:
        self._hashes: dict[str, int] = {}

    def hashes(self, names: Iterable[str]) -> list[int]:
        """The hashes of names, in their order."""
        hashes, names = self._hashes, list(names)
        try:
            return list(map(hashes.__getitem__, names))
        except KeyError:
            pass
        values = []
        for name in names:
            value = hashes.get(name)
            if value is None:
                if len(hashes) >= _MOST:
                    hashes.clear()
                value = hashes[name] = name_hash(name)
            values.append(value)
        return values

    def names(self, hashes: Collection[int]) -> list[str]:
        """Names of classes with these hashes, as far as they are still known."""
        return [name for name, value in self._hashes.items() if value in hashes]


#: Odd factors below 2^31: products of numbers below 2^31 with them stay within 63 bits.
_OWNER, _NAME = 0x4F1BBCDD, 0x2545F491

#: Most entries of a table of codes: names of values beyond the limit of their key come from strangers.
_MOST_CODES = 1 << 20

#: Where `_fill` stopped: at which row, for want of what: the code of a name of the record, of the key or the
#: value of a segment, the hash of a class's name; or for something that needs the record as an object.
_ROW, _WANTED, _PLACE = range(3)
_KEY, _VALUE, _CLASS, _OBJECT = range(MODEL_VERSION + 1, MODEL_VERSION + 5)


#: By place of a number: its range, its default, and the place of the number that it isn't below, or -1.
_LOW, _HIGH, _DEFAULT = (np.array(column, float) for column in list(zip(*NUMBERS.values()))[:3])
_ABOVE = np.array([list(NUMBERS).index(number.above) if number.above else -1 for number in NUMBERS.values()])


class Codes(NamedTuple):
    """Codes of names within owners: a hash table (linear probing), a power of two of entries."""

    owner: Ints32
    name: Ints32  # its number + 1; 0: empty
    code: Ints32


class Tables(NamedTuple):
    """Codes by numbers of names."""

    streams: Ints32  # -1: none
    models: Codes  # within streams, here and below
    classes: Codes
    versions: Codes
    keys: Codes  # 1 + the position of a segment's key; 0: it isn't configured
    values: Codes  # within owners as `_owner` gives them
    hashes: Words  # of names of classes; 0: not known


def _new_codes(entries: int = 64) -> Codes:
    return Codes(*(np.zeros(entries, np.int32) for _ in range(3)))


@inlined
def _owner(stream: int, key: int, keys: int) -> int:
    """The owner of the values of a stream's key, the position of which is `key` - 1, with `keys` at most."""
    return stream * keys + key - 1


@inlined
def _slot_of(codes: Codes, owner: int, name: int) -> int:
    """Where the code of a name is, or would go."""
    mask = len(codes.name) - 1
    mixed = (owner * _OWNER) ^ (name * _NAME)
    slot = (mixed ^ (mixed >> 16)) & mask
    while codes.name[slot] and (codes.name[slot] != name + 1 or codes.owner[slot] != owner):
        slot = (slot + 1) & mask
    return slot


@kernel
def _enter(codes: Codes, owner: int, name: int, code: int) -> bool:
    """Enter the code of a name; returns whether the name had none."""
    slot = _slot_of(codes, owner, name)
    is_new = codes.name[slot] == 0
    codes.owner[slot], codes.name[slot], codes.code[slot] = owner, name + 1, code
    return is_new


@kernel
def _enter_all(codes: Codes, wide: Codes) -> None:
    """Enter all codes of a table in a larger one, which is empty."""
    for i in range(len(codes.name)):
        if codes.name[i]:
            owner, name = np.int64(codes.owner[i]), np.int64(codes.name[i])
            slot = _slot_of(wide, owner, name - 1)
            wide.owner[slot], wide.name[slot], wide.code[slot] = owner, name, codes.code[i]


@inlined
def _code(codes: Codes, owner: int, name: int) -> int:
    """The code of a name; -1 if it isn't known."""
    slot = _slot_of(codes, owner, name)
    return np.int64(codes.code[slot]) if codes.name[slot] else -1


@inner
def _fill_target(
    columns: Columns, record: int, stream: int, registry: Registry, tables: Tables, rows: Rows, i: int
) -> int:
    """Fill a row's class or number, and its other numbers; returns what is missing, or -1."""
    streams = registry.streams
    if streams.regression[stream]:
        number = columns.numbers[record, scanner.TARGET_NUMBER]
        if not -MAX_AMOUNT <= number <= MAX_AMOUNT:
            return _OBJECT
        rows.number[i] = number
    else:
        name = np.int64(columns.names[record, TARGET])
        if name < 0:
            return _OBJECT
        code = _code(tables.classes, stream, name)
        if code < 0:
            return TARGET
        rows.label[i] = code
    reads = streams.reads[stream] & OF_KIND[rows.kind[i]]
    return _fill_numbers(columns, record, reads, rows, i) if reads else -1


@inner
def _fill_numbers(columns: Columns, record: int, reads: int, rows: Rows, i: int) -> int:
    """Fill the numbers that a row's stream reads; returns what is missing, or -1."""
    for k in range(rows.numbers.shape[1]):
        if not reads >> k & 1:
            continue
        number = columns.numbers[record, scanner.NUMBER + k]
        if number != number:  # it is absent
            number = _DEFAULT[k]
        elif not _LOW[k] <= number <= _HIGH[k]:
            return _OBJECT
        rows.numbers[i, k] = number
        if _ABOVE[k] >= 0:
            lower = rows.numbers[i, _ABOVE[k]]
            if not lower <= number and (lower == lower or number == number):
                return _OBJECT
    return -1


@inner
def _fill_segments(
    columns: Columns, record: int, stream: int, tables: Tables, rows: Rows, i: int, stopped: Ints
) -> int:
    """Fill a row's segments; returns what is missing, or -1."""
    keys = rows.segments.shape[1]
    for entry in range(columns.segment_bounds[record], columns.segment_bounds[record + 1]):
        stopped[_PLACE] = entry
        key = _code(tables.keys, stream, np.int64(columns.segments[entry, 0]))
        if key < 0:
            return _KEY
        if key:
            owner = _owner(stream, key, keys)
            position = _code(tables.values, owner, np.int64(columns.segments[entry, 1]))
            if position < 0:
                return _VALUE
            rows.segments[i, key - 1] = position
    return -1


@inlined
def _fill_shares(columns: Columns, record: int, tables: Tables, rows: Rows, i: int, stopped: Ints) -> int:
    """Fill a row's probabilities; returns what is missing, or -1."""
    first, start = columns.share_bounds[record], rows.probabilities[i]
    for k in range(rows.probabilities[i + 1] - start):
        name = columns.classes[first + k]
        if not tables.hashes[name]:
            stopped[_PLACE] = first + k
            return _CLASS
        rows.names[start + k], rows.p[start + k] = tables.hashes[name], columns.shares[first + k]
    return -1


@inner
def _fill_prediction(
    columns: Columns, record: int, stream: int, registry: Registry, tables: Tables, rows: Rows, i: int,
    stopped: Ints,
) -> int:  # fmt: skip
    """Fill what only predictions have; returns what is missing, or -1."""
    model = _code(tables.models, stream, np.int64(columns.names[record, MODEL]))
    if model < 0:
        return MODEL
    rows.model[i] = model
    streams, version = registry.streams, np.int64(columns.names[record, MODEL_VERSION])
    if version >= 0:
        code = _code(tables.versions, stream, version)
        if code < 0:
            return MODEL_VERSION
        rows.version[i] = code
    if (
        streams.correction[stream]
        and columns.share_bounds[record + 1] > columns.share_bounds[record]
        and not registry.entities.corrected[model]
    ):
        return _OBJECT
    if streams.quantiles[stream] and rows.probabilities[i + 1] > rows.probabilities[i]:
        return _OBJECT  # its probabilities are no quantiles
    return _fill_shares(columns, record, tables, rows, i, stopped)


@kernel
def _fill(
    columns: Columns, places: Ints, registry: Registry, tables: Tables, rows: Rows, stopped: Ints
) -> bool:
    """Fill rows from the one in `stopped` on; False if something isn't known.

    The kinds and record times of the rows are filled already.
    """
    for i in range(stopped[_ROW], len(places)):
        stopped[_ROW] = i
        record = places[i]
        stream, missing = np.int64(tables.streams[columns.names[record, STREAM]]), -1
        if stream < 0:
            stopped[_WANTED] = STREAM
            return False
        rows.stream[i] = stream
        kind = rows.kind[i]
        if kind == INSTANCE:
            rows.version[i] = columns.version[record]
            propensity = columns.numbers[record, scanner.PROPENSITY]
            rows.propensity[i] = propensity if propensity > 0.0 else 0.0
        if kind == PREDICTION:
            missing = _fill_prediction(columns, record, stream, registry, tables, rows, i, stopped)
        if kind != INSTANCE and missing < 0:
            missing = _fill_target(columns, record, stream, registry, tables, rows, i)
        if missing < 0 and registry.streams.keys[stream]:
            missing = _fill_segments(columns, record, stream, tables, rows, i, stopped)
        if missing >= 0:
            stopped[_WANTED] = missing
            return False
        rows.ts[i] = rows.time[i] if columns.ts[record] == scanner.NO_TIME else columns.ts[record]
        rows.classes[i] = registry.streams.class_count[stream]  # without those that only later rows name
        first, start = columns.id_bounds[record], rows.starts[i]
        for k in range(columns.id_bounds[record + 1] - first):
            rows.text[start + k] = columns.ids[first + k]
    return True


def _first(rows: Rows, count: int) -> Rows:
    """The first rows."""
    last = int(rows.probabilities[count])
    ends = {
        "text": int(rows.starts[count]), "starts": count + 1, "probabilities": count + 1, "names": last,
        "p": last,
    }  # fmt: skip
    columns: Iterable[Any] = rows
    return Rows(*(column[: ends.get(name, count)] for name, column in zip(rows._fields, columns)))


class PlainEncoder:
    """Makes rows of records as columns, with the names that an encoder has registered.

    `hashes` are those of names of classes.
    """

    def __init__(
        self, catalog: Catalog, streams: Mapping[str, int], models: Mapping[str, Mapping[str, int]],
        classes: Mapping[str, Mapping[str, int]], hashes: ClassHashes,
    ) -> None:  # fmt: skip
        self._catalog = catalog
        self._by_stream = {MODEL: models, TARGET: classes}
        self._by_name = streams
        self._hashes = hashes
        self._names: Sequence[str] | None = None
        self._keys = 0
        self.forget()

    def forget(self) -> None:
        """A name has another code from now on, or none."""
        self._tables = Tables(
            np.zeros(0, np.int32), _new_codes(), _new_codes(), _new_codes(), _new_codes(), _new_codes(),
            np.zeros(0, np.uint64),
        )  # fmt: skip
        self._entered = dict.fromkeys(("models", "classes", "versions", "keys", "values"), 0)

    def _sized(self, names: int) -> Tables:
        """The tables, with room for so many names."""
        more = names - len(self._tables.streams)
        if more > 0:
            self._tables = self._tables._replace(
                streams=np.append(self._tables.streams, np.full(more, -1, np.int32)),
                hashes=np.append(self._tables.hashes, np.zeros(more, np.uint64)),
            )
        return self._tables

    def rows(
        self, records: PlainRecords, times: Ints, kinds: Bytes, keys: int, numbers: int, scores: bool,
        learn: Callable[[int], bool],
    ) -> Rows:  # fmt: skip
        """Rows of records with their record times (ms) and kinds, up to one with a name that isn't known.

        For an unknown name, `learn` is called with the record's place. If it returns True, the name is known
        now, and the rows continue. `keys` and `numbers` are the widths of these columns; with `scores`, rows
        have probabilities.
        """
        names, columns, places = records.plain.names, records.plain.columns, records.places
        if names is not self._names or keys != self._keys or max(self._entered.values()) > _MOST_CODES:
            self._names, self._keys = names, keys
            self.forget()
        count = len(places)
        starts, shares = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
        np.cumsum(np.diff(columns.id_bounds)[places], out=starts[1:])
        if scores and len(columns.shares):
            np.cumsum(np.diff(columns.share_bounds)[places], out=shares[1:])
        rows = new_rows(count, numbers, keys, np.empty(int(starts[-1]), np.uint8), int(shares[-1]))
        rows = rows._replace(kind=kinds, time=times, starts=starts, probabilities=shares)
        stopped, stop, fill = np.zeros(3, np.int64), count, None
        while True:
            args = columns, places, self._catalog.registry, self._sized(len(names)), rows, stopped
            if (fill or _fill)(*args):
                break
            if fill is None:  # the arguments keep their types, so numba needn't look at them for each name
                fill = entry_of(_fill, args)
            row, wanted, entry = stopped.tolist()
            codes = columns.names[places[row]].tolist()
            if wanted in (_KEY, _VALUE):
                codes += columns.segments[entry].tolist()
            elif wanted == _CLASS:
                (hashed,) = self._hashes.hashes([names[columns.classes[entry]]])
                self._tables.hashes[columns.classes[entry]] = hashed
                continue
            if not (self._enter(codes, wanted) or (learn(row) and self._enter(codes, wanted, True))):
                stop = row
                break
            self._enter_others(columns, int(places[row]), codes, wanted)
        rows.text.setflags(write=False)  # as that of decoded records: loops are compiled for one type of rows
        if stop < count:
            rows = _first(rows, stop)
        return rows

    def _enter_others(self, columns: Columns, record: int, numbers: list[int], entered: int) -> None:
        """Enter what else is new to the tables if a name of a record is: the loop needn't stop for each.

        `numbers` are those of its names, and `entered` is the place of the one that has just been entered.
        """
        if entered in (STREAM, MODEL):
            for place in (MODEL, TARGET, MODEL_VERSION):
                if place != entered and numbers[place] >= 0:
                    self._enter(numbers, place)
        names = existing(self._names, "the names of plain records")
        keys = self._catalog.by_name[names[numbers[STREAM]]].config.segments
        if entered == STREAM:
            for entry in range(columns.segment_bounds[record], columns.segment_bounds[record + 1]):
                of_entry = numbers + columns.segments[entry].tolist()
                self._enter(of_entry, _KEY)
                if names[of_entry[_KEY]] in keys:
                    self._enter(of_entry, _VALUE)
        elif entered == _KEY and names[numbers[_KEY]] in keys:
            self._enter(numbers, _VALUE)

    def _enter(self, numbers: list[int], wanted: int, is_learnt: bool = False) -> bool:
        """Enter a code that isn't in the tables yet; False if there is none at all.

        `numbers` are those of the names of a record, then of a segment's key and value. `is_learnt`: whether
        something new of the record has just been registered.
        """
        if wanted == _OBJECT:
            return is_learnt
        names = existing(self._names, "the names of plain records")
        name = names[numbers[wanted]]
        if wanted == STREAM:
            code = self._by_name.get(name)
            if code is not None:
                self._tables.streams[numbers[STREAM]] = code
            return code is not None
        stream = self._catalog.by_name[names[numbers[STREAM]]]
        table = {MODEL: "models", TARGET: "classes", MODEL_VERSION: "versions"}.get(wanted, "")
        owner = stream.code
        try:
            if wanted == _KEY:
                table = "keys"
                if stream.unseen_keys:
                    stream.note_keys({name: ""})
                configured = stream.config.segments
                code = 1 + configured.index(name) if name in configured else 0
            elif wanted == _VALUE:
                table, key = "values", stream.config.segments.index(names[numbers[_KEY]])
                code, owner = stream.position(key, name), _owner(stream.code, key + 1, self._keys)
            elif wanted == MODEL_VERSION:
                code = stream.version(name)
            else:
                if wanted == TARGET and stream.config.has_sets:  # its JSON may be in another form
                    name = set_name(name, "class")
                code = self._by_stream[wanted][stream.name][name]
        except (KeyError, Unusable):
            return False
        codes: Codes = getattr(self._tables, table)
        if 2 * (1 + self._entered[table]) > len(codes.name):
            wide = _new_codes(2 * len(codes.name))
            _enter_all(codes, wide)
            wider: dict[str, Any] = {table: wide}
            self._tables, codes = self._tables._replace(**wider), wide
        self._entered[table] += _enter(codes, owner, numbers[wanted], code)
        return True
