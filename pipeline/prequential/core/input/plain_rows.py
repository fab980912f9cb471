"""Rows of records in the plain form: tables turn the numbers of names into codes, without their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from prequential.core.catalog.catalog import Catalog
from prequential.core.compiled.kernel import Bytes, Ints, Ints32, inlined, kernel
from prequential.core.input.plain import MODEL, NO_TIME, STREAM, TARGET, Columns, PlainRecords
from prequential.core.tables.records import INSTANCE, PREDICTION, Rows
from prequential.topics.errors import existing

#: Odd factors below 2^31: products of numbers below 2^31 with them stay within 63 bits.
_OWNER, _NAME = 0x4F1BBCDD, 0x2545F491

#: Where `_fill` stopped: at which row, for want of the code of which name.
_ROW, _WANTED = range(2)


class Codes(NamedTuple):
    """Codes of names within streams: a hash table (linear probing), a power of two of entries."""

    stream: Ints32
    name: Ints32  # its number + 1; 0: empty
    code: Ints32


def _new_codes(entries: int = 64) -> Codes:
    return Codes(*(np.zeros(entries, np.int32) for _ in range(3)))


@inlined
def _place(codes: Codes, stream: int, name: int) -> int:
    """Where the code of a name is, or would go."""
    mask = len(codes.name) - 1
    mixed = (stream * _OWNER) ^ (name * _NAME)
    at = (mixed ^ (mixed >> 16)) & mask
    while codes.name[at] and (codes.name[at] != name + 1 or codes.stream[at] != stream):
        at = (at + 1) & mask
    return at


@kernel
def _enter(codes: Codes, stream: int, name: int, code: int) -> None:
    at = _place(codes, stream, name)
    codes.stream[at], codes.name[at], codes.code[at] = stream, name + 1, code


@kernel
def _fill(
    columns: Columns, places: Ints, streams: Ints32, models: Codes, classes: Codes, rows: Rows, stopped: Ints
) -> bool:
    """Fill rows from the one in `stopped` on; False if the code of a name isn't known.

    The kinds and record times of the rows are filled already.
    """
    for i in range(stopped[_ROW], len(places)):
        stopped[_ROW] = i
        place = places[i]
        stream = np.int64(streams[columns.names[place, STREAM]])
        if stream < 0:
            stopped[_WANTED] = STREAM
            return False
        rows.stream[i] = stream
        kind = rows.kind[i]
        if kind == PREDICTION:
            at = _place(models, stream, np.int64(columns.names[place, MODEL]))
            if models.name[at] == 0:
                stopped[_WANTED] = MODEL
                return False
            rows.model[i] = models.code[at]
        if kind != INSTANCE:
            at = _place(classes, stream, np.int64(columns.names[place, TARGET]))
            if classes.name[at] == 0:
                stopped[_WANTED] = TARGET
                return False
            rows.label[i] = classes.code[at]
        rows.ts[i] = rows.time[i] if columns.ts[place] == NO_TIME else columns.ts[place]
        rows.version[i] = columns.version[place]
        first, start = columns.id_bounds[place], rows.starts[i]
        for k in range(columns.id_bounds[place + 1] - first):
            rows.text[start + k] = columns.ids[first + k]
    return True


def _first(rows: Rows, count: int) -> Rows:
    """The first rows; there are no probabilities."""
    ends = {"text": int(rows.starts[count]), "starts": count + 1, "probabilities": count + 1}
    columns: Iterable[Any] = rows
    return Rows(*(column[: ends.get(name, count)] for name, column in zip(rows._fields, columns)))


class PlainEncoder:
    """Makes rows of records in the plain form, with the names that an encoder has registered."""

    def __init__(
        self, catalog: Catalog, streams: Mapping[str, int], models: Mapping[str, Mapping[str, int]],
        classes: Mapping[str, Mapping[str, int]],
    ) -> None:  # fmt: skip
        self._catalog = catalog
        self._by_stream = {MODEL: models, TARGET: classes}
        self._by_name = streams
        self._known: list[str] | None = None
        self.forget()

    def forget(self) -> None:
        """A name has another code from now on, or none."""
        self._streams = np.zeros(0, np.int32)
        self._codes = {MODEL: _new_codes(), TARGET: _new_codes()}
        self._entered = {MODEL: 0, TARGET: 0}

    def rows(
        self, records: PlainRecords, times: Ints, kinds: Bytes, keys: int, values: int,
        learn: Callable[[int], bool],
    ) -> Rows:  # fmt: skip
        """Rows of records with their record times (ms) and kinds, up to one with a name that isn't known.

        For an unknown name, `learn` is called with the record's place. If it returns True, the name is known
        now, and the rows continue. `values` is 1 where streams need `value`, which none of these has, else 0.
        """
        known, columns, places = records.plain.known, records.plain.columns, records.places
        if known is not self._known:
            self._known = known
            self.forget()
        if len(self._streams) < len(known):
            more = np.full(len(known) - len(self._streams), -1, np.int32)
            self._streams = np.concatenate([self._streams, more])
        count = len(places)
        starts = np.zeros(count + 1, np.int64)
        np.cumsum(np.diff(columns.id_bounds)[places], out=starts[1:])
        small = [np.zeros(count, np.int32) for _ in range(3)]
        large = [np.zeros(count, np.int64) for _ in range(2)]
        nothing = np.zeros(count + 1, np.int64), np.zeros(0, np.uint64), np.zeros(0)
        rows = Rows(
            kinds, small[0], large[0], times, np.empty(int(starts[-1]), np.uint8), starts, small[1], small[2],
            np.zeros(count), large[1], np.zeros(count), np.full((count, values), -1.0),
            np.zeros((count, 0)), np.zeros((count, keys), np.uint16), *nothing,
            np.zeros(0, np.int32), np.zeros(count, np.uint8), np.zeros(count, np.int64),
            np.zeros(count, np.uint8),
        )  # fmt: skip
        stopped, stop = np.zeros(2, np.int64), count
        while not _fill(
            columns, places, self._streams, self._codes[MODEL], self._codes[TARGET], rows, stopped
        ):
            row, wanted = stopped.tolist()
            numbers = columns.names[places[row]].tolist()
            if not (self._enter(numbers, wanted) or (learn(row) and self._enter(numbers, wanted))):
                stop = row
                break
        rows.text.setflags(write=False)  # as that of decoded records: loops are compiled for one type of rows
        if stop < count:
            rows = _first(rows, stop)
        return rows._replace(classes=self._catalog.columns.streams.class_count[rows.stream])

    def _enter(self, numbers: list[int], which: int) -> bool:
        """The code of a name that has none in the tables yet; False if it has none at all."""
        known = existing(self._known, "the names of plain records")
        name, stream = known[numbers[which]], known[numbers[STREAM]]
        if which == STREAM:
            code = self._by_name.get(name)
            if code is not None:
                self._streams[numbers[STREAM]] = code
            return code is not None
        code = self._by_stream[which][stream].get(name)
        if code is None:
            return False
        codes = self._codes[which]
        self._entered[which] += 1
        if 2 * self._entered[which] > len(codes.name):
            wide = self._codes[which] = _new_codes(2 * len(codes.name))
            used = codes.name > 0
            for owner, number, its_code in zip(*(column[used].tolist() for column in codes)):
                _enter(wide, owner, number - 1, its_code)
            codes = wide
        _enter(codes, int(self._streams[numbers[STREAM]]), numbers[which], code)
        return True
