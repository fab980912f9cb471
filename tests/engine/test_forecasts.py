"""Forecasts: errors relative to a seasonal baseline (`mase`, `rmsse`), and scores of quantiles (`wis`)."""

from __future__ import annotations

import math
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import World, advance, batch_of, catch_up, give, metrics_of
from oracle_cases import lab, pred
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config, ConfigError
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.measures.registry import extends_scores
from prequential.engine.shard import Shard
from test_costs_by_value import said_of, shard_of, successor_of

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
            for name, power in (("mase", 1), ("rmsse", 2)):
                own = math.fsum(abs(y - h) ** power for y, _, h in based)
                scale = math.fsum(abs(y - b) ** power for y, b, _ in based)
                found[name] = (own / scale) ** (1 / power)
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
    outputs = catch_up(World({"defaults": SETTINGS}, topics)).outputs
    found = {(one.stream, one.stage): one for one in metrics_of(outputs)}
    assert len(found) == len(reference.outcomes) > 20 * count
    based = 0
    for (series, lead), rows in reference.outcomes.items():
        one, expected = found[series, f"lead:{lead}h"], reference.measures(series, lead)
        assert one.n == len(rows)
        assert one.measures == pytest.approx(expected, rel=1e-12)
        assert one.undefined == ({} if "mase" in expected else {"mase": "no_season", "rmsse": "no_season"})
        based += "mase" in expected
    assert based > 10 * count


STREAM = StreamConfig(
    task="regression", measures=("mae", "mase", "rmsse", "wis"), estimators=("all",), detectors=(),
    compare="off", emit_outcomes=None, emit_every=None, season=10, label_horizon=100, settle=100,
)  # fmt: skip


def day(number: int, predicted: float, actual: float | None, **more: Any) -> tuple[Any, ...]:
    """A prediction made 4 ms before the label's time, which is a multiple of the season."""
    return pred(number, 10 * number - 4, predicted, **more), lab(number, 10 * number, actual)


class TestSeasonalBaselines:
    def test_the_label_must_have_been_processed_when_the_prediction_was(self) -> None:
        """The label at 20 is processed at 28, after the prediction of 30 at 26: the one at 10 counts."""
        records = [*day(1, 0, 9), pred(2, 16, 0), pred(3, 26, 12)]
        for at, baseline in ((25, 5), (28, 9)):
            shard = shard_of(*records, lab(2, 20, 5, at), lab(3, 30, 13), config=STREAM)
            mase = said_of(shard)["all"].measures["mase"]
            assert mase == (5 + 1) / (4 + abs(13 - baseline))

    def test_different_labels_of_one_time_are_none(self) -> None:
        """They belong to several series. Days 1 and 2 have 9 and 12; the prediction of 12 is 0."""
        for other, mase in ((9, 12 / 3), (8, None)):
            others = pred("x", 6, 0), lab("x", 10, other)
            shard = shard_of(*day(1, 0, 9), *others, *day(2, 0, 12), config=STREAM)
            assert said_of(shard)["all"].measures.get("mase") == mase

    def test_a_prediction_after_its_label_has_the_labels_before_that_one(self) -> None:
        """The label at 10 is processed after the label at 20, and before the prediction of 20."""
        others = pred(2, 16, 12, 25), *day(3, 13, 14)
        shard = shard_of(lab(2, 20, 13), lab(1, 10, 9, 22), *others, config=STREAM)
        assert said_of(shard)["all"].measures["mase"] == 1 / 1
        shard = shard_of(lab(1, 10, 9, 19), lab(2, 20, 13), *others, config=STREAM)
        assert said_of(shard)["all"].measures["mase"] == (1 + 1) / (4 + 1)

    @pytest.mark.parametrize("seed", range(3))
    def test_withdrawn_and_revised_labels_leave_sums_exactly(self, seed: int) -> None:
        """Baselines keep the first labels; errors are those of the last ones."""
        rng = random.Random(seed)
        numbers = [rng.choice([1e9, 1e-3, 1]) * rng.gauss(0, 1) for _ in range(60)]
        records: list[Any] = []
        outcomes: list[tuple[float, float, float]] = []
        for i, first in enumerate(numbers, 1):
            predicted, last = rng.gauss(0, 1), first
            records += day(i, predicted, first)
            if rng.random() < 0.5:
                last = rng.choice([None, rng.gauss(0, 1e4)])
                records.append(lab(i, 10 * i + 3, last))
            if last is not None and i > 1:
                outcomes.append((last, predicted, numbers[i - 2]))
        found = {
            name: one.measures
            for name, one in said_of(
                shard_of(*records, config=replace(STREAM, estimators=("all", "window:1000"), settle=10_000))
            ).items()
        }
        errors = [h - y for y, h, _ in outcomes]
        scales = [b - y for y, _, b in outcomes]
        for one in found.values():
            assert one["mase"] == math.fsum(map(abs, errors)) / math.fsum(map(abs, scales))
            squares = math.fsum(e * e for e in errors) / math.fsum(b * b for b in scales)
            assert one["rmsse"] == math.sqrt(squares)

    def test_another_season_begins_with_the_next_outcome(self) -> None:
        def go_on(shard: Shard, config: StreamConfig, *records: Any) -> Shard:
            return give(successor_of(shard, config), *records)

        config = replace(STREAM, estimators=("all", "window:9"))
        first = shard_of(*day(1, 0, 9), *day(2, 8, 10), config=config)
        for one in said_of(go_on(first, config, *day(3, 8, 12))).values():
            assert one.measures["mase"] == (2 + 4) / (1 + 2)
        other = replace(config, season=20)
        for one in said_of(go_on(first, other, *day(3, 8, 12))).values():
            assert one.measures["mase"] == 4 / 3
        none = go_on(first, replace(config, season=None), *day(3, 8, 12))
        assert said_of(none)["window:9"].undefined["mase"] == "no_season"

    def test_only_labels_of_so_long_ago_are_remembered(self) -> None:
        records = [one for i in range(1, 500) for one in day(i, 0, i)]
        shard = shard_of(*records, config=STREAM)
        assert 31 <= (shard.state.store.season_pool.owner >= 0).sum() <= 62  # up to two spans
        assert said_of(shard)["all"].measures["mase"] == math.fsum(range(2, 500)) / 498


