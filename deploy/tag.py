"""Whether a tag is the version of everything that a release publishes.

python deploy/tag.py v0.2.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]

#: Where a version is written, and how.
_PLACES = {
    "pyproject.toml": r'^version = "(.+)"$',
    "deploy/helm/prequential/Chart.yaml": r"^(?:version|appVersion): \"?([^\"\n]+)\"?$",
    "CHANGELOG.md": r"^## \[(\d[^\]]*)\]",
}


def faults(tag: str, root: Path = _ROOT) -> list[str]:
    """A sentence for each place with another version than the tag's."""
    if not re.fullmatch(r"v\d+\.\d+\.\d+(rc\d+)?", tag):
        return [f"the tag is {tag!r}: expected v and a version, such as v0.2.0"]
    found = []
    for name, pattern in _PLACES.items():
        versions = re.findall(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        if name == "CHANGELOG.md":  # only its newest one
            versions = versions[:1]
        for version in versions or [None]:
            if version != tag[1:]:
                found.append(f"{name} has version {version}: expected {tag[1:]}, as the tag has it")
    return found


if __name__ == "__main__":
    sentences = faults(*sys.argv[1:2] or [""])
    print("\n".join(sentences) or f"{sys.argv[1]} is the version of all parts")
    sys.exit(bool(sentences))
