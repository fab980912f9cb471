"""The state store's tables: how they are made, and how they grow before a micro-batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.compiled import ids
from prequential.engine.compiled.kernel import (
    as_records,
    columns_of,
    grown,
    of_one_length,
    records,
    tables_of,
    zeros,
)
from prequential.engine.compiled.pool import grown_pool, insert, new_pool
from prequential.engine.tables import compact
from prequential.engine.tables import store as stores
from prequential.engine.tables.compact import LIVE, ensure_compact, new_compact, used_compact
from prequential.engine.tables.records import LABEL, Rows
from prequential.engine.tables.rows import Key, StateTable
from prequential.engine.tables.store import Store


def new_store() -> Store:
    """An empty store with little room: `ensure` makes more."""
    wheels = zeros(stores.Wheels, 16, first=stores.LEVELS * stores.BUCKETS, used=stores.LEVELS)
    return Store(
        ids.new_ids(),
        records(stores.Instances, 16, packed=True),
        _without_columns(stores.Marks),
        records(stores.Links, 16, packed=True),
        wheels._replace(next_due=np.full(16, stores.NEVER)),
        records(stores.Predictions, 16, packed=True),
        _without_columns(stores.Values),
        records(stores.Labels, 16, packed=True),
        _without_columns(stores.LabelValues),
        records(stores.Probabilities, 16, packed=True),
        zeros(stores.Pools, 3)._replace(end=np.ones(3, np.int64)),
        compact.new_settled(),
        new_compact(),
        stores.Seasons(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(16, np.int64), np.zeros(16)),
        new_pool(),
    )


def _without_columns(schema: Any) -> Any:
    """A table whose columns no stream needs yet."""
    return zeros(schema, 16, **dict.fromkeys(schema._fields, 0))


def ensure(store: Store, catalog: Catalog, rows: Rows) -> Store:
    """The store with capacity for everything that these rows of a micro-batch can add."""
    settling = int(np.count_nonzero(rows.kind == LABEL) + store.pools.used[stores.LABELS])
    return ensure_rows(store, catalog, len(rows.kind), len(rows.text), len(rows.p), settling)


def ensure_rows(
    store: Store, catalog: Catalog, count: int = 0, text: int = 0, probabilities: int = 0, settling: int = 0
) -> Store:
    """The store with capacity for more records, bytes of their ids, probabilities, and labels that settle.

    Arrays that have the capacity stay the same; the store stays the same if all of its arrays do. In columns
    that no stream needs, the second dimension has length 0.
    """
    streams, needs = len(catalog.registry.streams.clock), catalog.needs
    keys, ages = needs["keys"], needs["age_count"]
    table = ids.ensure(store.ids, count, text)
    used = store.pools.used
    propensity = _wider(store.marks.propensity, needs["weights"])
    marks = stores.Marks(_wider(store.marks.segments, keys), propensity)
    values = stores.Values(
        _wider(store.values.number, needs["regression"]),
        _wider(store.values.numbers, needs["reads"].bit_length(), np.nan),
        _wider(store.values.estimate, needs["estimates"]),
        _wider(store.values.season, 3 * (needs["season"] > 0)),
        _wider(store.values.segments, keys),
        _wider(store.values.segment_numbers, keys), _wider(store.values.after_numbers, ages),
    )  # fmt: skip
    label_values = stores.LabelValues(
        _wider(store.label_values.after_numbers, ages),
        _wider(store.label_values.value, 2 * needs["valued"]),
    )
    slots = (table.stream, table.offset, table.size, store.instances, store.links, marks)
    stream, offset, size, instances, links, marks = of_one_length(len(table.stream), *slots)
    # The prediction of a compact instance may need a row as well.
    pending = int(used[stores.PREDICTIONS]) + count + min(count, int(store.compact.counts[LIVE]))
    predictions, values = of_one_length(pending + 2, store.predictions, values)
    # Where instances get a class at the end of the horizon, each instance may have a label.
    most = int(table.counts[ids.LIVE]) if needs["at_horizon"] else int(used[stores.LABELS])
    labels, label_values = of_one_length(most + count + 2, store.labels, label_values)
    wider = store._replace(
        ids=table._replace(stream=stream, offset=offset, size=size), instances=instances, links=links,
        marks=marks, predictions=predictions, values=values, labels=labels, label_values=label_values,
        probabilities=grown(store.probabilities, int(used[stores.PROBABILITIES]) + probabilities + 2),
        wheels=_wheels(store.wheels, streams),
        compact=ensure_compact(store.compact, streams, min(count, settling)),
    )  # fmt: skip
    if needs["season"]:
        wider = _with_seasons(wider, streams, count)
    before = tables_of(store)
    if all(array is before[name] for name, array in tables_of(wider).items()):
        return store
    check(wider)
    return wider


def _with_seasons(store: Store, streams: int, labels: int) -> Store:
    """The store with capacity for the labels of streams by time, and for so many more of them."""
    pool, seasons = grown_pool(store.season_pool, int(store.season_pool.counters[0]) + labels), store.seasons
    first, swept = of_one_length(streams, seasons.first, seasons.swept)
    order, value = of_one_length(len(pool.owner), seasons.order, seasons.value)
    return store._replace(season_pool=pool, seasons=stores.Seasons(first, swept, order, value))


def _labels_by_time(store: Store) -> dict[str, Any]:
    """The labels that may be seasonal baselines as columns, by stream and time."""
    pool = store.season_pool
    rows = np.flatnonzero(pool.owner >= 0)
    rows = rows[np.lexsort((pool.key[rows], pool.owner[rows]))]
    return {
        "stream": pool.owner[rows], "time": pool.key[rows], "order": store.seasons.order[rows],
        "value": store.seasons.value[rows],
    }  # fmt: skip


def load_seasons(store: Store, catalog: Catalog, arrays: Mapping[str, Any]) -> Store:
    """The store with a snapshot's labels by time, of the streams that still need them."""
    streams = catalog.columns.streams
    of_streams = arrays.get("seasons|stream", np.zeros(0, np.int32))
    kept = np.flatnonzero(streams.season[of_streams] > 0)
    if not len(kept):
        return store
    store = _with_seasons(store, len(streams.clock), len(kept))
    columns = (arrays[f"seasons|{name}"][kept].tolist() for name in ("stream", "time", "order", "value"))
    for stream, time, order, value in zip(*columns):
        row = insert(store.season_pool, store.seasons.first, stream, time)
        store.seasons.order[row], store.seasons.value[row] = order, value
    return store


