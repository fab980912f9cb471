"""The test for harm: against a plain loop, its levels and ranges, recovery."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from oracle_detectors import TESTS
from prequential.engine.detectors import DETECTORS, harm
from prequential.engine.tables.logs import new_alarms
from prequential.engine.tables.outcomes import new_log

Found = list[tuple[int, float, float]]


def raised(params: Mapping[str, Any], values: Sequence[float]) -> Found:
    """Place, lower bound of the risk, and θ, of each alarm."""
    detector = DETECTORS["harm"]
    settings = detector.configured(params)
    alarms, rows = new_alarms(len(values)), np.arange(len(values), dtype=np.int32)
    x, fed = np.array(values, dtype=np.float64), np.ones(len(values), np.uint8)
    table = detector.new_table(1, settings)
    detector.run(table, settings, new_log(len(values)), rows, x, fed, 0, alarms)
    count = int(alarms.raised[0])
    columns = (alarms.position, alarms.statistic, alarms.threshold)
    return list(zip(*(column[:count].tolist() for column in columns)))


def plain(params: Mapping[str, Any], values: Sequence[float]) -> Found:
    test = TESTS["harm"](params, 0)
    return [(place, *found) for place, x in enumerate(values) if (found := test.add(x)) is not None]


def errors(seed: int, rates: Sequence[float], each: int) -> list[float]:
    some = random.Random(seed)
    return [float(some.random() < rate) for rate in rates for _ in range(each)]


CASES: list[tuple[dict[str, Any], list[float]]] = [
    ({}, errors(1, (0.1, 0.4, 0.02, 0.5), 1_000)),
    ({"bound": 0.1, "tolerance": 0.05, "level": 0.2, "restart": 60}, errors(2, (0.02, 0.3, 0.01, 0.4), 999)),
    ({"bound": 0.3, "restart": 0}, errors(3, (0.2, 0.6), 1_000)),
    ({"bound": 0.0, "reference": 300, "tolerance": 0.05}, errors(4, (0.1, 0.5), 900)),
    ({"reference": 200, "level": 0.3, "restart": 250}, errors(5, (0.0, 0.1, 0.3), 700)),
    ({"bound": 2.0, "scale": 2.5, "tolerance": 0.5},
     [abs(random.Random(i).gauss(0, 1 if i < 700 else 6)) for i in range(1_500)]),
    ({"bound": 0.4}, [0.0] * 600 + [1.0] * 900),
    ({"bound": 0.4}, [1.0] * 400),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)))
def test_alarms_are_where_a_plain_loop_has_them(case: int) -> None:
    params, values = CASES[case]
    expected, found = plain(params, values), raised(params, values)
    assert [place for place, _, _ in found] == [place for place, _, _ in expected]
    for (_, low, theta), (_, expected_low, expected_theta) in zip(found, expected):
        assert low == pytest.approx(expected_low, rel=1e-6)
        assert theta == pytest.approx(expected_theta, rel=1e-12)
        assert low >= theta
    assert found


def test_levels_of_all_tests_there_ever_are_sum_up_to_that_of_the_detector() -> None:
    for restart, reference, whole in ((2_000, 0, 0.01), (0, 0, 0.01), (2_000, 500, 0.005)):
        settings = harm.HarmParameters(0.1, 0.02, 0.01, reference, restart, 1.0)
        ranges = harm.RANGES if restart else 1
        count = 20_000  # what follows them is 1/(count + 1) of it
        total = sum(harm._level(settings, r, j) for r in range(ranges) for j in range(count))
        assert total == pytest.approx(whole * (1 - 1 / (count + 1)))


def test_a_change_after_a_long_time_is_found_by_a_range() -> None:
    values = errors(7, (0.05,), 40_000) + errors(8, (0.25,), 4_000)
    params = {"bound": 0.1, "tolerance": 0.02}
    ((place, _, theta),) = raised(params, values)
    assert 40_000 < place < 41_500
    assert theta == pytest.approx(0.12)
    assert raised({**params, "restart": 0}, values) == []


def test_what_never_exceeds_the_bound_raises_nothing_and_a_tolerance_is_one() -> None:
    values = errors(9, (0.11,), 200_000)
    assert raised({"bound": 0.1, "tolerance": 0.02}, values) == []
    assert len(raised({"bound": 0.1}, values)) >= 1


def test_there_is_no_second_alarm_before_a_recovery() -> None:
    bad, good = errors(10, (0.3,), 20_000), errors(11, (0.05,), 2_000)
    assert len(raised({}, bad)) == 1
    found = raised({}, bad + good + bad)
    assert len(found) == 2
    assert found[1][0] > len(bad) + 1_000


def test_a_model_that_breaks_is_found_at_once() -> None:
    """Though its errors are one long run."""
    for before in (500, 10_000, 50_500):
        values = errors(14, (0.08,), before) + [1.0] * 300
        ((place, _, _),) = raised({"bound": 0.1, "tolerance": 0.02}, values)
        assert before < place < before + 250


def test_labels_that_come_in_batches_are_values_one_after_the_other() -> None:
    """A batch is but a cut; and values of which none exceeds θ raise nothing, however they are sorted."""
    values = sorted(errors(12, (0.2,), 5_000))
    assert raised({"bound": 1.0}, values) == []
    assert len(raised({"bound": 0.1}, values)) == 1


def test_the_reference_gives_its_upper_bound() -> None:
    values = errors(13, (0.1,), 10_000)
    share = sum(values) / len(values)
    ((_, _, theta),) = raised({"reference": 10_000, "tolerance": 0.02}, values + [1.0] * 500)
    assert share + 0.02 + 0.008 < theta < share + 0.02 + 0.014
    # Of 1,000 references with this risk the bound is below it in fewer than 1 in 200.
    some = np.random.default_rng(1)
    below = sum(
        harm.upper_bound(float(some.binomial(10_000, 0.1)) / 10_000, 10_000.0, 0.005) < 0.1
        for _ in range(1_000)
    )
    assert below <= 8
