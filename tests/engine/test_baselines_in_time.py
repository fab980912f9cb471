"""Baselines predict when the prediction of a stage was made, and say nothing where there was no label yet."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pytest
from helpers import WAYS, metrics_of
from oracle_cases import lab, pred, tick
from prequential.topics.outputs import Metrics
from test_between_lives import Lives

ESTIMATORS = ("all", "window:4", "fading:0.5")
OF_BASELINES = ("p_per", "kappa_per", "p_maj", "kappa_maj", "kappa_plus")
MEASURES = ("accuracy", "kappa", *OF_BASELINES)


def by_stage(found: list[Metrics], stage: str) -> list[Any]:
    return [
        (m.model, m.segment, m.estimator, m.outcomes, m.n, m.measures, m.undefined, m.intervals)
        for m in found
        if m.stage == stage
    ]


def test_of_one_prediction_an_instance_all_stages_say_the_same() -> None:
    """Bit for bit, with revisions, late predictions and segments; labels come in any order."""
    rng = random.Random(5)
    records: list[Any] = []
    for i in range(300):
        made, labelled = 10 * i, 10 * i + rng.randrange(200)
        segments = {"arm": rng.choice("xy")}
        for model in "mn":
            delivered = made if rng.random() < 0.9 else labelled + 5
            guess = rng.choice("aab")
            records.append(pred(i, made, guess, delivered, model=model, segments=segments))
        records.append(lab(i, labelled, rng.choice("aab")))
        if rng.random() < 0.2:
            records.append(lab(i, labelled + 7, rng.choice("abc")))
    records.sort(key=lambda record: record[2])

    def said(*stages: str) -> list[Metrics]:
        lives = Lives(
            estimators=("all", "window:30", "fading:0.97"), stages=stages, bins=2, segments=("arm",),
            measures=MEASURES, details=("intervals",), emit_outcomes=50,
        )  # fmt: skip
        return metrics_of(lives.go(*records))

    found = said("initial", "final", "bins", "intermediate")
    expected = by_stage(found, "final")
    assert len(expected) > 60
    assert any("kappa_per" in one[5] for one in expected)
    for stage in ("bin:1", "bin:2"):
        assert by_stage(found, stage) == expected
    # `initial` is the same: alone it says so.
    assert by_stage(found, "initial") == []
    assert all(m.same == ["initial"] for m in found if m.stage == "final")
    assert by_stage(said("initial"), "initial") == expected


def test_final_has_the_baselines_of_its_own_prediction() -> None:
    """A label that came between the prediction and its own is one that the prediction couldn't know."""
    records = [lab("x", 0, "b"), pred(1, 1, "a"), lab("y", 2, "a"), lab(1, 4, "a")]
    found = metrics_of(Lives(measures=MEASURES).go(*records))
    assert {m.stage: m.measures["p_per"] for m in found} == {"final": 0.0}
    # Of two predictions each has its own.
    records.insert(3, pred(1, 3, "a"))
    found = metrics_of(Lives(measures=MEASURES).go(*records))
    assert {m.stage: m.measures["p_per"] for m in found} == {"initial": 0.0, "final": 1.0}
    # So has a baseline that is evaluated, if it is the only one.
    found = metrics_of(Lives(measures=MEASURES, baselines=("majority",)).go(*records))
    assert [m.stage for m in found if m.model == "@majority"] == ["initial", "final"]


def last(found: list[Metrics]) -> dict[str, Metrics]:
    return {m.estimator: m for m in found if m.stage == "final"}


