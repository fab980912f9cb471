"""State rebuilt from journals after growth, when shards continued with the state of other shards.

When the inputs get more partitions, a shard's journal begins, or goes on, with an entry `Grown`. The shard's
state at that entry results from the previous partitions. So the rebuild first follows the journals of these
partitions up to the growth, and then splits the state as the growth did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Message
from prequential.configuration.settings.model import Config
from prequential.engine.shard import Shard
from prequential.engine.snapshot.split import split, streams_of
from prequential.runtime.kafka.consumer_records import ConsumerRecords
from prequential.runtime.worker.batches import SharedParser, to_batch
from prequential.runtime.worker.journal import Generation, Grown, Idle, Step, generations
from prequential.runtime.worker.losses import LostRecords, refusal
from prequential.runtime.worker.origin import TopicsOrigin
from prequential.runtime.worker.recovery import RecoveredState, Waiting, read_known, read_partition
from prequential.topics.errors import WorkError
from prequential.topics.specs import INPUTS


def made_anew(
    config: Config, partition: int, origin: TopicsOrigin, known: RecoveredState, stopped: Callable[[], bool],
    waiting: Waiting | None = None,
) -> RecoveredState:  # fmt: skip
    """Return `known` of a shard without a snapshot, with its state directly after the last growth.

    Returns `known` itself if the inputs have never grown. Raises WorkError if records or entries that it
    needs have been deleted. `stopped` and `waiting` are those of `read_known`.
    """
    places = [place for place, entry in enumerate(known.journal) if isinstance(entry.note, Grown)]
    if not places:
        return known
    lineage = _Lineage(config, origin, stopped, waiting)
    own_generations = lineage.generations(partition)
    state = _written(lineage.at_begin_of(partition, len(own_generations) - 1))
    return known._replace(parts=_read(state), journal=known.journal[places[-1] + 1 :], made_anew=True)


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
            known = read_known(
                self._config, partition, self._origin, rebuild=True, stopped=self._stopped,
                waiting=self._waiting,
            )  # fmt: skip
            if known.lost is not None:
                raise LostRecords(refusal(self._config, partition, known.lost))
            self._generations[partition] = generations(known.journal)
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
            (q.kind, q.offset): q.reason for one in self.generations(partition) for q in one.quarantined
        }
        self._follow(shard, generation.steps)
        return shard

    def _quiet(self, partition: int, partitions: int) -> Shard:
        shard = Shard(self._config, partition, partitions)
        shard.outbox.close()
        return shard

    def _follow(self, shard: Shard, steps: Sequence[Step]) -> None:
        """Process exactly the records below these offset vectors, in order, and the silences in between."""
        kafka, partition = self._config.kafka, shard.partition
        parser = SharedParser.of(self._config)
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
    """Return an encoded snapshot."""
    return [msgspec.msgpack.encode(part) for part in shard.snapshot()]


def _read(parts: list[bytes]) -> Iterator[Any]:
    return map(msgspec.msgpack.decode, parts)
