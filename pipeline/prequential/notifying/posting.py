"""One request to the webhook, with its end in time, and without its address in any word about it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohttp
from prequential.notifying.retrying import Answer
from prequential.program.version import VERSION
from prequential.topics.errors import UsageError


def checked_url(url: str) -> str:
    """A webhook's URL; raises UsageError, which doesn't show it.

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
    """Posts to one URL, from one thread; follows no redirects, as nobody has configured where they lead."""

    def __init__(self, url: str, seconds: float) -> None:
        self._url = checked_url(url)
        self._timeout = aiohttp.ClientTimeout(total=seconds)
        self._seconds = seconds
        self._loop = asyncio.new_event_loop()
        self._session: aiohttp.ClientSession | None = None

    def post(self, content: bytes, headers: Mapping[str, str]) -> Answer:
        """What came of it, at the latest after the time that there is."""
        return self._loop.run_until_complete(self._post(content, headers))

    def close(self) -> None:
        """Close its connections; it can't be used after that."""
        if self._session is not None:
            self._loop.run_until_complete(self._session.close())
        self._loop.close()

    async def _post(self, content: bytes, headers: Mapping[str, str]) -> Answer:
        if self._session is None:
            agent = {"User-Agent": f"prequential/{VERSION}"}
            self._session = aiohttp.ClientSession(headers=agent, timeout=self._timeout, trust_env=True)
        try:
            async with self._session.post(
                self._url, data=content, headers=headers, allow_redirects=False
            ) as answer:
                return Answer(answer.status, answer.headers.get("Retry-After"))
        except asyncio.TimeoutError:
            return Answer(0, why=f"no answer within {self._seconds:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Their texts may have the whole address, which is a secret where anybody who knows it may post.
            reason = getattr(error, "strerror", None)
            return Answer(0, why=f"{type(error).__name__}{f': {reason}' if reason else ''}")
