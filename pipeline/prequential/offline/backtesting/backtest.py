"""A complete backtest: detectors on the past, and on generated streams like it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from prequential.engine.detectors.objectives import every_detector
from prequential.offline.backtesting.changes import Injection, KnownChange
from prequential.offline.backtesting.making import incidents_of, injected, on_the_past
from prequential.offline.backtesting.report import BacktestReport
from prequential.offline.past.reading import OPTION, Spelled
from prequential.offline.past.sequences import PastSequence
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.outputs import Alarm, Incident, Output
from prequential.topics.reasons import printable

#: Defaults: how many outcomes after a change an alarm may come to find it, and streams made of each sequence.
TOLERANCE, SEEDS = 2_000, 100

#: The largest values allowed for both. `MOST_OUTCOMES` limits the length of blocks as well as the tolerance.
MOST_OUTCOMES, MOST_SEEDS = 100_000_000, 100_000


class BacktestOptions(NamedTuple):
    """The options of a backtest: known changes, rises to inject, and how streams are made."""

    changes: Sequence[KnownChange] = ()
    #: Rises, and their text as you gave it.
    injections: Sequence[Injection] = ()
    injected: Sequence[str] = ()
    tolerance: int = TOLERANCE
    #: None: `SEEDS` streams, with a block length computed from the correlation of neighbouring losses.
    seeds: int | None = None
    block: int | None = None

    def check(self, spelled: Spelled = OPTION) -> None:
        """Raise UsageError if the options contradict each other."""
        for name in ("seeds", "block"):
            if getattr(self, name) is not None and not self.injections:
                raise UsageError(
                    f"{spelled(name)} is about streams that are made: expected {spelled('inject')} as well"
                )
        if len({one.change.outcome for one in self.injections}) < len(self.injections):
            raise UsageError(f"{spelled('inject')}: expected one rise after an outcome, here are two")


def backtest(
    past: Sequence[PastSequence], messages: Iterable[Output], asked: BacktestOptions,
    tell: Callable[[str], None], spelled: Spelled = OPTION,
) -> BacktestReport:  # fmt: skip
    """Return the alarms of the detectors on these sequences and, if asked, on generated streams like them.

    Parameters
    ----------
    past, messages
        The sequences, and all messages of the same replay.
    asked
        Changes, rises and bounds, which the caller has checked.
    tell
        Is called with a sentence for each sequence from which no streams can be made.
    spelled
        How options are spelled in errors.

    Raises
    ------
    WorkError
        If no detector is configured, no change lies within a sequence, or no streams can be made.
    """
    if not any(every_detector(one.config) for one in past):
        raise WorkError(
            f"no detector is configured for what was evaluated: expected {spelled('detector')}"
        )
    messages = list(messages)
    alarms = [one for one in messages if isinstance(one, Alarm)]
    incidents = [one for one in messages if isinstance(one, Incident)]
    watched = on_the_past(past, alarms, asked.changes, asked.tolerance, incidents)
    report = BacktestReport(asked.tolerance, watched, incidents_of(past, incidents), None)
    if asked.changes and not any(one.changes for one in report.past.sequences):
        longest = max(map(len, past))
        raise WorkError(
            f"no change of {spelled('changes')} lies within a sequence: the longest has {longest} outcomes"
        )
    if asked.injections:
        report.injected = injected(
            past, asked.injections, asked.injected, asked.seeds or SEEDS, asked.tolerance, asked.block
        )
        for sentence in report.injected.left_out:
            tell(f"no streams with {spelled('inject')} of {printable(sentence)}")
        if not report.injected.lines:
            raise WorkError(f"no streams could be made with {spelled('inject')}")
    return report
