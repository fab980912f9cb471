"""The alarm rate of a detector on streams like a past one, as a function of its threshold.

In a stream without a change, rare alarms form a Poisson process. Rates that are high enough are counted on
generated streams, and lower ones are extrapolated:

- Page-Hinkley and CUSUM on the outcomes' own losses detect the excursions of a random walk that drifts
  downwards. There are C·(e^w - 1 - w) outcomes between alarms, with w = κ·threshold (Siegmund, Sequential
  Analysis, 1985, chapter 2). `excursions` computes κ from sums of values.
- For Page-Hinkley on the default ratio there is a table by c, the relative spread of sums of errors.
- For ADWIN on the outcomes' own losses, whose threshold is a significance δ, theory gives the rate
(`excursions`),
  up to a factor that is found by counting.
- For other detectors and signals, ln(rate) is assumed to be linear in the threshold, or in ln δ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.configuration.settings.streams import DetectorConfig
from prequential.engine.catalog.plans import Plan
from prequential.engine.compiled.kernel import Floats, Ints, as_columns
from prequential.engine.detectors import DETECTORS
from prequential.engine.detectors.adwin import AdwinParameters
from prequential.engine.detectors.budgets import RATIO, SPREADS, ratio_log
from prequential.engine.detectors.declaration import MIN_OUTCOMES, Parameter
from prequential.engine.detectors.watch import Signal, WatchedRows, kind_of
from prequential.engine.estimators.naming import parse_signal
from prequential.engine.measures.losses import ERROR, own_column
from prequential.engine.measures.registry import extends_scores
from prequential.engine.tables.outcomes import Log, new_log
from prequential.offline.backtesting import sequences
from prequential.offline.calibration.excursions import STEP, StepSums, cuts_of, kappa_of, long_run_variance
from prequential.offline.calibration.pasts import contexts, far, matched_blocks
from prequential.topics.errors import existing

#: Streams that are generated from each past one. Each of them starts from another resampled past, so the
#: streams differ as much as pasts of this length do.
REPLICATES = 10

#: Outcomes that are evaluated at once: their logs and alarms take about 10 MB.
_CHUNK = 1 << 14

#: Outcomes of the first pass, which finds the range of thresholds.
_LOOK = 1 << 19

#: Alarms are counted at this many thresholds, each with half the alarms of the one before. The last one has
#: the rate asked for, or at least this many alarms in all: the curve is then known to a tenth.
_POINTS, _LEAST_ALARMS = 6, 40

#: How many of the thresholds with the rarest alarms are used to fit the level of excursions, where κ is
#: known; and how many to fit the level of cuts, or a line.
_OF_LEVEL, _NEAREST = 2, 4

#: The least number of blocks from which a past is resampled. If the dependence is longer than neighbouring
#: losses suggest: the least number of blocks, and the length of a block as a multiple of the reach.
_LEAST_DRAWN, _LEAST_FAR, _REACHES = 8, 4, 16

#: The variance that is estimated from K blocks is increased by this number divided by K.
_EXTRA = 6.0

#: Standard deviation of the error of ln(rate) where it is extrapolated, since the laws are approximate. The
#: second value is for dependence that is longer than neighbouring losses suggest, which the laws don't cover
#: (`tests/evidence/calibration.py`).
_OFF, _FAR = 0.4, 3.0

#: The least number of alarms from which a rate is estimated.
_FEW = 5

#: Thresholds of the first pass: the configured one times these factors; for significances, these powers of
#: 1/e.
_TIMES = [2.0**power for power in range(-9, 8)]
_POWERS = [0.05 * 2.0**power for power in range(14)]


#: The most Newton steps; about 5 are enough.
_STEPS = 100

#: Below the first, e^w - 1 - w is w²/2, and above the second it is e^w, to several digits.
_SMALL, _LARGE = 1e-4, 40.0

#: (2, 2)
Matrix = npt.NDArray[np.float64]
_NONE: Matrix = np.zeros((2, 2))


#: g(κ, u), and its derivative by κ.
Form = Callable[[float, float], tuple[float, float]]


class ThresholdRates(NamedTuple):
    """A threshold, in units in which rates fall exponentially, and its alarms by replicate, (replicates,)."""

    u: float
    alarms: Ints


class Curve(NamedTuple):
    """Alarms of one detector on one sequence: ln(alarms per outcome) = level - g(κ, u)."""

    #: g: `line`, `excursions` or `table`; for cuts, κ times the rarity (`Cuts.form`).
    form: Form
    level: float
    kappa: float
    #: Covariances of level and κ: from chance in the generated streams alone; and from both this chance and
    #: the past, which is how much streams from different resampled pasts differ.
    counted: Matrix
    variance: Matrix
    #: Outcomes that were generated, and the points.
    outcomes: int
    points: list[ThresholdRates]

    def rate(self, u: float) -> float:
        """Return the alarms per outcome."""
        return math.exp(min(self.level - self.form(self.kappa, u)[0], 0.0))

    def u_at(self, rate: float) -> float:
        """Return the u at which alarms have this rate."""
        wanted = self.level - math.log(rate)
        low, high = 0.0, 1.0
        while self.form(self.kappa, high)[0] < wanted:
            high *= 2.0
        for _ in range(100):
            middle = 0.5 * (low + high)
            if self.form(self.kappa, middle)[0] < wanted:
                low = middle
            else:
                high = middle
        return high

    def spread(self, u: float) -> float:
        """Return the standard deviation of ln(rate)."""
        x = np.array([1.0, -self.form(self.kappa, u)[1]])
        return math.sqrt(max(float(x @ self.variance @ x), float(x @ self.counted @ x)))


def line(kappa: float, u: float) -> tuple[float, float]:
    """Return κ·u, and its derivative by κ."""
    return kappa * u, u


def table(kappa: float, u: float) -> tuple[float, float]:
    """Return g from the table of Page-Hinkley on the default ratio, and its derivative by κ; κ is c."""
    above = (1.0 + _SMALL) * kappa
    whole = ratio_log(kappa, u)
    return whole, (ratio_log(above, u) - whole) / (above - kappa)


def excursions(kappa: float, u: float) -> tuple[float, float]:
    """Return ln(e^w - 1 - w) with w = κ·u, and its derivative by κ.

    >>> excursions(2.0, 3.0)[0] == math.log(math.expm1(6.0) - 6.0)
    True
    """
    w = kappa * u
    if w < _SMALL:
        return (math.log(0.5 * w * w) if w > 0.0 else -math.inf), 2.0 / kappa
    if w > _LARGE:
        return w, u
    whole = math.expm1(w) - w
    return math.log(whole), u * math.expm1(w) / whole


def scale_of(parameter: Parameter, value: float) -> float:
    """Return the u of a threshold: the threshold itself, or -ln of a significance."""
    return value if parameter.rarer > 0 else -math.log(value)


def value_of(parameter: Parameter, u: float) -> float:
    """Return the threshold of u with four digits, rounded towards fewer alarms."""
    value = u if parameter.rarer > 0 else math.exp(-u)
    digits = 3 - math.floor(math.log10(value))
    scaled = value * 10.0**digits
    whole = math.ceil(scaled - 1e-6) if parameter.rarer > 0 else math.floor(scaled + 1e-6)
    return float(f"{whole}e{-digits}")


def with_threshold(detector: DetectorConfig, u: float) -> DetectorConfig:
    """Return the detector with another threshold."""
    threshold = threshold_of(detector)
    parameters = {**detector.params, threshold.name: value_of(threshold, u)}
    return replace(detector, params=DETECTORS[detector.detector].changed(parameters), fixed=True)


class GeneratedStreams:
    """Generates streams like a past one."""

    def __init__(self, past: sequences.PastSequence, seed: int) -> None:
        self._past = past
        names = past.stream, past.partition, past.model, past.segment, past.stage
        self._random = sequences.generator(seed, *names)
        self._block, self._reach = sequences.block_length(past.loss), far(past.loss)
        if self._reach:
            self._block = min(_REACHES * self._reach, len(past) // _LEAST_FAR)
        n = len(past)
        self._long = min(max(self._block, n // _LEAST_DRAWN), 8 * self._block)
        self._context = contexts(past.loss, reach=self._reach)

    def unsure(self, curve: Curve, extrapolated: bool) -> Curve:
        """Return the curve with its variance increased for few blocks and for extrapolation."""
        variance = (1.0 + _EXTRA * self._long / len(self._past)) * curve.variance
        if extrapolated:
            variance = variance + np.diag([(_FAR if self._reach else _OFF) ** 2, 0.0])
        return curve._replace(variance=variance)

    def indices(self, length: int) -> Ints:
        """Return a stream's outcomes as indices in the past, (length,).

        The method first resamples the past, and then draws a stream from the resampled past.
        """
        n = len(self._past)
        # Long blocks preserve how much the number of rare events varies from past to past.
        drawn = matched_blocks(self._random, self._context, n, self._long)
        context = contexts(self._past.loss[drawn], reach=self._reach)
        return drawn[matched_blocks(self._random, context, length, self._block)]

    def count(self, detectors: Sequence[DetectorConfig], length: int) -> Ints:
        """Return the alarms by detector on a stream of this length, (detectors,)."""
        past = self._past
        config = replace(past.config, estimators=(), details=(), detectors=tuple(detectors), objective=None)
        plan = Plan(0, config, (past.stage,), True, max(2, len(past.classes)))
        plan.take(0, 0, past.stream, past.model, past.segment)
        counts = np.zeros(len(detectors), np.int64)
        losses_alone = not any(parse_signal(detector.signal).measure for detector in detectors)
        for log in self._logs(length, losses_alone):
            raised = plan.consume(log, np.arange(len(log.number), dtype=np.int32), past.positives)
            counts += np.bincount(raised.detector[: int(raised.raised[0])], minlength=len(counts))
        return counts

    def walk(self, detector: DetectorConfig, length: int) -> StepSums:
        """Return sums of the values that a detector watches, on a stream of this length."""
        past = self._past
        loss = own_column(past.config)
        capacity = max(2, len(past.classes))
        signal = Signal(
            detector.signal, MIN_OUTCOMES, 1, capacity, loss, past.config.cost_per_value,
            extends_scores(past.config),
        )  # fmt: skip
        parts = []
        for log in self._logs(length):
            rows = np.arange(len(log.number), dtype=np.int32)
            extended = extends_scores(past.config)
            values, fed = signal.update(
                WatchedRows(log, rows, capacity, loss, past.positives, extended=extended)
            )
            parts.append(values[fed > 0])
        values = np.concatenate(parts)
        whole = values[: len(values) // STEP * STEP].reshape(-1, STEP).sum(axis=1)
        return StepSums(whole, float(values.std()) if len(values) else 0.0)

    def _logs(self, length: int, losses_alone: bool = False) -> Iterator[Log]:
        """Yield the outcome rows of a stream of this length, part by part."""
        indices, since = self.indices(length), 0
        for start in range(0, length, _CHUNK):
            chunk = indices[start : start + _CHUNK]
            if losses_alone:
                log = self._losses(chunk, since)
            else:
                log = sequences.log_of(self._past, sequences.ResampledRun(chunk, None), since)
            since = int(log.t1[-1])
            yield log

    def _losses(self, indices: Ints, since: int) -> Log:
        """Return outcome rows that contain only label times and the inputs of losses (see `log_of`)."""
        log, columns = new_log(len(indices)), as_columns(Log, self._past.rows)
        log.label[:], log.prediction[:] = columns.label[indices], columns.prediction[indices]
        log.error[:] = columns.error[indices]
        log.t1[:] = since + np.cumsum(self._past.gaps[indices])
        return log


def curves(
    past: sequences.PastSequence,
    detectors: Sequence[DetectorConfig],
    longest: float,
    outcomes: int,
    seed: int,
) -> list[Curve | None]:
    """Return the curve of each detector; None if it hardly ever alarms, whatever its threshold.

    `longest` is the largest number of outcomes between alarms that is asked for. `outcomes` is the number of
    outcomes to generate. All detectors must have a threshold.
    """
    streams = GeneratedStreams(past, seed)
    most = min(longest, counted_of(outcomes))
    grids = _grids(streams, detectors, most)
    each = outcomes // REPLICATES
    results: list[Curve | None] = []
    for detector, points in zip(detectors, _counted(streams, detectors, grids, outcomes)):
        says = parse_signal(detector.signal)
        # The sums of values of single outcomes form a random walk. The values of an estimator don't: they
        # change more slowly than excursions do.
        of_losses = not says.errors and not says.estimator
        walks_at_random = of_losses and DETECTORS[detector.detector].drift
        curve = None
        if longest > most and points and kind_of(detector, ERROR) == RATIO and not past.numbers:
            walks = [streams.walk(DetectorConfig(), each) for _ in range(REPLICATES)]
            curve = _of_table(points, walks, past.loss, each)
        elif longest > most and points and walks_at_random:
            walks = [streams.walk(detector, each) for _ in range(REPLICATES)]
            curve = _of_excursions(detector, points, walks, each)
        elif longest > most and points and detector.detector == "adwin" and of_losses:
            walks = [streams.walk(detector, each) for _ in range(REPLICATES)]
            curve = _of_cuts(detector, points, walks, each, longest)
        curve = curve or of_line(points, each * REPLICATES)
        results.append(None if curve is None else streams.unsure(curve, longest > most))
    return results


def counted_of(outcomes: int) -> float:
    """Return the most outcomes between alarms at which the rate is still counted, by outcomes generated."""
    return outcomes / _LEAST_ALARMS


def _grids(
    streams: GeneratedStreams, detectors: Sequence[DetectorConfig], longest: float
) -> list[list[float]]:
    """Return thresholds for each detector, up to the one with `longest` outcomes between alarms.

    A first pass counts alarms at thresholds that are far apart. Between them, ln(rate) is interpolated
    linearly. A detector without alarms gets no thresholds.
    """
    looks = []
    for detector in detectors:
        parameter = threshold_of(detector)
        value = float(DETECTORS[detector.detector].complete(detector.params)[parameter.name])
        looks.append([value * times for times in _TIMES] if parameter.rarer > 0 else _POWERS)
    with_thresholds = [with_threshold(detector, u) for detector, look in zip(detectors, looks) for u in look]
    counts = iter(streams.count(with_thresholds, _LOOK).tolist())
    return [_halving(look, [next(counts) for _ in look], longest) for look in looks]


def _halving(look: Sequence[float], counts: Sequence[int], longest: float) -> list[float]:
    """Return thresholds, each with about half the alarms of the one before.

    At the last threshold, there are `longest` outcomes between alarms.
    """
    with_alarms = [(u, count) for u, count in zip(look, counts) if count >= _FEW]
    if len(with_alarms) < 2:
        return []
    logs = [math.log(count / _LOOK) for _, count in with_alarms]
    falling = list(np.minimum.accumulate(logs) - 1e-9 * np.arange(len(logs)))
    (before, _), (last, _) = with_alarms[-2:]
    slope = max(falling[-2] - falling[-1], 1e-3) / (last - before)
    thresholds = []
    for halvings in reversed(range(_POINTS)):
        wanted = math.log(2.0**halvings / longest)
        if wanted < falling[-1]:
            thresholds.append(last + (falling[-1] - wanted) / slope)
        elif wanted <= falling[0]:
            thresholds.append(
                float(np.interp(-wanted, [-log_rate for log_rate in falling], [u for u, _ in with_alarms]))
            )
        else:  # more alarms than at the lowest threshold of the first pass
            thresholds.append(with_alarms[0][0] * 0.5 ** (halvings + 1))
    return thresholds


def _counted(
    streams: GeneratedStreams, detectors: Sequence[DetectorConfig], grids: Sequence[Sequence[float]],
    outcomes: int,
) -> list[list[ThresholdRates]]:  # fmt: skip
    """Count alarms at each detector's thresholds, all on the same streams, and return them as points."""
    with_thresholds = [with_threshold(detector, u) for detector, grid in zip(detectors, grids) for u in grid]
    if not with_thresholds:
        return [[] for _ in grids]
    each = outcomes // REPLICATES
    counts = iter(np.array([streams.count(with_thresholds, each) for _ in range(REPLICATES)]).T)
    return [[ThresholdRates(u, next(counts)) for u in grid] for grid in grids]


