"""Passwords, tokens and addresses with credentials: the one place that takes them out of text for people."""

from __future__ import annotations

import base64
import re
from urllib.parse import unquote

#: What shows that the value of a configuration key may be a secret.
_WORDS = (
    "pass",
    "secret",
    "token",
    "user.info",
    "ssl.key",
    "ssl_key",
    "pem",
    "oauthbearer.config",
    "webhook",
)

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
    users = [found[:-1] for found in _USER_INFO.findall(value)]
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
