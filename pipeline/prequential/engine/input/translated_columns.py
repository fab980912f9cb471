"""Columns for the engine from a table's translated columns, without an object for each record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, Ints32
from prequential.engine.input import record_scanner as scanned
from prequential.engine.input.plain import MOST_NAMES, Parser, Plain
from prequential.mapping.columns import ObjectColumns, Translated, WholeNumbers
from prequential.mapping.model import TARGETS
from prequential.topics.messages import NUMBERS

#: Fields that are names, or numbers, with their places in `Columns`.
_NAMES = {"stream": scanned.STREAM, "model": scanned.MODEL, "model_version": scanned.MODEL_VERSION}
_NUMBERS = {name: place for place, name in enumerate(NUMBERS, scanned.NUMBER)}
_NUMBERS["label_propensity"] = scanned.PROPENSITY

#: Types of numbers that a record may lack; other values need objects, whose checks have the reasons.
_NUMBER_TYPES = {int, float, type(None)}

#: Most different whole numbers of a batch that are named as classes; with more they are amounts, as a rule.
MOST_CLASSES = 5_000


class NameNumbers(dict[str, int]):
    """The number of each name, which may be new. Sources that share it have columns that go together."""

    def __init__(self) -> None:
        super().__init__()
        #: The names by number.
        self.known: list[str] = []

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self.known)
        self.known.append(name)
        return number

    def begin(self) -> None:
        """Begin a batch: names come from tables, so with very many of them the numbers begin at 0 again."""
        if len(self.known) > MOST_NAMES:
            self.clear()
            self.known = []

    def numbers_of(self, column: list[str | None]) -> Ints32:
        """Return the numbers of names, (n,) int32; -1 for None."""
        number_of: Callable[[Any], int] = self.__getitem__
        if column and column[0] is not None and column.count(column[0]) == len(column):
            return np.full(len(column), self[column[0]], np.int32)
        if None in column:
            return np.array([-1 if name is None else self[name] for name in column], np.int32)
        return np.fromiter(map(number_of, column), np.int32, len(column))


class ParserNumbers(NameNumbers):
    """The numbers that a parser gives names, so that its columns and a table's go together."""

    def __init__(self, parser: Parser) -> None:
        super().__init__()
        self._parser = parser
        self.known = parser.names()

    def __missing__(self, name: str) -> int:
        number = self[name] = self._parser.number(name)
        return number

    def begin(self) -> None:
        """Begin a batch: forget the names if the parser has begun to number names from 0 again since then."""
        if self.known is not self._parser.names():
            self.clear()
            self.known = self._parser.names()


class _TableRecords:
    """The records of a table as objects (`RecordObjects`)."""

    def __init__(self, translated: Translated, start: int, stop: int) -> None:
        self._translated, self._start, self._stop = translated, start, stop

    def __len__(self) -> int:
        return self._stop - self._start

    def part(self, start: int, stop: int) -> _TableRecords:
        """Return some of these records."""
        return _TableRecords(self._translated, self._start + start, min(self._start + stop, self._stop))

    def record(self, index: int) -> Any:
        """Return the record at a place."""
        return self._translated.records_in(slice(self._start + index, self._start + index + 1))[0]

    def records(self) -> list[Any]:
        """Return all records."""
        return self._translated.records_in(slice(self._start, self._stop))


def plain_of(translated: Translated, numbers: NameNumbers) -> Plain | None:
    """Return the selected records of a batch as columns; None for values that need objects.

    Objects are needed for quantiles, sets of labels, labels that are withdrawn, probabilities that are not in
    columns of their own, and classes of several types.
    """
    numbers.begin()
    fields, count = translated.fields, len(translated.kept)
    names, amounts = np.full((count, 4), -1, np.int32), np.full((count, scanned.ALL_NUMBERS), scanned.ABSENT)
    version = np.zeros(count, np.int64)
    objects: dict[str, ObjectColumns] = {}
    try:
        for field, column in fields.items():
            if column is None or field in ("instance_id", "ts"):
                continue
            if field in TARGETS:
                if not _write_targets(column, names, amounts, numbers):
                    return None
            elif isinstance(column, ObjectColumns):
                objects[field] = column
            elif field in _NAMES:
                names[:, _NAMES[field]] = numbers.numbers_of(column)
            elif field in _NUMBERS:
                if not {*map(type, column)} <= _NUMBER_TYPES:
                    return None
                amounts[:, _NUMBERS[field]] = np.array(column, np.float64)
            elif field == "version":
                version[:] = [number or 0 for number in column]
            else:
                return None
    except OverflowError:  # a number beyond all floats
        return None
    shares = _shares(objects.pop("y_proba", None), count, numbers)
    segments = _segments(objects.pop("segments", None), count, numbers)
    if objects or shares is None:
        return None
    ids, id_bounds = _ids(fields["instance_id"])
    columns = scanned.Columns(
        names, amounts, _times(fields["ts"], count), version, id_bounds, shares[0], segments[0], ids,
        shares[1], shares[2], segments[1],
    )  # fmt: skip
    return Plain(columns, numbers.known, [_TableRecords(translated, 0, count)], {})


