"""Whether secrets stand in anything that a run has produced."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

#: Shortest part of an encoded secret that is looked for, in bytes: what stands around it changes its ends.
_SHORTEST = 12


class Leak(NamedTuple):
    """A secret's name, and where it stands."""

    secret: str
    place: str


def forms(secret: str) -> set[bytes]:
    """A secret as it may stand somewhere: as it is, in base64 (also behind other text), in hexadecimal.

    >>> sorted(forms("open-sesame-4711"))[-1]
    b'open-sesame-4711'
    """
    plain = secret.encode()
    found = {plain, plain.hex().encode(), plain.hex().upper().encode()}
    for shift in range(3):
        # What of the encoding depends on the secret alone, at each place within three bytes.
        encoded = base64.b64encode(b"\0" * shift + plain).rstrip(b"=")
        part = encoded[4 if shift else 0 : len(encoded) - 2]
        if len(part) >= _SHORTEST:
            found |= {part, part.replace(b"+", b"-").replace(b"/", b"_")}
    return found


def leaks(secrets: Mapping[str, str], texts: Iterable[tuple[str, bytes]]) -> tuple[list[Leak], int, int]:
    """Which secrets (by name) stand in which texts (by name); and how many texts and bytes were looked at."""
    looked_for = [(name, form) for name, secret in secrets.items() for form in forms(secret)]
    found: dict[Leak, None] = {}
    count = size = 0
    for place, text in texts:
        count, size = count + 1, size + len(text)
        found |= {Leak(name, place): None for name, form in looked_for if form in text}
    return list(found), count, size


def files_of(folder: Path, besides: Iterable[Path] = ()) -> Iterator[tuple[str, bytes]]:
    """All files in a folder, but for those in the folders `besides`."""
    left_out = set(besides)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not left_out.intersection(path.parents):
            yield str(path.relative_to(folder)), path.read_bytes()
