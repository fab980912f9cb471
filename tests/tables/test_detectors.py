"""Detectors against river's, step by step, and all of them: places, cuts, state, room for more sequences."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from compiled import from_python
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_detectors import TESTS
from outcome_logs import raised
from prequential.engine.compiled.kernel import Floats, grown, of_rows
from prequential.engine.detectors import DETECTORS, kswin
from prequential.engine.tables.logs import new_alarms
from prequential.engine.tables.outcomes import new_log
from river import drift
from scipy import stats

from tests.nightly import few, scaled

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

Params = Mapping[str, Any]

DIRECTIONS = ("increase", "decrease", "both")

#: What river has of the same name, with the same parameters.
RIVERS: dict[str, Callable[..., Any]] = {
    "adwin": drift.ADWIN,
    "ddm": drift.binary.DDM,
    "eddm": drift.binary.EDDM,
    "hddm-a": drift.binary.HDDMA,
    "hddm-w": drift.binary.HDDMW,
}


class _Numbers:
    """Park and Miller's numbers, and samples by them (Knuth's algorithm S)."""

    def __init__(self) -> None:
        self.r = 1

    def sample(self, population: range, count: int) -> list[int]:
        chosen: list[int] = []
        for left, one in zip(range(len(population), 0, -1), population):
            self.r = self.r * 48_271 % (2**31 - 1)
            if Fraction(self.r, 2**31 - 1) * left < count - len(chosen):
                chosen.append(one)
        return chosen


class RiversKswin(drift.KSWIN):
    """River's with other random numbers."""

    def _reset(self) -> None:
        super()._reset()
        self._rng = _Numbers()


RIVERS["kswin"] = RiversKswin

#: Parameters besides the defaults, by detector.
VARIANTS: dict[str, list[Params]] = {
    "adwin": [
        {}, {"clock": 1}, {"delta": 0.2, "clock": 7, "max_buckets": 2, "min_window_length": 1},
        {"max_buckets": 3, "grace_period": 100, "clock": 3}, {"delta": 0.9, "grace_period": 0, "clock": 1},
    ],
    "ddm": [{}, {"warm_start": 1}, {"warm_start": 100, "warning_threshold": 0.5, "drift_threshold": 1}],
    "eddm": [{}, {"warm_start": 5}, {"alpha": 0.8, "beta": 0.75}, {"warm_start": 1, "beta": 0.95}],
    "hddm-a": [{}, {"two_sided_test": True}, {"drift_confidence": 0.2, "warning_confidence": 0.3}],
    "kswin": [
        {}, {"alpha": 0.05, "window_size": 40, "stat_size": 20}, {"window_size": 300, "stat_size": 100},
    ],
    "hddm-w": [
        {}, {"two_sided_test": True}, {"lambda_val": 0.3, "drift_confidence": 0.1}, {"lambda_val": 0.01},
        {"two_sided_test": True, "warning_confidence": 0.5, "drift_confidence": 0.4},
    ],
}  # fmt: skip

BINARY = [name for name, detector in DETECTORS.items() if detector.binary]


class Fed:
    """A detector of one sequence."""

    def __init__(self, name: str, params: Params) -> None:
        self.detector = DETECTORS[name]
        self.settings = self.detector.configured(params)
        self.table: Any = self.detector.new_table(1, self.settings)

    def update(self, values: Sequence[float] | Floats) -> list[tuple[int, float, float]]:
        """Feed values; (place, statistic, threshold) of the alarms."""
        x = np.array(values, dtype=np.float64)
        rows, alarms = np.arange(len(x), dtype=np.int32), new_alarms(max(1, len(x)))
        fed = np.ones(len(x), np.uint8)
        self.detector.run(self.table, self.settings, new_log(len(x)), rows, x, fed, 0, alarms)
        count = int(alarms.raised[0])
        return list(
            zip(
                alarms.position[:count].tolist(),
                alarms.statistic[:count].tolist(),
                alarms.threshold[:count].tolist(),
            )
        )


