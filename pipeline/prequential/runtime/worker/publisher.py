"""Publishing: a shard's outputs and its journal, each transaction completely or not at all.

Each shard has one transactional producer with the shard's own transactional ID. So a worker that takes a
shard over fences the previous worker and aborts its open transaction. A read_committed reader sees each
output once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from confluent_kafka import Message
from prequential.configuration.settings.model import Config
from prequential.runtime.kafka.transactions import ATTEMPT_SECONDS, Fenced, Outgoing, Transactions, Unknown
from prequential.runtime.worker.recovery import read_partition
from prequential.topics.errors import WorkError
from prequential.topics.specs import INPUTS, JOURNAL

#: Milliseconds after which the broker aborts an abandoned transaction. Until then the transaction withholds
#: records from read_committed readers. The time is longer than any pause of a healthy worker.
_TRANSACTION_TIMEOUT_MS = 60_000


class ShardLost(Fenced):
    """Another worker holds the shard now: the broker refuses all further messages of this worker."""


class Publisher(Transactions):
    """The transactional producer of one shard.

    Raises ShardLost as soon as the broker or the journal shows that another worker has taken over.
    """

    fenced = ShardLost

    def __init__(self, config: Config, partition: int) -> None:
        self._journal = config.kafka.topic(JOURNAL)
        #: Offset after the last entry of the journal that this worker has read or published.
        self.journal_offset = 0
        super().__init__(
            config.kafka,
            f"{config.group}-shard-{partition}",
            who=f"shard {partition}",
            topic=config.kafka.topic(INPUTS[0]),  # a topic that certainly exists
            timeout_ms=_TRANSACTION_TIMEOUT_MS,
            partition=partition,
        )

    def publish(self, messages: Iterable[Outgoing]) -> dict[str, int]:
        """Publish as `Transactions.publish` does, and note the offset after the journal entry.

        If the messages were committed already, the result has only the offset of the journal entry.
        """
        offsets = super().publish(messages)
        if self._journal in offsets:
            self.journal_offset = offsets[self._journal] + 1
        return offsets

    def _committed(self, messages: Sequence[Outgoing]) -> dict[str, int] | None:
        """Read the rest of the journal: the entry of these messages, nothing, or another worker's entry."""
        try:
            entries: list[Message] = list(
                read_partition(
                    self._kafka, self._journal, self._partition, self.journal_offset, lambda: self.stopping,
                    ATTEMPT_SECONDS,
                )
            )  # fmt: skip
        except WorkError as why:
            raise Unknown(str(why)) from why
        if self.stopping:
            raise ShardLost("the worker stops")
        ours = [message.value for message in messages if message.topic == self._journal]
        if any(entry.value() not in ours for entry in entries):
            self._lost = "another worker has written to the journal"
            raise ShardLost(self._lost)
        return {self._journal: entries[-1].offset()} if entries else None


__all__ = ["Outgoing", "Publisher", "ShardLost"]
