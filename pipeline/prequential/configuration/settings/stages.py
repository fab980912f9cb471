"""Stages: which prediction of an instance, and after how much of its waiting time.

Configurations, messages and snapshots have stages by name; this module parses the names. These have outcomes
of their own: `initial` and `final`, the first and the last prediction of an instance. `bin:b` is the last one
in the b-th of B equal parts of its waiting time (Grzenda et al. 2020). `after:D` is the last one within the
age D, `lead:D` the last one made at least D before the label. `bins` means all bins in configurations,
`intermediate` is computed from `initial` and the bins, and `period` marks messages about a period of
prediction time. Two stages of a model that are compared form a pair, `initial/final`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from prequential.configuration.settings.durations import duration

#: Stages without a number: their names.
INITIAL, FINAL, BINS, INTERMEDIATE, PERIOD = "initial", "final", "bins", "intermediate", "period"

#: Stages with one, and how their names begin.
BIN, AFTER, LEAD = "bin", "after", "lead"

#: Stages that can be configured, in addition to `after:D` and `lead:D`.
CONFIGURED = (INITIAL, FINAL, BINS, INTERMEDIATE)

#: One spelling of a number, because stages stand in messages by their names.
_BIN = re.compile(f"{BIN}:([1-9][0-9]*)")
_AGE = re.compile("(0|[1-9][0-9]*)(ms|s|m|h|d|w|S|min|H|D|W)")

#: Between the names of a pair.
_BETWEEN = "/"

#: Order in which a reader looks: what doesn't stand here comes between `initial` and `intermediate`.
_SHOWN = {FINAL: 0, INITIAL: 1, INTERMEDIATE: 3, BIN: 4}
_ELSE = 2


@dataclass(frozen=True)
class Stage:
    """A stage; two spellings of one, `after:60s` and `after:1m`, are equal.

    >>> parse("after:60s") == parse("after:1m"), str(parse("after:60s"))
    (True, 'after:60s')
    """

    #: One of `INITIAL`, `FINAL`, `BINS`, `INTERMEDIATE`, `PERIOD`, `BIN`, `AFTER`, `LEAD`.
    kind: str
    #: Of a bin, its number from 1; of an age or a lead, milliseconds; else 0.
    number: int = 0
    #: As it is written.
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.name or self.kind

    @property
    def is_bin(self) -> bool:
        """Whether it is one of the bins."""
        return self.kind == BIN

    @property
    def is_age(self) -> bool:
        """Whether it is `after:D` or `lead:D`: outcomes are rows of their own, apart from other stages'."""
        return self.kind in (AFTER, LEAD)

    @property
    def age(self) -> int:
        """Of a stage at an age, the age in ms; of a lead before the label, -1 minus the lead.

        >>> parse("after:1s").age, parse("lead:1s").age
        (1000, -1001)
        """
        return -1 - self.number if self.kind == LEAD else self.number

    @property
    def configured(self) -> str:
        """The name that asks for it in a configuration: of each bin it is `bins`.

        >>> parse("bin:2").configured, parse("final").configured
        ('bins', 'final')
        """
        return BINS if self.is_bin else str(self)

    @property
    def row(self) -> int:
        """Its place among the stages of a model, in the order in which messages come: initial, final, bins.

        >>> [parse(name).row for name in ("initial", "final", "bin:1", "bin:2", "after:1h")]
        [0, 1, 2, 3, 0]
        """
        return self.number + 1 if self.is_bin else int(self.kind == FINAL)


@lru_cache(maxsize=4096)
def parse(name: str) -> Stage:
    """The stage of this name, with its kind and its number: of a bin, from 1; of an age or a lead, in ms.

    Raises ValueError quoting a name that is none.

    >>> parse("bin:3")
    Stage(kind='bin', number=3, name='bin:3')
    >>> parse("after:10m").number, str(parse("lead:1D")), str(parse("after:10min"))
    (600000, 'lead:1d', 'after:10m')
    >>> parse("last")
    Traceback (most recent call last):
    ...
    ValueError: unknown stage 'last'; known: initial, final, bins, intermediate, and e.g. after:10m, lead:10m
    >>> parse("after: 5m")
    Traceback (most recent call last):
    ...
    ValueError: stage 'after: 5m': expected neither blanks nor leading zeros, e.g. after:10m (units: ms to w)
    """
    if name in CONFIGURED or name == PERIOD:
        return Stage(name, 0, name)
    if match := _BIN.fullmatch(name):
        return Stage(BIN, int(match[1]), name)
    kind, colon, age = name.partition(":")
    if kind in (AFTER, LEAD) and colon:
        milliseconds = duration(age)
        if (spelling := _AGE.fullmatch(age)) is None:
            expected = f"neither blanks nor leading zeros, e.g. {kind}:10m (units: ms to w)"
            raise ValueError(f"stage {name!r}: expected {expected}")
        unit = "m" if spelling[2] == "min" else spelling[2].lower()  # pandas spells units otherwise
        return Stage(kind, milliseconds, f"{kind}:{spelling[1]}{unit}")
    raise _unknown(name)


