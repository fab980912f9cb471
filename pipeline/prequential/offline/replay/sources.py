"""Replay files with the same engine, without a broker; and set how often messages are emitted."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import IO, Any, Protocol, Union

import numpy as np
from prequential.configuration.settings.durations import duration
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import Ints
from prequential.engine.input.merge import Batch
from prequential.engine.input.message_rows import WHOLE, rows_of
from prequential.engine.input.plain import Plain
from prequential.engine.past import PastCourses, PastOutcomes
from prequential.engine.shard import Shard
from prequential.mapping.model import Uses
from prequential.mapping.units import Clocks, TimeColumn
from prequential.offline.replay.summary import Place
from prequential.topics.decoding import KINDS, LABELS, Decoded, decode
from prequential.topics.errors import existing
from prequential.topics.messages import INPUT_MESSAGE_BYTES
from prequential.topics.outputs import Output
from prequential.views.diagnosis.stream_facts import ShareColumns

#: The most messages of one sequence and estimator in a replay of files: more points than a screen has
#: columns.
POINTS = 1_000

#: The least number of these messages that are due by time, however many are due by `emit.outcomes`.
_LEAST_POINTS = POINTS // 2

#: The least number of messages within a period, and within the label horizon. The intervals of expected
#: measures use the messages about earlier periods at the same age.
_LOOKS_IN_PERIOD, _LOOKS_IN_HORIZON = 24, 28

#: Round times, from a worker's default on; above the last one, its multiples by 1, 2 and 5 times powers of
#: ten.
_STEPS = tuple(
    map(
        duration,
        (
            "1s", "2s", "5s", "10s", "15s", "30s", "1m", "2m", "5m", "10m", "15m", "30m", "1h", "2h", "3h",
            "6h", "12h", "1d", "2d", "1w",
        ),
    )
)  # fmt: skip


def every_for(span: int, points: int) -> int:
    """Return the shortest round time (ms) with at most `points` multiples in `span` ms.

    >>> every_for(0, 1000), every_for(7 * 86_400_000, 1000), every_for(1_000_000, 1000)
    (1000, 900000, 2000)
    >>> every_for(1000 * 365 * 86_400_000, 1000) // 604_800_000
    100
    """
    larger: Iterator[int] = (_STEPS[-1] * 10**power * factor for power in count() for factor in (1, 2, 5))
    # A multiple may lie at either end.
    return next(step for step in chain(_STEPS, larger) if span // step + 1 <= points)


def most_with_period(stream: StreamConfig) -> int | None:
    """Return the longest `emit.every` (ms) with which expected measures can be graded; None without periods.

    >>> most_with_period(StreamConfig(period=86_400_000, label_horizon=86_400_000))
    3085714
    """
    if stream.period is None:
        return None
    return max(1, min(stream.period // _LOOKS_IN_PERIOD, stream.label_horizon // _LOOKS_IN_HORIZON))


def by_count(config: Config, labels: int) -> Config:
    """Return the configuration for a program that reads a table with so many labels.

    If `emit.outcomes` isn't configured, each sequence and estimator has at most half of `POINTS` messages by
    count. `for_files` leaves the other half to messages by time.

    >>> by_count(Config(), 5_000_000).defaults.emit_outcomes, by_count(Config(), 500).defaults.emit_outcomes
    (10000, 1000)
    """
    usual = existing(StreamConfig.emit_outcomes, "a default")
    steps = (usual * 10**power * factor for power in count() for factor in (1, 2, 5))
    outcomes = next(step for step in steps if labels // step <= POINTS - _LEAST_POINTS)

    def resolved(stream: StreamConfig) -> StreamConfig:
        is_configured = stream.emit_outcomes_given or stream.emit_outcomes != usual
        return stream if is_configured else replace(stream, emit_outcomes=outcomes)

    return config.with_each(resolved)


def without_metrics(config: Config) -> Config:
    """Return the configuration with metrics messages turned off; alarms and incidents stay the same."""
    never: dict[str, Any] = dict.fromkeys(("emit_outcomes", "emit_every", "emit_comparisons", "emit_idle"))
    return config.with_each(lambda stream: replace(stream, **never))


#: Records that are decoded at once and buffered for each file; numpy and msgspec reach full speed well below.
_BATCH = 10_000

#: A file with fewer records is read as objects, which need no compiled loops.
FEWEST_PLAIN = 10_000

#: A watermark above all times, for a file that is read to its end.
_ENDED = 1 << 62

#: The time of records if no record of the file has one.
_UNKNOWN = -(1 << 62)


#: A record's time as text, and the number of lines that are searched for one.
_TEXT_TIME, _FEW = re.compile(rb'"ts"\s*:\s*"([^"]*)"'), 100


#: Consecutive numbers as a range, which needs no memory for each, or any numbers, (n,) int64.
Numbers = Union[range, Ints]


class Located(Protocol):
    """The records of one kind from any file, in the order of processing, with their places in the file."""

    #: The input of the records: 0 instances, 1 predictions, 2 labels.
    kind: int
    #: The time of each record, ms.
    record_times: Numbers
    #: Whether a record has a time, or there are no records.
    has_times: bool
    #: Counts of the records' times with and without a zone.
    clocks: Clocks
    #: Columns that may contain times, if the records have none.
    time_columns: Sequence[TimeColumn] = ()
    #: Columns that may contain probabilities, if the records have none; None: there are none.
    share_columns: ShareColumns | None = None

    @property
    def uses(self) -> Sequence[Uses]:
        """The parts of each mapping that records used; records in the project's own form have no mapping."""
        return ()

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and the last record time, ms; None without records."""
        times = self.record_times
        return (int(times[0]), int(times[-1])) if len(times) else None

    def __len__(self) -> int: ...

    def batches(self) -> Iterator[Batch]:
        """The records as batches; a batch's offsets count in the order of processing."""

    def row(self, offset: int) -> int:
        """Return the line or row, from 0, of the record that was processed as number `offset`."""

    def place(self, offset: int) -> Place:
        """Return the place of the record that was processed as number `offset`.

        The place is a file with a line (from 1) or a row (from 0).
        """

    def raw(self, offset: int) -> bytes:
        """Return the line, or the row as text, of the recent record that was processed as number `offset`."""

    def find(self, stream: str, instance_id: str) -> Place | None:
        """Return the place of the first record about an instance; None if there is none."""


