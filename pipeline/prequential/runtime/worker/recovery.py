"""Reads the state of a shard from its topics: the newest snapshot, and the journal after it.

A shard goes on from its snapshot, or without one from the first record that the journal covers. If its inputs
begin later, the shard would publish different outputs than without the loss. So this shard halts, until the
operator accepts the loss (`worker.accept_loss`). The journal then lists the missing records (`Lost`), and all
later messages count them (`counts`). The IDs of these messages also differ from those without the loss.

When the inputs get more partitions, a shard's journal begins, or goes on, with an entry `Grown`. The shard's
state at that entry results from the previous partitions. So the rebuild first follows the journals of these
partitions up to the growth, and then splits the state as the growth did.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from time import sleep
from typing import Any, NamedTuple, Union

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from prequential.configuration.settings.model import Config
from prequential.engine.input.merge import OffsetVector
from prequential.engine.shard import Shard
from prequential.engine.snapshot.snapshot import split, streams_of
from prequential.runtime.kafka.fetching import FETCH_SETTINGS
from prequential.runtime.kafka.readers import ConsumerRecords
from prequential.runtime.kafka.rejected import COMPLAINING
from prequential.runtime.worker.batches import SharedParser, to_batch
from prequential.runtime.worker.journal import (
    Generation,
    Grown,
    Idle,
    JournalEntry,
    Lost,
    Step,
    TopicsOrigin,
    decode_entry,
    generations,
    standing,
)
from prequential.runtime.worker.snapshots import MANIFEST_KEY, Manifest, SnapshotReader
from prequential.topics import clients
from prequential.topics.errors import WorkError
from prequential.topics.permissions import why_unread
from prequential.topics.reading import watermarks
from prequential.topics.specs import INPUTS, JOURNAL, SNAPSHOTS


class LostRecords(WorkError):
    """Records that a shard needs have been deleted: this shard can't go on, but others can."""


def instruction(partition: int) -> str:
    """Return the instruction for the operator of a halted shard."""
    return (
        f"`prequential worker --accept-loss {partition}` (or worker.accept_loss: [{partition}]) goes on from "
        "the first records that exist, and reports the loss; or begin under a new kafka.prefix"
    )


def start_and_losses(start: OffsetVector, journal: Sequence[JournalEntry]) -> tuple[OffsetVector, list[Lost]]:
    """Return the offsets from which a shard needs its inputs, and the accepted losses that apply to it.

    `start` is the shard's offset vector before this journal. A loss applies only if it begins at or below the
    vector that the shard has reached. Other losses belong to another snapshot, or to a shard without one.

    >>> from prequential.runtime.worker.journal import TopicsOrigin
    >>> lost = Lost((4, 0, 0), (9, 0, 0))
    >>> entries = [JournalEntry(1, [], TopicsOrigin(1), lost)]
    >>> start_and_losses((5, 2, 3), entries)[0], start_and_losses((0, 0, 0), entries)
    ((9, 2, 3), ((0, 0, 0), []))
    """
    losses = []
    for entry in journal:
        note = entry.note
        if isinstance(note, Lost) and all(a <= b for a, b in zip(note.start, start)):
            losses.append(note)
            start = tuple(map(max, start, note.begins))
    return start, losses


def missing_entries(journal: Sequence[JournalEntry], last: int) -> int:
    """Return how many entries are missing in a journal after entry `last`, except for accepted losses.

    >>> from prequential.runtime.worker.journal import TopicsOrigin
    >>> some = [JournalEntry(number, [], TopicsOrigin(1)) for number in (3, 4, 7)]
    >>> missing_entries(some, 2), missing_entries(some, 0)
    (2, 4)
    """
    missing = 0
    for entry in journal:
        missing += entry.number - last - 1
        last = entry.number
        if isinstance(entry.note, Lost):
            missing = 0
    return missing


def loss(
    start: OffsetVector, begins: Sequence[int], journal: Sequence[JournalEntry], entries: int, *, fresh: bool
) -> Lost | None:
    """Return what a shard lacks that needs its inputs from `start`; None if nothing is missing.

    The inputs begin at `begins`, and `entries` entries of the journal are missing. A `fresh` shard lacks
    records only if an input begins after the journal's first offset vector. The topics may have begun later
    than at offset 0 when that vector was written.
    """
    needed = list(start)
    if fresh:
        first = next((vector for entry in journal for vector in entry.vectors), None)
        if first is None:
            return Lost(start, start, entries) if entries else None
        needed = [max(a, b) for a, b in zip(start, first)]
    gone = [low > offset for low, offset in zip(begins, needed)]
    if not any(gone) and not entries:
        return None
    ends = tuple(low if is_gone else a for a, low, is_gone in zip(start, begins, gone))
    vectors = [step for step in standing(journal).settled if not isinstance(step, Idle)]
    return Lost(start, ends, entries, vectors[-1] if vectors else (0, 0, 0))


