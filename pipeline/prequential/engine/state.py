"""The state store's tables: made, and grown before a round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prequential.engine import ids
from prequential.engine.calendar import BUCKETS, LEVELS, NEVER, Links, Wheels
from prequential.engine.catalog import Catalog
from prequential.engine.kernel import grown
from prequential.engine.records import Rows
from prequential.engine.store import (
    LABELS,
    PREDICTIONS,
    PROBABILITIES,
    Instances,
    Labels,
    Marks,
    Pools,
    Predictions,
    Probabilities,
    Store,
    Values,
)

_DTYPES: dict[str, Any] = {
    **dict.fromkeys(("state",), np.uint8),
    **dict.fromkeys(("first", "label", "next", "previous", "model", "extra", "judged", "corrected"), np.int32),
    **dict.fromkeys(("persistent", "majority"), np.uint16),
    **dict.fromkeys(("propensity", "number", "p"), np.float64),
    "bucket": np.int16,
    "name": np.uint64,
}


def _empty(table: Any, rows: int, shapes: Mapping[str, tuple[int, ...]] | None = None, **dtypes: Any) -> Any:
    """A table of zeros."""
    types, wide = {**_DTYPES, **dtypes}, shapes or {}
    return table(**{n: np.zeros(wide.get(n, rows), types.get(n, np.int64)) for n in table._fields})


def _marks(rows: int, keys: int) -> Marks:
    return _empty(Marks, rows, {"segments": (rows, keys)}, segments=np.uint16)


def _values(rows: int, keys: int, ages: int) -> Values:
    shapes = {"segments": (rows, keys), "segment_numbers": (rows, keys), "after_numbers": (rows, ages)}
    return _empty(Values, rows, shapes, segments=np.uint16)


def new_store() -> Store:
    """Nothing is known."""
    return Store(
        ids.new_ids(),
        _empty(Instances, 16),
        _marks(1, 0),
        _empty(Links, 16),
        Wheels(np.zeros((16, LEVELS * BUCKETS), np.int32), np.zeros((16, LEVELS), np.uint64), np.full(16, NEVER)),
        _empty(Predictions, 16, label=np.uint16),
        _values(1, 0, 0),
        _empty(Labels, 16, {"after_numbers": (16, 0)}, label=np.int32),
        _empty(Probabilities, 16),
        Pools(np.zeros(3, np.int64), np.ones(3, np.int64), np.zeros(3, np.int64)),
    )


def ensure(store: Store, catalog: Catalog, rows: Rows) -> Store:
    """The store with capacity for all that a round can add."""
    return ensure_rows(store, catalog, len(rows.kind), len(rows.text), len(rows.p))


def ensure_rows(
    store: Store, catalog: Catalog, count: int = 0, text: int = 0, probabilities: int = 0
) -> Store:
    """The store with capacity for so many more records, bytes of their ids, and probabilities."""
    streams = catalog.registry.streams
    table = ids.ensure(store.ids, count, text)
    slots = len(table.stream)
    used = store.pools.used
    predictions = int(used[PREDICTIONS]) + count + 2
    keys = max(store.marks.segments.shape[1], int(streams.keys.max()))
    ages = max(store.labels.after_numbers.shape[1], int(streams.age_count.max()))
    marked = keys > 0 or bool(streams.weights.any())
    marks = store.marks
    if keys > marks.segments.shape[1]:
        marks = Marks(_wider(marks.segments, keys), marks.propensity)
    if marked:
        marks = _at_least(marks, slots)
    store = store._replace(
        ids=table,
        instances=_at_least(store.instances, slots),
        links=_at_least(store.links, slots),
        marks=marks,
        predictions=_at_least(store.predictions, predictions),
        labels=_at_least(store.labels, int(used[LABELS]) + count + 2),
        probabilities=grown(store.probabilities, int(used[PROBABILITIES]) + probabilities + 2),
    )
    values = store.values
    if keys > values.segments.shape[1] or ages > values.after_numbers.shape[1]:
        values = values._replace(
            segments=_wider(values.segments, keys), segment_numbers=_wider(values.segment_numbers, keys),
            after_numbers=_wider(values.after_numbers, ages),
        )  # fmt: skip
    if ages > store.labels.after_numbers.shape[1]:
        labels = store.labels._replace(after_numbers=_wider(store.labels.after_numbers, ages))
        store = store._replace(labels=labels)
    if keys or ages or streams.regression.any():
        values = _at_least(values, len(store.predictions.next))
    return store._replace(values=values, wheels=_wheels(store.wheels, len(streams.clock)))


def _at_least(table: Any, rows: int) -> Any:
    """The table with exactly as many rows as others of the same rows have, or more."""
    return grown(table, rows)


def _wider(column: Any, columns: int) -> Any:
    wide = np.zeros((len(column), columns), dtype=column.dtype)
    wide[:, : column.shape[1]] = column
    return wide


def _wheels(wheels: Wheels, streams: int) -> Wheels:
    before = len(wheels.next_due)
    if streams > before:
        wheels = grown(wheels, streams)
        wheels.next_due[before:] = NEVER
    return wheels
