"""The table of measures: from cells and sums to all columns of values and reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from prequential.core import measures as column
from prequential.core.compiled.kernel import Floats, Ints, inner, kernel
from prequential.core.compiled.mathematics import product, total
from prequential.core.measures import (
    EMPTY,
    NO_LABEL_KNOWN,
    NO_POSITIVE,
    NO_POSITIVE_CLASS,
    NO_PROBABILITIES,
    NO_PROPENSITY,
    NOT_A_WINDOW,
    NOT_CLASSIFICATION,
    NOT_REGRESSION,
    ZERO_DENOMINATOR,
    agreement,
    per_class,
    probabilistic,
    regression,
    weighted,
)
from prequential.core.measures.agreement import Totals
from prequential.core.measures.per_class import Classes, binary, new_classes
from prequential.core.measures.positive import Positives, positive_of
from prequential.core.tables.scores import NOTHING, SCORED


@inner
def _others(values: Floats, others: Floats) -> None:
    """others[i] = Σ_{j≠i} values[j], from both sides instead of as a difference from the whole."""
    before = after = 0.0
    for i in range(len(values)):
        others[i] = before
        before += values[i]
    for i in range(len(values) - 1, -1, -1):
        others[i] += after
        after += values[i]


@kernel
def sum_up(cells: Floats, c: Classes) -> Totals:
    """Fill `c` from joint cells. All sums go by class, so room for more of them changes no bit."""
    k = len(c.labels)
    persistent = persistent_wrong = majority = majority_wrong = 0.0
    for i in range(k):
        c.missed[i] = c.false[i] = c.rest[i] = 0.0
    row = c.labels  # of the matrix: what they are to hold is known at the end
    for y in range(k):
        before = after = 0.0
        for h in range(k):
            at = (y * k + h) * 4
            none, only_majority = cells[at], cells[at + 1]
            only_persistent, both = cells[at + 2], cells[at + 3]
            cell = (none + only_majority) + (only_persistent + both)
            row[h] = cell
            if cell > 0.0:
                persistent += only_persistent + both
                persistent_wrong += none + only_majority
                majority += only_majority + both
                majority_wrong += none + only_persistent
            if h == y:
                c.hits[y] = cell
            else:
                c.missed[y] += cell
                c.false[h] += cell
                c.rest[h] += before
            before += cell
        for h in range(k - 1, -1, -1):
            if h != y:
                c.rest[h] += after
            after += row[h]
    right = wrong = 0.0
    for i in range(k):
        c.labels[i] = c.hits[i] + c.missed[i]
        c.predictions[i] = c.hits[i] + c.false[i]
        right += c.hits[i]
        wrong += c.missed[i]
    _others(c.labels, c.other_labels)
    _others(c.predictions, c.other_predictions)
    chance = beyond = low = label_pairs = prediction_pairs = together = apart = 0.0
    for i in range(k):
        chance += c.labels[i] * c.predictions[i]
        pairs, pairs_low = product(c.labels[i], c.other_predictions[i])
        beyond, short = total(beyond, pairs)
        low += short + pairs_low
        label_pairs += c.labels[i] * c.other_labels[i]
        prediction_pairs += c.predictions[i] * c.other_predictions[i]
        # hits·n - labels·predictions, with all that cancels left out:
        together += c.hits[i] * c.rest[i]
        apart += c.missed[i] * c.false[i]
    beyond, low = total(beyond, low)
    return Totals(
        right + wrong, right, wrong, persistent, persistent_wrong, majority, majority_wrong,
        chance, beyond, low, label_pairs, prediction_pairs, together - apart,
        together + apart,
    )  # fmt: skip


@inner
def expect(t: Totals, c: Classes) -> Totals:
    """What is expected of random predictions with the same distribution, in n-fold counts; `c` is made so.

    The cell (i, j) has labels of i · predictions of j (2015 paper, section 4.1: the random classifier).
    """
    for i in range(len(c.labels)):
        y, h, not_y, not_h = c.labels[i], c.predictions[i], c.other_labels[i], c.other_predictions[i]
        c.hits[i], c.missed[i], c.false[i], c.rest[i] = y * h, y * not_h, not_y * h, not_y * not_h
        c.labels[i], c.predictions[i] = y * h + y * not_h, y * h + not_y * h
    n = t.chance + t.beyond_chance
    beyond, low = product(t.beyond_chance, n)
    return Totals(
        n, t.chance, t.beyond_chance,
        t.persistent * t.n, t.persistent_wrong * t.n, t.majority * t.n, t.majority_wrong * t.n,
        t.chance * n, beyond, low, t.label_pairs * n, t.prediction_pairs * n, 0.0, 0.0,
    )  # fmt: skip


@inner
def _fill(values: Floats, reasons: Ints, reason: int) -> None:
    """No measure has a value, for this reason."""
    for at in range(len(values)):
        values[at] = 0.0
        reasons[at] = reason


@inner
def _refuse_infinite(values: Floats, reasons: Ints) -> None:
    """Sums are infinite of numbers near the largest; measures of them have no value."""
    for at in range(len(values)):
        if not math.isfinite(values[at]):
            values[at] = 0.0
            reasons[at] = ZERO_DENOMINATOR


@inner
def _put_matrix(t: Totals, c: Classes, positive: int, values: Floats, reasons: Ints) -> None:
    """What is made of the matrix; and why the rest has no value where there are no scores."""
    values[column.ERROR], reasons[column.ERROR] = agreement.error(t)
    values[column.ACCURACY], reasons[column.ACCURACY] = agreement.accuracy(t)
    values[column.KAPPA], reasons[column.KAPPA] = agreement.kappa(t)
    values[column.KAPPA_SE], reasons[column.KAPPA_SE] = agreement.kappa_se(t)
    values[column.KAPPA_Z], reasons[column.KAPPA_Z] = agreement.kappa_z(t)
    values[column.P_PER], reasons[column.P_PER] = agreement.p_per(t)
    values[column.KAPPA_PER], reasons[column.KAPPA_PER] = agreement.kappa_per(t)
    values[column.P_MAJ], reasons[column.P_MAJ] = agreement.p_maj(t)
    values[column.KAPPA_MAJ], reasons[column.KAPPA_MAJ] = agreement.kappa_maj(t)
    values[column.KAPPA_PLUS], reasons[column.KAPPA_PLUS] = agreement.kappa_plus(t)
    values[column.MCC], reasons[column.MCC] = agreement.mcc(t)
    values[column.P_RAN], reasons[column.P_RAN] = agreement.p_ran(t)
    values[column.BALANCED_ACCURACY], reasons[column.BALANCED_ACCURACY] = per_class.balanced_accuracy(c)
    values[column.G_MEAN], reasons[column.G_MEAN] = per_class.g_mean(c)
    values[column.MACRO_PRECISION], reasons[column.MACRO_PRECISION] = per_class.macro_precision(c)
    values[column.MACRO_RECALL], reasons[column.MACRO_RECALL] = per_class.macro_recall(c)
    values[column.MACRO_F1], reasons[column.MACRO_F1] = per_class.macro_f1(c)
    values[column.WEIGHTED_F1], reasons[column.WEIGHTED_F1] = per_class.weighted_f1(c)
    if positive == NO_POSITIVE:
        for at in (column.PRECISION, column.RECALL, column.SPECIFICITY, column.F1, column.AUC):
            reasons[at] = NO_POSITIVE_CLASS
    else:
        b = binary(t.n, c, positive)
        values[column.PRECISION], reasons[column.PRECISION] = per_class.precision(b)
        values[column.RECALL], reasons[column.RECALL] = per_class.recall(b)
        values[column.SPECIFICITY], reasons[column.SPECIFICITY] = per_class.specificity(b)
        values[column.F1], reasons[column.F1] = per_class.f1(b)
        reasons[column.AUC] = NO_PROBABILITIES
    for at in (column.LOG_LOSS, column.BRIER, column.ECE):
        reasons[at] = NO_PROBABILITIES
    for at in (column.IPW_ACCURACY, column.IPW_N):
        reasons[at] = NO_PROPENSITY


@inner
def _put_scores(sums: Floats, positive: int, values: Floats, reasons: Ints) -> None:
    """What is made of scores."""
    values[column.LOG_LOSS], reasons[column.LOG_LOSS] = probabilistic.log_loss(sums)
    values[column.BRIER], reasons[column.BRIER] = probabilistic.brier(sums)
    values[column.ECE], reasons[column.ECE] = probabilistic.ece(sums)
    values[column.IPW_ACCURACY], reasons[column.IPW_ACCURACY] = weighted.ipw_accuracy(sums)
    values[column.IPW_N], reasons[column.IPW_N] = weighted.ipw_n(sums)
    if positive != NO_POSITIVE and sums[SCORED] >= NOTHING:  # there may be weights alone
        reasons[column.AUC] = NOT_A_WINDOW


@inner
def _refuse_baselines(values: Floats, reasons: Ints) -> None:
    """Baselines that had no label to predict by say nothing; nor does what is made of them."""
    for at in (column.P_PER, column.KAPPA_PER, column.P_MAJ, column.KAPPA_MAJ, column.KAPPA_PLUS):
        values[at], reasons[at] = 0.0, NO_LABEL_KNOWN


@inner
def _put_measures(
    t: Totals, c: Classes, positive: int, sums: Floats, scored: bool, values: Floats, reasons: Ints
) -> None:
    _fill(values, reasons, NOT_REGRESSION if t.n > 0.0 else EMPTY)
    if t.n > 0.0:
        _put_matrix(t, c, positive, values, reasons)
        if scored:
            _put_scores(sums, positive, values, reasons)
        _refuse_infinite(values, reasons)


@inner
def _put_expected(t: Totals, c: Classes, positive: int, values: Floats, reasons: Ints) -> None:
    _fill(values, reasons, NOT_REGRESSION if t.n > 0.0 else EMPTY)
    if t.n > 0.0:
        _put_matrix(expect(t, c), c, positive, values, reasons)
        values[column.KAPPA_SE] *= math.sqrt(t.n)  # of n outcomes; the expected matrix has n-fold counts
        _refuse_infinite(values, reasons)


@kernel
def measure_cells(
    cells: Floats, c: Classes, positives: Positives, sequence: int, chance: bool, known: bool, sums: Floats,
    scored: bool, values: Floats, reasons: Ints,
) -> None:  # fmt: skip
    """All measures of classes, from joint cells and, if there are such, sums of scores; `c` is for scratch.

    The positive class is the configured one or what the sequence's labels in memory say. The `auc` of a
    window is the caller's to fill in (see `area`). `known`: whether baselines had a label to predict by at
    any of the outcomes.

    With `chance`, those of random predictions with the model's own distribution, which have no probabilities.
    In closed form: measures of the expected matrix. Nothing random is done.
    """
    t = sum_up(cells, c)
    positive = positive_of(positives, sequence, c.labels)
    if chance:
        _put_expected(t, c, positive, values, reasons)
    else:
        _put_measures(t, c, positive, sums, scored, values, reasons)
    if t.n > 0.0 and not known:
        _refuse_baselines(values, reasons)


@kernel
def measure_numbers(sums: Floats, scored: bool, spread: float, values: Floats, reasons: Ints) -> None:
    """All measures of numbers; `spread` is Σ(y - ȳ)² of the labels in memory."""
    some = scored and sums[SCORED] >= NOTHING
    _fill(values, reasons, NOT_CLASSIFICATION if some else EMPTY)
    if some:
        values[column.MAE], reasons[column.MAE] = regression.mae(sums)
        values[column.MSE], reasons[column.MSE] = regression.mse(sums)
        values[column.RMSE], reasons[column.RMSE] = regression.rmse(sums)
        values[column.BIAS], reasons[column.BIAS] = regression.bias(sums)
        values[column.R2], reasons[column.R2] = regression.r2(sums, spread)
        _refuse_infinite(values, reasons)


def classes_of(rows: Sequence[Sequence[float]]) -> Classes:
    """What is summed up of a matrix of labels (rows) and predictions.

    >>> classes_of([[40, 10], [5, 45]]).predictions.tolist()
    [45.0, 55.0]
    """
    classes = new_classes(len(rows))
    sum_up(_cells_of(rows), classes)
    return classes


def totals_of(rows: Sequence[Sequence[float]], persistent: float = 0.0, majority: float = 0.0) -> Totals:
    """Its totals, and what of it the baselines had right.

    >>> t = totals_of([[40, 10], [5, 45]], persistent=60)
    >>> t.n, t.right, t.wrong, t.persistent_wrong, t.chance, t.beyond_chance
    (100.0, 85.0, 15.0, 40.0, 5000.0, 5000.0)
    """
    t = sum_up(_cells_of(rows), new_classes(len(rows)))
    return t._replace(
        persistent=persistent, persistent_wrong=t.n - persistent,
        majority=majority, majority_wrong=t.n - majority,
    )  # fmt: skip


def _cells_of(rows: Sequence[Sequence[float]]) -> Floats:
    cells = np.zeros((len(rows) ** 2, 4))
    cells[:, 0] = np.ravel(rows)
    return cells.ravel()