@pytest.mark.parametrize("restored", [False, True])
def test_without_a_label_baselines_say_nothing(restored: bool) -> None:
    """By the memory of each estimator: a window forgets the only outcome that knew one."""
    config = {
        "estimators": ESTIMATORS, "measures": MEASURES, "details": ("intervals",), "stages": ("final",),
        "baselines": ("random",),
    }  # fmt: skip
    lives = Lives(**config)

    def go(*records: Any) -> dict[str, Metrics]:
        found = metrics_of(lives.go(*records))
        if restored:
            lives.next(**config)
            assert lives.missing == []
        both = {m.model: last([one for one in found if one.model == m.model]) for m in found}
        for name in both.setdefault("m", {}):
            said = {measure in of[name].measures for of in both.values() for measure in ("p_per", "p_maj")}
            assert len(said) == 1  # random predictions have the same baselines
        return both["m"]

    go(*(pred(i, i, "ab"[i % 2]) for i in range(20)))  # before any label
    for m in go(*(lab(i, 100 + i, "ab"[i // 2 % 2]) for i in range(6))).values():
        assert {name: m.undefined.get(name) for name in OF_BASELINES} == dict.fromkeys(
            OF_BASELINES, "no_label_known"
        )
        assert "accuracy" in m.measures
        assert m.intervals.keys().isdisjoint(OF_BASELINES)
    for m in go(pred(20, 120, "a"), lab(20, 121, "a")).values():
        assert set(OF_BASELINES) <= {*m.measures, *m.undefined}
        assert "p_per" in m.measures
        assert "no_label_known" not in m.undefined.values()
        assert {"p_per", "p_maj"} <= m.intervals.keys()
    found = go(*(lab(i, 130 + i, "ab"[i // 2 % 2]) for i in range(6, 10)))
    undefined = found["window:4"].undefined
    assert undefined["p_per"] == undefined["kappa_plus"] == "no_label_known"
    assert "p_per" in found["all"].measures
    assert "p_per" in found["fading:0.5"].measures


def test_what_has_faded_isnt_known() -> None:
    """Of the one outcome that knew a label nothing is left."""
    lives = Lives(estimators=("fading:0.000001",), measures=("accuracy", "p_per"), stages=("final",))
    lives.go(*(pred(i, i, "a") for i in range(40)))
    lives.go(lab("x", 50, "a"), pred("y", 51, "a"), lab("y", 52, "a"))
    found = metrics_of(lives.go(*(lab(i, 60 + i, "a") for i in range(40))))
    known = ["p_per" in m.measures for m in found]
    assert known == [True] * 33 + [False] * 7  # down to a weight of 1e-200


def test_periods_without_a_label_say_so() -> None:
    lives = Lives(measures=MEASURES, period=1_000, stages=("final",), emit_outcomes=None, emit_every=1)
    found = lives.go(
        pred(0, 10, "a"), pred(1, 20, "b"), lab(0, 500, "a"), lab(1, 510, "b"), pred(2, 1_500, "a"),
        lab(2, 1_600, "b"), pred(3, 2_500, "a"), lab(3, 2_600, "a"), pred(4, 9_000, "a"),
    )  # fmt: skip
    periods = {m.estimator[7:26]: m for m in metrics_of(found) if m.estimator.startswith("period:")}
    first, second = periods["1970-01-01T00:00:00"], periods["1970-01-01T00:00:01"]
    assert first.undefined["p_per"] == first.undefined["kappa_plus"] == "no_label_known"
    assert second.measures["p_per"] == 1.0


class Remembered:
    """A stream's labels: 24 predictions were made before any, 24 when the only one was `a`; and a plain loop.

    Predictions are made at 10·i ms, and half of them are in each of two segments.
    """

    INSTANCES = 48

    def __init__(self) -> None:
        self.labels: dict[int, str | None] = {}  # as they are now, in the order in which they first came
        self.first: dict[int, str] = {}

    def made(self) -> list[Any]:
        half = self.INSTANCES // 2
        records = [
            pred(i, 10 * i, "ab"[i % 2], segments={"arm": "xy"[i // 3 % 2]}) for i in range(self.INSTANCES)
        ]
        return [*records[:half], lab("first", 10 * half - 1, "a"), *records[half:]]

    def label(self, i: int, y: str | None) -> None:
        if y is not None:
            self.first.setdefault(i, y)
        self.labels[i] = y

    def knows(self, i: int) -> bool:
        return i >= self.INSTANCES // 2

    def right(self, among: list[int]) -> float | None:
        """The share of labelled outcomes that the persistent baseline had right; None: it knew no label."""
        counted = [i for i in among if self.labels[i] is not None]
        if not any(map(self.knows, counted)):
            return None
        return sum(self.knows(i) and self.first[i] == "a" for i in counted) / len(counted)

    def expected(self) -> dict[tuple[str | None, str], float | None]:
        """`p_per` by segment and estimator, where any outcome counts."""
        wanted: dict[tuple[str | None, str], float | None] = {}
        came = list(self.labels)
        for segment in (None, "arm=x", "arm=y"):
            own = [i for i in came if segment is None or f"arm={'xy'[i // 3 % 2]}" == segment]
            memories = {"all": own, "window:3": own[-3:], "window:100": own}
            if segment is None:
                for start in range(0, 10 * self.INSTANCES, 120):
                    name = f"period:1970-01-01T00:00:00.{start:03}Z"
                    memories[name] = [i for i in own if start <= 10 * i < start + 120]
            for name, among in memories.items():
                if any(self.labels[i] is not None for i in among):
                    wanted[segment, name] = self.right(among)
        return wanted


@pytest.mark.parametrize("way", [*WAYS, "restored"])
@pytest.mark.parametrize("seed", range(2))
def test_a_withdrawn_label_leaves_no_baseline_that_knew_nothing(seed: int, way: str) -> None:
    """Labels come, change, go and come back; a plain loop says at which outcomes baselines knew a label."""
    rng, config = random.Random(seed), {
        "estimators": ("all", "window:3", "window:100"), "measures": MEASURES, "stages": ("final",),
        "segments": ("arm",), "period": 120, "emit_outcomes": None, "emit_every": 1,
    }  # fmt: skip
    with WAYS.get(way, nullcontext)():
        lives, plain, undefined, withdrawn = Lives(**config), Remembered(), 0, 0
        lives.go(*plain.made())
        newest: dict[tuple[str | None, str], Metrics] = {}
        for now in range(1_000, 2_000, 10):
            i = rng.choice([0, 3, 8, 13, 24, 27, 30, 37, 40, 47])
            y = None if plain.labels.get(i) and rng.random() < 0.7 else rng.choice("ab")
            withdrawn += y is None
            plain.label(i, y)
            for m in metrics_of(lives.go(lab(i, now, y), tick(now + 5))):
                newest[m.segment, m.estimator] = m
            for place, p in plain.expected().items():
                m = newest[place]
                assert m.measures.get("p_per") == p, (place, now)
                if p is None:
                    undefined += 1
                    assert {m.undefined[name] for name in OF_BASELINES} == {"no_label_known"}
                else:
                    assert "no_label_known" not in m.undefined.values()
            if way == "restored":
                lives.next(**config)
                assert lives.missing == []
    assert undefined > 100
    assert withdrawn > 20


def test_each_stage_counts_what_its_own_prediction_knew() -> None:
    """Of three instances without a label before, one is predicted again after the stream's first label."""
    stages = ("initial", "final", "bins", "intermediate", "after:5ms")
    lives = Lives(estimators=("all", "window:5"), measures=("p_per",), stages=stages, bins=2)
    made = (pred(i, i, "a") for i in range(3))
    before = metrics_of(lives.go(*made, lab("x", 5, "a"), pred(1, 6, "a"), lab(0, 10, "a"), lab(1, 11, "a")))
    after = metrics_of(lives.go(lab(1, 12, None), lab(2, 14, "a")))
    knew = {m.stage for m in before if "p_per" in m.measures}
    assert knew == {"final", "bin:1", "bin:2", "after:5ms"}
    assert {m.stage for m in after} == {*knew, "initial", "intermediate"}
    assert {m.undefined["p_per"] for m in after} == {"no_label_known"}


class TestAucAfterRevisions:
    """Scores are by the labels as they are now: `auc` is that of a stream without the earlier ones."""

    @staticmethod
    def auc(*labels: tuple[str, ...], **settings: Any) -> tuple[dict[str, float], dict[str, str]]:
        lives = Lives(estimators=("window:10",), measures=("auc", "precision"), stages=("final",), **settings)
        records: list[Any] = []
        for i, given in enumerate(labels):
            p = 0.9 if i % 2 else 0.2
            records.append(pred(i, 10 * i, "1", y_proba={"1": p, "0": 1 - p}))
            records += [lab(i, 10 * i + 1 + k, one) for k, one in enumerate(given)]
        found = metrics_of(lives.go(*records, pred("z", 900, "1"), lab("z", 901, "0")))[-1]
        return found.measures, found.undefined

    def test_a_class_of_neither_kind(self) -> None:
        assert self.auc(("0",), ("maybe", "1"), ("0",), ("1",)) == self.auc(("0",), ("1",), ("0",), ("1",))

    def test_two_forms_of_one_class(self) -> None:
        assert self.auc(("0",), ("true", "1"), ("0",), ("1",)) == self.auc(("0",), ("1",), ("0",), ("1",))

    def test_a_corrected_label(self) -> None:
        corrected = self.auc(("0",), ("0", "1"), ("0",), ("1",))
        assert corrected == self.auc(("0",), ("1",), ("0",), ("1",))
        assert corrected[0]["auc"] == 1.0
        measures, _ = self.auc(("0",), ("maybe", "1"), ("0",), ("1",), positive_class="1")
        assert measures["auc"] == 1.0


@pytest.mark.parametrize("first", ["a", "b"])
def test_evaluated_baselines_know_what_the_model_knew_that_predicted_first(first: str) -> None:
    """A model that predicts later changes nothing, whichever of the two was registered first."""
    rng, later = random.Random(8), "ba"[first == "b"]
    alone: list[Any] = [pred("x", 0, "0", model="a"), pred("x", 0, "0", model="b"), lab("x", 1, "0")]
    slower = []
    for i in range(60):
        alone.append(pred(i, 10 + 10 * i, rng.choice("01"), model=first))
        alone.append(lab(i, 10 + 10 * i + rng.randrange(100, 200), rng.choice("001")))
        slower.append(pred(i, 55 + 10 * i, "1", model=later))

    def measured(records: list[Any], model: str) -> list[Any]:
        lives = Lives(measures=MEASURES, baselines=("persistent", "majority"), estimators=ESTIMATORS)
        found = metrics_of(lives.go(*sorted(records, key=lambda record: record[2])))
        return [(m.estimator, m.stage, m.n, m.measures, m.undefined) for m in found if m.model == model]

    for model in (first, "@persistent", "@majority"):
        expected = measured(alone, model)
        assert len(expected) > 100
        assert measured([*alone, *slower], model) == expected


@pytest.mark.parametrize("seed", range(4))
def test_evaluated_baselines_equal_a_plain_loop(seed: int) -> None:
    """One prediction of some of three models for each instance, delivered in the order of their times."""
    rng = random.Random(seed)
    events: list[tuple[int, int, Any]] = []  # time, order of kinds, record
    for i in range(80):
        made = [(10 * i + rng.randrange(60), model) for model in "abc" if rng.random() < 0.7]
        events += [(ts, 1, pred(i, ts, rng.choice("01"), model=model)) for ts, model in made]
        if rng.random() < 0.9:
            ts = 10 * i + rng.randrange(60, 200)
            events.append((ts, 2, lab(i, ts, rng.choice("0012"))))
    events.sort(key=lambda event: event[:2])

    registered: list[str] = []
    known: dict[str, list[tuple[int, int, str | None, str | None]]] = {}
    labels: list[str] = []
    right: dict[str, list[bool]] = {"@persistent": [], "@majority": []}
    for ts, kind, (_, record, _) in events:
        name = str(record["instance_id"])
        if kind == 1:
            if record["model"] not in registered:
                registered.append(record["model"])
            most = max(labels, key=labels.count) if labels else None  # ties: the class seen first
            latest = labels[-1] if labels else None
            known.setdefault(name, []).append((ts, registered.index(record["model"]), latest, most))
        else:
            if name in known:
                _, _, *guesses = min(known[name], key=lambda one: one[:2])
                for baseline, guess in zip(right, guesses):
                    right[baseline].append(guess == record["y_true"])
            labels.append(record["y_true"])

    lives = Lives(measures=("accuracy",), baselines=("persistent", "majority"))
    found = metrics_of(lives.go(*(record for _, _, record in events)))
    for baseline, values in right.items():
        messages = [one for one in found if (one.model, one.estimator) == (baseline, "all")]
        assert [one.outcomes for one in messages] == list(range(1, len(values) + 1))
        shares = [sum(values[:n]) / n for n in range(1, len(values) + 1)]
        assert [one.measures["accuracy"] for one in messages] == pytest.approx(shares, abs=1e-12)
