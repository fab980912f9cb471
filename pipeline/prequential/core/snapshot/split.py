"""A shard's state split: some of its streams go on in another shard.

When the input topics get more partitions, what one shard knows of its streams is needed by several. Each of
them gets a snapshot of its own streams alone, as if the others had never been: all that is theirs is left
out, and tables of what waits, of ids, of latencies and of histories are laid out anew without it. Rows of
what is evaluated keep their numbers, as they do in every snapshot; those of other streams are of no use.

What a shard counts as a whole (records that couldn't be used) isn't any stream's: one of the shards keeps it,
the others begin at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from prequential.core.compiled.kernel import Ints, tables_of, with_tables
from prequential.core.delay import coverage, latency, periods, selection
from prequential.core.incidents import saving as saved_incidents
from prequential.core.snapshot import snapshot
from prequential.core.tables.store import UNKNOWN, WAITING
from prequential.topics.partitioning import partition_of

#: Parts of a snapshot's head whose entries begin with the row of what is evaluated.
_BY_SUBJECT = ("labels", "reported", "worse", "started_empty", "pairs", "compared")


def split(parts: Iterator[Any], keep: Callable[[str], bool], *, moved: bool) -> Iterator[object]:
    """The parts of a snapshot with those streams alone whose names are to be kept.

    With `moved` they go to a shard whose input partitions are empty: it begins at their first records, and
    has counted nothing. Times go on: records of a topic never become earlier.
    """
    head, arrays = snapshot.read(parts)
    _Splitting(head, arrays, keep).run()
    if moved:
        _, *times = head["merge"]
        head["merge"] = [[0, 0, 0], *times]
        head["dead_letters"] = head["quarantined"] = [0, 0, 0]
    return snapshot.written(head, arrays)


def streams_of(partition: int, before: int, after: int) -> Callable[[str], bool]:
    """Which streams a partition keeps, or gets, when there are `after` of them instead of `before`.

    `after` is a multiple of `before`, so all that a partition gets is of one former one: its number modulo
    `before`. Streams that have never lain where their names say (their producers have another partitioner)
    stay where they are.

    >>> [streams_of(partition, 2, 4)("elec2") for partition in (1, 3)]  # of what was in partition 1
    [True, False]
    """
    former = partition % before

    def keep(stream: str) -> bool:
        now = partition_of(stream, after)
        return now == partition or (partition == former and now % before != former)

    return keep


class _Splitting:
    """Leaves other streams out of a snapshot's head and tables."""

    def __init__(self, head: dict[str, Any], arrays: dict[str, Any], keep: Callable[[str], bool]) -> None:
        self._head, self._arrays = head, arrays
        self._kept = [code for code, stream in enumerate(head["streams"]) if keep(stream["name"])]
        #: By former code the present one; -1: the stream is another shard's.
        self._codes = np.full(len(head["streams"]), -1, dtype=np.int64)
        self._codes[self._kept] = np.arange(len(self._kept))
        self._rows = {one[0] for one in head["subjects"] if self._codes[one[1]] >= 0}
        self._gone = np.array([row for row in range(head["rows"]) if row not in self._rows], dtype=np.int64)

    def run(self) -> None:
        """Each table knows its rows by another one's, so those that say who is whose come first."""
        head, arrays = self._head, self._arrays
        head["streams"] = [head["streams"][code] for code in self._kept]
        head["subjects"] = [
            [row, int(self._codes[code]), *rest] for row, code, *rest in head["subjects"] if row in self._rows
        ]
        head["ended"] = [
            [int(self._codes[code]), *rest] for code, *rest in head.get("ended", ()) if self._codes[code] >= 0
        ]
        for name in _BY_SUBJECT:
            head[name] = [one for one in head[name] if one[0] in self._rows]
        codes = np.append(self._codes, -1)  # row 0, which is nobody's, says stream 0 also where there is none
        arrays["subjects.stream"] = codes[arrays["subjects.stream"]].clip(min=0).astype(np.int32)
        for name in [name for name in arrays if name.startswith("streams.")]:
            arrays[name] = arrays[name][self._kept]
        self._readers()
        self._store()

    # ---- what consumers know

    def _segments(self) -> Ints:
        """Rows for the segments of models that are kept lie together; returns which they were."""
        head, arrays = self._head, self._arrays
        origin = head["segment_origin"]
        kept = [0] + [place for place in range(1, len(origin)) if origin[place][0] in self._rows]
        places = np.zeros(len(origin), dtype=np.int64)
        places[kept] = np.arange(len(kept))
        head["segment_origin"] = [origin[place] for place in kept]
        arrays["segment_rows"] = arrays["segment_rows"][kept]
        arrays["subjects.segments"] = places[arrays["subjects.segments"]]
        return np.array(kept, dtype=np.int64)

    def _readers(self) -> None:
        gone, segments = self._gone, self._segments()
        self._put("coverage", coverage.without(self._tables("coverage", coverage.new_coverage()), gone))
        self._put("periods", periods.without(self._tables("periods", periods.new_periods()), gone))
        of_segments = self._tables("selection", selection.new_selection())
        segments = segments[segments < len(of_segments.segments.counts)]
        self._put("selection", selection.without(of_segments, gone, segments))
        latencies = self._tables("latencies", latency.new_latencies())
        self._put("latencies", latency.of_streams(latencies, self._kept))
        saved_incidents.leave_out(self._arrays, gone)

    def _tables(self, what: str, empty: Any) -> Any:
        prefix = f"{what}|"
        return with_tables(
            empty,
            {
                name.removeprefix(prefix): array.copy()
                for name, array in self._arrays.items()
                if name.startswith(prefix)
            },
        )

    def _put(self, what: str, tables: Any) -> None:
        self._arrays |= {f"{what}|{name}": array for name, array in tables_of(tables).items()}

    # ---- the state store

    def _store(self) -> None:
        """Slots of the kept streams' instances, and rows of their predictions and labels, from 1 on."""
        arrays = self._arrays
        own = self._codes[arrays["ids|streams"]] >= 0
        slots = arrays["ids|slots"][own]
        arrays["ids|text"] = arrays["ids|text"][np.repeat(own, arrays["ids|lengths"])]
        arrays["ids|lengths"] = arrays["ids|lengths"][own]
        arrays["ids|streams"] = self._codes[arrays["ids|streams"][own]].astype(np.int32)
        arrays["ids|slots"] = np.arange(1, len(slots) + 1, dtype=np.int32)
        self._take(("deadline", "instances|", "marks|"), len(arrays["deadline"]), slots)
        states = arrays["instances|state"][1:]
        self._head["remembered"] = int((states != UNKNOWN).sum())
        predictions = arrays["predictions|next"]
        rows, waiting = self._lists(arrays["instances|first"][1:], predictions, states == WAITING)
        given = arrays["predictions|extra"][rows[waiting]]
        probabilities, _ = self._lists(given, arrays["probabilities|next"], given > 0)
        labels = arrays["instances|label"][1:]
        kept = rows, np.sort(labels[labels > 0]).astype(np.int64), probabilities
        now = [
            _renumbered(some, len(arrays[f"{pool}|next"]))
            for some, pool in zip(kept, ("predictions", "labels", "probabilities"))
        ]
        self._take(("predictions|", "values|"), len(predictions), rows)
        self._take(("labels|", "label_values|"), len(arrays["labels|next"]), kept[1])
        self._take(("probabilities|",), len(arrays["probabilities|next"]), probabilities)
        for column, numbers in (
            ("instances|first", now[0]), ("predictions|next", now[0]), ("instances|label", now[1]),
            ("probabilities|next", now[2]),
        ):  # fmt: skip
            arrays[column] = numbers[arrays[column]]
        arrays["labels|next"] = np.zeros_like(arrays["labels|next"])
        extra, own_waiting = arrays["predictions|extra"], 1 + np.flatnonzero(waiting)
        extra[own_waiting] = now[2][extra[own_waiting]]
        used = np.array([len(some) for some in kept], dtype=np.int64)
        arrays["pools|free"], arrays["pools|end"], arrays["pools|used"] = np.zeros_like(used), 1 + used, used

    def _take(self, prefixes: tuple[str, ...], length: int, rows: Ints) -> None:
        """Let tables of this length have row 0, which stands for none, and these rows."""
        for name, column in self._arrays.items():
            if name.startswith(prefixes) and len(column) == length:
                self._arrays[name] = column[np.concatenate(([0], rows))]

    @staticmethod
    def _lists(first: Any, following: Any, marked: Any) -> tuple[Ints, Any]:
        """The rows, ascending, of lists that begin at these rows (0: none); and which are of marked lists."""
        found, marks = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.bool_)]
        row = first.astype(np.int64)
        while (is_row := row > 0).any():
            row, marked = row[is_row], marked[is_row]
            found.append(row)
            marks.append(marked)
            row = following[row].astype(np.int64)
        rows = np.concatenate(found)
        order = np.argsort(rows)
        return rows[order], np.concatenate(marks)[order]


def _renumbered(rows: Ints, length: int) -> Any:
    """By former row its present one: these are numbered from 1 on."""
    numbers = np.zeros(length, dtype=np.int32)
    numbers[rows] = np.arange(1, len(rows) + 1)
    return numbers
