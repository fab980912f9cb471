"""Scores of outcomes, next to their cells: losses of probabilities, or the error of a number."""

from __future__ import annotations

from typing import Any

from prequential.engine.compiled.kernel import inner
from prequential.engine.tables.outcomes import (
    IN_TOP,
    NO_POSITIVE,
    OF_QUANTILES,
    POSITIVE_IS_ONE,
    RANKED,
    SCORED,
    SEASONAL,
    WEIGHTED,
)
from prequential.engine.tables.scores import log_loss_of, score_numbers
from prequential.engine.tables.store import BASELINE, FOUND, LEVEL, Probabilities, Store
from prequential.engine.tables.streams import ONE_HASH, Registry, positive_name


@inner
def score(
    columns: Any, row: int, registry: Registry, store: Store, stream: int, slot: int, prediction: int,
    label: int,
) -> None:  # fmt: skip
    """Fill the score's columns of a row, of the outcome log or of the log of events.

    Log loss is -ln p(label), and Brier's score is Σ_c (p(c) - [c = label])²; a class that the record doesn't
    name has p = 0. For regression, the error is prediction - label. The weight is 1/π, where π is the
    probability that the instance gets a label. If the stream's `top` is set, the label's probability is
    ranked. If the prediction has quantiles or a seasonal baseline, their score and its error are filled in;
    `score_numbers` fills in what its further numbers give.
    """
    columns.scored[row] = 0
    streams, classes = registry.streams, registry.classes
    predictions, probabilities = store.predictions, store.probabilities
    if streams.regression[stream]:
        y = store.labels.number[store.instances.label[slot]]
        columns.scored[row] = SCORED
        columns.error[row] = store.values.number[prediction, 0] - y
        columns.value[row] = y
        if streams.reads[stream]:
            score_numbers(columns, row, streams.reads[stream], store.values.numbers, prediction, y)
        if streams.season[stream] and store.values.season[prediction, FOUND] > 0.0:
            columns.scored[row] |= SEASONAL
            columns.brier[row] = store.values.season[prediction, BASELINE] - y
        if streams.quantiles[stream] and predictions.probabilities[prediction]:
            columns.scored[row] |= OF_QUANTILES
            columns.log_loss[row] = interval_score(probabilities, predictions.probabilities[prediction], y)
    elif predictions.probabilities[prediction]:
        start = streams.classes[stream]
        truth, answer = classes.name[start + label], classes.name[start + predictions.label[prediction]]
        positive = positive_name(streams, classes, stream, label)
        p_label = p_prediction = p_positive = brier = 0.0
        named = False
        one = predictions.probabilities[prediction]
        while one:
            named |= probabilities.name[one] == truth
            one = probabilities.next[one]
        if not named:
            brier = 1.0
        one = predictions.probabilities[prediction]
        while one:
            name, p = probabilities.name[one], probabilities.p[one]
            off = p - 1.0 if name == truth else p
            brier += off * off
            if name == truth:
                p_label = p
            if name == answer:
                p_prediction = p
            if name == positive:
                p_positive = p
            one = probabilities.next[one]
        columns.scored[row] = SCORED
        if not positive:
            columns.scored[row] |= NO_POSITIVE
        elif positive == ONE_HASH and not streams.positive[stream]:
            columns.scored[row] |= POSITIVE_IS_ONE
        if streams.top[stream]:
            columns.scored[row] |= RANKED
            first = predictions.probabilities[prediction]
            share = top_share(probabilities, first, p_label, streams.top[stream]) if named else 0.0
            if share >= 1.0:
                columns.scored[row] |= IN_TOP
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
    total, count, one = 0.0, 0, first
    while one:
        level, off = quantiles.name[one] * LEVEL, y - quantiles.p[one]
        total += max(level * off, (level - 1.0) * off)
        count += 1
        one = quantiles.next[one]
    return 2.0 * total / count


@inner
def top_share(probabilities: Probabilities, first: int, p_label: float, k: int) -> float:
    """Share of all orders of equal probabilities in which a class is among the first k.

    The class is in the list from row `first` on, and `p_label` is its probability. If L probabilities are
    larger and T are equal, k - L of the equal ones are among the first k.
    """
    larger = equal = 0
    one = first
    while one:
        p = probabilities.p[one]
        if p > p_label:
            larger += 1
        elif p == p_label:
            equal += 1
        one = probabilities.next[one]
    return min(1.0, max(0.0, (k - larger) / equal))


@inner
def weigh(columns: Any, row: int, registry: Registry, store: Store, stream: int, slot: int) -> None:
    """Fill in the weight of a row's label, if its propensity is given and a measure needs it."""
    if registry.streams.weights[stream] and store.marks.propensity[slot, 0] > 0:
        columns.scored[row] |= WEIGHTED
        columns.weight[row] = 1.0 / store.marks.propensity[slot, 0]
