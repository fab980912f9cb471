"""What the papers find of estimates, late labels, dependence and class ratios: small parts of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.evidence import (
    convergence,
    delayed_labels,
    measure_dynamics,
    temporal_dependence,
)
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


def test_distributions_and_class_ratios() -> None:
    """2019 paper: table II, and figures 4 and 5."""
    few, many = (measure_dynamics.values("f1", p, 160 - p) for p in (10, 150))
    assert len(few) == len(many) == 11 * 151
    assert (few >= 0.9).mean() < 0.01 < (many >= 0.9).mean()
    balanced = measure_dynamics.values("balanced_accuracy", 10, 150)
    assert balanced.mean() == pytest.approx(0.5)
    positives, negatives = (
        measure_dynamics.courses(rare_positives, (3_000, 2_000, 2_000)) for rare_positives in (True, False)
    )
    assert positives["recall"][0] < positives["recall"][2]
    assert positives["recall"] != negatives["recall"]
    for measure in ("accuracy", "balanced_accuracy", "kappa", "g_mean", "mcc"):
        assert positives[measure] == pytest.approx(negatives[measure])


def test_gradients_towards_more_positive_labels() -> None:
    """2019 paper, figure 3; of precision it is 1/(tp + fp) for any matrix."""
    up = {measure: measure_dynamics.upwards(measure, 4, 12) for measure in measure_dynamics.MEASURES}
    assert up["accuracy"] == pytest.approx(0.0, abs=1e-9)
    tp, fp = np.meshgrid(np.arange(1, 4), np.arange(1, 12), indexing="ij")
    assert up["precision"] == pytest.approx(0.5 * 16 / (tp + fp))
    assert up["recall"] == pytest.approx(0.5 * 16 * (4 - 2 * tp) / 4**2)
    # With the classes exchanged it is the same downwards.
    exchanged = measure_dynamics.upwards("mcc", 12, 4)
    assert up["mcc"] == pytest.approx(-exchanged[::-1, ::-1].T, abs=1e-6)


def test_streams_that_are_given_are_read(tmp_path: Path) -> None:
    """2020 paper: the form of its Hyperplane stream."""
    text = "@data\n0.2,0.3,?,1,1\n0.6,0.9,?,2,2\n0.6,0.9,class2,2,102\n0.2,0.3,class1,1,101\n"
    (tmp_path / "some.arff").write_text(text)
    assert delayed_labels.hyperplane_lines(tmp_path / "some.arff") == "0.2,0.3,0\n0.6,0.9,1"
    of = delayed_labels.Experiment("Elec2", "given", 300, 48, 8, 1, delayed_labels.EXPERIMENTS[-1].paper)
    given = "\n".join(delayed_labels.elec2_lines().splitlines()[:300])
    try:
        said = delayed_labels.served(of, 1, ("NC", "NB"), given=given)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert said.truth == [line[-1] for line in given.splitlines()]
    final = [row[-1] for row in said.models["NC"]]
    assert final[1:] == said.truth[:-1]  # the label before, known just before its own
    one = delayed_labels.evaluated(said, of)
    assert one.last("NC", "final") > one.last("NC", "initial")


def test_forgetting_estimates_come_nearer_to_the_holdout_error() -> None:
    """2013 paper, figure 3."""
    found = convergence.experiment("Waveform", runs=1, instances=4_000)
    far = {name: abs(of[4_000] - found["holdout"][4_000]) for name, of in found.items()}
    assert far["window:1000"] < far["all"]
    assert found["all"][4_000] > found["holdout"][4_000]
    assert len(convergence.table(found, (1_000, 4_000))) == 3 + len(convergence.ESTIMATORS)


@pytest.mark.parametrize("stream", convergence.STREAMS)
def test_streams_of_moa_and_of_river_have_one_form(stream: str) -> None:
    """2013 paper, figure 3: instances, classes and places are the same."""
    (said, truth), holdout = convergence.learned(stream, 1, 1_000)
    try:
        (theirs, their_truth), their_holdout = convergence.of_moa(stream, 1, 1_000)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert len(said["tree"]) == len(theirs["tree"]) == len(truth) == len(their_truth) == 1_000
    assert len(set(truth)) == len(set(their_truth))
    assert holdout.keys() == their_holdout.keys() == {1_000}