def tables(store: Store) -> Iterator[StateTable]:
    """The store's tables that are state, with the keys of their rows.

    For `_SINGLE` columns, snapshots omit the second dimension, or have a single number where there is no
    column.
    """
    dump, pools = ids.used(store.ids), store.pools
    slots = len(dump.stream)
    of_slots = {field: getattr(dump, field) for field in ("stream", "offset", "size")}
    yield StateTable("ids|", Key.SLOT, of_slots, links={"stream": Key.STREAM})
    other_columns = {field: column for field, column in dump._asdict().items() if field not in of_slots}
    yield StateTable("ids|", Key.NONE, other_columns)
    yield StateTable("deadline", Key.SLOT, store.links.deadline, slots)
    links = {"first": Key.PREDICTION, "label": Key.LABEL}
    yield StateTable("instances|", Key.SLOT, store.instances, slots, links=links)
    yield StateTable("marks|", Key.SLOT, _flat(store.marks, slots), slots)
    predictions, labels, probabilities = pools.end.tolist()
    links = {"next": Key.PREDICTION, "model": Key.ENTITY, "probabilities": Key.PROBABILITY}
    yield StateTable("predictions|", Key.PREDICTION, store.predictions, predictions, links=links)
    yield StateTable("values|", Key.PREDICTION, _flat(store.values, predictions), predictions)
    yield StateTable("labels|", Key.LABEL, store.labels, labels, links={"next": Key.LABEL})
    yield StateTable("label_values|", Key.LABEL, store.label_values, labels)
    links = {"next": Key.PROBABILITY}
    yield StateTable("probabilities|", Key.PROBABILITY, store.probabilities, probabilities, links=links)
    yield StateTable("pools|", Key.NONE, pools)
    yield StateTable("settled|", Key.NONE, compact.dump(store.settled))
    yield StateTable("compact|", Key.NONE, used_compact(store.compact)._asdict())
    yield StateTable("seasons|", Key.SEASON, _labels_by_time(store), links={"stream": Key.STREAM})


