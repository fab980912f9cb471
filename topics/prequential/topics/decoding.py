"""From a record's value to a typed message, or to the reason why it can't be used.

Up to three tries, each slower and more lenient than the one before: the whole batch in the pipeline's own
form; the whole batch in every form that is allowed; and, only when something in the batch is
unusable, each record by itself. So bad input and rare forms cost nothing where there are none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from prequential.topics import foreign_json, messages
from prequential.topics.foreign_json import FAILURES, SURELY_FLAT, check_text, is_deep, why_unreadable
from prequential.topics.messages import MAX_NAME_BYTES, MAX_VALUE_BYTES, Record
from prequential.topics.values import ArrayText, array_text, why_blank

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
#: More digits than a datetime has would be rounded, and a time must not move into the future.
_BEYOND_MICROSECONDS = re.compile(r"(\.\d{6})\d+")
#: The offset as RFC 3339 has it; msgspec takes `+0100`, too, which only ISO 8601 has.
_OFFSET = re.compile(r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})\Z")
#: A leap second, which neither a datetime nor epoch milliseconds have: it is the second behind it.
_LEAP = re.compile(r"([Tt ][0-9]{2}:[0-9]{2}:)60")
_rfc3339 = msgspec.json.Decoder(datetime)


def milliseconds(ts: str) -> int:
    """Epoch milliseconds of an RFC 3339 string; digits below the millisecond are cut off.

    Raises ValueError, quoting the string, if it is no RFC 3339 time or has no offset.

    >>> milliseconds("1970-01-01T00:00:01.5Z")
    1500
    >>> milliseconds("1970-01-01T01:00:00+01:00")
    0
    >>> milliseconds("2016-12-31T23:59:60Z") - milliseconds("2016-12-31T23:59:59Z")
    1000
    >>> milliseconds("9999-12-31T23:59:60Z")
    253402300800000
    >>> milliseconds("yesterday")
    Traceback (most recent call last):
    ...
    ValueError: ts is 'yesterday': expected epoch milliseconds or an RFC 3339 time with offset
    """
    moment, behind = _moment(ts), 0
    if moment is None:
        moment, behind = _moment(_LEAP.sub(r"\g<1>59", ts)), 1000
    if moment is None or not _OFFSET.search(ts):
        raise ValueError(f"ts is {ts[:64]!r}: expected epoch milliseconds or an RFC 3339 time with offset")
    return (moment - _EPOCH) // _MILLISECOND + behind


def _moment(ts: str) -> datetime | None:
    """The time of an ISO 8601 string; None: it is none."""
    try:
        moment: datetime = _rfc3339.decode(msgspec.json.encode(_BEYOND_MICROSECONDS.sub(r"\1", ts)))
    except msgspec.ValidationError:
        return None
    return moment


#: Input topics in the order in which records of the same time are processed.
KINDS = ("instances", "predictions", "labels")
INSTANCES, PREDICTIONS, LABELS = range(3)

_STRICT: tuple[Callable[..., Any], ...] = tuple(
    msgspec.json.Decoder(struct).decode for struct in (messages.Instance, messages.Prediction, messages.Label)
)
_LENIENT: tuple[Callable[..., Any], ...] = tuple(
    msgspec.json.Decoder(struct).decode
    for struct in (messages.WireInstance, messages.WirePrediction, messages.WireLabel)
)

_object = foreign_json.reader(dict[str, Any])
_json = foreign_json.reader()
_probabilities = foreign_json.reader(messages.GivenProbabilities)


#: Bytes of a value in which an array begins; white space may precede it.
_BLANKS = 64


class Decoded(NamedTuple):
    """A decoded batch.

    Attributes
    ----------
    records
        One for each value, in their order; None where it is unusable.
    reasons
        Why value i is unusable, in one sentence, by i.
    """

    records: list[Record | None]
    reasons: dict[int, str]


def decode(kind: int, values: Sequence[bytes | None]) -> Decoded:
    """Decode the values of one topic's records.

    Ids become strings, times epoch milliseconds. A value that can't be used raises nothing: it gets a reason.

    Parameters
    ----------
    kind
        Which input topic: `INSTANCES` (0), `PREDICTIONS` (1) or `LABELS` (2).
    values
        JSON in UTF-8, at most 1 MiB each; None for a record without a value.

    Returns
    -------
    Decoded
        `Instance`, `Prediction` or `Label`, or subclasses of them where a value wasn't in the pipeline's
        own form.

    Examples
    --------
    >>> decode(LABELS, [b'{"stream":"s","instance_id":7,"y_true":"UP"}']).records
    [WireLabel(stream='s', instance_id='7', y_true='UP', ts=None, value=None)]
    >>> decode(LABELS, [b'{"stream":"s","instance_id":7}', None]).reasons
    {0: 'object missing required field `y_true`', 1: 'the record has no value'}
    """
    records = _all(kind, _STRICT[kind], values)
    if records is not None:
        return Decoded(records, {})
    try:
        records = [_lenient(kind, value) for value in values]
        if kind != PREDICTIONS or not _any_sum_too_large(records):
            return Decoded(records, {})
    except FAILURES:
        pass
    records = []
    reasons = {}
    for index, value in enumerate(values):
        record = None
        try:
            lenient = _lenient(kind, value)
            if kind == PREDICTIONS:
                messages.check_probabilities(_y_proba(lenient) or {})
            record = lenient
        except FAILURES as error:
            reasons[index] = why_unreadable(error, value or b"")
        records.append(record)
    return Decoded(records, reasons)


class Objects(NamedTuple):
    """JSON objects of whatever shape.

    Attributes
    ----------
    objects
        One for each value, in their order; None where it is none, or is too long or too deeply nested.
    reasons
        Why value i is no usable object, in one sentence, by i.
    """

    objects: list[dict[str, Any] | None]
    reasons: dict[int, str]


def decode_objects(values: Sequence[bytes]) -> Objects:
    """Decode values that may be any JSON objects, within the limits of length and nesting that records have.

    Parameters
    ----------
    values
        JSON in UTF-8.

    Returns
    -------
    Objects
        The objects, and reasons where there is none.

    Examples
    --------
    >>> decode_objects([b'{"a": 1}', b"7"])
    Objects(objects=[{'a': 1}, None], reasons={1: 'expected `object`, got `int`'})
    """
    objects: list[dict[str, Any] | None] = []
    reasons = {}
    for index, value in enumerate(values):
        try:
            _check_value(value)
            objects.append(_object(value))
        except FAILURES as error:
            objects.append(None)
            reasons[index] = why_unreadable(error, value)
    return Objects(objects, reasons)


#: A prediction's probabilities: a function in C, because most predictions have none.
_y_proba: Callable[[Any], dict[str, float] | None] = attrgetter("y_proba")


def _all(
    kind: int, decoder: Callable[..., Any], values: Sequence[bytes | None]
) -> list[Record | None] | None:
    """All of a batch; None if one of them can't be decoded so, or can't be used."""
    try:
        records: list[Record | None] = [decoder(value) for value in values]
        if not _plain(values):
            for value, record in zip(values, records):
                _check_value(value)  # type: ignore[arg-type]
                _check_name_lengths(record)  # type: ignore[arg-type]
    except FAILURES:
        return None
    if kind == PREDICTIONS and (_any_blank(records) or _any_sum_too_large(records)):
        return None
    return records


_model: Callable[[Any], str] = attrgetter("model")


def _any_blank(predictions: Iterable[Record | None]) -> bool:
    """Whether some prediction's model has a blank name."""
    return any(not name or name.isspace() for name in map(_model, predictions))


