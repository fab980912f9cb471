"""What the rows of a shard's tables stand for, by names: the same in every shard, whatever their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from prequential.engine.compiled.ids import text_of
from prequential.engine.delay.expected import shape_of
from prequential.engine.state import ShardState
from prequential.engine.tables.rows import Key, StateTable
from prequential.engine.tables.store import UNKNOWN

#: A row's name, and its number.
Rows = dict[tuple[Any, ...], int]

#: What only remembers where to look first, or when to look again; sizes and numbers of tables.
_OF_NO_MEANING = {
    "streams.wheel", "streams.class_capacity", "streams.class_count", "entities.plan",
    "coverage|models.step", "coverage|models.shares", "periods|models.next", "periods|models.expected",
    "expected|models.next",
}  # fmt: skip


def contents(state: ShardState) -> dict[str, dict[tuple[Any, ...], bytes]]:
    """By table, what each of its rows has; without columns whose values are rows of others."""
    names = _Names(state)
    found: dict[str, dict[tuple[Any, ...], bytes]] = {}
    for table in state.tables():
        if table.key is Key.NONE:
            continue
        columns = {
            name: column for name, column in table.columns().items()
            if name not in _OF_NO_MEANING and name.removeprefix(table.name) not in table.links
        }  # fmt: skip
        own = found.setdefault(sort_of(table.name), {})
        for row_name, row in names.of(table).items():
            own[row_name] = b"|".join(_bytes(column, row) for column in columns.values())
    return found


def sort_of(name: str) -> str:
    """A table's name without the numbers of plans and configurations."""
    first, _, rest = name.partition("|")
    return f"{first.split()[0]}|{rest}" if first.startswith(("plan ", "comparisons ")) else name


def _bytes(column: Any, row: int) -> bytes:
    if len(column) == 1 and row:  # a column that nobody needs
        return b""
    content: bytes = np.ascontiguousarray(column[row]).tobytes()
    return content


