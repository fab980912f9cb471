"""Messages that were read from the state, and are written later, many at once; and metrics as they were read.

Messages are about moments: what they say is read before the state changes again. Their texts are written when
a shard hands out its outputs, because writing few messages costs nearly as much as writing many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.kernel import Ints
from prequential.engine.output import counts
from prequential.engine.output.counts import CountColumns
from prequential.engine.output.encoded_messages import EncodedMessages
from prequential.engine.output.estimates import LineColumns
from prequential.engine.output.fields import TextColumns, TextPool
from prequential.engine.output.texts import Draft, MessageValues, Subjects, joined
from prequential.topics.errors import existing
from prequential.topics.outputs import Encoded, Output

#: Fields that few messages have, by their places among all fields behind `counts` and `config`.
VERSION, SAME, STARTED_EMPTY, COVERAGE, DETAILS = FURTHER = range(5)

#: Messages that may wait to be written: the values of one have about as many bytes as its text.
_MOST: Final = 1_000


#: The least number of messages that stay together; fewer cost less as single ones.
_TOGETHER: Final = 64

#: What messages say, as it was read.
Read = TypeVar("Read")


class MessageColumn(NamedTuple):
    """A field of messages: texts, and by message which one it has; -1: none."""

    texts: TextPool
    indices: Ints


def column_by_owner(
    texts: TextPool, chosen: Ints, owners: Ints, where: npt.NDArray[np.bool_]
) -> MessageColumn:
    """Texts about the `chosen` entities, for their messages `where` the field is wanted.

    `owners`: by message, the index of its entity. Entities may have no messages.
    """
    by_owner = np.full(1 + max(owners.max(initial=0), chosen.max(initial=0)), -1, dtype=np.int64)
    by_owner[chosen] = np.arange(len(chosen))
    return MessageColumn(texts, np.where(where, by_owner[owners], -1))


class MetricsReading(NamedTuple):
    """What metrics messages about some entities say, at one moment."""

    # By entity, as in `Draft`:
    streams: list[str]
    subjects: list[Subjects]
    numbers: list[bytes]
    outcomes: Ints
    ts: Ints
    columns: Ints
    # By message, one entity after the other:
    owners: Ints  # the index of its entity
    lines: LineColumns
    value_rows: Ints  # the row of its values
    values: MessageValues
    counts: CountColumns
    further: dict[int, MessageColumn]  # by the place among `FURTHER`


class _Written:
    """Where messages are that were written together, once they are."""

    def __init__(self) -> None:
        self.messages: EncodedMessages | None = None
        self._single: list[Encoded] | None = None

    def part(self, first: int, stop: int) -> Sequence[Encoded]:
        """The messages of these groups; small parts are cut out of a list of all messages, made once."""
        messages = existing(self.messages, "the message")
        begin, end = (int(messages.ends[group - 1]) if group else 0 for group in (first, stop))
        if end - begin >= _TOGETHER:
            return messages.part(first, stop)
        if self._single is None:
            self._single = list(messages)
        return self._single[begin:end]


class Unwritten:
    """Messages that are written later, in groups: those about the same entity, or pair, form one."""

    def __init__(self, streams: Sequence[str], counts: Sequence[int], first: int, written: _Written) -> None:
        """Take by group its stream and its number of messages; the place of the first; where they come."""
        self.streams, self._counts, self.first, self.written = streams, counts, first, written

    @property
    def stop(self) -> int:
        """Return the place after the last group's."""
        return self.first + len(self._counts)

    def __len__(self) -> int:
        return sum(self._counts)

    def part(self, first: int, stop: int) -> Unwritten:
        """The messages of these groups, from the `first` one to the one before `stop`."""
        return Unwritten(self.streams[first:stop], self._counts[first:stop], self.first + first, self.written)

    def encoded(self) -> Sequence[Encoded]:
        """The messages; call it after their reporter's `write`."""
        return self.written.part(self.first, self.stop)


