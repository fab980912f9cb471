"""What a program may put into messages: each value checked, and brought to the form that is written.

All raise ValueError in one sentence that begins with the field, quotes the value and says what was expected.
numpy's scalars are understood.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from itertools import pairwise
from typing import Any, Union

import msgspec
from prequential.topics import foreign_json, messages
from prequential.topics.messages import MAX_AMOUNT, MAX_NAME_BYTES, MIN_PROPENSITY, NUMBERS

#: Largest |ts| in ms: 100 million days from 1970, as far as decoding takes a message's `ts`.
MAX_TS = 8_640_000_000_000_000

#: Integers travel as 64 bits with sign.
_MAX_INTEGER = (1 << 63) - 1

#: Longest excerpt of a bad value in an error, in characters.
_QUOTED = 48

#: Longest name of a set of labels, in bytes of UTF-8.
MAX_SET_BYTES = 4096

#: Text of a whole number that tables write as a fraction where a column has empty cells.
_WHOLE = re.compile(r"(-?\d+)\.0*")

#: A number as Excel and databases write it in many countries.
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")

#: Bytes in base64, as far as padding tells them from words.
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{2}(?:[A-Za-z0-9+/]=|==)")

_BOOLEANS = {"True": True, "true": True, "TRUE": True, "False": False, "false": False, "FALSE": False}

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)

_any_json, _strings = foreign_json.reader(), foreign_json.reader(list[str])

Id = Union[str, int]
Class = Union[str, int, bool, float]
Labels = Iterable[Any]
Time = Union[int, datetime, None]


def quoted(value: object) -> str:
    """A value as errors show it, cut off where it is long.

    >>> quoted("UP")
    "'UP'"
    """
    text = repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def expected_number(value: object, expected: str) -> str:
    """What to expect in place of a value that is no number, and how to get it where its form is a known one.

    >>> expected_number("0,5", "a number"), expected_number("n/a", "a number")
    ('a number with a decimal point, where it has a comma', 'a number')
    """
    if isinstance(value, str):
        if _DECIMAL_COMMA.fullmatch(value.strip()):
            return f"{expected} with a decimal point, where it has a comma"
        if _BASE64.fullmatch(value):
            return (
                f"{expected}, where it has base64, as Kafka Connect writes decimals: set `decimal.format` to "
                "NUMERIC, or Debezium's `decimal.handling.mode` to double"
            )
    return expected


def why_no_record_time(time: int) -> str | None:
    """Why a Kafka record's timestamp (ms) is no time at all; None if it may be one.

    >>> why_no_record_time(2**62)
    'record time is 4611686018427387904: expected epoch milliseconds within 100 million days of 1970'
    """
    if abs(time) <= MAX_TS:
        return None
    return f"record time is {time}: expected epoch milliseconds within 100 million days of 1970"


def plain(value: object) -> object:
    """The Python value in a numpy scalar or in the member of an Enum; anything else as it is.

    >>> class Kind(str, Enum):
    ...     A = "SN Ia"
    >>> plain(Kind.A)
    'SN Ia'
    """
    if isinstance(value, Enum):
        return plain(value.value)
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "ndim", None) == 0 else value


def text(field: str, value: object) -> str:
    """A name as it may be written: a string of at most `MAX_NAME_BYTES` bytes of UTF-8.

    Raises ValueError for anything else, with `field` as what it is.

    >>> text("model", "nb")
    'nb'
    """
    if isinstance(value, Enum):
        value = plain(value)
    if not isinstance(value, str):
        raise ValueError(f"{field} is {quoted(value)}: expected a string")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        code = next(ord(character) for character in value if "\ud800" <= character <= "\udfff")
        expected = (
            f"text in UTF-8, where it has the byte {code & 0xFF:#04x}: convert the source, perhaps from "
            "Windows-1252 (cp1252)"
            if 0xDC80 <= code <= 0xDCFF  # how Python keeps a byte that isn't UTF-8
            else "Unicode without surrogates"
        )
        raise ValueError(f"{field} is {quoted(value)}: expected {expected}") from None
    if size > MAX_NAME_BYTES:
        raise ValueError(f"{field} {quoted(value)} has {size} bytes: at most {MAX_NAME_BYTES} are allowed")
    return str(value)


def why_blank(field: str, name: str) -> str | None:
    """Why a name is refused in which nothing can be seen; None for any other.

    >>> why_blank("model", " "), why_blank("model", "nb")
    ("model is ' ': expected a name that isn't blank", None)
    """
    if name and not name.isspace():
        return None
    return f"{field} is {quoted(name)}: expected a name that isn't blank"


def model_name(value: object) -> str:
    """The name of a model, as `text`; raises ValueError for one that is blank, too."""
    name = text("model", value)
    if (why := why_blank("model", name)) is not None:
        raise ValueError(why)
    return name


def identifier(field: str, value: object) -> str:
    """An id as a string: an integer and its decimal string are the same id.

    Raises ValueError for anything else, and for what is longer than a name may be.

    >>> identifier("instance_id", 17)
    '17'
    """
    value = plain(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(integer(field, value))
    if not isinstance(value, str):
        raise ValueError(f"{field} is {quoted(value)}: expected a string or an integer")
    return text(field, value)


def integer(field: str, value: object) -> int:
    """An integer that 64 bits with sign hold, of Python or numpy; raises ValueError for anything else.

    >>> integer("version", True)
    Traceback (most recent call last):
    ...
    ValueError: version is True: expected an integer of at most 64 bits
    """
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MAX_INTEGER:
        raise ValueError(f"{field} is {quoted(value)}: expected an integer of at most 64 bits")
    return int(value)


class ArrayText(str):
    """An array as compact JSON: a set of labels, or indicators."""

    __slots__ = ()


class LabelSet(ArrayText):
    """The name of a set of labels: its labels in order, as a compact JSON array."""

    __slots__ = ()


class Indicators(ArrayText):
    """An array of 0 and 1, or booleans, as compact JSON.

    It is a vector of indicators by label where a stream's `classes` name the labels, else the set of the
    labels 0 and 1, if it can be one.
    """

    __slots__ = ()


def is_set(value: object) -> bool:
    """Whether a value is a set of labels: a list, a tuple, a set or an array of one dimension."""
    return isinstance(value, (list, tuple, set, frozenset)) or getattr(value, "ndim", None) == 1


def label_set(field: str, labels: Labels) -> LabelSet:
    """The name of a set of labels; order and repetitions don't matter, and 1 is the same label as `"1"`.

    Raises ValueError for a label that is no class, for a vector of indicators, and for a name of more than
    `MAX_SET_BYTES` bytes.

    >>> label_set("y_true", ["b", 2, "a", "b"])
    '["2","a","b"]'
    """
    labels = [plain(label) for label in labels]
    if _are_indicators(labels):
        raise ValueError(
            f"{field} is {quoted(labels)}, a vector of {INDICATORS}: expected the names of its labels, such "
            'as ["a", "b"], or the setting `classes`, which names them by place'
        )
    names = sorted({class_name(f"a label of {field}", label) for label in labels})
    name = msgspec.json.encode(names)
    if len(name) > MAX_SET_BYTES:
        raise ValueError(
            f"{field} has {len(names)} labels of {len(name)} bytes: at most {MAX_SET_BYTES} are allowed"
        )
    return LabelSet(name.decode())


def array_text(field: str, labels: Labels) -> ArrayText:
    """A set of labels as `label_set` has it, or an array of 0 and 1 as it is: only a stream's settings tell.

    Raises ValueError as `label_set` does, but for vectors of indicators.

    >>> array_text("y_true", ["b", "a"]), array_text("y_true", [1.0, 0, 1]), array_text("y_true", [True])
    ('["a","b"]', '[1,0,1]', '[true]')
    """
    is_ordered = not isinstance(labels, (set, frozenset))
    labels = [plain(label) for label in labels]
    if not labels or not is_ordered or not all(map(_is_indicator, labels)):
        return label_set(field, labels)
    written = [label if isinstance(label, bool) else int(label) for label in labels]
    return Indicators(msgspec.json.encode(written).decode())


def set_of_indicators(field: str, indicators: Indicators, classes: Sequence[str] | None) -> LabelSet:
    """The set of the labels whose indicators are 1, by a stream's `classes`.

    Without these, 0 and 1 are labels themselves.

    Raises ValueError where there are not as many indicators as classes, and as `label_set` does.

    >>> set_of_indicators("y_true", Indicators("[1,0,1]"), ("jazz", "rock", "sad"))
    '["jazz","sad"]'
    >>> set_of_indicators("y_true", Indicators("[1,0]"), None)
    '["0","1"]'
    """
    array = _any_json(indicators)
    if classes is None:
        return label_set(field, array)
    if len(array) != len(classes):
        raise ValueError(
            f"{field} is {quoted(array)}, {len(array)} {INDICATORS}: expected {len(classes)}, one for each "
            "of the stream's `classes`"
        )
    return label_set(field, [name for name, is_in in zip(classes, array) if is_in])


#: What errors call vectors such as [1, 0, 1].
INDICATORS = "indicators"


def _is_indicator(label: Any) -> bool:
    return isinstance(label, (bool, int, float)) and label in (0, 1)


def _are_indicators(labels: list[Any]) -> bool:
    """Whether these are 0 and 1, or booleans, by label instead of labels: some come twice, unlike in a set.

    >>> _are_indicators([1, 0, 1]), _are_indicators([True]), _are_indicators([1])
    (True, True, False)
    """
    if not labels or not all(map(_is_indicator, labels)):
        return False
    return any(isinstance(label, bool) for label in labels) or len(labels) > len(set(labels))


def array_of_text(text: str) -> ArrayText | None:
    """The set of labels, or the indicators, in a JSON array as text; None for any other text.

    >>> array_of_text('["b", "a"]'), array_of_text("[true, false]"), array_of_text("a, b")
    ('["a","b"]', '[true,false]', None)
    """
    if isinstance(text, ArrayText):
        return text
    try:
        labels = _any_json(text)
        return array_text("labels", labels) if isinstance(labels, list) else None
    except ValueError:
        return None


def labels_of(name: str) -> list[str]:
    """The labels in the set with this name; none for the name of anything else.

    >>> labels_of('["a","b"]'), labels_of("a")
    (['a', 'b'], [])
    """
    try:
        return _strings(name)
    except ValueError:
        return []


def written(value: object) -> msgspec.Raw:
    """A set of labels as JSON, for msgspec's `enc_hook`; raises NotImplementedError for anything else."""
    if isinstance(value, ArrayText):
        return msgspec.Raw(value.encode())
    raise NotImplementedError(f"{type(value).__name__} has no JSON")


