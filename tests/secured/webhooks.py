"""Whether what a webhook got is signed with the secret, by the specification of Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable

from tests.notify.notifying import Request


def unsigned(requests: Iterable[Request], secret: str) -> list[str]:
    """The ids of requests whose signature isn't that of their content."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return [request.id for request in requests if not _is_signed(request, key)]


def _is_signed(request: Request, key: bytes) -> bool:
    said = f"{request.id}.{request.headers['webhook-timestamp']}.".encode() + request.content
    expected = base64.b64encode(hmac.new(key, said, hashlib.sha256).digest()).decode()
    return request.headers.get("webhook-signature") == f"v1,{expected}"
