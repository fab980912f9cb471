"""Which prediction counts in which stage, and the intermediate measure, against plain loops."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers import ENDED, World, batch_of, catch_up, examples, metrics_of, small_logs
from hypothesis import given
from hypothesis import strategies as st
from prequential.configuration.settings.model import Config, StreamConfig
from prequential.engine.catalog.streams import Stream
from prequential.engine.measures.registry import NAMES
from prequential.engine.output.estimates import EstimatorState, intermediate
from prequential.engine.shard import Shard

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

#: (model, ts, prediction), in order of delivery; ts within and around the latency period.
predictions = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-20, 60), st.integers(0, 10**6)), min_size=1, max_size=12
)


Prediction = tuple[int, int, Any]


def flat(made: Sequence[Prediction]) -> list[Any]:
    return [part for one in made for part in one]


def counted(made: Sequence[Prediction], t0: int, t1: int, config: StreamConfig) -> dict[int, dict[str, Any]]:
    """By model and stage: which of these predictions of one instance counts, in a shard's plans."""
    with small_logs(64):
        shard = Shard(Config(defaults=config))
    about = {"stream": "s", "instance_id": 1}
    shard.add(batch_of(0, [(t1, {**about, "ts": t0})], 0, 1))
    # Each prediction is of a class of its own: number 0 is the label.
    rows: list[Any] = [
        (t1, {**about, "model": f"{model}", "y_pred": f"p{place}", "ts": ts})
        for place, (model, ts, _) in enumerate(made)
    ]
    shard.add(batch_of(1, rows, 0, len(rows)))
    while shard.advance([ENDED] * 3, 100):
        pass
    shard.add(batch_of(2, [(t1, {**about, "y_true": "y", "ts": t1})], 0, 1))
    while shard.advance([ENDED] * 3, 100):
        pass
    catalog, found = shard.catalog, {}
    names = catalog.streams[0].class_names
    for entity in catalog.entities[1:]:
        assert entity is not None
        plan = catalog.plans[catalog.registry.entities.plan[entity.row]]
        for place, stage in enumerate(plan.stages):
            row = int(catalog.registry.entities.first[entity.row]) + place
            cells = plan.estimators[0].cells_of(row).weights.reshape(plan.capacity, plan.capacity, 4)
            for code in np.flatnonzero(cells.sum(axis=(0, 2))).tolist():
                number = int(names[code].removeprefix("p"))
                found.setdefault(int(entity.model), {})[stage] = made[number][2]
    return found


BASE = StreamConfig(
    estimators=("all",), detectors=(), baselines=(), label_horizon=1 << 50, settle=1_000, emit_every=None,
    emit_outcomes=None,
)  # fmt: skip


def views(predictions: Sequence[Any], t0: int, t1: int, bins: int) -> dict[int, tuple[Any, ...]]:
    """By model: what counts as initial, as final, in the bins; from flat triples (model, ts, prediction).

    Where there is one prediction `initial` is `final`, and isn't kept by itself.
    """
    made = list(zip(predictions[::3], predictions[1::3], predictions[2::3]))
    stages = ("initial", "final", *(("bins",) if bins else ()))
    found = counted(made, t0, t1, replace(BASE, stages=stages, bins=bins or 1))
    order = ["initial", "final", *(f"bin:{b}" for b in range(1, bins + 1))]
    return {
        model: tuple({"initial": of["final"], **of}[stage] for stage in order) for model, of in found.items()
    }


def made_by(predictions: Sequence[Any], end: int) -> dict[int, Any]:
    """By model: the last of its predictions with a time up to `end`; of an instance that arrived at -20."""
    made = list(zip(predictions[::3], predictions[1::3], predictions[2::3]))
    stage = f"after:{end + 21}ms"
    found = counted(made, -21, 60, replace(BASE, stages=(stage,)))
    return {model: of[stage] for model, of in found.items()}


def bins_of(config: StreamConfig) -> int:
    """How many bins are evaluated."""
    return Stream(0, "s", config).bins


