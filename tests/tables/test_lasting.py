"""A lasting worsening, and what becomes of it, against plain loops over lists of clusters."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from compiled import from_python
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential.engine.incidents import evidence, lasting
from prequential.engine.incidents.evidence import WHOLE_DAYS, LossSums
from prequential.engine.incidents.lasting import ALLOWANCE, LASTING, LEAST_OUTCOMES, LONGEST, MEMORY

from tests.nightly import scaled

decide, is_worse = from_python(lasting.decide), from_python(evidence.is_worse)


class Outcomes(NamedTuple):
    """Losses of neighbouring outcomes, and for each the loss before it."""

    loss: np.ndarray
    former: np.ndarray

    def sums(self) -> LossSums:
        sums = self.loss.sum(), (self.loss**2).sum(), (self.loss * self.former).sum()
        return LossSums(float(len(self.loss)), *map(float, sums))


#: Outcomes and the sum of their losses.
Clusters = list[tuple[int, float]]


def plain_score(x: float, mean: float, deviation: float) -> float:
    if mean <= 0:
        return (x - mean) / deviation
    shape = max((mean / deviation) ** 2, 0.25)
    return (np.cbrt(max(x, 0.0) / mean) - (1 - 1 / (9 * shape))) * 3 * math.sqrt(shape)


def plain_excess(clusters: Clusters, binary: bool, h: float) -> tuple[float, list[int]]:
    """S at the newest cluster, and the places of the clusters since S was 0."""
    usual: list[tuple[float, int]] = []
    total, pending = 0.0, []
    for place, (n, loss) in enumerate(clusters):
        if n < LEAST_OUTCOMES:
            continue
        if len(usual) < lasting.LEAST_USUAL:
            usual.append((loss / n, n))
            continue
        x = np.array([mean for mean, _ in usual[-MEMORY:]])
        count, mean, size = len(x), x.mean(), np.mean([n for _, n in usual[-MEMORY:]])
        apart = x - mean
        squares = (apart**2).sum()
        variance = squares / (count - 1)
        r = max(0.0, sum(a * b for a, b in pairwise(apart)) / squares) if squares > 0 else 0.0
        r = min(lasting.MOST_CORRELATION, r + (1 + 3 * r) / count)
        if binary:
            p = (mean * size * count + 1) / (size * count + 2)
            variance = max(variance, p * (1 - p) / size)
        variance *= (1 + r) / (1 - r) * (1 + 1 / count) * max(1.0, size / n)
        deviation = max(math.sqrt(variance), 1e-6 * abs(mean), 1e-300)
        z = plain_score(loss / n, mean, deviation)
        total = max(0.0, total + min(z, ALLOWANCE + h / LASTING) - ALLOWANCE)
        pending.append(place)
        if total == 0.0 or len(pending) > LONGEST:
            usual += [(clusters[at][1] / clusters[at][0], clusters[at][0]) for at in pending]
            total, pending = 0.0, []
    return total, pending


def filled(clusters: Clusters) -> lasting.Scratch:
    scratch = lasting.new_scratch(len(clusters) + 1, 1)
    for place, (n, loss) in enumerate(clusters):
        scratch.means.n[place], scratch.means.loss[place] = n, loss
        scratch.means.squares[place] = loss  # of 0 and 1
        scratch.means.products[place] = loss * loss / n  # no runs
    return scratch


def plain_is_worse(before: Outcomes, since: Outcomes, binary: bool, days: float) -> bool:
    """By arrays of single losses, each next to the one before it."""
    m0, m1 = before.loss.mean(), since.loss.mean()
    parts = (before, m0), (since, m1)
    together = sum((part.loss * part.former - mean * part.loss).sum() for part, mean in parts)
    apart = sum((part.loss**2 - mean * part.loss).sum() for part, mean in parts)
    n0, n1 = len(before.loss), len(since.loss)
    prior = 10.0 if binary else 10.0 * apart / (n0 + n1)
    r = min(max((together + prior / 3.0) / (apart + prior), 0.0), 0.9)
    wide = (1 + r) / (1 - r)
    if binary:
        m0 = (before.loss.sum() + 0.5) / (n0 + 1)
        if m1 <= m0:
            return False
        numerator, denominator = since.loss.sum() / wide, (before.loss.sum() + 0.5) / wide
        ratio = m1 / m0
        if before.loss.sum() / wide < 5:  # the exact test of two rates, given both counts
            numerator, denominator = before.loss.sum() / wide + 1, since.loss.sum() / wide
            ratio = (since.loss.sum() / wide / n1) / (numerator / n0)
        variance, hours = m0 * (1 - m0), 0.75 * m0 * (1 - m0)
        a, b = 1 / (9 * numerator), 1 / (9 * denominator)
        root = np.cbrt(ratio)
        z = ((1 - b) * root - (1 - a)) / math.sqrt(b * root**2 + a)
    else:
        variance = (before.loss**2).mean() - m0**2
        hours = math.sqrt(variance) / 4
        z = (m1 - m0) / math.sqrt(variance * wide * (1 / n0 + 1 / n1))
    error = math.sqrt(variance * wide * (1 / n0 + 1 / n1) + hours**2 * 4 / (4 + days))
    return bool(m1 > m0 and z > 2.33 and (days == WHOLE_DAYS or m1 - m0 > 3.25 * error))


def shares(rng: np.random.Generator, rates: list[float]) -> Clusters:
    """Clusters of 0/1 losses with these rates; some are too small to count."""
    sizes = rng.integers(4, 60, len(rates)).tolist()
    return [(n, float(rng.binomial(n, rate))) for n, rate in zip(sizes, rates)]


@settings(max_examples=scaled(60, 600), deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([WHOLE_DAYS, 0.1, 10.0]))
def test_evidence_is_that_of_single_outcomes(seed: int, binary: bool, days: float) -> None:
    rng = np.random.default_rng(seed)
    size, count = int(rng.integers(20, 1_000)), int(rng.integers(5, 200))
    wrong = rng.random(size + count) < np.repeat([rng.uniform(0, 0.4), rng.uniform(0, 0.9)], [size, count])
    loss = wrong * 1.0 if binary else rng.gamma(2.0, 1.0 + wrong)
    stays = rng.random(len(loss)) < rng.choice([0.0, 0.7])
    for place in range(1, len(loss)):
        loss[place] = loss[place - 1] if stays[place] else loss[place]
    former = np.append(0.0, loss[:-1])
    before, since = Outcomes(loss[:size], former[:size]), Outcomes(loss[size:], former[size:])
    assert is_worse(before.sums(), since.sums(), binary, days) == plain_is_worse(before, since, binary, days)


@pytest.mark.slow
@settings(max_examples=scaled(60, 600), deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([2.0, 4.0, 11.0]))
def test_decisions_are_those_of_a_plain_loop(seed: int, binary: bool, h: float) -> None:
    rng = np.random.default_rng(seed)
    usual, worse = rng.uniform(0, 0.4), rng.uniform(0, 1)
    rates = np.concatenate((
        np.clip(rng.normal(usual, rng.choice([0.0, 0.1]), rng.integers(15, 200)), 0, 1),
        np.full(rng.integers(0, 45), worse), np.full(rng.integers(0, 10), usual),
    ))  # fmt: skip
    clusters = shares(rng, rates.tolist())
    if not binary:
        clusters = [(n, loss * rng.gamma(4.0)) for n, loss in clusters]
    budget = 2.0
    while lasting.threshold(budget) < h:
        budget *= 1.01
    h = lasting.threshold(budget)
    total, pending = plain_excess(clusters, binary, h)
    scratch = filled(clusters)
    found = decide(scratch, len(clusters), binary, budget, WHOLE_DAYS)
    assert found.h == h
    assert found.excess.total == pytest.approx(total, abs=1e-9)
    assert found.excess.start == (pending[0] if pending else -1)
    sure = bool(pending) and total >= h
    if sure:
        means = scratch.means
        start = lasting.change_place(means, pending[0], len(clusters), found.excess.mean)
        columns = means.n, means.loss, means.squares, means.products
        spans = slice(0, start), slice(start, len(clusters))
        before, since = (LossSums(*(float(column[span].sum()) for column in columns)) for span in spans)
        sure = is_worse(before, since, binary, WHOLE_DAYS)
    assert found.is_lasting == sure


@pytest.mark.slow
def test_a_worsening_lasts_for_four_clusters() -> None:
    for bad in range(1, 8):
        clusters = [(100, 10.0 + place % 3) for place in range(60)] + [(100, 90.0)] * bad
        assert decide(filled(clusters), len(clusters), True, 30.0, WHOLE_DAYS).is_lasting == (bad >= LASTING)


def test_hours_that_were_not_seen_may_differ() -> None:
    """The odds of an error may double within the first day; once days are seen, they may not."""
    before = LossSums(3000.0, 300.0, 300.0, 30.0)
    doubled, tenfold = LossSums(1500.0, 285.0, 285.0, 55.0), LossSums(1500.0, 750.0, 750.0, 375.0)
    assert not is_worse(before, doubled, True, 0.1)
    assert is_worse(before, doubled, True, 60.0)
    assert is_worse(before, doubled, True, WHOLE_DAYS)
    assert is_worse(before, tenfold, True, 0.1)


@pytest.mark.parametrize("errors", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("days", [WHOLE_DAYS, 0.01, 10.0])
def test_always_wrong_after_hardly_ever_is_worse(errors: float, days: float) -> None:
    """Few errors before say little about a level, but it can't be that of what is always wrong."""
    before = LossSums(300.0, errors, errors, 0.0)
    always, four = LossSums(200.0, 200.0, 200.0, 199.0), LossSums(10.0, 4.0, 4.0, 2.0)
    assert is_worse(before, always, True, days)
    assert not is_worse(LossSums(20.0, 0.0, 0.0, 0.0), four, True, days), "2 of 5 after 0 of 10, in runs"


