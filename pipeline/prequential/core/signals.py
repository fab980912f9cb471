"""What a detector watches: a value per outcome of a sequence (contract, section 4).

A signal is fed the chunk's losses (0 or 1, or those of numbers) and gives the values that go to the
detector, with the outcomes' places in the chunk where some outcomes give none.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from prequential.core.arrays import Floats, Ints
from prequential.core.fading import FadingCount, FadingSum
from prequential.core.measures import AUC, MEASURES, OF_NUMBERS, OF_PROBABILITIES, OF_WEIGHTS, MeasureSet
from prequential.core.memories import build_memory
from prequential.core.outcomes import Chunk
from prequential.core.scores import Scores
from prequential.core.sums import build_sums

#: A ratio beyond it is taken for this: detectors add values up.
_LARGEST = 1e200

#: Measures of which less is better: these are signals as they are.
_LOSSES = frozenset(("error", "kappa_se", "log_loss", "brier", "ece", "mae", "mse", "rmse"))


class Signal(Protocol):
    """Values of a chunk's outcomes; `places` None means one value for each outcome."""

    def update(self, chunk: Chunk) -> tuple[Floats, Ints | None]: ...
    def snapshot(self) -> object: ...
    def restore(self, state: Any) -> None: ...


class OwnError:
    """`error`: the outcome's own loss."""

    def update(self, chunk: Chunk) -> tuple[Floats, Ints | None]:
        return chunk.loss.astype(np.float64), None

    def snapshot(self) -> object:
        return None

    def restore(self, state: Any) -> None:
        pass


class AllError:
    """`all`: the error over the whole history after each outcome."""

    def __init__(self) -> None:
        self._total: float = 0
        self._n = 0

    def update(self, chunk: Chunk) -> tuple[Floats, Ints | None]:
        # One after the other, from the carried total on: integers stay integers.
        total = np.cumsum(np.concatenate(([self._total], chunk.loss)))[1:]
        n = self._n + np.arange(1, len(total) + 1)
        self._total, self._n = total[-1].item(), int(n[-1])
        return total / n, None

    def snapshot(self) -> object:
        return [self._total, self._n]

    def restore(self, state: Any) -> None:
        self._total, self._n = state


