"""Reasons why records can't be used: which ones are of a kind, and how text from outside is shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache

from prequential.topics.errors import existing

#: Characters of a reason that are looked at: ours have fewer, but others may write into the topic.
_LONGEST_REASON = 1_000

#: Text that quotes an offender: as `repr` has it, perhaps cut off. (An apostrophe within a word is none.)
_QUOTED = re.compile(r"""(?<!\w)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")…?""")

#: The part of a reason before its expectation: up to the first ": " outside of what it quotes.
_OFFENCE = re.compile(rf"(?:{_QUOTED.pattern}|(?!: ).)*", re.DOTALL)

#: A number by itself: not the 8 of UTF-8, or of a name such as `p99`.
_NUMBER = re.compile(r"(?<![\w.+-])[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf)(?![\w.])")

#: Where in a record something is: different in each of them, although it is the same fault.
_PLACE = re.compile(r"\(byte \d+\)|\b0x[0-9a-f]+\b")


@lru_cache(maxsize=1_024)  # usually the same few come again and again, and several ask for each
def kind_of(reason: str) -> str:
    """What is wrong, without which one: reasons of the same kind are the same.

    What a reason quotes, its numbers before what was expected, and places in a record are taken out; limits
    and types that were expected stay.

    >>> kind_of("class 'cat: 7' is one too many: limits.classes_per_stream is 256")
    "class '…' is one too many: limits.classes_per_stream is 256"
    >>> kind_of("y_proba of 'UP' is -0.25: expected a probability from 0 to 1")
    "y_proba of '…' is N: expected a probability from 0 to 1"
    >>> kind_of("not UTF-8: byte 0xff can't be decoded")
    "not UTF-8: byte … can't be decoded"
    >>> kind_of("JSON is malformed: expected ':' (byte 17)")
    "JSON is malformed: expected ':' (byte …)"
    >>> kind_of("expected `str` of length <= 256 - at `$.stream`")
    'expected `str` of length <= 256 - at `$.stream`'
    """
    reason = reason[:_LONGEST_REASON]
    offence = existing(_OFFENCE.match(reason), "what is wrong")  # it matches also what is empty
    offender, expectation = reason[: offence.end()], reason[offence.end() :]
    if expectation:
        offender = "'…'".join(_NUMBER.sub("N", part) for part in _QUOTED.split(offender))
    else:
        offender = _QUOTED.sub("'…'", offender)
    return _PLACE.sub(lambda place: "(byte …)" if place[0].startswith("(") else "…", offender + expectation)


def listed(names: Iterable[str]) -> str:
    r"""Names from outside, one after the other, for an error.

    >>> listed(["nb", "tr\x1bee"])
    'nb, tr\ufffdee'
    """
    return ", ".join(map(printable, names))


def as_text(word: str) -> str:
    """A word of the command line as text: it is UTF-8 in every locale; other bytes are shown as U+FFFD.

    In a locale that isn't UTF-8, and for file names that aren't, Python keeps bytes as lone surrogates,
    which no output can be written with.
    """
    return os.fsencode(word).decode("utf-8", "replace")


def printable(text: str) -> str:
    r"""Text from outside for a terminal or a log: characters that aren't printable, as U+FFFD.

    >>> printable("a\x1b[31mb")
    'a\ufffd[31mb'
    """
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
