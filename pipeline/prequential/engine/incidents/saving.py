"""How a snapshot saves incidents, and how a shard restores them, also under another configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from prequential.engine.compiled.kernel import columns_of
from prequential.engine.incidents import history
from prequential.engine.incidents.clusters import with_places
from prequential.engine.incidents.history import (
    OWNER_SETTINGS,
    POOLS,
    ClusterHistory,
    tables,
    with_entities,
    without,
)
from prequential.engine.incidents.incident import Noted, OpenIncident
from prequential.engine.incidents.incidents import Incidents, watched_stage

#: Arrays of owners that the configuration decides.
_SETTINGS = frozenset(f"incidents|owners|{name}" for name in OWNER_SETTINGS)


def head(incidents: Incidents) -> dict[str, Any]:
    """Open incidents, and state that isn't in the tables, for a snapshot's head."""
    return {
        "incidents": {
            "open": [[owner, asdict(state)] for owner, state in incidents.open.items()],
            "alarms": list(incidents.alarms.items()),
            "graded": [[owner, list(counts)] for owner, counts in incidents.graded.items()],
            "opened": [[owner, dict(counts)] for owner, counts in incidents.opened.items()],
            "examples": [[owner, [list(one) for one in kept]] for owner, kept in incidents.examples.items()],
            "noted": [[owner, [list(one) for one in kept]] for owner, kept in incidents.noted.items()],
        }
    }


def restore(
    incidents: Incidents, saved: dict[str, Any], arrays: Mapping[str, Any],
    stages: Mapping[int, Sequence[str]],
) -> list[int]:  # fmt: skip
    """Give present models what was saved of them; returns the rows of those that start empty.

    Parameters
    ----------
    incidents
        Filled.
    saved
        A snapshot's head.
    arrays
        Its tables, by name.
    stages
        By entity's row, the stages that it had in the snapshot and that are still evaluated.

    Returns
    -------
    list of int
        Rows of models for which nothing, or something else, was watched then.
    """
    loss = arrays["incidents|owners|loss_identity"]
    rows = len(loss)
    kept = with_entities(incidents.history, rows)
    for name in POOLS:
        pool, used = getattr(kept, name), arrays[f"incidents|{name}|used"].copy()
        wider: Any = {name: with_places(pool, *used.tolist())._replace(used=used)}
        kept = kept._replace(**wider)
    measured = {name: array for name, array in arrays.items() if name not in _SETTINGS}
    for table in tables(kept, rows):
        table.fill(measured)
    gone = np.flatnonzero(kept.owners.position[:rows] == 0)
    incidents.history = kept = without(kept, gone.tolist())
    lost = []
    for row in np.flatnonzero(kept.owners.position).tolist():
        if kept.owners.owner[row] != row:
            continue
        if row not in stages:
            _forget(kept, row)
        elif not arrays["incidents|owners|position"][row] or (
            watched_stage(tuple(stages[row])) != incidents.stage_of(row)
            or loss[row] != kept.owners.loss_identity[row]
            or arrays["incidents|owners|fixed"][row] != kept.owners.fixed[row]
        ):
            lost.append(row)
            _forget(kept, row)
        else:
            _close_up(kept, row)
    present = set(np.flatnonzero(kept.owners.position[:rows]).tolist()) - set(lost)
    _restore_head(incidents, saved["incidents"], present)
    return lost


def _restore_head(incidents: Incidents, saved: dict[str, Any], present: set[int]) -> None:
    incidents.open = {owner: OpenIncident(**state) for owner, state in saved["open"] if owner in present}
    for name in ("alarms", "opened"):
        setattr(incidents, name, {owner: value for owner, value in saved[name] if owner in present})
    incidents.graded = {owner: tuple(counts) for owner, counts in saved["graded"] if owner in present}
    incidents.examples = {
        owner: [(number, name) for number, name in kept]
        for owner, kept in saved["examples"] if owner in present
    }  # fmt: skip
    incidents.noted = {
        owner: [Noted(*one) for one in kept] for owner, kept in saved["noted"] if owner in present
    }


def _forget(kept: ClusterHistory, row: int) -> None:
    """Start a model's history from scratch."""
    owners: Any = kept.owners
    for name, column in columns_of(owners).items():
        if name not in OWNER_SETTINGS:
            column[row] = 0
    owners.slot[owners.owner == row] = 0  # its segments have no columns either
    kept.versions[row] = 0
    for name in POOLS:
        for column in columns_of(getattr(kept, name).lines).values():
            column[row] = 0


def _close_up(kept: ClusterHistory, row: int) -> None:
    """Segments that aren't evaluated any more have left columns: the others move together."""
    owners, pool = kept.owners, kept.outcomes
    if not owners.slots[row]:
        return
    members = np.flatnonzero((owners.owner == row) & (owners.slot != 0) & (owners.position != 0))
    members = members[members != row]
    members = members[np.argsort(owners.slot[members], kind="stable")]
    shown = members[owners.slot[members] > 0]
    if len(shown) == owners.slots[row]:
        return
    places, width = int(pool.lines.places[row]), int(pool.lines.width[row])
    start = int(pool.lines.cells[row])
    cells = pool.cells[start : start + places * width].reshape(places, width)
    of_segments = cells[:, history.column_of_segment(int(owners.classes[row]), 0) :]
    former = of_segments.reshape(places, -1, history.PER_SEGMENT).copy()
    of_segments[:] = 0
    for i, member in enumerate(shown.tolist()):
        of_segments[:, history.PER_SEGMENT * i : history.PER_SEGMENT * (i + 1)] = former[
            :, owners.slot[member] - 1
        ]
    owners.slot[members] = 0  # those that had found no column left find one now
    owners.slot[shown] = np.arange(1, len(shown) + 1)
    owners.slots[row] = len(shown)
