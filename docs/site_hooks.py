"""What mkdocs does beyond its own: README.md and CHANGELOG.md are pages, and links to and from them hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).parents[1]

#: Files of the repository's root that are pages, and what they are called there.
_PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}

#: A link's or an image's target, in Markdown and in HTML.
_LINK = re.compile(r"(\]\(|(?:src|href|srcset)=\")([^)\s\"#]+)")

#: A link to a file of the repository that is no page: its text is what is left of it.
_ELSEWHERE = re.compile(r"(?<!!)\[([^\]]*)\]\((?!docs/|https?:|#|README\.md|CHANGELOG\.md)[^)]*\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    for name, page in _PAGES.items():
        text = (_ROOT / name).read_text(encoding="utf-8")
        text = _ELSEWHERE.sub(r"\1", text)
        files.append(File.generated(config, page, content=_LINK.sub(_from_root, text)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to the root's files to their pages."""
    return _LINK.sub(lambda match: match[1] + _PAGES.get(match[2].removeprefix("../"), match[2]), markdown)


def _from_root(match: re.Match[str]) -> str:
    return match[1] + match[2].removeprefix("docs/")
