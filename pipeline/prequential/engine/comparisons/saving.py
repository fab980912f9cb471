"""How a snapshot saves pairs, and how a shard restores them, also under another configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from prequential.configuration.settings.stages import INITIAL
from prequential.configuration.settings.stages import parse as parse_stage
from prequential.engine.catalog.begun import Begun
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.comparisons.joint import COST, LOSS_NAMES
from prequential.engine.comparisons.pairing import Pairing
from prequential.engine.comparisons.tables import Comparisons


def head(pairing: Pairing) -> dict[str, Any]:
    """For a snapshot: pairs by their entities and rows, and the tables these are in."""
    p = pairing.pairs
    return {
        "pairs": [
            [
                *(int(column[pair]) for column in (p.a, p.b, p.plan, p.counted, p.scored)),
                pairing.labels.get(pair), int(p.rank[pair]),
            ]
            for pair in sorted(pairing.ends)
        ],
        "comparisons": [
            [list(one.estimators), [list(code) for code in one.codes], one.counted.rows, one.scored.rows,
             one.prices]
            for one in pairing.tables
        ],
        "pairs_begun": [[*key, count] for key, count in pairing.begun.items()],
    }


def restore(
    catalog: Catalog, pairing: Pairing, saved: dict[str, Any], arrays: Mapping[str, Any],
    moved: Mapping[int, int], stages_of: Mapping[int, Sequence[str]], other_bins: Collection[int],
) -> list[Begun]:  # fmt: skip
    """Give the present pairs what was saved of them; returns those that start empty, with what.

    Parameters
    ----------
    catalog, pairing
        The present ones; the pairing is filled.
    saved
        What `head` has made.
    arrays
        Tables of the snapshot, by name.
    moved
        Entities' rows then and now, where they differ.
    stages_of
        By entity's row now, the stages that it had then.
    other_bins
        Streams (codes) that had another number of bins then.

    Returns
    -------
    list of Begun
        What there was no state for.
    """
    former = [_tables(number, one, arrays) for number, one in enumerate(saved["comparisons"])]
    known = {(moved.get(one[0], one[0]), moved.get(one[1], one[1]), one[5]): one for one in saved["pairs"]}
    missing: list[Begun] = []
    pairing.begun = {tuple(key): count for *key, count in saved["pairs_begun"]}
    for pair in sorted(pairing.ends):
        a, b, label = pairing.identity(pair)
        tables = pairing.tables[pairing.pairs.plan[pair]]
        saved_pair = known.get((a, b, label or None))
        if saved_pair is None:
            missing += _described(catalog, a, b, "")
            continue
        entity, _, number, *first, _, pairing.pairs.rank[pair] = saved_pair
        then = former[number]
        stages = [label] if label else stages_of[entity]
        before = {
            (stages[place], code): row
            for place, _, code, _, row in then.sequences(*first, len(stages))
        }
        new: dict[str, None] = {}
        for place, _, code, side, row in pairing.sequences(pair):
            stage = pairing.stages(pair)[place]
            if stage == INITIAL and pairing.initial_is_final(pair):
                continue
            key = catalog.former_stage(stage, stages, a, b), code
            stages_of_pair = map(parse_stage, stage.split("/"))  # two, if stages are compared
            ended = catalog.entity(a).stream in other_bins and any(one.is_bin for one in stages_of_pair)
            if key not in before or ended or (code == COST and then.prices != tables.prices):
                new[f"by {LOSS_NAMES[code]} at stage {stage}"] = None
                continue
            for name in tables.sides[side].adopt(then.sides[side], before[key], row):
                new[f"by {LOSS_NAMES[code]}: estimator {name}"] = None
        for what in new:
            missing += _described(catalog, a, b, what)
        pairing.declare(pair)
    return missing


def _tables(number: int, saved: list[Any], arrays: Mapping[str, Any]) -> Comparisons:
    estimators, codes, *rows, prices = saved
    tables = Comparisons(number, estimators, tuple((name, code) for name, code in codes), prices)
    for side, count in zip(tables.sides, rows):
        side.grow(count)
    for table in tables.tables():
        table.fill(arrays)
    return tables


def _described(catalog: Catalog, a: int, b: int, what: str) -> Iterator[Begun]:
    """That something is new of two entities that have had outcomes."""
    first, second = catalog.entity(a), catalog.entity(b)
    outcomes = catalog.registry.entities.outcomes
    if outcomes[a] and outcomes[b]:
        segment = f" {first.segment}" if first.segment else ""
        whose = f"{catalog.streams[first.stream].name}/{first.model} against {second.model}{segment}"
        yield Begun(whose, "comparison", what)