def rivers(name: str, params: Params, values: Sequence[float]) -> tuple[list[int], list[bool | None]]:
    """Places of river's alarms, and after each value whether it warns; None where it alarms."""
    detector = RIVERS[name](**params)
    places, warnings = [], []
    for place, x in enumerate(values):
        detector.update(x)
        if detector.drift_detected:
            places.append(place)
        warned = getattr(detector, "warning_detected", False)
        warnings.append(None if detector.drift_detected else bool(warned))
    return places, warnings


def check_as_river(name: str, params: Params, values: Sequence[float]) -> int:
    """All places are river's; value by value also the warnings. Returns how many alarms there are."""
    places, warnings = rivers(name, params, values)
    assert [place for place, _, _ in Fed(name, params).update(values)] == places
    if hasattr(DETECTORS[name].new_table(1, DETECTORS[name].configured(params)), "warning"):
        single, found = Fed(name, params), []
        for value in values:
            alarm = single.update([value])
            found.append(None if alarm else bool(single.table.warning[0]))
        assert found == warnings
    return len(places)


def errors(seed: int, rates: Sequence[float], each: int) -> list[float]:
    """0 and 1, at one rate after the other."""
    some = random.Random(seed)
    return [float(some.random() < rate) for rate in rates for _ in range(each)]


def numbers(seed: int, levels: Sequence[float], each: int) -> list[float]:
    some = random.Random(seed)
    return [some.gauss(level, 1) for level in levels for _ in range(each)]


CASES = [(name, params) for name, variants in VARIANTS.items() for params in variants]

#: The cases by how long they take: river's kswin with long windows calls scipy ever again.
BY_TIME = sorted(CASES, key=lambda case: case[0] == "kswin" and "alpha" not in case[1])


def quick(cases: list[tuple[str, Params]]) -> list[Any]:
    """Cases to parametrise with, of which `make nightly` alone tries the two of long windows."""
    return few(cases, len(cases) - 2)


@pytest.mark.parametrize(("name", "params"), quick(BY_TIME))
def test_alarms_are_where_river_has_them_as_errors_change(name: str, params: Params) -> None:
    found = 0
    for seed in range(1 if name == "kswin" else scaled(2, 6)):
        found += check_as_river(name, params, errors(seed, (0.05, 0.4, 0.1, 0.8, 0.02), 700))
        found += check_as_river(name, params, errors(seed, (0.5,), 300) + errors(seed, (0, 1, 0), 200))
    assert found > 3


@pytest.mark.parametrize(("name", "params"), quick([case for case in BY_TIME if case[0] not in BINARY]))
def test_numbers_raise_alarms_where_river_has_them(name: str, params: Params) -> None:
    found = 0
    for seed in range(1 if name == "kswin" else scaled(2, 6)):  # scipy takes its time
        found += check_as_river(name, params, numbers(seed, (0, 1, 0.5, -3, 100), 800))
        found += check_as_river(name, params, [1e6 + x for x in numbers(seed, (0, 3), 1500)])
    assert found > 3


def test_adwin_in_a_long_stream_without_a_change() -> None:
    assert check_as_river("adwin", {"clock": 500}, errors(1, (0.2,), 100_000)) == 0
    constant = Fed("adwin", {})
    assert constant.update(np.full(5_000, 0.1)) == []


@settings(max_examples=scaled(50, 150), deadline=None)
@given(case=st.sampled_from(CASES), runs=st.lists(st.tuples(st.booleans(), st.integers(1, 60)), max_size=30))
def test_alarms_are_where_river_has_them_in_any_runs(
    case: tuple[str, Params], runs: list[tuple[bool, int]]
) -> None:
    values = [float(wrong) for wrong, length in runs for _ in range(length)]
    check_as_river(*case, values if case[0] != "kswin" else values[:200])


@settings(max_examples=scaled(20, 60), deadline=None)
@given(
    params=st.sampled_from(VARIANTS["adwin"]),
    values=st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), max_size=300),
)
def test_adwin_of_any_numbers(params: Params, values: list[float]) -> None:
    check_as_river("adwin", params, values)


# ---- against plain loops


