"""The measures: from an estimator's cells and sums to values, or to the reason why there is none.

A kernel gives a value and 0, or 0.0 and the code of a reason (`docs/semantics.md`): never NaN, never a number
that stands for "unknown". `table` fills the columns that are named here.
"""

from __future__ import annotations

#: Columns of values and reasons.
NAMES: tuple[str, ...] = (
    "error", "accuracy", "kappa", "kappa_se", "kappa_z", "p_per", "kappa_per", "p_maj", "kappa_maj",
    "kappa_plus", "balanced_accuracy", "g_mean", "mcc", "precision", "recall", "specificity", "f1",
    "macro_precision", "macro_recall", "macro_f1", "weighted_f1", "log_loss", "brier", "ece", "mae",
    "mse", "rmse", "r2", "p_ran", "auc", "bias", "ipw_accuracy", "ipw_n",
)  # fmt: skip

(
    ERROR, ACCURACY, KAPPA, KAPPA_SE, KAPPA_Z, P_PER, KAPPA_PER, P_MAJ, KAPPA_MAJ, KAPPA_PLUS,
    BALANCED_ACCURACY, G_MEAN, MCC, PRECISION, RECALL, SPECIFICITY, F1, MACRO_PRECISION,
    MACRO_RECALL, MACRO_F1, WEIGHTED_F1, LOG_LOSS, BRIER, ECE, MAE, MSE, RMSE, R2, P_RAN, AUC, BIAS,
    IPW_ACCURACY, IPW_N,
) = range(len(NAMES))  # fmt: skip

#: Measures of predicted numbers: those of task regression.
OF_NUMBERS = ("mae", "mse", "rmse", "r2", "bias")

#: Measures of which less is better; of `bias`, of either sign, it is the size.
LESS_IS_BETTER = ("error", "kappa_se", "log_loss", "brier", "ece", "mae", "mse", "rmse", "bias")

#: Measures that don't say how good a model is: they belong to the baselines, to chance, or to the estimator.
NOT_QUALITY = ("kappa_se", "p_per", "p_maj", "p_ran", "ipw_n")

#: Measures of predicted probabilities, and those where labels aren't a fair sample.
OF_PROBABILITIES = ("log_loss", "brier", "ece", "auc")
OF_WEIGHTS = ("ipw_accuracy", "ipw_n")

#: Measure to column.
INDEX: dict[str, int] = {name: column for column, name in enumerate(NAMES)}

#: Reasons by code; code 0: there is a value.
REASONS: tuple[str, ...] = (
    "", "empty", "p_ran_one", "p_per_one", "p_maj_one", "no_positives", "no_predicted_positives",
    "no_negatives", "zero_denominator", "no_positive_class", "no_probabilities", "no_propensity",
    "not_a_window", "not_regression", "not_classification", "no_label_known",
)  # fmt: skip

(
    DEFINED, EMPTY, P_RAN_ONE, P_PER_ONE, P_MAJ_ONE, NO_POSITIVES, NO_PREDICTED_POSITIVES, NO_NEGATIVES,
    ZERO_DENOMINATOR, NO_POSITIVE_CLASS, NO_PROBABILITIES, NO_PROPENSITY, NOT_A_WINDOW,
    NOT_REGRESSION, NOT_CLASSIFICATION, NO_LABEL_KNOWN,
) = range(len(REASONS))  # fmt: skip

#: Instead of the code of the positive class: no outcome has it; there is none.
UNSEEN_POSITIVE, NO_POSITIVE = -1, -2

#: What a measure gives: its value and DEFINED, or 0.0 and a reason's code.
Result = tuple[float, int]
