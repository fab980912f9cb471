"""Apply a mapping to the parts of records, and to the rows within them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from prequential.mapping.model import Path
from prequential.mapping.rows import RowColumns
from prequential.mapping.translation import KafkaRecords, Translator

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
            index for index, place in enumerate(self.places)
            if place in gone or (of_rows and self._key(self.rows, index) in of_rows)
        ]  # fmt: skip

    def _key(self, rows: RowColumns, index: int) -> tuple[int, Path, int]:
        return self.places[index], rows.path, rows.numbers[index]


def mapped_parts(translator: Translator, table: KafkaRecords) -> MappedParts:
    """Apply a mapping to the parts of a batch, or to the rows within them; returns the records made."""
    path = translator.mapping.rows
    if path is None:
        whole = translator(table)
        return MappedParts(None, whole.records, range(len(table)), whole.reasons, whole.passed, {})
    rows = RowColumns(table, path, [one for _, one in translator.mapping.paths()])
    of_rows = translator(rows)
    meant = {place for index, place in enumerate(rows.places) if index not in of_rows.passed}
    passed = frozenset(range(len(table))) - meant
    made = MappedParts(rows, of_rows.records, rows.places, {}, passed, {})
    made.note(of_rows.reasons, made.reasons)
    return made


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
    others = reasons[_MOST_LETTERS:]
    first_name, last_name = (reason.partition(": ")[0] for reason in (others[0], others[-1]))
    return [*few, f"{last} (and {len(others)} more from {first_name} to {last_name})"]