def encoded(messages: Iterable[Output | Unwritten]) -> Iterator[Output | EncodedMessages]:
    """All messages in their order, after their reporters' `write`.

    Groups that follow each other here as they were read, are together.
    """
    first = stop = 0
    written: _Written | None = None
    for message in messages:
        if isinstance(message, Unwritten) and message.written is written and message.first == stop:
            stop = message.stop
            continue
        if written is not None:
            yield from _outputs_of(written.part(first, stop))
        if isinstance(message, Unwritten):
            written, first, stop = message.written, message.first, message.stop
        else:
            written = None
            yield message
    if written is not None:
        yield from _outputs_of(written.part(first, stop))


def _outputs_of(part: Sequence[Encoded]) -> Sequence[Output | EncodedMessages]:
    return [part] if isinstance(part, EncodedMessages) else part


class UnwrittenMessages(Generic[Read]):
    """Readings whose messages aren't written yet."""

    def __init__(self) -> None:
        self.readings: list[Read] = []
        self._count = self._groups = 0
        self._written = _Written()

    @property
    def are_many(self) -> bool:
        """Whether so many messages wait that they should be written now."""
        return self._count >= _MOST

    def add(self, reading: Read, streams: Sequence[str], counts: Sequence[int]) -> Unwritten:
        """Add a reading; returns its messages. By group: its stream, and its number of messages."""
        self.readings.append(reading)
        messages = Unwritten(streams, counts, self._groups, self._written)
        self._count += len(messages)
        self._groups += len(streams)
        return messages

    def take(self, written: EncodedMessages) -> None:
        """Take over the written messages of all readings, in order."""
        self._written.messages = written
        self.readings, self._count, self._groups, self._written = [], 0, 0, _Written()


def draft_of(
    readings: Sequence[MetricsReading],
    texts_of_counts: Callable[[CountColumns], TextPool],
    same: Sequence[bytes],
) -> tuple[Draft, MessageValues]:
    """All messages of these readings as one draft, and their values.

    `texts_of_counts` returns the fields `counts` and `config` by row of counts; `same` has the texts of the
    field of that name.
    """
    entities = np.cumsum([0, *(len(reading.streams) for reading in readings)]).tolist()
    values = np.cumsum([0, *(len(reading.values.n) for reading in readings)]).tolist()
    owners = np.concatenate([reading.owners + first for reading, first in zip(readings, entities)])
    of_counts = counts.joined([reading.counts for reading in readings])
    columns = TextColumns(owners, entities[-1])
    columns.add(texts_of_counts(of_counts), of_counts.rows[owners])
    for place in FURTHER:
        if place == SAME:
            indices = np.concatenate([reading.lines.same for reading in readings])
            columns.add(TextPool.from_texts(same), indices)
        elif any(place in reading.further for reading in readings):
            columns.add(*_together(readings, place))
    draft = Draft(
        [stream for reading in readings for stream in reading.streams],
        [subjects for reading in readings for subjects in reading.subjects],
        [numbers for reading in readings for numbers in reading.numbers],
        np.concatenate([reading.outcomes for reading in readings]),
        np.concatenate([reading.ts for reading in readings]),
        np.concatenate([reading.columns for reading in readings]),
        np.concatenate([reading.value_rows + first for reading, first in zip(readings, values)]),
        *columns.joined(),
    )
    return draft, joined([reading.values for reading in readings])


def _together(readings: Sequence[MetricsReading], place: int) -> MessageColumn:
    """A field of the messages of all readings."""
    pools: list[TextPool] = []
    indices: list[Ints] = []
    texts = 0
    for reading in readings:
        column = reading.further.get(place)
        if column is None:
            indices.append(np.full(len(reading.owners), -1, dtype=np.int64))
        else:
            indices.append(np.where(column.indices < 0, -1, column.indices + texts))
            pools.append(column.texts)
            texts += len(column.texts.ends)
    return MessageColumn(TextPool.of_pools(pools), np.concatenate(indices))
