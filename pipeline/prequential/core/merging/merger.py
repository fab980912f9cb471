"""When a stream in all partitions is at a moment: its parts wait until each partition has said how it was.

Moments are multiples of the stream's `emit.every` in record time. The order in which parts come doesn't
matter: what is said of a moment depends on the parts that speak of it alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from prequential.core.merging.messages import Merged
from prequential.core.merging.names import Names
from prequential.settings.model import Config
from prequential.topics.outputs import Encoded
from prequential.topics.parts import Part

#: No moment: before all times.
NEVER = -1

#: Up to then (epoch ms) a partition stays as it is at the end of a replay.
LAST = 1 << 52


class Said(NamedTuple):
    """Of which moments (epoch ms) of a stream there are messages."""

    metrics: int = NEVER  # the last one
    comparisons: int = NEVER  # … about pairs, too


class _Waiting(NamedTuple):
    offset: int
    part: Part


class _Stream:
    """The parts of one stream that aren't done with: of the last moment, and that of its pairs, and since."""

    def __init__(self, said: Said, *, compares: bool) -> None:
        """`compares`: whether there are messages about pairs at moments of their own."""
        self.said = said
        self._compares = compares
        self.parts: dict[int, deque[_Waiting]] = {}
        self.partitions = 0

    def add(self, part: Part, offset: int) -> None:
        self.partitions = part.partitions
        if part.until >= self._oldest:
            self.parts.setdefault(part.partition, deque()).append(_Waiting(offset, part))

    def next(self) -> tuple[int, list[Part], list[bool]] | None:
        """The next moment at which any partition has changed, once all say how they were then."""
        if len(self.parts) < self.partitions:
            return None
        begins = (
            one.part.since for waiting in self.parts.values() for one in waiting
            if one.part.since > self.said.metrics
        )  # fmt: skip
        moment = min(begins, default=None)
        if moment is None:
            return None
        parts = self.at(moment)
        return None if parts is None else (moment, parts, [part.since == moment for part in parts])

    def at(self, moment: int) -> list[Part] | None:
        """How all partitions were at a moment; None: not all have said it yet, or they are done with."""
        found = [self._at(number, moment) for number in range(self.partitions)]
        return None if None in found else [part for part in found if part is not None]

    def _at(self, number: int, moment: int) -> Part | None:
        """How a partition was at a moment; None: it hasn't said so yet."""
        waiting = self.parts.get(number, ())
        return next((one.part for one in waiting if one.part.until >= moment), None)

    @property
    def _oldest(self) -> int:
        """The moment before which no part is of use."""
        return min(self.said.metrics, self.said.comparisons) if self._compares else self.said.metrics

    def done(self, said: Said) -> None:
        """Nothing is said of what was before any more."""
        self.said = said
        for waiting in self.parts.values():
            while waiting and waiting[0].part.until < self._oldest:
                waiting.popleft()

    def needed(self) -> int | None:
        """The least offset of a part that waits."""
        return min((one.offset for waiting in self.parts.values() for one in waiting), default=None)


class Merger:
    """Merges the parts of the streams of one partition of their topic, in the order of its offsets.

    `said`: by stream the moments of which there are messages; `needed`: the offset from which
    on parts are to be added again by who goes on from there; `end`: that of the first one that comes.
    """

    def __init__(self, config: Config, said: Mapping[str, Said] | None = None, end: int = 0) -> None:
        self._config = config
        self._streams = {name: self._stream(name, moments) for name, moments in (said or {}).items()}
        self._end = end
        #: Moments of which nothing was said, as partitions had other settings than each other, or than here.
        self.passed_over = 0
        #: By stream the names of its last moment.
        self.names: dict[str, Names] = {}

    def _stream(self, name: str, said: Said) -> _Stream:
        return _Stream(said, compares=self._config.stream(name).emit_comparisons is not None)

    @property
    def said(self) -> dict[str, Said]:
        """By stream the moments of which there are messages."""
        return {name: one.said for name, one in self._streams.items()}

    @property
    def needed(self) -> int:
        """The offset of the first part that isn't done with."""
        offsets = (one.needed() for one in self._streams.values())
        return min((offset for offset in offsets if offset is not None), default=self._end)

    def add(self, part: Part, offset: int) -> list[Encoded]:
        """Take over a part; returns the messages that are complete with it."""
        self._end = offset + 1
        if part.stream not in self._streams:
            self._streams[part.stream] = self._stream(part.stream, Said())
        stream = self._streams[part.stream]
        stream.add(part, offset)
        messages: list[Encoded] = []
        while (found := stream.next()) is not None:
            moment, parts, changed = found
            said = stream.said._replace(metrics=moment)
            if self._agree(moment, parts):
                merged = Merged(self._config, parts, changed)
                self.names[part.stream] = merged.names
                messages += merged.metrics()
                messages += merged.periods(self._before(stream))
                is_last = all(part.until + part.every > LAST for part in parts)
                if self._is_time(stream.said, moment, parts[0].stream, is_last=is_last):
                    messages += merged.comparisons(stream.at(said.comparisons) or ())
                    said = said._replace(comparisons=moment)
            else:
                self.passed_over += 1
            stream.done(said)
        return messages

    def _before(self, stream: _Stream) -> list[Part] | None:
        """How all partitions were at the moment before; None: nothing was said of that one."""
        if stream.said.metrics == NEVER:
            return []
        parts = stream.at(stream.said.metrics)
        return parts if parts and self._agree(stream.said.metrics, parts) else None

    def _is_time(self, said: Said, moment: int, stream: str, *, is_last: bool) -> bool:
        """Whether a multiple of `emit.comparisons` has passed since there were messages about pairs.

        Or whether nothing comes any more.
        """
        every = self._config.stream(stream).emit_comparisons
        if every is None:
            return False
        return is_last or moment // every > said.comparisons // every

    def _agree(self, moment: int, parts: Sequence[Part]) -> bool:
        """Whether the parts, and who merges them, have the same settings and number of partitions.

        If a part begins after the moment, something of its partition is missing.
        """
        config = self._config.stream(parts[0].stream)
        kinds = {(part.config, part.every, part.partitions) for part in parts}
        missing = any(part.since > moment for part in parts)
        return not missing and kinds == {(config.digest, config.emit_every, len(parts))}