#: Names that have at most one column.
_SINGLE = ("propensity", "number")


def _flat(table: Any, rows: int) -> dict[str, Any]:
    """Columns in the form in which snapshots have them."""
    return {
        name: (column[:rows, 0] if column.shape[1] else np.zeros(1)) if name in _SINGLE else column
        for name, column in columns_of(table).items()
    }


def load(store: Store, arrays: Mapping[str, Any]) -> Store:
    """The store with the tables of a snapshot, by the names of `tables`, without the deadlines of instances.

    The caller schedules the deadlines. Ids get new hashes (`ids.load`). Raises KeyError for a missing table.
    """
    arrays = {"values|numbers": _numbers_apart(arrays), **arrays}
    dump = ids.Dump(*(arrays[f"ids|{name}"] for name in ids.Dump._fields))
    loaded = store._replace(ids=ids.load(dump))
    for name in ("instances", "marks", "predictions", "values", "labels", "label_values", "probabilities"):
        loaded = loaded._replace(**{name: _loaded(getattr(store, name), f"{name}|", arrays)})
    columns = {field: arrays[f"settled|{field}"] for field in ("place", *compact.Settled._fields)}
    loaded = loaded._replace(settled=compact.load(columns))
    pools = (arrays[f"pools|{field}"].copy() for field in stores.Pools._fields)
    return loaded._replace(pools=stores.Pools(*pools))


def _numbers_apart(arrays: Mapping[str, Any]) -> Any:
    """The numbers of predictions from a snapshot that has `value` and the interval in tables of their own."""
    none = np.zeros((0, 0))
    value, interval = arrays.get("values|value", none), arrays.get("values|interval", none)
    columns = [np.where(value[:, 1] > 0, value[:, 0], np.nan)] if value.shape[1] else []
    if interval.shape[1]:
        columns = columns or [np.full(len(interval), np.nan)]
        columns += [np.where(interval[:, 2] > 0, interval[:, bound], np.nan) for bound in range(2)]
    return np.column_stack(columns) if columns else np.zeros((max(len(value), len(interval)), 0))


def _loaded(empty: Any, prefix: str, arrays: Mapping[str, Any]) -> Any:
    """A table with the columns of a snapshot."""
    fields = [field for field in columns_of(empty) if prefix + field in arrays]  # new ones are zero
    columns = {field: arrays[prefix + field] for field in fields}
    rows = max(map(len, columns.values()))
    if isinstance(empty, np.ndarray):
        table: Any = np.zeros(rows, dtype=empty.dtype)
        for field, column in columns.items():
            table[field] = column
        return as_records(table)
    for field in columns.keys() & _SINGLE:
        saved = columns[field]
        columns[field] = saved[:, np.newaxis] if len(saved) == rows > 1 else np.zeros((rows, 0))
    new = {field: np.zeros((rows, 0), column.dtype) for field, column in columns_of(empty).items()}
    return type(empty)(**new | {field: column.copy() for field, column in columns.items()})


#: Arrays of the store that share an index, by names or their beginnings.
_OF_INDEX = {
    "slots": ("ids.stream", "ids.offset", "ids.size", "instances", "links", "marks."),
    "predictions": ("predictions", "values."),
    "labels": ("labels", "label_values."),
    "streams": ("wheels.",),
}


def check(store: Store) -> None:
    """Raise RuntimeError if tables that share an index differ in length: compiled loops don't check it."""
    arrays = tables_of(store)
    for index, names in _OF_INDEX.items():
        lengths = {name: len(array) for name, array in arrays.items() if name.startswith(names)}
        if len(set(lengths.values())) > 1:
            raise RuntimeError(f"tables of {index} have different numbers of rows: {lengths}")


def _wider(column: Any, columns: int, new: float = 0) -> Any:
    """The array with at least `columns` columns; new ones are filled with a number."""
    if columns <= column.shape[1]:
        return column
    wide = np.full((len(column), columns), new, dtype=column.dtype)
    wide[:, : column.shape[1]] = column
    return wide


def _wheels(wheels: stores.Wheels, streams: int) -> stores.Wheels:
    before = len(wheels.next_due)
    if streams > before:
        wheels = grown(wheels, streams)
        wheels.next_due[before:] = stores.NEVER
    return wheels
