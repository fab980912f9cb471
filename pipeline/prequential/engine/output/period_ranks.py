"""Expected histograms of the scores of periods: of the labels so far, and of those that will come.

`expecting` gives the numbers of labels to come by predicted class. They are spread over the period's pending
predictions by their scores. In a score bin, the odds of the positive class are those of past labels with the
same predicted class and a similar score, times a factor. The factor is one for each predicted class, so that
the numbers of labels are those expected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, inner, kernel
from prequential.engine.compiled.mathematics import exp
from prequential.engine.delay.expected import ExpectedTables, ranks_at
from prequential.engine.delay.periods import PeriodTables, read_ranks
from prequential.engine.measures.per_class import Positives, positive_of
from prequential.engine.tables.scores import NEGATIVES, POSITIVES, SCORE_BINS

#: How much less past labels count with each score bin between.
_LESS = 0.8

#: The largest logarithm of the factor of odds, and the halvings that find it.
_LARGEST, _HALVINGS = 40.0, 45


class OpenRanks(NamedTuple):
    """Periods of models with two classes whose ranks are estimated."""

    models: Ints  # (n,) rows
    rows: Ints  # of the periods in `PeriodTables`
    blocks: Ints  # of their counters in `ExpectedTables`
    coming: Floats  # as in `PeriodEstimates`
    positive: Ints  # (n,) codes of the positive classes


def expected_histograms(periods: PeriodTables, tables: ExpectedTables, account: OpenRanks) -> Floats:
    """Expected histograms of the scores of periods, (n, `SCORE_WIDTH`)."""
    histograms = read_ranks(periods, account.rows)
    of_models, of_periods = ranks_at(tables.models, account.models, account.blocks)
    codes, classes = tables.models.codes[account.models], tables.models.classes[account.models]
    add_coming(
        tables.of_models.counts, tables.of_periods.counts, of_models, of_periods, account.coming, codes,
        classes, account.positive, np.empty((2, SCORE_BINS)), histograms,
    )  # fmt: skip
    return histograms


@kernel
def put_positives(
    cells: Floats, codes: Ints32, classes: Ints32, positives: Positives, labels: Floats, into: Ints
) -> None:
    """Put the codes of the positive classes of expected matrices, (n, J, K) by places of classes.

    `labels`, (k,): scratch, with room for all classes.
    """
    for i in range(len(cells)):
        labels[:] = 0.0
        for k in range(classes[i]):
            for j in range(cells.shape[1]):
                labels[codes[i, k]] += cells[i, j, k]
        into[i] = positive_of(positives, i, labels)


@kernel
def add_coming(
    faded: Floats, counts: Ints32, of_models: Ints, of_periods: Ints, coming: Floats, codes: Ints32,
    classes: Ints32, positive: Ints, shares: Floats, histograms: Floats,
) -> None:  # fmt: skip
    """Add the expected labels to histograms, (n, `SCORE_WIDTH`); `shares`, (2, `SCORE_BINS`), is scratch."""
    _, predicted, bins, labels = coming.shape
    for i in range(len(coming)):
        for j in range(predicted):
            positives = negatives = 0.0
            place = -1
            for k in range(classes[i]):
                count = 0.0
                for b in range(1, bins):  # the first bin is that of predictions without probabilities
                    count += coming[i, j, b, k]
                if codes[i, k] == positive[i]:
                    place, positives = k, positives + count
                else:
                    negatives += count
            if positives + negatives > 0.0:
                own = faded[of_models[i] + j * SCORE_BINS * labels :][: SCORE_BINS * labels]
                _put_shares(own, labels, place, shares)
                waiting = counts[of_periods[i] + j * SCORE_BINS :][:SCORE_BINS]
                _spread(waiting, shares[0], positives, negatives, histograms[i])


@inner
def _put_shares(own: Floats, labels: int, place: int, shares: Floats) -> None:
    """Put the share of positive labels by score bin into the first row of `shares`, (2, `SCORE_BINS`).

    Labels in other bins count less by their distance; one pseudo-label has the share in all bins.
    `own`: labels by score bin and class; `place`: of the positive class, -1: none has come.
    """
    of_positives = of_others = 0.0
    for s in range(SCORE_BINS):
        of_positives *= _LESS
        of_others *= _LESS
        for k in range(labels):
            if k == place:
                of_positives += own[s * labels + k]
            else:
                of_others += own[s * labels + k]
        shares[0, s], shares[1, s] = of_positives, of_others
    of_positives = of_others = positives = others = 0.0
    for s in range(SCORE_BINS - 1, -1, -1):
        of_positives *= _LESS
        of_others *= _LESS
        shares[0, s] += of_positives
        shares[1, s] += of_others
        for k in range(labels):
            count = own[s * labels + k]
            if k == place:
                of_positives += count
                positives += count
            else:
                of_others += count
                others += count
    whole = (positives + 0.5) / (positives + others + 1.0)
    for s in range(SCORE_BINS):
        shares[0, s] = (shares[0, s] + whole) / (shares[0, s] + shares[1, s] + 1.0)


@inner
def _spread(waiting: Ints32, shares: Floats, positives: float, negatives: float, histogram: Floats) -> None:
    """Add labels to come to a histogram, by the scores of the predictions that wait, (`SCORE_BINS`,)."""
    total, count = positives + negatives, 0.0
    for s in range(SCORE_BINS):
        count += max(0, waiting[s])
    if count <= 0.0:
        return
    low, high = -_LARGEST, _LARGEST
    for _ in range(_HALVINGS):
        factor, wanted = exp((low + high) / 2.0), 0.0
        for s in range(SCORE_BINS):
            if waiting[s] > 0:
                odds = shares[s] * factor
                wanted += waiting[s] * odds / (odds + 1.0 - shares[s])
        if wanted * total < positives * count:
            low = (low + high) / 2.0
        else:
            high = (low + high) / 2.0
    factor = exp((low + high) / 2.0)
    for s in range(SCORE_BINS):
        if waiting[s] > 0:
            odds = shares[s] * factor
            here, share = total * waiting[s] / count, odds / (odds + 1.0 - shares[s])
            histogram[POSITIVES + s] += here * share
            histogram[NEGATIVES + s] += here * (1.0 - share)
