"""One value of a source in the form that a field of ours has.

All take the value's path first, and raise ValueError in one sentence that begins with it, quotes the value
and says what was expected. Nothing is None or NaN here: that is no value at all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

from prequential.mapping.clocks import Clocks
from prequential.mapping.model import Field, as_text
from prequential.mapping.units import ISO, RFC3339, UNITS
from prequential.topics import values
from prequential.topics.errors import Fault, existing
from prequential.topics.messages import MAX_NAME_BYTES, check_probabilities, clipped
from prequential.topics.times import milliseconds

#: Strings of up to so many characters have at most `MAX_NAME_BYTES` bytes, if they are ASCII.
_SHORT = MAX_NAME_BYTES

#: Floats below it are whole numbers exactly if they have no fraction.
_EXACT = 1 << 53

#: Integers below it have surely no more digits than a name may have bytes.
FEW_DIGITS = 10 ** (MAX_NAME_BYTES - 2)

_NANOSECONDS_OF_MS = 1_000_000

#: To what times that are floats are rounded, in ns: seconds since 1970 have no digits below it.
_MICROSECOND = 1_000

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)

#: Digits of seconds beyond those that Python's own times have, and an offset without a colon.
_BEYOND = re.compile(r"(\.\d{6})\d+")

#: Text that is a number as JSON, CSV and SQL write it.
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")

#: A long number as spreadsheets show it, with either decimal mark.
_ROUNDED = re.compile(r"\d[.,]\d+E\+\d\d+")


def name(path: str, value: Any) -> str:
    """A name: a string, or a whole number or a boolean as one.

    >>> name("value.country", b"DE"), name("value.version", 3.0), name("value.new", True)
    ('DE', '3', 'true')
    """
    if type(value) is str and len(value) <= _SHORT and value.isascii():
        return value
    if isinstance(value, bool):
        return as_text(value)
    return identifier(path, value)


def identifier(path: str, value: Any) -> str:
    """An id: a string, or a whole number as one."""
    if type(value) is str and len(value) <= _SHORT and value.isascii():
        return value
    if type(value) is int and -FEW_DIGITS < value < FEW_DIGITS:
        return str(value)
    value = _plain(path, value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"{path} is {values.quoted(value)}: expected a string or a whole number")
    return values.text(path, str(value))


def instance(path: str, value: Any) -> str:
    """An instance's id, in full: a spreadsheet shows a long one as a rounded number.

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
    r"""One id of several; different parts give different ids.

    >>> together("customer, day", ("7", "2024-05-01")), together("a, b", ("x|y", "z"))
    ('7|2024-05-01', 'x\\|y|z')
    """
    return values.text(path, "|".join(one.replace("\\", r"\\").replace("|", r"\|") for one in parts))


def target(path: str, value: Any) -> values.Class:
    """A class or a number; numbers without a fraction are whole ones.

    >>> target("value.label", 1.0), target("value.label", 0.5)
    (1, 0.5)
    """
    if type(value) is str and len(value) <= _SHORT and value.isascii():
        return value
    value = _plain(path, value)
    if type(value) is int and -FEW_DIGITS < value < FEW_DIGITS:
        return value
    return values.target(path, value)


def number(path: str, value: Any) -> float:
    """A finite number; text of one is one."""
    given = values.plain(value)
    is_number = isinstance(given, (int, float, Decimal)) and not isinstance(given, bool)
    result = math.nan
    if is_number or (isinstance(given, str) and _NUMBER.fullmatch(given.strip())):
        with suppress(OverflowError, ValueError):  # beyond all floats; a Decimal that signals
            result = float(given)  # type: ignore[arg-type]
    if result - result != 0:
        expected = values.expected_number(value, "a number")
        raise ValueError(f"{path} is {values.quoted(value)}: expected {expected}")
    return result


