"""What each key of the configuration takes.

Its parser makes the setting of YAML's value, or raises ValueError with what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields
from typing import Any

from prequential.configfile.reading.together import parse_estimator
from prequential.configuration.settings import streams
from prequential.configuration.settings.durations import (
    duration,
    exact_duration,
    parse_budget,
    period_length,
)
from prequential.configuration.settings.http_server import ALL_SERIES, SERIES
from prequential.configuration.settings.model import Limits
from prequential.configuration.settings.notifications import FORMS, NOTIFIED, STATUSES
from prequential.configuration.settings.stages import parse as stage_key
from prequential.configuration.settings.stages import parse_configured, parse_pair
from prequential.engine.detectors import DETECTORS
from prequential.engine.estimators.naming import canonical
from prequential.engine.measures.registry import MEASURES, NAMES
from prequential.mapping.units import time_zone
from prequential.topics import values
from prequential.topics.errors import UsageError

#: Levels of tests: beyond them nothing would be sure, or ever be found.
_LEAST_LEVEL, _MOST_LEVEL = 1e-9, 0.5

#: Most classes that a stream's limit may be. Tables of periods, costs and merged partitions begin with 16
#: sequences, each of which has 4 counts of 8 bytes for each label and prediction: 8 GiB of 4,096 classes.
_MOST_CLASSES, _BYTES_OF_CELL = 4_096, 16 * 4 * 8

#: Largest cost of an outcome, of either sign: sums of as many as there may be are finite.
_MOST_COST = 1e100

#: Fewest outcomes that can say what an error rate may be.
_LEAST_REFERENCE = 100

#: Longest duration in ms, 1000 years: times plus durations stay far within 64 bits.
_LONGEST = 1000 * 366 * 86_400_000

#: Shortest and longest session (ms): librdkafka takes none that is longer, brokers none much shorter.
_SESSIONS = 1_000, 3_600_000

#: Smallest and largest `alpha`: far more than a weighting needs, and sums of weights (1/α)^(b/B) are exact
#: enough.
_ALPHAS = 1e-6, 1e6

#: Largest number in a configuration: no bound of a measure makes sense near it.
_LARGEST = 1e15

Parser = Callable[[Any], Any]


# ---- values


def _expected(value: object, expectation: str) -> ValueError:
    return ValueError(f"{value!r}: expected {expectation}")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _expected(value, "a string")
    return value


def _prefix(value: Any) -> str:
    return "" if value in (None, "") else _text(value)


def _integer(least: int, most: int = 1 << 40) -> Parser:
    def parse(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _expected(value, f"an integer from {least} to {most}")
        return value

    return parse


def _real(fits: Callable[[float], bool], expectation: str) -> Parser:
    """Return a parser of the numbers that fit; `expectation` describes them in errors."""

    def parse(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not fits(value):
            raise _expected(value, expectation)
        return float(value)

    return parse


def _number(least: float, most: float = _LARGEST) -> Parser:
    return _real(lambda value: least <= value <= most, f"a number from {least:g} to {most:g}")


_change = _real(lambda value: 0 < value <= _LARGEST, "a rise above 0")
_positive_share = _real(lambda value: 0 < value <= 1, "a share above 0 and up to 1")
_quantile = _real(lambda value: 0 < value < 1, "a quantile above 0 and below 1, as 0.9")
_tolerance = _real(lambda value: 0 <= value < 1, "a difference between two shares, from 0 to below 1")
_level = _real(
    lambda value: _LEAST_LEVEL <= value <= _MOST_LEVEL,
    f"a share of false verdicts from {_LEAST_LEVEL:g} to {_MOST_LEVEL:g}",
)
_margin = _real(lambda value: 0 < value <= _LARGEST, "a difference of two mean losses above 0, as 0.01")


def _cluster(value: Any) -> int | None:
    """A length of clusters: `auto` or null, `off` (which YAML may read as false), or a duration."""
    if value in (None, "auto"):
        return None
    if value is False or value == "off":
        return streams.NO_CLUSTERS
    try:
        return _duration(value)
    except ValueError as error:
        raise ValueError(f"{error}, or auto, or off") from None


def _budget(value: Any) -> str:
    try:
        return str(parse_budget(value))
    except (TypeError, UsageError):
        raise _expected(value, "false alarms per duration, e.g. 1 per 30d") from None


def _duration(value: Any) -> int:
    milliseconds = duration(value)
    if not 1 <= milliseconds <= _LONGEST:
        raise _expected(value, "a duration above 0 and up to 1000 years")
    return milliseconds


def _period(value: Any) -> int:
    milliseconds = period_length(value)
    if not 1 <= milliseconds <= _LONGEST:
        raise _expected(value, "a period above 0 and up to 1000 years")
    return milliseconds


def _session(value: Any) -> int:
    milliseconds = _duration(value)
    if not _SESSIONS[0] <= milliseconds <= _SESSIONS[1]:
        raise _expected(value, " to ".join(map(exact_duration, _SESSIONS)) + ", and what the brokers allow")
    return milliseconds


def _reference_extent(value: Any) -> int | str:
    """So many outcomes, or a duration in one spelling."""
    if isinstance(value, str):
        return exact_duration(_duration(value))
    try:
        number: int = _integer(_LEAST_REFERENCE)(value)
    except ValueError as error:
        raise ValueError(f"{error}, or a duration such as 30d") from None
    return number


def _optional(parser: Parser) -> Parser:
    return lambda value: None if value is None else parser(value)


def _list_of(parser: Parser, empty: bool = False, key: Parser = str) -> Parser:
    """Return a parser of lists of what `parser` accepts, without two entries that have the same `key`."""

    def parse(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not (value or empty):
            raise _expected(value, "a list with at least one entry")
        if len(set(map(str, value))) < len(value):
            raise _expected(value, "a list without repeats")
        entries: dict[Any, Any] = {}
        for entry in map(parser, value):
            earlier = entries.setdefault(key(entry), entry)
            if earlier is not entry:
                raise ValueError(f"{earlier!r} and {entry!r} are the same: expected a list without repeats")
        return tuple(entries.values())

    return parse


def _segment_keys(value: Any) -> tuple[str, ...]:
    keys: tuple[str, ...] = _list_of(_text, empty=True)(value)
    for key in keys:
        for other_key in keys:
            if key.startswith(f"{other_key}="):  # a segment's name is `key=value`
                why = "expected keys that do not begin with another key and ="
                raise ValueError(f"{key!r} looks like a value of {other_key!r}: {why}")
    return keys


def _one_of(choices: tuple[str, ...]) -> Parser:
    def parse(value: Any) -> str:
        # YAML 1.1 reads a plain `off` as false.
        text = "off" if value is False and "off" in choices else value
        if text not in choices:
            raise _expected(value, f"{', '.join(choices[:-1])} or {choices[-1]}")
        return str(text)

    return parse


def _stage(value: Any) -> str:
    return str(parse_configured(value))


def _stages(value: Any) -> str:
    return str(parse_pair(value))


def _class(value: Any) -> str:
    with suppress(ValueError):
        return values.class_name("a class", value)
    raise _expected(value, "a class: a string, a finite number or a boolean")


def _known_name(kind: str, known_names: Iterable[str]) -> Parser:
    """Return a parser of names of a kind."""

    def parse(value: Any) -> str:
        if not isinstance(value, str) or value not in known_names:
            raise ValueError(f"unknown {kind} {value!r}; known: {', '.join(known_names)}")
        return value

    return parse


_measure = _known_name("measure", MEASURES)

#: A detector's name.
detector = _known_name("detector", DETECTORS)


def _costs(value: Any) -> dict[str, dict[str, float]]:
    """Costs by label and prediction."""
    shape = "costs by label and prediction, as {fraud: {ok: 100}, ok: {fraud: 5}}"
    if not isinstance(value, dict) or not value:
        raise _expected(value, shape)
    cost_rows: dict[str, dict[str, float]] = {}
    for label, by_prediction in value.items():
        if not isinstance(by_prediction, dict) or not by_prediction:
            raise _expected(by_prediction, shape)
        row = cost_rows.setdefault(_class(label), {})
        for prediction, amount in by_prediction.items():
            expectation = f"what {label!r} predicted as {prediction!r} costs: a number"
            row[_class(prediction)] = _real(lambda amount: abs(amount) <= _MOST_COST, expectation)(amount)
    return cost_rows


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _expected(value, "true or false")
    return value


def setting(value: Any) -> str:
    """A setting of librdkafka's, as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise _expected(value, "a librdkafka setting: a string, a number or a boolean")