def psi(values: Sequence[float], alpha: float) -> float:
    """Ψ_α of the values of one measure in all bins, as it is reported."""
    width = len(NAMES)
    states = [EstimatorState(1.0, np.full(width, value), np.zeros(width, dtype=np.int64)) for value in values]
    return float(intermediate(states, alpha).values[0])


def plain_view(made: Sequence[tuple[int, Any]], t0: int, t1: int, bins: int) -> tuple[Any, ...]:
    """Initial, final, bins: for each the definition, looked up among all predictions of a model."""
    numbered = [(ts, place, prediction) for place, (ts, prediction) in enumerate(made)]
    initial, final = min(numbered), max(numbered)
    found = [initial[2], final[2]]
    for b in range(1, bins + 1):
        end = t0 + Fraction((t1 - t0) * b, bins)
        by_then = [one for one in numbered if one[0] <= end]
        found.append((max(by_then) if by_then else initial)[2])
    return tuple(found)


class TestViews:
    @examples(300)
    @given(predictions, st.integers(0, 12), st.sampled_from([(0, 40), (0, 7), (0, 0), (-20, 60), (3, 4)]))
    def test_equal_a_plain_loop(
        self, made: list[tuple[int, int, Any]], bins: int, period: tuple[int, int]
    ) -> None:
        t0, t1 = period
        made = [(model, min(ts, t1), prediction) for model, ts, prediction in made]
        found = views(flat(made), t0, t1, bins)
        assert found.keys() == {model for model, _, _ in made}
        for model, view in found.items():
            own = [(ts, prediction) for one, ts, prediction in made if one == model]
            expected = plain_view(own, t0, t1, bins)
            assert view == expected

    @examples(100)
    @given(predictions, st.integers(1, 12), st.randoms(use_true_random=False))
    def test_order_of_delivery_decides_ties_only(
        self, made: list[tuple[int, int, Any]], bins: int, rng: random.Random
    ) -> None:
        by_time = list({(model, ts): (model, ts, what) for model, ts, what in made}.values())
        shuffled = rng.sample(by_time, len(by_time))
        assert views(flat(shuffled), 0, 60, bins) == views(flat(by_time), 0, 60, bins)

    def test_bins_are_open_at_the_left_and_closed_at_the_right(self) -> None:
        """t0 = 0, t1 = 100, B = 4: made at 25 it is of bin 1, at 26 of bin 2."""
        for ts, view in ((25, "abbbbb"), (26, "ababbb"), (50, "ababbb"), (51, "abaabb"), (100, "abaaab")):
            assert "".join(views([0, 0, "a", 0, ts, "b"], 0, 100, 4)[0]) == view

    def test_borders_that_are_no_whole_milliseconds(self) -> None:
        """t1 - t0 = 10 in 3 bins: borders at 3⅓ and 6⅔."""
        made = [0, 0, "a", 0, 3, "b", 0, 4, "c", 0, 7, "d"]
        assert views(made, 0, 10, 3)[0] == ("a", "d", "b", "c", "d")

    def test_empty_bins_carry_forward(self) -> None:
        assert views([0, 0, "a", 0, 15, "b", 0, 95, "c"], 0, 100, 10)[0] == (
            "a", "c", "a", "b", "b", "b", "b", "b", "b", "b", "b", "c",
        )  # fmt: skip

    def test_bins_before_the_first_prediction_have_the_first(self) -> None:
        """The instance's record came at 0, the model's first prediction in bin 3 of 4."""
        assert views([0, 60, "a", 0, 90, "b"], 0, 100, 4)[0] == ("a", "b", "a", "a", "a", "b")

    def test_no_latency(self) -> None:
        """A label at once: all bins end at t1, and have the last prediction by then."""
        assert views([0, 5, "a", 0, 5, "b"], 5, 5, 3)[0] == ("a", "b", "b", "b", "b")

    def test_times_far_from_zero_are_exact(self) -> None:
        """Epoch milliseconds times a thousand bins are beyond the 53 bits of a float."""
        t0 = 1_700_000_000_000
        made = [0, t0, "a", 0, t0 + 86_400_001, "b"]
        view = views(made, t0, t0 + 1_000 * 86_400_000, 1_000)[0]
        assert view[2:5] == ("a", "b", "b")

    @pytest.mark.parametrize(
        ("stages", "bins"),
        [(("initial", "final"), 0), (("bins",), 7), (("final", "intermediate"), 7)],
    )
    def test_bins_are_made_only_where_a_stage_asks_for_them(
        self, stages: tuple[str, ...], bins: int
    ) -> None:
        assert bins_of(StreamConfig(stages=stages, bins=7)) == bins


