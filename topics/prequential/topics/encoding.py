"""Messages as JSON, and their ids.

An id is a function of what the message is about, so a repeat has the id of the original.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from prequential.topics.disparities import Disparity
from prequential.topics.outputs import Alarm, Comparison, Incident, Metrics

#: Bytes of an id, which is their hex digits: so many that ids never collide by chance.
ID_BYTES = 16


def _of_numpy(value: Any) -> Any:
    """Where loops aren't compiled, some of their numbers are numpy's."""
    return value.item()


_encode = msgspec.json.Encoder(enc_hook=_of_numpy).encode


def begun_identity(*parts: Any) -> bytes:
    """What an id is the digest of, without its last parts: who adds them and `]` has what `identity` digests.

    >>> begun = begun_identity("elec2", 0, "nb", None, "final", "all")
    >>> hashlib.sha256(begun + b",%d,%d]" % (1000, 0)).hexdigest()[:32]
    '9ad1de6c69be9de119d05361307c9c08'
    """
    return _encode(parts)[:-1]


def identity(*parts: Any) -> str:
    """The id of a message about `parts`: the same on every machine and in every run.

    Parameters
    ----------
    *parts
        Strings, numbers and None, in the order that "Ids" in `docs/reference/output-messages.md` gives.

    Returns
    -------
    str
        32 hex digits: the first half of the SHA-256 of `parts` as a JSON array.

    Examples
    --------
    >>> identity("elec2", 0, "nb", None, "final", "all", 1000, 0)
    '9ad1de6c69be9de119d05361307c9c08'
    """
    return hashlib.sha256(_encode(parts)).hexdigest()[: 2 * ID_BYTES]


def encode(message: Metrics | Comparison | Disparity | Alarm | Incident) -> bytes:
    """A message as the JSON object that is published, in UTF-8.

    Parameters
    ----------
    message
        Fields that are `msgspec.UNSET` are left out.

    Returns
    -------
    bytes
        JSON without spaces or newlines.

    Examples
    --------
    >>> msgspec.json.decode(encode(Alarm("f0…", "elec2", 0, "nb", None, "final", "page_hinkley", "error", 917,
    ...     "1201", 1_700_000_000_000, 51.2, 50.0, {"delta": 0.005})))["outcome"]
    917
    """
    return _encode(message)


def fields_of(message: dict[str, Any]) -> bytes:
    """The fields of an object as JSON in UTF-8, without the braces around them.

    >>> fields_of({"a": 1, "b": None})
    b'"a":1,"b":null'
    """
    return _encode(message)[1:-1]
