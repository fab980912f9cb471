"""Reads the state of a shard from its topics: the newest snapshot, and the journal after it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from time import sleep
from typing import Any, NamedTuple, Union

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from prequential.configuration.settings.model import Config
from prequential.runtime.kafka.complaints import COMPLAINING
from prequential.runtime.kafka.fetching import FETCH_SETTINGS
from prequential.runtime.worker.journal import JournalEntry, Lost, decode_entry
from prequential.runtime.worker.losses import loss, missing_entries, start_and_losses
from prequential.runtime.worker.origin import TopicsOrigin
from prequential.runtime.worker.snapshots import MANIFEST_KEY, Manifest, SnapshotReader
from prequential.topics.clients import (
    READ_COMMITTED,
    READ_TO_END,
    KafkaConfig,
    is_temporary,
    new_consumer,
    plain_errors,
)
from prequential.topics.errors import WorkError
from prequential.topics.permissions import why_unread
from prequential.topics.reading import watermarks
from prequential.topics.specs import INPUTS, JOURNAL, SNAPSHOTS

log = logging.getLogger(__name__)

#: Seconds without a record or the end of the partition after which a read fails. A read that waits for a
#: broker starts again with another client then, as the first may have lost its brokers (`is_stranded`).
_SILENCE_SECONDS = 60.0

#: Seconds of silence after which, and then between which, a waiting read reports that it waits.
_TELL_SECONDS = 10.0

#: Seconds that a poll waits, and seconds until an unanswered request is repeated.
_POLL_SECONDS = 1.0

#: Group ID that the clients require; they never join the group.
_GROUP = "prequential-read"

#: Receives a description of what the read waits for, and None when the wait has ended.
Waiting = Callable[[Union[str, None]], None]

#: Name of the header with the generation of the snapshot to which a chunk belongs.
GENERATION = "generation"


class RecoveredState(NamedTuple):
    """The state of a shard according to its topics."""

    manifest: Manifest | None
    parts: Iterator[Any]
    journal: list[JournalEntry]  # entries after the snapshot
    journal_number: int  # of the last entry
    journal_offset: int  # after the last entry
    made_anew: bool = False  # the parts are not from a snapshot: see `runtime.worker.lineage`
    #: Losses that were accepted earlier, and the loss beyond them that is not accepted yet.
    accepted: tuple[Lost, ...] = ()
    lost: Lost | None = None

    @property
    def fresh(self) -> bool:
        """Whether the shard begins without any state."""
        return self.manifest is None and not self.made_anew


def read_partition(
    kafka: KafkaConfig, topic: str, partition: int, offset: int, stopped: Callable[[], bool],
    patience: float | None = None, waiting: Waiting | None = None,
) -> Iterator[Message]:  # fmt: skip
    """Yield the committed records of a partition from `offset` up to its present end, without a group.

    Raises WorkError if neither a record nor the end arrives for `patience` seconds (default: 60). With
    `waiting` the function waits for ever instead, and creates a new client every `patience` seconds.
    """
    patience = _SILENCE_SECONDS if patience is None else patience
    consumer = _reader(kafka, topic, partition, offset)
    try:
        silence = 0.0
        while not stopped():
            message = consumer.poll(_POLL_SECONDS)
            if message is None:
                silence += _POLL_SECONDS
                why = f"{topic}/{partition}: nothing came for {silence:.0f} s"
                expired = silence % patience < _POLL_SECONDS
                if waiting is None and expired:
                    raise WorkError(why)
                if waiting is not None and silence % _TELL_SECONDS < _POLL_SECONDS:
                    waiting(why)
                if expired:
                    consumer.close()
                    consumer = _reader(kafka, topic, partition, offset)
                continue
            error = message.error()
            if (error is None or error.code() == KafkaError._PARTITION_EOF) and silence:
                if waiting is not None and silence >= _TELL_SECONDS:
                    waiting(None)
                silence = 0.0
            if error is None:
                offset = message.offset() + 1
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            elif not is_temporary(error):
                raise WorkError(why_unread(kafka, error, topic, _GROUP, f"{topic}/{partition}"))
    finally:
        consumer.close()


def _reader(kafka: KafkaConfig, topic: str, partition: int, offset: int) -> Consumer:
    """Return a client that reads a partition from `offset` on."""
    settings = {**FETCH_SETTINGS, **COMPLAINING, **READ_TO_END, **READ_COMMITTED}
    consumer = new_consumer(kafka, _GROUP, **settings)
    consumer.assign([TopicPartition(topic, partition, offset)])
    return consumer


def read_known(
    config: Config,
    partition: int,
    origin: TopicsOrigin | None,
    rebuild: bool,
    stopped: Callable[[], bool],
    *,
    whole: bool = True,
    waiting: Waiting | None = None,
) -> RecoveredState:
    """Read the snapshot and the journal of a shard to their ends.

    Both must belong to the present input topics `origin`; otherwise the function raises WorkError with the
    difference. If `origin` is None, any topics are valid. `rebuild` ignores snapshots, and journal entries of
    topics that no longer exist. The journal and the inputs must be complete from the snapshot on, or from
    their beginnings without one. Missing records and entries are in `lost`; if `whole` is false, they only
    cause a warning. With `waiting` the function waits for a broker that doesn't answer, see `read_partition`.
    If `stopped` returns true, the function returns an incomplete result or raises WorkError.
    """
    kafka = config.kafka
    reader = SnapshotReader()
    if not rebuild:
        topic = kafka.topic(SNAPSHOTS)
        for message in read_partition(kafka, topic, partition, OFFSET_BEGINNING, stopped, waiting=waiting):
            if message.value() is None:
                if message.key() == MANIFEST_KEY:
                    reader.forget()
            else:
                headers = dict(message.headers() or ())
                generation = int(headers.get(GENERATION, b"-1"))
                reader.add(message.key() or b"", message.value(), generation)
    newest = reader.newest()
    manifest, parts = newest if newest is not None else (None, iter(()))
    if manifest is not None:
        _check_origin(manifest.origin, origin, partition)
    start = OFFSET_BEGINNING if manifest is None else manifest.journal_offset
    entries: list[JournalEntry] = []
    journal_number = 0 if manifest is None else manifest.journal_number
    journal_offset = 0 if manifest is None else manifest.journal_offset
    for message in read_partition(kafka, kafka.topic(JOURNAL), partition, start, stopped, waiting=waiting):
        entry = decode_entry(message.value() or b"")
        journal_offset = message.offset() + 1
        journal_number = entry.number
        if manifest is None or entry.number > manifest.journal_number:
            entries.append(entry)
    journal = _of_one_origin(entries)
    begins = 1 if len(journal) == len(entries) else journal[0].number  # number of its first entry
    if not rebuild:
        for entry in (*entries[: len(entries) - len(journal)], *journal[-1:]):
            _check_origin(entry.origin, origin, partition)
    elif journal and origin is not None and journal[-1].origin.difference(origin):
        journal, begins = [], journal_number + 1
    last = begins - 1 if manifest is None else manifest.journal_number
    missing = missing_entries(journal, last)
    if missing and not whole:
        log.warning(
            "the journal of shard %d begins at entry %d: %d are missing",
            partition, journal[0].number, missing,
        )  # fmt: skip
    known = RecoveredState(manifest, parts, journal, journal_number, journal_offset)
    if not whole:
        return known
    start, accepted = start_and_losses((0, 0, 0) if manifest is None else tuple(manifest.vector), journal)
    fresh = manifest is None
    untouched = fresh and not any(entry.vectors for entry in journal)
    lows = [0, 0, 0] if untouched else _beginnings(kafka, partition, stopped, waiting)
    lost = loss(start, lows, journal, missing, fresh=fresh)
    return known._replace(accepted=tuple(accepted), lost=lost)


def _of_one_origin(entries: list[JournalEntry]) -> list[JournalEntry]:
    """Return the last entries, back to the first one that does not continue its predecessor."""
    start = len(entries) - 1
    while start > 0 and entries[start].continues(entries[start - 1]):
        start -= 1
    return entries[max(0, start) :]


def _beginnings(
    kafka: KafkaConfig, partition: int, stopped: Callable[[], bool], waiting: Waiting | None
) -> list[int]:
    """Return the offsets at which the inputs begin."""
    consumer = new_consumer(kafka, _GROUP, **COMPLAINING)
    try:
        with plain_errors(kafka):
            parts = [TopicPartition(kafka.topic(name), partition) for name in INPUTS]
            return [_beginning(consumer, part, stopped, waiting) for part in parts]
    finally:
        consumer.close()


def _beginning(
    consumer: Consumer, part: TopicPartition, stopped: Callable[[], bool], waiting: Waiting | None
) -> int:
    """Return the first offset of a partition; with `waiting`, wait for a broker that doesn't answer."""
    while True:
        try:
            low, _ = watermarks(consumer, part)
        except KafkaException as error:
            if waiting is None or stopped() or not is_temporary(error.args[0]):
                raise
            waiting(f"{part.topic}/{part.partition}: {error.args[0].str()}")
            sleep(_POLL_SECONDS)
        else:
            return low


def _check_origin(then: TopicsOrigin, now: TopicsOrigin | None, partition: int) -> None:
    if now is None or not (difference := then.difference(now)):
        return
    changed = f"shard {partition}: {difference} since its state was written"
    if then.has_grown(now):
        raise WorkError(
            f"{changed}; `prequential topics grow --partitions {now.partitions}` carries it over, as long as "
            "nothing has been written to the new partitions"
        )
    raise WorkError(
        f"{changed}; `prequential worker --rebuild` starts from scratch with the topics as they are"
    )
