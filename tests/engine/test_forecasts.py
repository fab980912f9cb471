"""Forecasts: errors relative to a seasonal baseline (`mase`, `rmsse`), and scores of quantiles (`wis`)."""

from __future__ import annotations

import math
import os
import random
from typing import Any

import pytest
from helpers import World, catch_up, metrics_of

HOUR = 3_600_000
MEASURES = ["mae", "mase", "rmsse", "wis"]
LEVELS = (0.025, 0.1, 0.5, 0.9, 0.975)
LEADS = range(1, 25)

#: Series, days and the share of hours that are predicted; all of them with PREQUENTIAL_TESTS=large.
SIZE = (200, 6, 1.0) if os.environ.get("PREQUENTIAL_TESTS") == "large" else (200, 3, 0.1)

SETTINGS: dict[str, Any] = {
    "task": "regression", "measures": MEASURES, "season": "6h", "label_horizon": "2d", "detectors": [],
    "stages": [f"lead:{lead}h" for lead in LEADS], "compare": "off", "incident_budget": None,
    "estimators": ["all"], "emit": {"outcomes": None, "every": None},
}  # fmt: skip


class Reference:
    """What a plain loop over the records finds: sums by series and lead."""

    def __init__(self, season: int) -> None:
        self.season = season
        self.known: dict[str, dict[int, float]] = {}
        self.made: dict[tuple[str, int], list[tuple[int, float, dict[str, float], frozenset[int]]]] = {}
        self.outcomes: dict[tuple[str, int], list[tuple[float, float | None, float, float]]] = {}

    def predict(self, series: str, target: int, ts: int, y: float, quantiles: dict[str, float]) -> None:
        known = frozenset(self.known.get(series, ()))
        self.made.setdefault((series, target), []).append((ts, y, quantiles, known))

    def label(self, series: str, target: int, y: float) -> None:
        for lead in LEADS:
            by_then = [one for one in self.made.get((series, target), ()) if one[0] <= target - lead * HOUR]
            if by_then:
                _, predicted, quantiles, known = by_then[-1]
                times = [time for time in known if time < target and (target - time) % self.season == 0]
                baseline = self.known[series][max(times)] if times else None
                losses = [max(float(q) * (y - h), (float(q) - 1) * (y - h)) for q, h in quantiles.items()]
                score = 2 * math.fsum(losses) / len(losses)
                self.outcomes.setdefault((series, lead), []).append((y, baseline, predicted, score))
        self.known.setdefault(series, {})[target] = y

    def measures(self, series: str, lead: int) -> dict[str, float]:
        rows = self.outcomes[series, lead]
        found = {
            "mae": math.fsum(abs(y - h) for y, _, h, _ in rows) / len(rows),
            "wis": math.fsum(score for *_, score in rows) / len(rows),
        }
        based = [(y, b, h) for y, b, h, _ in rows if b is not None]
        if based:
            found["mase"] = math.fsum(abs(y - h) for y, _, h in based) / math.fsum(abs(y - b) for y, b, _ in based)
            found["rmsse"] = math.sqrt(
                math.fsum((y - h) ** 2 for y, _, h in based) / math.fsum((y - b) ** 2 for y, b, _ in based)
            )
        return found


def test_200_series_with_24_leads_equal_a_plain_loop() -> None:
    count, days, share = SIZE
    rng, reference = random.Random(3), Reference(6 * HOUR)
    events: list[tuple[int, int, str, int, Any]] = []
    for series in map(str, range(count)):
        for hour in range(24, 24 * (1 + days)):
            if rng.random() < 0.05:
                continue  # there is no label
            y = rng.gauss(math.sin(hour / 4), 1)
            events.append((hour * HOUR, 2, series, hour * HOUR, y))
            if rng.random() > share:
                continue
            for lead in (26, 24, 13, 12, 7, 6, 5, 2, 1, 1):
                if rng.random() < 0.7:
                    events.append(((hour - lead) * HOUR, 1, series, hour * HOUR, rng.gauss(0, 1)))
    topics: Any = ([], [], [])
    # Of records with one time, instances come first, then predictions, then labels (`engine.input.merge`).
    for ts, kind, series, target, y in sorted(events, key=lambda one: one[:2]):
        about = {"stream": series, "instance_id": str(target), "ts": ts}
        if kind == 1:
            quantiles = {str(q): y + 3 * (q - 0.5) for q in LEVELS}
            reference.predict(series, target, ts, y, quantiles)
            topics[1].append((ts, {**about, "model": "m", "y_pred": y, "quantiles": quantiles}))
        else:
            reference.label(series, target, y)
            topics[2].append((ts, {**about, "y_true": y}))
    found = {(one.stream, one.stage): one for one in metrics_of(catch_up(World({"defaults": SETTINGS}, topics)).outputs)}
    assert len(found) == len(reference.outcomes) > 20 * count
    based = 0
    for (series, lead), rows in reference.outcomes.items():
        one, expected = found[series, f"lead:{lead}h"], reference.measures(series, lead)
        assert one.n == len(rows)
        assert one.measures == pytest.approx(expected, rel=1e-12)
        assert one.undefined == ({} if "mase" in expected else {"mase": "no_season", "rmsse": "no_season"})
        based += "mase" in expected
    assert based > 10 * count
