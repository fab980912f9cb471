"""Publishing: a shard's outputs and its journal, each transaction whole or not at all.

One transactional producer a shard. Its transactional id is the shard's, so whoever takes a shard over
fences the former holder and aborts what that had open; a read_committed reader sees each output once.
All methods block and belong in a thread of the shard's own.
"""

from __future__ import annotations

from prequential.config import Config
from prequential.topics.specs import INPUTS
from prequential.worker.transactions import Fenced, Outgoing, Transactions

#: A transaction that its worker abandoned is aborted by the broker after this many ms; until then it
#: would hold up read_committed readers. Longer than any pause of a healthy worker.
_TRANSACTION_TIMEOUT_MS = 60_000


class ShardLost(Fenced):
    """Another worker holds the shard now: whatever this one would still publish is refused."""


class Publisher(Transactions):
    """The transactional producer of one shard: messages go to the shard's partition of each topic.

    Raises ShardLost as soon as the broker says that another worker has taken over.
    """

    fenced = ShardLost

    def __init__(self, config: Config, partition: int) -> None:
        super().__init__(
            config.kafka,
            f"{config.group}-shard-{partition}",
            who=f"shard {partition}",
            topic=config.kafka.topic(INPUTS[0]),  # one that is sure to exist
            timeout_ms=_TRANSACTION_TIMEOUT_MS,
            partition=partition,
        )


__all__ = ["Outgoing", "Publisher", "ShardLost"]
