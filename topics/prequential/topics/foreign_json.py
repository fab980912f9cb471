"""JSON from outside: the one place where foreign bytes become objects, or a sentence says why they can't.

Parsers fail in many ways, such as RecursionError for deep nesting and OverflowError for long numbers. Whoever
reads bytes of another program uses a function of `reader`, which raises `Unreadable` for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from typing import Any, TypeVar, overload

import msgspec
from prequential.topics.messages import MAX_NESTING

#: What decoding foreign bytes may raise; anything else is a bug and must end the process.
#: (`MsgspecError` for JSON and types, TypeError for a record without a value.)
FAILURES = (msgspec.MsgspecError, RecursionError, ValueError, OverflowError, TypeError)

_T = TypeVar("_T")


class Unreadable(ValueError):
    """Bytes can't be decoded; the message is one sentence."""


@overload
def reader(shape: type[_T]) -> Callable[[bytes | str | None], _T]: ...


@overload
def reader(shape: Any = Any) -> Callable[[bytes | str | None], Any]: ...


def reader(shape: Any = Any) -> Callable[[bytes | str | None], Any]:
    """Return a function that decodes JSON to this type, and raises nothing but `Unreadable`.

    Of a key that an object has twice, the last one counts. Nesting is limited to `MAX_NESTING` levels.

    Parameters
    ----------
    shape
        What msgspec decodes to: a struct, or another type. Default: any JSON.

    Returns
    -------
    callable
        Takes a complete JSON text in UTF-8.

    Examples
    --------
    >>> read = reader(dict[str, int])
    >>> read(b'{"a": 1, "a": 2}')
    {'a': 2}
    >>> read(b'{"a": NaN}')
    Traceback (most recent call last):
    ...
    prequential.topics.foreign_json.Unreadable: 'a' is NaN, which JSON doesn't have: expected a number or null
    >>> read(b"[" * 5_000)
    Traceback (most recent call last):
    ...
    prequential.topics.foreign_json.Unreadable: JSON is nested too deeply: at most 100 levels are allowed
    """
    decode = msgspec.json.Decoder(shape).decode

    def read(content: bytes | str | None) -> Any:
        text = b""
        if content is None:
            raise Unreadable("the record has no value")
        try:
            text = content.encode() if isinstance(content, str) else content
            check_text(text)
            return decode(text)
        except FAILURES as error:
            raise Unreadable(why_unreadable(error, text)) from error

    return read


def converted(value: Any, shape: type[_T]) -> _T:
    """Return decoded JSON as this type; raises `Unreadable` if it isn't of this type.

    >>> converted({"a": 1}, dict[str, int])
    {'a': 1}
    """
    try:
        return msgspec.convert(value, shape)
    except FAILURES as error:
        raise Unreadable(why_unreadable(error, b"")) from error


#: Values up to so many bytes aren't nested too deeply: each level opens and closes.
SURELY_FLAT = 2 * MAX_NESTING


def check_text(content: bytes) -> None:
    """Raise `Unreadable` for objects and lists that are nested too deeply, UnicodeDecodeError for no UTF-8.

    msgspec doesn't look into fields that it passes over, and how deep it goes depends on the stack.
    """
    if len(content) > SURELY_FLAT and is_deep(content):
        raise Unreadable(_TOO_DEEP)
    if not content.isascii():
        content.decode()


_TOO_DEEP = f"JSON is nested too deeply: at most {MAX_NESTING} levels are allowed"

#: What a bracket does to the depth, by byte; all bytes that are none.
_STEPS = [(byte in b"[{") - (byte in b"]}") for byte in range(256)]
_NO_BRACKETS = bytes(byte for byte in range(256) if not _STEPS[byte])

#: A text in JSON, or the rest of a value from a text on that doesn't end.
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)', re.DOTALL)


def is_deep(value: bytes) -> bool:
    """Whether objects and lists are nested more than `MAX_NESTING` deep.

    >>> is_deep(b"[" * 100 + b"]" * 100), is_deep(b"[" * 101), is_deep(b"[]" * 300)
    (False, True, False)
    """
    if value.count(b"[") + value.count(b"{") <= MAX_NESTING:
        return False
    brackets = _TEXT.sub(b"", value).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_NESTING