def threshold_of(detector: DetectorConfig) -> Parameter:
    """Return the parameter that sets how rare alarms are; the detector must have one."""
    return existing(DETECTORS[detector.detector].threshold, f"the threshold of {detector.detector}")


def of_line(points: Sequence[ThresholdRates], outcomes: int) -> Curve | None:
    """Fit a line through the rarest points that have alarms; None if the rate does not fall."""
    usable = [point for point in points if point.alarms.sum() >= _FEW][-_NEAREST:]
    if len(usable) < 2 or usable[0].alarms.sum() <= usable[-1].alarms.sum():
        return None
    level, kappa, counted, variance = _fit(usable, outcomes)
    return Curve(line, level, kappa, counted, variance, outcomes, list(points))


def _of_table(
    points: Sequence[ThresholdRates], walks: Sequence[StepSums], losses: Floats, each: int
) -> Curve | None:
    """Return the table's curve for the spread of sums of losses over their mean; None outside the table."""
    spreads = [math.sqrt(long_run_variance(walk.sums)) / float(losses.mean()) for walk in walks]
    spread = float(np.mean(spreads))
    if not points or not SPREADS[0] <= spread <= SPREADS[-1]:
        return None
    variance = np.diag([0.0, float(np.var(spreads, ddof=1))])
    return Curve(table, 0.0, spread, variance / len(walks), variance, each * len(walks), list(points))


