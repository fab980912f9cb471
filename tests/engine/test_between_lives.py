"""The configuration changes while things wait: another life goes on from a written snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import count, islice
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import dead_letters_of, metrics_of, model_of, small_logs, snapshot_of, take
from oracle_cases import inst, lab, pred
from prequential.configuration.settings.model import Config, Limits
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.catalog.state import check
from prequential.engine.delay import coverage
from prequential.engine.shard import Shard
from prequential.topics.errors import WorkError
from prequential.topics.outputs import Comparison, Metrics, Output, decoded

#: A message after each outcome.
BASE = StreamConfig(
    estimators=("all",), detectors=(), emit_outcomes=1, emit_every=None, label_horizon=10_000,
    settle=10_000,
)  # fmt: skip


@pytest.fixture(scope="module", params=["as it is", "small logs"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    with small_logs() if request.param == "small logs" else nullcontext():
        yield request.param


class Lives:
    """One shard after the other; `limits` may differ as well."""

    def __init__(self, **changed: Any) -> None:
        self.shard = Shard(self.config(**changed))
        self.missing: list[str] = []
        #: What the last change ended, by kind and name, and of how many.
        self.ended: dict[tuple[str, str], int] = {}

    def config(self, limits: Limits | None = None, **changed: Any) -> Config:
        return Config(defaults=replace(BASE, **changed), limits=limits or Limits())

    def next(self, **changed: Any) -> None:
        written = snapshot_of(self.shard)
        self.shard = Shard(self.config(**changed))
        restored = self.shard.restore(msgspec.msgpack.decode(part) for part in written)
        self.missing = [str(one) for one in restored.begun]
        self.ended = dict(restored.ended)

    def go(self, *records: Any) -> list[Output]:
        return take(self.shard, *records)


@pytest.mark.parametrize(
    ("more", "added"),
    [
        ({"estimators": ("window:10", "all")}, ("final", "all")),
        ({"stages": ("initial", "final")}, ("initial", "window:10")),
    ],
)
def test_what_is_added_starts_empty_and_says_so(more: dict[str, Any], added: tuple[str, str]) -> None:
    usual: dict[str, Any] = {"estimators": ("window:10",), "stages": ("final",), "measures": ("accuracy",)}
    lives = Lives(**usual)
    lives.go(pred(1, 4, "x"), pred(1, 5, "x"), lab(1, 5, "x"))
    lives.next(**usual | more)
    lives.shard.last_set()
    last = {(m.stage, m.estimator): m for m in metrics_of(lives.shard.flush()[0])}
    known, new = last["final", "window:10"], last[added]
    assert (known.n, known.started_empty) == (1, msgspec.UNSET)
    assert (new.n, new.undefined, new.started_empty) == (0, {"accuracy": "empty"}, True)


@pytest.mark.parametrize(("horizon", "outcomes"), [(1500, 1), (1000, 0), (500, 0)])
def test_a_changed_horizon_holds_for_what_waits(horizon: int, outcomes: int) -> None:
    lives = Lives(label_horizon=1000)
    lives.go(pred("a", 0, "x"))
    lives.next(label_horizon=horizon)
    lives.go(lab("a", 1400, "x"))
    model = model_of(lives.shard, "s", "m")
    assert (model["outcomes"], model["expired"]) == (outcomes, 1 - outcomes)


def by_stage(outputs: Iterable[Output]) -> dict[str, Metrics]:
    return {message.stage: message for message in metrics_of(list(outputs))}


@pytest.mark.parametrize("estimator", ["all", "window:3"])
@pytest.mark.parametrize("first", ["persistent", "majority"])
def test_a_revision_where_a_baseline_began_later_than_the_other(first: str, estimator: str) -> None:
    """At an age, each baseline's outcome moves, or none: numbers of their outcomes differ."""
    stages = ("final", "after:2ms", "after:1ms")
    settings: dict[str, Any] = {"stages": stages, "estimators": (estimator,)}
    lives = Lives(baselines=(first,), **settings)
    for i in range(3):
        lives.go(pred(i, 10 * i, "a"), lab(i, 10 * i + 5, "a"))
    lives.next(baselines=("persistent", "majority"), **settings)
    lives.go(lab(2, 26, "b"))  # which the second baseline knows nothing of
    for i in range(3, 6):
        lives.go(pred(i, 10 * i, "a"), lab(i, 10 * i + 5, "a"))
    lives.go(lab(4, 56, "b"))
    found = {
        message.model: message
        for message in metrics_of(lives.go(pred(6, 60, "a"), lab(6, 65, "a")))
        if message.stage == "after:1ms"
    }
    of_both = (found["@persistent"], found["@majority"])
    earlier, later = of_both if first == "persistent" else of_both[::-1]
    assert (earlier.outcomes, later.outcomes) == (7, 4)
    # The first of all outcomes is wrong, as there was no label; then the two that were revised.
    assert earlier.measures["error"] == pytest.approx(3 / 7 if estimator == "all" else 1 / 3)
    assert later.measures["error"] == pytest.approx(1 / 4 if estimator == "all" else 1 / 3)


