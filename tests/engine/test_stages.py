"""Which prediction counts in which stage, and the intermediate measure, against plain loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers import World, advance, batch_of, catch_up, examples, metrics_of, small_logs
from hypothesis import given
from hypothesis import strategies as st
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
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
    advance(shard, 100)
    shard.add(batch_of(2, [(t1, {**about, "y_true": "y", "ts": t1})], 0, 1))
    advance(shard, 100)
    catalog, found = shard.catalog, {}
    names = catalog.streams[0].class_names
    for entity in catalog.entities[1:]:
        assert entity is not None
        plan = catalog.plans[catalog.registry.entities.plan[entity.row]]
        for place, stage in enumerate(plan.stages):
            if stage == "initial" and catalog.registry.entities.initial_is_final[entity.row]:
                continue  # it has no row
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


class TestPaper:
    """2020 paper, section III."""

    def test_twice_as_important(self) -> None:
        """α = 2: "initial predictions twice as important as the ultimate predictions"."""
        assert psi([1, 0], 2.0) == pytest.approx(2 / 3)
        assert psi([0, 1], 2.0) == pytest.approx(1 / 3)
        weights = [psi([float(b == c) for c in range(101)], 2.0) for b in (0, 50, 100)]
        assert [w / weights[0] for w in weights] == pytest.approx([1, 1 / math.sqrt(2), 1 / 2])


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
            if m.stage == "after:50ms" and m.outcomes
        ]
        assert len(found) == 6  # with the last set
        assert found[:4] == [
            ("m", 100, 1, 1.0), ("@persistent", 100, 1, 0.0),
            ("m", 2050, 2, 1.0), ("@persistent", 2050, 2, 0.5),
        ]  # fmt: skip


def test_a_lead_that_no_prediction_has() -> None:
    rows = [(0, {"stream": "s", "model": "m", "instance_id": "1", "y_pred": "a", "ts": 500})]
    settings = {"stages": ["lead:500ms", "lead:501ms"], "detectors": []}
    topics: Any = ([], rows, [(1_000, {"stream": "s", "instance_id": "1", "y_true": "a", "ts": 1_000})])
    found = metrics_of(catch_up(World({"defaults": settings}, topics)).outputs)
    assert {one.stage for one in found if one.outcomes} == {"lead:500ms"}
