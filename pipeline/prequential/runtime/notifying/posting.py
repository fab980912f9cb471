"""Make the body of one signed request to the webhook, send it, and choose when to send again.

No message about it contains the address. Signatures follow Standard Webhooks (symmetric, `v1`).

The libraries of Standard Webhooks verify the signature:
https://github.com/standard-webhooks/standard-webhooks
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from prequential.configuration.settings.notifications import CLOUDEVENTS, SLACK
from prequential.runtime.program import VERSION
from prequential.topics import foreign_json
from prequential.topics.dead_letters import clock
from prequential.topics.errors import UsageError, printable
from prequential.topics.outputs import Alarm, Incident
from prequential.topics.specs import DRIFT_ALARMS, INCIDENTS
from prequential.views.wording.status import sentence, subject_of

_encode = msgspec.json.Encoder().encode
_decoders: dict[str, Any] = {
    INCIDENTS: foreign_json.reader(Incident),
    DRIFT_ALARMS: foreign_json.reader(Alarm),
}

#: Characters that Slack reads as the beginning of a link, a mention or an entity.
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Body(NamedTuple):
    """The body of a request, with its type."""

    content_type: str
    content: bytes


def read(topic: str, value: bytes) -> Incident | Alarm:
    """Decode the message of a record; the topic is given without its prefix.

    Raises `Unreadable` if the record is no message.
    """
    message: Incident | Alarm = _decoders[topic](value)
    return message


def identifier(message: Incident | Alarm) -> str:
    """Return the unique, constant name of a message; an incident's name includes its revision."""
    return f"{message.id}-{message.revision}" if isinstance(message, Incident) else message.id


def body(form: str, message: Incident | Alarm, value: bytes, topic: str) -> Body:
    """Return the request's body for a message, given its record's value and topic (with the prefix)."""
    if form == SLACK:
        return Body("application/json", _encode({"text": in_words(message).translate(_SLACK)}))
    if form == CLOUDEVENTS:
        return Body("application/cloudevents+json", _encode(event(message, value, topic)))
    return Body("application/json", value)


def event(message: Incident | Alarm, value: bytes, topic: str) -> dict[str, Any]:
    """Return the message as a structured CloudEvent 1.0, without a time if its records had none."""
    event_type = f"incident.{message.status}" if isinstance(message, Incident) else "drift-alarm"
    attributes = {
        "specversion": "1.0",
        "id": identifier(message),
        "source": f"/prequential/{quote(topic, safe='')}",
        "type": f"prequential.{event_type}",
        "subject": f"{message.stream}/{message.model}",
        "datacontenttype": "application/json",
    }
    if message.untimed is not True:
        attributes["time"] = clock(message.ts)
    return {**attributes, "data": msgspec.Raw(value)}


def in_words(message: Incident | Alarm) -> str:
    """Return a message as one line of text; of an incident with fields in another form, what is certain."""
    if isinstance(message, Incident):
        try:
            return sentence(message)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
            summary = f"{subject_of(message)} {message.stage}: {message.status}"
            odd = "its other fields have a form that this version doesn't read"
            return f"{summary}; incident {printable(message.id)} ({odd})"
    return (
        f"{subject_of(message)} {message.stage}: {message.detector} on {printable(message.signal)}, outcome "
        f"{message.outcome:,}; statistic {message.statistic:.3g}, threshold {message.threshold:.3g}"
    )


#: Seconds before a message is sent a second time; each further pause is twice as long, up to the longest.
_FIRST, _LONGEST = 1.0, 300.0

#: The longest pause in seconds that a receiver may request. A mistake there must not stop all messages.
_LONGEST_ASKED = 3600.0

#: Statuses after which a retry may succeed: request timeout, too early, too many requests.
_LATER = frozenset({408, 425, 429})


class WebhookAnswer(NamedTuple):
    """The result of a request; without a status (0), `why` is the error."""

    status: int
    retry_after: str | None = None
    why: str = ""

    @property
    def taken(self) -> bool:
        """Whether the receiver has accepted the message."""
        return 200 <= self.status < 300

    @property
    def again(self) -> bool:
        """Whether to send the message again: no answer, a receiver's error, or the receiver's request."""
        return not self.status or self.status >= 500 or self.status in _LATER

    def __str__(self) -> str:
        return f"status {self.status}" if self.status else self.why


