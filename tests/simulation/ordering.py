"""Whether shards have taken their records in the order of time, as they do where nothing disturbs them.

A record that readers of committed records can't see yet, because of an open transaction, holds the other
topics back once the worker has noticed the transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prequential.engine.input.merge import OffsetVector

from tests.simulation.broker import Partition

#: Milliseconds after which a worker has certainly noticed an open transaction: 2 s until it is sure, 1 s
#: between two looks at the ends of partitions, and some for fetches.
_NOTICED_MS = 4_000


class _Taken(NamedTuple):
    """A record with the number of the journal's vector by which it was taken."""

    kind: int
    offset: int
    time: int
    step: int


class _Withheld(NamedTuple):
    """From when on, and until when, the records from an offset on could not be read."""

    offset: int
    since: int
    until: int


def first_disorder(logs: list[Partition], vectors: list[OffsetVector], restored: int) -> str | None:
    """Return how a shard has left the order of time; None if it has kept it.

    `logs` are its three inputs, and `vectors` are those of its journal. `restored` is when a worker took the
    shard over for the last time (ms), which then had to notice open transactions by itself.
    """
    taken = sorted(_taken(logs, vectors), key=lambda record: (record.step, record.time))
    withheld = [list(_withheld(log)) for log in logs]
    newest: dict[int, _Taken] = {}  # by kind, the record with the largest time of all earlier steps
    step, pending = -1, list[_Taken]()
    for record in taken:
        if record.step != step:
            for other in pending:
                if other.kind not in newest or other.time > newest[other.kind].time:
                    newest[other.kind] = other
            step, pending = record.step, []
        pending.append(record)
        for other in newest.values():
            if other.kind != record.kind and other.time > record.time:
                if _excused(record, other, withheld[record.kind], restored):
                    continue
                return f"{_name(logs, other)} was taken before {_name(logs, record)}, which is older"
    return None


def _name(logs: list[Partition], record: _Taken) -> str:
    log = logs[record.kind]
    return f"{log.topic}/{log.number} offset {record.offset} (time {record.time % 1_000_000})"


def _taken(logs: list[Partition], vectors: list[OffsetVector]) -> Iterator[_Taken]:
    for kind, log in enumerate(logs):
        ends = [vector[kind] for vector in vectors]
        step = time = 0
        for entry in log.read(0, log.end, committed=True):
            while step < len(ends) and ends[step] <= entry.offset:
                step += 1
            if step == len(ends):
                break
            time = max(time, entry.time)
            yield _Taken(kind, entry.offset, time, step)


def _withheld(log: Partition) -> Iterator[_Withheld]:
    """When the last stable offset was below the end of the log: transactions may follow each other."""
    open_: dict[object, int] = {}
    began: _Withheld | None = None
    for entry in log.entries:
        if entry.record is not None and entry.transaction is not None:
            open_.setdefault(entry.transaction, entry.offset)
        elif entry.record is None:
            open_.pop(entry.transaction, None)
        if open_ and began is None:
            began = _Withheld(entry.offset, entry.time, 0)
        elif began is not None and not open_:
            yield began._replace(until=entry.time)
            began = None


def _excused(record: _Taken, other: _Taken, withheld: list[_Withheld], restored: int) -> bool:
    """Whether the other record was taken before a worker had to know that this one was withheld."""
    return any(
        at.offset <= record.offset
        and at.since <= other.time < min(at.until, max(at.since, restored) + _NOTICED_MS)
        for at in withheld
    )
