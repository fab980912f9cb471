"""What outcomes are scored by: losses and errors, stakes, seasonal baselines, and estimates by a judge.

*Seasonal baselines.* For a label with the time t1, the baseline is the stream's label with the time t1 -
k·season. k is the smallest one from 1 for which that label had been processed before the prediction. For a
lead beyond a season, this is the seasonal naive forecast y(T + h - m·ceil(h/m)). Revisions don't change a
baseline. Different labels with one time give none: they belong to several series.

Labels are remembered for twice the label horizon, `settle` and a season.

*Estimates by a judge.* The estimate f is 1 or 0. What counts is its deviation e = f - m, with m the mean of
the model's latest estimates, each of weight 1/`MEMORY`. The sum of all deviations is `MEMORY` times the
change of m. So it is limited, however estimates change. A random sample of predictions has the same mean of
e, so about 0: the detector `harm` can subtract a multiple of e from losses (a control variate).

The judge's prediction must come before the label. Estimates aren't used any more once a model predicts an
instance twice: the predictions that count are then no random sample of all predictions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from prequential.engine.compiled.kernel import Floats, inner
from prequential.engine.compiled.pool import Pool, find, insert, remove
from prequential.engine.tables import outcomes
from prequential.engine.tables import store as stores
from prequential.engine.tables.scores import log_loss_of, score_numbers
from prequential.engine.tables.store import Probabilities, Seasons, Store
from prequential.engine.tables.streams import ONE_HASH, Registry, Streams, positive_name
from prequential.topics.messages import NUMBERS

#: The place of `value` among the numbers of records.
AMOUNT = list(NUMBERS).index("value")

#: Columns of labels' values in the state store: the value, and 1 if it is given.
_VALUE, _GIVEN = range(2)


@inner
def note_value(values: Floats, row: int, value: float) -> None:
    """Note a label's value in its row; below 0 or NaN: it has none."""
    has_value = value >= 0.0
    values[row, _VALUE], values[row, _GIVEN] = value if has_value else 0.0, 1.0 if has_value else 0.0


@inner
def note_stake(
    columns: Any, row: int, numbers: Floats, prediction: int, of_labels: Floats, label: int
) -> None:
    """Fill in the stake in a row of the outcome log or of events: the label's value, or the prediction's.

    `numbers` are those of predictions.
    """
    columns.valued[row] = 1
    if of_labels[label, _GIVEN] > 0.0:
        columns.stake[row] = of_labels[label, _VALUE]
    elif numbers[prediction, AMOUNT] >= 0.0:
        columns.stake[row] = numbers[prediction, AMOUNT]
    else:
        columns.valued[row] = 0


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
    season[prediction, stores.SEEN] = registry.streams.labels[stream]
    season[prediction, stores.BASELINE] = season[prediction, stores.FOUND] = 0.0


@inner
def see_less(store: Store, stream: int, prediction: int, t1: int) -> None:
    """Let a prediction that is processed after its label see the labels before that label only."""
    row = find(store.season_pool, stream, t1)
    if row:
        season = store.values.season
        season[prediction, stores.SEEN] = min(season[prediction, stores.SEEN], store.seasons.order[row] - 1)


@inner
def find_baseline(registry: Registry, store: Store, stream: int, prediction: int, t1: int) -> None:
    """Note the baseline of a prediction whose label has the time t1."""
    seasons, season = store.seasons, store.values.season
    since, step = _remembered_since(registry.streams, stream), registry.streams.season[stream]
    time = t1 - step
    while time >= since:
        row = find(store.season_pool, stream, time)
        if row and seasons.order[row] <= season[prediction, stores.SEEN]:
            if not math.isnan(seasons.value[row]):
                season[prediction, stores.BASELINE] = seasons.value[row]
                season[prediction, stores.FOUND] = 1.0
            return
        time -= step


