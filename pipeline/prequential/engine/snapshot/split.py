"""A shard's state split: some of its streams go on in another shard.

When the input topics get more partitions, several shards need parts of one shard's state. Each of them gets a
snapshot of its own streams alone. Tables whose rows are streams, instances, or parts of these are written
again without the others' rows. Rows of entities keep their numbers, as they do in every snapshot. Those of
other streams stay unused, and the shard that restores the snapshot leaves out their content.

What a shard counts as a whole (invalid records) belongs to no stream: one of the shards keeps it, the others
begin at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.engine.compiled.kernel import Ints, tables_of, with_tables
from prequential.engine.delay import latency
from prequential.engine.snapshot.snapshot import declared, read, written
from prequential.engine.snapshot.waiting import rows_of_lists
from prequential.engine.state import ShardState
from prequential.engine.tables.keys import Key
from prequential.engine.tables.store import UNKNOWN
from prequential.topics.partitioning import partition_of

#: Parts of a snapshot's head whose entries begin with the row of what is evaluated.
_BY_ENTITY = ("labels", "reported", "worse", "started_empty", "pairs")


def split(parts: Iterator[Any], keep: Callable[[str], bool], *, moved: bool) -> Iterator[object]:
    """The parts of a snapshot with those streams alone whose names `keep` is true of.

    With `moved` they go to a shard whose input partitions are empty: it begins at their first records, and
    has counted nothing. Times go on: records of a topic never become earlier.
    """
    head, arrays = read(parts)
    _Splitting(head, arrays, keep).run()
    if moved:
        _, *times = head["merge"]
        head["merge"] = [[0, 0, 0], *times]
        head["dead_letters"] = head["quarantined"] = [0, 0, 0]
    return written(head, arrays)


def streams_of(partition: int, before: int, after: int) -> Callable[[str], bool]:
    """A test of streams' names: those that a partition keeps, or gets, with `after` partitions for `before`.

    `after` is a multiple of `before`, so a partition gets streams from one previous partition only: its
    number modulo `before`. Streams stay where they are if they were never in their name's partition (their
    producers have another partitioner).

    >>> [streams_of(partition, 2, 4)("elec2") for partition in (1, 3)]  # of what was in partition 1
    [True, False]
    """
    former = partition % before

    def keep(stream: str) -> bool:
        now = partition_of(stream, after)
        return now == partition or (partition == former and now % before != former)

    return keep


class _Splitting:
    """Leaves other streams out of a snapshot's head and tables.

    Table content of entities that are gone isn't checked: the shard that restores it doesn't use their rows.
    """

    def __init__(self, head: dict[str, Any], arrays: dict[str, Any], keep: Callable[[str], bool]) -> None:
        self._head, self._arrays = head, arrays
        kept = np.array([code for code, one in enumerate(head["streams"]) if keep(one["name"])], np.int64)
        #: By key, the kept rows in their new order; and for each previous row the present one.
        self._rows, self._numbers = {Key.STREAM: kept}, {}
        # Row 0 of entities stands for none, and its stream is 0, also where there is no stream.
        self._numbers[Key.STREAM] = _numbers(kept, max(1, len(head["streams"])), none=-1)

    def run(self) -> None:
        """Which rows are kept follows from the streams; then all tables are made of them alone."""
        head, arrays, codes = self._head, self._arrays, self._numbers[Key.STREAM].tolist()
        head["streams"] = [head["streams"][code] for code in self._rows[Key.STREAM].tolist()]
        head["entities"] = [
            [row, codes[code], *fields] for row, code, *fields in head["entities"] if codes[code] >= 0
        ]
        for name in ("ended", "pairs_begun"):
            head[name] = [[codes[code], *fields] for code, *fields in head[name] if codes[code] >= 0]
        entities = {one[0] for one in head["entities"]}
        for name in _BY_ENTITY:
            head[name] = [one for one in head[name] if one[0] in entities]
        origin = head["segment_origin"]
        self._keep(Key.SEGMENT, [place for place in range(1, len(origin)) if origin[place][0] in entities])
        self._numbers[Key.SEGMENT] = _numbers(self._rows[Key.SEGMENT], len(origin))
        head["segment_origin"] = [origin[place] for place in self._rows[Key.SEGMENT].tolist()]
        latencies = with_tables(latency.new_latencies(), arrays, "latencies|")
        self._store()
        for name, (key, link) in declared(ShardState(Config())).items():
            column = arrays.get(name)
            if column is None:
                continue
            if key in self._rows:
                rows = self._rows[key]
                column = column[rows[rows < len(column)]]  # columns that aren't used have one row
            if link in self._numbers:
                column = self._numbers[link][column].clip(min=0).astype(column.dtype)
            arrays[name] = column
        compact = latency.of_streams(latencies, self._rows[Key.STREAM].tolist())
        arrays |= {f"latencies|{name}": array for name, array in tables_of(compact).items()}

    def _keep(self, key: Key, rows: Any) -> None:
        """Keep these rows, and row 0, which stands for none."""
        self._rows[key] = np.concatenate(([0], rows)).astype(np.int64)

    def _store(self) -> None:
        """Slots of the kept streams' instances, and rows of their predictions and labels, from 1 on."""
        arrays = self._arrays
        stays = self._numbers[Key.STREAM][arrays["ids|streams"]] >= 0
        slots = arrays["ids|slots"][stays]
        arrays["ids|text"] = arrays["ids|text"][np.repeat(stays, arrays["ids|lengths"])]
        arrays["ids|lengths"] = arrays["ids|lengths"][stays]
        arrays["ids|streams"] = self._numbers[Key.STREAM][arrays["ids|streams"][stays]].astype(np.int32)
        arrays["ids|slots"] = np.arange(1, len(slots) + 1, dtype=np.int32)
        for table in ("settled", "compact"):
            known = arrays.get(f"{table}|stream")  # snapshots of earlier versions lack it
            for name in [name for name in arrays if name.startswith(f"{table}|")]:
                arrays[name] = arrays[name][self._numbers[Key.STREAM][known] >= 0]
            if known is not None:
                own = self._numbers[Key.STREAM][arrays[f"{table}|stream"]]
                arrays[f"{table}|stream"] = own.astype(np.int32)
        if "seasons|stream" in arrays:
            self._rows[Key.SEASON] = np.flatnonzero(self._numbers[Key.STREAM][arrays["seasons|stream"]] >= 0)
        states = arrays["instances|state"][slots]
        compact = arrays.get("compact|stream", ())
        self._head["remembered"] = int((states != UNKNOWN).sum()) + len(compact)
        labels = arrays["instances|label"][slots]
        rows, _ = rows_of_lists(arrays["instances|first"][slots], arrays["predictions|next"])
        given = arrays["predictions|probabilities"][rows]
        probabilities, _ = rows_of_lists(given, arrays["probabilities|next"])
        kept = {
            Key.SLOT: slots, Key.PREDICTION: rows, Key.LABEL: np.sort(labels[labels > 0]),
            Key.PROBABILITY: probabilities,
        }
        for key, own_rows in kept.items():
            self._keep(key, own_rows)
        for key, pool in _POOLS.items():
            self._numbers[key] = _numbers(self._rows[key], len(arrays[f"{pool}|next"]))
        used = np.array([len(kept[key]) for key in _POOLS], dtype=np.int64)
        arrays["pools|free"], arrays["pools|end"], arrays["pools|used"] = np.zeros_like(used), 1 + used, used


#: The pools of the state store, in the order of their counters.
_POOLS = {Key.PREDICTION: "predictions", Key.LABEL: "labels", Key.PROBABILITY: "probabilities"}


def _numbers(rows: Ints, length: int, none: int = 0) -> Ints:
    """For each previous row its place among the kept rows; `none` for the others."""
    numbers = np.full(length, none, dtype=np.int64)
    numbers[rows] = np.arange(len(rows))
    return numbers
