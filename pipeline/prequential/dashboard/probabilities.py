"""Whether probabilities are right, and what other thresholds would do, as what is sent to the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from prequential.core.details.curves import (
    THRESHOLDS,
    Costs,
    Histogram,
    best_threshold,
    configured_costs,
    histogram_of,
    mean_costs,
    points,
    reliability,
)
from prequential.settings.model import StreamConfig

#: Digits of what is drawn.
_DIGITS = 5

#: The threshold of a model of two classes that predicts the more probable one.
PRESENT = 0.5


def histogram(message: Mapping[str, Any]) -> Histogram | None:
    """The histogram that the field `scores` of a message has; None where it is none, of another version."""
    try:
        return histogram_of(message)
    except (LookupError, TypeError, ValueError):
        return None


def costs_of(settings: StreamConfig) -> Costs | None:
    """What a stream's settings say that outcomes cost; None where a histogram of scores can't know."""
    return None if settings.cost_per_value else configured_costs(settings.costs, settings.positive_class)


def curves_of(one: Histogram, costs: Costs | None = None) -> dict[str, Any]:
    """What a histogram says of probabilities: reliability, and by threshold recall, precision and more.

    Returns
    -------
    dict
        `positives` and `negatives`: outcomes with a score. `reliability`: rows of mean score, share of
        positives, outcomes. `thresholds`: from the highest to the lowest, with `recall`, `precision`,
        `false_positive_rate` (None where there is none). `present`: number of the one in use among them.
        `costs`, where these are given: the mean at each of the thresholds (`mean`), and `BestThreshold`.
    """
    at = points(one)
    diagram = reliability(one)
    return {
        "costs": None if costs is None else _costs_at([point.threshold for point in at], one, costs),
        "positives": _total(one, "positives"),
        "negatives": _total(one, "negatives"),
        "ece": cut(diagram.ece),
        "reliability": [
            [cut(bin_.mean_score), cut(bin_.share_positive), cut(bin_.outcomes)] for bin_ in diagram.bins
        ],
        "thresholds": [cut(point.threshold) for point in at],
        "recall": [cut(point.recall) for point in at],
        "precision": [cut(point.precision) for point in at],
        "false_positive_rate": [cut(point.false_positive_rate) for point in at],
        # Thresholds of equal results are listed once, by the highest of them.
        "present": max(place for place, point in enumerate(at) if point.threshold >= PRESENT),
    }


def _costs_at(thresholds: list[float], one: Histogram, costs: Costs) -> dict[str, Any]:
    """What outcomes cost at these thresholds, and which one is best."""
    places, best = np.searchsorted(THRESHOLDS, thresholds), best_threshold(one, costs, PRESENT)
    said = {
        name: [cut(end) for end in value] if isinstance(value, tuple) else cut(value)
        for name, value in best._asdict().items()
        if name != "better_since"  # histograms of the past aren't kept here
    }
    return {"mean": [cut(value) for value in mean_costs(one, costs)[places].tolist()], **said}


def _total(one: Histogram, of: str) -> float:
    return float(sum(getattr(one, of).tolist()))


def cut(value: float | None) -> float | None:
    """A number in as many digits as are drawn."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")