def stage_name(text: str) -> str:
    """Return the name of a stage as messages have it; a text that is no stage stays as it is.

    >>> stage_name("after:1D"), stage_name("last")
    ('after:1d', 'last')
    """
    try:
        return str(parse(text))
    except ValueError:
        return text


def parse_configured(value: Any) -> Stage:
    """The stage of a name in a configuration, where each bin is none; raises ValueError quoting it.

    >>> parse_configured("bin:1")
    Traceback (most recent call last):
    ...
    ValueError: unknown stage 'bin:1'; known: initial, final, bins, intermediate, and e.g. after:10m, lead:10m
    """
    stage = parse(value) if isinstance(value, str) else None
    if stage is None or stage.kind in (BIN, PERIOD):
        raise _unknown(value)
    return stage


def _unknown(value: object) -> ValueError:
    known_stages = ", ".join(CONFIGURED)
    return ValueError(f"unknown stage {value!r}; known: {known_stages}, and e.g. {AFTER}:10m, {LEAD}:10m")


class StagePair(NamedTuple):
    """Two stages of a model that are compared with each other, by their names."""

    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.first}{_BETWEEN}{self.second}"


def parse_pair(value: Any) -> StagePair:
    """Two stages, written as one; raises ValueError quoting it.

    Whether there are such stages is the caller's to ask.

    >>> str(parse_pair("initial/final")), parse_pair("initial/final").second
    ('initial/final', 'final')
    >>> parse_pair("final/final")
    Traceback (most recent call last):
    ...
    ValueError: 'final/final': expected two stages such as initial/final
    """
    first, between, second = value.partition(_BETWEEN) if isinstance(value, str) else ("", "", "")
    if not between or _BETWEEN in second or first == second:
        raise ValueError(f"{value!r}: expected two stages such as {INITIAL}{_BETWEEN}{FINAL}")
    return StagePair(first, second)


def sides(name: str) -> tuple[str, ...]:
    """The stages that a name is about: itself, or those of a pair.

    >>> sides("final"), sides("initial/bin:2")
    (('final',), ('initial', 'bin:2'))
    """
    return tuple(name.split(_BETWEEN))


def bins(number: int) -> tuple[str, ...]:
    """The names of so many bins.

    >>> bins(2)
    ('bin:1', 'bin:2')
    """
    return tuple(f"{BIN}:{b}" for b in range(1, number + 1))


def parts(stage: str, number: int) -> tuple[str, ...]:
    """The stages with outcomes of their own that a configured one is made of, where there are so many bins.

    >>> parts("final", 2), parts("bins", 2), parts("intermediate", 2)
    (('final',), ('bin:1', 'bin:2'), ('initial', 'bin:1', 'bin:2'))
    """
    if stage == BINS:
        return bins(number)
    return (INITIAL, *bins(number)) if stage == INTERMEDIATE else (stage,)


def reported(configured: Iterable[str], number: int) -> tuple[str, ...]:
    """The stages that there are messages about, where there are so many bins.

    >>> reported(("final", "bins", "intermediate"), 2)
    ('final', 'bin:1', 'bin:2', 'intermediate')
    """
    return tuple(
        reported_stage
        for stage in configured
        for reported_stage in (bins(number) if stage == BINS else (stage,))
    )


def evaluated(configured: Iterable[str], number: int) -> tuple[str, ...]:
    """The stages with outcomes of their own, without those at an age, in the order of their rows.

    >>> evaluated(("final", "intermediate", "after:1h"), 2)
    ('initial', 'final', 'bin:1', 'bin:2')
    """
    stages = {part for stage in configured if not parse(stage).is_age for part in parts(stage, number)}
    if not stages.isdisjoint(bins(1)):
        stages.add(INITIAL)
    return tuple(sorted(stages, key=lambda name: parse(name).row))


def standing_for(stage: str, stages: Iterable[str]) -> str:
    """Which of these stages has the outcomes of `stage` where no instance has had two predictions.

    `initial` and `final` are the same then, and where there are both `final` stands for them.

    >>> standing_for("initial", ("initial", "final")), standing_for("final", ("initial", "bin:1"))
    ('final', 'initial')
    >>> standing_for("bin:1", ("initial", "bin:1"))
    'bin:1'
    """
    if stage in (INITIAL, FINAL):
        return FINAL if FINAL in stages else INITIAL
    return stage


def shown_order(name: str) -> tuple[int, int, str]:
    """Return a sort key of stages by importance: `final` first, then `initial`, ages, `intermediate`, bins.

    Names that aren't known, as of a later version's messages, stand among the ages.

    >>> sorted(("bin:10", "bin:2", "after:2h", "after:10m", "initial", "final"), key=shown_order)
    ['final', 'initial', 'after:10m', 'after:2h', 'bin:2', 'bin:10']
    """
    try:
        stage = parse(name)
    except ValueError:
        return _ELSE, 0, name
    return _SHOWN.get(stage.kind, _ELSE), stage.number, name
