"""What a snapshot says of pairs, and how a shard gets it back, also under another configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prequential.core.catalog.begun import Begun
from prequential.core.catalog.catalog import Catalog
from prequential.core.comparisons.joint import ERROR, LOSS_NAMES
from prequential.core.comparisons.pairing import Pairing
from prequential.core.comparisons.reporting import ComparisonReporter
from prequential.core.comparisons.tables import Comparisons

#: How the names of sides' arrays begin.
_SIDES = ("counted", "scored")


def head(pairing: Pairing, reporter: ComparisonReporter) -> dict[str, Any]:
    """Pairs by their subjects and rows, the tables that these are in, and what was reported."""
    p = pairing.pairs
    return {
        "pairs": [
            [*(int(of[pair]) for of in (p.a, p.b, p.plan, p.counted, p.scored)), pairing.labels.get(pair)]
            for pair in sorted(pairing.ends)
        ],
        "comparisons": [
            [list(one.estimators), [list(code) for code in one.codes], one.counted.rows, one.scored.rows]
            for one in pairing.tables
        ],
        "compared": sorted(
            [*about, *reporter.reported[about]]
            for about in map(pairing.identity, pairing.ends)
            if about in reporter.reported
        ),
    }


def arrays(pairing: Pairing) -> Iterator[tuple[str, Any]]:
    """All sequences, by name."""
    for tables in pairing.tables:
        for name, side in zip(_SIDES, tables.sides):
            for field, column in side.dump():
                yield f"comparisons {tables.number}|{name}|{field}", column


def restore(
    catalog: Catalog, pairing: Pairing, reporter: ComparisonReporter, saved: dict[str, Any],
    content: dict[str, Any], moved: dict[int, int], stages_of: dict[int, Sequence[str]],
) -> list[Begun]:  # fmt: skip
    """Give the present pairs what was saved of them; returns those that start empty, with what.

    `moved` says which subjects have other rows now, `stages_of` which stages each had then.
    """
    former = [_tables(number, one, content) for number, one in enumerate(saved["comparisons"])]
    known = {(moved.get(one[0], one[0]), moved.get(one[1], one[1]), one[5]): one for one in saved["pairs"]}
    reported = {
        (moved.get(a, a), moved.get(b, b), label): tuple(state)
        for a, b, label, *state in saved["compared"]
    }
    missing: list[Begun] = []
    for pair in sorted(pairing.ends):
        a, b = int(pairing.pairs.a[pair]), int(pairing.pairs.b[pair])
        tables = pairing.tables[pairing.pairs.plan[pair]]
        label = pairing.labels.get(pair)
        one = known.get((a, b, label))
        if one is None:
            missing += _described(catalog, a, b, "")
            continue
        tables_then, stages = former[one[2]], [label] if label else stages_of[one[0]]
        rows = _rows(tables_then, one[3], one[4], stages)
        present: Sequence[str] = catalog.plans[catalog.registry.subjects.plan[a]].stages
        present = [label] if label else present
        new: dict[str, None] = {}
        for key, row in _rows(
            tables, int(pairing.pairs.counted[pair]), int(pairing.pairs.scored[pair]), present
        ).items():
            if key in rows:
                side = key[2]
                for name in tables.sides[side].adopt(tables_then.sides[side], rows[key], row):
                    new[f"by {LOSS_NAMES[key[1]]}: estimator {name}"] = None
            else:
                new[f"by {LOSS_NAMES[key[1]]} at stage {key[0]}"] = None
        for what in new:
            missing += _described(catalog, a, b, what)
        about = pairing.identity(pair)
        if tables_then.codes == tables.codes and about in reported:
            reporter.reported[about] = reported[about]
    pairing.begin(pair for pair in sorted(pairing.ends) if _has_begun(pairing, pair))
    return missing


def _has_begun(pairing: Pairing, pair: int) -> bool:
    sides = pairing.tables[pairing.pairs.plan[pair]].sides
    return any(sides[side].columns.n[row] for _, _, side, row in pairing.sequences(pair))


def _tables(number: int, saved: list[Any], content: dict[str, Any]) -> Comparisons:
    estimators, codes, *rows = saved
    tables = Comparisons(number, estimators, tuple((name, code) for name, code in codes))
    for name, side, count in zip(_SIDES, tables.sides, rows):
        side.load(content, f"comparisons {number}|{name}|", count)
    return tables


def _rows(
    tables: Comparisons, counted: int, scored: int, stages: Sequence[str]
) -> dict[tuple[str, int, int], int]:
    """A pair's rows by stage, code of the loss, and side."""
    found: dict[tuple[str, int, int], int] = {}
    for stage in stages:
        if tables.counts:
            found[stage, ERROR, 0] = counted
            counted += 1
        for code in tables.added:
            found[stage, code, 1] = scored
            scored += 1
    return found


def _described(catalog: Catalog, a: int, b: int, what: str) -> Iterator[Begun]:
    """That something is new of two subjects that have had outcomes."""
    first, second = catalog.subjects[a], catalog.subjects[b]
    assert first is not None
    assert second is not None
    outcomes = catalog.registry.subjects.outcomes
    if outcomes[a] and outcomes[b]:
        segment = f" {first.segment}" if first.segment else ""
        whose = f"{catalog.streams[first.stream].name}/{first.model} against {second.model}{segment}"
        yield Begun(whose, "comparison", what)