def _any_sum_too_large(predictions: Iterable[Record | None]) -> bool:
    """Whether some prediction's probabilities sum to too much (that each is one, their type says)."""
    for y_proba in filter(None, map(_y_proba, predictions)):
        if sum(y_proba.values()) > messages.SUM_SURELY_WITHIN and messages.is_sum_too_large(y_proba):
            return True
    return False


def _plain(values: Sequence[bytes | None]) -> bool:
    """Whether characters are bytes (ASCII, no escapes) and no value is too long or nested too deeply."""
    text = b"".join(values)  # type: ignore[arg-type]
    if not text.isascii() or b"\\" in text:
        return False
    longest = max(map(len, values), default=0)  # type: ignore[arg-type]
    if longest <= SURELY_FLAT:
        return True
    return longest <= MAX_VALUE_BYTES and not any(map(is_deep, values))  # type: ignore[arg-type]


def _lenient(kind: int, value: bytes | None) -> Record:
    """Decode one value in any allowed form, and bring ids and times to the pipeline's form.

    The sum of probabilities is left to the caller, who looks at a whole batch faster.
    """
    if value is None:
        raise ValueError("the record has no value")
    if value[:_BLANKS].lstrip().startswith(b"["):
        raise ValueError(_why_no_record(value))
    _check_value(value)
    record = _any_form(kind, value)
    if type(record.instance_id) is not str:
        record.instance_id = str(record.instance_id)
    if isinstance(record.ts, str):
        record.ts = milliseconds(record.ts)
    if kind == PREDICTIONS and (y_proba := _y_proba(record)):
        record.y_proba = {name: messages.clipped(share) for name, share in y_proba.items()}  # type: ignore[union-attr]
    for field in _TARGETS[kind]:
        value = getattr(record, field)
        if type(value) is list:
            setattr(record, field, array_text(field, value))
    _check_name_lengths(record)
    return record