def test_probabilities_that_nobody_asks_for_any_more() -> None:
    lives = Lives()
    lives.go(inst(1, 1_000), pred(1, 1_001, "a", y_proba={"a": 0.5, "b": 0.5}))
    lives.next(measures=("accuracy",))
    found = by_stage(lives.go(lab(1, 2_000, "a")))
    assert found["final"].measures == {"accuracy": 1.0}


@pytest.mark.parametrize("measure", ["ipw_accuracy", "ipw_n"])
def test_propensities_that_nobody_asks_for_any_more(measure: str) -> None:
    """Tables of slots grow together, also those that only the former configuration needed."""
    lives = Lives(measures=(measure,))
    lives.go(*(inst(i, i, label_propensity=0.5) for i in range(3)))
    lives.next(measures=("accuracy",))
    lives.go(*(record for i in range(3, 90) for record in (inst(i, i), pred(i, i, "a"))))
    store = lives.shard.state.store
    check(store)
    assert len(store.marks.propensity) == len(store.instances) > 64
    shorter = store._replace(marks=store.marks._replace(propensity=store.marks.propensity[:3]))
    with pytest.raises(RuntimeError, match=r"tables of slots have .*'marks.propensity': 3"):
        check(shorter)


def test_a_lower_limit_of_instances_is_reached_again() -> None:
    """What is remembered beyond it is forgotten in time."""
    lives = Lives(settle=100)
    lives.go(*(record for i in range(30) for record in (pred(i, i, "a"), lab(i, i, "a"))))
    lives.next(settle=100, limits=Limits(instances_per_shard=10))
    refused = dead_letters_of(lives.go(pred(30, 40, "a")))
    assert len(refused) == 1
    assert dead_letters_of(lives.go(lab(0, 500, "a"), pred(31, 501, "a"))) == []
    assert lives.shard.state.remembered <= 2


@pytest.mark.parametrize("horizon", [100, 10_240_000])
def test_coverage_survives_another_horizon_and_a_second_restart(horizon: int) -> None:
    lives = Lives(label_horizon=1_024_000)
    lives.go(*(pred(i, 1_000 * i, "a") for i in range(20)))
    for _ in range(2):
        lives.next(label_horizon=horizon)
    assert waiting(lives.shard)[0] == 20
    step = max(horizon, 1_024_000) // 128
    assert 19_000 <= waiting(lives.shard)[1] <= 19_000 + step
    if horizon > 1_000_000:
        lives.go(*(lab(i, 20_000, "a") for i in range(20)))
        assert waiting(lives.shard) == (0, 0)


@pytest.mark.parametrize(
    "horizons", [(100_000, 143_000), (143_000, 100_000), (100_000, 143_000, 90_000, 100_001)]
)
def test_what_waits_is_found_under_another_horizon(horizons: tuple[int, ...]) -> None:
    """Cohorts whose widths are no multiples of each other: what meets its label is taken out where it is."""
    lives = Lives(label_horizon=horizons[0])
    lives.go(*(pred(i, 700 * i, "a") for i in range(100)))
    lives.go(*(lab(i, 75_000, "a") for i in range(0, 100, 3)))
    left = [i for i in range(100) if i % 3]
    for horizon in horizons[1:]:
        lives.next(label_horizon=horizon)
        assert waiting(lives.shard)[0] == len(left)
        assert 0 <= waiting(lives.shard)[1] - (75_000 - 700 * left[0]) <= horizon // 128
    lives.go(*(lab(i, 76_000, "a") for i in left))
    assert waiting(lives.shard) == (0, 0)
    table = lives.shard.state.accounts.coverage
    assert not table.cohorts.counts[:, 0].any()
    assert (table.cohorts.counts[:, 1] >= table.cohorts.met.sum(axis=1)).all()


