"""Detectors and changes as you write them, and how alarms compare with known and injected changes.

Definitions: docs/do/backtest-detectors.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import numpy as np
from prequential.configfile.reading.together import detectors_of_task, parse_signal, unfit
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig, Value
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.detectors import DETECTORS
from prequential.offline.backtesting.sequences import PastSequence
from prequential.topics.decoding import milliseconds
from prequential.topics.errors import UsageError
from prequential.topics.foreign_json import Unreadable, converted, reader

#: Stands for all detectors with their defaults.
EVERY = "all"


def parse_detector(text: str, argument: str = "--detector") -> list[DetectorConfig]:
    """Parse `NAME [SIGNAL] [PARAMETER=VALUE ...]`; the name `all` gives every detector that fits the signal.

    Raises UsageError, which names the problem and `argument`.

    >>> [one] = parse_detector("adwin delta=0.01 signal=window:100:f1")
    >>> name_of(one)
    'adwin window:100:f1 delta=0.01'
    >>> parse_detector("adwin delta=2")
    Traceback (most recent call last):
    ...
    prequential.topics.errors.UsageError: --detector 'adwin delta=2': delta: 2: expected a number ...
    """
    try:
        return _detectors(text.split())
    except ValueError as error:
        raise UsageError(f"{argument} {text!r}: {error}") from error


def _detectors(words: Sequence[str]) -> list[DetectorConfig]:
    name, *following = words or [""]
    if name != EVERY and name not in DETECTORS:
        raise ValueError(f"unknown detector {name!r}; known: {', '.join(DETECTORS)}, and {EVERY}")
    signal = "error"
    if following and "=" not in following[0]:
        signal = parse_signal(following.pop(0))
    values: dict[str, Value] = {}
    for word in following:
        key, equals, text = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r}: expected PARAMETER=VALUE")
        if key == "signal":
            signal = parse_signal(text)
        elif key in values:
            raise ValueError(f"{key} is there twice")
        else:
            values[key] = _value(text)
    if name == EVERY:
        if values:
            raise ValueError(f"{next(iter(values))!r}: expected no parameters with {EVERY}")
        fitting = (
            detector_name
            for detector_name in DETECTORS
            if signal == "error" or not DETECTORS[detector_name].binary
        )
        return [DetectorConfig(detector_name, signal) for detector_name in fitting]
    declared = DETECTORS[name]
    parameters = {parameter.name: parameter for parameter in declared.parameters}
    for key, value in values.items():
        if key not in parameters:
            raise ValueError(f"unknown parameter {key!r}; known: signal, {', '.join(parameters)}")
        try:
            values[key] = parameters[key].parse(value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error
    if problem := declared.problem(declared.complete(values)):
        raise ValueError(problem)
    fixed = declared.threshold is not None and declared.threshold.name in values
    return [DetectorConfig(name, signal, declared.changed(values), fixed)]


def _value(text: str) -> Value:
    """Return the text as a number, a boolean or a name, by the rules of YAML.

    >>> _value("1"), _value("1e-3"), _value("true"), _value("both"), _value("nan")
    (1, 0.001, True, 'both', 'nan')
    """
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch("[-+]?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?", text):
        return float(text)
    return text


def name_of(detector: DetectorConfig) -> str:
    """Return a detector in the spelling of `parse_detector`, with the parameters that aren't the defaults."""
    changed = DETECTORS[detector.detector].changed(detector.params)
    shown = [f"{name}={str(value).lower().removesuffix('.0')}" for name, value in changed.items()]
    return " ".join([detector.detector, detector.signal, *shown])