values = st.lists(st.floats(-10, 10), min_size=2, max_size=60)


class TestPsi:
    @examples(200)
    @given(values, st.floats(1, 1000))
    def test_equals_the_equation(self, of: list[float], alpha: float) -> None:
        """2020 paper, eq. 1, with two plain loops."""
        last = len(of) - 1
        above = below = 0.0
        for b in range(last + 1):
            above += of[b] * (1 / alpha) ** (b / last)
            below += (1 / alpha) ** (b / last)
        assert psi(of, alpha) == pytest.approx(above / below, rel=1e-9, abs=1e-9)
        assert min(of) - 1e-9 <= psi(of, alpha) <= max(of) + 1e-9

    @examples(60)
    @given(values)
    def test_alpha_1_is_the_plain_mean(self, of: list[float]) -> None:
        assert psi(of, 1.0) == pytest.approx(math.fsum(of) / len(of), abs=1e-12)

    @pytest.mark.parametrize("alpha", [1.0, 2.0, 10.0, 1000.0])
    @pytest.mark.parametrize("last", [1, 10, 100])
    def test_the_first_counts_alpha_times_the_last(self, alpha: float, last: int) -> None:
        """Bin 0 has weight 1 and bin B 1/α, the paper's "α times more important"."""
        first, final = [1.0] + [0.0] * last, [0.0] * last + [1.0]
        assert psi(first, alpha) == pytest.approx(alpha * psi(final, alpha))
        total = sum((1 / alpha) ** (b / last) for b in range(last + 1))
        assert psi(first, alpha) == pytest.approx(1 / total)

    @examples(60)
    @given(st.floats(-10, 10), st.integers(2, 60), st.floats(1, 1000))
    def test_what_is_the_same_in_all_bins_is_the_value(self, value: float, n: int, alpha: float) -> None:
        assert psi([value] * n, alpha) == pytest.approx(value, abs=1e-12)

    def test_larger_alpha_leans_to_early_predictions(self) -> None:
        falling = [1 - b / 100 for b in range(101)]
        found = [psi(falling, alpha) for alpha in (1, 2, 10, 1000)]
        assert found == sorted(found)
        assert found[0] == pytest.approx(0.5)


# ---- through the engine


def world(bins: int, alpha: float, stages: Sequence[str], rows: int = 200) -> World:
    """Instances at every 1,000 ms, labelled 900 ms later, with predictions that become better."""
    rng = random.Random(bins)
    instances, made, labels = [], [], []
    for i in range(rows):
        t0 = 1_000 * i
        y = rng.choice(["a", "b"])
        about = {"stream": "s", "instance_id": i}
        instances.append((t0, {**about, "ts": t0}))
        for ts in sorted({t0, *(t0 + rng.randrange(901) for _ in range(rng.choice([0, 0, 1, 4])))}):
            right = rng.random() < 0.5 + 0.4 * (ts - t0) / 900
            guess = y if right else {"a": "b", "b": "a"}[y]
            made.append((ts, {**about, "model": "m", "y_pred": guess, "ts": ts}))
        labels.append((t0 + 900, {**about, "y_true": y, "ts": t0 + 900}))
    settings = {
        "stages": list(stages), "bins": bins, "alpha": alpha, "detectors": [],
        "estimators": ["all", "window:50", "fading:0.9"], "emit": {"outcomes": 10, "every": None},
        "positive_class": "a",
    }  # fmt: skip
    return World({"defaults": settings}, (instances, made, labels))


