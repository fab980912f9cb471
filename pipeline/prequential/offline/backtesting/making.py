"""A backtest: detectors on sequences of the past, and generated streams like it with rises of the error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.stages import parse as parse_stage
from prequential.engine.catalog.plans import Plan
from prequential.engine.compiled.kernel import Ints
from prequential.engine.detectors import DETECTORS
from prequential.engine.detectors.objectives import every_detector
from prequential.engine.incidents.incident import LASTING, OPEN
from prequential.engine.incidents.incidents import watched_stage
from prequential.engine.tables.outcomes import Log
from prequential.offline.backtesting import changes as detection
from prequential.offline.backtesting import report as reports
from prequential.offline.backtesting.sequences import (
    OPTION,
    PastSequence,
    Spelled,
    block_length,
    blocks,
    generator,
    log_of,
    risen,
)
from prequential.topics.errors import UsageError, WorkError, printable
from prequential.topics.outputs import Alarm, Incident, Output


def alarms_of(past: PastSequence, runs: Iterable[tuple[str, Log]]) -> Iterator[list[Ints]]:
    """Yield for each run, by detector of the sequence's stream, the outcomes at which it raises alarms.

    A run is a name and the outcome rows of a sequence in row 0. Detectors that draw random numbers draw
    different ones in runs with different names. The detectors run in a plan, as in a shard.
    """
    config = replace(past.config, estimators=(), details=())
    plan = Plan(0, config, (past.stage,), True, max(2, len(past.classes)))
    for name, log in runs:
        row = plan.take(0, 0, past.stream, past.model, past.segment, name)
        raised = plan.consume(log, np.arange(len(log.number), dtype=np.int32), past.positives)
        count = int(raised.raised[0])
        outcomes, detectors = raised.position[:count] + 1, raised.detector[:count]
        yield [outcomes[detectors == detector].astype(np.int64) for detector in range(len(plan.watches))]
        plan.free(row)


def length_of(injections: Sequence[detection.Injection], tolerance: int) -> int:
    """Return the number of outcomes in a run, which ends with the last change's window."""
    return max(injection.change.outcome + injection.change.width for injection in injections) + tolerance


def inject(
    past: PastSequence, injections: Sequence[detection.Injection], seeds: int, tolerance: int,
    block: int | None,
) -> list[list[detection.Judged]]:  # fmt: skip
    """Return, by detector of the sequence's stream and by seed, its alarms in a stream like the past one.

    Raises ValueError if the error can't rise that much.
    """
    length = length_of(injections, tolerance)
    rise = detection.profile(injections, length)
    changes: list[detection.SequenceChange] = sorted(injection.change for injection in injections)
    block = block or block_length(past.loss)

    def runs() -> Iterator[tuple[str, Log]]:
        for seed in range(1, seeds + 1):
            random = generator(seed, past.stream, past.partition, past.model, past.segment, past.stage)
            indices = blocks(random, len(past), length, block)
            yield str(seed), log_of(past, risen(random, past, indices, rise))

    by_detector: list[list[detection.Judged]] = [[] for _ in every_detector(past.config)]
    for alarms in alarms_of(past, runs()):
        for detector_index, raised in enumerate(alarms):
            by_detector[detector_index].append(detection.judge(raised, changes, length, tolerance))
    return by_detector


#: 30 days, ms.
_MONTH = 30 * 86_400_000

Key = tuple[str, int, str, str | None, str]


