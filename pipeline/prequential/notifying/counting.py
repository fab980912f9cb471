"""What became of messages, and how Prometheus reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from prequential.http.exposition import COUNTER, GAUGE, Family, labels
from prequential.program.version import VERSION

#: What becomes of messages, by the names under which they are counted.
COUNTS = {
    "sent": "Messages that the webhook has taken",
    "retried": "Requests that were made again: no answer in time, status 5xx, 408, 425 or 429",
    "refused": "Messages that the webhook has refused, and that are not sent again",
    "unreadable": "Records that are no messages",
    "passed_over": "Messages that the configuration doesn't choose",
}


class Sending(NamedTuple):
    """The message that is being sent: when it was written, and tried first (epoch seconds)."""

    written: float
    tried: float


def exposition(
    group: str, counts: Mapping[str, int], sending: Sending | None, partitions: int, now: float
) -> str:
    """The metrics of a process: what has become of messages, and of the one that is being sent.

    `group` is the workers' consumer group, which every sample carries. `partitions` is how many are this
    process's to read, `now` is in epoch seconds. The age of the message that is being sent, and how long it
    has been tried, are 0 without one.
    """
    families = []

    def family(name: str, kind: str, help: str, value: float, about: str = "") -> None:
        families.append(Family(f"prequential_notify_{name}", kind, help, labels(group=group)))
        families[-1].add(about, value)

    for name, help in COUNTS.items():
        family(f"{name}_total", COUNTER, help, counts.get(name, 0))
    written, tried = (now, now) if sending is None else sending
    family(
        "oldest_unsent_seconds", GAUGE, "Age of the message that is being sent; 0: none waits",
        max(0.0, now - written),
    )  # fmt: skip
    family(
        "trying_seconds", GAUGE, "For how long the message that is being sent has been tried; 0: none is",
        max(0.0, now - tried),
    )  # fmt: skip
    family("partitions", GAUGE, "Partitions that are this process's to read", partitions)
    family("build_info", GAUGE, "The version", 1, labels(version=VERSION))
    return "".join(one.text() for one in families)
