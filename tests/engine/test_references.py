"""The first outcomes beside later ones: which they are, how they differ, how sure that is."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import Life, batch_of, catch_up, metrics_of, restored, snapshot_of
from oracle_cases import lab, pred
from prequential.configfile.reading.reader import combined
from prequential.configuration.settings.model import Config, ConfigError
from prequential.configuration.settings.streams import Objective, StreamConfig
from prequential.engine.details.intervals import autocorrelation, error_worth, shrunk, wilson
from prequential.engine.details.references import WeightedShare, difference
from prequential.engine.detectors.objectives import every_detector
from prequential.engine.shard import Shard
from sequences import NO_CLASS, Outcomes
from test_intervals import chains, rows_of
from test_shard_against_oracle import world_from

from tests.nightly import few

ESTIMATORS = ("all", "window:50", "fading:0.9")
SHARES = ("error", "accuracy", "p_per", "p_maj", "recall", "specificity", "precision")


def sequence_of(
    outcomes: Any, reference: int | str = 100, estimators: tuple[str, ...] = ESTIMATORS,
    measures: tuple[str, ...] = SHARES,
) -> Outcomes:  # fmt: skip
    """A sequence of the classes 0 and 1 that has seen these outcomes."""
    config = StreamConfig(
        estimators=estimators, objective=Objective({}, reference=reference), detectors=(), measures=measures
    )
    found = Outcomes(config, 2, positive="1")
    found.update(outcomes)
    return found


def said(sequence: Outcomes, estimator: str) -> dict[str, Any] | None:
    """What a message of an estimator would say."""
    return sequence.details(estimator).get("reference")


def interval(found: dict[str, Any] | None, name: str) -> Any:
    assert found is not None
    return found["measures"][name]["interval"]


class TestDifferences:
    """Newcombe 1998, table II, method 10: to four digits."""

    @pytest.mark.parametrize(
        ("present", "reference", "low", "high"),
        [
            ((56, 70), (48, 80), 0.0524, 0.3339),
            ((9, 10), (3, 10), 0.1705, 0.8090),
            ((5, 56), (0, 29), -0.0381, 0.1926),
            ((0, 10), (0, 10), -0.2775, 0.2775),
            ((10, 10), (0, 10), 0.6075, 1.0),
        ],
    )
    def test_the_paper(
        self, present: tuple[int, int], reference: tuple[int, int], low: float, high: float
    ) -> None:
        sides = [WeightedShare(k / n, n, wilson(k / n, n)) for k, n in (present, reference)]
        assert difference(*sides) == pytest.approx((low, high), abs=6e-5)

    def test_a_plain_loop(self) -> None:
        """The error rate of a window and of `all`, with errors that come in runs."""
        rng = random.Random(1)
        wrong = [rng.random() < 0.2 for _ in range(400)]
        for i in range(1, 400):
            wrong[i] = wrong[i - 1] if rng.random() < 0.5 else wrong[i]
        labels = [rng.random() < 0.5 for _ in range(400)]
        outcomes = rows_of(labels, np.logical_xor(labels, wrong), NO_CLASS, NO_CLASS)
        sequence = sequence_of(outcomes)

        def share(start: int, stop: int) -> WeightedShare:
            n, cells = stop - start, 2 * np.array(labels) + np.logical_xor(labels, wrong)
            errors, pairs = np.zeros(4), np.zeros(16)
            for i in range(max(1, start), stop):
                errors[2 * wrong[i - 1] + wrong[i]] += 1
                pairs[4 * cells[i - 1] + cells[i]] += 1
            worth = min(shrunk(1.0, autocorrelation(errors)), error_worth(pairs, errors))
            p = sum(wrong[start:stop]) / n
            return WeightedShare(p, n, wilson(p, n * worth))

        first = share(0, 100)
        assert interval(said(sequence, "window:50"), "error") == pytest.approx(
            difference(share(350, 400), first), abs=1e-6
        )
        found = said(sequence, "all")
        assert found is not None
        low, high = difference(share(100, 400), first)
        assert found["measures"]["error"] == pytest.approx(
            {
                "value": first.value, "difference": sum(wrong) / 400 - first.value,
                "interval": pytest.approx((0.75 * low, 0.75 * high), abs=1e-6),
            },
            abs=1e-6,
        )  # fmt: skip

    @pytest.mark.parametrize("seed", range(3))
    def test_every_share(self, seed: int) -> None:
        """By the intervals of messages: of `all` when the reference is complete, and of a window later on."""
        rng = random.Random(seed)
        records: list[Any] = []
        label = "a"
        for i in range(400):
            label = rng.choice("ab") if rng.random() < 0.4 else label
            wrong = rng.random() < (0.1 if label == "a" else 0.3) + 0.1 * (i > 300)
            guess = "ab"[(label == "b") != wrong]
            records += [pred(i, 9 * i, guess), lab(i, 9 * i + 1, label)]
        settings = {"objective": {"reference": 150}, "details": ["intervals"], "positive_class": "b"}
        world = world_from(records, stages=["final"], **settings | {"estimators": ["all", "window:90"]})
        found = {(one.outcomes, one.estimator): one for one in metrics_of(catch_up(world).outputs)}
        then = found[150, "all"]
        assert then.intervals is not msgspec.UNSET
        for outcomes in (240, 300, 400):
            now = found[outcomes, "window:90"]
            assert now.intervals is not msgspec.UNSET
            assert now.reference is not msgspec.UNSET
            assert now.reference["measures"].keys() == then.intervals.keys() == set(SHARES)
            for name, said in now.reference["measures"].items():
                p, (low, high) = now.measures[name], now.intervals[name]
                q, (least, most) = then.measures[name], then.intervals[name]
                assert said["value"] == pytest.approx(q, abs=1e-6)
                assert said["difference"] == pytest.approx(p - q, abs=1.1e-6)
                below = math.sqrt((p - low) ** 2 + (most - q) ** 2)
                above = math.sqrt((high - p) ** 2 + (q - least) ** 2)
                assert said["interval"] == pytest.approx((p - q - below, p - q + above), abs=1.1e-6), name

    def test_there_is_none_while_outcomes_are_common(self) -> None:
        outcomes = rows_of([0, 1] * 400, [0, 1, 1, 1] * 200, 0, 0)
        seen = {}
        for many in (99, 100, 101, 149, 150, 170, 800):
            sequence = sequence_of(outcomes[:many], measures=("error",))
            seen[many] = [
                None if (found := said(sequence, name)) is None else interval(found, "error")
                for name in ESTIMATORS
            ]
        assert seen[99] == [None] * 3  # it isn't complete
        assert [[one is not None for one in found] for found in list(seen.values())[1:]] == [
            [False, False, False], [True, False, False], [True, False, False], [True, True, False],
            [True, True, True], [True, True, True],
        ]  # fmt: skip


class TestReferences:
    def test_a_revised_label_of_one_of_them_is_revised(self) -> None:
        sequence = sequence_of(rows_of([0] * 200, 0, 0, 0))
        sequence.revise(7, 1, (0, 0, 0, 0))
        sequence.revise(150, 1, (0, 0, 0, 0))
        found = said(sequence, "all")
        assert found is not None
        assert found["measures"]["error"]["value"] == 0.01
        assert found["measures"]["error"]["difference"] == 0.0

    @pytest.mark.parametrize("cuts", [[], [1, 99, 100, 101, 250], list(range(0, 300, 7))])
    def test_room_for_more_classes(self, cuts: list[int]) -> None:
        """However outcomes are cut, and while plans have room for more classes."""
        rng = random.Random(2)
        outcomes = [(rng.randrange(2), rng.randrange(2), 0, 0) for _ in range(300)]
        whole, parted = sequence_of(outcomes), sequence_of([])
        for start, stop in zip([0, *cuts], [*cuts, 300]):
            parted.update(outcomes[start:stop])
            if start == 99:
                parted.grow(8)
        for name in ESTIMATORS:
            assert said(whole, name) == said(parted, name)

    def test_by_label_time(self) -> None:
        """Those within it, and no later one of an earlier time."""
        times = [1_000, 1_050, 1_099, 1_100, 1_060, 1_300]
        records = [one for i, t in enumerate(times) for one in (pred(i, t - 1, "ab"[i == 4]), lab(i, t, "a"))]
        settings = {"objective": {"reference": "100ms"}, "stages": ["final"], "estimators": ["all"]}
        found = metrics_of(catch_up(world_from(records, **settings)).outputs)
        sizes = [None if one.reference is msgspec.UNSET else one.reference["outcomes"] for one in found]
        assert sizes[:6] == [None, None, None, 3, 3, 3]
        assert found[5].reference["measures"]["error"]["value"] == 0  # type: ignore[index]

    @pytest.mark.parametrize("extent", [150, "9s"])
    @pytest.mark.parametrize("stop", [0, 60, 180, 320])
    def test_a_restored_one_goes_on_to_the_bit(self, extent: int | str, stop: int) -> None:
        """Also `harm`, which goes by so many outcomes."""
        config = Config(defaults=StreamConfig(
            objective=Objective({}, reference=extent), emit_outcomes=20, emit_every=None,
            label_horizon=10_000, details=("intervals",),
        ))  # fmt: skip
        whole, parted = _lived(config, 400), _lived(config, 400, stop)
        assert whole == parted
        assert any(one.reference is not msgspec.UNSET for one in metrics_of(whole))
        tested = {one.detector for one in every_detector(config.defaults)}
        assert ("harm" in tested) == (extent == 150)

    def test_another_extent_begins_anew(self) -> None:
        """With the first outcomes since then; of a sequence that began before, too."""
        config = Config(defaults=StreamConfig(emit_outcomes=20, emit_every=None, label_horizon=10_000))

        def referring(extent: int | str) -> Config:
            return Config(defaults=replace(config.defaults, objective=Objective({}, reference=extent)))

        for before, after in ((config, referring(150)), (referring("5s"), referring(150))):
            shard = Shard(before)
            _feed(shard, 0, 100)
            again = Shard(after)
            begun = again.restore(map(msgspec.msgpack.decode, snapshot_of(shard))).begun
            assert [str(one) for one in begun if one.kind == "reference"] == ["s/m: final reference 150"]
            found = metrics_of(_feed(again, 100, 400))
            first = [one for one in found if one.reference is not msgspec.UNSET and one.estimator == "all"]
            assert first[0].outcomes == 260  # the first multiple of 20 from 250 on
            assert first[0].reference["outcomes"] == 150
            rows = _rows()
            wrong = [label["y_true"] != said["y_pred"] for said, label in rows[100:250]]
            assert first[0].reference["measures"]["error"]["value"] == round(sum(wrong) / 150, 6)
            # `all` has outcomes before it, too: those since aren't all others.
            assert first[0].reference["measures"]["error"]["interval"] is not None

    def test_only_the_main_stage_and_measures_that_are_configured(self) -> None:
        records = [
            one for i in range(200) for one in (
                pred(i, 9 * i, "b"), *([pred(i, 9 * i + 1, "a")] if i < 3 else []), lab(i, 9 * i + 2, "a"),
            )
        ]  # fmt: skip
        world = world_from(
            records, objective={"reference": 100}, measures=["kappa", "error"], baselines=["random"],
            stages=["initial", "final", "after:1ms"],
        )  # fmt: skip
        found = metrics_of(catch_up(world).outputs)
        beside_it = {(one.stage, one.model) for one in found if one.reference is not msgspec.UNSET}
        assert {one.stage for one in found} == {"initial", "final", "after:1ms"}
        assert beside_it == {("final", "m")}
        last = next(one for one in reversed(found) if (one.stage, one.model) == ("final", "m"))
        assert list(last.reference["measures"]) == ["error"]  # type: ignore[index]


def _rows() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    rng = random.Random(4)
    found = []
    for i in range(400):
        about = {"stream": "s", "instance_id": i, "ts": 1_000 + 50 * i}
        wrong = rng.random() < (0.1 if i < 200 else 0.7)
        label = {**about, "y_true": "ab"[rng.random() < 0.02]}
        found.append(({**about, "model": "m", "y_pred": "ab"[wrong]}, label))
    return found


def _feed(shard: Shard, start: int, stop: int) -> list[Any]:
    """Give a shard these records; a prediction and its label each."""
    for kind, column in zip((1, 2), zip(*_rows())):
        shard.add(batch_of(kind, [(one["ts"] + 1, one) for one in column], start, stop))
    life = Life(shard)
    while shard.advance([1 << 62] * 3, 70):
        life.flush()
    life.flush()
    return life.outputs


def _lived(config: Config, count: int, stop: int | None = None) -> list[Any]:
    shard, outputs = Shard(config), list[Any]()
    if stop is not None:
        outputs = _feed(shard, 0, stop) if stop else []
        shard = restored(config, snapshot_of(shard))
    return [*outputs, *_feed(shard, stop or 0, count)]


class TestConfiguration:
    @pytest.mark.parametrize(("given", "read"), [(100, 100), ("30d", "30d"), ("60m", "1h"), ("2w", "14d")])
    def test_forms(self, given: int | str, read: int | str) -> None:
        objective = combined(None, {"objective": {"reference": given}}).defaults.objective
        assert objective is not None
        assert objective.reference == read

    @pytest.mark.parametrize(
        ("given", "why"),
        [
            (99, "99: expected an integer from 100 to .*, or a duration such as 30d"),
            ("30 days", "'30 days' is no duration"), ("0d", "'0d': expected a duration above 0"),
            (1.5, "1.5: expected an integer"),
        ],
    )  # fmt: skip
    def test_what_makes_no_sense(self, given: Any, why: str) -> None:
        with pytest.raises(ConfigError, match=f"defaults.objective.reference: {why}"):
            combined(None, {"objective": {"reference": given}})

    def test_numbers_have_none(self) -> None:
        with pytest.raises(ConfigError, match=r"objective.reference: regression losses have no"):
            combined(None, {"objective": {"reference": "1d"}, "task": "regression"})

    def test_digests_of_other_configurations_are_as_they_were(self) -> None:
        digests = [
            StreamConfig(objective=one).digest[:8]
            for one in (Objective({"accuracy": 0.9}), Objective({}, reference=500))
        ]
        assert digests == DIGESTS


#: Of configurations that name no duration as reference.
DIGESTS = ["1c496fb3", "24867c27"]


#: Streams of each case: the standard error of a coverage of 95% is 0.5%.
RUNS = 2_000


class TestCoverage:
    """Of nominal 95%, in streams without a change. Seeds are fixed: exact numbers of one long experiment."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("r", "estimator"),
        few(
            [
                (0.0, "window:500"), (0.3, "all"), (0.6, "fading:0.995"),
                (0.0, "all"), (0.3, "fading:0.995"), (0.6, "window:500"),
                (0.0, "fading:0.995"), (0.3, "window:500"), (0.6, "all"),
            ],
        ),
    )  # fmt: skip
    def test_errors_that_come_in_runs(self, r: float, estimator: str) -> None:
        covers = 0
        for wrong in chains(11, 1_500 if estimator != "fading:0.995" else 2_000, 0.1, r):
            found = said(sequence_of(rows_of(0, wrong, NO_CLASS, NO_CLASS), 500, (estimator,)), estimator)
            low, high = interval(found, "error")
            covers += low <= 0 <= high
        print(estimator, r, covers / RUNS)
        assert 0.935 <= covers / RUNS <= 0.97
