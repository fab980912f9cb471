"""Texts that are made of the documentation's pages: `docs/llms.txt`, and the tables that answers use.

`python tests/reference.py` writes them; `tests/test_reference.py` checks that they are current.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests import prose

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LLMS = DOCS / "llms.txt"
TERMS = ROOT / "pipeline" / "prequential" / "views" / "answers" / "terms.json"

#: Pages of the site that are files in the root of the repository.
_FROM_ROOT = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}

#: A link in Markdown, and marks around words.
_LINK, _MARKS = re.compile(r"\[([^\]]*)\]\([^)]*\)"), re.compile(r"<[^>]*>|\*\*")


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, whose tags of Python it ignores."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)


def llms() -> str:
    """Return `llms.txt`: the table of contents, with the first sentence of each page."""
    # A loader derived from the safe one.
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)
    lines = [f"# {settings['site_name']}", "", f"> {settings['site_description']}."]
    for section in settings["nav"]:
        [(title, pages)] = section.items()
        lines += ["", f"## {title}", ""]
        for page in [pages] if isinstance(pages, str) else pages:
            lines.append(_line(page))
    return "\n".join(lines) + "\n"


def _line(page: str) -> str:
    source = ROOT / _FROM_ROOT[page] if page in _FROM_ROOT else DOCS / page
    text = source.read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    assert title is not None, page
    first = _first_sentence(text[title.end() :])
    address = page.removesuffix(".md") + ".html"
    return f"- [{_plain(title[1])}]({address}){f': {first}' if first else ''}"


def _first_sentence(text: str) -> str:
    """Return the first sentence of the first paragraph, if one comes before the first section."""
    for block in re.split(r"\n\s*\n", text):
        block = block.strip()
        if block.startswith("#"):
            return ""
        if block and block[0].isalpha():
            return re.split(r"(?<=[.:?!]) ", _plain(" ".join(block.split())), maxsplit=1)[0].rstrip(":")
    return ""


def _plain(text: str) -> str:
    return _MARKS.sub("", _LINK.sub(r"\1", text)).strip()


def terms() -> str:
    """Return `terms.json`: which number to use, the glossary, and why measures have no value."""
    content: dict[str, Any] = {
        "numbers": [
            {"question": question, "use": use, "avoid": avoid}
            for question, use, avoid in _rows("understand/which-number.md", "question")
        ],
        "terms": [
            {"term": term.strip(), "meaning": meaning}
            for names, meaning in _rows("reference/glossary.md", "term")
            for term in names.split(", ")
        ],
        "reasons": {
            name: meaning
            for names, meaning in _rows("reference/measures.md", "reason")
            for name in names.split(", ")
        },
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _rows(page: str, first_column: str) -> Iterator[list[str]]:
    """Yield the rows of a page's tables whose first column has this name, without links and marks."""
    is_wanted = False
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            is_wanted = False
            continue
        cells = [_plain(cell).replace("`", "") for cell in prose.cells_of(line)]
        if cells[0] == first_column:
            is_wanted = True
        elif is_wanted and set(cells[0]) != {"-"}:
            yield cells


def texts() -> dict[Path, str]:
    """Return the content of each file."""
    return {LLMS: llms(), TERMS: terms()}
