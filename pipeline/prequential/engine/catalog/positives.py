"""What decides which class is positive, as arrays for compiled loops."""

from __future__ import annotations

import numpy as np
from prequential.engine.catalog.catalog import Catalog, PositivesByStream
from prequential.engine.catalog.plans import Plan
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.kernel import Ints32
from prequential.engine.measures.per_class import Positives


def positives_of_plan(catalog: Catalog, plan: Plan) -> Positives:
    """Return the positives of a plan's sequences."""
    return positives_by_owner(catalog, plan.owner)


def positives_by_owner(catalog: Catalog, owner: Ints32) -> Positives:
    """Return the positives of rows; `owner` has the stream's code for each row, (n,) int32."""
    if catalog.positives is None or catalog.positives.changes != catalog.class_changes:
        catalog.positives = PositivesByStream(catalog.class_changes, _of_streams(catalog))
    return catalog.positives.table._replace(owner=owner)


def _of_streams(catalog: Catalog) -> Positives:
    """Return the positives of all streams, for no rows."""
    registry, streams = catalog.registry, len(catalog.streams)
    s = registry.streams
    columns = s.positive_code, s.classes, s.class_count, registry.classes.meaning, s.quantile
    # Copies, because loops would be compiled once for columns of records and again for those of one record.
    code, classes, count, meaning, quantile = map(np.ascontiguousarray, columns)
    prices, sets = catalog.prices.tables(registry, streams), catalog.label_sets.tables(registry, streams)
    nobody = np.zeros(0, dtype=np.int32)
    return Positives(nobody, code, classes, count, meaning, *prices, quantile, *sets)


def positives_of_stream(catalog: Catalog, stream: Stream) -> Positives:
    """Return the positives of one stream, where every sequence has number 0."""
    registry, streams = catalog.registry, len(catalog.streams)
    s, code, nothing = registry.streams, stream.code, np.zeros(1, dtype=np.int32)
    first, count = int(s.classes[code]), int(s.class_count[code])
    meaning = np.ascontiguousarray(registry.classes.meaning[first : first + count])
    priced, costs = catalog.prices.tables(registry, streams)
    sets, members = catalog.label_sets.tables(registry, streams)
    return Positives(
        nothing, s.positive_code[[code]], nothing, s.class_count[[code]], meaning,
        priced[code : code + 1], costs[first : first + count], s.quantile[[code]],
        sets[code : code + 1], members[first : first + count],
    )  # fmt: skip
