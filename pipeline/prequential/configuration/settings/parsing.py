"""The values that settings take: their parsers, their errors, and how they are written in a file.

A parser makes the setting of YAML's value, or raises ValueError with the value and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from prequential.configuration.settings import durations, stages
from prequential.configuration.settings.durations import exact_duration, exact_period, parse_budget
from prequential.mapping import units
from prequential.topics import values as record_values
from prequential.topics.errors import UsageError

Parser = Callable[[Any], Any]


@dataclass(frozen=True)
class AcceptedValues:
    """The values that a setting takes."""

    parse: Parser
    #: A value as a file has it, in one line; None: its kind says how (`values.plain_text`).
    text: Callable[[Any], str] | None = None
    #: Whether they are names of classes or models: `no` and 010 may be meant as they are written.
    are_names: bool = False
    #: The type of the argument of `evaluate`; "": that of the setting.
    argument: str = ""

    def __call__(self, value: Any) -> Any:
        """Return the setting of YAML's value; raises ValueError with what was expected."""
        return self.parse(value)


#: The largest cost of an outcome, of either sign: sums of as many as there may be are finite.
_MOST_COST = 1e100

#: Levels of tests: beyond them nothing would be sure, or ever be found.
_LEAST_LEVEL, _MOST_LEVEL = 1e-9, 0.5

#: Fewest outcomes that can say what an error rate may be.
_LEAST_REFERENCE = 100

#: Longest duration in ms, 1000 years: times plus durations stay far within 64 bits.
_LONGEST = 1000 * 366 * 86_400_000

#: Shortest and longest session (ms): librdkafka takes none that is longer, brokers none much shorter.
_SESSIONS = 1_000, 3_600_000

#: Largest number in a configuration: no bound of a measure makes sense near it.
LARGEST = 1e15

#: The value of `cluster: off`.
NO_CLUSTERS = 0


def expected(value: object, expectation: str) -> ValueError:
    """Return the error of a value that doesn't meet an expectation."""
    return ValueError(f"{value!r}: expected {expectation}")


# ---- text and names


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise expected(value, "a string")
    return value


TEXT = AcceptedValues(_text)


def _class(value: Any) -> str:
    with suppress(ValueError):
        return record_values.class_name("a class", value)
    raise expected(value, "a class: a string, a finite number or a boolean")


#: Classes, and names of models.
CLASS = AcceptedValues(_class, are_names=True, argument="str | int | float | bool")

#: The name of a time zone.
ZONE = AcceptedValues(units.time_zone)


def _url(value: Any) -> str:
    """Check a webhook's URL, or its place. Errors don't quote it, because it may contain a secret."""
    if not isinstance(value, str) or not value.startswith(("https://", "http://", "env:", "file:")):
        raise ValueError("not a webhook URL: expected https://…, http://…, env:NAME or file:PATH")
    return value


URL = AcceptedValues(_url)


def _secret_reference(value: Any) -> str:
    """Check the place of a secret. Errors don't quote it, because it may be the secret itself."""
    if not isinstance(value, str) or not value.startswith(("env:", "file:")):
        raise ValueError("do not put a secret in this file; use env:NAME or file:PATH")
    return value


SECRET = AcceptedValues(_secret_reference)


def one_of(choices: tuple[str, ...]) -> AcceptedValues:
    """Return the values that are one of these words."""

    def parse(value: Any) -> str:
        # YAML 1.1 reads a plain `off` as false.
        text = "off" if value is False and "off" in choices else value
        if text not in choices:
            raise expected(value, f"{', '.join(choices[:-1])} or {choices[-1]}")
        return str(text)

    return AcceptedValues(parse)


def known_name(kind: str, known_names: Iterable[str]) -> AcceptedValues:
    """Return the values that are one of the known names of a kind."""

    def parse(value: Any) -> str:
        if not isinstance(value, str) or value not in known_names:
            raise ValueError(f"unknown {kind} {value!r}; known: {', '.join(known_names)}")
        return value

    return AcceptedValues(parse)


def _stage(value: Any) -> str:
    return str(stages.parse_configured(value))


STAGE = AcceptedValues(_stage)


def _stage_pair(value: Any) -> str:
    return str(stages.parse_pair(value))


STAGE_PAIR = AcceptedValues(_stage_pair)


# ---- numbers


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise expected(value, "true or false")
    return value


FLAG = AcceptedValues(_flag)


