"""Snapshots of a state: its tables by name, and the names of their rows; and snapshots that are split.

Most of the cost of copying is the first write to new memory: the system allocates and clears it page by page.
The memory can therefore be allocated and touched before, while the shard works. Copying is then as fast as
the memory.

A snapshot is a head, and then arrays in pieces. Rows keep their numbers. An entity that a new configuration
doesn't evaluate any more keeps its row, which stays unused. New entities are appended and start empty.

When the input topics get more partitions, several shards need parts of one shard's state. Each of them gets a
snapshot of its own streams alone. Tables whose rows are streams, instances, or parts of these are written
again without the others' rows. Rows of entities keep their numbers, as they do in every snapshot. Those of
other streams stay unused, and the shard that restores the snapshot leaves out their content.

What a shard counts as a whole (invalid records) belongs to no stream: one of the shards keeps it, the others
begin at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import REFUSED_BY, SUMMED_BY, StreamConfig
from prequential.engine.compiled import ids
from prequential.engine.compiled.kernel import Ints, tables_of, with_tables
from prequential.engine.delay import latency
from prequential.engine.detectors.objectives import every_detector
from prequential.engine.snapshot import saving
from prequential.engine.snapshot.pending_rows import rows_of_lists
from prequential.engine.state import ShardState
from prequential.engine.tables.compact import Compact, dump_compact
from prequential.engine.tables.rows import Key, StateTable
from prequential.engine.tables.scores import SETTINGS
from prequential.engine.tables.store import UNKNOWN
from prequential.topics.partitioning import partition_of

#: Size in bytes of a page of memory on most systems.
_PAGE = 4_096

#: Arrays begin at multiples of this number of bytes.
_ALIGNED = 64

#: Memory of more than this multiple of the needed size isn't kept.
_TOO_LARGE = 4

#: The memory has room for a growth of the state by 1 / `_GROWTH` until it is copied.
_GROWTH = 16


class Space:
    """Memory of `size` bytes for copies of arrays, which is used again; copies without room are allocated."""

    def __init__(self, size: int = 0) -> None:
        self._memory = np.empty(size, dtype=np.uint8)
        self._memory[::_PAGE] = 0
        self._end = 0

    def fits(self, size: int) -> bool:
        """Whether the memory has room for `size` bytes without being far too large."""
        return size <= len(self._memory) <= _TOO_LARGE * size

    def clear(self) -> None:
        """Free the memory for new copies; call it once no code reads the earlier copies any more.

        >>> space = Space(128)
        >>> first, _ = space.copy(np.arange(3)), space.clear()
        >>> np.shares_memory(first, space.copy(np.arange(2)))
        True
        """
        self._end = 0

    def copy(self, array: Any) -> Any:
        """A contiguous copy of an array, in this memory if there is room; it is valid until `clear`.

        >>> space = Space(100)
        >>> space.copy(np.arange(3)), space.copy(np.zeros(5)), space.copy(np.zeros((2, 1), np.int8)).tolist()
        (array([0, 1, 2]), array([0., 0., 0., 0., 0.]), [[0], [0]])
        """
        start, stop = self._end, self._end + array.nbytes
        if stop > len(self._memory) or not array.nbytes:
            return array.copy()
        self._end = -(-stop // _ALIGNED) * _ALIGNED
        region = self._memory[start:stop]
        if array.flags.c_contiguous:
            region[:] = array.reshape(-1).view(np.uint8)  # also records, instead of field by field
            return region.view(array.dtype).reshape(array.shape)
        copied = region.view(array.dtype).reshape(array.shape)
        copied[...] = array
        return copied


def size_of(arrays: Iterable[Any]) -> int:
    """Number of bytes that `Space` needs for copies of these arrays, including some growth until then."""
    size = sum(array.nbytes + _ALIGNED for array in arrays)
    return size + size // _GROWTH


#: Bytes of an array in one piece.
_PIECE = 1 << 20


def take(state: ShardState, space: Space) -> Iterator[object]:
    """The parts of a snapshot; all is copied before the first is asked for, so the shard may go on.

    Work beyond copying whole tables is done when the parts are asked for, which another thread may do.
    """
    return _parts(_head(state), {name: space.copy(array) for name, array in _arrays(state).items()})


def size(state: ShardState) -> int:
    """Bytes that a snapshot of this state copies, for `Space`."""
    return size_of(_arrays(state).values())


def declared(state: ShardState) -> dict[str, tuple[Key, Key | None]]:
    """By an array's name what its rows stand for, and of what its values are rows, if they are."""
    return {
        name: (table.key, table.links.get(name.removeprefix(table.name)))
        for table in state.tables() for name in table.columns()
    }  # fmt: skip


def written(head: dict[str, Any], arrays: Mapping[str, Any]) -> Iterator[object]:
    """The parts of a snapshot of which head and tables are known."""
    head["arrays"] = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    yield head
    for array in arrays.values():
        flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        content = memoryview(flat)
        for start in range(0, len(content), _PIECE):
            yield bytes(content[start : start + _PIECE])


