"""What was made of records, and the offsets behind them, in a transaction that a group's membership guards.

One transactional producer a process, under a name that no other ever has. What keeps a former owner of a
partition from writing is the group: a transaction carries the membership by which its records were read, and
the group's coordinator refuses the offsets, and so the transaction, of one that it has replaced since
(KIP-447). Whoever reads a partition next asks for its committed offsets, which the broker doesn't tell while
a transaction that changes them is open.

The alternative, a producer for each partition whose id fences as a shard's does, would need as many
connections, threads and transactions as there are partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from prequential.kafka.complaints import COMPLAINING
from prequential.kafka.transactions import Outgoing, Transactions, Unknown
from prequential.topics.clients import KafkaConfig
from prequential.topics.permissions import Permission

#: A partition of a topic.
Place = tuple[str, int]

#: A transaction whose process is gone is aborted by the broker after this many ms; until then it holds up
#: those who read the inputs, and whoever reads its partitions next. Many times what one takes, as it would be
#: tried again and again else; the group takes as long, by default, to miss the process.
_TRANSACTION_TIMEOUT_MS = 10_000

#: Seconds that one attempt to send the offsets may take.
_OFFSETS_SECONDS = 10.0


class GroupTransactions(Transactions):
    """The transactional producer of one member of a group.

    `who` says in the log whose it is, `topic` is one that is sure to exist. Raises Expelled for what its
    membership doesn't cover.
    """

    def __init__(self, kafka: KafkaConfig, group: str, *, who: str, topic: str) -> None:
        super().__init__(
            kafka,
            f"{group}-{uuid4().hex}",
            who=who,
            topic=topic,
            timeout_ms=_TRANSACTION_TIMEOUT_MS,
            # Nobody asks where a message has come to lie.
            **{"delivery.report.only.error": True},
        )
        self._group = group
        self._offsets: list[TopicPartition] = []
        self._membership: object = b""

    def write(
        self, messages: Sequence[Outgoing], offsets: Mapping[Place, int], membership: object,
        notes: Mapping[Place, str] | None = None,
    ) -> None:  # fmt: skip
        """Write messages and the next offsets of what they were made of, all or nothing.

        `membership` is the consumer's; `notes` go with the offsets of their partitions.
        """
        notes = notes or {}
        self._offsets = [
            TopicPartition(*place, offset, metadata=notes.get(place, "")) for place, offset in offsets.items()
        ]
        self._membership = membership
        self.publish(messages)

    def _send_offsets(self) -> None:
        self._checked(
            lambda: self._producer.send_offsets_to_transaction(
                self._offsets, self._membership, _OFFSETS_SECONDS
            )
        )

    def _lacked(self, error: KafkaError) -> list[Permission]:
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return [Permission("Read", "group", self._group)]
        return super()._lacked(error)

    def _committed(self, messages: Sequence[Outgoing]) -> dict[str, int] | None:
        """The offsets are the transaction's: whoever has committed them has written what is below.

        Where there are notes with them the same offset may have been committed before, with another one.
        """
        wanted = {(part.topic, part.partition): part for part in self._offsets}
        with closing(Consumer(self._kafka.client(**{"group.id": self._group, **COMPLAINING}))) as consumer:
            try:
                parts = [TopicPartition(*place) for place in wanted]
                committed = consumer.committed(parts, timeout=_OFFSETS_SECONDS)
            except KafkaException as error:
                raise Unknown(error.args[0].str()) from error
        for part in committed:
            if part.error is not None:
                raise Unknown(part.error.str())
        there = all(
            part.offset > (own := wanted[part.topic, part.partition]).offset
            or (part.offset == own.offset and (part.metadata or "") == (own.metadata or ""))
            for part in committed
        )
        return {} if there else None