def registry_setting(value: Any) -> Any:
    """A setting of Schema Registry's client, as it is."""
    if isinstance(value, (str, int, float)):
        return value
    raise _expected(value, "a setting of Schema Registry's client: a string, a number or a boolean")


def _url(value: Any) -> str:
    """Check a webhook's URL, or its place. Errors don't quote it, because it may contain a secret."""
    if not isinstance(value, str) or not value.startswith(("https://", "http://", "env:", "file:")):
        raise ValueError("not a webhook URL: expected https://…, http://…, env:NAME or file:PATH")
    return value


def _reference(value: Any) -> str:
    """Check the place of a secret. Errors don't quote it, because it may be the secret itself."""
    if not isinstance(value, str) or not value.startswith(("env:", "file:")):
        raise ValueError("do not put a secret in this file; use env:NAME or file:PATH")
    return value


def _or_all(parser: Parser, every: Any) -> Parser:
    """`all`, which stands for `every`, or some of them."""
    return lambda value: every if value == ALL_SERIES else parser(value)


def _series(value: Any) -> tuple[str, ...]:
    if value in ("needed", ALL_SERIES):
        return SERIES if value == ALL_SERIES else ()
    if not isinstance(value, list):
        raise _expected(value, "needed, all or a list of groups of series")
    return tuple(_list_of(_one_of(SERIES), empty=True)(value))