def read(parts: Iterator[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Head and tables of a snapshot, from its parts."""
    head = next(parts)
    arrays = {}
    for name, dtype, shape in head["arrays"]:
        kind = np.dtype(dtype)
        size = int(np.prod(shape)) * kind.itemsize
        content = bytearray()
        while len(content) < size:
            content += next(parts)
        arrays[name] = np.frombuffer(content, dtype=kind).reshape(shape)
    return head, arrays


def _arrays(state: ShardState) -> dict[str, Any]:
    return {name: array for table in state.tables() for name, array in table.arrays().items()}


def _parts(head: dict[str, Any], arrays: dict[str, Any]) -> Iterator[object]:
    stored_ids = ids.Ids(*(arrays.pop(f"ids|{field}") for field in ids.Ids._fields))
    settled = Compact(*(arrays.pop(f"compact|{field}") for field in Compact._fields))
    columns: dict[str, Any] = {}
    for name, array in arrays.items():
        columns |= StateTable(name, Key.NONE, array).columns()
    columns |= {f"ids|{name}": array for name, array in ids.dump(stored_ids)._asdict().items()}
    columns |= {f"compact|{name}": array for name, array in dump_compact(settled).items()}
    yield from written(head, columns)


def _head(state: ShardState) -> dict[str, Any]:
    catalog = state.catalog
    evaluated = {row for stream in catalog.streams for row in stream.entities}
    return {
        "merge": state.merge.snapshot(),
        "ticks": list(state.ticks.items()),
        "next_tick": state.next_tick,
        "dead_letters": list(state.dead_letters),
        "quarantined": list(state.quarantined),
        "lost": list(catalog.lost),
        "remembered": state.remembered,
        "streams": [
            {
                "name": stream.name, **{name: getattr(stream.config, name) for name in REFUSED_BY},
                "horizon": stream.config.label_horizon,
                "classes": list(stream.class_names), "segments": list(stream.config.segments),
                "values": [list(values) for values in stream.values],
                "values_came": [list(times) for times in stream.values_came],
                "came": dict(stream.came), "versions": list(stream.versions),
                "families": {family: list(names) for family, names in stream.families.items()},
                "retired": list(stream.retired),
                "slots": stream.config.segments_per_key + 1, "ages": list(stream.ages), "bins": stream.bins,
                "period": stream.config.period, "period_zone": stream.config.period_zone,
                "order": stream.config.dependence_order,
                "objective": objective_of(stream.config),
                "correction": stream.config.temporal_correction, "details": list(stream.config.details),
                **{name: getattr(stream.config, name) for name in SETTINGS},
            }
            for stream in catalog.streams
        ],
        "entities": [
            [*entity, entity.row in evaluated] for entity in catalog.entities[1:] if entity is not None
        ],
        "rows": len(catalog.entities),
        "segment_origin": [list(origin) for origin in catalog.segment_origin],
        "ended": [[*names, *counts] for names, counts in catalog.ended.items()],
        "plans": [
            {
                "task": plan.config.task, "loss": plan.config.loss,
                "estimators": list(plan.config.estimators), "details": list(plan.config.details),
                "measures": list(plan.config.measures),
                "stages": list(plan.stages), "watched": plan.watched,
                "detectors": [asdict(detector) for detector in every_detector(plan.config)],
                "capacity": plan.capacity, "places": plan.joint.places,
                "rows": plan.rows, "scored": plan.scored,
                **{name: getattr(plan.config, name) for name in SUMMED_BY},
                "costs": plan.config.costs if plan.config.cost_per_value else None,
                "reference": None if plan.reference is None else plan.reference.extent,
                "disparity": None if plan.groups is None else plan.groups.subject,
            }
            for plan in catalog.plans
        ],
        **state.notes.head(),
        **state.latest_estimates.head(),
        **saving.head_of_pairs(state.pairing),
        **saving.head_of_incidents(state.incidents),
    }  # fmt: skip


def objective_of(config: StreamConfig) -> list[Any] | None:
    """Bounds by measure, and the tolerance: they decide the risks to miss an objective; None without one."""
    objective = config.objective
    return None if objective is None else [dict(objective.bounds), objective.tolerance]


#: Parts of a snapshot's head whose entries begin with the row of what is evaluated.
_BY_ENTITY = (
    "labels", "reported", "worse", "started_empty", "pairs", "newest_estimates", "expected_signals",
    "waiting_expected",
)  # fmt: skip


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
        kept = np.array(
            [code for code, saved_stream in enumerate(head["streams"]) if keep(saved_stream["name"])],
            np.int64,
        )
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
        entities = {entry[0] for entry in head["entities"]}
        for name in _BY_ENTITY:
            head[name] = [entry for entry in head[name] if entry[0] in entities]
        origin = head["segment_origin"]
        self._keep(
            Key.SEGMENT, [position for position in range(1, len(origin)) if origin[position][0] in entities]
        )
        self._numbers[Key.SEGMENT] = _numbers(self._rows[Key.SEGMENT], len(origin))
        head["segment_origin"] = [origin[position] for position in self._rows[Key.SEGMENT].tolist()]
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
            stream_column = arrays.get(f"{table}|stream")  # snapshots of earlier versions lack it
            for name in [name for name in arrays if name.startswith(f"{table}|")]:
                arrays[name] = arrays[name][self._numbers[Key.STREAM][stream_column] >= 0]
            if stream_column is not None:
                own = self._numbers[Key.STREAM][arrays[f"{table}|stream"]]
                arrays[f"{table}|stream"] = own.astype(np.int32)
        if "seasons|stream" in arrays:
            self._rows[Key.SEASON] = np.flatnonzero(self._numbers[Key.STREAM][arrays["seasons|stream"]] >= 0)
        states = arrays["instances|state"][slots]
        compact = arrays.get("compact|stream", ())
        self._head["remembered"] = int((states != UNKNOWN).sum()) + len(compact)
        labels = arrays["instances|label"][slots]
        rows, _ = rows_of_lists(arrays["instances|first"][slots], arrays["predictions|next"])
        first_rows = arrays["predictions|probabilities"][rows]
        probabilities, _ = rows_of_lists(first_rows, arrays["probabilities|next"])
        kept = {
            Key.SLOT: slots,
            Key.PREDICTION: rows,
            Key.LABEL: np.sort(labels[labels > 0]),
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
