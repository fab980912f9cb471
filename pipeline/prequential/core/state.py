"""The state store's tables: made, and grown before a round."""

from __future__ import annotations

from typing import Any

import numpy as np
from prequential.core import ids
from prequential.core.calendar import BUCKETS, LEVELS, NEVER, Links, Wheels
from prequential.core.catalog import Catalog
from prequential.core.kernel import grown, records
from prequential.core.records import Rows
from prequential.core.store import (
    LABELS,
    PREDICTIONS,
    PROBABILITIES,
    Instances,
    Labels,
    LabelValues,
    Marks,
    Pools,
    Predictions,
    Probabilities,
    Store,
    Values,
)


def new_store() -> Store:
    """Nothing is known."""
    return Store(
        ids.new_ids(),
        records(Instances, 16, packed=True),
        Marks(np.zeros((1, 0), np.uint16), np.zeros(1)),
        records(Links, 16, packed=True),
        Wheels(
            np.zeros((16, LEVELS * BUCKETS), np.int32), np.zeros((16, LEVELS), np.uint64), np.full(16, NEVER)
        ),
        records(Predictions, 16, packed=True),
        Values(np.zeros(1), np.zeros((1, 0), np.uint16), *(np.zeros((1, 0), np.int64) for _ in range(2))),
        records(Labels, 16, packed=True),
        LabelValues(np.zeros((1, 0), np.int64)),
        records(Probabilities, 16, packed=True),
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
    ages = max(store.values.after_numbers.shape[1], int(streams.age_count.max()))
    marked = keys > 0 or bool(streams.weights.any())
    marks = store.marks
    if keys > marks.segments.shape[1]:
        marks = Marks(_wider(marks.segments, keys), marks.propensity)
    if marked:
        marks = grown(marks, slots)
    store = store._replace(
        ids=table,
        instances=grown(store.instances, slots),
        links=grown(store.links, slots),
        marks=marks,
        predictions=grown(store.predictions, predictions),
        labels=grown(store.labels, int(used[LABELS]) + count + 2),
        probabilities=grown(store.probabilities, int(used[PROBABILITIES]) + probabilities + 2),
    )
    values = store.values
    if keys > values.segments.shape[1] or ages > values.after_numbers.shape[1]:
        values = values._replace(
            segments=_wider(values.segments, keys), segment_numbers=_wider(values.segment_numbers, keys),
            after_numbers=_wider(values.after_numbers, ages),
        )  # fmt: skip
    of_labels = store.label_values
    if ages > of_labels.after_numbers.shape[1]:
        of_labels = LabelValues(_wider(of_labels.after_numbers, ages))
    if ages:
        store = store._replace(label_values=grown(of_labels, len(store.labels)))
    if keys or ages or streams.regression.any():
        values = grown(values, len(store.predictions))
    return store._replace(values=values, wheels=_wheels(store.wheels, len(streams.clock)))


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
