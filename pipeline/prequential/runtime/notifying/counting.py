"""Count the results of messages, and write the counts for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from prequential.runtime.http.exposition import COUNTER, GAUGE, Family, labels
from prequential.runtime.program.version import VERSION

#: The help texts of the counters, by the names of the results.
COUNTS = {
    "sent": "Messages that the webhook has taken",
    "retried": "Requests that were made again: no answer in time, status 5xx, 408, 425 or 429",
    "refused": "Messages that the webhook has refused, and that are not sent again",
    "unreadable": "Records that are no messages",
    "passed_over": "Messages that the configuration doesn't choose",
}


class Sending(NamedTuple):
    """The times of the message that is being sent: written, and first tried (epoch seconds)."""

    written: float
    tried: float


def exposition(
    group: str, counts: Mapping[str, int], sending: Sending | None, partitions: int, now: float
) -> str:
    """Return the metrics of a process: counts of messages by result, and the message that is being sent.

    `group` is the workers' consumer group, which every sample carries. `partitions` is the number of
    partitions of this process, and `now` is in epoch seconds. Without a message that is being sent, its age
    and the time since the first try are 0.
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
