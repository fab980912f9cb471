"""Expected values in simulated worlds: a small part of what `before_labels.py` shows, from a seed."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from tests.evidence import against_nannyml, what_waits
from tests.evidence.before_labels import MEASURES, graded, messages_of, with_intervals
from tests.evidence.label_worlds import BACKLOG, SIMULATED, STREAMS, NotInstalled, world

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes too long without the compiler")


@pytest.mark.parametrize("kind", SIMULATED)
def test_expected_values_are_far_better_than_labels_so_far(kind: str) -> None:
    of = world(kind, 80, 200, 1)
    measures = ("accuracy", *MEASURES.get(kind, ()))
    messages = messages_of(of, measures=measures)
    for measure in measures:
        said = with_intervals(graded(messages, measure))
        for maturity in (0, 2, 3):
            own = [one for one in said if one.maturity == maturity]
            own = [one for one in own if one.labelled_so_far == one.labelled_so_far]
            assert len(own) >= (0 if kind == "nightly" and not maturity else 15)
            if own:
                error = np.mean([abs(one.value - one.final) for one in own])
                naive = np.mean([abs(one.labelled_so_far - one.final) for one in own])
                assert error <= naive * _of_naive(kind, measure)
        assert 0.7 <= np.mean([one.covered for one in said]) <= 1
        if measure == "accuracy":
            assert np.mean([one.half for one in said]) <= 0.1


def _of_naive(kind: str, measure: str) -> float:
    """The error's share of that of the labels so far, at most: where the docs say it is far smaller."""
    if measure != "accuracy":
        return 1.25
    return 1 if kind.startswith("iid") or kind == "three" else 0.5


@pytest.mark.parametrize("kind", STREAMS)
def test_public_streams_have_intervals_that_hold(kind: str) -> None:
    try:
        of = world(kind, 0, 0, 1)
    except NotInstalled as reason:
        pytest.skip(str(reason))
    said = with_intervals(graded(messages_of(of)))
    assert len(said) > 300
    assert 0.8 <= np.mean([one.covered for one in said]) <= 1


def test_worlds_are_what_they_say() -> None:
    of = world("rare", 20, 200, 1)
    assert 0.005 <= of.label.mean() <= 0.02
    assert of.proba.shape == (1, 16_000, 2)
    of = world("two_models", 20, 200, 1)
    assert of.predicted.shape == (2, 4_000)
    assert of.right.mean() > (of.predicted[1] == of.label).mean()
    of = world("three", 20, 200, 1)
    assert set(of.label) == {0, 1, 2}
    of = world("nightly", 20, 200, 1)
    came = (of.ts + of.delay)[np.isfinite(of.delay)]
    assert np.allclose(came % 1, 3 / 24)
    of = world("backlog", 40, 200, 1)
    came, begin = of.ts + of.delay, BACKLOG[0] * of.days
    assert not ((came > begin) & (came < begin + BACKLOG[1] - 1e-9)).any()
    assert np.isclose(came, begin + BACKLOG[1]).sum() > 200
    with pytest.raises(ValueError, match=r"unknown world 'four'; known: stationary, .*, flights"):
        world("four", 1, 1, 1)


def test_calibration_alone_says_what_nannymls_cbpe_does() -> None:
    own = against_nannyml.calibrated(1)
    try:
        theirs = against_nannyml.cbpe(own)
    except against_nannyml.NotThere as reason:
        pytest.skip(str(reason))
    ours = against_nannyml.first_term(own)
    assert len(ours) == len(theirs) == against_nannyml.BEHIND
    # Of a reference of 30,000 labels the engine remembers some 20,000: a standard error of 0.3 points.
    assert np.abs(ours - theirs).max() <= 0.01
    assert np.abs(ours - theirs).mean() <= 0.006


def test_where_the_concept_changes_cbpe_sees_nothing() -> None:
    try:
        one = against_nannyml.compared("concept", 1)
    except against_nannyml.NotThere as reason:
        pytest.skip(str(reason))
    assert np.abs(one.expected - one.final).mean() <= np.abs(one.cbpe - one.final).mean() / 2


@pytest.mark.parametrize("kind", ["right", "slower"])
def test_shares_of_what_waits_are_within_their_intervals(kind: str) -> None:
    said = [one for one in what_waits.run(kind, 1, days=80, each=200) if one.said.half is not None]
    assert len(said) > 50
    assert np.mean([one.error <= one.half for one in said]) >= 0.7
    assert np.mean([one.half for one in said]) <= 0.1
