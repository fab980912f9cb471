"""The field `counts` of messages: what became of predictions and labels without an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.compiled.kernel import Ints, kernel
from prequential.engine.delay.accounts import Accounts
from prequential.engine.output.fields import ABSENT, FieldColumns, TextPool
from prequential.engine.tables.streams import AGE, MODEL, Registry

#: Kinds of entities whose messages have a model's own counts.
OF_MODELS = MODEL, AGE

#: The counts, in their order.
_NAMES = (
    "late", "expired", "duplicate", "late_label", "unmatched_label", "after_settle", "revisions", "withdrawn",
    "waiting", "at_horizon", "lost_records", "lost_journal_entries",
)  # fmt: skip


class CountColumns(NamedTuple):
    """The counts of entities' models and streams; entities with the same ones share a row."""

    rows: Ints  # by entity: which row
    streams: Ints  # by row: the stream
    values: Ints  # (rows, counts), in the order of `_NAMES`; `ABSENT`: the row doesn't have this count


def counts_of(catalog: Catalog, accounts: Accounts, rows: Sequence[int]) -> CountColumns:
    """The counts of these entities (rows)."""
    entities = np.array(rows, dtype=np.int64)
    values = np.empty((len(entities), len(_NAMES)), dtype=np.int64)
    values[:, -2:] = (sum(catalog.lost[:3]), catalog.lost[3]) if any(catalog.lost[:4]) else ABSENT
    of_entities, streams = np.empty((2, len(entities)), dtype=np.int64)
    used = _count(entities, catalog.registry, accounts.coverage.models.waiting, of_entities, streams, values)
    return CountColumns(of_entities, streams[:used], values[:used])


@kernel
def _count(
    entities: Ints, registry: Registry, waiting: Ints, of_entities: Ints, streams: Ints, values: Ints
) -> int:
    """Write the counts of entities, by which neighbours may share a row; returns the number of rows.

    `waiting`: by model, its pending predictions. The others are the columns of `CountColumns`.
    """
    by_entity, by_stream = registry.entities, registry.streams
    row, model = -1, np.int64(-1)
    for i in range(len(entities)):
        kind = by_entity.kind[entities[i]]
        stream = np.int64(by_entity.stream[entities[i]])
        own = np.int64(by_entity.model[entities[i]]) if kind in OF_MODELS else np.int64(0)
        if row < 0 or own != model or streams[row] != stream:
            row, model = row + 1, own
            streams[row] = stream
            duplicates = by_stream.duplicate_instances[stream] + by_stream.duplicate_labels[stream]
            values[row, 0] = by_entity.late[model]
            values[row, 1] = by_entity.expired[model]
            values[row, 2] = by_entity.duplicate[model] + duplicates
            values[row, 3] = by_stream.late_label[stream]
            values[row, 4] = by_stream.unmatched_label[stream]
            values[row, 5] = by_stream.after_settle[stream]
            values[row, 6] = by_stream.revisions[stream]
            values[row, 7] = by_stream.withdrawn[stream]
            values[row, 8] = waiting[model] if model else ABSENT
            values[row, 9] = by_entity.at_horizon[model] if by_stream.at_horizon[stream] else ABSENT
        of_entities[i] = row
    return row + 1


def joined(parts: Sequence[CountColumns]) -> CountColumns:
    """The counts of several groups of entities, in the order of the groups."""
    starts = np.cumsum([0, *(len(part.streams) for part in parts)]).tolist()
    return CountColumns(
        np.concatenate([part.rows + start for part, start in zip(parts, starts)]),
        np.concatenate([part.streams for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def add_counts(fields: FieldColumns, counts: CountColumns) -> None:
    """Add the object `counts` to each row of the fields, as many as `counts` has."""
    fields.begin("counts")
    for name, column in zip(_NAMES, counts.values.T):
        fields.whole(name, column)
    fields.end()


def as_objects(counts: CountColumns) -> list[dict[str, int]]:
    """By entity, its counts by name."""
    objects = [
        {name: count for name, count in zip(_NAMES, of_row) if count != ABSENT}
        for of_row in counts.values.tolist()
    ]
    return [objects[row] for row in counts.rows.tolist()]


def reported_numbers(catalog: Catalog, accounts: Accounts, rows: Sequence[int]) -> list[tuple[int, ...]]:
    """By entity (row), the numbers whose changes make a message due: outcomes and revisions.

    Of models, and of their stages at an age, also all `counts` but `at_horizon`. Those of other entities are
    their stream's, and the model's message has these.
    """
    if not len(rows):
        return []
    entities = catalog.columns.entities
    outcomes, revisions = entities.outcomes[rows].tolist(), entities.revisions[rows].tolist()
    kinds = entities.kind[rows].tolist()
    counts = counts_of(catalog, accounts, rows)
    # Labels at the horizon are outcomes anyway; the settings decide whether messages count them.
    values = np.delete(counts.values, _NAMES.index("at_horizon"), axis=1)
    own_counts = [tuple([count for count in of_row if count != ABSENT]) for of_row in values.tolist()]
    return [
        numbers + own_counts[row] if kind in OF_MODELS else numbers
        for numbers, kind, row in zip(zip(outcomes, revisions), kinds, counts.rows.tolist())
    ]


def texts_of(catalog: Catalog, counts: CountColumns, digests: Sequence[str], indices: Ints) -> TextPool:
    """By row of counts, the fields `counts` and `config`.

    `indices`: by row, which of the `digests` its stream's settings have.
    """
    fields = FieldColumns(len(indices))
    add_counts(fields, counts)
    fields.text(TextPool.from_texts([b'"config":"%b"' % digest.encode() for digest in digests]), indices)
    if catalog.untimed:
        fields.constant(b'"untimed":true')
    return fields.written()