@pytest.mark.parametrize(("bins", "alpha"), [(1, 2.0), (4, 1.0), (10, 2.0)])
def test_intermediate_is_psi_of_the_stages_put_out(bins: int, alpha: float) -> None:
    """Of each measure for itself, over initial and bins 1 … B; without a value where one has none."""
    stages = ["initial", "final", "bins", "intermediate"]
    said = {
        (m.outcomes, m.estimator, m.stage): m
        for m in metrics_of(catch_up(world(bins, alpha, stages)).outputs)
    }
    found = [m for m in said.values() if m.stage == "intermediate"]
    assert len(found) == 3 * 20
    reasons = 0
    for one in found:
        parts = [
            said[one.outcomes, one.estimator, stage]
            for stage in ("initial", *(f"bin:{b}" for b in range(1, bins + 1)))
        ]
        assert one.n == parts[0].n
        assert one.measures.keys() | one.undefined.keys() == set(StreamConfig().measures)
        for name in StreamConfig().measures:
            each = [part.measures.get(name) for part in parts]
            if None in each:
                reasons += 1
                assert one.undefined[name] in {part.undefined.get(name) for part in parts}
            else:
                weights = [alpha ** (-b / bins) for b in range(bins + 1)]
                mean = sum(w * v for w, v in zip(weights, each)) / sum(weights)  # type: ignore[operator]
                assert one.measures[name] == pytest.approx(mean, rel=1e-9, abs=1e-12)
    assert reasons
    last = {stage: said[200, "all", stage].measures["accuracy"] for _, _, stage in said}
    assert last["initial"] < last["intermediate"] < last["final"]
    assert last[f"bin:{bins}"] == last["final"]


def test_intermediate_alone_is_the_same() -> None:
    """What else is put out changes no value."""

    def intermediate(stages: Sequence[str]) -> list[str]:
        outputs = metrics_of(catch_up(world(4, 2.0, stages)).outputs)
        found = [m for m in outputs if m.stage == "intermediate"]
        return [json.dumps([m.outcomes, m.estimator, m.measures]) for m in found]

    assert intermediate(["intermediate"]) == intermediate(["initial", "final", "bins", "intermediate"])


class TestPaper:
    """2020 paper, section III."""

    def test_twice_as_important(self) -> None:
        """α = 2: "initial predictions twice as important as the ultimate predictions"."""
        assert psi([1, 0], 2.0) == pytest.approx(2 / 3)
        assert psi([0, 1], 2.0) == pytest.approx(1 / 3)
        weights = [psi([float(b == c) for c in range(101)], 2.0) for b in (0, 50, 100)]
        assert [w / weights[0] for w in weights] == pytest.approx([1, 1 / math.sqrt(2), 1 / 2])

    @pytest.mark.parametrize(
        ("initial", "middle", "alpha", "said"),
        [
            # Airlines: NB, MC, HT, HAT, ARF
            (47.53, 47.94, 1, 48.04), (48.45, 48.47, 1, 48.46), (45.59, 46.43, 1, 46.40),
            (45.25, 46.12, 1, 46.12), (47.47, 48.26, 1, 47.98),
            # Electricity: NB, MC, HT, HAT
            (53.44, 53.70, 2, 53.49), (57.51, 57.49, 2, 57.51), (56.93, 57.04, 2, 56.82),
            (59.54, 59.85, 2, 59.62),
        ],
    )  # fmt: skip
    def test_two_periods_of_101_tell_about_what_all_do(
        self, initial: float, middle: float, alpha: float, said: float
    ) -> None:
        """Table II gives Λ(0), Λ(50) and Ψ; on a straight line through the two, Ψ is within 0.3 of its."""
        line = [initial + (middle - initial) * b / 50 for b in range(101)]
        assert psi(line, alpha) == pytest.approx(said, abs=0.3)


