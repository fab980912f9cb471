"""Convert one value of a source into the form of an input field.

Each function takes the value's path first. It raises ValueError with one sentence: the path, the quoted
value, and the expected form. The values are never None or NaN, because these stand for an absent value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

from prequential.mapping.model import Field, as_text
from prequential.mapping.units import ISO, RFC3339, UNITS, Clocks
from prequential.topics import values
from prequential.topics.decoding import milliseconds
from prequential.topics.errors import Fault, existing
from prequential.topics.foreign_json import Unreadable, reader
from prequential.topics.messages import MAX_NAME_BYTES, NUMBERS, check_probabilities, clipped

#: An ASCII string of at most this many characters has at most `MAX_NAME_BYTES` bytes.
_SHORT = MAX_NAME_BYTES

#: Floats below this limit represent every whole number exactly.
_EXACT = 1 << 53

#: Integers below this limit never have more digits than a name may have bytes.
FEW_DIGITS = 10 ** (MAX_NAME_BYTES - 2)

_NANOSECONDS_OF_MS = 1_000_000

#: The step in ns to which float times are rounded. Float seconds since 1970 have no finer digits.
_MICROSECOND = 1_000

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)

#: Digits of seconds beyond the microseconds of Python's own times.
_BEYOND = re.compile(r"(\.\d{6})\d+")

#: Text that is a number as JSON, CSV and SQL write it.
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")

#: A long number as a spreadsheet displays it, with a decimal point or comma.
_ROUNDED = re.compile(r"\d[.,]\d+E\+\d\d+")


def name(path: str, value: Any) -> str:
    """Return a name: a string, or a whole number or a boolean as a string.

    >>> name("value.country", b"DE"), name("value.version", 3.0), name("value.new", True)
    ('DE', '3', 'true')
    """
    if type(value) is str and len(value) <= _SHORT and value.isascii():
        return value
    if isinstance(value, bool):
        return as_text(value)
    return identifier(path, value)


def model(path: str, value: Any) -> str:
    """Return the name of a model, which isn't blank."""
    model_name = name(path, value)
    if (why := values.why_blank(path, model_name)) is not None:
        raise ValueError(why)
    return model_name


