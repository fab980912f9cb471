"""Known changes and injected changes, as you write them on a command line or in Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from prequential.engine.compiled.kernel import Floats
from prequential.offline.backtesting.scores import SequenceChange
from prequential.offline.past.sequences import PastSequence
from prequential.topics.errors import UsageError
from prequential.topics.times import milliseconds

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
        if any(one is not None and one != its for one, its in zip(asked, names)):
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
    return [parse_known(int(one), f"--changes {text!r}") for one in text.split(",")]


def parse_known(given: int | Mapping[str, Any], where: str) -> KnownChange:
    """Return a change after an outcome (counted from 1), or with the fields of a line of a file.

    Raises UsageError, which names `where`.

    >>> parse_known({"outcome": 5, "model": "m"}, "changes[0]").model
    'm'
    >>> parse_known(0, "changes[0]")
    Traceback (most recent call last):
    ...
    prequential.topics.errors.UsageError: changes[0]: outcome 0: expected at least 1, the last one ...
    """
    try:
        if not isinstance(given, Mapping):
            given = {"outcome": given}
        known = msgspec.convert(given, KnownChange)
        known.check()
    except (msgspec.MsgspecError, ValueError) as error:
        raise UsageError(f"{where}: {error}") from error
    return known


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
        where = f"{path} line {number}"
        try:
            given = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise UsageError(f"{where}: {error}") from error
        changes.append(parse_known(given, where))
    if not changes:
        raise UsageError(f"{path} has no changes: expected JSON lines such as {{\"outcome\": 15000}}")
    return changes


def changes_of(known: Sequence[KnownChange], past: PastSequence) -> list[SequenceChange]:
    """Return the changes of a sequence, in order; if several follow one outcome, only the widest one."""
    changes = [change for one in known if (change := one.change(past)) is not None]
    return list({change.outcome: change for change in sorted(changes)}.values())


class Injection(NamedTuple):
    """A rise of the mean loss after an outcome, which is complete `width` outcomes later."""

    rise: float
    change: SequenceChange


def parse_injection(text: str, where: str = "--inject") -> Injection:
    """Parse `abrupt:RISE@OUTCOME` or `gradual:RISE@OUTCOME+WIDTH`; raises UsageError, which names `where`.

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
            f"{where} {text!r}: expected abrupt:RISE@OUTCOME or gradual:RISE@OUTCOME+WIDTH, "
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
    for one in injections:
        rise += one.rise * np.clip((number - one.change.outcome) / max(1, one.change.width), 0.0, 1.0)
    return rise
