"""The Page-Hinkley test against the contract's definition, and its declaration."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from outcome_logs import raised
from prequential.engine.compiled.kernel import Bytes, Floats
from prequential.engine.detectors import DETECTORS
from prequential.engine.tables.logs import new_alarms
from prequential.engine.tables.outcomes import new_log

PAGE_HINKLEY = DETECTORS["page-hinkley"]


def by_definition(x: list[float], delta: float, threshold: float, least: int) -> list[tuple[int, float]]:
    """(place, statistic) of alarms, with x_1 … x_T held as a list (contract, section 4)."""
    alarms, seen, total, m = [], 0, 0.0, [0.0]
    for place, value in enumerate(x):
        seen += 1
        total += value
        mean = total / seen
        m.append(m[-1] + (value - mean - delta))
        statistic = m[-1] - min(m)
        if statistic > threshold and seen >= least:
            alarms.append((place, statistic))
            seen, total, m = 0, 0.0, [0.0]
    return alarms


def drifting(seed: int, n: int) -> tuple[Floats, Bytes]:
    """Values whose mean rises and falls, and which of them are fed."""
    random = np.random.default_rng(seed)
    level = np.repeat(random.uniform(0, 1, n // 100 + 1), 100)[:n]
    return random.normal(level, 0.2), (random.random(n) < 0.8).astype(np.uint8)


@pytest.mark.parametrize("seed", range(5))
def test_alarms_are_where_the_definition_has_them(seed: int) -> None:
    n, sequences = 3000, 4
    random = np.random.default_rng(seed)
    values, fed = drifting(seed, n)
    log = new_log(n)
    log.sequence[:] = random.integers(0, sequences, n)
    settings = PAGE_HINKLEY.configured({"delta": 0.05, "lambda": 4, "min_outcomes": 20})
    table = PAGE_HINKLEY.new_table(sequences, settings)
    found = []
    edges = sorted([0, n, *random.integers(0, n, 10).tolist()])
    for start, stop in pairwise(edges):
        rows = np.arange(start, stop, dtype=np.int32)
        alarms = new_alarms(len(rows))
        PAGE_HINKLEY.run(table, settings, log, rows, values[start:stop], fed[start:stop], 3, alarms)
        found += raised(alarms, rows)
        table = type(table)(*(column.copy() for column in table))
    expected = []
    for q in range(sequences):
        rows = np.flatnonzero((log.sequence == q) & (fed == 1))
        of_q = by_definition(values[rows].tolist(), 0.05, 4.0, 20)
        assert table.alarms[q] == len(of_q)
        expected += [(int(rows[place]), statistic) for place, statistic in of_q]
    assert len(expected) > 4
    assert [(row, statistic) for row, _, statistic, _ in found] == sorted(expected)
    assert {detector for _, detector, _, _ in found} == {3}


def test_the_first_alarm_may_come_at_the_least_number_of_outcomes() -> None:
    values = np.array([0.0, 0.0, 0.0, 0.0, 9.0])
    rows = np.arange(5, dtype=np.int32)
    for least, expected in ((5, 1), (6, 0)):
        settings = PAGE_HINKLEY.configured({"lambda": 5.0, "min_outcomes": least})
        alarms = new_alarms(5)
        table = PAGE_HINKLEY.new_table(1, settings)
        PAGE_HINKLEY.run(table, settings, new_log(5), rows, values, np.ones(5, np.uint8), 0, alarms)
        assert alarms.raised[0] == expected


def test_the_threshold_itself_is_no_alarm() -> None:
    """m - M is exactly 1/2 after 0, 1 with δ = 0."""
    for threshold, expected in ((0.5, 0), (0.4999, 1)):
        settings = PAGE_HINKLEY.configured({"delta": 0.0, "lambda": threshold, "min_outcomes": 1})
        alarms, table = new_alarms(2), PAGE_HINKLEY.new_table(1, settings)
        values, rows = np.array([0.0, 1.0]), np.arange(2, dtype=np.int32)
        PAGE_HINKLEY.run(table, settings, new_log(2), rows, values, np.ones(2, np.uint8), 0, alarms)
        assert alarms.raised[0] == expected


def test_parameters_have_the_declared_types_and_defaults() -> None:
    assert PAGE_HINKLEY.configured({})[:4] == (0.005, 50.0, 30, 0)
    settings = PAGE_HINKLEY.configured({"lambda": 20, "min_outcomes": 5})
    assert [type(value) for value in settings[:4]] == [float, float, int, int]


@pytest.mark.parametrize(
    ("name", "good", "bad"), [("delta", 0.0, -0.1), ("lambda", 1.0, 0.0), ("min_outcomes", 1, 0)]
)
def test_parameters_have_bounds(name: str, good: float, bad: float) -> None:
    (parameter,) = [parameter for parameter in PAGE_HINKLEY.parameters if parameter.name == name]
    assert parameter.parse(good) == good
    for wrong in (bad, float("nan"), "1", True, None):
        with pytest.raises(ValueError, match=f"{wrong!r}: expected (a number|an integer)"):
            parameter.parse(wrong)