def test_another_loss_begins_with_signals_of_its_own() -> None:
    """Sums of absolute errors say nothing of squared ones."""
    signals = ("error", "scaled_error", "fading:0.9/fading:0.99", "mae")
    detectors = tuple(DetectorConfig("page-hinkley", signal, {}) for signal in signals)
    settings: dict[str, Any] = {"task": "regression", "detectors": detectors}
    lives = Lives(**settings)
    for i in range(40):
        lives.go(pred(i, 10 * i, 10.0), lab(i, 10 * i + 5, 0.0))
    empty = []
    for loss in ("absolute", "squared", "squared"):
        lives.next(loss=loss, **settings)
        empty.append([signal for signal in signals if any(f" {signal}" in line for line in lives.missing)])
    assert empty == [[], ["error", "scaled_error", "fading:0.9/fading:0.99"], []]


def waiting(shard: Shard) -> tuple[int, int]:
    """How many predictions of s/m wait, and the oldest one's age."""
    stream = shard.catalog.by_name["s"]
    model, clock = stream.models["m"], int(shard.catalog.registry.streams.clock[stream.code])
    table = shard.state.accounts.coverage
    return int(table.models.waiting[model]), coverage.oldest(table, np.array([model]), np.array([clock]))[0]


@pytest.mark.parametrize("estimator", ["all", "window:2"])
@pytest.mark.parametrize("stage", ["final", "after:10ms", "bins"])
def test_a_revision_doesnt_reach_a_stage_that_began_later(stage: str, estimator: str) -> None:
    lives = Lives(stages=("initial",), estimators=(estimator,))
    lives.go(pred("x", 0, "a"), pred("x", 20, "a"), lab("x", 50, "a"))
    lives.next(stages=("initial", stage), estimators=(estimator,))
    lives.go(pred("y", 60, "a"), pred("y", 65, "a"), lab("y", 90, "a"))
    lives.go(lab("x", 95, "b"))
    found = by_stage(lives.go(pred("z", 100, "a"), pred("z", 105, "a"), lab("z", 120, "a")))
    added = found["bin:1" if stage == "bins" else stage]
    assert (added.n, added.measures["accuracy"]) == (2, 1.0)
    assert found["initial"].measures["accuracy"] == (1.0 if estimator == "window:2" else 2 / 3)


@pytest.mark.parametrize(("bins", "outcomes"), [(1, 2), (2, 1)])
def test_pairs_begin_empty_in_bins_of_another_number(bins: int, outcomes: int) -> None:
    """As models do: a bin has other predictions then."""
    usual: dict[str, Any] = {"stages": ("final", "bins"), "compare": "all"}
    lives = Lives(bins=1, **usual)

    def joint(number: int) -> dict[str, int]:
        """By stage: joint outcomes of two models."""
        found = lives.go(
            *(pred(number, 10 * number, "a", model=model) for model in ("m", "n")),
            lab(number, 10 * number + 5, "a"),
        )
        made = [decoded(one) for one in found]
        return {one.stage: one.outcomes for one in made if isinstance(one, Comparison)}

    assert joint(1)["bin:1"] == 1
    lives.next(bins=bins, **usual)
    found = joint(2)
    assert found["final"] == 2
    assert found["bin:1"] == outcomes


@pytest.mark.parametrize("estimator", ["all", "window:5"])
def test_another_task_is_refused(estimator: str) -> None:
    lives = Lives(estimators=(estimator,))
    lives.go(pred(1, 1, "1", y_proba={"1": 0.9, "2": 0.1}), lab(1, 2, "1"))
    with pytest.raises(WorkError, match="stream 's' was of task classification, and its conf"):
        lives.next(estimators=(estimator,), task="regression")


def test_transitions_that_begin_again_know_nothing_of_before() -> None:
    """What followed a label and the pairs that it was in go together."""
    lives = Lives(temporal_correction=True)
    for half, correction in ((0, False), (1, True)):
        for i in range(20 * half, 20 * half + 20):
            about = {"y_proba": {"a": 0.4, "b": 0.6}}
            lives.go(pred(i, 10 * i, "b", **about), lab(i, 10 * i + 5, "ab"[i % 2]))
        lives.next(temporal_correction=correction)
    assert not lives.shard.catalog.registry.classes.followed.any()


