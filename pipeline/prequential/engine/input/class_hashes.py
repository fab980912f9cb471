"""Hashes of class names, computed once for each name."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from prequential.engine.tables.streams import name_hash

#: Names that are remembered; beyond these all are forgotten.
_MOST = 100_000


class ClassHashes:
    """The hashes of names of classes in probabilities."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, names: Iterable[str]) -> list[int]:
        """The hashes of names, in their order."""
        known, names = self._known, list(names)
        try:
            return list(map(known.__getitem__, names))
        except KeyError:
            pass
        values = []
        for name in names:
            value = known.get(name)
            if value is None:
                if len(known) >= _MOST:
                    known.clear()
                value = known[name] = name_hash(name)
            values.append(value)
        return values

    def names(self, hashes: Collection[int]) -> list[str]:
        """Names of classes with these hashes, as far as they are still known."""
        return [name for name, value in self._known.items() if value in hashes]
