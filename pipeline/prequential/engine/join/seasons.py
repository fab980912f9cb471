"""Seasonal baselines of forecasts: an earlier label, a whole number of seasons before the predicted one.

For a label with the time t1, the baseline is the stream's label with the time t1 - k·season. k is the
smallest one from 1 for which that label had been processed before the prediction. For a lead beyond a season,
this is the seasonal naive forecast y(T + h - m·ceil(h/m)). Revisions don't change a baseline. Different
labels with one time give none: they belong to several series.

Labels are remembered for twice the label horizon, `settle` and a season.
"""

from __future__ import annotations

import math

import numpy as np
from prequential.engine.compiled.kernel import inner
from prequential.engine.compiled.pool import Pool, find, insert, remove
from prequential.engine.tables.store import BASELINE, FOUND, SEEN, Seasons, Store
from prequential.engine.tables.streams import Registry, Streams


@inner
def note_label(registry: Registry, store: Store, stream: int, t1: int, y: float) -> None:
    """Remember a stream's next label."""
    streams, seasons, pool = registry.streams, store.seasons, store.season_pool
    clock, since = streams.clock[stream], _remembered_since(streams, stream)
    if since >= seasons.swept[stream]:
        _sweep(seasons, pool, stream, since)
        seasons.swept[stream] = clock
    streams.labels[stream] += 1
    row = find(pool, stream, t1)
    if not row:
        row = insert(pool, seasons.first, stream, t1)
        seasons.order[row], seasons.value[row] = streams.labels[stream], y
    elif seasons.value[row] != y:
        seasons.value[row] = np.nan


@inner
def _remembered_since(streams: Streams, stream: int) -> int:
    """The time from which a stream's labels are baselines."""
    span = 2 * streams.horizon[stream] + streams.settle[stream] + streams.season[stream]
    return np.int64(streams.clock[stream]) - span


@inner
def _sweep(seasons: Seasons, pool: Pool, stream: int, since: int) -> None:
    """Forget labels before a time."""
    before, row = 0, np.int64(seasons.first[stream])
    while row:
        if pool.key[row] < since:
            row = remove(pool, seasons.first, stream, before, row)
        else:
            before, row = row, np.int64(pool.next[row])


@inner
def note_seen(registry: Registry, store: Store, stream: int, prediction: int) -> None:
    """Note how many labels a prediction's stream has when the prediction is processed."""
    season = store.values.season
    season[prediction, SEEN] = registry.streams.labels[stream]
    season[prediction, BASELINE] = season[prediction, FOUND] = 0.0


@inner
def see_less(store: Store, stream: int, prediction: int, t1: int) -> None:
    """Let a prediction that is processed after its label see the labels before that label only."""
    row = find(store.season_pool, stream, t1)
    if row:
        season = store.values.season
        season[prediction, SEEN] = min(season[prediction, SEEN], store.seasons.order[row] - 1)


@inner
def find_baseline(registry: Registry, store: Store, stream: int, prediction: int, t1: int) -> None:
    """Note the baseline of a prediction whose label has the time t1."""
    seasons, season = store.seasons, store.values.season
    since, step = _remembered_since(registry.streams, stream), registry.streams.season[stream]
    time = t1 - step
    while time >= since:
        row = find(store.season_pool, stream, time)
        if row and seasons.order[row] <= season[prediction, SEEN]:
            if not math.isnan(seasons.value[row]):
                season[prediction, BASELINE], season[prediction, FOUND] = seasons.value[row], 1.0
            return
        time -= step
