"""Compare alarms with the changes that they should find (definitions: docs/do/backtest-detectors.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from prequential.engine.compiled.kernel import Ints

#: Rates of false alarms are given per this number of outcomes.
PER = 10_000


class SequenceChange(NamedTuple):
    """A change after outcome `outcome` of a sequence, which is complete `width` outcomes later; 0: abrupt."""

    outcome: int
    width: int = 0


class Judged(NamedTuple):
    """The alarms of one run."""

    #: By change: outcomes from the change to its first alarm; None: no alarm found it.
    delays: tuple[int | None, ...]
    #: Alarms outside all windows, further alarms within a window, and outcomes outside all windows.
    false_alarms: int
    repeated: int
    quiet: int


class DetectionScores(msgspec.Struct):
    """Scores of all runs together; None: undefined, because the divisor is 0."""

    runs: int
    changes: int
    found: int
    #: Share of the changes that were found.
    probability: float | None
    false_alarms: int
    repeated: int
    #: False alarms per 10,000 outcomes outside the windows of changes.
    false_alarms_per_10000: float | None
    #: Outcomes from a change to its first alarm, over the changes that were found.
    delay_mean: float | None
    delay_median: float | None
    #: The mean delay divided by the longest delay with which an alarm finds a change.
    delay_normalised: float | None
    #: The share of true alarms among true and false ones; and the F1 score of this share and `probability`.
    precision: float | None
    f1: float | None
    #: By run and change.
    delays: list[tuple[int | None, ...]]


def judge(alarms: Ints, changes: Sequence[SequenceChange], outcomes: int, tolerance: int) -> Judged:
    """Judge the alarms of a run of so many outcomes, both numbered from 1 and in order.

    A change's window is the outcomes after it, up to `tolerance` after its end, and at most up to the
    next change. The first alarm in the window finds the change; an alarm outside all windows is false.
    Changes after which there is no outcome are left out.

    >>> judge(np.array([40, 105, 106, 190]), [SequenceChange(100), SequenceChange(200)], 300, 50)
    Judged(delays=(5, None), false_alarms=2, repeated=1, quiet=200)
    """
    changes = [change for change in changes if change.outcome < outcomes]
    delays: list[int | None] = []
    within = windows = 0
    for change, following in zip(changes, [*(one.outcome for one in changes[1:]), outcomes]):
        end = min(change.outcome + change.width + tolerance, following)
        first, last = np.searchsorted(alarms, [change.outcome, end], side="right").tolist()
        delays.append(int(alarms[first]) - change.outcome if last > first else None)
        within += last - first
        windows += end - change.outcome
    detected = sum(delay is not None for delay in delays)
    return Judged(tuple(delays), len(alarms) - within, within - detected, outcomes - windows)


def scores(runs: Iterable[Judged], longest: int) -> DetectionScores:
    """Return the scores of all runs together; counts are added up, so a long run has more weight.

    `longest`: outcomes after a change within which an alarm finds it.

    >>> both = scores([Judged((5, None), 2, 1, 200), Judged((15,), 0, 0, 50)], 50)
    >>> both.probability, both.false_alarms_per_10000, both.delay_median, both.precision, both.f1
    (0.6666666666666666, 80.0, 10.0, 0.5, 0.5714285714285714)
    >>> both.delay_normalised
    0.2
    """
    runs = list(runs)
    delays = [delay for run in runs for delay in run.delays]
    known = [delay for delay in delays if delay is not None]
    false_alarms, quiet = sum(run.false_alarms for run in runs), sum(run.quiet for run in runs)
    detected = len(known)
    return DetectionScores(
        runs=len(runs),
        changes=len(delays),
        found=detected,
        probability=_share(detected, len(delays)),
        false_alarms=false_alarms,
        repeated=sum(run.repeated for run in runs),
        false_alarms_per_10000=_share(PER * false_alarms, quiet),
        delay_mean=_share(sum(known), detected),
        delay_median=float(np.median(known)) if known else None,
        delay_normalised=_share(sum(known), detected * longest),
        precision=_share(detected, detected + false_alarms),
        f1=_share(2 * detected, detected + false_alarms + len(delays)) if delays else None,
        delays=[run.delays for run in runs],
    )


def always(outcomes: int) -> Ints:
    """Return the alarms of a baseline that raises one at each outcome: 1 … `outcomes`, (outcomes,)."""
    return np.arange(1, outcomes + 1, dtype=np.int64)


def never() -> Ints:
    """Return the alarms of a baseline that raises none: an empty array, (0,)."""
    return np.zeros(0, dtype=np.int64)


def _share(some: float, whole: int) -> float | None:
    return some / whole if whole else None
