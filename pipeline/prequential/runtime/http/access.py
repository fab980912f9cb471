"""Who may read what a process serves by HTTP: a token, and TLS."""

from __future__ import annotations

import binascii
import hmac
import ssl

from prequential.configuration.settings.model import HttpConfig
from prequential.topics.clients import resolved
from prequential.topics.errors import UsageError

#: Fewest characters of a token: 16 hex digits can't be guessed over a network.
_LEAST_TOKEN = 16


class Access:
    """What `http.token`, `http.tls_certificate` and `http.tls_key` ask for; without them nothing.

    Raises UsageError for a secret that isn't there, or files that can't be used.

    >>> access = Access(HttpConfig(token="0123456789abcdef"))
    >>> access.allows("Bearer 0123456789abcdef"), access.allows("Bearer 0"), access.allows(None)
    (True, False, False)
    >>> access.allows("Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==")  # me:0123456789abcdef
    True
    >>> Access(HttpConfig()).allows(None)
    True
    """

    def __init__(self, config: HttpConfig) -> None:
        self._token = _token(config)
        #: For a server's sockets; None: without TLS.
        self.tls = _tls(config)

    @property
    def scheme(self) -> str:
        """`https` where there is a certificate, else `http`."""
        return "https" if self.tls else "http"

    def allows(self, authorization: str | None) -> bool:
        """Whether a request with this header `Authorization` may read everything.

        The token comes as a bearer's or, since browsers ask for such, as the password of whichever user.
        """
        if self._token is None:
            return True
        # In a time that doesn't tell how much of it is right.
        return hmac.compare_digest(_given(authorization or ""), self._token)


def _given(authorization: str) -> bytes:
    """The token that a request carries; empty if it has none."""
    scheme, _, given = authorization.partition(" ")
    content = given.strip().encode(errors="surrogateescape")  # bytes that are no UTF-8 are wrong, no error
    if scheme.lower() == "bearer":
        return content
    if scheme.lower() == "basic":
        try:
            return binascii.a2b_base64(content).partition(b":")[2]
        except binascii.Error:
            pass
    return b""


def _token(config: HttpConfig) -> bytes | None:
    if config.token is None:
        return None
    token = resolved("http.token", config.token)
    if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"http.token has {len(token)} characters: expected at least {_LEAST_TOKEN} of ASCII, no spaces"
        )
    return token.encode()


def _tls(config: HttpConfig) -> ssl.SSLContext | None:
    certificate, key = config.tls_certificate, config.tls_key
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "http.tls_certificate" if certificate is None else "http.tls_key"
        raise UsageError(f"{missing} isn't set: expected PEM files for http.tls_certificate and http.tls_key")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise UsageError(
            f"http.tls_certificate {certificate!r} with http.tls_key {key!r} can't be used: {reason}"
        ) from error
    return context
