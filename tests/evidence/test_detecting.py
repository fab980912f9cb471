"""What the papers find of drift detection: small parts of what the evidence's commands show, from seeds."""

from __future__ import annotations

from tests.evidence import abrupt_drift, class_ratios, dependent_errors
from tests.evidence.sequences import evaluated


def test_estimates_that_forget_find_what_all_history_misses_and_ratios_find_it_sooner() -> None:
    """2013 paper, section 5.2 and 5.3."""
    before, after = 2_000, 1_500
    streams = {"LED 0": abrupt_drift.learn("LED", 0, before, after)}
    found, alarms = evaluated(streams, abrupt_drift.configuration())
    scores = abrupt_drift.scores_of([found["LED 0", "NBa"]], alarms, before)
    delays = {signal: of.delay_mean for signal, of in scores.items()}
    assert delays["all"] is None
    fading = [delays[f"fading:{factor}"] or 1e9 for factor in (0.997, 0.9985, 0.999)]
    windows = [delays[f"window:{size}"] or 1e9 for size in (1_000, 2_000, 3_000)]
    ratios = [delays[f"fading:0.997/fading:{factor}"] or 1e9 for factor in (0.9994, 0.9993, 0.999)]
    assert fading[0] < fading[1] < after
    assert windows[0] < after
    for some in (fading, windows, ratios):
        assert some == sorted(some)
    assert ratios[-1] < fading[0]
    assert fading[0] < windows[0]
    assert delays["window:1000/window:5000"] < windows[0]


def test_measures_of_a_rare_class_raise_false_alarms_and_accuracy_does_not() -> None:
    """2019 paper, table IV."""
    rare, equal = (
        class_ratios.experiment(class_ratios.learned(class_ratios.RATIOS[ratio], runs=4, count=4_000))
        for ratio in ("1:15", "1:1")
    )
    assert rare["accuracy"].as_zero == rare["accuracy"].alarmed == 0.0
    for measure in ("precision", "f1", "g_mean"):
        assert rare[measure].as_zero > equal[measure].as_zero
    assert rare["precision"].undefined > 0.05
    assert rare["recall"].mean < equal["recall"].mean


def test_errors_in_runs_raise_false_alarms() -> None:
    """2015 paper, section 5.1."""
    rates = dependent_errors.stationary(streams=2, outcomes=5_000)
    for name in dependent_errors.NAMES:
        of = rates[f"{name} error"]
        assert of["10%, r = 0.8"] + of["30%, r = 0.8"] > of["10%, r = 0"] + of["30%, r = 0"]


def test_false_alarms_are_good_for_accuracy_where_labels_come_in_runs_alone() -> None:
    """2015 paper, section 6.9."""
    rows = dependent_errors.elec2(4_000)
    own, other = (
        {name: accuracy for name, accuracy, _ in dependent_errors.accuracies(some)}
        for some in (rows, dependent_errors.shuffled(rows))
    )
    never, always = "alarms with probability 0", "alarms with probability 1"
    assert own[never] < own[always] < own["persistent"]
    assert other[never] > other[always] > other["persistent"]
