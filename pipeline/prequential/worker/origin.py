"""Which input topics offsets belong to: a topic that was made anew begins at 0 again.

Offsets in snapshots and journal mean nothing for other topics, and a stream's records lie elsewhere once
the number of partitions has changed. So what they belong to is written down with them.
"""

from __future__ import annotations

from typing import NamedTuple

from prequential.topics.admin import identities
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import INPUTS


class Origin(NamedTuple):
    """The input topics' ids (empty where the broker gives none), and their number of partitions."""

    partitions: int
    instances: str = ""
    predictions: str = ""
    labels: str = ""

    def difference(self, now: Origin) -> str | None:
        """In what way the topics are others `now`; None if they are the same.

        >>> Origin(4, "a", "b", "c").difference(Origin(4, "a", "b", "d"))
        'labels was made anew'
        >>> Origin(4).difference(Origin(8, "a", "b", "c"))
        'the topics had 4 partitions and have 8'
        """
        anew = [
            name
            for name, before, after in zip(INPUTS, self[1:], now[1:])
            if before and after and before != after
        ]
        if anew:
            return f"{' and '.join(anew)} {'was' if len(anew) == 1 else 'were'} made anew"
        if self.partitions != now.partitions:
            return f"the topics had {self.partitions} partitions and have {now.partitions}"
        return None

    def has_grown(self, now: Origin) -> bool:
        """Whether the topics are the same, but have several times as many partitions `now`.

        >>> Origin(2, "a", "b", "c").has_grown(Origin(4, "a", "b", "c")), Origin(2).has_grown(Origin(3))
        (True, False)
        """
        same = self._replace(partitions=now.partitions).difference(now) is None
        return same and now.partitions > self.partitions and now.partitions % self.partitions == 0


def present_origin(kafka: KafkaConfig) -> Origin:
    """The cluster's input topics as they are; raises WorkError if one is missing."""
    by_name = identities(kafka, [kafka.topic(name) for name in INPUTS])
    topics = list(by_name.values())
    return Origin(topics[0].partitions, *(topic.id for topic in topics))