def refusal(config: Config, partition: int, lost: Lost) -> str:
    """Return the error message of a shard that halts."""
    topics = [config.kafka.topic(name) for name in INPUTS]
    missing_records = lost.says([f"{topic}/{partition}" for topic in topics])
    return (
        f"shard {partition} halted: retention deleted records that it needs: {missing_records}; "
        f"{instruction(partition)}"
    )


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
    made_anew: bool = False  # the parts are not from a snapshot: see `made_anew`
    #: Losses that were accepted earlier, and the loss beyond them that is not accepted yet.
    accepted: tuple[Lost, ...] = ()
    lost: Lost | None = None

    @property
    def fresh(self) -> bool:
        """Whether the shard begins without any state."""
        return self.manifest is None and not self.made_anew


def read_partition(
    kafka: clients.KafkaConfig, topic: str, partition: int, offset: int, stopped: Callable[[], bool],
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
            elif not clients.is_temporary(error):
                raise WorkError(why_unread(kafka, error, topic, _GROUP, f"{topic}/{partition}"))
    finally:
        consumer.close()


def _reader(kafka: clients.KafkaConfig, topic: str, partition: int, offset: int) -> Consumer:
    """Return a client that reads a partition from `offset` on."""
    settings = {**FETCH_SETTINGS, **COMPLAINING, **clients.READ_TO_END, **clients.READ_COMMITTED}
    consumer = clients.new_consumer(kafka, _GROUP, **settings)
    consumer.assign([TopicPartition(topic, partition, offset)])
    return consumer


def read_known(
    config: Config, partition: int, origin: TopicsOrigin | None, rebuild: bool, stopped: Callable[[], bool],
    *, whole: bool = True, waiting: Waiting | None = None,
) -> RecoveredState:  # fmt: skip
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
    written = _journal_after(config, partition, manifest, stopped, waiting)
    entries = written.entries
    journal = _of_one_origin(entries)
    begins = 1 if len(journal) == len(entries) else journal[0].number  # number of its first entry
    if not rebuild:
        for entry in (*entries[: len(entries) - len(journal)], *journal[-1:]):
            _check_origin(entry.origin, origin, partition)
    elif journal and origin is not None and journal[-1].origin.difference(origin):
        journal, begins = [], written.number + 1
    last = begins - 1 if manifest is None else manifest.journal_number
    missing = missing_entries(journal, last)
    if missing and not whole:
        log.warning(
            "the journal of shard %d begins at entry %d: %d are missing",
            partition, journal[0].number, missing,
        )  # fmt: skip
    recovered = RecoveredState(manifest, parts, journal, written.number, written.offset)
    if not whole:
        return recovered
    start, accepted = start_and_losses((0, 0, 0) if manifest is None else tuple(manifest.vector), journal)
    fresh = manifest is None
    untouched = fresh and not any(entry.vectors for entry in journal)
    lows = [0, 0, 0] if untouched else _beginnings(kafka, partition, stopped, waiting)
    lost = loss(start, lows, journal, missing, fresh=fresh)
    return recovered._replace(accepted=tuple(accepted), lost=lost)


class _ReadJournal(NamedTuple):
    """What a journal has after a snapshot."""

    entries: list[JournalEntry]
    number: int  # of the last entry
    offset: int  # after the last entry


def _journal_after(
    config: Config, partition: int, manifest: Manifest | None, stopped: Callable[[], bool],
    waiting: Waiting | None,
) -> _ReadJournal:  # fmt: skip
    """Read the entries of a journal after a snapshot; all of them without one.

    The manifest's offset only saves time: the numbers of entries decide. A journal that was restored from a
    backup has its entries at earlier offsets, so it is read from its beginning if the next entry isn't there.
    """
    if manifest is None:
        return _journal_from(config, partition, OFFSET_BEGINNING, _ReadJournal([], 0, 0), stopped, waiting)
    before = _ReadJournal([], manifest.journal_number, manifest.journal_offset)
    written = _journal_from(config, partition, manifest.journal_offset, before, stopped, waiting)
    if written.entries and written.entries[0].number > manifest.journal_number + 1:
        written = _journal_from(config, partition, OFFSET_BEGINNING, before, stopped, waiting)
    return written


def _journal_from(
    config: Config, partition: int, start: int, before: _ReadJournal, stopped: Callable[[], bool],
    waiting: Waiting | None,
) -> _ReadJournal:  # fmt: skip
    """Read a journal from an offset; entries up to the number of `before` are left out."""
    entries: list[JournalEntry] = []
    number, offset = before.number, before.offset
    journal = config.kafka.topic(JOURNAL)
    for message in read_partition(config.kafka, journal, partition, start, stopped, waiting=waiting):
        entry = decode_entry(message.value() or b"")
        offset = message.offset() + 1
        number = entry.number
        if number > before.number:
            entries.append(entry)
    return _ReadJournal(entries, number, offset)


def _of_one_origin(entries: list[JournalEntry]) -> list[JournalEntry]:
    """Return the last entries, back to the first one that does not continue its predecessor."""
    start = len(entries) - 1
    while start > 0 and entries[start].continues(entries[start - 1]):
        start -= 1
    return entries[max(0, start) :]


def _beginnings(
    kafka: clients.KafkaConfig, partition: int, stopped: Callable[[], bool], waiting: Waiting | None
) -> list[int]:
    """Return the offsets at which the inputs begin."""
    consumer = clients.new_consumer(kafka, _GROUP, **COMPLAINING)
    try:
        with clients.plain_errors(kafka):
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
            if waiting is None or stopped() or not clients.is_temporary(error.args[0]):
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


def made_anew(
    config: Config, partition: int, origin: TopicsOrigin, recovered: RecoveredState,
    stopped: Callable[[], bool],
    waiting: Waiting | None = None,
) -> RecoveredState:  # fmt: skip
    """Return `recovered` of a shard without a snapshot, with its state directly after the last growth.

    Returns `recovered` itself if the inputs have never grown. Raises WorkError if records or entries that it
    needs have been deleted. `stopped` and `waiting` are those of `read_known`.
    """
    growths = [index for index, entry in enumerate(recovered.journal) if isinstance(entry.note, Grown)]
    if not growths:
        return recovered
    lineage = _Lineage(config, origin, stopped, waiting)
    own_generations = lineage.generations(partition)
    state = _written(lineage.at_begin_of(partition, len(own_generations) - 1))
    return recovered._replace(
        parts=_read(state), journal=recovered.journal[growths[-1] + 1 :], made_anew=True
    )


class _Lineage:
    """Follows journals from their beginnings, without publishing."""

    def __init__(
        self, config: Config, origin: TopicsOrigin, stopped: Callable[[], bool], waiting: Waiting | None
    ) -> None:
        self._config, self._origin, self._stopped, self._waiting = config, origin, stopped, waiting
        self._generations: dict[int, list[Generation]] = {}

    def generations(self, partition: int) -> list[Generation]:
        """Return the parts of a shard's journal."""
        if partition not in self._generations:
            recovered = read_known(
                self._config, partition, self._origin, rebuild=True, stopped=self._stopped,
                waiting=self._waiting,
            )  # fmt: skip
            if recovered.lost is not None:
                raise LostRecords(refusal(self._config, partition, recovered.lost))
            self._generations[partition] = generations(recovered.journal)
        return self._generations[partition]

    def at_begin_of(self, partition: int, number: int) -> Shard:
        """Return a shard in its state at the beginning of one of its generations."""
        generation = self.generations(partition)[number]
        before, after = generation.since, generation.partitions
        if before is None or after is None:
            return self._quiet(partition, self._origin.partitions)
        moved = number == 0
        parent = partition % before if moved else partition
        if moved:
            number = self._grown_from(parent, before)
        state = _written(self._at_end_of(parent, number - 1))
        shard = self._quiet(partition, after)
        shard.restore(split(_read(state), streams_of(partition, before, after), moved=moved))
        return shard

    def _grown_from(self, parent: int, before: int) -> int:
        """Return the number of the generation that began when the inputs grew from `before` partitions."""
        for number, generation in enumerate(self.generations(parent)):
            if number and generation.since == before:
                return number
        raise WorkError(
            f"the journal of shard {parent} doesn't go back to when there were {before} partitions: the "
            "state that other shards took over can't be rebuilt; begin under a new kafka.prefix"
        )

    def _at_end_of(self, partition: int, number: int) -> Shard:
        shard, generation = self.at_begin_of(partition, number), self.generations(partition)[number]
        # Records of all generations: one that a later generation skips is not in this one's offset vectors.
        shard.quarantine = {
            (q.kind, q.offset): q.reason
            for earlier in self.generations(partition)
            for q in earlier.quarantined
        }
        self._follow(shard, generation.steps)
        return shard

    def _quiet(self, partition: int, partitions: int) -> Shard:
        shard = Shard(self._config, partition, partitions)
        shard.observed = False
        return shard

    def _follow(self, shard: Shard, steps: Sequence[Step]) -> None:
        """Process exactly the records below these offset vectors, in order, and the silences in between."""
        kafka, partition = self._config.kafka, shard.partition
        parser = SharedParser.of(self._config)
        readers: list[Iterator[Message]] = [
            read_partition(
                kafka,
                kafka.topic(name),
                partition,
                offset or OFFSET_BEGINNING,
                self._stopped,
                waiting=self._waiting,
            )
            for name, offset in zip(INPUTS, shard.merge.vector)
        ]
        for vector in steps:
            if isinstance(vector, Idle):
                shard.idle(vector.quiet)
                continue
            for kind, reader in enumerate(readers):
                messages = []
                end = shard.merge.added[kind]
                while end < vector[kind] and (message := next(reader, None)) is not None:
                    messages.append(message)
                    end = message.offset() + 1
                if messages:
                    shard.add(to_batch(kind, ConsumerRecords.of(messages), parser))
            shard.follow(vector)
            shard.flush()


def _written(shard: Shard) -> list[bytes]:
    """Return an encoded snapshot."""
    return [msgspec.msgpack.encode(part) for part in shard.snapshot()]


def _read(parts: list[bytes]) -> Iterator[Any]:
    return map(msgspec.msgpack.decode, parts)
