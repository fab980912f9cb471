"""Sign requests by the specification of Standard Webhooks (symmetric, `v1`).

The libraries of Standard Webhooks verify the signature: https://github.com/standard-webhooks/standard-webhooks
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from prequential.topics.errors import UsageError

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
    found = {
        "Idempotency-Key": identifier, "webhook-id": identifier, "webhook-timestamp": str(seconds),
    }  # fmt: skip
    if key is not None:
        signed = b"%s.%d.%s" % (identifier.encode(), seconds, content)
        digest = hmac.new(key, signed, hashlib.sha256).digest()
        found["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return found
