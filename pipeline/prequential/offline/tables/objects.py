"""Read rows that are dicts in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from prequential.mapping.model import Path, as_text
from prequential.mapping.rows import has_name, pick
from prequential.offline.tables.rows import BATCH, Progress, names_of


class ObjectRows:
    """A batch of objects; None for an unreadable one, whose reason is in `reasons`."""

    def __init__(
        self, objects: Sequence[Any], reasons: Mapping[int, str] | None = None, number: str | None = None
    ) -> None:
        self.objects, self.reasons, self._number = objects, reasons or {}, number

    def __len__(self) -> int:
        return len(self.objects)

    def column(self, path: Path) -> list[Any]:
        """Return the value of every object at a path; None where there is none."""
        return pick(self.objects, self._keys(path))

    def has_null(self, path: Path, place: int) -> bool:
        """Whether an object without a value at a path has it as null."""
        return has_name(self.objects[place], self._keys(path))

    def raw(self, place: int) -> bytes:
        """Return an object as JSON."""
        return msgspec.json.encode(_with_text_keys(self.objects[place]), enc_hook=str)

    def has(self, path: Path) -> bool:
        """Whether any object has the field, even with the value null."""
        *above, name = self._keys(path)
        for one in pick(self.objects, tuple(above)):
            if isinstance(one, Mapping) and name in one:
                return True
            if isinstance(one, list) and name.isdigit() and int(name) < len(one):
                return True
        return False

    def _keys(self, path: Path) -> tuple[str, ...]:
        """Return the names of a path; a name may contain dots, as in columns of flattened tables."""
        whole = ".".join(path.keys)
        first: Any = next((one for one in self.objects if one is not None), {})
        return (whole,) if len(path.keys) > 1 and whole in first else path.keys

    def fields(self) -> str:
        """Return the field names of the first object."""
        first: Any = next((one for one in self.objects if isinstance(one, Mapping)), {})
        return names_of({name: value for name, value in first.items() if name != self._number})

    def names(self) -> Sequence[str]:
        """Return the names of all objects' fields, without names that are no text and have no mapping."""
        named = dict.fromkeys(name for one in self.objects if isinstance(one, Mapping) for name in one)
        return [name for name in named if isinstance(name, str)]


def _with_text_keys(value: Any) -> Any:
    """Return a value whose objects have text as keys, as JSON requires."""
    if isinstance(value, Mapping):
        return {as_text(key): _with_text_keys(one) for key, one in value.items()}
    return value


class DictRows:
    """Dicts in memory, one for each row, with the interface of a file of rows (see `RowFile`).

    `number` is the field, if any, that contains the number of the row and is no column.
    """

    unit, text = "row", False
    columns = own_columns = None

    def __init__(
        self, name: str, objects: Sequence[Mapping[str, Any]], number: str | None = None
    ) -> None:
        self.name = name
        self._objects, self._number = objects, number
        self.is_numbered = number is not None

    def select(self, paths: Sequence[Path]) -> None:
        """Do nothing: every field of each object is in memory anyway."""

    def type_of_time(self, path: Path) -> str | None:
        """Return None: each object has its own types."""
        return None

    def batches(
        self, progress: Progress = lambda rows, share: None, only: Sequence[Path] | None = None
    ) -> Iterator[ObjectRows]:
        """Yield the objects in their order, in batches of at most `BATCH`."""
        for start in range(0, len(self._objects), BATCH):
            yield ObjectRows(self._objects[start : start + BATCH], number=self._number)

    def __len__(self) -> int:
        return len(self._objects)

    def numbered(self, field: str) -> DictRows:
        """Return the same objects with an added field of row numbers, counted from 0."""
        rows = [{**one, field: place} for place, one in enumerate(self._objects)]
        return DictRows(self.name, rows, field)

    def hold(self) -> DictRows:
        """Return these objects themselves, because they are already in memory."""
        return self

    def take(self, rows: Sequence[int]) -> ObjectRows:
        """Return the objects at these places, counted from 0, in the order of `rows`."""
        return ObjectRows([self._objects[row] for row in rows])
