"""Counts of the records of each source, and their metrics for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from prequential.runtime.http.exposition import COUNTER, GAUGE, Family, labels
from prequential.runtime.program.version import VERSION
from prequential.topics.decoding import KINDS


class SourceCounts:
    """Counts by source: records read, passed over and dead; and messages written, by source and input.

    >>> counts, more = SourceCounts(), SourceCounts()
    >>> more.records["logs"] += 3
    >>> more.messages["logs", 1] += 2
    >>> counts.add(more)
    >>> counts.records["logs"], counts.messages["logs", 1]
    (3, 2)
    """

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()
        #: Tombstones, deletions, records that `when` excludes, and rows for a label that is still null.
        self.passed: Counter[str] = Counter()
        self.dead: Counter[str] = Counter()
        #: Rows from Debezium or Avro whose label isn't known yet.
        self.unlabelled: Counter[str] = Counter()
        #: By source and kind of input.
        self.messages: Counter[tuple[str, int]] = Counter()

    def add(self, other: SourceCounts) -> None:
        """Add other counts to these."""
        for mine, its in (
            (self.records, other.records), (self.passed, other.passed), (self.dead, other.dead),
            (self.unlabelled, other.unlabelled),
        ):  # fmt: skip
            mine.update(its)
        self.messages.update(other.messages)


def exposition(
    group: str,
    topics: Iterable[str],
    counts: SourceCounts,
    lag: Mapping[tuple[str, int], int],
    lost: Mapping[tuple[str, int], int],
) -> str:
    """Return the metrics of a process as text. Only written records are counted, so none counts twice.

    `group` is the workers' consumer group, which every sample carries. `lag` and `lost` are by topic and
    partition.
    """
    families = []
    common = labels(group=group)

    def family(name: str, kind: str, help: str) -> Family:
        families.append(Family(f"prequential_ingest_{name}", kind, help, common))
        return families[-1]

    records = family("records_total", COUNTER, "Records of a source that are done with")
    passed = family(
        "passed_over_total", COUNTER,
        "Records that mean nothing: tombstones, deletions, excluded by `when`, rows without a label yet",
    )  # fmt: skip
    dead = family("dead_letters_total", COUNTER, "Records that didn't fit their mapping")
    unlabelled = family("unlabelled_total", COUNTER, "Rows whose label isn't known yet")
    messages = family("messages_total", COUNTER, "Messages written to an input")
    gone = family("lost_total", COUNTER, "Records that retention removed before they were read")
    for topic in topics:
        for one, number in (
            (records, counts.records), (passed, counts.passed), (dead, counts.dead),
            (unlabelled, counts.unlabelled),
        ):  # fmt: skip
            one.add(labels(topic=topic), number[topic])
        for kind, name in enumerate(KINDS):
            if (topic, kind) in counts.messages:
                messages.add(labels(topic=topic, input=name), counts.messages[topic, kind])
        gone.add(labels(topic=topic), sum(count for (name, _), count in lost.items() if name == topic))
    behind = family("lag", GAUGE, "Records of a partition of ours that aren't read yet")
    for (topic, partition), count in lag.items():
        behind.add(labels(topic=topic, partition=partition), count)
    family("build_info", GAUGE, "The version").add(labels(version=VERSION), 1)
    return "".join(one.text() for one in families)