def without_repetitions(content: bytes) -> bytes | None:
    """Return JSON in which of a key that comes twice only the last one is left; None if no key does.

    A decoder of a type refuses an object because of a value that doesn't count. `content` isn't deep.

    >>> without_repetitions(b'{"a": {}, "a": 1}'), without_repetitions(b'{"a": 1}')
    (b'{"a":1}', None)
    """
    keys: list[bool] = []
    try:
        decoded = _pairs_noted(content, keys)
        return msgspec.json.encode(decoded) if any(keys) else None
    except FAILURES:
        return None


def _pairs_noted(content: bytes, is_repeated: list[bool]) -> Any:
    """Return JSON decoded by Python, which shows keys that come twice: they add True to a list."""
    import json

    def as_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        is_repeated.append(len(fields) < len(pairs))
        return fields

    return json.loads(content, object_pairs_hook=as_object)


#: Where msgspec found that something isn't JSON.
_PLACE = re.compile(r"\(byte (\d+)\)")

#: Numbers that Python and JavaScript write although JSON doesn't have them, and the key before one.
_NO_NUMBER = re.compile(rb"[+-]?(?:NaN|Infinity|nan|inf)\b")
_KEY_BEFORE = re.compile(rb'"([^"\\]{1,64})"\s*:\s*\Z')

#: Most bytes between the beginning of a key and its value that are looked at.
_BEFORE = 100

#: An escape, and the number of its character where it has one.
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)

#: What msgspec says of half of a surrogate pair, depending on what follows.
_OF_SURROGATES = ("surrogate pair", "hex escape", "was truncated")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def why_unreadable(error: BaseException, content: bytes) -> str:
    r"""Return one line that says why a parser failed at this content, with the cause if it is a known one.

    >>> why_unreadable(RecursionError("maximum recursion depth exceeded"), b"")
    'JSON is nested too deeply: at most 100 levels are allowed'
    >>> why_unreadable(msgspec.DecodeError("Input data was truncated"), b'{"a":"\\ud83d"}')
    "a text has half of a surrogate pair, '\\ud83d': it was perhaps cut within an emoji"
    """
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: byte {error.object[error.start]:#04x} can't be decoded"
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    text = " ".join(str(error).split()) or type(error).__name__
    known_cause = _known_cause(text, content) if isinstance(error, msgspec.DecodeError) else None
    if known_cause is not None:
        return known_cause
    return text[:1].lower() + text[1:] if text.startswith(("Expected", "Object", "Input")) else text


def _known_cause(text: str, content: bytes) -> str | None:
    """Return the sentence for content that other programs take for JSON; None for any other."""
    if any(words in text for words in _OF_SURROGATES) and (half := _half_of_pair(content)):
        return f"a text has half of a surrogate pair, '{half}': it was perhaps cut within an emoji"
    match = _PLACE.search(text)
    if match is None:
        return None
    offset = int(match[1])
    if content.startswith(_BYTE_ORDER_MARK):
        return "it begins with a byte order mark: expected JSON in UTF-8 without one"
    if content[offset : offset + 1] == b"\0":
        return f"it has a NUL byte (byte {offset}), perhaps as UTF-16: expected JSON in UTF-8"
    for start in (offset - 1, offset):  # a sign stands before the place
        if start >= 0 and (number := _NO_NUMBER.match(content, start)):
            key = _KEY_BEFORE.search(content[max(0, start - _BEFORE) : start])
            name = repr(key[1].decode(errors="replace")) if key else "a value"
            return f"{name} is {number[0].decode()}, which JSON doesn't have: expected a number or null"
    return None


def _half_of_pair(content: bytes) -> str | None:
    """Return the first escape of a surrogate that has no other half; None if there is none."""
    first: re.Match[bytes] | None = None
    for escape in _ESCAPE.finditer(content):
        code = int(escape[1] or b"0", 16)
        is_low = 0xDC00 <= code < 0xE000
        if first is not None and not (is_low and escape.start() == first.end()):
            break
        if is_low and first is None:
            first = escape
            break
        first = escape if 0xD800 <= code < 0xDC00 else None
    return None if first is None else first[0].decode()
