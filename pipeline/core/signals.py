"""What a detector watches: a value per outcome of a sequence (contract, section 4).

A signal is fed the chunk's errors (0 or 1) and gives the values that go to the detector, with the
outcomes' places in the chunk where some outcomes give none.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pipeline.core.fading import FadingCount, FadingSum
from pipeline.core.measures import MEASURES, compute
from pipeline.core.memories import build_memory
from pipeline.core.outcomes import Chunk, Floats, Ints


class Signal(Protocol):
    """Values of a chunk's outcomes; `places` None means one value for each outcome."""

    def update(self, chunk: Chunk) -> tuple[Floats, Ints | None]: ...
    def snapshot(self) -> object: ...
    def restore(self, state: Any) -> None: ...


class OwnError:
    """`error`: the outcome's own loss."""

    def update(self, chunk: Chunk) -> tuple[Floats, Ints | None]:
        return chunk.wrong.astype(np.float64), None

    def snapshot(self) -> object:
        return None

    def restore(self, state: Any) -> None:
        pass


class AllError:
    """`all`: the error over the whole history after each outcome."""

    def __init__(self) -> None:
        self._wrong = 0
        self._n = 0

    def update(self, chunk: Chunk) -> tuple[Floats, Ints | None]:
        wrong = self._wrong + np.cumsum(chunk.wrong)
        n = self._n + np.arange(1, len(wrong) + 1)
        self._wrong, self._n = int(wrong[-1]), int(n[-1])
        return wrong / n, None

    def snapshot(self) -> object:
        return [self._wrong, self._n]

    def restore(self, state: Any) -> None:
        self._wrong, self._n = state


class WindowError:
    """`window:W`: the error over the last W outcomes after each outcome."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._last = np.zeros(0, dtype=np.bool_)  # the window's errors, oldest first

    def update(self, chunk: Chunk) -> tuple[Floats, Ints | None]:
        errors = np.concatenate((self._last, chunk.wrong))
        sums = np.concatenate(([0], np.cumsum(errors)))
        ends = np.arange(len(self._last) + 1, len(errors) + 1)
        starts = np.maximum(0, ends - self.size)
        self._last = errors[-self.size :]
        return (sums[ends] - sums[starts]) / (ends - starts), None

    def snapshot(self) -> object:
        return [len(self._last), np.packbits(self._last).tobytes()]

    def restore(self, state: Any) -> None:
        length, packed = state
        bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=length)
        self._last = bits.astype(np.bool_)


class FadingError:
    """`fading:A`: the faded error S/N after each outcome (2013 paper, eq. 1)."""

    def __init__(self, factor: float) -> None:
        self._wrong = FadingSum(factor)
        self._n = FadingCount(factor)

    def update(self, chunk: Chunk) -> tuple[Floats, Ints | None]:
        return self._wrong.update(chunk.wrong) / self._n.update(len(chunk.wrong)), None

    def snapshot(self) -> object:
        return [self._wrong.snapshot(), self._n.snapshot()]

    def restore(self, state: Any) -> None:
        self._wrong.restore(state[0])
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
        return short[places] / long[places], places

    def snapshot(self) -> object:
        return [self._seen, self._short.snapshot(), self._long.snapshot()]

    def restore(self, state: Any) -> None:
        self._seen, short, long = state
        self._short.restore(short)
        self._long.restore(long)


class MeasureSignal:
    """`ESTIMATOR:MEASURE`: 1 - measure after each outcome; outcomes where it has no value are skipped.

    A measure is not a running sum, so this one works outcome by outcome: some 20 µs each.
    """

    def __init__(self, estimator: str, measure: str) -> None:
        self._memory = build_memory(estimator)
        self._measure = [measure]

    def update(self, chunk: Chunk) -> tuple[Floats, Ints | None]:
        memory = self._memory
        if chunk.capacity > memory.capacity:
            memory.grow(chunk.capacity)
        values, places = [], []
        for i in range(len(chunk.places)):
            memory.update(chunk.places[i : i + 1])
            measured, _ = compute(memory, self._measure)
            if measured:
                values.append(1.0 - measured[self._measure[0]])
                places.append(i)
        return np.array(values), np.array(places, dtype=np.int64)

    def snapshot(self) -> object:
        return self._memory.snapshot()

    def restore(self, state: Any) -> None:
        self._memory.restore(state)


def build_signal(name: str, min_outcomes: int = 30) -> Signal:
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
        return MeasureSignal(estimator, measure)
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