def _of_excursions(
    detector: DetectorConfig, points: Sequence[ThresholdRates], walks: Sequence[StepSums], each: int
) -> Curve | None:
    """Return a curve with the κ of the walks, fitted to the rarest points with alarms, if any."""
    usable = [point for point in points if point.alarms.sum() >= _FEW][-_OF_LEVEL:]
    if not usable:
        return None
    kappas = np.array([kappa_of(detector, walk) for walk in (_together(walks), *walks)])
    kappas = np.maximum(kappas, _SMALL / usable[-1].u / 10.0)
    levels = _levels(usable, [partial(excursions, kappa) for kappa in kappas.tolist()], each)
    variance = np.cov(np.array(levels[1:]), kappas[1:])
    counted, generated = variance / len(walks), each * len(walks)
    return Curve(excursions, levels[0], float(kappas[0]), counted, variance, generated, list(points))


def _of_cuts(
    detector: DetectorConfig, points: Sequence[ThresholdRates], walks: Sequence[StepSums], each: int,
    longest: float,
) -> Curve | None:  # fmt: skip
    """Return a curve with the rarity of cuts in the walks, fitted to the rarest points with alarms. κ is 1.

    For the variance, the κ of a walk is its rarity divided by that of all walks, at the threshold asked for.
    """
    usable = [point for point in points if point.alarms.sum() >= _FEW][-_NEAREST:]
    settings = AdwinParameters(*DETECTORS[detector.detector].configured(detector.params))
    cuts_of_walks = [cuts_of(settings, walk) for walk in (_together(walks), *walks)]
    present = [cuts for cuts in cuts_of_walks if cuts is not None]
    if not usable or len(present) <= len(walks):
        return None

    levels = _levels(usable, [partial(cuts.form, 1.0) for cuts in present], each)
    u = Curve(present[0].form, levels[0], 1.0, _NONE, _NONE, each, []).u_at(1.0 / longest)
    rarities = np.array([cuts.rarity(u) for cuts in present])
    variance = np.cov(np.array(levels[1:]), rarities[1:] / rarities[0])
    counted, generated = variance / len(walks), each * len(walks)
    return Curve(present[0].form, levels[0], 1.0, counted, variance, generated, list(points))


