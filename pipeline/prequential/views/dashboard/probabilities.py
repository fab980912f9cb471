"""Return the calibration of probabilities and the results of other thresholds as the page's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from prequential.configuration.settings.model import StreamConfig
from prequential.engine.details.curves import (
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

#: Significant digits of drawn values.
_DIGITS = 5

#: The current threshold: a model for two classes predicts the more probable one.
PRESENT = 0.5


def histogram(message: Mapping[str, Any]) -> Histogram | None:
    """Return the histogram in a message's field `scores`; None if another version wrote another form."""
    try:
        return histogram_of(message)
    except (LookupError, TypeError, ValueError):
        return None


def costs_of(settings: StreamConfig) -> Costs | None:
    """Return a stream's configured costs; None if a histogram of scores does not determine them."""
    return None if settings.cost_per_value else configured_costs(settings.costs, settings.positive_class)


def curves_of(one: Histogram, costs: Costs | None = None) -> dict[str, Any]:
    """Return the curves of a histogram: reliability, and by threshold recall, precision and more.

    Returns
    -------
    dict
        `positives` and `negatives` are the numbers of outcomes with a score. `reliability` contains rows of
        mean score, share of positives and outcomes. `thresholds` are in descending order, with `recall`,
        `precision` and `false_positive_rate`, each None if it is undefined. `present` is the place of the
        current threshold among them. `costs` contains the mean cost at each threshold (`mean`) and the fields
        of `BestThreshold`; it is None without costs.
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
    """Return the mean cost at these thresholds, and the best threshold."""
    places, best = np.searchsorted(THRESHOLDS, thresholds), best_threshold(one, costs, PRESENT)
    best_values = {
        name: [cut(end) for end in value] if isinstance(value, tuple) else cut(value)
        for name, value in best._asdict().items()
        if name != "better_since"  # the dashboard keeps no earlier histograms
    }
    return {"mean": [cut(value) for value in mean_costs(one, costs)[places].tolist()], **best_values}


def _total(one: Histogram, of: str) -> float:
    return float(sum(getattr(one, of).tolist()))


def cut(value: float | None) -> float | None:
    """Round a number to the digits that are drawn."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")