def _write_targets(column: Any, names: Ints32, amounts: Floats, numbers: NameNumbers) -> bool:
    """Write classes or numbers; False if they need objects."""
    types = {*map(type, column)}
    if types == {str}:
        names[:, scanned.TARGET] = numbers.numbers_of(column)
        return True
    if types != {bool} and not types <= {int, float}:
        return False
    if bool not in types:
        amounts[:, scanned.TARGET_NUMBER] = column
    whole = {value for value in column if type(value) is not float}
    if len(whole) <= MOST_CLASSES:
        classes = {value: numbers[str(value).lower()] for value in whole}
        names[:, scanned.TARGET] = [-1 if type(value) is float else classes[value] for value in column]
    return True


def _ids(column: Any) -> tuple[Any, Ints]:
    """Return ids one after the other in UTF-8, and where each begins, (n + 1,) int64."""
    if isinstance(column, WholeNumbers):
        return _texts(column)
    text = "".join(column)
    sizes = map(len, column) if text.isascii() else (len(instance_id.encode()) for instance_id in column)
    bounds = np.zeros(len(column) + 1, np.int64)
    np.cumsum(np.fromiter(sizes, np.int64, len(column)), out=bounds[1:])
    return np.frombuffer(bytearray(text.encode()), np.uint8), bounds


def _texts(numbers: WholeNumbers) -> tuple[Any, Ints]:
    """Return the digits of all numbers, and the place where each number begins, (n + 1,) int64.

    The digits come from the text of a JSON array, which msgspec writes fastest.

    >>> _texts(WholeNumbers([7, -12]))
    (array([55, 45, 49, 50], dtype=uint8), array([0, 1, 4]))
    """
    text = np.frombuffer(msgspec.json.encode(numbers), np.uint8)
    ends = np.flatnonzero((text == ord(",")) | (text == ord("]")))
    bounds = np.zeros(len(numbers) + 1, np.int64)
    bounds[1:] = ends - np.arange(1, len(numbers) + 1)
    digits = np.ones(len(text), np.bool_)
    digits[0], digits[ends] = False, False
    return text[digits], bounds


def _times(column: Any, count: int) -> Ints:
    if column is None:
        return np.full(count, scanned.NO_TIME)
    return np.array([scanned.NO_TIME if time is None else time for time in column], np.int64)


def _shares(
    shares: ObjectColumns | None, count: int, numbers: NameNumbers
) -> tuple[Ints, Ints32, Floats] | None:
    """Return where each record's probabilities begin, their classes and values; None if some are absent."""
    if shares is None or not shares.names:
        return np.zeros(count + 1, np.int64), np.zeros(0, np.int32), np.zeros(0)
    if shares.numbers is None:
        return None
    classes = numbers.numbers_of(list(shares.names))
    return np.arange(count + 1) * len(classes), np.tile(classes, count), shares.numbers.T.ravel()


def _segments(segments: ObjectColumns | None, count: int, numbers: NameNumbers) -> tuple[Ints, Ints32]:
    """Return where each record's segments begin, and their keys and values, (all, 2) int32."""
    bounds = np.zeros(count + 1, np.int64)
    if segments is None or not segments.names:
        return bounds, np.zeros((0, 2), np.int32)
    keys = numbers.numbers_of(list(segments.names))
    pairs = np.empty((count, len(keys), 2), np.int32)
    pairs[:, :, 0] = keys
    for key_index, column in enumerate(segments.columns):
        pairs[:, key_index, 1] = numbers.numbers_of(column)
    is_present = pairs[:, :, 1] >= 0
    np.cumsum(is_present.sum(1), out=bounds[1:])
    return bounds, pairs[is_present]