def test_nothing_is_kept_where_no_measure_asks() -> None:
    for config in (replace(STREAM, season=None, measures=("mae",)), replace(STREAM, measures=("mae",))):
        shard = shard_of(*day(1, 0, 9, quantiles={"0.5": "x"}), *day(2, 8, 9), config=config)
        store = shard.state.store
        assert store.values.season.shape[1] == 0
        assert not store.season_pool.owner.max() >= 0
        assert extends_scores(config) == 0
        assert store.pools.used.tolist()[2] == 0  # no quantiles


@pytest.mark.parametrize(
    ("quantiles", "why"),
    [(3, "quantiles is 3: expected numbers by level, such as {'0.5': 4.2}"),
     ({"0.1": 5, "0.5": 4},
      "quantile 0.1 is 5.0 and quantile 0.5 is 4.0: expected numbers that don't decrease"),
     ({"1": 5}, "quantiles has level '1': expected a number above 0 and below 1"),
     ({"low": 5}, "quantiles has level 'low': expected a number above 0 and below 1"),
     ({"nan": 5}, "quantiles has level 'nan': expected a number above 0 and below 1"),
     ({"0.5": "x"}, "quantile 0.5 is 'x': expected a number up to 1e+100"),
     ({"0.5": True}, "quantile 0.5 is True: expected a number up to 1e+100"),
     ({"0.5": None}, "quantile 0.5 is None: expected a number up to 1e+100"),
     ({"0.5": 1, "0.50": 2}, "quantiles has level 0.5 twice: expected one number for each")],
)  # fmt: skip
def test_invalid_quantiles_are_refused_where_they_are_needed(quantiles: Any, why: str) -> None:
    for before in ((), day(1, 0, 9, quantiles={"0.5": 1})):
        shard = shard_of(*before, *day(2, 2.0, 3.0, quantiles=quantiles), config=STREAM)
        assert [one.reason for one in shard.flush()[0] if hasattr(one, "reason")] == [why]


def test_quantiles_are_scored_as_in_the_paper() -> None:
    """Two central intervals and the median: equation 2 with weights α/2, and 1/2 for the median."""
    y, median, bounds = 12.0, 9.0, {0.2: (5.0, 11.0), 0.5: (7.0, 10.0)}
    total = 0.5 * abs(y - median)
    for alpha, (low, high) in bounds.items():
        score = (high - low) + 2 / alpha * (max(0, low - y) + max(0, y - high))
        total += alpha / 2 * score
    quantiles = {"0.5": median, "0.1": 5, "0.9": 11.0, "0.25": 7, "0.75": 10}
    found = said_of(shard_of(*day(1, median, y, quantiles=quantiles), *day(2, 0, 0), config=STREAM))["all"]
    assert found.measures["wis"] == pytest.approx(total / (2 + 0.5), rel=1e-14)


def test_probabilities_of_a_stream_of_numbers_are_no_quantiles() -> None:
    config = Config(defaults=StreamConfig(emit_every=None), streams={"s": STREAM})
    shard = Shard(config)
    about = {"stream": "s", "instance_id": 1}
    made = {**about, "model": "m", "ts": 6, "y_pred": 1.5, "y_proba": {"a": 0.5}}
    shard.add(batch_of(1, [(6, made)], 0, 1))
    shard.add(batch_of(2, [(10, {**about, "ts": 10, "y_true": 2})], 0, 1))
    advance(shard)
    assert said_of(shard)["all"].undefined["wis"] == "no_quantile_sets"


@pytest.mark.parametrize(
    ("text", "parts"),
    [("defaults: {season: 10m}", ["defaults.season 600000 ms: expected at least 1/1000 of the label"]),
     ("streams: {s: {season: 1d, key: instance}}", ["streams.s.season 86400000 ms", "for each series"]),
     ("defaults: {season: soon}", ["season", "'soon'"])],
)  # fmt: skip
def test_seasons_that_cannot_be_are_refused(tmp_path: Path, text: str, parts: list[str]) -> None:
    file = tmp_path / "prequential.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_config(str(file))
    assert all(part in str(error.value) for part in parts)