# ---- keys of sections

KAFKA: dict[str, Parser] = {
    "bootstrap_servers": _text, "prefix": _prefix, "partitions": _integer(1, 100_000),
    "replication": _integer(1, 1000),
}  # fmt: skip


def _classes_limit(value: Any) -> int:
    if isinstance(value, int) and _MOST_CLASSES < value <= streams.MAX_CLASSES:
        capacity = 1 << (value - 1).bit_length()
        needed = capacity**2 * _BYTES_OF_CELL >> 30
        raise ValueError(
            f"{value}: expected an integer from 2 to {_MOST_CLASSES}, since periods or costs of so many "
            f"classes take {needed} GiB; `task: regression` if these are numbers"
        )
    return int(_integer(2, _MOST_CLASSES)(value))


LIMITS: dict[str, Parser] = {
    **{field.name: _integer(1) for field in fields(Limits)}, "classes_per_stream": _classes_limit
}  # fmt: skip

WORKER: dict[str, Parser] = {
    "group": _text, "instance_id": _optional(_text), "session_timeout": _session, "grace": _duration,
    "commit_every": _duration, "snapshot_every": _duration, "quarantine_after": _optional(_integer(1)),
    "stop_within": _duration, "accept_loss": _list_of(_integer(0), empty=True),
}  # fmt: skip

HTTP: dict[str, Parser] = {
    "host": _text, "port": _optional(_integer(0, 65_535)), "segments": _flag,
    "measures": _or_all(_list_of(_measure, empty=True), NAMES),
    "token": _optional(_text), "tls_certificate": _optional(_text), "tls_key": _optional(_text),
    "stages": _optional(_or_all(_list_of(_stage, key=stage_key, empty=True), ALL_SERIES)),
    "estimators": _optional(_or_all(_list_of(parse_estimator, key=canonical, empty=True), ALL_SERIES)),
    "series": _series,
}  # fmt: skip

