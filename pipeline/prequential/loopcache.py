"""Where compiled loops are kept: numba's cache, which doesn't see all that a loop is made of.

numba drops a cached loop when the file that it stands in changes. But a loop holds the code of those that it
calls, which stand in other files: after an upgrade it would go on doing what they did. Here it is dropped
when any file that its own imports, directly or not, has changed.

With `NUMBA_CACHE_DIR` they are kept there, also where nothing can be written, as in an image; else beside the
sources, or in the user's cache directory.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

_ROOT = Path(__file__).parent
_IMPORT = re.compile(r"^from (prequential\.core[.\w]*) import (\([^)]*\)|.*)$", re.MULTILINE)


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """Files of the core that a file imports."""
    found = []
    for module, names in _IMPORT.findall(path.read_text()):
        folder = _ROOT.joinpath(*module.split(".")[1:])
        found += [folder / f"{name}.py" for name in re.findall(r"\w+", names)]
        found += [folder.with_suffix(".py"), folder / "__init__.py"]
    return tuple(one for one in found if one.exists())


@cache
def stamp(path: Path) -> str:
    """A digest of a file and of all files of the core that it needs."""
    files, new = {path}, [path]
    while new:
        new = [one for one in _imported(new.pop()) if one not in files] + new
        files.update(new)
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(_ROOT)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


class _Stamped:
    _py_file: str

    def get_source_stamp(self) -> str:
        """Changes with what the loop is made of."""
        return stamp(Path(self._py_file))


class GivenFolder(_Stamped, caching.UserProvidedCacheLocator):
    """In `NUMBA_CACHE_DIR`; if nothing can be written there, for reading."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """A locator, if the variable is set."""
        if not numba.config.CACHE_DIR:  # type: ignore[attr-defined]
            return None
        found = super().from_function(py_func, py_file)  # type: ignore[no-untyped-call]
        if found is None and Path(numba.config.CACHE_DIR).is_dir():  # type: ignore[attr-defined]
            return cls(py_func, py_file)  # type: ignore[no-untyped-call]
        return found


class BesideSources(_Stamped, caching.InTreeCacheLocator):
    """In `__pycache__`."""


class OfUser(_Stamped, caching.UserWideCacheLocator):
    """In the user's cache directory."""


#: As numba's setting has them.
LOCATORS = ",".join(f"{one.__module__}.{one.__name__}" for one in (GivenFolder, BesideSources, OfUser))
