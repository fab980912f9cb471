"""Thresholds for a budget of false alarms: streams like the past, rates, the command and its lines."""

from __future__ import annotations

import copy
import json
import math
import random
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prequential.cli.main import main
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.durations import Budget, parse_budget
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.compiled.kernel import Floats, copy_of_rows
from prequential.engine.detectors import DETECTORS
from prequential.engine.detectors.adwin import AdwinParameters
from prequential.offline.backtesting.sequences import PastSequence, sequences
from prequential.offline.calibration import calibrating, rates
from prequential.offline.calibration.calibrating import CalibrationOptions, CalibrationReport, calibrate
from prequential.offline.calibration.excursions import STEP, StepSums, cuts_of, exponent
from prequential.offline.calibration.pasts import best_phase, contexts, far, matched_blocks, reach_of
from prequential.offline.replay.sources import Source
from prequential.topics.decoding import KINDS
from prequential.topics.errors import UsageError

COUNT = 6_000


def records(models: dict[str, float], stream: str = "s") -> dict[str, list[dict[str, Any]]]:
    """Models with these error rates; an outcome a second."""
    some = random.Random(1)
    found: dict[str, list[dict[str, Any]]] = {"predictions": [], "labels": []}
    for i in range(COUNT):
        about = {"stream": stream, "instance_id": i, "ts": 1_000 * i}
        y = some.random() < 0.5
        for model, error in models.items():
            wrong = some.random() < error
            found["predictions"].append({**about, "model": model, "y_pred": y != wrong})
        found["labels"].append({**about, "ts": 1_000 * i + 5, "y_true": y})
    return found


def pasts(config: StreamConfig, models: dict[str, float]) -> list[PastSequence]:
    """What these models have said; the caller may change it."""
    return copy.deepcopy(_pasts(config, tuple(models.items())))


@cache
def _pasts(config: StreamConfig, models: tuple[tuple[str, float], ...]) -> list[PastSequence]:
    sources = [
        Source(KINDS.index(kind), [json.dumps(line).encode() for line in of])
        for kind, of in records(dict(models)).items()
    ]
    return sequences(Config(defaults=config), sources)


def markov(seed: int, keep: float, error: float, count: int) -> Floats:
    some = np.random.default_rng(seed)
    drawn, new = some.random(count) < error, some.random(count) >= keep
    new[0] = True
    found: Floats = drawn[np.maximum.accumulate(np.where(new, np.arange(count), 0))].astype(float)
    return found


# ---- parts


