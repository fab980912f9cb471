"""Leave out tests in a browser while what they depend on is as it was when they passed.

`make test` names a file in `PAGES_PASSED`. A whole run that passes in a browser writes a digest of the pages'
sources into it, and the next runs compare theirs. Elsewhere, all tests run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[1]

#: What pages are made of, and what tries them.
_SOURCES = (
    "pipeline/prequential/views", "pipeline/prequential/web", "pipeline/prequential/engine/measures",
    "pipeline/prequential/engine/details", "topics/prequential", "tests/dashboard", "tests/report",
    "tests/browser.py",
)  # fmt: skip


def _files() -> Iterator[Path]:
    for name in _SOURCES:
        path = _ROOT / name
        yield from [path] if path.is_file() else sorted(path.rglob("*"))


def digest() -> str:
    """Return the digest of the pages' sources: their names and contents."""
    hashed = hashlib.sha256()
    for path in _files():
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            hashed.update(f"{path.relative_to(_ROOT).as_posix()} {len(content)}\n".encode())
            hashed.update(content)
    return hashed.hexdigest()


def stamp() -> Path | None:
    """Return the file with the digest of the last run that passed; None if all tests are to run."""
    name = os.environ.get("PAGES_PASSED")
    return Path(name) if name else None


def have_passed() -> bool:
    """Return whether the pages' sources are those that have passed in a browser."""
    path = stamp()
    return path is not None and path.exists() and path.read_text(encoding="utf-8") == digest()


def note_passed(sources: str) -> None:
    """Note that these sources, by their digest, have passed in a browser."""
    if (path := stamp()) is not None:
        path.write_text(sources, encoding="utf-8")
