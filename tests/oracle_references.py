"""The first outcomes of a sequence, beside which later ones stand, for the test oracle.

Intervals of differences are left out: whether there is one is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oracle_estimators import Estimator, Outcome, kinds_now
from oracle_measures import measures, positive_of
from oracle_records import Settings

#: Measures that are shares of outcomes, and those of them that need a positive class.
SHARES = ("error", "accuracy", "p_per", "p_maj", "recall", "specificity", "precision")
OF_POSITIVE = ("recall", "specificity", "precision")


def reference_of(outcomes: Sequence[Outcome], settings: Settings) -> list[Outcome] | None:
    """The reference of a sequence with these outcomes; None: it isn't complete."""
    if settings.reference is not None:
        complete = len(outcomes) >= settings.reference
        return list(outcomes[: settings.reference]) if complete else None
    for place, outcome in enumerate(outcomes):
        if outcome.ts - outcomes[0].ts >= (settings.reference_time or 0):
            return list(outcomes[:place])
    return None


def beside_reference(
    outcomes: Sequence[Outcome], estimator: Estimator, settings: Settings
) -> dict[str, Any] | None:
    """What a message says of an estimator beside the reference; None: nothing."""
    if settings.reference is settings.reference_time is None or settings.task == "regression":
        return None
    first = reference_of(outcomes, settings)
    if first is None:
        return None
    now = estimator.kinds(revised=True)
    positive = positive_of({kind.y_true for kind in now}, settings.positive_class)

    def shares(kinds: Any) -> dict[str, float]:
        values = measures(kinds, positive)[0] if kinds else {}
        known = SHARES if positive is not None else [one for one in SHARES if one not in OF_POSITIVE]
        return {name: values[name] for name in known if name in values}

    then, present = shares(kinds_now(first)), shares(now)
    since: dict[str, float] = {}
    if estimator.name == "all":
        since = shares(kinds_now(outcomes[len(first) :]))
        if "p_per" in present and len(outcomes) > len(first):
            since |= dict.fromkeys(("p_per", "p_maj"), 0.0)
    elif len(first) * weight_left(outcomes, first, estimator) <= 0.01 * estimator.n:
        since = present
    wanted = settings.measures or SHARES
    found = {
        name: {"value": then[name], "difference": present[name] - then[name], "interval": name in since}
        for name in SHARES if name in wanted and name in then and name in present
    }  # fmt: skip
    return {"outcomes": len(first), "measures": found} if found else None


def weight_left(outcomes: Sequence[Outcome], first: Sequence[Outcome], estimator: Estimator) -> float:
    """The weight of an outcome that is as old as the newest one of the reference."""
    newer, parameter = len(outcomes) - len(first), float(estimator.parameter or 0)
    if estimator.name == "window":
        return float(newer < parameter)
    if estimator.name == "fading":
        return float(parameter**newer)
    later = max(0, outcomes[-1].ts - max(one.ts for one in first))
    return float(2.0 ** (-later / parameter))