@pytest.mark.parametrize("independent", [0, 1, 3])
def test_few_errors_are_compared_exactly(independent: int) -> None:
    """Of streams with errors in pairs and one level, at most 1.3% are worse by the test of chance."""
    rng = np.random.default_rng(independent)
    chance = []
    for k0, k1 in zip(rng.poisson(independent + 0.5, 20_000), rng.poisson(2 * independent + 1, 20_000)):
        before = LossSums(1000.0, 2.0 * k0, 2.0 * k0, 1.0 * k0)
        since = LossSums(2000.0, 2.0 * k1, 2.0 * k1, 1.0 * k1)
        chance.append(is_worse(before, since, True, WHOLE_DAYS))
    assert np.mean(chance) <= 0.013


def test_errors_in_runs_count_less() -> None:
    before, since = LossSums(600.0, 12.0, 12.0, 0.0), LossSums(100.0, 10.0, 10.0, 0.0)
    in_runs = before._replace(products=10.0), since._replace(products=9.0)
    assert is_worse(before, since, True, WHOLE_DAYS)
    assert not is_worse(*in_runs, True, WHOLE_DAYS)


def test_an_excess_that_lasts_too_long_without_being_found_is_usual() -> None:
    clusters = [(1000, 100.0 + 10 * (place % 3)) for place in range(61)] + [(1000, 119.0)] * (LONGEST + 1)
    before, after = (
        decide(filled(clusters), len(clusters) - left_out, True, 1e6, WHOLE_DAYS).excess.total
        for left_out in (1, 0)
    )
    assert before > after == 0.0


