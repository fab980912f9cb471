"""Write output messages and the next input offsets in one transaction, guarded by group membership.

Each process has one transactional producer with a unique id. The group keeps the previous owner of a
partition from writing. A transaction carries the membership with which its records were read. The group's
coordinator refuses the offsets of a member that it has replaced, and with them the transaction (KIP-447).
The next reader of a partition asks for its committed offsets. The broker does not return them while a
transaction that changes them is open.

The alternative would be a producer for each partition, whose id fences as a shard's id does. It would need as
many connections, threads and transactions as there are partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from prequential.runtime.kafka.complaints import COMPLAINING
from prequential.runtime.kafka.transactions import Outgoing, Transactions, Unknown
from prequential.topics.clients import KafkaConfig, new_consumer
from prequential.topics.permissions import Permission

#: A partition of a topic.
Place = tuple[str, int]

#: Milliseconds after which the broker aborts a transaction whose process has ended. Until then it blocks
#: the readers of the topics that it wrote to, and the next reader of its input partitions. The limit is many
#: times the usual duration: a transaction that exceeds it would be tried again and again. By default the
#: group needs as long to notice that the process has ended.
_TRANSACTION_TIMEOUT_MS = 10_000

#: Maximum seconds of one attempt to send the offsets.
_OFFSETS_SECONDS = 10.0


class GroupTransactions(Transactions):
    """The transactional producer of one member of a group.

    `who` names the producer's owner in the log, and `topic` is a topic that certainly exists. `write` raises
    Expelled for offsets that the membership does not cover.
    """

    def __init__(self, kafka: KafkaConfig, group: str, *, who: str, topic: str) -> None:
        super().__init__(
            kafka,
            f"{group}-{uuid4().hex}",
            who=who,
            topic=topic,
            timeout_ms=_TRANSACTION_TIMEOUT_MS,
            # No caller needs the offsets of messages.
            **{"delivery.report.only.error": True},
        )
        self._group = group
        self._offsets: list[TopicPartition] = []
        self._membership: object = b""

    def write(
        self, messages: Sequence[Outgoing], offsets: Mapping[Place, int], membership: object,
        notes: Mapping[Place, str] | None = None,
    ) -> None:  # fmt: skip
        """Write messages and the next offsets of their input partitions, all or nothing.

        `membership` is the consumer's. `notes` are committed with the offsets of their partitions.
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
        """Compare the committed offsets with the transaction's own, which it commits with its messages.

        With notes, an earlier transaction may have committed the same offset with another note.
        """
        wanted = {(part.topic, part.partition): part for part in self._offsets}
        with closing(new_consumer(self._kafka, self._group, **COMPLAINING)) as consumer:
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