@inner
def score(
    columns: Any, row: int, registry: Registry, store: Store, stream: int, slot: int, prediction: int,
    label: int,
) -> None:  # fmt: skip
    """Fill the score's columns of a row, of the outcome log or of the log of events.

    Log loss is -ln p(label), and Brier's score is Σ_c (p(c) - [c = label])²; a class that the record doesn't
    name has p = 0. For regression, the error is prediction - label. The weight is 1/π, where π is the
    probability that the instance gets a label. If the stream has a value of `top_k`, the label's probability
    is ranked. If the prediction has quantiles, their score is filled in; `score_numbers` fills in what its
    further numbers give.
    """
    columns.scored[row] = 0
    streams, classes = registry.streams, registry.classes
    by_settings = store.labels.completed[store.instances.label[slot]] >= streams.settings_since[stream]
    predictions, probabilities = store.predictions, store.probabilities
    if streams.regression[stream]:
        y = store.labels.number[store.instances.label[slot]]
        columns.scored[row] = outcomes.SCORED
        columns.error[row] = store.values.number[prediction, 0] - y
        columns.value[row] = y
        score_numbers(columns, row, registry, stream, store.values, prediction, y, by_settings)
        if streams.quantiles[stream] and predictions.probabilities[prediction]:
            columns.scored[row] |= outcomes.OF_QUANTILES
            columns.log_loss[row] = interval_score(probabilities, predictions.probabilities[prediction], y)
    elif predictions.probabilities[prediction]:
        start = streams.classes[stream]
        truth, answer = classes.name[start + label], classes.name[start + predictions.label[prediction]]
        positive = positive_name(streams, classes, stream, label)
        p_label = p_prediction = p_positive = brier = 0.0
        named = False
        entry = predictions.probabilities[prediction]
        while entry:
            named |= probabilities.name[entry] == truth
            entry = probabilities.next[entry]
        if not named:
            brier = 1.0
        entry = predictions.probabilities[prediction]
        while entry:
            name, p = probabilities.name[entry], probabilities.p[entry]
            off = p - 1.0 if name == truth else p
            brier += off * off
            if name == truth:
                p_label = p
            if name == answer:
                p_prediction = p
            if name == positive:
                p_positive = p
            entry = probabilities.next[entry]
        columns.scored[row] = outcomes.SCORED
        if not positive:
            columns.scored[row] |= outcomes.NO_POSITIVE
        elif positive == ONE_HASH and not streams.positive[stream]:
            columns.scored[row] |= outcomes.POSITIVE_IS_ONE
        top = registry.settings.top_k[stream]
        if by_settings and top > 0.0:
            columns.scored[row] |= outcomes.RANKED
            first = predictions.probabilities[prediction]
            share = top_share(probabilities, first, p_label, top) if named else 0.0
            if share >= 1.0:
                columns.scored[row] |= outcomes.IN_TOP
            columns.width[row] = share if share < 1.0 else 0.0
        columns.log_loss[row] = log_loss_of(p_label)
        columns.brier[row] = brier
        columns.confidence[row] = p_prediction
        columns.positive[row] = p_positive
        columns.is_positive[row] = truth == positive
    weigh(columns, row, registry, store, stream, slot)


@inner
def interval_score(quantiles: Probabilities, first: int, y: float) -> float:
    """2/Q·Σ_q max(q·(y - h_q), (q - 1)·(y - h_q)) of the Q quantiles in the list from row `first` on."""
    total, count, entry = 0.0, 0, first
    while entry:
        level, off = quantiles.name[entry] * stores.LEVEL, y - quantiles.p[entry]
        total += max(level * off, (level - 1.0) * off)
        count += 1
        entry = quantiles.next[entry]
    return 2.0 * total / count


@inner
def top_share(probabilities: Probabilities, first: int, p_label: float, k: float) -> float:
    """Share of all orders of equal probabilities in which a class is among the first k.

    The class is in the list from row `first` on, and `p_label` is its probability. If L probabilities are
    larger and T are equal, k - L of the equal ones are among the first k.
    """
    larger = equal = 0
    entry = first
    while entry:
        p = probabilities.p[entry]
        if p > p_label:
            larger += 1
        elif p == p_label:
            equal += 1
        entry = probabilities.next[entry]
    return min(1.0, max(0.0, (k - larger) / equal))


@inner
def weigh(columns: Any, row: int, registry: Registry, store: Store, stream: int, slot: int) -> None:
    """Fill in the weight of a row's label, if its propensity is given and a measure needs it."""
    if registry.streams.weights[stream] and store.marks.propensity[slot, 0] > 0:
        columns.scored[row] |= outcomes.WEIGHTED
        columns.weight[row] = 1.0 / store.marks.propensity[slot, 0]


#: Predictions whose mean estimates are compared with: their own chance adds 1/63 to the variance of e.
MEMORY = 32

#: In `Entities.judged`: estimates of a model aren't used.
_UNUSED = -1


@inner
def estimate(registry: Registry, store: Store, stream: int, slot: int, row: int) -> None:
    """Estimate the losses for which a prediction, the last one of its instance's list, allows it."""
    predictions, judge = store.predictions, registry.streams.judge[stream]
    model, verdict = predictions.model[row], 0
    prediction = first = store.instances.first[slot]
    while prediction:
        if predictions.model[prediction] == judge and not verdict:
            verdict = prediction
        if prediction != row and predictions.model[prediction] == model:
            registry.entities.judged[model] = _UNUSED
        prediction = predictions.next[prediction]
    if not verdict:
        return
    if model != judge:
        _compare(registry, store, row, verdict)
    elif row == verdict and store.instances.state[slot] != stores.SETTLED:
        prediction = first
        while prediction != row:
            _compare(registry, store, prediction, verdict)
            prediction = predictions.next[prediction]


@inner
def _compare(registry: Registry, store: Store, row: int, verdict: int) -> None:
    """Note the deviation of a prediction's estimate, by the judge's prediction."""
    entities, predictions = registry.entities, store.predictions
    model = predictions.model[row]
    count = entities.judged[model]
    if count == _UNUSED:
        return
    f = 1.0 if predictions.label[row] != predictions.label[verdict] else 0.0
    if not count:
        entities.disagreement[model] = f
    e = f - entities.disagreement[model]
    entities.judged[model] = count + 1
    entities.disagreement[model] += e / min(count + 1, MEMORY)
    store.values.estimate[row, 0] = e


@inner
def estimate_of(registry: Registry, store: Store, prediction: int) -> float:
    """The deviation of a prediction's estimate; 0: it has none, or it isn't used."""
    used = registry.entities.judged[store.predictions.model[prediction]] > 0
    return float(store.values.estimate[prediction, 0]) if used else 0.0
