"""Merges the parts of a stream in all partitions; parts wait until each partition has one for the moment.

Moments are multiples of the stream's `emit.every` in record time. The order in which parts come doesn't
matter: messages about a moment depend only on the parts for that moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from prequential.configuration.settings.model import Config
from prequential.engine.merging.merged import Merged, PartNames
from prequential.topics.outputs import Encoded
from prequential.topics.parts import Part

#: No moment so far: before all times.
NEVER = -1

#: The end (epoch ms) of the parts that a partition makes at the end of a replay.
LAST = 1 << 52


class ReportedMoments(NamedTuple):
    """The latest moments (epoch ms) of a stream that have messages."""

    metrics: int = NEVER  # the latest moment with messages
    comparisons: int = NEVER  # the latest moment that also has messages about pairs


class DueMoment(NamedTuple):
    """A moment with a part of each partition."""

    moment: int
    parts: list[Part]
    changed: list[bool]  # by part, whether its partition has changed at the moment


class _Waiting(NamedTuple):
    offset: int
    part: Part


class _Stream:
    """The parts of one stream that are still needed: from the latest moments with messages on."""

    def __init__(self, reported: ReportedMoments, *, compares: bool) -> None:
        """`compares`: whether messages about pairs have their own moments."""
        self.reported = reported
        self._compares = compares
        #: The latest moment that was looked at, with or without messages.
        self._examined = reported.metrics
        self.parts: dict[int, deque[_Waiting]] = {}
        self.partitions = 0

    def add(self, part: Part, offset: int) -> None:
        self.partitions = part.partitions
        if part.until >= self._oldest:
            self.parts.setdefault(part.partition, deque()).append(_Waiting(offset, part))

    def next(self) -> DueMoment | None:
        """The next moment at which a partition has changed; None until all partitions have a part for it."""
        if len(self.parts) < self.partitions:
            return None
        begins = (
            entry.part.since for waiting in self.parts.values() for entry in waiting
            if entry.part.since > self._examined
        )  # fmt: skip
        moment = min(begins, default=None)
        if moment is None:
            return None
        parts = self.parts_at(moment)
        if parts is None:
            return None
        return DueMoment(moment, parts, [part.since == moment for part in parts])

    def parts_at(self, moment: int) -> list[Part] | None:
        """The parts of all partitions for a moment; None: some are missing, or were dropped already."""
        parts = [
            next((entry.part for entry in self.parts.get(number, ()) if entry.part.until >= moment), None)
            for number in range(self.partitions)
        ]
        return None if None in parts else [part for part in parts if part is not None]

    def parts_before(self, moment: int) -> list[Part] | None:
        """The parts of all partitions at an earlier moment with messages; [] if there is none.

        None: some were lost. They may have earlier settings.
        """
        if moment == NEVER:
            return []
        parts = self.parts_at(moment)
        return None if parts is None or any(part.since > moment for part in parts) else parts

    @property
    def _oldest(self) -> int:
        """The moment before which no part is needed."""
        return (
            min(self.reported.metrics, self.reported.comparisons) if self._compares else self.reported.metrics
        )

    def done(self, reported: ReportedMoments) -> None:
        """Note the latest moments with messages, and drop the parts before them."""
        self.reported, self._examined = reported, reported.metrics
        for waiting in self.parts.values():
            while waiting and waiting[0].part.until < self._oldest:
                waiting.popleft()

    def pass_over(self, moment: int) -> None:
        """Note that a moment has no messages, and drop the parts between it and the latest one with messages.

        The latest moment with messages stays the one to compare with.
        """
        self._examined = moment
        for number, waiting in self.parts.items():
            self.parts[number] = deque(
                entry
                for entry in waiting
                if entry.part.since <= self.reported.metrics or entry.part.until >= moment
            )

    def needed(self) -> int | None:
        """The smallest offset of a part that waits."""
        return min((entry.offset for waiting in self.parts.values() for entry in waiting), default=None)


class Merger:
    """Merges the parts of streams in one partition of their topic, in the order of offsets.

    `reported` has the latest moments with messages, by stream. `needed` is the offset from which a successor
    has to add parts again. `end` is the offset of the next part.
    """

    def __init__(
        self, config: Config, reported: Mapping[str, ReportedMoments] | None = None, end: int = 0
    ) -> None:
        self._config = config
        self._streams = {name: self._stream(name, moments) for name, moments in (reported or {}).items()}
        self._end = end
        #: Number of moments without messages, because settings differed between partitions or from the ones
        #: here.
        self.passed_over = 0
        #: By stream, the names at its latest moment.
        self.names: dict[str, PartNames] = {}

    def _stream(self, name: str, reported: ReportedMoments) -> _Stream:
        return _Stream(reported, compares=self._config.stream(name).emit_comparisons is not None)

    @property
    def reported(self) -> dict[str, ReportedMoments]:
        """By stream, the latest moments that have messages."""
        return {name: stream.reported for name, stream in self._streams.items()}

    @property
    def needed(self) -> int:
        """The offset of the first part that is still needed."""
        offsets = (stream.needed() for stream in self._streams.values())
        return min((offset for offset in offsets if offset is not None), default=self._end)

    def add(self, part: Part, offset: int) -> list[Encoded]:
        """Add a part; returns the messages that it completes."""
        self._end = offset + 1
        if part.stream not in self._streams:
            self._streams[part.stream] = self._stream(part.stream, ReportedMoments())
        stream = self._streams[part.stream]
        stream.add(part, offset)
        messages: list[Encoded] = []
        while (due := stream.next()) is not None:
            moment, parts = due.moment, due.parts
            if not self._agree(moment, parts):
                self.passed_over += 1
                stream.pass_over(moment)
                continue
            merged = Merged(self._config, parts, due.changed)
            self.names[part.stream] = merged.names
            # Of what has not changed since, there are no messages, also where settings have changed: the id
            # of a message says how much has come, and not by which settings it is evaluated.
            before = stream.parts_before(stream.reported.metrics)
            reported = stream.reported._replace(metrics=moment)
            messages += merged.metrics(before)
            messages += merged.periods(before)
            is_last, former = all(part.until + part.every > LAST for part in parts), reported.comparisons
            every = self._config.stream(part.stream).emit_comparisons
            if every is not None and (is_last or moment // every > former // every):
                messages += merged.comparisons(stream.parts_before(former) or ())
                reported = reported._replace(comparisons=moment)
            stream.done(reported)
        return messages

    def metrics_again(self, stream_name: str) -> list[Encoded]:
        """Make the metrics messages about a stream's latest reported moment, of all its sequences.

        They were published at this moment, or before without a change since; those about the initial stage of
        a segment perhaps as what they have in common with its final stage. A successor needs them only to
        show them. Empty until it has all parts for that moment, or if these have other settings.
        """
        stream = self._streams[stream_name]
        parts = stream.parts_before(stream.reported.metrics)
        if not parts or not self._agree(stream.reported.metrics, parts):
            return []
        merged = Merged(self._config, parts, [True] * len(parts))
        self.names[stream_name] = merged.names
        return [*merged.metrics(()), *merged.periods(())]

    def _agree(self, moment: int, parts: Sequence[Part]) -> bool:
        """Whether the parts and this merger have the same settings and number of partitions.

        If a part begins after the moment, an earlier part of its partition is missing.
        """
        config = self._config.stream(parts[0].stream)
        kinds = {(part.config, part.every, part.partitions) for part in parts}
        missing = any(part.since > moment for part in parts)
        return not missing and kinds == {(config.digest, config.emit_every, len(parts))}