class TestAfter:
    @examples(200)
    @given(predictions, st.integers(-20, 60))
    def test_made_by_equals_a_plain_loop(self, made: list[tuple[int, int, Any]], end: int) -> None:
        expected = {}
        for model in {model for model, _, _ in made}:
            by_then = [
                (ts, place, prediction)
                for place, (own, ts, prediction) in enumerate(made)
                if own == model and ts <= end
            ]
            if by_then:
                expected[model] = max(by_then)[2]
        assert made_by(flat(made), end) == expected

    def test_by_hand(self) -> None:
        """Labels after 100, 49 and 50 ms; predictions at 0 (wrong), 30 and 60 (right), or at 40 only."""
        world = World({"defaults": {
            "stages": ["final", "after:50ms"], "estimators": ["all"], "measures": ["accuracy"],
            "baselines": ["persistent"], "emit": {"outcomes": 1, "every": None}, "detectors": [],
        }}, ([], [], []))  # fmt: skip
        for instance, latency in enumerate((100, 49, 50)):
            t0 = 1_000 * instance
            about = {"stream": "s", "instance_id": instance}
            world.topics[0].append((t0, {**about, "ts": t0}))
            for age, y in ((0, "b"), (30, "a"), (60, "a")):
                if age <= latency:
                    row = {**about, "model": "m", "y_pred": y, "ts": t0 + age}
                    world.topics[1].append((t0 + age, row))
            if latency == 50:
                row = {**about, "model": "late", "y_pred": "a", "ts": t0 + 51}
                world.topics[1].append((t0 + 51, row))  # nothing said by then, and late for the label
            world.topics[2].append((t0 + latency, {**about, "y_true": "a", "ts": t0 + latency}))
        found = [
            (m.model, m.ts, m.outcomes, m.measures.get("accuracy"))
            for m in metrics_of(catch_up(world).outputs)
            if m.stage == "after:50ms"
        ]
        assert len(found) == 6  # with the last set
        assert found[:4] == [
            ("m", 100, 1, 1.0), ("@persistent", 100, 1, 0.0),
            ("m", 2050, 2, 1.0), ("@persistent", 2050, 2, 0.5),
        ]  # fmt: skip


def test_forecasts_by_lead_time() -> None:
    """Several series, whose hourly values are forecast again each hour, by their last 24 leads."""
    hour, leads, rng = 3_600_000, range(1, 25), random.Random(1)
    predictions: list[Any] = []
    labels: list[Any] = []
    errors: dict[tuple[str, int], list[float]] = {}
    for series in "abc":
        for target in range(24, 60):
            about = {"stream": series, "instance_id": f"{target}"}
            actual, latest = rng.gauss(0, 1), None
            labels.append((target * hour, {**about, "y_true": actual, "ts": target * hour}))
            made = [lead for lead in range(30, 0, -1) if rng.random() < 0.7]  # some hours have none
            for lead in range(30, 0, -1):
                if lead in made:
                    latest, ts = rng.gauss(0, 1), (target - lead) * hour
                    predictions.append((ts, {**about, "model": "m", "y_pred": latest, "ts": ts}))
                if lead <= 24 and latest is not None:
                    errors.setdefault((series, lead), []).append(abs(latest - actual))
    stages = [f"lead:{lead}h" for lead in leads]
    settings = {
        "task": "regression", "stages": stages, "estimators": ["all"], "label_horizon": "2d", "detectors": [],
    }  # fmt: skip
    topics: Any = ([], sorted(predictions, key=lambda row: row[0]), sorted(labels, key=lambda row: row[0]))
    found = metrics_of(catch_up(World({"defaults": settings}, topics)).outputs)
    last = {(one.stream, one.stage): one for one in found}
    for (series, lead), expected in errors.items():
        one = last[series, f"lead:{lead}h"]
        assert one.n == len(expected)
        assert one.measures["mae"] == pytest.approx(math.fsum(expected) / len(expected), rel=1e-12)


def test_a_lead_that_no_prediction_has() -> None:
    rows = [(0, {"stream": "s", "model": "m", "instance_id": "1", "y_pred": "a", "ts": 500})]
    settings = {"stages": ["lead:500ms", "lead:501ms"], "detectors": []}
    topics: Any = ([], rows, [(1_000, {"stream": "s", "instance_id": "1", "y_true": "a", "ts": 1_000})])
    found = metrics_of(catch_up(World({"defaults": settings}, topics)).outputs)
    assert {one.stage for one in found} == {"lead:500ms"}