@pytest.mark.parametrize("text", ["1", "1 per", "0 per 1d", "-1 per 1d", "1 per 30 x", "1 per 0s", "a per d"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="budget '"):
        parse_budget(text)


@given(alarms=st.floats(1e-9, 1e9), period=st.integers(1, 10**13))
def test_a_budget_is_written_as_it_is_read(alarms: float, period: int) -> None:
    budget = Budget(alarms, period)
    assert parse_budget(str(budget)) == budget


def test_blocks_that_match_keep_what_blocks_at_random_forget() -> None:
    losses = markov(3, 0.8, 0.3, 50_000)
    run = matched_blocks(np.random.default_rng(1), contexts(losses), 200_000, 10)
    made = losses[run]
    assert np.corrcoef(made[1:], made[:-1])[0, 1] == pytest.approx(0.8, abs=0.02)
    # Also in sums, over many joints: (1 + r)/(1 - r) = 9 times that of independent errors.
    sums = made.reshape(-1, 500).sum(axis=1)
    past = losses.reshape(-1, 500).sum(axis=1)
    assert sums.var() == pytest.approx(past.var(), rel=0.3)
    assert sums.var() / 500 / made.var() == pytest.approx(9, rel=0.25)
    inside = np.diff(run).reshape(-1)[: 10 * 1_000]
    assert (inside == 1).mean() > 0.85


@pytest.mark.parametrize("keep", [0.0, 0.8])
@pytest.mark.parametrize("drift", [0.005, 0.05])
def test_the_exponent_of_excursions_is_that_of_the_walk(keep: float, drift: float) -> None:
    values = markov(5, keep, 0.3, 3_200_000)
    found = exponent(values.reshape(-1, STEP).sum(axis=1), drift)
    # The largest eigenvalue of the chain's matrix, tilted, is 1.
    low, high = 1e-4, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if tilted(keep, middle, drift) < 0 else (low, middle)
    assert found == pytest.approx(high, rel=0.1)


def tilted(keep: float, theta: float, drift: float = 0.0) -> float:
    """ln of the largest eigenvalue of the tilted matrix of a chain with 30% errors: E[exp(θ·S)] by value."""
    stay = np.array([[1 - 0.3 * (1 - keep), 0.3 * (1 - keep)], [0.7 * (1 - keep), 1 - 0.7 * (1 - keep)]])
    by_value = stay * np.exp(theta * (np.array([0.0, 1.0]) - 0.3 - drift))
    return math.log(abs(np.linalg.eigvals(by_value)).max())


@pytest.mark.parametrize(("keep", "some"), [(0.0, (2.0, 4.0, 8.0)), (0.8, (24.0, 40.0, 80.0))])
def test_cuts_are_as_rare_as_large_deviations_of_the_chain(keep: float, some: tuple[float, ...]) -> None:
    """From one significance to the next, so without the factor that is counted."""
    values = markov(5, keep, 0.3, 3_200_000)
    settings = AdwinParameters(0.002, 32, 5, 5, 10)
    found = cuts_of(settings, StepSums(values.reshape(-1, STEP).sum(axis=1), float(values.std())))
    assert found is not None
    thetas = [sign * 1e-4 * 1.05**k for sign in (-1, 1) for k in range(235)]
    logs = [tilted(keep, theta) for theta in thetas]

    def rarity(u: float) -> float:
        said, longest = 0.0, 12.0  # ln of the longest window, by what it makes of cuts
        for _ in range(4):
            level, total = u + math.log(2 * longest), 0.0
            for n in (2.0 ** (k / 2) for k in range(9, 100)):
                off = math.sqrt(2 * 0.21 * level / (n - 4)) + 2 / 3 * level / (n - 4)
                for sign in (-1, 1):
                    power = n * max(theta * sign * off - one for theta, one in zip(thetas, logs))
                    if math.log(2 * n) <= longest:
                        total += max(power, 0.5) ** 1.5 * math.exp(-max(power, 0.0)) / max(n, 32.0)
            said, longest = -math.log(total), 3.8 - math.log(total)
        return said

    for before, after in pairwise(some):
        wanted = rarity(after) - rarity(before)
        assert found.rarity(after) - found.rarity(before) == pytest.approx(wanted, rel=0.07)


def test_values_that_say_nothing_have_no_cuts() -> None:
    settings = AdwinParameters(0.002, 32, 5, 5, 10)
    assert cuts_of(settings, StepSums(np.zeros(1_000), 0.0)) is None
    assert cuts_of(settings, StepSums(np.arange(100.0), 1.0)) is None


def test_a_curve_knows_the_threshold_of_a_rate() -> None:
    none = np.zeros((2, 2))
    for form, level, kappa in (
        (rates.line, -4.0, 0.1),
        (rates.excursions, -4.0, 0.1),
        (rates.table, 4.0, 2.5),
    ):
        curve = rates.Curve(form, level, kappa, none, none, 0, [])
        for rate in (1e-3, 1e-6, 1e-12):
            assert curve.rate(curve.u_at(rate)) == pytest.approx(rate, rel=1e-6)
        assert curve.rate(0.0) <= 1.0


def test_thresholds_that_go_beyond_all_alarms_leave_a_line_through_the_others() -> None:
    """Where days turn, alarms become rarer faster than a first look has it."""
    counts = ((100.0, 160), (135.0, 52), (170.0, 7), (210.0, 0), (245.0, 0), (280.0, 0))
    points = [rates.ThresholdRates(u, np.full(10, alarms)) for u, alarms in counts]
    curve = rates.of_line(points, 5_000_000)
    assert curve is not None
    assert 160.0 < curve.u_at(1 / 70_000) < 185.0
    assert rates.of_line(points[3:], 5_000_000) is None


def test_a_threshold_has_four_digits_and_errs_towards_fewer_alarms() -> None:
    larger, smaller = DETECTORS["page-hinkley"].threshold, DETECTORS["adwin"].threshold
    assert larger is not None
    assert smaller is not None
    assert [rates.value_of(larger, u) for u in (123.4501, 50.0, 0.00123456)] == [123.5, 50.0, 0.001235]
    assert rates.value_of(smaller, -math.log(0.0123456)) == 0.01234
    assert rates.scale_of(smaller, rates.value_of(smaller, 51.0)) >= 51.0
    changed = rates.with_threshold(DetectorConfig("page-hinkley", "error", {"delta": 0.1}), 77.0)
    assert changed.params == {"delta": 0.1, "lambda": 77.0}


def test_which_detectors_have_a_threshold() -> None:
    """The others' false alarms don't come at a rate: they grow fewer with time, or have a level for ever."""
    found = {name: one.threshold.name for name, one in DETECTORS.items() if one.threshold}
    assert found == {"page-hinkley": "lambda", "cusum": "h", "adwin": "delta"}


# ---- streams


SETTINGS = CalibrationOptions(parse_budget("1 per 1d"), 0.2, 200_000, 1)


@pytest.fixture(scope="module")
def of_two() -> CalibrationReport:
    detectors = (DetectorConfig(), DetectorConfig("ddm"), DetectorConfig("cusum", "error", {"k": 0.2}))
    config = StreamConfig(stages=("final",), detectors=detectors, baselines=("persistent",))
    watched = [one for one in pasts(config, {"good": 0.1, "bad": 0.3, "right": 0.0}) if one.watched]
    return calibrate(watched, SETTINGS)


def test_a_budget_is_divided_over_detectors_and_all_that_they_watch(of_two: CalibrationReport) -> None:
    first, second = of_two.detectors
    assert (first.detector, second.detector) == ("page-hinkley error", "cusum error k=0.2")
    for one in (first, second):
        expected, low, high = one.alarms
        assert expected == pytest.approx(0.5, rel=0.02)
        assert low < expected < high
        assert one.sequences == 2
        assert one.found is not None
        assert one.found > 0.5
        assert one.delay is not None
        rates = [rate.alarms for rate in one.rates]
        assert rates == sorted(rates, reverse=True)
        (chosen,) = (rate for rate in one.rates if rate.chosen)
        assert chosen.threshold == one.after
    # 86,400 outcomes a day: 1,000,000 and 33,000 between alarms at present.
    assert first.alarms_before == pytest.approx(86_400 / 33_000, rel=0.5)
    assert first.after > 50


def test_what_is_left_out_is_named(of_two: CalibrationReport) -> None:
    found = {(one.what, one.why) for one in of_two.left}
    assert ("ddm error", "ddm has no threshold that sets a rate of false alarms") in found
    assert ("right final", "all its losses are the same") in found
    assert [one.detector for one in of_two.streams["s"]] == ["page-hinkley", "ddm", "cusum"]


def test_few_outcomes_are_refused_for_a_budget_of_rare_alarms() -> None:
    """An outcome a second: 15,552,000 in 180 days, of which 6,000 say nothing."""
    config = StreamConfig(stages=("final",), detectors=(DetectorConfig(),))
    past = pasts(config, {"bad": 0.3})
    report = calibrate(past, SETTINGS._replace(budget=parse_budget("1 per 180d"), outcomes=100_000))
    assert report.detectors == []
    [left] = report.left
    assert left.what == "bad final"
    assert left.why.startswith("it has 6,000 outcomes, the budget needs 15,5")
    assert "expected at least 7,7" in left.why


def test_bounds_that_are_wide_are_said_first() -> None:
    """1,000 outcomes, an alarm in 86,400 wanted; the whole past says it without."""
    config = StreamConfig(stages=("final",), detectors=(DetectorConfig("cusum"),))
    [past] = pasts(config, {"bad": 0.3})
    wrong = markov(3, 0.5, 0.3, COUNT)
    past.rows.prediction[:] = np.where(wrong > 0, 1 - past.rows.label, past.rows.label)
    settings = CalibrationOptions(parse_budget("1 per 1d"), 0.2, 100_000, 1)
    short = replace(past, rows=copy_of_rows(past.rows, np.arange(1_000)))
    report = calibrate([short], settings)
    [note], [one] = report.notes, report.detectors
    assert one.alarms[2] > 10 * one.alarms[0]
    assert note.what == "cusum error"
    expected, low, high = one.alarms
    said = f"{low:.2g} to {high:.2g} false alarms in the time of the budget (95%), {expected:.2g} expected"
    assert note.why.startswith(said)
    assert calibrate([past], settings).notes == []


def test_outcomes_that_are_worth_few_are_refused() -> None:
    """In runs of some 100; 6,000 of them are worth some 60 independent ones."""
    [past] = pasts(StreamConfig(stages=("final",), detectors=(DetectorConfig(),)), {"bad": 0.3})
    wrong = markov(4, 0.98, 0.3, COUNT)
    past.rows.prediction[:] = np.where(wrong > 0, 1 - past.rows.label, past.rows.label)
    report = calibrate([past], SETTINGS)
    assert report.detectors == []
    assert "depend on each other so much that they count as" in report.left[0].why
    assert report.left[0].why.endswith("expected at least 100")


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.8])
def test_a_past_is_cut_where_its_level_changes_and_nowhere_else(keep: float) -> None:
    for count in (5_000, 40_000):
        before, after = markov(1, keep, 0.05, count), markov(2, keep, 0.3, count // 2)
        assert len(best_phase(before)) == count
        for drifted, start in (
            ((before, after), 0), ((after, before), count // 2),
            ((before[: count // 2], after, before[count // 2 :]), 0),
        ):  # fmt: skip
            places = best_phase(np.concatenate(drifted))
            assert len(places) == pytest.approx(count, abs=300)
            assert places[0] == pytest.approx(start, abs=250)


@pytest.mark.parametrize("count", [5_000, 20_000, 100_000])
def test_days_that_turn_are_no_changes_and_reach_far(count: int) -> None:
    rates = 0.2 + 0.1 * np.sin(2 * np.pi * np.arange(count) / 1_440)
    some = np.random.default_rng(1)
    losses = (some.random(count) < rates).astype(float)
    assert len(best_phase(losses)) == count
    assert far(losses) >= 64
    shuffled = some.permutation(losses)
    assert (reach_of(shuffled).inflation, far(shuffled)) == (pytest.approx(1.0, abs=0.5), 0)


def test_blocks_that_match_go_on_where_a_cycle_is() -> None:
    count, day = 40_000, 1_440
    rates = 0.2 + 0.15 * np.sin(2 * np.pi * np.arange(count) / day)
    losses = (np.random.default_rng(1).random(count) < rates).astype(float)
    apart = []
    for reach in (0, 256):
        run = matched_blocks(np.random.default_rng(2), contexts(losses, reach=reach), 400_000, 100)
        turned = (run[100::100] - run[99:-1:100] - 1) / day * 2 * np.pi
        apart.append(float(np.cos(turned).mean()))
    assert abs(apart[0]) < 0.3  # the context of eight says something of it, too
    assert apart[1] > 0.4


def test_a_past_with_a_drift_says_so_and_has_thresholds_of_its_best() -> None:
    """Of the ratio, whose threshold is the lower the more errors there are."""
    ratio = DetectorConfig("page-hinkley", "fading:0.997/fading:0.9994", {"delta": 0.1, "lambda": 100.0})
    config = StreamConfig(stages=("final",), detectors=(ratio,))
    found = []
    for before, after in ((0.05, 0.05), (0.05, 0.4)):
        [past] = pasts(config, {"bad": 0.3})
        wrong = np.concatenate((markov(1, 0.5, before, COUNT // 2), markov(2, 0.5, after, COUNT // 2)))
        past.rows.prediction[:] = np.where(wrong > 0, 1 - past.rows.label, past.rows.label)
        report = calibrate([past], CalibrationOptions(parse_budget("1 per 1d"), 0.2, 100_000, 1))
        found.append((report.detectors[0].after, [note.why for note in report.notes]))
    (without, no_notes), (drifted, [note]) = found
    assert no_notes == []
    assert note.startswith("its level changes: thresholds are those of its best ")
    assert drifted > without / 1.5


@pytest.mark.nightly
def test_a_run_is_a_function_of_its_seed(of_two: CalibrationReport) -> None:
    config = StreamConfig(stages=("final",), detectors=(DetectorConfig(),))
    past = pasts(config, {"bad": 0.3})
    small = SETTINGS._replace(outcomes=100_000)
    first, again = calibrate(past, small), calibrate(past, small)
    assert first.detectors == again.detectors
    other = calibrate(past, small._replace(seed=2))
    assert first.detectors != other.detectors


def test_lines_are_those_that_the_reader_takes(tmp_path: Path) -> None:
    detectors = [
        DetectorConfig("page-hinkley", "fading:0.997/fading:0.9994", {"delta": 0.1, "lambda": 1234.0}),
        DetectorConfig("adwin", "error", {"delta": 1e-22}),
        DetectorConfig("cusum", "error", {"h": 1e15, "direction": "both"}),
        DetectorConfig("hddm-w", "error", {"two_sided_test": True}),
    ]
    names = ['a: "b" #c', "null", "Ω 😀", "s"]
    budgets, changes = dict.fromkeys(names, "0.5 per 30d"), dict.fromkeys(names, 1e-7)
    report = CalibrationReport(budgets, changes, [], [], dict.fromkeys(names, detectors))
    file = tmp_path / "c.yaml"
    file.write_text("\n".join(calibrating.lines(report)), encoding="utf-8")
    config = load_config(str(file))
    assert list(config.streams) == names
    for name in names:
        stream = config.stream(name)
        assert stream.detectors == tuple(detectors)
        assert (stream.alarm_budget, stream.alarm_change) == ("0.5 per 30d", 1e-7)


# ---- the command


def write(folder: Path, config: str, models: dict[str, float]) -> list[str]:
    options = []
    for kind, of in records(models).items():
        (folder / f"{kind}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in of))
        options += [f"--{kind}", str(folder / f"{kind}.jsonl")]
    (folder / "config.yaml").write_text(config)
    return ["calibrate", *options, "--config", str(folder / "config.yaml"), "--outcomes", "100000"]


def test_the_command_prints_tables_and_writes_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = "defaults: {stages: [final], detectors: [{detector: cusum, h: 20}, {detector: ecdd}]}"
    options = write(tmp_path, config, {"m": 0.2})
    out = tmp_path / "out.yaml"
    assert main([*options, "--budget", "2 per 1d", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "2 per 1d" in shown
    assert "ecdd has no threshold that sets a rate of false alarms" in " ".join(shown.split())
    assert "◂" in shown
    stream = load_config(str(out)).stream("s")
    cusum, ecdd = stream.detectors
    assert (stream.alarm_budget, stream.alarm_change) == ("2 per 1d", 0.05)
    assert cusum.params["h"] > 20
    assert ecdd == DetectorConfig("ecdd")
    # A stream's own settings say the same, and those of the command go before them.
    lines = config.replace("{stages", "{alarm_budget: 2 per 1d, alarm_change: 0.1, stages")
    (tmp_path / "config.yaml").write_text(lines)
    assert main([*options, "--change", "0.05", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["budgets"], report["changes"]) == ({"s": "2 per 1d"}, {"s": 0.05})
    assert report["detectors"][0]["after"] == cusum.params["h"]


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = write(tmp_path, "defaults: {stages: [final], detectors: [{detector: ddm}]}", {"m": 0.2})
    for more, status, words in (
        (["--budget", "much"], 2, "budget 'much': expected alarms per duration"),
        (["--stream", "t"], 1, "no sequence of --stream 't': there are s"),
        ([], 1, "no threshold was found: s ddm error: ddm has no threshold"),
    ):
        assert main([*options, *more]) == status
        assert words in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*options, "--change", "0"])
    assert "'0': expected a number above 0" in capsys.readouterr().err
