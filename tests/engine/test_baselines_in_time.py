"""Baselines predict when the prediction of a stage was made, and say nothing where there was no label yet."""

from __future__ import annotations

import random
from typing import Any

import pytest
from helpers import metrics_of
from oracle_cases import lab, pred
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
