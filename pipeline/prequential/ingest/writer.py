"""Writing: what was made of a batch of source records and the offsets behind it, in one transaction.

One transactional producer a process, under a name that no other ever has. What keeps a former owner of a
partition from writing is the group: a transaction carries the membership by which its records were read, and
the group's coordinator refuses the offsets, and so the transaction, of one that it has replaced since
(KIP-447). Whoever reads a partition next asks for its committed offsets, which the broker doesn't tell while
a transaction that changes them is open.

The alternative, a producer for each partition whose id fences as a shard's does, would need as many
connections, threads and transactions as there are partitions of all sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, TopicPartition
from prequential.ingest.reading import Place
from prequential.kafka.complaints import COMPLAINING
from prequential.kafka.transactions import Outgoing, Transactions, Unknown
from prequential.settings.model import Config
from prequential.topics.specs import INPUTS

#: A transaction whose process is gone is aborted by the broker after this many ms; until then it holds up
#: those who read the inputs, and whoever reads its partitions next. Many times what one takes, as it would be
#: tried again and again else; the group takes as long, by default, to miss the process.
_TRANSACTION_TIMEOUT_MS = 10_000

#: Seconds that one attempt to send the offsets may take.
_OFFSETS_SECONDS = 10.0


class Writer(Transactions):
    """The transactional producer of one process. Raises Expelled for what its membership doesn't cover."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            config.kafka,
            f"{config.ingest_group}-{uuid4().hex}",
            who="ingest",
            topic=config.kafka.topic(INPUTS[0]),
            timeout_ms=_TRANSACTION_TIMEOUT_MS,
            # Nobody asks where a message has come to lie.
            **{"delivery.report.only.error": True},
        )
        self._group = config.ingest_group
        self._offsets: list[TopicPartition] = []
        self._metadata = b""

    def write(self, messages: Sequence[Outgoing], offsets: Mapping[Place, int], metadata: bytes) -> None:
        """Write messages and the next offsets of what they were made of, all or nothing."""
        self._offsets = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        self._metadata = metadata
        self.publish(messages)

    def _send_offsets(self) -> None:
        self._checked(
            lambda: self._producer.send_offsets_to_transaction(
                self._offsets, self._metadata, _OFFSETS_SECONDS
            )
        )

    def _committed(self, messages: Sequence[Outgoing]) -> dict[str, int] | None:
        """The offsets are the transaction's: whoever has committed them has written what is below."""
        wanted = {(part.topic, part.partition): part.offset for part in self._offsets}
        with closing(Consumer(self._kafka.client(**{"group.id": self._group, **COMPLAINING}))) as consumer:
            try:
                parts = [TopicPartition(*place) for place in wanted]
                committed = consumer.committed(parts, timeout=_OFFSETS_SECONDS)
            except KafkaException as error:
                raise Unknown(error.args[0].str()) from error
        for part in committed:
            if part.error is not None:
                raise Unknown(part.error.str())
        there = all(part.offset >= wanted[part.topic, part.partition] for part in committed)
        return {} if there else None