def test_segments_change_where_another_stream_has_lost_a_version() -> None:
    """Predictions of versions that aren't evaluated any more are of no stream."""
    few = {"versions": "separate", "segments": ("arm",)}
    limits = Limits(versions_per_model=1)

    def config(count: int) -> Config:
        big = replace(BASE, **few, segments_per_key=50)
        small = replace(BASE, **few, segments_per_key=count)
        return Config(defaults=small, streams={"t": big}, limits=limits)

    lives = Lives()
    lives.shard = Shard(config(2))
    lives.go(pred(0, 1, "a", model_version="1", segments={"arm": "x"}))
    for k in range(9):
        lives.go(pred(k, 2, "a", stream="t", model_version="1", segments={"arm": f"v{k}"}))
    lives.go(pred(99, 3, "a", stream="t", model_version="2"))
    written = snapshot_of(lives.shard)
    lives.shard = Shard(config(3))
    lives.shard.restore(msgspec.msgpack.decode(part) for part in written)
    found = metrics_of(lives.go(lab(99, 5, "a", stream="t")))
    assert {(one.stream, one.model, one.measures["accuracy"]) for one in found} == {("t", "m:2", 1.0)}


@pytest.mark.parametrize(
    ("before", "zone"), [(None, "UTC"), (500, "UTC"), (10_000, "Asia/Tokyo"), (None, "Asia/Tokyo")]
)
def test_periods_that_begin_know_what_waits(before: int | None, zone: str) -> None:
    lives = Lives(period=before, emit_every=1_000, period_zone=zone)
    lives.go(*(pred(i, 1_000 + i, "a") for i in range(5)))
    lives.next(period=10_000, emit_every=1_000)
    assert lives.missing == ["s/m: period 10s"]
    lives.go(pred(5, 1_010, "a"), *(lab(i, 2_000, "a") for i in range(3)))
    outputs = lives.go(pred(6, 11_000, "a"))
    periods: list[Any] = [m.period for m in metrics_of(outputs) if m.period is not msgspec.UNSET]
    assert periods
    assert {(told["predictions"], told["labelled"]) for told in periods} == {(6, 3)}


@pytest.mark.parametrize("name", ["@persistent", "m@random"])
def test_names_of_what_is_beside_models_are_taken(name: str) -> None:
    lives = Lives(baselines=("persistent", "random"))
    [letter] = dead_letters_of(lives.go(pred(1, 5, "a", model=name)))
    assert letter.reason == f"model '{name}': the name is reserved for a baseline or a correction"
    assert dead_letters_of(Lives().go(pred(1, 5, "a", model=name))) == []


@pytest.mark.parametrize("window", [(), ("window:1",), ("window:50",)])
def test_a_revision_doesnt_reach_an_estimator_that_began_later(window: tuple[str, ...]) -> None:
    lives = Lives(estimators=("fading:0.9", *window))
    lives.go(*(record for i in range(5) for record in (pred(i, i, "a"), lab(i, i, "a"))))
    lives.next(estimators=("fading:0.9", *window, "all", "window:3"))
    lives.go(*(record for i in range(5, 10) for record in (pred(i, i, "a"), lab(i, i, "a"))))
    lives.go(lab(0, 20, "b"), lab(4, 20, "b"), lab(9, 20, "b"))
    # The label of 3 came before, this model's prediction of it afterwards.
    lives.go(pred(3, 3, "b", model="n"), lab(3, 21, "b"))
    outputs = metrics_of(lives.go(pred(11, 30, "a"), lab(11, 30, "a")))
    found = {m.estimator: m for m in outputs if (m.model, m.stage) == ("m", "final")}
    assert (found["all"].n, found["all"].measures["accuracy"]) == (6, 5 / 6)
    assert found["window:3"].measures["accuracy"] == 2 / 3
    if window == ("window:50",):
        assert found["window:50"].measures["accuracy"] == 7 / 11


