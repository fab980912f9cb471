"""Marks on the page: the newest one of an incident, and the request that writes another.

Only someone who knows `http.token` may mark. Browsers send a password automatically, also with requests of
other sites. So a request to write must carry a secret of this process in the header `SECRET_HEADER`, which
only pages of this server can read. No cookies are used.
"""

from __future__ import annotations

import binascii
import hmac
import secrets
from collections.abc import Callable
from typing import Any

import msgspec
from prequential.topics.foreign_json import Unreadable, reader
from prequential.topics.marking import StreamMark
from prequential.topics.marks import MARKS, MOST_NOTE, IncidentMark, IncidentMarks, Mark
from prequential.topics.outputs import Incident

SECRET_HEADER = "X-Mark-Secret"

#: Characters of a name, at most.
_MOST_NAME = 100

#: Writes a mark; raises WorkError if that fails.
WriteMark = Callable[[StreamMark], None]


class _MarkRequest(msgspec.Struct):
    """What the page's form sends."""

    incident: str
    mark: Mark
    by: str = ""
    note: str = ""


_read_request = reader(_MarkRequest)


class PageMarks:
    """The newest mark of each incident, and how to write another one, if somebody may.

    Parameters
    ----------
    newest
        The newest mark of each incident.
    write
        Writes a mark. None: the page has no form.
    """

    def __init__(self, newest: IncidentMarks, write: WriteMark | None = None) -> None:
        self.newest = newest
        self.write = write
        self._secret = secrets.token_urlsafe()

    def shown(self, incident: str) -> dict[str, Any]:
        """Return what the page of an incident (its whole id) shows of marks, and needs to write one.

        `marked` is how many marked incidents are real, and how many are marked.
        """
        mark = self.newest.newest(incident)
        form = {"secret": self._secret, "marks": MARKS, "most_note": MOST_NOTE}
        return {
            "mark": None if mark is None else msgspec.to_builtins(mark) | {"note": mark.note},
            "marked": list(self.newest.precision()),
            "mark_form": None if self.write is None else form,
        }

    def is_own(self, secret: str | None) -> bool:
        """Return whether a request that carries this secret comes from a page of this server."""
        return hmac.compare_digest((secret or "").encode(errors="surrogateescape"), self._secret.encode())


def mark_of(body: bytes, authorization: str, now: int, find: Callable[[str], Incident | None]) -> StreamMark:
    """Return the mark that a request asks for. Raises ValueError with a sentence for an invalid one.

    The person is the name in the form, or the user of the request's `authorization`. `now` is in epoch ms;
    `find` returns the incident with an id.
    """
    try:
        asked = _read_request(body)
    except Unreadable as error:
        raise ValueError(f"the mark can't be read: {error}") from None
    if len(asked.note) > MOST_NOTE or len(asked.by) > _MOST_NAME:
        raise ValueError(f"expected a note of at most {MOST_NOTE:,} characters, and a name of {_MOST_NAME}")
    incident = find(asked.incident)
    if incident is None:
        raise ValueError(f"no incident {asked.incident!r} was seen")
    person = asked.by.strip() or _user(authorization)[:_MOST_NAME] or "dashboard"
    return StreamMark(incident.stream, IncidentMark(incident.id, asked.mark, person, now, asked.note.strip()))


def _user(authorization: str) -> str:
    """Return the user's name in a header `Authorization`; "" without any.

    >>> _user("Basic YW5uYTpzZWNyZXQ="), _user("Bearer abc")  # anna:secret
    ('anna', '')
    """
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return binascii.a2b_base64(encoded).partition(b":")[0].decode(errors="replace")
    except binascii.Error:
        return ""
