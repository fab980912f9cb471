"""Errors meant for the person at the command line: one clear sentence, no traceback.

Secrets are taken out of all text here, and text from outside is shown so that it can't control a terminal.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar
from urllib.parse import unquote

#: What shows that the value of a configuration key may be a secret.
_WORDS = (
    "pass", "secret", "token", "user.info", "ssl.key", "ssl_key", "pem", "oauthbearer.config", "webhook",
)  # fmt: skip

#: Sections and keys of which nothing is shown: webhooks accept messages from everyone who has their address.
_HIDDEN = ("kafka.security", "kafka.schema_registry", "notify.url")

#: Stands for a secret.
_MASK = "***"

#: Fewest characters of a secret that is found in other text, and those with which it is found within a word.
_LEAST_CHARACTERS, _CLEAR_CHARACTERS = 4, 8

#: User and password of a URL, up to its last @; of a list of URLs, each by itself.
_USER_INFO = re.compile(r"""(?<=//)(?:(?!,\s*\w+://)[^\s'"<>])*@""")

#: A secret in a query, in a form, or between other settings.
_PAIR = re.compile(r"""(?i)\b([\w.-]*(?:pass(?:word)?|secret|token|user\.info)=)[^\s&'",;)]+""")

#: Patterns of this process's secrets, in every form in which text may contain them.
_known: set[str] = set()


def is_secret(key: str) -> bool:
    """Whether the value of a configuration key may be a secret.

    >>> is_secret("kafka.security.sasl.username"), is_secret("http.token"), is_secret("segments_per_key")
    (True, True, False)
    """
    return key.startswith(_HIDDEN) or is_secret_setting(key)


def is_secret_setting(name: str) -> bool:
    """Whether a setting of a Kafka or Schema Registry client may be a secret.

    >>> is_secret_setting("SASL.PASSWORD"), is_secret_setting("sasl.username")
    (True, False)
    """
    name = name.lower()
    return any(word in name for word in _WORDS) and not name.endswith(".location")


def remember(secret: str) -> None:
    """Keep a secret, so that `redacted` finds it wherever it is: in an error of a library, for example.

    >>> remember("open sesame")
    >>> redacted("refused 'open sesame' (Bearer b3BlbiBzZXNhbWU=)")
    "refused '***' (Bearer ***)"
    """
    for form in (secret, unquote(secret), repr(secret)[1:-1], base64.b64encode(secret.encode()).decode()):
        if len(form) >= _CLEAR_CHARACTERS:
            _known.add(re.escape(form))
        elif len(form) >= _LEAST_CHARACTERS:
            _known.add(rf"(?<!\w){re.escape(form)}(?!\w)")


def remember_value(key: str, value: str) -> None:
    """Keep what is secret in the value of a configuration key: all of it, or user and password of a URL."""
    if is_secret_setting(key) or key.endswith("notify.url"):
        remember(value)
    users = [user_info[:-1] for user_info in _USER_INFO.findall(value)]
    if key.endswith("user.info"):
        users.append(value)
    for user in users:
        remember(user)
        remember(user.partition(":")[2])


def redacted(text: str) -> str:
    """Text for people without secrets: those that were remembered, and user and password of any URL.

    >>> redacted("GET https://me:hu@sh@registry:8081/schemas, http://registry:8082?token=hush")
    'GET https://***@registry:8081/schemas, http://registry:8082?token=***'
    >>> redacted("https://me:hush@one:1,https://me:hush@two:2")
    'https://***@one:1,https://***@two:2'
    """
    if _known:
        text = re.sub("|".join(sorted(_known, key=len, reverse=True)), _MASK, text)
    if "@" in text:
        text = _USER_INFO.sub(f"{_MASK}@", text)
    return _PAIR.sub(rf"\1{_MASK}", text) if "=" in text else text


T = TypeVar("T")


class _Sentence(Exception):
    """An error that people read: its text never has a secret, whatever it quotes."""

    def __init__(self, *args: object) -> None:
        super().__init__(
            *(redacted(argument) if isinstance(argument, str) else argument for argument in args)
        )


class UsageError(_Sentence):
    """The command line, the configuration or a client's settings are wrong (exit status 2)."""


class WorkError(_Sentence):
    """The work that was asked for failed, although it was asked for rightly (exit status 1)."""


class InvalidRecords(WorkError, ValueError):
    """Nothing, or only a biased rest, can be evaluated of the records that were given."""


class Fault(Exception):
    """The program has found what can't be: a fault of its own. No record is passed over because of it."""


def existing(value: T | None, subject: str) -> T:
    """The value, which must be there; raises Fault where it isn't.

    >>> existing(7, "the number")
    7
    >>> existing(None, "the number")
    Traceback (most recent call last):
    ...
    prequential.topics.errors.Fault: the number is missing: this is a fault of prequential, please report it
    """
    if value is None:
        raise Fault(f"{subject} is missing: this is a fault of prequential, please report it")
    return value


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
    return _PLACE.sub(lambda match: "(byte …)" if match[0].startswith("(") else "…", offender + expectation)


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