CHARTS: list[tuple[str, Params]] = [
    *(("page-hinkley", {"delta": 0.05, "lambda": 10.0071, "direction": one}) for one in DIRECTIONS),
    *(("cusum", {"k": 0.2, "h": 15.0037, "min_outcomes": 20, "direction": one}) for one in DIRECTIONS),
    *(("ecdd", {"average_run_length": length, "min_outcomes": 25}) for length in (100, 400)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params"), CHARTS)
def test_alarms_are_where_a_plain_loop_has_them(name: str, params: Params) -> None:
    found = 0
    for seed in range(3):
        cases = [errors(seed, (0.1, 0.7, 0.2), 300), errors(seed, (0, 0.5, 0), 200)]
        cases += [] if DETECTORS[name].binary else [numbers(seed, (0, 1, -1), 300)]
        for values in cases:
            test = TESTS[name](params, 0)
            said = [(place, test.add(x)) for place, x in enumerate(values)]
            expected = [(place, *alarm) for place, alarm in said if alarm is not None]
            np.testing.assert_allclose(Fed(name, params).update(values), expected, rtol=1e-9)
            found += len(expected)
    assert found >= 4


@pytest.mark.parametrize(
    ("params", "values", "count"),
    [
        ({"lambda": 5.0, "min_outcomes": 5}, [0.0, 0.0, 0.0, 0.0, 9.0], 1),
        ({"lambda": 5.0, "min_outcomes": 6}, [0.0, 0.0, 0.0, 0.0, 9.0], 0),
        # m - M is exactly 1/2 after 0, 1 with δ = 0: the threshold itself is no alarm.
        ({"delta": 0.0, "lambda": 0.5, "min_outcomes": 1}, [0.0, 1.0], 0),
        ({"delta": 0.0, "lambda": 0.4999, "min_outcomes": 1}, [0.0, 1.0], 1),
    ],
)
def test_bounds_of_page_hinkley(params: Params, values: list[float], count: int) -> None:
    assert len(Fed("page-hinkley", params).update(values)) == count


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.3])
def test_ecdds_false_alarms_are_as_far_apart_as_configured(rate: float) -> None:
    count = sum(len(Fed("ecdd", {}).update(errors(seed, (rate,), 20_000))) for seed in range(5))
    assert 300 < 100_000 / count < 500


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3])
def test_cusum_raises_few_false_alarms(rate: float) -> None:
    """Of 100 streams of 5,000 outcomes at most three raise one; three times as many errors are found."""
    alarmed = sum(bool(Fed("cusum", {}).update(errors(seed, (rate,), 5_000))) for seed in range(100))
    assert alarmed <= 3
    delays = []
    for seed in range(20):
        values = errors(seed, (rate,), 5_000) + errors(seed + 1000, (3 * rate,), 3_000)
        delays += [place - 5_000 for place, _, _ in Fed("cusum", {}).update(values)[:1]]
    assert len(delays) == 20
    assert 0 < sorted(delays)[10] < 1_000


def test_one_outlier_is_no_change_for_cusum() -> None:
    values = numbers(3, (0.0,), 2_000)
    values[1_000] = 1e9
    assert Fed("cusum", {"direction": "both"}).update(values) == []


def test_kswins_p_values_are_scipys() -> None:
    for n in (1, 2, 7, 30, 100):
        for apart in range(1, n + 1):
            x, y = np.arange(float(n)), np.arange(float(n)) + apart - 0.5
            if kswin.p_value(n, apart) < 0.99:  # scipy takes 1 and a little for an error
                expected = stats.ks_2samp(x, y)
                assert round(expected.statistic * n) == apart
                assert kswin.p_value(n, apart) == pytest.approx(expected.pvalue, rel=1e-12)


def test_kswin_samples_all_older_values_alike() -> None:
    fed = Fed("kswin", {"window_size": 20, "stat_size": 5})
    fed.table.n[0], fed.table.seed[0] = 40, 987_654_321
    counts, weights = np.zeros(20), np.zeros(20, np.int64)
    for _ in range(3_000):
        from_python(kswin._draw)(fed.table, fed.settings, 0, np.zeros(15, np.int64), weights)
        assert (weights[15:] == 1).all()
        assert (weights == -1).sum() == 5
        counts += weights == -1
    assert not counts[15:].any()
    # Each is drawn with probability 1/3: 1,000 times, give or take 26.
    assert abs(counts[:15] - 1_000).max() < 110