class Source(Located):
    """The records of one file of JSON lines, in the order of processing.

    A line is one record, or an array of records, each of which is one of `lines`. Blank lines are skipped.
    Record time is the record's `ts`. A record without a valid `ts` has the time of the record before it. A
    file needn't be sorted; records with equal times keep the order of the file.
    """

    def __init__(
        self, kind: int, lines: list[bytes], name: str = "",
        parse: Callable[[int, Sequence[bytes | None]], Decoded | Plain] = decode,
    ) -> None:  # fmt: skip
        self.kind = kind
        #: The numbers of the lines, from 0, if some were skipped.
        self._numbers: list[int] | None = None
        if not all(map(bytes.strip, lines)):
            self._numbers = [number for number, line in enumerate(lines) if line.strip()]
            lines = [lines[number] for number in self._numbers]
        self._rows = rows_of(lines)
        if self._rows is not None:
            lines = [line or b"" for line in self._rows.values]
        self._parse = parse if len(lines) >= FEWEST_PLAIN else decode
        self.lines = lines
        self.name = name
        times = np.fromiter(_times(kind, lines), dtype=np.int64, count=len(lines))
        self.has_times = not len(times) or int(times[0]) != _UNKNOWN
        if not self.has_times:
            times[:] = 0
        self.order: Sequence[int] = range(len(lines))
        if len(times) > 1 and (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            self.order, times = order.tolist(), times[order]
        self.record_times: Ints = times
        self.clocks = Clocks()  # a time as text must have an offset, or the record is invalid
        if (text := next(filter(None, map(_TEXT_TIME.search, lines[:_FEW])), None)) is not None:
            self.clocks.note("aware", text[1].decode("utf-8", "replace"))

    def batches(self) -> Iterator[Batch]:
        """The records as batches; a batch's offsets count in the order of processing."""
        for start in range(0, len(self.lines), _BATCH):
            stop = min(start + _BATCH, len(self.lines))
            values = [self.lines[index] for index in self.order[start:stop]]
            times = self.record_times[start:stop]
            rows = None if self._rows is None else self._rows.numbers[list(self.order[start:stop])]
            yield Batch(self.kind, range(start, stop), times, self._parse(self.kind, values), rows)

    def __len__(self) -> int:
        return len(self.lines)

    def row(self, offset: int) -> int:
        """Return the line, from 0, of the record that was processed as number `offset`."""
        return self._line(self.order[offset])

    def place(self, offset: int) -> Place:
        """Return the file, and the line from 1, of the record that was processed as number `offset`.

        And its row from 0, if the line has several records.
        """
        return self._place(self.order[offset])

    def _place(self, record: int) -> Place:
        rows = self._rows
        place: Place = {"file": self.name, "line": self._line(record) + 1}
        if rows is None or rows.numbers[record] == WHOLE:
            return place
        return {**place, "row": int(rows.numbers[record])}

    def _line(self, record: int) -> int:
        line = record if self._rows is None else int(self._rows.messages[record])
        return line if self._numbers is None else self._numbers[line]

    def raw(self, offset: int) -> bytes:
        """Return the text, without the line's end, of the record that was processed as number `offset`."""
        return self.lines[self.order[offset]]

    def find(self, stream: str, instance_id: str) -> Place | None:
        """Return the place of the first record about an instance; None if there is none."""
        for start in range(0, len(self.lines), _BATCH):
            decoded = decode(self.kind, self.lines[start : start + _BATCH])
            for number, record in enumerate(decoded.records, start):
                if record is not None and (record.stream, record.instance_id) == (stream, instance_id):
                    return self._place(number)
        return None


def lines_of(stream: IO[bytes], most: int = INPUT_MESSAGE_BYTES) -> Iterator[bytes]:
    r"""Yield the lines of a stream with their ends, without the byte order mark of UTF-8.

    A longer line is cut after `most` bytes, which is too long for a record. The rest is skipped, so that a
    line without an end takes no memory.

    >>> from io import BytesIO
    >>> list(lines_of(BytesIO(b"\xef\xbb\xbf{}\n[]"))), list(lines_of(BytesIO(b"\xef\xbb\xbf")))
    ([b'{}\n', b'[]'], [])
    >>> list(lines_of(BytesIO(b"12345678\n{}\n"), most=3))
    [b'123\n', b'{}\n']
    """
    lines = cut_lines(stream, most)
    first = next(lines, b"").removeprefix(BOM_UTF8)
    if first:
        yield first
    yield from lines


def cut_lines(stream: IO[bytes], most: int = INPUT_MESSAGE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a stream with their ends; longer lines are cut after `most` bytes."""
    for line in iter(partial(stream.readline, most), b""):
        if len(line) == most and not line.endswith(b"\n"):
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = stream.readline(most)
            yield line + b"\n"
        else:
            yield line


def read_lines(stream: IO[bytes], most: int = INPUT_MESSAGE_BYTES) -> list[bytes]:
    """Return the lines of a stream as `lines_of` yields them, without their ends."""
    return [line.rstrip(b"\r\n") for line in lines_of(stream, most)]


def _times(kind: int, lines: list[bytes]) -> Iterator[int]:
    time: int | None = None
    pending = 0  # records before the first with a time take that first time
    for start in range(0, len(lines), _BATCH):
        decoded: Decoded = decode(kind, lines[start : start + _BATCH])
        for record in decoded.records:
            if record is not None and record.ts is not None:
                time = record.ts
                yield from [time] * pending
                pending = 0
            if time is None:
                pending += 1
            else:
                yield time
    yield from [_UNKNOWN] * pending


def place_of(sources: Mapping[int, Located], config: Config) -> Callable[[int, int, int], Place]:
    """Return a function that finds a record by kind, partition and offset, in these files or in a topic."""

    def place(kind: int, partition: int, offset: int) -> Place:
        if kind in sources:
            return sources[kind].place(offset)
        return {"topic": config.kafka.topic(KINDS[kind]), "partition": partition, "offset": offset}

    return place


def for_files(config: Config, sources: Sequence[Located]) -> Config:
    """Return the configuration for the replay of these files.

    If `emit.every` isn't configured, it is set so that each sequence and estimator has at most `POINTS`
    messages. These include the messages due by `emit.outcomes`, and the last one. With periods, `emit.every`
    is at most `most_with_period`. `emit.comparisons` is set the same way, but never below its default.
    """
    spans = [source.span for source in sources if source.span is not None]
    span = max(last for _, last in spans) - min(first for first, _ in spans) if spans else 0
    labels = sum(len(source) for source in sources if source.kind == LABELS)

    def resolved(stream: StreamConfig) -> StreamConfig:
        counted = labels // stream.emit_outcomes if stream.emit_outcomes else 0
        every = every_for(span, max(_LEAST_POINTS, POINTS - 1 - counted))
        usual = StreamConfig.emit_comparisons
        if not stream.emit_comparisons_given and stream.emit_comparisons == usual:
            stream = replace(stream, emit_comparisons=max(every, usual or every))
        if stream.emit_every_given or stream.emit_every != StreamConfig.emit_every:
            return stream
        return replace(stream, emit_every=min(every, most_with_period(stream) or every))

    return config.with_each(resolved)


def replay(
    config: Config, sources: Sequence[Located], put: Callable[[Output], None],
    progress: Callable[[int], None] = lambda processed: None, *, metrics: bool = True,
    courses: PastCourses | None = None, past: PastOutcomes | None = None,
) -> Shard:  # fmt: skip
    """Process complete files in a shard, which ends with a last set of messages for every sequence.

    `put` takes each output, and `progress` the number of records just processed. Without `metrics`, the shard
    makes no metrics messages, and all else is the same. `courses` and `past` are filled during the replay.
    Returns the shard, whose configuration has the times between messages: see `offline.replay.sources`.
    """
    shard = Shard(for_files(config, sources) if metrics else without_metrics(config))
    shard.state.courses, shard.state.past = courses, past
    timed = [source.has_times for source in sources if len(source)]
    shard.catalog.untimed = bool(timed) and not any(timed)
    by_kind = {source.kind: source for source in sources}
    shard.refusals.number_of = lambda kind, offset: by_kind[kind].row(offset)
    batches = {source.kind: source.batches() for source in sources}
    watermarks: list[int | None] = [None if kind in batches else _ENDED for kind in range(3)]
    while True:
        for kind, iterator in list(batches.items()):
            if shard.merge.buffered[kind] < _BATCH:
                batch = next(iterator, None)
                if batch is None:
                    watermarks[kind] = _ENDED
                    del batches[kind]
                else:
                    shard.add(batch)
        processed = shard.advance(watermarks, _BATCH)
        if not batches and not processed:
            break
        progress(processed)
        for output in shard.flush()[0]:
            put(output)
    if metrics:
        shard.last_set()
    for output in shard.flush()[0]:
        put(output)
    return shard