STREAM: dict[str, Parser] = {
    "task": _one_of(streams.TASKS), "loss": _one_of(streams.LOSSES), "positive_class": _optional(_class),
    "classes": _optional(_list_of(_class)),
    "estimators": _list_of(parse_estimator, key=canonical), "measures": _list_of(_measure),
    "stages": _list_of(_stage, key=stage_key), "costs": _optional(_costs),
    "top_k": _integer(1, streams.MAX_CLASSES), "quantile": _optional(_quantile),
    "season": _optional(_duration),
    "cost_per_value": _flag,
    "coverage": _flag, "temporal_correction": _flag, "period": _optional(_period),
    "period_zone": time_zone, "period_final_at": _positive_share, "expected": _flag,
    "book_periods": _optional(_integer(1, 1_000)),
    "alarm_budget": _optional(_budget), "alarm_change": _change,
    "cluster": _cluster, "incident_budget": _optional(_budget),
    "incident_loss": _one_of(tuple(dict.fromkeys(sum(streams.INCIDENT_LOSSES.values(), ())))),
    "segments": _segment_keys, "segments_per_key": _integer(1, 10_000),
    "baselines": _list_of(_known_name("baseline", streams.BASELINES), empty=True),
    "details": _list_of(_known_name("detail", streams.DETAILS), empty=True),
    "dependence_order": _integer(1, 1_000),
    "bins": _integer(1, 10_000), "alpha": _number(*_ALPHAS),
    "label_horizon": _duration, "label_at_horizon": _optional(_class), "settle": _duration,
    "key": _one_of(streams.KEYS), "versions": _one_of(streams.VERSIONS),
    "compare_stages": _list_of(_stages, empty=True),
    "compare": _one_of(streams.COMPARE), "champion": _optional(_class),
    "compare_losses": _list_of(_one_of(tuple(dict.fromkeys(sum(streams.COMPARE_LOSSES.values(), ()))))),
    "compare_level": _level, "compare_margin": _optional(_margin), "mcnemar_level": _level,
}  # fmt: skip

#: Of these, those that name classes or models: `no` and 010 may be meant as they are written.
OF_NAMES = ("positive_class", "classes", "label_at_horizon", "champion", "costs")

EMIT: dict[str, Parser] = {
    "outcomes": _optional(_integer(1)), "every": _optional(_duration), "comparisons": _optional(_duration),
    "idle": _optional(_duration),
}  # fmt: skip

OBJECTIVE: dict[str, Parser] = {
    "tolerance": _number(0), "level": _level, "reference": _optional(_reference_extent),
    "estimate": _optional(_class),
}  # fmt: skip


def _disparity_keys(value: Any) -> tuple[str, ...]:
    return _segment_keys(_list_of(_text)(value) and value)


DISPARITY: dict[str, Parser] = {
    "segments": _disparity_keys, "measures": _list_of(_one_of(streams.DISPARITY_MEASURES)), "level": _level,
    "tolerance": _tolerance,
}  # fmt: skip

PERIOD_ALARMS: dict[str, Parser] = {
    **dict.fromkeys(("concept", "delays", "inputs"), _optional(_number(1))),
    "miss": _optional(_positive_share),
}  # fmt: skip

NOTIFY: dict[str, Parser] = {
    "url": _optional(_url), "form": _one_of(FORMS), "secret": _optional(_reference),
    "topics": _list_of(_one_of(NOTIFIED)), "streams": _optional(_list_of(_text)),
    "statuses": _list_of(_one_of(STATUSES)), "severity": _optional(_number(-10)), "updates": _flag,
    "timeout": _duration, "group": _optional(_text),
}  # fmt: skip

#: What can be asked of a model.
OBJECTIVE_MEASURES = tuple(name for name, measure in MEASURES.items() if measure.quality)


def bound_of(name: str) -> Parser:
    """What a bound of one of them may be: what the measure itself may."""
    low, high = max(-_LARGEST, MEASURES[name].low), min(_LARGEST, MEASURES[name].high)

    def parse(value: Any) -> float:
        number: float = _number(-_LARGEST)(value)
        if not low <= number <= high:
            raise _expected(value, f"a bound from {low:g} to {high:g}, between which {name} lies")
        return number

    return parse
