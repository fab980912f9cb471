"""The most important measures: columns of tables, and measures by which models are compared; and stages."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from prequential.engine.measures.declaration import CLASSIFICATION, MULTILABEL, REGRESSION, Reference
from prequential.engine.measures.registry import LOSSES, MEASURES

#: By task: columns of tables, the most important first; a table shows as many as fit.
COLUMNS = {
    CLASSIFICATION: (
        "accuracy", "kappa", "kappa_per", "kappa_plus", "balanced_accuracy", "f1", "log_loss", "mcc",
    ),
    MULTILABEL: ("accuracy", "jaccard", "micro_f1", "macro_f1", "hamming_loss", "kappa"),
    REGRESSION: ("mae", "rmse", "r2", "bias"),
}  # fmt: skip

#: Measures by which models are compared: the first one that they have. The usual ones of either task come
#: first, then any other measure of quality.
COMPARED = tuple(dict.fromkeys((
    "accuracy", "mae", "error", "rmse", "mse", "kappa", "f1", "log_loss", "r2",
    *(name for name, definition in MEASURES.items() if definition.quality),
)))  # fmt: skip


def main_measure(measures: Container[str]) -> str | None:
    """Return the measure by which models are compared, of those that one has; None without any.

    >>> main_measure({"kappa": 0.6, "accuracy": 0.8}), main_measure({})
    ('accuracy', None)
    """
    return next((name for name in COMPARED if name in measures), None)


class BaselineReference(NamedTuple):
    """A baseline's accuracy, as a reference for a measure's value."""

    measure: str
    line: Reference
    one_less: bool  # whether 1 minus it is the reference

    def value(self, measures: Mapping[str, float]) -> float | None:
        """Return the reference for the measure's value, by these measures; None if it has none."""
        value = measures.get(self.measure)
        return 1 - value if value is not None and self.one_less else value


def baseline_references(measure: str) -> list[BaselineReference]:
    """Return the references of a measure: baselines if it is a share of correct ones, or 1 minus it."""
    loss = LOSSES.get(measure)
    if loss is None or loss.signal != "error":
        return []
    return [
        BaselineReference(name, definition.reference, not loss.one_less)
        for name, definition in MEASURES.items()
        if definition.reference is not None and not definition.quality and definition.needs_label
    ]


class BaselineValue(NamedTuple):
    """A baseline and its value, next to a measure's value."""

    line: Reference
    value: float


def baseline_values(measures: Mapping[str, float], measure: str) -> list[BaselineValue]:
    """Return the baselines of a measure that have a value by these measures.

    >>> [(baseline.line.short, baseline.value) for baseline in baseline_values({"p_maj": 0.75}, "error")]
    [('most frequent', 0.25)]
    """
    return [
        BaselineValue(reference.line, value)
        for reference in baseline_references(measure)
        if (value := reference.value(measures)) is not None
    ]


#: Meaning of stages, and of identical ones, for captions.
_STAGES = "initial: an instance's first prediction; final: the last one before its label. "
_SAME = "final*: initial is the same, as each instance had one prediction. "


def stage_in_words(stage: str, same: Iterable[str] = ()) -> str:
    """Return a stage, and those that have been identical so far.

    >>> stage_in_words("final", ["initial"]), stage_in_words("final")
    ('final (same as initial)', 'final')
    """
    listed = ", ".join(same)
    return f"{stage} (same as {listed})" if listed else stage


def marked(stage: str, same: Sequence[str]) -> str:
    """Return a stage with a mark if another one is identical; a caption explains the mark.

    >>> marked("final", ["initial"]), marked("final", [])
    ('final*', 'final')
    """
    return f"{stage}*" if same else stage


def caption_of_stages(same: Iterable[Sequence[str]]) -> str:
    """Return the caption of a table about its stages, by the stages that are identical to each.

    >>> caption_of_stages([["initial"], ["initial"]])
    'final*: initial is the same, as each instance had one prediction. '
    """
    have_same = list(map(bool, same))
    return (_STAGES if not all(have_same) else "") + (_SAME if any(have_same) else "")