def identifier(path: str, value: Any) -> str:
    """Return an id: a string, or a whole number as a string.

    >>> identifier("id", 7.0)
    '7'
    >>> identifier("id", 1e18)
    Traceback (most recent call last):
    ...
    ValueError: id is 1e+18, a float, which is exact below 2**53 only: expected a string or an integer
    """
    if type(value) is str and len(value) <= _SHORT and value.isascii():
        return value
    if type(value) is int and -FEW_DIGITS < value < FEW_DIGITS:
        return str(value)
    value = _plain(path, value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        if isinstance(value, float) and value.is_integer():
            raise ValueError(
                f"{path} is {values.quoted(value)}, a float, which is exact below 2**53 only: expected a "
                "string or an integer"
            )
        raise ValueError(f"{path} is {values.quoted(value)}: expected a string or a whole number")
    return values.text(path, str(value))


def instance(path: str, value: Any) -> str:
    """Return an instance's id; rejects a long id that a spreadsheet has rounded.

    >>> instance("id", "1,23E+17")
    Traceback (most recent call last):
    ...
    ValueError: id is '1,23E+17', which a spreadsheet has rounded: expected all digits; format it as text
    """
    if type(value) is str and _ROUNDED.fullmatch(value):
        raise ValueError(
            f"{path} is {value!r}, which a spreadsheet has rounded: expected all digits; format it as text"
        )
    return identifier(path, value)


def together(path: str, parts: tuple[str, ...]) -> str:
    r"""Combine several values into one id; different values give different ids.

    >>> together("customer, day", ("7", "2024-05-01")), together("a, b", ("x|y", "z"))
    ('7|2024-05-01', 'x\\|y|z')
    """
    return values.text(path, "|".join(part.replace("\\", r"\\").replace("|", r"\|") for part in parts))


def of_row(path: str, name: str, number: int) -> str:
    """Return the id of a row within a record, from the record's id and the row's number.

    >>> of_row("value.id", "42", 0)
    '42#0'
    """
    return values.text(path, f"{name}#{number}")


def target(path: str, value: Any) -> values.Class:
    """Return a class, a set of labels or a number; a float without a fraction becomes an integer.

    >>> target("value.label", 1.0), target("value.label", 0.5), target("value.labels", {"b", "a"})
    (1, 0.5, '["a","b"]')
    """
    if type(value) is str and len(value) <= _SHORT and value.isascii():
        return value
    if not values.is_set(value):
        value = _plain(path, value)
    if type(value) is int and -FEW_DIGITS < value < FEW_DIGITS:
        return value
    return values.target(path, value)


def number(path: str, value: Any) -> float:
    """Return a finite number, also from text."""
    value = plain_value = values.plain(value)
    is_number = isinstance(plain_value, (int, float, Decimal)) and not isinstance(plain_value, bool)
    result = math.nan
    if is_number or (isinstance(plain_value, str) and _NUMBER.fullmatch(plain_value.strip())):
        with suppress(OverflowError, ValueError):  # beyond all floats; a Decimal that signals
            result = float(plain_value)  # type: ignore[arg-type]
    if result - result != 0:
        expected = values.expected_number(value, "a number")
        raise ValueError(f"{path} is {values.quoted(value)}: expected {expected}")
    return result


def integer(path: str, value: Any) -> int:
    """Return an integer of 64 bits, also from text."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,20}", value.strip()):
        value = int(value)
    return values.integer(path, _plain(path, value))


def share(path: str, value: Any) -> float:
    """Return a probability; a value that rounding moved outside 0 … 1 is clipped."""
    result = clipped(number(path, value))
    if not 0 <= result <= 1:
        raise ValueError(f"{path} is {values.quoted(value)}: expected a probability from 0 to 1")
    return result


def remainder(path: str, value: Any) -> float:
    """Return 1 minus a probability."""
    return 1 - share(path, value)


def propensity(path: str, value: Any) -> float | None:
    """Return the probability of a label."""
    return values.propensity(number(path, value))


def amount(path: str, value: Any) -> Any:
    """Return an outcome's value or a bound as a number if possible, else unchanged: streams may ignore it."""
    if value != value:
        return None
    with suppress(ValueError):
        return number(path, value)
    return value


def probabilities(path: str, value: Any) -> dict[str, float]:
    """Return probabilities by class from an object, in which each class or none must have one.

    >>> probabilities("value.p", {1.0: 0.75, 0.0: 0.25}), probabilities("value.p", '{"a": 1}')
    ({'1': 0.75, '0': 0.25}, {'a': 1.0})
    """
    if isinstance(number_of_text(value), (int, float, Decimal)):
        raise ValueError(
            f"{path} is {values.quoted(value)}: expected probabilities by class; map that of one of two "
            f"classes as y_proba: {{CLASS: {path}, OTHER: 1 - {path}}}"
        )
    result: dict[str, float] = {}
    absent = None
    for key, probability in _items(path, value):
        if is_absent(probability):
            absent = absent or f"{path}.{as_text(key)}"
            continue
        label = values.class_name(f"a class of {path}", _plain(path, key) if key is not None else key)
        if label in result:
            twice = f"{path} has class {values.quoted(label)} twice"
            raise ValueError(f"{twice}: expected one probability for each")
        result[label] = share(f"{path}.{label}", probability)
    if absent is not None and result:
        raise ValueError(missing_probability(absent, f"{path}.{next(iter(result))}"))
    check_probabilities(result)
    return result


_any_array, _any_object = reader(list), reader(dict)


def array_of(value: Any) -> list[Any] | None:
    """Return the elements of an array, or of one in JSON as a table of text has it; None for anything else.

    >>> array_of([0.7, 0.3]), array_of("[0.7, 0.3]"), array_of({"a": 0.7}), array_of("a")
    ([0.7, 0.3], [0.7, 0.3], None, None)
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = _any_array(value)
        except Unreadable:
            return None
    return list(value) if values.is_array(value) else None


def missing_probability(path: str, other_path: str) -> str:
    """Return the error for a record in which one class has a probability and another one has none.

    >>> missing_probability("y_proba.a", "y_proba.b")
    'y_proba.a is missing, while y_proba.b is given: expected a probability for each class, or for none'
    """
    return (
        f"{path} is missing, while {other_path} is given: expected a probability for each class, or for none"
    )


def segments(path: str, value: Any) -> dict[str, str]:
    """Return segments by key from an object."""
    items = _items(path, value)
    if any(is_absent(key) for key, _ in items):
        raise ValueError(f"{path} has a key without a value: expected names")
    return {name(path, key): name(f"{path}.{key}", entry) for key, entry in items if not is_absent(entry)}


def quantiles(path: str, value: Any) -> dict[str, Any]:
    """Return quantiles by level from an object; streams that need them check the numbers."""
    items = _items(path, value)
    return {as_text(key): amount(f"{path}.{key}", entry) for key, entry in items if not is_absent(entry)}


def time(
    path: str, value: Any, unit: str | None = None, timezone: str | None = None, clocks: Clocks | None = None
) -> int:
    """Return a time in epoch milliseconds; digits below the millisecond are cut off.

    `unit` names the unit for numbers (`s`, `ms`, `us`, `ns`), or the form of text: `rfc3339`, `iso`, or a
    pattern of `strptime`. None: numbers are ms; with a `timezone`, None means text in the form `iso`, and
    numbers are refused. Text and dates without an offset are read in `timezone`, or in UTC without one. With
    the unit `ms`, numbers then count from local 1970. `clocks` counts the times by their kind of zone. Raises
    ValueError for a value that is no such time, or is more than 100 million days from 1970.

    >>> time("value.at", 1.5, "s"), time("value.at", "1970-01-01T00:00:02Z"), time("value.at", "3000", "us")
    (1500, 2000, 3)
    >>> time("at", "1970-01-01 01:00:03", "iso", "Europe/Paris"), time("at", "1970", "%Y", "UTC")
    (3000, 0)
    >>> time("at", datetime(1970, 1, 1, 1), timezone="Europe/Paris")
    0
    """
    result = None
    if unit is None and timezone is not None:
        unit = ISO
    written = unit is not None and unit not in UNITS and unit != RFC3339
    if type(value) is int and unit in (None, "ms"):
        result = value if timezone is None else _of_local(value, timezone, clocks)
    elif isinstance(value, date):  # or a datetime, which is one
        result = _of_date(value, timezone, clocks)
    elif isinstance(value, str):
        result = _of_text(value.strip(), unit, timezone, clocks)
    elif isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        if written:
            result = None if unit == ISO else _of_text(as_text(value), unit, timezone, clocks)
        else:
            result = _scaled(value, unit)
    if result is None or not -values.MAX_TS <= result <= values.MAX_TS:
        raise ValueError(f"{path} is {values.quoted(value)}: expected {_expected_time(value, unit)}")
    return result


def _expected_time(value: Any, unit: str | None) -> str:
    if unit == ISO:
        return "an ISO 8601 time, such as 2024-05-01 12:00:00"
    if unit is not None and unit not in UNITS and unit != RFC3339:
        return f"a time as {values.quoted(unit)} has it"
    expected = {
        None: "epoch milliseconds or an RFC 3339 time with offset",
        RFC3339: "an RFC 3339 time with offset, such as 2024-05-01T12:00:00Z",
    }.get(unit, f"a time since 1970 in {unit}")
    return f"{expected}, or timezone next to path" if lacks_offset(value) else expected


def lacks_offset(value: Any) -> bool:
    """Whether a value is a time as text without an offset.

    >>> lacks_offset("2024-05-01 12:00:00"), lacks_offset("2024-05-01T12:00:00Z"), lacks_offset("12")
    (True, False, False)
    """
    if not isinstance(value, str) or _NUMBER.fullmatch(value.strip()):
        return False
    moment = _iso(value.strip())
    return moment is not None and moment.tzinfo is None


def one_of(path: str, value: Any, field: Field) -> values.Class:
    """Return the name of a value in a field's `map`."""
    names = existing(field.names, "the field's `map`")
    result = names.get(as_text(value))
    if result is None:
        known_names = list(names)
        expected = (
            f"{', '.join(known_names[:-1])} or {known_names[-1]}" if len(known_names) > 1 else known_names[0]
        )
        raise ValueError(f"{path} is {values.quoted(value)}: expected {expected}")
    return result


def above_or_below(path: str, value: Any, field: Field) -> values.Class:
    """Return a number's class: `above` from the threshold on, else `below`."""
    is_above = number(path, value) >= existing(field.threshold, "the field's threshold")
    result = field.above if is_above else field.below
    if result is None:
        raise Fault("a class of the threshold is missing: this is a fault of prequential")
    return result


def number_of_text(value: Any) -> Any:
    """Return the number in a text, for numeric targets; any other value unchanged.

    >>> number_of_text("0.5"), number_of_text("n/a")
    (0.5, 'n/a')
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    return value


def is_absent(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, or a missing value of pandas (`NA`, `NaT`).

    >>> is_absent(None), is_absent(float("nan")), is_absent(0)
    (True, True, False)
    """
    if value is None:
        return True
    try:
        return bool(value != value)  # NaN
    except (TypeError, ValueError, ArithmeticError):  # NA, an array, a Decimal that signals
        return type(value).__name__ == "NAType" or isinstance(value, Decimal)


def _plain(path: str, value: Any) -> Any:
    """Return a value as a string, a boolean, an integer if it is whole, or a float."""
    if isinstance(value, Enum):
        value = values.plain(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{path} is {values.quoted(value)}: expected text in UTF-8") from None
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and value.is_integer() and -_EXACT < value < _EXACT:
        return int(value)
    if not isinstance(value, (str, bool, int, float, Mapping, list, tuple)):
        value = values.plain(value)
        if isinstance(value, (str, bool, int, float)):
            return value
        if not _has_text(value):
            raise ValueError(f"{path} is {values.quoted(value)}: expected a string, a number or a boolean")
        return str(value)
    return value


def _has_text(value: Any) -> bool:
    """Return whether a value has its own text form, as a date or a UUID has; collections and functions don't.

    >>> from datetime import date
    >>> _has_text(date(2026, 1, 5)), _has_text(object()), _has_text({1, 2}), _has_text(print)
    (True, False, False, False)
    """
    kind: Any = type(value)
    by_default = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
    return not (by_default or callable(value) or hasattr(kind, "__iter__"))


def _items(path: str, value: Any) -> list[tuple[Any, Any]]:
    """Return the entries of an object, or of one in JSON as a table of text has it.

    Arrow returns maps as lists of pairs.
    """
    expected = "expected an object"
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = _any_object(value)
        except Unreadable as error:
            expected = f"expected an object, or the JSON of one ({error})"
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list) and all(isinstance(entry, tuple) for entry in value):
        return value
    raise ValueError(f"{path} is {values.quoted(value)}: {expected}")


def _scaled(value: float | Decimal, unit: str | None) -> int | None:
    """Convert a number to ms; None if the unit is `rfc3339`, or the number is far beyond all times."""
    largest: float = values.MAX_TS * UNITS["ms"]  # the largest time in the smallest unit
    if unit == RFC3339 or not -largest <= value <= largest:
        return None
    of_unit = UNITS[unit or "ms"]
    if isinstance(value, float):
        nanoseconds = round(value * of_unit / _MICROSECOND) * _MICROSECOND
    else:
        nanoseconds = math.floor(value * of_unit)
    return nanoseconds // _NANOSECONDS_OF_MS


def _of_date(value: date, zone: str | None, clocks: Clocks | None) -> int:
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    if moment.tzinfo is None:
        info = None if zone is None else ZoneInfo(zone)
        if clocks is not None:
            clocks.note_local(value, info)
        moment = moment.replace(tzinfo=info or timezone.utc, fold=0)
    elif clocks is not None:
        clocks.note("aware", value)
    return (moment - _EPOCH) // _MILLISECOND


def _of_local(value: int, zone: str, clocks: Clocks | None) -> int | None:
    """Return UTC in ms for a local time of a zone in ms; None if it is outside Python's calendar."""
    try:
        return _of_date(_EPOCH.replace(tzinfo=None) + value * _MILLISECOND, zone, clocks)
    except OverflowError:
        return None


def _iso(text: str) -> datetime | None:
    """Return an ISO 8601 time or date; None if the text is neither."""
    text = _BEYOND.sub(r"\1", text)
    try:
        return datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text)
    except ValueError:
        return None


def _of_text(text: str, unit: str | None, zone: str | None, clocks: Clocks | None) -> int | None:
    if unit in (None, *UNITS) and _NUMBER.fullmatch(text):
        try:
            return _scaled(Decimal(text), unit)
        except InvalidOperation:  # the exponent is too large
            return None
    if unit in (None, RFC3339):
        try:
            result = milliseconds(text)
        except ValueError:
            return None
        if clocks is not None:
            clocks.note("aware", text)
        return result
    if unit in UNITS:
        return None
    try:
        moment = _iso(text) if unit == ISO else datetime.strptime(text, unit)
    except ValueError:
        return None
    if moment is None or (moment.tzinfo is None and zone is None):
        return None
    return _of_date(moment, zone, clocks)


#: The function that converts a field's values.
CONVERTERS: dict[str, Callable[[str, Any], Any]] = {
    "stream": name, "model": model, "instance_id": instance,
    "y_pred": target, "y_true": target, "ts": time,
    "version": integer, "model_version": name, "segments": name,
    "label_propensity": propensity,
    **dict.fromkeys((*NUMBERS, "quantiles"), amount),
}  # fmt: skip