# ---- all of them

#: Parameters with which they raise some alarms in `signal`.
SENSITIVE: dict[str, Params] = {
    "page-hinkley": {"lambda": 5.0}, "cusum": {"h": 10.0, "direction": "both"},
    "harm": {"bound": 0.25, "level": 0.2, "restart": 100},
}  # fmt: skip


def signal(name: str, seed: int, length: int) -> Floats:
    """What a detector is made for, with changes."""
    each = length // 5
    if DETECTORS[name].binary or seed % 2:
        return np.array(errors(seed, (0.1, 0.6, 0.3, 0.9, 0.05), each))
    return np.array(numbers(seed, (0, 2, 0, 5, -1), each))


@pytest.mark.parametrize("name", DETECTORS)
@pytest.mark.parametrize("seed", range(2))
def test_no_cut_growth_or_copy_changes_a_bit(name: str, seed: int) -> None:
    """Several sequences, one among the other, in calls of any length, from copies of the tables."""
    detector = DETECTORS[name]
    few = SENSITIVE.get(name, {})
    configured = detector.configured(few)
    sequences, length = 3, 6_000
    some = np.random.default_rng(seed)
    log = new_log(length)
    log.sequence[:] = some.integers(0, sequences, length)
    values, fed = signal(name, seed, length), (some.random(length) < 0.9).astype(np.uint8)
    lives = []
    for vectors in ([], sorted(some.integers(0, length, 30).tolist())):
        table: Any = detector.new_table(sequences, configured)
        found = []
        for start, stop in zip([0, *vectors], [*vectors, length]):
            rows = np.arange(start, stop, dtype=np.int32)
            alarms = new_alarms(max(1, len(rows)))
            detector.run(table, configured, log, rows, values[start:stop], fed[start:stop], 3, alarms)
            found += [(row, statistic) for row, _, statistic, _ in raised(alarms, rows)]
            if vectors:
                table = grown(of_rows(table, np.arange(sequences)), min(40, len(table[0]) + 1))
        lives.append((found, [column[:sequences].tobytes() for column in table]))
        assert table.alarms[:sequences].sum() == len(found)
    assert lives[0] == lives[1]
    assert len(lives[0][0]) >= 3
    for q in range(sequences):  # each by itself
        own = np.flatnonzero((log.sequence == q) & (fed == 1))
        alone = Fed(name, few)
        expected = [(int(own[place]), statistic) for place, statistic, _ in alone.update(values[own])]
        assert [one for one in lives[0][0] if log.sequence[one[0]] == q] == expected


@pytest.mark.parametrize("name", [name for name in DETECTORS if name != "harm"])
def test_nothing_is_left_after_an_alarm(name: str) -> None:
    """What follows it is as if the sequence began there."""
    few = SENSITIVE.get(name, {})
    values = signal(name, 1, 6_000)
    found = Fed(name, few).update(values)
    first = found[0][0]
    rest = Fed(name, few).update(values[first + 1 :])
    assert [(first + 1 + place, *more) for place, *more in rest] == found[1:]


@pytest.mark.parametrize("name", DETECTORS)
def test_extreme_values_leave_numbers_behind(name: str) -> None:
    far = [1e200, -1e200, 4e200, 0.0, 5e-324, 1e-300, -0.0, 1.0, 1e100]
    some = random.Random(3)
    values = [some.choice([0.0, 1.0] if DETECTORS[name].binary else far) for _ in range(3_000)]
    fed = Fed(name, {})
    found = fed.update(values)
    assert np.isfinite([number for _, *more in found for number in more]).all()
    for column in fed.table:
        assert np.isfinite(column).all()


@pytest.mark.parametrize("name", DETECTORS)
def test_a_row_of_zeros_is_a_sequence_that_has_not_begun(name: str) -> None:
    """So rows that are free again, and new ones, need nothing else."""
    detector = DETECTORS[name]
    table = detector.new_table(2, detector.configured({}))
    assert all(not column.any() for column in table)
    assert table.alarms.shape == (2,)
