"""Topics that tests make besides those of the product."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka.admin import AdminClient, NewTopic

#: Seconds after which a cluster that should answer at once is taken for hanging.
HANGS = 60.0

#: Seconds between two questions to the cluster.
_LOOK_SECONDS = 0.1


def create_topics(admin: AdminClient, topics: Iterable[NewTopic]) -> None:
    """Make topics, and wait until brokers know them.

    A broker's answer says that the controller has made a topic; other requests may come before the brokers
    have heard of it, and would be told that there is no such topic.
    """
    new = list(topics)
    for created in admin.create_topics(new).values():
        created.result(HANGS)
    deadline = time.monotonic() + HANGS
    for topic in new:
        while not _is_known(admin, topic):
            assert time.monotonic() < deadline, f"{topic.topic} isn't known after {HANGS:g} s"
            time.sleep(_LOOK_SECONDS)


def _is_known(admin: AdminClient, topic: NewTopic) -> bool:
    """Whether a broker knows the topic with all of its partitions, and each has a leader."""
    metadata = admin.list_topics(timeout=HANGS).topics.get(topic.topic)
    if metadata is None or metadata.error is not None:
        return False
    partitions = metadata.partitions.values()
    return len(partitions) == topic.num_partitions and all(
        partition.error is None and partition.leader >= 0 for partition in partitions
    )
