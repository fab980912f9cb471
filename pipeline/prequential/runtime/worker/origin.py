"""The input topics to which offsets belong: a recreated topic begins at offset 0 again.

Offsets in snapshots and the journal are invalid for other topics. When the number of partitions changes, the
records of a stream move to other partitions. So snapshots and the journal store the topics' IDs and number of
partitions together with the offsets.
"""

from __future__ import annotations

from typing import NamedTuple

from prequential.topics.admin import identities
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import INPUTS


class TopicsOrigin(NamedTuple):
    """The input topics' IDs (empty where the broker provides none), and their number of partitions."""

    partitions: int
    instances: str = ""
    predictions: str = ""
    labels: str = ""

    def difference(self, now: TopicsOrigin) -> str | None:
        """Return in what way the topics differ `now`; None if they are the same.

        >>> TopicsOrigin(4, "a", "b", "c").difference(TopicsOrigin(4, "a", "b", "d"))
        'labels was recreated'
        >>> TopicsOrigin(4).difference(TopicsOrigin(8, "a", "b", "c"))
        'the topics had 4 partitions and have 8'
        """
        recreated = [
            name
            for name, before, after in zip(INPUTS, self[1:], now[1:])
            if before and after and before != after
        ]
        if recreated:
            return f"{' and '.join(recreated)} {'was' if len(recreated) == 1 else 'were'} recreated"
        if self.partitions != now.partitions:
            return f"the topics had {self.partitions} partitions and have {now.partitions}"
        return None

    def has_grown(self, now: TopicsOrigin) -> bool:
        """Return whether the topics are the same, but have a multiple of the partitions `now`.

        >>> TopicsOrigin(2, "a", "b", "c").has_grown(TopicsOrigin(4, "a", "b", "c"))
        True
        >>> TopicsOrigin(2).has_grown(TopicsOrigin(3))
        False
        """
        same = self._replace(partitions=now.partitions).difference(now) is None
        return same and now.partitions > self.partitions and now.partitions % self.partitions == 0


def present_origin(kafka: KafkaConfig) -> TopicsOrigin:
    """Return the present origin of the cluster's input topics; raises WorkError if a topic is missing."""
    by_name = identities(kafka, [kafka.topic(name) for name in INPUTS])
    topics = list(by_name.values())
    return TopicsOrigin(topics[0].partitions, *(topic.id for topic in topics))