def with_detectors(
    config: Config, detectors: Sequence[DetectorConfig], argument: str = "--detector"
) -> Config:
    """Return the configuration with these detectors for all streams whose task they fit.

    They replace all configured detectors, including the tests of objectives.
    Raises UsageError, which names `argument`, for a detector that fits no stream or is given twice.
    """
    names = [name_of(detector) for detector in detectors]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{argument} {name!r} is there twice")
    settings = [config.defaults, *config.streams.values()]
    for detector in detectors:
        problems = [unfit(detector, stream_config) for stream_config in settings]
        if all(problems):
            raise UsageError(f"{argument} {name_of(detector)!r}: {problems[0]}")

    def changed(stream_config: StreamConfig) -> StreamConfig:
        stream_config = replace(stream_config, detectors=tuple(detectors), objective=None)
        return replace(stream_config, detectors=detectors_of_task(stream_config))

    return config.with_each(changed)


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
    for change, following in zip(changes, [*(next_change.outcome for next_change in changes[1:]), outcomes]):
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
    detected_delays = [delay for delay in delays if delay is not None]
    false_alarms, quiet = sum(run.false_alarms for run in runs), sum(run.quiet for run in runs)
    detected = len(detected_delays)
    return DetectionScores(
        runs=len(runs), changes=len(delays), found=detected, probability=_share(detected, len(delays)),
        false_alarms=false_alarms, repeated=sum(run.repeated for run in runs),
        false_alarms_per_10000=_share(PER * false_alarms, quiet),
        delay_mean=_share(sum(detected_delays), detected),
        delay_median=float(np.median(detected_delays)) if detected_delays else None,
        delay_normalised=_share(sum(detected_delays), detected * longest),
        precision=_share(detected, detected + false_alarms),
        f1=_share(2 * detected, detected + false_alarms + len(delays)) if delays else None,
        delays=[run.delays for run in runs],
    )  # fmt: skip


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


_OUTCOMES = re.compile("[0-9]{1,9}(,[0-9]{1,9})*")

_INJECTION = re.compile(
    r"(abrupt|gradual):([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]{1,2})?)@([0-9]{1,9})(?:\+([0-9]{1,9}))?"
)


class KnownChange(msgspec.Struct, forbid_unknown_fields=True):
    """A known change: its outcome or prediction time, and which sequences changed (None: all)."""

    outcome: int | None = None
    ts: int | str | None = None
    #: Outcomes until the change is complete.
    width: int = 0
    stream: str | None = None
    model: str | None = None
    segment: str | None = None
    stage: str | None = None

    def change(self, past: PastSequence) -> SequenceChange | None:
        """Return the change of a sequence, or None if it has none, or no outcome after the change.

        If the change has a time, it is placed before the first outcome whose prediction was made later.
        Earlier predictions may therefore follow the change if labels arrive in another order.
        """
        names = (past.stream, past.model, past.segment, past.stage)
        asked = (self.stream, self.model, self.segment, self.stage)
        if any(asked_name is not None and asked_name != its for asked_name, its in zip(asked, names)):
            return None
        outcome = self.outcome
        if outcome is None:
            later = past.ts > self._time()
            outcome = int(later.argmax()) if later.any() else len(past)
        return SequenceChange(outcome, self.width) if 1 <= outcome < len(past) else None

    def check(self) -> None:
        """Raise ValueError unless it has either an outcome (from 1) or a time, and a width of at least 0."""
        if (self.outcome is None) == (self.ts is None):
            raise ValueError("expected either outcome or ts")
        if self.outcome is not None and self.outcome < 1:
            raise ValueError(f"outcome {self.outcome}: expected at least 1, the last one before the change")
        if self.width < 0:
            raise ValueError(f"width {self.width}: expected at least 0 outcomes")
        self._time()

    def _time(self) -> int:
        return milliseconds(self.ts) if isinstance(self.ts, str) else self.ts or 0


def is_outcomes(text: str) -> bool:
    """Return whether the text is a list of outcomes rather than a file name.

    >>> is_outcomes("15000,30000"), is_outcomes("changes.jsonl")
    (True, False)
    """
    return _OUTCOMES.fullmatch(text) is not None


