"""Tables by class of some streams, as compiled loops read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.kernel import Bytes
from prequential.engine.tables.streams import Registry

Tables = TypeVar("Tables", bound="tuple[Bytes, Any]")


class ClassTables(ABC, Generic[Tables]):
    """Tables of the streams that were added; made again when streams, or classes of these, are added."""

    #: The tables without such a stream.
    none: Tables

    def __init__(self) -> None:
        self._streams: list[Stream] = []
        self._known: tuple[Any, Tables] | None = None

    def add(self, stream: Stream) -> None:
        """Add a stream that has such tables."""
        self._streams.append(stream)

    def of(self, registry: Registry, streams: int) -> Tables:
        """Return the tables for all classes of the registry and this number of streams."""
        if not self._streams:
            return self.none
        s, codes = registry.streams, [stream.code for stream in self._streams]
        rows, firsts = len(registry.classes.meaning), s.classes[codes].tolist()
        of = rows, streams, firsts, s.class_count[codes].tolist()
        if self._known is None or self._known[0] != of:
            self._known = of, self._made(rows, streams, firsts, max(of[-1]))
        return self._known[1]

    @abstractmethod
    def _made(self, rows: int, streams: int, firsts: list[int], most: int) -> Tables:
        """Return new tables for `rows` classes; `firsts` are the streams' first ones, `most` of a stream."""
