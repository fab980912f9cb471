"""The field `counts` of messages: what became of predictions and labels without an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.compiled.kernel import Ints
from prequential.engine.delay.accounts import Accounts
from prequential.engine.output.fields import ABSENT, FieldColumns, TextPool
from prequential.engine.tables.streams import AGE, MODEL

#: Kinds of entities whose messages have a model's own counts.
OF_MODELS = MODEL, AGE


class CountColumns(NamedTuple):
    """The counts of entities' models and streams; entities with the same ones share a row."""

    rows: Ints  # by entity: which row
    streams: Ints  # by row: the stream
    columns: dict[str, Ints]  # by name; `ABSENT`: the row doesn't have this count


def counts_of(catalog: Catalog, accounts: Accounts, rows: Sequence[int]) -> CountColumns:
    """The counts of these entities (rows)."""
    streams, entities = catalog.columns.streams, catalog.columns.entities
    of_rows, kinds = entities.stream[rows], entities.kind[rows]
    of_models = np.where(np.isin(kinds, OF_MODELS), entities.model[rows], 0)
    keys = of_rows.astype(np.int64) << 32 | of_models
    unique, back = np.unique(keys, return_inverse=True)
    stream_codes, models = unique >> 32, unique & 0xFFFFFFFF
    has_waiting, closes = models != 0, streams.at_horizon[stream_codes] != 0
    columns: dict[str, Any] = {
        "late": entities.late[models],
        "expired": entities.expired[models],
        "duplicate": entities.duplicate[models] + streams.duplicate_instances[stream_codes]
        + streams.duplicate_labels[stream_codes],
        "late_label": streams.late_label[stream_codes],
        "unmatched_label": streams.unmatched_label[stream_codes],
        "after_settle": streams.after_settle[stream_codes],
        "revisions": streams.revisions[stream_codes],
        "withdrawn": streams.withdrawn[stream_codes],
        "waiting": _where(has_waiting, accounts.coverage.models.waiting[models]),
        "at_horizon": _where(closes, entities.at_horizon[models]),
    }  # fmt: skip
    if any(catalog.lost[:4]):
        columns["lost_records"] = np.full(len(unique), sum(catalog.lost[:3]))
        columns["lost_journal_entries"] = np.full(len(unique), catalog.lost[3])
    present = {name: column.astype(np.int64) for name, column in columns.items() if column is not None}
    return CountColumns(back, stream_codes, present)


def _where(has_count: npt.NDArray[np.bool_], column: Any) -> Ints | None:
    """The column where a row has this count; None if no row has it."""
    return np.where(has_count, column.astype(np.int64), ABSENT) if has_count.any() else None


def add_counts(fields: FieldColumns, counts: CountColumns) -> None:
    """Add the object `counts` to each row of the fields, as many as `counts` has."""
    fields.begin("counts")
    for name, column in counts.columns.items():
        fields.whole(name, column)
    fields.end()


def as_objects(counts: CountColumns) -> list[dict[str, int]]:
    """By entity, its counts by name."""
    names = tuple(counts.columns)
    objects = [
        {name: count for name, count in zip(names, of_row) if count != ABSENT}
        for of_row in zip(*(column.tolist() for column in counts.columns.values()))
    ]
    return [objects[row] for row in counts.rows.tolist()]


def reported_numbers(catalog: Catalog, accounts: Accounts, rows: Sequence[int]) -> list[tuple[int, ...]]:
    """By entity (row), the numbers whose changes make a message due: outcomes and revisions.

    Of models, and of their stages at an age, also all `counts`. Those of other entities are their stream's,
    and the model's message has these.
    """
    if not len(rows):
        return []
    entities = catalog.columns.entities
    outcomes, revisions = entities.outcomes[rows].tolist(), entities.revisions[rows].tolist()
    has_counts = np.isin(entities.kind[rows], OF_MODELS).tolist()
    counts = counts_of(catalog, accounts, rows)
    own_counts = [
        tuple(count for count in of_row if count != ABSENT) if ABSENT in of_row else of_row
        for of_row in zip(*(column.tolist() for column in counts.columns.values()))
    ]
    return [
        numbers + own_counts[row] if has_own else numbers
        for numbers, has_own, row in zip(zip(outcomes, revisions), has_counts, counts.rows.tolist())
    ]


def texts_of(catalog: Catalog, counts: CountColumns, digests: Sequence[str]) -> TextPool:
    """By row of counts, the fields `counts` and `config`; `digests`: by row, of its stream's settings."""
    numbers: dict[str, int] = {}
    indices = np.array([numbers.setdefault(digest, len(numbers)) for digest in digests], dtype=np.int64)
    fields = FieldColumns(len(digests))
    add_counts(fields, counts)
    fields.text(TextPool.from_texts([b'"config":"%b"' % digest.encode() for digest in numbers]), indices)
    if catalog.untimed:
        fields.constant(b'"untimed":true')
    return fields.written()
