"""Rows that are objects in memory: dicts, from wherever they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from prequential.mapping.model import Path, as_text
from prequential.mapping.translation import pick
from prequential.tables.rows import BATCH, Progress, names_of


class ObjectRows:
    """Some objects; None where there is none, for a reason."""

    def __init__(
        self, objects: Sequence[Any], reasons: Mapping[int, str] | None = None, number: str | None = None
    ) -> None:
        self.objects, self.reasons, self._number = objects, reasons or {}, number

    def __len__(self) -> int:
        return len(self.objects)

    def column(self, path: Path) -> list[Any]:
        """What every object has there."""
        return pick(self.objects, self._keys(path))

    def raw(self, place: int) -> bytes:
        """An object as JSON."""
        return msgspec.json.encode(_with_text_keys(self.objects[place]), enc_hook=str)

    def has(self, path: Path) -> bool:
        """Whether any object has the field, be it null."""
        *above, name = self._keys(path)
        for one in pick(self.objects, tuple(above)):
            if isinstance(one, Mapping) and name in one:
                return True
            if isinstance(one, list) and name.isdigit() and int(name) < len(one):
                return True
        return False

    def _keys(self, path: Path) -> tuple[str, ...]:
        """The names on the way; a name may have dots in it, as columns of flattened tables do."""
        whole = ".".join(path.keys)
        first: Any = next((one for one in self.objects if one is not None), {})
        return (whole,) if len(path.keys) > 1 and whole in first else path.keys

    def fields(self) -> str:
        """The names of the first object."""
        first: Any = next((one for one in self.objects if one is not None), {})
        return names_of({name: value for name, value in first.items() if name != self._number})

    def names(self) -> Sequence[str]:
        """The names of all objects' fields; what is no text is no name that a mapping could have."""
        named = dict.fromkeys(name for one in self.objects if one is not None for name in one)
        return [name for name in named if isinstance(name, str)]


def _with_text_keys(value: Any) -> Any:
    """Objects whose keys are text, as JSON has them."""
    if isinstance(value, Mapping):
        return {as_text(key): _with_text_keys(one) for key, one in value.items()}
    return value


class Objects:
    """Dicts in memory, one a row, read as a file of rows is (see `RowFile`).

    `number` is the field, if any, that holds the number of the row and is no column.
    """

    unit, text = "row", False
    columns = own_columns = None

    def __init__(
        self, name: str, objects: Sequence[Mapping[str, Any]], number: str | None = None
    ) -> None:
        self.name = name
        self._objects, self._number = objects, number

    def select(self, paths: Sequence[Path]) -> None:
        """Do nothing: every field of each object is in memory anyway."""

    def type_of_time(self, path: Path) -> str | None:
        """Every object has its own."""
        return None

    def batches(self, progress: Progress = lambda rows, share: None) -> Iterator[ObjectRows]:
        """The objects in their order, as batches of at most `BATCH`."""
        for start in range(0, len(self._objects), BATCH):
            yield ObjectRows(self._objects[start : start + BATCH], number=self._number)

    def __len__(self) -> int:
        return len(self._objects)

    def numbered(self, field: str) -> Objects:
        """The same objects with the number of each, from 0, in a field."""
        rows = [{**one, field: place} for place, one in enumerate(self._objects)]
        return Objects(self.name, rows, field)

    def hold(self) -> Objects:
        """These objects themselves, since they are in memory."""
        return self

    def take(self, rows: Sequence[int]) -> ObjectRows:
        """The objects at these places, from 0, in the order of `rows`."""
        return ObjectRows([self._objects[row] for row in rows])