@pytest.mark.parametrize("what", [{"baselines": ("persistent",)}, {"stages": ("final", "after:1ms")}])
def test_a_revision_doesnt_reach_what_began_later(what: dict[str, Any]) -> None:
    lives = Lives()
    lives.go(pred(1, 0, "a"), lab(1, 5, "a"))
    lives.next(**what)
    lives.go(lab(1, 6, "b"))
    outputs = metrics_of(lives.go(pred(2, 10, "a"), lab(2, 15, "a")))
    [added] = [m for m in outputs if m.model == "@persistent" or m.stage == "after:1ms"][:1]
    assert (added.n, added.outcomes) == (1, 1)
    assert min(added.measures["accuracy"], added.measures["error"]) == 0


@pytest.mark.parametrize(
    "limits",
    [
        Limits(streams_per_shard=1),
        Limits(models_per_stream=1),
        Limits(classes_per_stream=2),
        Limits(predictions_per_instance=1),
        Limits(instances_per_shard=1),
    ],
)
def test_limits_lower_than_what_a_snapshot_holds(limits: Limits) -> None:
    """What is there goes on; what would be new is refused."""
    lives = Lives()
    for stream in ("s", "t"):
        lives.go(
            *(pred(1, 1, y, model=f"m{y}", stream=stream) for y in "abc"),
            lab(2, 2, "a", stream=stream),
        )
    lives.next(limits=limits)
    assert lives.missing == []
    outputs = lives.go(*(lab(1, 10, "a", stream=stream) for stream in ("s", "t")))
    assert {(m.stream, m.model) for m in metrics_of(outputs)} == {
        (stream, model) for stream in ("s", "t") for model in ("ma", "mb", "mc")
    }
    lives.next(limits=limits)
    assert len(metrics_of(lives.go(lab(1, 11, "b", stream="s")))) == 0


@pytest.mark.parametrize("outcomes", [0, 2])
@pytest.mark.parametrize(
    "meanwhile",
    [{}, {"details": ()}, {"estimators": ("window:7",)}, {"stages": ("bins",)}, {"stages": ("initial",)}],
)
@pytest.mark.parametrize("twice", [False, True])
def test_since_when_it_is_worse_is_forgotten_where_nobody_looks(
    meanwhile: dict[str, Any], outcomes: int, twice: bool
) -> None:
    """Whether it was worse all the time isn't known then, but where `initial` is the same up to now."""
    usual: dict[str, Any] = {"details": ("worse_than_baseline",), "stages": ("final",)}
    lives, numbers = Lives(**usual), count(1)

    def wrong(outcomes: int) -> Any:
        """All labels are the same, and the model says another: since when it is worse, at the end."""
        found: list[Output] = []
        for number in islice(numbers, outcomes):
            made = [pred(number, 10 * number - k, "b") for k in range(1 + twice)][::-1]
            found += lives.go(*made, lab(number, 10 * number + 1, "a"))
        return by_stage(found)["final"].worse_than_baseline if "final" in by_stage(found) else None

    assert wrong(5) == {"persistent": 21, "majority": 21}
    lives.next(**usual | meanwhile)
    wrong(outcomes)
    lives.next(**usual)
    looked = not meanwhile or (meanwhile == {"stages": ("initial",)} and not twice)
    begun = 21 if looked else 10 * (5 + outcomes + 1) + 1
    assert wrong(3) == {"persistent": begun, "majority": begun}


def test_histograms_of_scores_go_on_and_begin_where_they_are_new() -> None:
    """A measure of ranks and the detail have the same one; what is new hasn't seen what was before."""
    usual: dict[str, Any] = {"positive_class": "a", "stages": ("final",)}
    lives, numbers = Lives(measures=("auc",), **usual), count(1)

    def next_scores(y: str, p: float) -> Metrics:
        number = next(numbers)
        made = pred(number, 10 * number, "a", y_proba={"a": p})
        return by_stage(lives.go(made, lab(number, 10 * number + 1, y)))["final"]

    next_scores("a", 0.9)
    lives.next(measures=("pr_auc",), details=("scores",), **usual)
    assert lives.missing == []
    message = next_scores("b", 0.2)
    assert message.scores == {"bins": [75, 135], "negatives": [1, 0], "positives": [0, 1]}
    assert message.undefined == {"pr_auc": "too_few"}
    lives.next(**usual)
    next_scores("b", 0.95)
    lives.next(details=("scores",), **usual)
    assert lives.missing == ["s/m: final scores all"]
    message = next_scores("a", 0.5)
    assert message.scores == {"bins": [100], "negatives": [0], "positives": [1]}
    assert message.started_empty is True