def target(field: str, value: object) -> Class:
    """A class (string, integer, boolean), a set of them or a finite number, in Python's types.

    Raises ValueError for anything else.

    >>> target("y_true", "UP"), target("y_true", 0.5), target("y_true", ("b", "a"))
    ('UP', 0.5, '["a","b"]')
    """
    if isinstance(value, ArrayText):
        return value
    if is_set(value):
        return array_text(field, value)  # type: ignore[arg-type]
    value = plain(value)
    if isinstance(value, str):
        return text(field, value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return integer(field, value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    raise ValueError(
        f"{field} is {quoted(value)}: expected a string, an integer, a boolean or a finite number"
    )


def class_of_text(value: Any) -> Any:
    """The class that a text is, where programs have written numbers and booleans as text.

    >>> class_of_text("1.0"), class_of_text("True"), class_of_text("007"), class_of_text("1.5")
    ('1', True, '007', '1.5')
    """
    if isinstance(value, str):
        if whole := _WHOLE.fullmatch(value):
            return whole[1]
        return _BOOLEANS.get(value, value)
    return value


def class_name(field: str, value: object) -> str:
    """The name of a class, as output shows it: whole numbers have no fraction, booleans are `true`, `false`.

    Other numbers are classes by their shortest decimal form. Raises ValueError for anything that is no class.

    >>> class_name("y_true", True), class_name("y_true", 1.0), class_name("y_true", "1.0")
    ('true', '1', '1.0')
    >>> class_name("y_true", 0.5), class_name("y_true", 1e-7)
    ('0.5', '0.0000001')
    """
    value = plain(value)
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < MAX_NAME_BYTES:
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, float) and math.isfinite(value):
        return text(field, f"{Decimal(repr(value)):f}")
    if isinstance(value, (bool, int, str)):
        value = target(field, value)
        return value if isinstance(value, str) else str(value).lower()
    raise ValueError(f"{field} is {quoted(value)}: expected a string, a finite number or a boolean")


def milliseconds(ts: object) -> int | None:
    """A time as epoch milliseconds: they themselves, or a datetime with a time zone; None stays None.

    Raises ValueError for anything else, and beyond `MAX_TS`.

    >>> milliseconds(datetime(1970, 1, 1, 0, 0, 2, tzinfo=timezone.utc))
    2000
    """
    if isinstance(ts, datetime):
        if ts != ts or ts.utcoffset() is None:  # NaT of pandas is a datetime
            raise ValueError(f"ts is {quoted(ts)}: expected a datetime with a time zone")
        return (ts - _EPOCH) // _MILLISECOND
    value = plain(ts)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_TS:
        raise ValueError(f"ts is {quoted(ts)}: expected integer milliseconds or a datetime with a time zone")
    return int(value)


def segments(segments: Mapping[str, str] | None) -> dict[str, str] | None:
    """Groups of an instance: values by key, both names; raises ValueError for anything else.

    >>> segments({"arm": "A"})
    {'arm': 'A'}
    """
    if segments is None:
        return None
    if not isinstance(segments, Mapping):
        raise ValueError(f"segments is {quoted(segments)}: expected values by key, such as {{'arm': 'A'}}")
    return {
        text("a segment's name", name): text(f"segment {name!r}", value) for name, value in segments.items()
    }


def propensity(value: float | None) -> float | None:
    """The probability with which an instance gets a label: a number from `MIN_PROPENSITY` to 1.

    Raises ValueError for anything else.

    >>> propensity(0.25)
    0.25
    """
    if value is None:
        return None
    share = plain(value)
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not MIN_PROPENSITY <= share <= 1:
        raise ValueError(
            f"label_propensity is {quoted(value)}: expected a number from {MIN_PROPENSITY:g} to 1"
        )
    return float(share)


def number(field: str, value: object) -> float | None:
    """A record's number in a field of `NUMBERS`; raises ValueError if it is none, or is out of range.

    >>> number("value", 12.5), number("value", None)
    (12.5, None)
    """
    if value is None:
        return None
    plain_value, (low, high, *_) = plain(value), NUMBERS[field]
    if (
        isinstance(plain_value, bool)
        or not isinstance(plain_value, (int, float))
        or not low <= plain_value <= high
    ):
        span = f"up to {high:g}" if low == -high else f"from {low:g} to {high:g}"
        expected = expected_number(value, f"a number {span}")
        raise ValueError(f"{field} is {quoted(value)}: expected {expected}")
    return float(plain_value)


def numbers(fields: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a record, without those that are None, by field.

    Raises ValueError for an invalid number, and TypeError for a name that is no field.

    >>> numbers({"y_lower": 1, "y_upper": 2.5, "value": None})
    {'y_lower': 1.0, 'y_upper': 2.5}
    >>> numbers({"y_lower": 3, "y_upper": 2})
    Traceback (most recent call last):
    ...
    ValueError: y_lower is 3 and y_upper 2: expected y_lower <= y_upper
    >>> numbers({"y_middle": 3})
    Traceback (most recent call last):
    ...
    TypeError: unexpected argument 'y_middle': expected value, ...
    """
    if unknown := fields.keys() - NUMBERS.keys():
        raise TypeError(f"unexpected argument {min(unknown)!r}: expected {', '.join(NUMBERS)}")
    checked = {}
    for field in NUMBERS:
        value = number(field, fields.get(field))
        if value is not None:
            checked[field] = value
        elif field in _PARTNERS and fields.get(_PARTNERS[field]) is not None:
            partner = f"{_PARTNERS[field]} {quoted(fields[_PARTNERS[field]])}"
            raise ValueError(f"{partner} stands without {field}: expected both, or neither")
    for upper, value in checked.items():
        lower = NUMBERS[upper].above
        if lower and checked[lower] > value:
            both = f"{lower} is {quoted(fields[lower])} and {upper} {quoted(fields[upper])}"
            raise ValueError(f"{both}: expected {lower} <= {upper}")
    return checked


#: By a number's field, that of the number without which it means nothing.
_PARTNERS = {one.above: name for name, one in NUMBERS.items() if one.above}
_PARTNERS |= {upper: lower for lower, upper in _PARTNERS.items()}


def quantiles(by_level: Mapping[Any, Any] | None) -> dict[str, float] | None:
    """A prediction's quantiles by level, in the levels' order; else ValueError.

    Levels are numbers above 0 and below 1, also as text. Quantiles are numbers up to `MAX_AMOUNT` that don't
    decrease with the level.

    >>> quantiles({"0.5": 4, 0.1: 3.5})
    {'0.1': 3.5, '0.5': 4.0}
    >>> quantiles({"0.1": 5, "0.5": 4})
    Traceback (most recent call last):
    ...
    ValueError: quantile 0.1 is 5.0 and quantile 0.5 is 4.0: expected numbers that don't decrease
    """
    if by_level is None:
        return None
    if not isinstance(by_level, Mapping):
        raise ValueError(
            f"quantiles is {quoted(by_level)}: expected numbers by level, such as {{'0.5': 4.2}}"
        )
    numbers: dict[float, float] = {}
    for key, value in by_level.items():
        level = _level(plain(key))
        if not 0.0 < level < 1.0:
            raise ValueError(f"quantiles has level {quoted(key)}: expected a number above 0 and below 1")
        if level in numbers:
            raise ValueError(f"quantiles has level {level!r} twice: expected one number for each")
        number = plain(value)
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not abs(number) <= MAX_AMOUNT:
            expected = expected_number(value, f"a number up to {MAX_AMOUNT:g}")
            raise ValueError(f"quantile {level!r} is {quoted(value)}: expected {expected}")
        numbers[level] = float(number)
    levels = sorted(numbers)
    for low, high in pairwise(levels):
        if numbers[low] > numbers[high]:
            raise ValueError(
                f"quantile {low!r} is {numbers[low]!r} and quantile {high!r} is {numbers[high]!r}: "
                "expected numbers that don't decrease"
            )
    return {repr(level): numbers[level] for level in levels}


def _level(key: object) -> float:
    """A level as a number; NaN if it is none."""
    if isinstance(key, (str, int, float)) and not isinstance(key, bool):
        with suppress(ValueError, OverflowError):
            return float(key)
    return math.nan


def is_array(value: object) -> bool:
    """Whether a value is an array of one dimension: a list, a tuple, or one of numpy; no list of pairs.

    >>> is_array([0.7, 0.3]), is_array([("a", 0.7)]), is_array({"a": 0.7})
    (True, False, False)
    """
    if isinstance(value, (list, tuple)):
        return not any(isinstance(entry, tuple) for entry in value)
    return getattr(value, "ndim", None) == 1


def by_place(field: str, shares: Iterable[Any], classes: Sequence[str] | None) -> dict[str, Any]:
    """Probabilities in an array, by class: `classes` are the names by place, a stream's setting.

    Raises ValueError without `classes`, and where there are not as many probabilities as classes.

    >>> by_place("y_proba", [0.7, 0.3], ("UP", "DOWN"))
    {'UP': 0.7, 'DOWN': 0.3}
    """
    array = [plain(share) for share in shares]
    if classes is None:
        raise ValueError(
            f"{field} is {quoted(array)}: expected probabilities by class, such as {{'UP': 0.8}}, or the "
            "setting `classes`, which names the class of each place"
        )
    if len(array) != len(classes):
        raise ValueError(
            f"{field} is {quoted(array)}, {len(array)} probabilities: expected {len(classes)}, one for each "
            "of the stream's `classes`"
        )
    return dict(zip(classes, array))


def probabilities(
    y_proba: Mapping[Any, float] | Sequence[float] | None, y_pred: object = None,
    classes: Sequence[str] | None = (),
) -> dict[str, float] | None:  # fmt: skip
    """Probabilities by class, whose names become strings; what rounding brings out of 0 … 1 is clipped.

    Where `y_pred` is a number or a boolean, `1.0` and `True` as text are the classes that programs write so.
    `classes` are those of an array, by place; None: a stream's setting lacks them, (): there is no such
    setting. Raises ValueError, naming the class, for what isn't from 0 to 1, for a class that comes twice,
    and for a sum above `MAX_PROBABILITY_SUM`.

    >>> probabilities({True: 0.75, False: 0.25}), probabilities({1.0: 0.7, 0.0: 0.3})
    ({'true': 0.75, 'false': 0.25}, {'1': 0.7, '0': 0.3})
    """
    if y_proba is None:
        return None
    if is_array(y_proba) and classes != ():
        y_proba = by_place("y_proba", y_proba, classes)  # type: ignore[arg-type]
    if not isinstance(y_proba, Mapping):
        raise ValueError(
            f"y_proba is {quoted(y_proba)}: expected probabilities by class, such as {{'UP': 0.8}}"
        )
    is_text = y_pred is None or isinstance(plain(y_pred), str)
    written: dict[str, float] = {}
    for key, value in y_proba.items():
        label = class_name("a class of y_proba", key if is_text else class_of_text(key))
        share = plain(value)
        if isinstance(share, Decimal) and not share.is_nan():
            share = float(share)
        number = math.nan
        if isinstance(share, (int, float)) and not isinstance(share, bool):
            number = messages.clipped(share)
        if not 0 <= number <= 1:  # NaN, too
            raise ValueError(
                f"y_proba of {quoted(label)} is {quoted(value)}: expected a probability from 0 to 1"
            )
        if label in written:
            raise ValueError(f"y_proba has class {quoted(label)} twice: expected one probability for each")
        written[label] = float(number)
    messages.check_probabilities(written)
    return written
