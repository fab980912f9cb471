"""Messages that were read from the state, and are written later, many at once; and metrics as they were read.

Messages are about moments: what they say is read before the state changes again. Their texts are written when
a shard hands out its outputs, because writing few messages costs nearly as much as writing many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.kernel import Ints
from prequential.engine.output import counts
from prequential.engine.output.counts import CountColumns
from prequential.engine.output.estimates import LineColumns
from prequential.engine.output.fields import TextColumns, TextPool
from prequential.engine.output.texts import Draft, MessageValues, Subjects, joined
from prequential.topics.outputs import Encoded

#: Fields that few messages have, by their places among all fields behind `counts` and `config`.
VERSION, SAME, STARTED_EMPTY, COVERAGE, DETAILS = FURTHER = range(5)

#: Messages that may wait to be written: the values of one have about as many bytes as its text.
_MOST: Final = 1_000


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


class Unwritten(NamedTuple):
    """A message that is written later."""

    stream: str
    place: int
    written: list[Encoded]  # where it is, at this place, once it is written

    def encoded(self) -> Encoded:
        """The message; call it after its reporter's `write`."""
        return self.written[self.place]


class UnwrittenMessages(Generic[Read]):
    """Readings whose messages aren't written yet."""

    def __init__(self) -> None:
        self.readings: list[Read] = []
        self._count = 0
        self._written: list[Encoded] = []

    @property
    def are_many(self) -> bool:
        """Whether so many messages wait that they should be written now."""
        return self._count >= _MOST

    def add(self, reading: Read, streams: Sequence[str]) -> list[Unwritten]:
        """Add a reading; returns its messages, in order. `streams`: by message, its stream."""
        self.readings.append(reading)
        first, written = self._count, self._written
        self._count += len(streams)
        return [Unwritten(stream, place, written) for place, stream in enumerate(streams, first)]

    def take(self, written: list[Encoded]) -> None:
        """Take over the written messages of all readings, in order."""
        self._written.extend(written)
        self.readings, self._count, self._written = [], 0, []


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
