"""What the papers find of estimates, late labels, dependence and class ratios: small parts of it."""

from __future__ import annotations

import pytest

from tests.evidence import convergence, delayed_labels, measure_dynamics, temporal_dependence
from tests.evidence.dependent_errors import elec2
from tests.kafka_jars import Unavailable

pytestmark = pytest.mark.slow


def test_predictions_made_again_are_evaluated_by_stage_as_they_stand() -> None:
    """2020 paper, table II: by hand, of rows of predictions."""
    of = delayed_labels.Experiment("LED", "led", 8, 10, 5, 1, delayed_labels.EXPERIMENTS[0].paper)
    rows = ["000011", "001111", "111111", "000000"] * 2
    said = delayed_labels.Said(["1"] * 8, {"HT": rows})
    one = delayed_labels.evaluated(said, of, alpha=1.0)
    by_bin = [sum(row[b] == "1" for row in rows) / 8 for b in range(6)]
    assert one.last("HT", "initial") == by_bin[0] == 0.25
    assert [one.last("HT", f"bin:{b}") for b in range(1, 6)] == by_bin[1:]
    assert one.last("HT", "final") == by_bin[5] == 0.75
    assert one.last("HT", "intermediate") == pytest.approx(sum(by_bin) / 6, rel=1e-14)
    (first, *_) = [line for line in delayed_labels.table({"LED": [one]}, [of]) if line.startswith("| LED")]
    assert first == "| LED | initial | 25.0 (59.6) |"


@pytest.mark.nightly
def test_drifting_streams_are_the_better_predicted_the_later() -> None:
    """2020 paper, table II and figure 5, with MOA's tree."""
    of = delayed_labels.EXPERIMENTS[0]._replace(instances=3_000, delay=200, bins=10)
    try:
        said = delayed_labels.served(of, 1, ("HT",))
    except Unavailable as reason:
        pytest.skip(str(reason))
    one = delayed_labels.evaluated(said, of)
    assert one.last("HT", "initial") < one.last("HT", "bin:5") < one.last("HT", "final")
    assert one.last("HT", "initial") < one.last("HT", "intermediate") < one.last("HT", "final")
    assert delayed_labels.draw(one, of, ("HT",), "window:1000", (600,)).startswith("<svg")


@pytest.mark.nightly
def test_the_latest_label_helps_where_labels_come_in_runs() -> None:
    """2015 paper, figures 2, 3, 5 and 6."""
    rows = temporal_dependence.chosen(elec2(1_500))
    truth = [y for _, y in rows]
    (plain, *others) = temporal_dependence.wrapped(rows, ("NB",))[0][2].split("|")[2:5]
    assert all(float(other) > float(plain) + 0.05 for other in others)
    down = temporal_dependence.dependence(truth, (1, 2, 3))[2].split("|")
    assert float(down[2]) < -0.2 < float(down[3])
    persistent = temporal_dependence.benchmarks(rows, ("NB",))[3].split("|")
    assert persistent[1].strip() == "persistent"
    assert float(persistent[4]) == 0.0  # kappa_per of itself
    assert len(temporal_dependence.orders(rows[:300], ("NB",))) == 3


@pytest.mark.nightly
def test_distributions_and_class_ratios() -> None:
    """2019 paper: table II, and figures 4 and 5."""
    few, many = (measure_dynamics.values("f1", p, 160 - p) for p in (10, 150))
    assert len(few) == len(many) == 11 * 151
    assert (few >= 0.9).mean() < 0.01 < (many >= 0.9).mean()
    balanced = measure_dynamics.values("balanced_accuracy", 10, 150)
    assert balanced.mean() == pytest.approx(0.5)
    rare = measure_dynamics.courses(("1:15", "1:4", "1:1"), (3_000, 2_000, 2_000))
    recall = rare["recall"]
    assert recall[0] < recall[2]


@pytest.mark.nightly
def test_forgetting_estimates_come_nearer_to_the_holdout_error() -> None:
    """2013 paper, figure 3."""
    found = convergence.experiment("Waveform", runs=1, instances=4_000)
    far = {name: abs(of[4_000] - found["holdout"][4_000]) for name, of in found.items()}
    assert far["window:1000"] < far["all"]
    assert found["all"][4_000] > found["holdout"][4_000]
    assert len(convergence.table(found, (1_000, 4_000))) == 3 + len(convergence.ESTIMATORS)