@settings(max_examples=scaled(60, 600), deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_what_becomes_of_a_level_is_what_a_plain_loop_says(seed: int, binary: bool) -> None:
    rng = np.random.default_rng(seed)
    before, deviation, h = rng.uniform(0.01, 0.3), rng.uniform(0.01, 0.1), 6.0
    after = before + rng.uniform(0.05, 0.5)
    levels = rng.choice([before, after, min(1.0, 1.5 * after)], 30)
    clusters = shares(rng, np.repeat(levels, 4).tolist())
    spread = lasting.deviation_at(after, before, deviation, binary)
    assert spread >= deviation
    back = further = 0.0
    places = [-1, -1]
    for place, (n, loss) in enumerate(clusters):
        if n < LEAST_OUTCOMES:
            continue
        risen = plain_score(after, before, deviation)
        back = max(0.0, back + min(4.0, risen / 2 - plain_score(loss / n, before, deviation)))
        z = min(plain_score(loss / n, after, spread), ALLOWANCE + h / LASTING)
        further = max(0.0, further + z - ALLOWANCE)
        for which, total in enumerate((back, further)):
            places[which] = -1 if total == 0.0 else place if places[which] < 0 else places[which]
    means = filled(clusters).means
    found = lasting.course(means, 0, len(clusters), before, deviation, after, spread, h)
    assert (found.back, found.further) == (pytest.approx(back, abs=1e-8), pytest.approx(further, abs=1e-8))
    assert [found.back_from, found.further_from] == places


def test_losses_vary_more_where_they_are_larger() -> None:
    assert lasting.deviation_at(0.1, 0.1, 0.05, binary=True) == 0.05
    assert lasting.deviation_at(0.9, 0.1, 0.05, binary=True) == pytest.approx(0.05)
    assert lasting.deviation_at(0.5, 0.0, 0.014, binary=True) == pytest.approx(0.05)
    assert lasting.deviation_at(6.0, 2.0, 0.1, binary=False) == pytest.approx(0.3)
    assert lasting.deviation_at(6.0, 0.0, 0.1, binary=False) == 0.1