def pause(attempt: int, retry_after: str | None, now: float, draw: Callable[[], float]) -> float:
    """Return the seconds until a message is sent again after so many attempts, counted from 1.

    The pause doubles with each attempt. `draw` shortens it by a random share of up to a half, so that senders
    do not retry together. `Retry-After` sets a lower limit, which counts for at most an hour. It is a number
    of seconds, or an HTTP date that is compared with `now` (epoch seconds).

    >>> [pause(attempt, None, 0.0, lambda: 0.0) for attempt in (1, 2, 9, 10, 2000)]
    [1.0, 2.0, 256.0, 300.0, 300.0]
    >>> pause(2, None, 0.0, lambda: 1.0), pause(1, "17", 0.0, lambda: 0.0), pause(1, "1e9", 0.0, lambda: 0.0)
    (1.0, 17.0, 1.0)
    >>> pause(1, "Thu, 01 Jan 1970 00:01:00 GMT", 50.0, lambda: 0.0), pause(1, "86400", 0.0, lambda: 0.0)
    (10.0, 3600.0)
    """
    own = min(_LONGEST, _FIRST * 2.0 ** min(attempt - 1, 60)) * (1 - draw() / 2)
    return max(own, min(_asked(retry_after, now), _LONGEST_ASKED))


def _asked(retry_after: str | None, now: float) -> float:
    text = (retry_after or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:10])
    try:
        return parsedate_to_datetime(text).timestamp() - now
    except (TypeError, ValueError, OverflowError):
        return 0.0


def checked_url(url: str) -> str:
    """Return a webhook's URL if it is valid; raises UsageError, which doesn't show the URL.

    >>> checked_url("https://hooks.example/T0/B0")
    'https://hooks.example/T0/B0'
    >>> checked_url("hooks.example")
    Traceback (most recent call last):
    ...
    prequential.topics.errors.UsageError: notify.url is no address of a webhook: expected https://HOST/…
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
        plain = url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        usable = plain = False
    if not usable or not plain:
        raise UsageError("notify.url is no address of a webhook: expected https://HOST/…")
    if "@" in parts.netloc:
        raise UsageError("notify.url has a user or password: expected an address without, and notify.secret")
    return url


class Poster:
    """Posts to one URL, from one thread; follows no redirects, because their targets are not configured."""

    def __init__(self, url: str, seconds: float) -> None:
        self._url = checked_url(url)
        self._timeout = aiohttp.ClientTimeout(total=seconds)
        self._seconds = seconds
        self._loop = asyncio.new_event_loop()
        self._session: aiohttp.ClientSession | None = None

    def post(self, content: bytes, headers: Mapping[str, str]) -> WebhookAnswer:
        """Post the content; returns the answer, at the latest after the timeout."""
        return self._loop.run_until_complete(self._post(content, headers))

    def close(self) -> None:
        """Close the connections; after this call the poster cannot be used."""
        if self._session is not None:
            self._loop.run_until_complete(self._session.close())
        self._loop.close()

    async def _post(self, content: bytes, headers: Mapping[str, str]) -> WebhookAnswer:
        if self._session is None:
            agent = {"User-Agent": f"prequential/{VERSION}"}
            self._session = aiohttp.ClientSession(headers=agent, timeout=self._timeout, trust_env=True)
        try:
            async with self._session.post(
                self._url, data=content, headers=headers, allow_redirects=False
            ) as answer:
                return WebhookAnswer(answer.status, answer.headers.get("Retry-After"))
        except asyncio.TimeoutError:
            return WebhookAnswer(0, why=f"no answer within {self._seconds:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The errors' texts may contain the whole address. It is a secret where it suffices for posting.
            reason = getattr(error, "strerror", None)
            return WebhookAnswer(0, why=f"{type(error).__name__}{f': {reason}' if reason else ''}")


_PREFIX = "whsec_"

#: The least and the largest number of bytes of a secret.
_LEAST, _MOST = 24, 64


def key_of(secret: str) -> bytes:
    """Return the key in a secret, `whsec_` and base64; raises UsageError, which doesn't show the secret.

    >>> key_of("whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3")
    b'0123456789abcdef01234567'
    >>> key_of("hush")
    Traceback (most recent call last):
    ...
    prequential.topics.errors.UsageError: notify.secret is no secret of a webhook: expected whsec_ ...
    """
    try:
        if not secret.startswith(_PREFIX):
            raise ValueError
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        if not _LEAST <= len(key) <= _MOST:
            raise ValueError
    except (binascii.Error, ValueError):
        raise UsageError(
            f"notify.secret is no secret of a webhook: expected {_PREFIX} and base64 of {_LEAST} to {_MOST} "
            f'bytes, as `echo "{_PREFIX}$(openssl rand -base64 32)"` makes one'
        ) from None
    return key


def headers(identifier: str, seconds: int, content: bytes, key: bytes | None) -> dict[str, str]:
    """Return headers with the message's id, the time of the request (epoch seconds) and the signature.

    `Idempotency-Key` also contains the id. Without a key there is no signature.

    >>> key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    >>> sent = headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', key)
    >>> sent["webhook-signature"]
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    header_values = {
        "Idempotency-Key": identifier, "webhook-id": identifier, "webhook-timestamp": str(seconds),
    }  # fmt: skip
    if key is not None:
        signed = b"%s.%d.%s" % (identifier.encode(), seconds, content)
        digest = hmac.new(key, signed, hashlib.sha256).digest()
        header_values["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return header_values
