"""Answers over HTTP that are compressed where it is asked for."""

from __future__ import annotations

import gzip

from prometheus_client.exposition import gzip_accepted

#: Answers that are compressed at all: smaller ones fit a packet or two as they are.
_LEAST_BYTES = 2_000

#: Level of compression: series and points are alike, so that more than the least effort gains little.
_LEVEL = 1


def compressed(body: bytes, accepted: str | None) -> tuple[bytes, dict[str, str]]:
    """The body as it is sent to who accepts these encodings (`Accept-Encoding`), and the headers beside it.

    >>> compressed(b"alive", "gzip")
    (b'alive', {})
    >>> body, headers = compressed(b"x" * 2_000, "gzip")
    >>> len(body) < 100, headers
    (True, {'Vary': 'Accept-Encoding', 'Content-Encoding': 'gzip'})
    >>> compressed(b"x" * 2_000, None)[1]
    {'Vary': 'Accept-Encoding'}
    """
    if len(body) < _LEAST_BYTES:
        return body, {}
    headers = {"Vary": "Accept-Encoding"}
    if gzip_accepted(accepted or ""):
        return gzip.compress(body, _LEVEL), {**headers, "Content-Encoding": "gzip"}
    return body, headers