class WindowError:
    """`window:W`: the error over the last W outcomes after each outcome."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._last: npt.NDArray[Any] = np.zeros(0, dtype=np.bool_)  # the window's losses, oldest first

    def update(self, chunk: Chunk) -> tuple[Floats, Ints | None]:
        if not len(self._last):
            self._last = self._last.astype(chunk.loss.dtype)
        losses = np.concatenate((self._last, chunk.loss))
        ends = np.arange(len(self._last) + 1, len(losses) + 1)
        starts = np.maximum(0, ends - self.size)
        self._last = losses[-self.size :]
        if losses.dtype == np.bool_:
            sums = np.concatenate(([0], np.cumsum(losses)))
            return (sums[ends] - sums[starts]) / (ends - starts), None
        # Differences of sums of fractions would drift; `fsum` is correctly rounded.
        values = losses.tolist()
        windows = zip(starts.tolist(), ends.tolist())
        totals = np.array([math.fsum(values[start:end]) for start, end in windows])
        return totals / (ends - starts), None

    def snapshot(self) -> object:
        bits = self._last.dtype == np.bool_
        packed = np.packbits(self._last) if bits else self._last
        return [len(self._last), packed.tobytes(), bits]

    def restore(self, state: Any) -> None:
        length, packed, bits = state
        if bits:
            unpacked = np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=length)
            self._last = unpacked.astype(np.bool_)
        else:
            self._last = np.frombuffer(packed)


class FadingError:
    """`fading:A`: the faded error S/N after each outcome (2013 paper, eq. 1)."""

    def __init__(self, factor: float) -> None:
        self._loss = FadingSum(factor)
        self._n = FadingCount(factor)

    def update(self, chunk: Chunk) -> tuple[Floats, Ints | None]:
        return self._loss.update(chunk.loss) / self._n.update(len(chunk.loss)), None

    def snapshot(self) -> object:
        return [self._loss.snapshot(), self._n.snapshot()]

    def restore(self, state: Any) -> None:
        self._loss.restore(state[0])
        self._n.restore(state[1])


class Ratio:
    """`SHORT/LONG`: short-term over long-term error (2013 paper, section 5.3, Algorithm 4).

    Fed once the long-term error is above 0 and `min_outcomes` outcomes have been seen.
    """

    def __init__(self, short: Signal, long: Signal, min_outcomes: int) -> None:
        self._short = short
        self._long = long
        self._min_outcomes = min_outcomes
        self._seen = 0

    def update(self, chunk: Chunk) -> tuple[Floats, Ints | None]:
        short, _ = self._short.update(chunk)
        long, _ = self._long.update(chunk)
        outcome = self._seen + np.arange(1, len(long) + 1)
        self._seen += len(long)
        places = np.flatnonzero((long > 0) & (outcome >= self._min_outcomes))
        with np.errstate(over="ignore"):
            return np.minimum(short[places] / long[places], _LARGEST), places

    def snapshot(self) -> object:
        return [self._seen, self._short.snapshot(), self._long.snapshot()]

    def restore(self, state: Any) -> None:
        self._seen, short, long = state
        self._short.restore(short)
        self._long.restore(long)


class MeasureSignal:
    """`ESTIMATOR:MEASURE`: what grows when the model gets worse; outcomes without a value are skipped.

    That is 1 - measure, where less is better the measure itself, and of `bias` its size.

    A measure is not a running sum, so this one works outcome by outcome: some 20 µs each.
    """

    def __init__(self, estimator: str, measure: str, measures: MeasureSet) -> None:
        self._memory = build_memory(estimator)
        self._measure = measure
        self._measures = measures._replace(names=(measure,))
        needs_sums = measure in (*OF_PROBABILITIES, *OF_WEIGHTS, AUC, *OF_NUMBERS)
        self._sums = build_sums(estimator, numbers=measures.regression) if needs_sums else None

    def update(self, chunk: Chunk) -> tuple[Floats, Ints | None]:
        memory, sums = self._memory, self._sums
        if chunk.capacity > memory.capacity:
            memory.grow(chunk.capacity)
        scores = chunk.scores or Scores.of(len(chunk.places), {})
        values, places = [], []
        for i in range(len(chunk.places)):
            memory.update(chunk.places[i : i + 1])
            if sums is not None:
                sums.update(scores.between(i, i + 1))
            measured, _ = self._measures.of(memory, sums)
            if measured:
                values.append(_worse(self._measure, measured[self._measure]))
                places.append(i)
        return np.array(values), np.array(places, dtype=np.int64)

    def snapshot(self) -> object:
        return [self._memory.snapshot(), self._sums and self._sums.snapshot()]

    def restore(self, state: Any) -> None:
        self._memory.restore(state[0])
        if self._sums is not None:
            self._sums.restore(state[1])


def _worse(measure: str, value: float) -> float:
    """A measure's value, turned so that it grows when the model gets worse.

    >>> _worse("kappa", 0.75), _worse("log_loss", 0.75), _worse("bias", -0.75)
    (0.25, 0.75, 0.75)
    """
    if measure == "bias":
        return abs(value)
    return value if measure in _LOSSES else 1.0 - value


def build_signal(
    name: str, min_outcomes: int = 30, measures: MeasureSet | None = None
) -> Signal:
    """The signal of a name; raises ValueError quoting it.

    >>> build_signal("kappa")
    Traceback (most recent call last):
    ...
    ValueError: signal 'kappa': expected error, an estimator, SHORT/LONG or ESTIMATOR:MEASURE
    """
    if name == "error":
        return OwnError()
    if name.count("/") == 1:
        short, long = name.split("/")
        return Ratio(_estimator_error(short), _estimator_error(long), min_outcomes)
    estimator, _, measure = name.rpartition(":")
    if estimator and measure in MEASURES:
        build_memory(estimator)  # raises, quoting the estimator
        return MeasureSignal(estimator, measure, measures or MeasureSet(()))
    try:
        return _estimator_error(name)
    except ValueError:
        raise ValueError(
            f"signal {name!r}: expected error, an estimator, SHORT/LONG or ESTIMATOR:MEASURE"
        ) from None


def _estimator_error(estimator: str) -> Signal:
    build_memory(estimator)  # raises, quoting the estimator
    kind, _, parameter = estimator.partition(":")
    if kind == "all":
        return AllError()
    return WindowError(int(parameter)) if kind == "window" else FadingError(float(parameter))