def parse_outcomes(text: str) -> list[KnownChange]:
    """Return changes of all sequences after these outcomes (counted from 1), as in `15000,30000`.

    Raises UsageError if the text is not such a list.
    """
    return [parse_known(int(outcome), f"--changes {text!r}") for outcome in text.split(",")]


def parse_known(declared: int | Mapping[str, Any], argument: str) -> KnownChange:
    """Return a change after an outcome (counted from 1), or with the fields of a line of a file.

    Raises UsageError, which names `argument`.

    >>> parse_known({"outcome": 5, "model": "m"}, "changes[0]").model
    'm'
    >>> parse_known(0, "changes[0]")
    Traceback (most recent call last):
    ...
    prequential.topics.errors.UsageError: changes[0]: outcome 0: expected at least 1, the last one ...
    """
    try:
        if not isinstance(declared, Mapping):
            declared = {"outcome": declared}
        change = converted(declared, KnownChange)
        change.check()
    except ValueError as error:
        raise UsageError(f"{argument}: {error}") from error
    return change


_fields_of = reader(dict[str, Any])


def parse_lines(path: str, lines: Iterable[bytes]) -> list[KnownChange]:
    """Return the changes in a file of JSON lines; raises UsageError with the number of the line.

    >>> parse_lines("f", [b'{"outcome": 5, "model": "m"}'])[0].model
    'm'
    >>> parse_lines("f", [b'{"outcome": 0}'])
    Traceback (most recent call last):
    ...
    prequential.topics.errors.UsageError: f line 1: outcome 0: expected at least 1, the last one ...
    """
    changes = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        line_name = f"{path} line {number}"
        try:
            fields = _fields_of(line)
        except Unreadable as error:
            raise UsageError(f"{line_name}: {error}") from error
        changes.append(parse_known(fields, line_name))
    if not changes:
        raise UsageError(f'{path} has no changes: expected JSON lines such as {{"outcome": 15000}}')
    return changes


def changes_of(known_changes: Sequence[KnownChange], past: PastSequence) -> list[SequenceChange]:
    """Return the changes of a sequence, in order; if several follow one outcome, only the widest one."""
    changes = [change for known_change in known_changes if (change := known_change.change(past)) is not None]
    return list({change.outcome: change for change in sorted(changes)}.values())


class Injection(NamedTuple):
    """A rise of the mean loss after an outcome, which is complete `width` outcomes later."""

    rise: float
    change: SequenceChange


def parse_injection(text: str, argument: str = "--inject") -> Injection:
    """Parse `abrupt:RISE@OUTCOME` or `gradual:RISE@OUTCOME+WIDTH`; raises UsageError, which names `argument`.

    >>> parse_injection("abrupt:0.05@5000")
    Injection(rise=0.05, change=SequenceChange(outcome=5000, width=0))
    >>> parse_injection("gradual:0.1@5000+1000").change.width
    1000
    """
    match = _INJECTION.fullmatch(text)
    kind, rise, outcome, width = match.groups() if match else ("", "0", "0", None)
    change = SequenceChange(int(outcome), int(width or 0))
    if not match or (kind == "gradual") != (change.width > 0) or not float(rise) or not change.outcome:
        raise UsageError(
            f"{argument} {text!r}: expected abrupt:RISE@OUTCOME or gradual:RISE@OUTCOME+WIDTH, "
            "e.g. abrupt:0.05@5000, all above 0"
        )
    return Injection(float(rise), change)


def profile(injections: Sequence[Injection], outcomes: int) -> Floats:
    """Return the rise at each outcome: several rises add up, and gradual ones grow linearly.

    >>> profile([parse_injection("abrupt:0.5@1"), parse_injection("gradual:1@2+2")], 5).tolist()
    [0.0, 0.5, 1.0, 1.5, 1.5]
    """
    number = np.arange(1, outcomes + 1)
    rise = np.zeros(outcomes)
    for injection in injections:
        rise += injection.rise * np.clip(
            (number - injection.change.outcome) / max(1, injection.change.width), 0.0, 1.0
        )
    return rise