class _Tally:
    """Alarms of detectors, over sequences and runs."""

    def __init__(self, *, judged: bool) -> None:
        self._lines: dict[str, reports.DetectorAlarms] = {}
        self._judged: dict[str, list[detection.Judged]] | None = {} if judged else None

    def add(self, detector: str, outcomes: int, alarms: int, judged: Iterable[detection.Judged]) -> None:
        line = self._lines.setdefault(detector, reports.DetectorAlarms(detector, 0, 0, 0, None))
        line.sequences += 1
        line.outcomes += outcomes
        line.alarms += alarms
        if self._judged is not None:
            self._judged.setdefault(detector, []).extend(judged)

    def add_alarms(
        self, detector: str, alarms: Ints, changes: Sequence[detection.SequenceChange], outcomes: int,
        tolerance: int, runs: int = 1,
    ) -> None:  # fmt: skip
        """Add the same alarms, (alarms,), for a number of runs with these changes."""
        judged = detection.judge(alarms, changes, outcomes, tolerance)
        self.add(detector, runs * outcomes, runs * len(alarms), [judged] * runs)

    def add_baselines(
        self, changes: Sequence[detection.SequenceChange], outcomes: int, tolerance: int, runs: int = 1
    ) -> None:
        """Add two baselines: one that raises an alarm at each outcome, and one that never does."""
        self.add_alarms(reports.ALWAYS, np.arange(1, outcomes + 1), changes, outcomes, tolerance, runs)
        self.add_alarms(reports.NEVER, np.zeros(0, np.int64), changes, outcomes, tolerance, runs)

    def lines(self, longest: int) -> list[reports.DetectorAlarms]:
        """Return the detectors in the order in which they were added, incidents, then the two baselines.

        `longest`: outcomes after a change within which an alarm finds it.
        """
        for name, line in self._lines.items():
            if self._judged is not None:
                line.scores = detection.scores(self._judged[name], longest)
        last = {reports.INCIDENTS: 1, reports.ALWAYS: 2, reports.NEVER: 3}
        return sorted(self._lines.values(), key=lambda line: last.get(line.detector, 0))


def on_the_past(
    sequences: Sequence[PastSequence], alarms: Iterable[Alarm],
    known_changes: Sequence[detection.KnownChange],
    tolerance: int, incidents: Iterable[Incident] = (),
) -> reports.PastAlarms:  # fmt: skip
    """Return the alarms on each sequence and, where changes are known, how well each detector found them.

    `alarms` and `incidents` are those of the same replay; those of other sequences are left out. An alarm
    finds a change if the alarm comes at most `tolerance` outcomes after the end of the change. With known
    changes, the incidents of watched sequences are judged in the same way, by the outcomes that opened them.
    """
    by_sequence: dict[Key, list[Alarm]] = {}
    for alarm in alarms:
        by_sequence.setdefault(_key(alarm), []).append(alarm)
    opened: dict[Key, list[int]] = {}
    for incident in {message.id: message for message in incidents}.values():
        opened.setdefault(_key(incident), []).append(incident.opened["outcome"])
    tally = _Tally(judged=bool(known_changes))
    watched = []
    for past in sequences:
        past_alarms = by_sequence.get(_key(past), [])
        changes = detection.changes_of(known_changes, past)
        detectors = every_detector(past.config)
        names = {}
        for detector in detectors:
            params = DETECTORS[detector.detector].params(detector.params)  # as alarms have them
            names[_what(detector.detector, detector.signal, params)] = detection.name_of(detector)
        raised = [names[_what(alarm.detector, alarm.signal, alarm.params)] for alarm in past_alarms]
        for name in names.values():
            outcomes = np.array(
                [a.outcome for a, by in zip(past_alarms, raised) if by == name], dtype=np.int64
            )
            tally.add_alarms(name, outcomes, changes, len(past), tolerance)
        if known_changes:
            tally.add_baselines(changes, len(past), tolerance)
        if known_changes and _is_watched(past):
            outcomes = np.array(opened.get(_key(past), []), dtype=np.int64)
            tally.add_alarms(reports.INCIDENTS, outcomes, changes, len(past), tolerance)
        watched.append(
            reports.Watched(
                past.stream, past.partition, past.model, past.segment, past.stage, len(past),
                [change.outcome for change in changes], past_alarms, raised,
            )
        )  # fmt: skip
    longest = tolerance + max((change.width for change in known_changes), default=0)
    return reports.PastAlarms(watched, tally.lines(longest), longest)


def incidents_of(past: Sequence[PastSequence], messages: Iterable[Incident]) -> reports.PastIncidents:
    """Return the incidents of these sequences' models, with grades; `messages` are of the same replay."""
    newest = {incident.id: incident for incident in messages}
    spans = {
        (sequence.stream, sequence.partition, sequence.model): int(sequence.ts.max() - sequence.ts.min())
        for sequence in past if sequence.segment is None and len(sequence)
    }  # fmt: skip
    incidents = [
        incident
        for incident in newest.values()
        if (incident.stream, incident.partition, incident.model) in spans
    ]
    lasted = [
        incident.grade == LASTING
        for incident in incidents
        if incident.status != OPEN or incident.grade == LASTING
    ]
    untimed = any(incident.untimed is True for incident in newest.values())
    model_months = None if untimed else sum(spans.values()) / _MONTH
    return reports.PastIncidents(incidents, model_months, len(lasted), sum(lasted))


