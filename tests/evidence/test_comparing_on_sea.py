"""The 2013 paper's comparison done again, in short: what it says of memories, and its parts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from prequential.cli.main import main

from tests.evidence.comparing_on_sea import (
    ESTIMATORS,
    THRESHOLD,
    A,
    B,
    Memory,
    Series,
    Stream,
    by_concept,
    by_formulas,
    by_replay,
    draw,
    stream,
    verdicts,
    write_files,
)

_LENGTH = 5_000


@cache
def small() -> tuple[Stream, list[bool], list[bool], dict[str, Series]]:
    of = stream(_LENGTH)
    wrong_a, wrong_b = ([said != label for said, label in zip(column, of.labels)] for column in of[1:3])
    return of, wrong_a, wrong_b, by_formulas(wrong_a, wrong_b)


def test_all_history_never_forgets_and_the_others_do() -> None:
    of, _, _, found = small()
    (fall, *_) = [one.noticed for one in by_concept(found["all"], of.detected, _LENGTH)[1:]]
    assert fall is not None
    last = by_concept(found["all"], of.detected, _LENGTH)[-1]
    assert (last.forgot, last.share) == (None, 1.0)
    for estimator in ESTIMATORS[1:]:
        one = by_concept(found[estimator], of.detected, _LENGTH)[-1]
        assert one.forgot is not None
        assert one.noticed is not None
        assert one.forgot < one.noticed


def test_windows_and_fading_notice_at_about_the_same_outcome() -> None:
    of, _, _, found = small()
    for window, fading in (("window:1000", "fading:0.999"), ("window:100", "fading:0.99")):
        pair = (by_concept(found[name], of.detected, _LENGTH)[-1].noticed for name in (window, fading))
        assert next(pair) == pytest.approx(next(pair), abs=500)


def test_four_concepts_tell_nothing_of_a_fifth_one() -> None:
    """Each has another difference, for a quarter of the run: the longest blocks differ too much."""
    _, wrong_a, wrong_b, _ = small()
    assert verdicts(wrong_a, wrong_b)[0] == []


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_memories_are_their_definitions(estimator: str) -> None:
    numbers = np.random.default_rng(2).integers(0, 2, 700).tolist()
    memory = Memory(estimator, 1)
    kind, _, value = estimator.partition(":")
    for i, number in enumerate(numbers):
        (total,) = memory.add((number,))
        past = numbers[: i + 1][::-1]
        if kind == "fading":
            assert total == pytest.approx(sum(x * float(value) ** age for age, x in enumerate(past)))
        else:
            assert total == sum(past[: int(value)] if value else past)


def test_what_replay_says_can_take_the_place_of_the_formulas() -> None:
    _, _, _, found = small()
    messages = []
    for estimator, series in found.items():
        for at in range(0, len(series.outcomes), 250):
            values = {"q": series.q[at], "mcnemar": series.mcnemar[at]}
            message = {"model": A, "against": B, "loss": "error", "stage": "final", "segment": None}
            message |= {"estimator": estimator, "outcomes": at + 1}
            message |= {"measures": {name: value for name, value in values.items() if np.isfinite(value)}}
            messages += [json.dumps(message), json.dumps({**message, "loss": "brier"})]
    read = by_replay(messages)
    for estimator, series in found.items():
        for column in range(3):
            np.testing.assert_array_equal(read[estimator][column], series[column][::250])


def test_replay_says_what_the_formulas_say(tmp_path: Path) -> None:
    of = stream(_LENGTH)
    few = Stream(of.labels[-2000:], of.of_a[-2000:], of.of_b[-2000:], [])
    write_files(few, tmp_path)
    out = tmp_path / "comparisons.jsonl"
    files = [f"--{name}={tmp_path / name}.jsonl" for name in ("predictions", "labels")]
    assert main(["replay", f"--config={tmp_path / 'config.yaml'}", *files, f"--comparisons-out={out}"]) == 0
    wrong_a, wrong_b = ([said != label for said, label in zip(column, few.labels)] for column in few[1:3])
    told = by_replay(out.read_text().splitlines())
    for estimator, series in by_formulas(wrong_a, wrong_b).items():
        outcomes = told[estimator].outcomes.astype(int).tolist()
        assert set(range(20, 2_001, 20)) <= set(outcomes)  # and those at which a verdict changed
        assert len(outcomes) < 120
        places = told[estimator].outcomes.astype(int) - 1
        np.testing.assert_allclose(told[estimator].q, series.q[places], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(told[estimator].mcnemar, series.mcnemar[places], rtol=1e-9, atol=1e-9)
    (*_, last) = map(json.loads, out.read_text().splitlines())
    (found, _) = verdicts(wrong_a, wrong_b, 0.05 / 2)  # of the first pair
    assert (last["since"], last["verdict"]) == found[-1] == (last["since"], "b_better")


def test_plots_are_svg(tmp_path: Path) -> None:
    of, _, _, found = small()
    draw(of, found, tmp_path)
    for name in ("sea-q", "sea-mcnemar-all", "sea-mcnemar-forgetting"):
        root = ElementTree.fromstring((tmp_path / f"{name}.svg").read_text())
        curves = root.findall(".//{http://www.w3.org/2000/svg}polyline")
        assert len(curves) >= 3
        assert all(len(curve.attrib["points"].split()) > 100 for curve in curves)
    assert f"{THRESHOLD:.3f}" == "6.635"
