"""Snapshots of a state: its tables by name, and the names that their rows stand for.

A snapshot is a head, and then arrays in pieces. Rows keep their numbers. An entity that a new configuration
doesn't evaluate any more keeps its row, which stays unused. New entities are appended and start empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from prequential.engine.comparisons import saving
from prequential.engine.compiled import ids
from prequential.engine.compiled.space import Space, size_of
from prequential.engine.detectors.objectives import every_detector
from prequential.engine.incidents import saving as saved_incidents
from prequential.engine.state import ShardState
from prequential.engine.tables.compact import Compact, dump_compact
from prequential.engine.tables.keys import Key, StateTable

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
    known = ids.Ids(*(arrays.pop(f"ids|{field}") for field in ids.Ids._fields))
    settled = Compact(*(arrays.pop(f"compact|{field}") for field in Compact._fields))
    columns: dict[str, Any] = {}
    for name, array in arrays.items():
        columns |= StateTable(name, Key.NONE, array).columns()
    columns |= {f"ids|{name}": array for name, array in ids.dump(known)._asdict().items()}
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
                "name": stream.name, "task": stream.config.task, "horizon": stream.config.label_horizon,
                "classes": list(stream.class_names), "segments": list(stream.config.segments),
                "values": [list(values) for values in stream.values],
                "values_came": [list(times) for times in stream.values_came],
                "came": dict(stream.came), "versions": list(stream.versions),
                "families": {family: list(names) for family, names in stream.families.items()},
                "retired": list(stream.retired),
                "slots": stream.config.segments_per_key + 1, "ages": list(stream.ages), "bins": stream.bins,
                "period": stream.config.period, "period_zone": stream.config.period_zone,
                "order": stream.config.dependence_order,
                "correction": stream.config.temporal_correction, "details": list(stream.config.details),
            }
            for stream in catalog.streams
        ],
        "entities": [
            [*one, one.row in evaluated] for one in catalog.entities[1:] if one is not None
        ],
        "rows": len(catalog.entities),
        "segment_origin": [list(one) for one in catalog.segment_origin],
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
                "top_k": plan.config.top_k, "season": plan.config.season,
                "costs": plan.config.costs if plan.config.cost_per_value else None,
                "reference": None if plan.reference is None else plan.reference.extent,
                "disparity": None if plan.groups is None else plan.groups.about,
            }
            for plan in catalog.plans
        ],
        **state.notes.head(),
        **saving.head(state.pairing),
        **saved_incidents.head(state.incidents),
    }  # fmt: skip