def _together(walks: Sequence[StepSums]) -> StepSums:
    """Join the walks of replicates into one."""
    return StepSums(
        np.concatenate([walk.sums for walk in walks]), float(np.mean([walk.spread for walk in walks]))
    )


def _levels(
    usable: Sequence[ThresholdRates], forms: Sequence[Callable[[float], tuple[float, float]]], each: int
) -> list[float]:
    """Return the levels that fit the alarms at these points: for all replicates together, then for each."""
    counts = np.array([point.alarms for point in usable], dtype=np.float64)  # (points, replicates)
    replicates = counts.shape[1]
    levels = []
    for form, alarms, outcomes in zip(
        forms, (counts.sum(), *counts.sum(axis=0)), (each * replicates, *[each] * replicates)
    ):
        expected = outcomes * sum(math.exp(-form(point.u)[0]) for point in usable)
        levels.append(math.log(max(float(alarms), 0.5) / expected))
    return levels


def _fit(points: Sequence[ThresholdRates], outcomes: int) -> tuple[float, float, Matrix, Matrix]:
    """Poisson regression of counts by Newton's method: level and κ of a line, and their variances."""
    u = np.array([point.u for point in points])
    counts = np.array([point.alarms for point in points], dtype=np.float64)  # (points, replicates)
    total, replicates = counts.sum(axis=1), counts.shape[1]
    x = np.stack([np.ones(len(u)), -u], axis=1)
    beta = np.polyfit(-u, np.log(total / outcomes), 1)[::-1]
    for _ in range(_STEPS):
        mean = outcomes * np.exp(x @ beta)
        inverse = np.linalg.pinv((x.T * mean) @ x)
        change = inverse @ (x.T @ (total - mean))
        beta = beta + change
        if np.abs(change * np.array([1.0, u.max()])).max() < 1e-9:
            break
    scores = x.T @ (counts - mean[:, None] / replicates)
    # The sandwich estimate is the variance of the sum of all replicates. One replicate has `replicates` times
    # that variance. Averaging reduces only the part from counting: the part from the past stays, as there is
    # one past.
    variance = replicates * (inverse @ (scores @ scores.T) @ inverse) - (replicates - 1) * inverse
    return float(beta[0]), float(beta[1]), inverse, variance