def integer(least: int, most: int = 1 << 40) -> AcceptedValues:
    """Return the integers from `least` to `most`."""

    def parse(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise expected(value, f"an integer from {least} to {most}")
        return value

    return AcceptedValues(parse)


def real(fits: Callable[[float], bool], expectation: str) -> AcceptedValues:
    """Return the numbers that fit; `expectation` describes them in errors."""

    def parse(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not fits(value):
            raise expected(value, expectation)
        return float(value)

    return AcceptedValues(parse)


def number(least: float, most: float = LARGEST) -> AcceptedValues:
    """Return the numbers from `least` to `most`."""
    return real(lambda value: least <= value <= most, f"a number from {least:g} to {most:g}")


SHARE = real(lambda value: 0 < value <= 1, "a share above 0 and up to 1")
LEVEL = real(
    lambda value: _LEAST_LEVEL <= value <= _MOST_LEVEL,
    f"a share of false verdicts from {_LEAST_LEVEL:g} to {_MOST_LEVEL:g}",
)


def _cost_rows(value: Any) -> dict[str, dict[str, float]]:
    """Costs by label and prediction."""
    shape = "costs by label and prediction, as {fraud: {ok: 100}, ok: {fraud: 5}}"
    if not isinstance(value, dict) or not value:
        raise expected(value, shape)
    cost_rows: dict[str, dict[str, float]] = {}
    for label, by_prediction in value.items():
        if not isinstance(by_prediction, dict) or not by_prediction:
            raise expected(by_prediction, shape)
        row = cost_rows.setdefault(_class(label), {})
        for prediction, amount in by_prediction.items():
            expectation = f"what {label!r} predicted as {prediction!r} costs: a number"
            row[_class(prediction)] = real(lambda amount: abs(amount) <= _MOST_COST, expectation)(amount)
    return cost_rows


COSTS = AcceptedValues(_cost_rows, are_names=True, argument="Mapping[str, Any]")


# ---- times


def _length(value: Any, parse: Callable[[Any], int], what: str) -> int:
    """A length of time in ms as `parse` reads it, of a sensible size; `what` it is, for errors."""
    milliseconds = parse(value)
    if not 1 <= milliseconds <= _LONGEST:
        raise expected(value, f"{what} above 0 and up to 1000 years")
    return milliseconds


def _duration(value: Any) -> int:
    return _length(value, durations.duration, "a duration")


#: Durations in ms.
DURATION = AcceptedValues(_duration, exact_duration, argument="Duration")


def _period(value: Any) -> int:
    return _length(value, durations.period_length, "a period")


#: Durations in ms, or months of the calendar.
PERIOD = AcceptedValues(_period, exact_period, argument="Duration")


def _session(value: Any) -> int:
    milliseconds = _duration(value)
    if not _SESSIONS[0] <= milliseconds <= _SESSIONS[1]:
        raise expected(value, " to ".join(map(exact_duration, _SESSIONS)) + ", and what the brokers allow")
    return milliseconds


SESSION = AcceptedValues(_session, exact_duration)


def _cluster(value: Any) -> int | None:
    """A length of clusters: `auto` or null, `off` (which YAML may read as false), or a duration."""
    if value in (None, "auto"):
        return None
    if value is False or value == "off":
        return NO_CLUSTERS
    try:
        return _duration(value)
    except ValueError as error:
        raise ValueError(f"{error}, or auto, or off") from None


def _cluster_text(length: int) -> str:
    return "off" if length == NO_CLUSTERS else exact_duration(length)


CLUSTER = AcceptedValues(_cluster, _cluster_text, argument="Duration")


def _budget(value: Any) -> str:
    try:
        return str(parse_budget(value))
    except (TypeError, UsageError):
        raise expected(value, "false alarms per duration, e.g. 1 per 30d") from None


BUDGET = AcceptedValues(_budget)


def _reference_extent(value: Any) -> int | str:
    """So many outcomes, or a duration in one spelling."""
    if isinstance(value, str):
        return exact_duration(_duration(value))
    try:
        outcomes: int = integer(_LEAST_REFERENCE)(value)
    except ValueError as error:
        raise ValueError(f"{error}, or a duration such as 30d") from None
    return outcomes


REFERENCE_EXTENT = AcceptedValues(_reference_extent)


# ---- values made of others


def optional(values: AcceptedValues) -> AcceptedValues:
    """Return values that are these or null, which stays None."""
    return replace(values, parse=lambda value: None if value is None else values.parse(value))


def list_of(values: AcceptedValues, empty: bool = False, key: Parser = str) -> AcceptedValues:
    """Return lists of such values, without two entries that have the same `key`."""

    def parse(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not (value or empty):
            raise expected(value, "a list with at least one entry")
        if len(set(map(str, value))) < len(value):
            raise expected(value, "a list without repeats")
        entries: dict[Any, Any] = {}
        for entry in map(values.parse, value):
            earlier = entries.setdefault(key(entry), entry)
            if earlier is not entry:
                raise ValueError(f"{earlier!r} and {entry!r} are the same: expected a list without repeats")
        return tuple(entries.values())

    return AcceptedValues(parse, None, values.are_names, values.argument and f"Sequence[{values.argument}]")


def or_all(values: AcceptedValues, every: Any) -> AcceptedValues:
    """Return these values, or `all`, which stands for `every`."""
    return replace(values, parse=lambda value: every if value == "all" else values.parse(value))


def _segment_keys(value: Any) -> tuple[str, ...]:
    keys: tuple[str, ...] = list_of(TEXT, empty=True)(value)
    for key in keys:
        for other_key in keys:
            if key.startswith(f"{other_key}="):  # a segment's name is `key=value`
                why = "expected keys that do not begin with another key and ="
                raise ValueError(f"{key!r} looks like a value of {other_key!r}: {why}")
    return keys


SEGMENT_KEYS = AcceptedValues(_segment_keys)
#: The same, at least one.
SOME_SEGMENT_KEYS = AcceptedValues(lambda value: _segment_keys(list_of(TEXT)(value) and value))
