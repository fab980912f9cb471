"""The `counts` of messages: records that gave no outcome (`docs/reference/semantics-time.md`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.tables.streams import AGE, MODEL


def counts_of(catalog: Catalog, rows: Sequence[int]) -> list[dict[str, int]]:
    """The `counts` of entities' messages: their models' and their streams'.

    Entities with the same counts share one object.
    """
    streams, entities = catalog.columns.streams, catalog.columns.entities
    of_rows, kinds = entities.stream[rows], entities.kind[rows]
    of_models = np.where((kinds == MODEL) | (kinds == AGE), entities.model[rows], 0)
    keys = of_rows.astype(np.int64) << 32 | of_models
    unique, back = np.unique(keys, return_inverse=True)
    at, models = unique >> 32, unique & 0xFFFFFFFF
    columns = {
        "late": entities.late[models],
        "expired": entities.expired[models],
        "duplicate": entities.duplicate[models] + streams.duplicate_instances[at]
        + streams.duplicate_labels[at],
        "late_label": streams.late_label[at],
        "unmatched_label": streams.unmatched_label[at],
        "after_settle": streams.after_settle[at],
        "revisions": streams.revisions[at],
        "withdrawn": streams.withdrawn[at],
    }  # fmt: skip
    names = tuple(columns)
    closes = streams.at_horizon[at].tolist()
    at_horizon = entities.at_horizon[models].tolist()
    lost = catalog.lost
    beyond = {"lost_records": sum(lost[:3]), "lost_journal_entries": lost[3]} if any(lost[:4]) else {}
    values = zip(*(column.tolist() for column in columns.values()))
    counts = [
        dict(zip(names, values_of_row)) | ({"at_horizon": closed} if has_class else {}) | beyond
        for values_of_row, has_class, closed in zip(values, closes, at_horizon)
    ]
    return [counts[place] for place in back.tolist()]