def injected(
    sequences: Sequence[PastSequence], injections: Sequence[detection.Injection],
    injection_texts: Sequence[str],
    seeds: int, tolerance: int, block: int | None,
) -> reports.Injected:  # fmt: skip
    """Return how detectors perform in streams like these, with rises of the error at known outcomes.

    `injection_texts` is the text of the rises, and `seeds` the number of streams made from each sequence. An
    alarm finds a change up to `tolerance` outcomes after its end. `block`: see `BacktestOptions`.
    """
    tally = _Tally(judged=True)
    length = length_of(injections, tolerance)
    left_out = []
    changes = sorted(injection.change for injection in injections)
    for past in sequences:
        try:
            by_detector = inject(past, injections, seeds, tolerance, block)
        except ValueError as error:
            names = ", ".join(name for name in (past.stream, past.model, past.segment, past.stage) if name)
            left_out.append(f"{names}: {error}")
            continue
        for detector, judged in zip(every_detector(past.config), by_detector):
            detected = sum(delay is not None for run in judged for delay in run.delays)
            alarms = detected + sum(run.false_alarms + run.repeated for run in judged)
            tally.add(detection.name_of(detector), seeds * length, alarms, judged)
        tally.add_baselines(changes, length, tolerance, seeds)
    window = tolerance + max(injection.change.width for injection in injections)
    return reports.Injected(list(injection_texts), seeds, length, tally.lines(window), window, left_out)


def _is_watched(past: PastSequence) -> bool:
    """Return whether a worsening of this sequence opens incidents."""
    stages = tuple(stage for stage in past.config.stages if not parse_stage(stage).is_age)
    budgeted = past.config.incident_budget is not None
    return budgeted and past.segment is None and bool(stages) and past.stage == watched_stage(stages)


def _key(subject: Alarm | Incident | PastSequence) -> Key:
    return subject.stream, subject.partition, subject.model, subject.segment, subject.stage


def _what(detector: str, signal: str, params: dict[str, Any]) -> tuple[Any, ...]:
    return detector, signal, tuple(sorted(params.items()))


#: Defaults: how many outcomes after a change an alarm may come to find it, and streams made of each sequence.
TOLERANCE, SEEDS = 2_000, 100

#: The largest values allowed for both. `MOST_OUTCOMES` limits the length of blocks as well as the tolerance.
MOST_OUTCOMES, MOST_SEEDS = 100_000_000, 100_000


class BacktestOptions(NamedTuple):
    """The options of a backtest: known changes, rises to inject, and how streams are made."""

    changes: Sequence[detection.KnownChange] = ()
    #: Rises, and their text as you gave it.
    injections: Sequence[detection.Injection] = ()
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
        if len({injection.change.outcome for injection in self.injections}) < len(self.injections):
            raise UsageError(f"{spelled('inject')}: expected one rise after an outcome, here are two")


def backtest(
    past: Sequence[PastSequence], messages: Iterable[Output], asked: BacktestOptions,
    tell: Callable[[str], None], spelled: Spelled = OPTION,
) -> reports.BacktestReport:  # fmt: skip
    """Return the alarms of the detectors on these sequences and, if asked, on generated streams like them.

    `messages` are all of the same replay. The caller has checked the options (`asked`), which errors spell as
    `spelled` does. `tell` gets a sentence for each sequence from which no streams can be made. Raises
    WorkError if no detector is configured, no change lies within a sequence, or no streams can be made.
    """
    if not any(every_detector(sequence.config) for sequence in past):
        raise WorkError(f"no detector is configured for what was evaluated: expected {spelled('detector')}")
    messages = list(messages)
    alarms = [message for message in messages if isinstance(message, Alarm)]
    incidents = [message for message in messages if isinstance(message, Incident)]
    watched = on_the_past(past, alarms, asked.changes, asked.tolerance, incidents)
    report = reports.BacktestReport(asked.tolerance, watched, incidents_of(past, incidents), None)
    if asked.changes and not any(sequence.changes for sequence in report.past.sequences):
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
