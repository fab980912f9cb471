"""What an `Evaluator` says, and what it comes to know, doesn't depend on how often it is asked."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from prequential.engine.join.join import join
from prequential.evaluation import Evaluator
from prequential.evaluation.evaluator import _FEW
from prequential.topics.outputs import Alarm, DeadLetter

from tests.nightly import scaled

START = 1_700_000_000_000

#: What is asked for after a record, if anything is.
ASKED: dict[str, Callable[[int], bool]] = {
    "after each record": lambda number: True,
    "after each third": lambda number: number % 3 == 0,
    "in bursts": lambda number: number // 40 % 3 == 0,
    "rarely": lambda number: number % (_FEW + 31) == 0,
}

BINS = {"stages": ["initial", "final", "bins", "intermediate", "after:30s"], "bins": 2}
DETAILS = ["intervals", "dependence", "per_class", "normalised", "worse_than_baseline"]
CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "messages due by counts and by time": {
        "emit": {"outcomes": 7, "every": "20s", "comparisons": "30s"},
        "detectors": [{"signal": "error", "lambda": 4}, {"detector": "ddm"}],
    },
    "segments": {"segments": ["arm"], "compare": "off", "detectors": [{"detector": "hddm-w"}]},
    "stages": {**BINS, "details": DETAILS, "positive_class": "a", "baselines": ["persistent", "random"]},
    "signals of measures": {
        "detectors": [
            {"signal": "window:20:log_loss", "lambda": 0.5}, {"detector": "adwin", "signal": "recall"},
            {"signal": "fading:0.9/all", "delta": 0.01, "lambda": 0.5, "min_outcomes": 5},
            {"signal": "brier", "lambda": 1.0},
        ],
        "positive_class": "a", "measures": ["accuracy", "auc", "log_loss", "ece"],
        "estimators": ["all", "window:50", "fading:0.95", "decay:1m"],
    },
    "harm": {"objective": {"accuracy": 0.95, "tolerance": 0.02}},
    "versions": {"versions": "separate"},
    "periods": {"period": "40s", "label_horizon": "30s", "settle": "5s"},
    "correction": {"temporal_correction": True},
    "budget": {"alarm_budget": "1 per 1m"},
}  # fmt: skip


def calls(count: int, seed: int) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Of `predict` and `learn`: two models, one of which gets worse; labels late, revised, or missing."""
    r = random.Random(seed)
    due: list[tuple[int, int, str]] = []
    for i in range(count):
        ts = START + 1000 * i
        due.sort()
        while due and due[0][0] <= ts:
            when, of, label = due.pop(0)
            yield "learn", (of, label), {"ts": when}
            if r.random() < 0.05:
                yield "learn", (of, r.choice("abc")), {"ts": when + 1}
        truth = r.choice("ab") if i < count // 2 else r.choice("abc")
        for model, wrong in (("m", 0.1 if i < count // 2 else 0.7), ("n", 0.3)):
            for again in range(1 + (r.random() < 0.1)):
                guess = truth if r.random() > wrong else r.choice("ab")
                p = r.uniform(0.4, 1)
                more: dict[str, Any] = {"model_version": f"v{3 * i // count}"} if i % 5 else {}
                more |= {"y_proba": {guess: p, "other": 1 - p}} if r.random() < 0.8 else {}
                more |= {"segments": {"arm": r.choice("uvwxyz")}} if r.random() < 0.9 else {}
                yield "predict", (i, guess), {"ts": ts + again, "model": model, **more}
        if r.random() < 0.9:
            due.append((ts + r.randrange(2, 45_000), i, truth))


def numbers(count: int, seed: int) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """The same of numbers, without times."""
    r = random.Random(seed)
    for i in range(count):
        y = r.gauss(0, 1)
        yield "predict", (i, y + r.gauss(0, 0.3 if i < count // 2 else 2)), {}
        yield "learn", (i, y), {}


def found(evaluator: Evaluator) -> tuple[dict[str, list[bytes]], bytes]:
    """All that a result has: messages by topic, dead letters also by kind, and the summary."""
    result = evaluator.result()
    by_topic: dict[str, list[bytes]] = {}
    for one in result.messages:
        topic = f"{type(one).__name__} {one.kind if isinstance(one, DeadLetter) else ''}"
        by_topic.setdefault(topic, []).append(msgspec.json.encode(one))
    return by_topic, msgspec.json.encode(result.summary)


def assert_same(settings: dict[str, Any], feed: Callable[[], Any], asked: Callable[[int], bool]) -> Evaluator:
    """Two evaluators, one of which is asked, find the same."""
    unasked, evaluator = Evaluator(**settings), Evaluator(**settings)
    alarms = 0
    for number, (verb, args, more) in enumerate(feed()):
        for one in (unasked, evaluator):
            getattr(one, verb)(*args, **more)
        if asked(number):
            alarms += evaluator.drift_detected
            try:
                evaluator.get(model="m" if "model" in more or verb == "learn" else None)
            except ValueError as error:
                assert "no outcomes" in str(error)  # noqa: PT017
    messages, summary = found(evaluator)
    wanted, wanted_summary = found(unasked)
    assert messages == wanted
    assert summary == wanted_summary
    assert not alarms or "Alarm " in messages
    return evaluator


@pytest.mark.parametrize("asked", ASKED)
def test_nothing_depends_on_what_is_asked(asked: str) -> None:
    evaluator = assert_same(CASES["messages due by counts and by time"], lambda: calls(250, 1), ASKED[asked])
    assert any(isinstance(one, Alarm) for one in evaluator.result().messages)


@pytest.mark.parametrize("case", sorted(set(CASES) - {"messages due by counts and by time"}))
def test_nor_on_what_is_configured(case: str) -> None:
    assert_same(CASES[case], lambda: calls(scaled(80, 150), 2), ASKED["after each record"])


def test_nor_on_times_that_go_back() -> None:
    """Calls count in their order."""

    def feed() -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
        r = random.Random(6)
        for verb, args, more in calls(150, 6):
            yield verb, args, {**more, "ts": more["ts"] - r.choice([0, 0, 5_000, 20_000])}
        yield "predict", ("ahead", "a"), {"ts": START + 10_000_000, "model": "m"}
        yield from long_names(_FEW, START + 300_000)

    assert_same({"emit": {"outcomes": 10}}, feed, ASKED["after each third"])


def test_nor_where_tables_grow_between_labels() -> None:
    """Each label is the first of a segment, which needs rows of its own."""

    def feed() -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
        for i in range(100):
            more = {"model": "m", "segments": {"arm": str(i % 50)}}
            yield "predict", (i, "ab"[i % 3 % 2]), more if i < 50 else {"model": "m"}
        for i in range(100):
            yield "learn", (i, "ab"[i % 2]), {}

    settings = {"segments": ["arm"], "segments_per_key": 60, "emit": {"outcomes": 5, "every": None}}
    assert_same(settings, feed, ASKED["after each record"])


def test_nor_with_numbers() -> None:
    settings = {
        "task": "regression", "detectors": [{"signal": "error", "lambda": 5}, {"signal": "scaled_error"}],
    }
    evaluator = assert_same(settings, lambda: numbers(300, 3), ASKED["after each record"])
    assert any(isinstance(one, Alarm) for one in evaluator.result().messages)


def test_more_records_than_an_open_micro_batch_has_room_for() -> None:
    settings = {"emit": {"outcomes": None, "every": None}}
    assert_same(settings, lambda: long_names(900), lambda number: True)


def long_names(count: int, start: int | None = None) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Each label right after its prediction, with long ids; without times unless they `start` somewhere."""
    r = random.Random(4)
    for i in range(count):
        name, of_m = f"{'x' * (i % 250)}{i}", {} if start is None else {"model": "m", "ts": start + i}
        yield "predict", (name, r.choice("ab")), of_m
        yield "learn", (name, r.choice("ab")), {} if start is None else {"ts": start + i}


@pytest.mark.parametrize("case", ["defaults", "stages", "signals of measures", "correction"])
def test_what_is_said_is_what_a_summary_says(case: str) -> None:
    """Of each model, stage and estimator; right after a record, and before all else knows of it."""
    evaluator = Evaluator(**CASES[case])
    seen = 0
    for number, (verb, args, more) in enumerate(calls(120, 5)):
        getattr(evaluator, verb)(*args, **more)
        _ = evaluator.drift_detected
        if number % 41 or number < 80:
            continue
        known = {}
        for model in ("m", "n"):
            for stage in ("initial", "final", "bin:1", "intermediate"):
                for estimator in ("all", "window:50", "fading:0.95"):
                    try:
                        of = evaluator.get(model=model, stage=stage, estimator=estimator)
                    except ValueError:
                        continue
                    known[model, stage, estimator] = of
                    accuracy = evaluator.get("accuracy", model=model, stage=stage, estimator=estimator)
                    assert accuracy == of.get("accuracy")
        told = set()  # a summary has the first two stages and what is the same
        for one in evaluator.result().summary.sequences:
            for stage in (one.stage, *one.same):
                told.add(stage)
                for estimator, measures in one.measures.items():
                    if (one.model, stage, estimator) in known:
                        assert known.pop((one.model, stage, estimator)) == measures
                        seen += 1
        assert not [one for one in known if one[1] in told]
    assert seen > 20


def test_a_step_compiles_nothing() -> None:
    """Rows that are added one at a time are of the types that the join is compiled for."""
    evaluator = Evaluator()
    for i in range(20):
        evaluator.predict(i, i % 2)
        evaluator.learn(i, np.int64(i % 3 % 2))
        _ = evaluator.drift_detected, evaluator.get()
    assert len(getattr(join, "overloads", [None])) == 1