def _why_no_record(array: bytes) -> str:
    """Why an array is no record: it isn't JSON, or it has no object that is a record."""
    try:
        _json(array)
    except foreign_json.Unreadable as error:
        return str(error)
    return "expected `object`, got `array`"


def _any_form(kind: int, value: bytes) -> Record:
    """Decode one value in any allowed form, in which of a key that comes twice only the last one counts."""
    try:
        record: Record = _LENIENT[kind](value)
    except msgspec.ValidationError as error:
        value_by_key = foreign_json.without_repetitions(value)
        if value_by_key is not None:
            return _any_form(kind, value_by_key)
        if kind == PREDICTIONS and "`$.y_proba" in str(error):  # which doesn't say of which class
            messages.check_probabilities(_probabilities(value).y_proba or {})
        raise
    return record


#: By kind, the fields that may hold sets of labels.
_TARGETS = (), ("y_pred",), ("y_true",)

#: Fields that hold names, and those that hold objects of names.
_NAMES = ("stream", "model", "instance_id", "y_pred", "y_true", "model_version")
_OBJECTS = ("segments", "y_proba")

#: Integers below it have surely no more digits than a name may have bytes.
_SHORT_INTEGER = 10 ** (MAX_NAME_BYTES - 2)


def _check_value(value: bytes) -> None:
    """Length, depth, and that all of it is UTF-8."""
    if len(value) > MAX_VALUE_BYTES:
        least = "at least " * (
            len(value) == messages.INPUT_MESSAGE_BYTES
        )  # readers of lines read no more of one
        raise ValueError(f"value has {least}{len(value)} bytes: at most {MAX_VALUE_BYTES} are allowed")
    check_text(value)


def _check_name_lengths(record: Record) -> None:
    for field in _NAMES:
        value = getattr(record, field, None)
        if type(value) is int:
            if abs(value) < _SHORT_INTEGER:
                continue
            value = str(value)
        if isinstance(value, str) and not isinstance(value, ArrayText):
            _check_name(field, value)
    if (why := why_blank("model", getattr(record, "model", "-"))) is not None:
        raise ValueError(why)
    for field in _OBJECTS:
        for name, value in (getattr(record, field, None) or {}).items():
            _check_name(field, name)
            if isinstance(value, str):
                _check_name(field, value)


def _check_name(field: str, name: str) -> None:
    size = len(name.encode())
    if size > MAX_NAME_BYTES:
        raise ValueError(f"{field} {name[:24]!r}… has {size} bytes: at most {MAX_NAME_BYTES} are allowed")