def integer(path: str, value: Any) -> int:
    """An integer of 64 bits; text of one is one."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,20}", value.strip()):
        value = int(value)
    return values.integer(path, _plain(path, value))


def share(path: str, value: Any) -> float:
    """A probability; what rounding brings out of 0 … 1 is clipped."""
    result = clipped(number(path, value))
    if not 0 <= result <= 1:
        raise ValueError(f"{path} is {values.quoted(value)}: expected a probability from 0 to 1")
    return result


def remainder(path: str, value: Any) -> float:
    """What a probability leaves of 1."""
    return 1 - share(path, value)


def propensity(path: str, value: Any) -> float | None:
    """The probability of a label."""
    return values.propensity(number(path, value))


def amount(path: str, value: Any) -> Any:
    """What is at stake, or a bound: a number where it is one; else as it is, as streams may ignore it."""
    if value != value:
        return None
    with suppress(ValueError):
        return number(path, value)
    return value


def probabilities(path: str, value: Any) -> dict[str, float]:
    """Probabilities by class, from an object of them: of each class that is named, or of none.

    >>> probabilities("value.p", {1.0: 0.75, 0.0: 0.25})
    {'1': 0.75, '0': 0.25}
    """
    result: dict[str, float] = {}
    absent = None
    for key, one in _items(path, value):
        if is_absent(one):
            absent = absent or f"{path}.{as_text(key)}"
            continue
        label = values.class_name(f"a class of {path}", _plain(path, key) if key is not None else key)
        if label in result:
            twice = f"{path} has class {values.quoted(label)} twice"
            raise ValueError(f"{twice}: expected one probability for each")
        result[label] = share(f"{path}.{label}", one)
    if absent is not None and result:
        raise ValueError(missing_probability(absent, f"{path}.{next(iter(result))}"))
    check_probabilities(result)
    return result


def missing_probability(path: str, other: str) -> str:
    """What is wrong with a record in which one class has a probability and another one hasn't.

    >>> missing_probability("y_proba.a", "y_proba.b")
    'y_proba.a is missing, while y_proba.b is given: expected a probability for each class, or for none'
    """
    return f"{path} is missing, while {other} is given: expected a probability for each class, or for none"


def segments(path: str, value: Any) -> dict[str, str]:
    """Segments by key, from an object of them."""
    items = _items(path, value)
    if any(is_absent(key) for key, _ in items):
        raise ValueError(f"{path} has a key without a value: expected names")
    return {name(path, key): name(f"{path}.{key}", one) for key, one in items if not is_absent(one)}


def time(
    path: str, value: Any, unit: str | None = None, timezone: str | None = None, clocks: Clocks | None = None
) -> int:
    """Epoch milliseconds; digits below the millisecond are cut off.

    A time without an offset is read as one of `timezone`, or as UTC where that isn't given.

    Parameters
    ----------
    path
        Where the value is, for errors.
    value
        A number, a text, a date or a datetime.
    unit
        What numbers count (`s`, `ms`, `us`, `ns`), or how text is written: `rfc3339`, `iso`, or a pattern of
        `strptime`. None: numbers are ms; beside a `timezone` text is `iso`, and numbers are refused.
    timezone
        Of text and dates without an offset; with the unit `ms` of numbers that count from local 1970.
    clocks
        Counts what times say of their zone.

    Raises
    ------
    ValueError
        For what is no such time, or beyond 100 million days of 1970.

    Examples
    --------
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
    said = {
        None: "epoch milliseconds or an RFC 3339 time with offset",
        RFC3339: "an RFC 3339 time with offset, such as 2024-05-01T12:00:00Z",
    }.get(unit, f"a time since 1970 in {unit}")
    return f"{said}, or timezone beside path" if lacks_offset(value) else said


def lacks_offset(value: Any) -> bool:
    """Whether it is text of a time that doesn't say in which zone.

    >>> lacks_offset("2024-05-01 12:00:00"), lacks_offset("2024-05-01T12:00:00Z"), lacks_offset("12")
    (True, False, False)
    """
    if not isinstance(value, str) or _NUMBER.fullmatch(value.strip()):
        return False
    moment = _iso(value.strip())
    return moment is not None and moment.tzinfo is None


def one_of(path: str, value: Any, field: Field) -> values.Class:
    """What stands for a value in a field's `map`."""
    names = existing(field.names, "the field's `map`")
    result = names.get(as_text(value))
    if result is None:
        known = list(names)
        expected = f"{', '.join(known[:-1])} or {known[-1]}" if len(known) > 1 else known[0]
        raise ValueError(f"{path} is {values.quoted(value)}: expected {expected}")
    return result


def above_or_below(path: str, value: Any, field: Field) -> values.Class:
    """The class that a number stands for: `above` from the threshold on."""
    is_above = number(path, value) >= existing(field.threshold, "the field's threshold")
    result = field.above if is_above else field.below
    if result is None:
        raise Fault("a class beside the threshold is missing: this is a fault of prequential")
    return result


def number_of_text(value: Any) -> Any:
    """The number that a text is, for targets that are numbers; anything else as it is.

    >>> number_of_text("0.5"), number_of_text("n/a")
    (0.5, 'n/a')
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    return value


def is_absent(value: Any) -> bool:
    """Whether a cell has nothing in it: None, NaN, or what pandas has for a missing value (`NA`, `NaT`).

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
    """A value as a string, a boolean, a whole number where it is one, or a float."""
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
    """Return whether a value has a text of its own, as a date or a UUID has: collections and functions don't.

    >>> from datetime import date
    >>> _has_text(date(2026, 1, 5)), _has_text(object()), _has_text({1, 2}), _has_text(print)
    (True, False, False, False)
    """
    kind: Any = type(value)
    by_default = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
    return not (by_default or callable(value) or hasattr(kind, "__iter__"))


def _items(path: str, value: Any) -> list[tuple[Any, Any]]:
    """The entries of an object; Arrow gives maps as lists of pairs."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list) and all(isinstance(one, tuple) for one in value):
        return value
    raise ValueError(f"{path} is {values.quoted(value)}: expected an object")


def _scaled(value: float | Decimal, unit: str | None) -> int | None:
    """Milliseconds of a number of units; None if it is none, or is far beyond all times."""
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
    """UTC of a time that a zone's clock shows, ms; None if no calendar has it."""
    try:
        return _of_date(_EPOCH.replace(tzinfo=None) + value * _MILLISECOND, zone, clocks)
    except OverflowError:
        return None


def _iso(text: str) -> datetime | None:
    """An ISO 8601 time, or a date; None if it is none."""
    text = _BEYOND.sub(r"\1", text)
    try:
        return datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text)
    except ValueError:
        return None


def _of_text(text: str, unit: str | None, zone: str | None, clocks: Clocks | None) -> int | None:
    if unit in (None, *UNITS) and _NUMBER.fullmatch(text):
        try:
            return _scaled(Decimal(text), unit)
        except InvalidOperation:  # of an exponent beyond all bounds
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
    moment = _iso(text) if unit == ISO else _by_format(text, unit)
    if moment is None or (moment.tzinfo is None and zone is None):
        return None
    return _of_date(moment, zone, clocks)


def _by_format(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)
    except ValueError:
        return None