class _Names:
    """All rows that stand for something."""

    def __init__(self, state: ShardState) -> None:
        self._state, catalog = state, state.catalog
        registry = catalog.registry
        self._streams: Rows = {(stream.name,): stream.code for stream in catalog.streams}
        self._entities: Rows = {
            (catalog.streams[one.stream].name, one.kind, one.model, one.segment, one.age): one.row
            for one in catalog.entities if one is not None
        }  # fmt: skip
        self._slots: Rows = {}
        known, states = state.store.ids, registry.streams
        for slot in np.flatnonzero(known.size[: len(state.store.instances.state)]).tolist():
            if state.store.instances.state[slot] != UNKNOWN:
                name = catalog.streams[known.stream[slot]].name
                self._slots[name, text_of(known, slot)] = slot
        self._classes = {
            (stream.name, name): (int(states.classes[stream.code]), code)
            for stream in catalog.streams for code, name in enumerate(stream.class_names)
        }  # fmt: skip

    def of(self, table: StateTable) -> Rows:
        """The rows of a table."""
        rows: Rows = dict(getattr(self, f"_{table.key.name.lower()}")(table))
        return {name: row for name, row in rows.items() if table.rows is None or row < table.rows}

    def _stream(self, _: StateTable) -> Rows:
        return self._streams

    def _entity(self, table: StateTable) -> Rows:
        rows = next(len(column) for column in table.columns().values())
        return {name: row for name, row in self._entities.items() if row < rows}

    def _season(self, table: StateTable) -> Iterator[tuple[tuple[Any, ...], int]]:
        names = {code: name for name, code in self._streams.items()}
        streams, times = table.content["stream"].tolist(), table.content["time"].tolist()
        yield from (((*names[stream], time), row) for row, (stream, time) in enumerate(zip(streams, times)))

    def _class(self, _: StateTable) -> Rows:
        return {name: start + code for name, (start, code) in self._classes.items()}

    def _transition(self, _: StateTable) -> Iterator[tuple[tuple[Any, ...], int]]:
        streams = self._state.catalog.registry.streams
        for (name, *_), code in self._streams.items():
            start, capacity = int(streams.pairs[code]), int(streams.class_capacity[code])
            own = [(label, at) for (of, label), (_, at) in self._classes.items() if of == name]
            if start >= 0:
                yield from (
                    ((name, before, label), start + i * capacity + j)
                    for before, i in own for label, j in own
                )  # fmt: skip

    def _segment(self, _: StateTable) -> Iterator[tuple[tuple[Any, ...], int]]:
        entities = {row: name for name, row in self._entities.items()}
        for row, (model, key, position) in enumerate(self._state.catalog.segment_origin):
            if row and model in entities:
                about = self._state.catalog.entities[model]
                assert about is not None
                stream = self._state.catalog.streams[about.stream]
                yield (*entities[model], stream.segment_name(key, position)), row

    def _sequence(self, table: StateTable) -> Iterator[tuple[tuple[Any, ...], int]]:
        entities, plans = self._state.catalog.registry.entities, self._state.catalog.plans
        for name, row in self._entities.items():
            if (int(entities.plan[row]),) == table.space:
                for place, stage in enumerate(plans[entities.plan[row]].stages):
                    yield (*name, stage), int(entities.first[row]) + place

    def _joint(self, table: StateTable) -> Iterator[tuple[tuple[Any, ...], int]]:
        pairing, number = self._state.pairing, table.space[0]
        names = {row: name for name, row in self._entities.items()}
        for pair, (a, b) in pairing.ends.items():
            tables = pairing.tables[pairing.pairs.plan[pair]]
            if tables.number != number:
                continue
            stages = pairing.stages(pair)
            for place, loss, _, side, row in pairing.sequences(pair):
                if tables.sides[side].counted == (table.space[1] == "counted"):
                    yield (names[a], names[b], stages[place], loss), row

    def _pair(self, table: StateTable) -> Iterator[tuple[tuple[Any, ...], int]]:
        pairing = self._state.pairing
        names = {row: name for name, row in self._entities.items()}
        for pair, (a, b) in pairing.ends.items():
            if pairing.pairs.disagreement[pair]:
                yield (names[a], names[b]), int(pairing.pairs.disagreement[pair])

    # ---- accounts

    def _owned(self, pool: Any, owners: Rows) -> Rows:
        names = {row: name for name, row in owners.items()}
        return {
            (*names[owner], int(pool.key[row])): row
            for row, owner in enumerate(pool.owner.tolist()) if row and owner in names
        }  # fmt: skip

    def _cohort(self, _: StateTable) -> Rows:
        return self._owned(self._state.accounts.coverage.pool, self._entities)

    def _period(self, _: StateTable) -> Rows:
        return self._owned(self._state.accounts.periods.pool, self._entities)

    def _period_cell(self, table: StateTable) -> Rows:
        return self._owned(self._state.accounts.periods.cell_pool, self._period(table))

    def _period_scores(self, table: StateTable) -> Rows:
        periods = self._state.accounts.periods.periods
        own = {name: int(periods.sums[row]) for name, row in self._period(table).items()}
        return {name: row for name, row in own.items() if row}

    def _period_ranks(self, table: StateTable) -> Rows:
        periods = self._state.accounts.periods.periods
        own = {name: int(periods.ranks[row]) for name, row in self._period(table).items()}
        return {name: row for name, row in own.items() if row}

    def _expected_period(self, _: StateTable) -> Rows:
        return self._owned(self._state.accounts.expected.pool, self._entities)

    def _expected_said(self, table: StateTable) -> Rows:
        return self._owned(self._state.accounts.expected.said_pool, self._expected_period(table))

    def _expected_record(self, _: StateTable) -> Rows:
        return self._owned(self._state.accounts.expected.record_pool, self._entities)

    def _expected_usual(self, _: StateTable) -> Rows:
        return self._owned(self._state.accounts.expected.usual_pool, self._entities)

    def _expected_of_model(self, _: StateTable) -> Iterator[tuple[tuple[Any, ...], int]]:
        models = self._state.accounts.expected.models
        for name, row in self._entities.items():
            if models.block[row]:
                start = int(models.block[row])
                yield from (((*name, i), start + i) for i in range(shape_of(models, row).of_model))

    def _expected_of_period(self, table: StateTable) -> Iterator[tuple[tuple[Any, ...], int]]:
        expected = self._state.accounts.expected
        for name, row in self._expected_period(table).items():
            if start := int(expected.periods.block[row]):
                places = shape_of(expected.models, int(expected.pool.owner[row])).of_period
                yield from (((*name, i), start + i) for i in range(places))

    def _predicted(self, _: StateTable) -> Iterator[tuple[tuple[Any, ...], int]]:
        models = self._state.accounts.selection.models
        for name, row in self._entities.items():
            for code in range(models.capacity[row]):
                yield (*name, code), int(models.block[row]) + code

    def _bins(self, _: StateTable) -> Iterator[tuple[tuple[Any, ...], int]]:
        streams = self._state.accounts.latencies.streams
        for name, code in self._streams.items():
            for field in ("block", "recent_block"):
                blocks = getattr(streams, field)[code].ravel()
                yield from (((*name, field, i), int(blocks[i])) for i in np.flatnonzero(blocks).tolist())

    # ---- incidents

    def _runs(self, table: StateTable, first: str, cells: bool) -> Iterator[tuple[tuple[Any, ...], int]]:
        pool = getattr(self._state.incidents.history, table.space[0])
        for name, row in self._entities.items():
            length = int(pool.lines.places[row]) * (int(pool.lines.width[row]) if cells else 1)
            start = int(getattr(pool.lines, first)[row])
            yield from (((*name, i), start + i) for i in range(length))

    def _block(self, table: StateTable) -> Iterator[tuple[tuple[Any, ...], int]]:
        return self._runs(table, "first", cells=False)

    def _block_cell(self, table: StateTable) -> Iterator[tuple[tuple[Any, ...], int]]:
        return self._runs(table, "cells", cells=True)

    # ---- the state store

    def _slot(self, _: StateTable) -> Rows:
        return self._slots

    def _listed(self, owners: Rows, first: Any, following: Any) -> Rows:
        found: Rows = {}
        for name, owner in owners.items():
            row, place = int(first[owner]), 0
            while row:
                found[(*name, place)] = row
                row, place = int(following[row]), place + 1
        return found

    def _prediction(self, _: StateTable) -> Rows:
        store = self._state.store
        return self._listed(self._slots, store.instances.first, store.predictions.next)

    def _label(self, _: StateTable) -> Rows:
        own = {name: int(self._state.store.instances.label[slot]) for name, slot in self._slots.items()}
        return {name: row for name, row in own.items() if row}

    def _probability(self, table: StateTable) -> Rows:
        store = self._state.store
        first = store.predictions.probabilities
        return self._listed(self._prediction(table), first, store.probabilities.next)
