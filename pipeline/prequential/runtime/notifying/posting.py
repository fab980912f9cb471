"""Make one request to the webhook, with a timeout, and without the address in any message about it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohttp
from prequential.runtime.notifying.retrying import WebhookAnswer
from prequential.runtime.program.version import VERSION
from prequential.topics.errors import UsageError


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
