"""State made anew from the journals, where shards have gone on with what others knew.

Once the inputs have got more partitions, a shard's journal begins, or goes on, with an entry `Grown`: what
the shard knew then was made in the partitions before. So these are followed first, up to there, and split as
they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Message
from prequential.core.shard import Shard
from prequential.core.snapshot.split import split, streams_of
from prequential.kafka.consumer_records import ConsumerRecords
from prequential.settings.model import Config
from prequential.topics.errors import WorkError
from prequential.topics.specs import INPUTS
from prequential.worker.batches import SharedParser, to_batch
from prequential.worker.journal import Generation, Grown, Idle, Step, generations
from prequential.worker.losses import LostRecords, refusal
from prequential.worker.origin import Origin
from prequential.worker.recovery import Known, Waiting, read_known, read_partition


def made_anew(
    config: Config, partition: int, origin: Origin, known: Known, stopped: Callable[[], bool],
    waiting: Waiting | None = None,
) -> Known:  # fmt: skip
    """What is known of a shard without a snapshot, with its state after the inputs grew last.

    It is what `known` is if they never have. Raises WorkError if anything that it takes isn't there any more.
    `stopped` and `waiting` are those of `read_known`.
    """
    places = [place for place, entry in enumerate(known.journal) if isinstance(entry.note, Grown)]
    if not places:
        return known
    lineage = _Lineage(config, origin, stopped, waiting)
    own_generations = lineage.generations(partition)
    state = _written(lineage.at_begin_of(partition, len(own_generations) - 1))
    return known._replace(parts=_read(state), journal=known.journal[places[-1] + 1 :], made_anew=True)


class _Lineage:
    """Follows journals from their beginnings, silently."""

    def __init__(
        self, config: Config, origin: Origin, stopped: Callable[[], bool], waiting: Waiting | None
    ) -> None:
        self._config, self._origin, self._stopped, self._waiting = config, origin, stopped, waiting
        self._generations: dict[int, list[Generation]] = {}

    def generations(self, partition: int) -> list[Generation]:
        """A shard's journal."""
        if partition not in self._generations:
            known = read_known(
                self._config, partition, self._origin, rebuild=True, stopped=self._stopped,
                waiting=self._waiting,
            )  # fmt: skip
            if known.lost is not None:
                raise LostRecords(refusal(self._config, partition, known.lost))
            self._generations[partition] = generations(known.journal)
        return self._generations[partition]

    def at_begin_of(self, partition: int, number: int) -> Shard:
        """A shard as it was when one of its generations began."""
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
        """The generation that began when there were more partitions than so many."""
        for number, generation in enumerate(self.generations(parent)):
            if number and generation.since == before:
                return number
        raise WorkError(
            f"the journal of shard {parent} doesn't go back to when there were {before} partitions: what "
            "others have gone on with can't be made anew; begin under a new kafka.prefix"
        )

    def _at_end_of(self, partition: int, number: int) -> Shard:
        shard, generation = self.at_begin_of(partition, number), self.generations(partition)[number]
        # Of all generations: what is passed over in a later one isn't in this one's offset vectors.
        shard.quarantine = {
            (q.kind, q.offset): q.reason for one in self.generations(partition) for q in one.quarantined
        }
        self._follow(shard, generation.steps)
        return shard

    def _quiet(self, partition: int, partitions: int) -> Shard:
        shard = Shard(self._config, partition, partitions)
        shard.replaying = True
        return shard

    def _follow(self, shard: Shard, steps: Sequence[Step]) -> None:
        """Process exactly what is below these offset vectors, in their order, and what silences made due."""
        kafka, partition = self._config.kafka, shard.partition
        parser = SharedParser(values=self._config.reads_values, intervals=self._config.reads_intervals)
        readers: list[Iterator[Message]] = [
            read_partition(
                kafka, kafka.topic(name), partition, offset or OFFSET_BEGINNING, self._stopped,
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
    """A snapshot as topics hold it."""
    return [msgspec.msgpack.encode(part) for part in shard.snapshot()]


def _read(parts: list[bytes]) -> Iterator[Any]:
    return map(msgspec.msgpack.decode, parts)
