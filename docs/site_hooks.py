"""Hooks of mkdocs: README.md, CHANGELOG.md and CONTRIBUTING.md become pages, and their links are adapted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).parents[1]

#: Files in the root of the repository that become pages, with the names of the pages.
_PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}

#: The target of a link or an image, in Markdown and in HTML.
_LINK = re.compile(r"(\]\(|(?:src|href|srcset)=\")([^)\s\"#]+)")

#: A link to a file that is not a page. Only its text remains.
_ELSEWHERE = re.compile(r"(?<!!)\[([^\]]*)\]\((?!docs/|https?:|#|README\.md|CHANGELOG\.md|CONTRIBUTING\.md)[^)]*\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    for name, page in _PAGES.items():
        text = (_ROOT / name).read_text(encoding="utf-8")
        text = _ELSEWHERE.sub(r"\1", text)
        files.append(File.generated(config, page, content=_LINK.sub(_from_root, text)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links to files in the root at their pages."""
    return _LINK.sub(lambda match: match[1] + _to_page(match[2]), markdown)


def _to_page(target: str) -> str:
    page = _PAGES.get(target.removeprefix("../").removeprefix("../"))
    return target if page is None else "../" * (target.count("../") - 1) + page


def _from_root(match: re.Match[str]) -> str:
    return match[1] + match[2].removeprefix("docs/")
