"""How a snapshot saves pairs and incidents, and how a shard restores them under any configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from prequential.configuration.settings.stages import INITIAL
from prequential.configuration.settings.stages import parse as parse_stage
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.comparisons.disagreement import Disagreements
from prequential.engine.comparisons.joint import COST, LOSS_NAMES
from prequential.engine.comparisons.pairing import Pairing
from prequential.engine.comparisons.tables import Comparisons
from prequential.engine.compiled.kernel import columns_of
from prequential.engine.incidents import history
from prequential.engine.incidents.clusters import with_places
from prequential.engine.incidents.incident import Noted, OpenIncident
from prequential.engine.incidents.incidents import Incidents, watched_stage
from prequential.engine.snapshot.restored import Begun, SavedPair
from prequential.engine.tables.rows import Key


def head_of_pairs(pairing: Pairing) -> dict[str, Any]:
    """For a snapshot: pairs by their entities and rows, and the tables these are in."""
    p = pairing.pairs
    return {
        "pairs": [
            list(
                SavedPair(
                    a=int(p.a[pair]),
                    b=int(p.b[pair]),
                    plan=int(p.plan[pair]),
                    counted=int(p.counted[pair]),
                    scored=int(p.scored[pair]),
                    label=pairing.labels.get(pair),
                    rank=int(p.rank[pair]),
                    disagreement=int(p.disagreement[pair]),
                )
            )
            for pair in sorted(pairing.ends)
        ],
        "disagreements": pairing.disagreements.rows,
        "comparisons": [
            [
                list(tables.estimators),
                [list(code) for code in tables.codes],
                tables.counted.rows,
                tables.scored.rows,
                tables.prices,
            ]
            for tables in pairing.tables
        ],
        "pairs_begun": [[*key, count] for key, count in pairing.begun.items()],
    }


def restore_pairs(
    catalog: Catalog, pairing: Pairing, saved: dict[str, Any], arrays: Mapping[str, Any],
    moved: Mapping[int, int], stages_of: Mapping[int, Sequence[str]], other_bins: Collection[int],
) -> list[Begun]:  # fmt: skip
    """Give the present pairs what was saved of them; returns those that start empty, with what.

    The pairing is filled from `saved`, which `head_of_pairs` made, and from the snapshot's `arrays`. `moved`:
    entities' rows then and now, where they differ. `stages_of`: by entity's row now, its stages then.
    `other_bins`: streams (codes) that had another number of bins then.
    """
    former = [_tables(number, head, arrays) for number, head in enumerate(saved["comparisons"])]
    saved_pairs = {
        (moved.get(pair.a, pair.a), moved.get(pair.b, pair.b), pair.label): pair
        for pair in (SavedPair(*fields) for fields in saved["pairs"])
    }
    disagreements = Disagreements(saved["disagreements"])
    disagreements.grow(disagreements.rows)
    for table in disagreements.state_tables("disagreements|", Key.PAIR, ()):
        table.fill(arrays)
    missing: list[Begun] = []
    pairing.begun = {tuple(key): count for *key, count in saved["pairs_begun"]}
    for pair in sorted(pairing.ends):
        a, b, label = pairing.identity(pair)
        tables = pairing.tables[pairing.pairs.plan[pair]]
        saved_pair = saved_pairs.get((a, b, label or None))
        if saved_pair is None:
            missing += _described(catalog, a, b, "")
            continue
        pairing.pairs.rank[pair] = saved_pair.rank
        if saved_pair.disagreement and pairing.pairs.disagreement[pair]:
            present = pairing.pairs.disagreement[pair]
            pairing.disagreements.adopt(disagreements, saved_pair.disagreement, present)
        then = former[saved_pair.plan]
        stages = [label] if label else stages_of[saved_pair.a]
        before = {
            (stages[sequence.stage], sequence.code): sequence.row
            for sequence in then.sequences(saved_pair.counted, saved_pair.scored, len(stages))
        }
        new: dict[str, None] = {}
        for sequence in pairing.sequences(pair):
            code = sequence.code
            stage = pairing.stages(pair)[sequence.stage]
            if stage == INITIAL and pairing.initial_is_final(pair):
                continue
            key = catalog.former_stage(stage, stages, a, b), code
            stages_of_pair = map(parse_stage, stage.split("/"))  # two, if stages are compared
            ended = catalog.entity(a).stream in other_bins and any(part.is_bin for part in stages_of_pair)
            if key not in before or ended or (code == COST and then.prices != tables.prices):
                new[f"by {LOSS_NAMES[code]} at stage {stage}"] = None
                continue
            side = sequence.side
            for name in tables.sides[side].adopt(then.sides[side], before[key], sequence.row):
                new[f"by {LOSS_NAMES[code]}: estimator {name}"] = None
        for item in new:
            missing += _described(catalog, a, b, item)
        pairing.declare(pair)
    return missing


def _tables(number: int, saved: list[Any], arrays: Mapping[str, Any]) -> Comparisons:
    estimators, codes, *rows, prices = saved
    tables = Comparisons(number, estimators, tuple((name, code) for name, code in codes), prices)
    for side, count in zip(tables.sides, rows):
        side.grow(count)
        for estimator in side.estimators:
            estimator.make_room(int(estimator.parameter))  # the saved ones may be of any width
    for table in tables.tables():
        table.fill(arrays)
    return tables


def _described(catalog: Catalog, a: int, b: int, item: str) -> Iterator[Begun]:
    """That something is new of two entities that have had outcomes."""
    first, second = catalog.entity(a), catalog.entity(b)
    outcomes = catalog.registry.entities.outcomes
    if outcomes[a] and outcomes[b]:
        segment = f" {first.segment}" if first.segment else ""
        owner = f"{catalog.streams[first.stream].name}/{first.model} against {second.model}{segment}"
        yield Begun(owner, "comparison", item)


#: Arrays of owners that the configuration decides.
_SETTINGS = frozenset(f"incidents|owners|{name}" for name in history.OWNER_SETTINGS)


def head_of_incidents(incidents: Incidents) -> dict[str, Any]:
    """Open incidents, and state that isn't in the tables, for a snapshot's head."""
    return {
        "incidents": {
            "open": [[owner, asdict(state)] for owner, state in incidents.open.items()],
            "alarms": list(incidents.alarms.items()),
            "graded": [[owner, list(counts)] for owner, counts in incidents.graded.items()],
            "opened": [[owner, dict(counts)] for owner, counts in incidents.opened.items()],
            "examples": [
                [owner, [list(entry) for entry in kept]] for owner, kept in incidents.examples.items()
            ],
            "noted": [[owner, [list(entry) for entry in kept]] for owner, kept in incidents.noted.items()],
        }
    }


def restore_incidents(
    incidents: Incidents, saved: dict[str, Any], arrays: Mapping[str, Any],
    stages: Mapping[int, Sequence[str]],
) -> list[int]:  # fmt: skip
    """Give present models what was saved of them; returns the rows of those that start empty.

    `saved` is a snapshot's head, and `arrays` its tables. `stages`: by entity's row, the stages that it had
    then and that are still evaluated. Models start empty if nothing, or something else, was watched then.
    """
    loss = arrays["incidents|owners|loss_identity"]
    rows = len(loss)
    kept = history.with_entities(incidents.history, rows)
    for name in history.POOLS:
        pool, used = getattr(kept, name), arrays[f"incidents|{name}|used"].copy()
        wider: Any = {name: with_places(pool, *used.tolist())._replace(used=used)}
        kept = kept._replace(**wider)
    measured = {name: array for name, array in arrays.items() if name not in _SETTINGS}
    for table in history.tables(kept, rows):
        table.fill(measured)
    gone = np.flatnonzero(kept.owners.position[:rows] == 0)
    incidents.history = kept = history.without(kept, gone.tolist())
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
        owner: [Noted(*fields) for fields in kept] for owner, kept in saved["noted"] if owner in present
    }


def _forget(kept: history.ClusterHistory, row: int) -> None:
    """Start a model's history from scratch."""
    owners: Any = kept.owners
    for name, column in columns_of(owners).items():
        if name not in history.OWNER_SETTINGS:
            column[row] = 0
    owners.slot[owners.owner == row] = 0  # its segments have no columns either
    kept.versions[row] = 0
    for name in history.POOLS:
        for column in columns_of(getattr(kept, name).lines).values():
            column[row] = 0


def _close_up(kept: history.ClusterHistory, row: int) -> None:
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
