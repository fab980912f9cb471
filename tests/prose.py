"""Check the prose that users read: `python tests/prose.py` prints what to rewrite.

Pages are checked whole. Of code, texts of the program are checked: strings of help, errors, logs and pages.
Docstrings and comments are not: they are for contributors, who write ordinary English.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**/*.md")
CODE = ("docs", "mkdocs.yml", "deploy/sinks", "pipeline/prequential")

#: Pages that may exceed `PAGE_BYTES`: generated reference, evidence, and the history.
_GENERATED = "configuration|cli|measures|detectors|series|output-messages|python.*"
LONG_PAGES = re.compile(rf"CHANGELOG\.md|docs/understand/validation.*|docs/reference/({_GENERATED})\.md")

#: A row of a table has no lines, so its cells have a limit of words.
PAGE_BYTES, SENTENCE_WORDS, PARAGRAPH_LINES, LINE_CHARACTERS, CELL_WORDS = 10_240, 30, 5, 140, 30

#: A pattern that is banned, and what to write instead.
BANNED = {
    r"anew": "again, from scratch",
    r"some \d[\d,.]*": "about N",
    r"(is|are|was|were) had": "an active verb",
    r"the ways? out": "fix",
    r"(is|are) told": "an active verb",
    r"of numbers[,:]": "for regression",
    r"what (waits|can't be|there is|lies)": "a noun: pending predictions",
    r"labeled|normalized|behavior|(recogn|summar|initial)iz\w+": "British spelling",
    r"\d+(\.\d+)? %(?!\w)": "the per cent sign without a blank",
}  # fmt: skip

_BANNED = [(re.compile(rf"(?<![\w-])(?i:{one})(?![\w-])"), instead) for one, instead in BANNED.items()]
_CODE = re.compile(r"``.+?``|`[^`]+`|https?://\S+|\{\{.*?\}\}")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_FENCE = re.compile(r"^( *)```.*?^\1```|<!--.*?-->", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^\s*([-*]|\d+\.)\s")
_COLUMNS = re.compile(r"\S {3,}\S")
_END = re.compile(r"(?<=[.!?])[\"')*]*\s+")
_WORD = re.compile(r"[\w'’]+(?:[-,.:/][\w'’]+)*")


class Finding(NamedTuple):
    """A place and what is wrong there."""

    path: str
    line: int
    problem: str


def problems(text: str) -> Iterator[str]:
    """Yield each problem with the words and the sentences of one paragraph."""
    text = " ".join(_LINK.sub(r"\1", _CODE.sub("CODE", text)).replace("**", "").split())
    for pattern, instead in _BANNED:
        yield from (f"{match[0]!r}: write {instead}" for match in pattern.finditer(text))
    for sentence in _END.split(text):
        if (number := len(_WORD.findall(sentence))) > SENTENCE_WORDS:
            yield f"a sentence of {number} words: {sentence[:60]} …"


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of each paragraph, list item, heading and table row."""
    text = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    start, lines = 1, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        alone = line.lstrip().startswith(("#", "|", "!!!", "<")) or bool(_COLUMNS.search(line))
        if lines and (not line.strip() or alone or _ITEM.match(line)):
            yield start, "\n".join(lines)
            lines = []
        if alone:
            yield number, line
        elif line.strip():
            start = start if lines else number
            lines.append(line)


def cells_of(row: str) -> list[str]:
    """Return the cells of a table's row."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip()[1:-1])]


def in_page(path: str, text: str) -> Iterator[Finding]:
    """Yield what is wrong with a page of documentation."""
    if (size := len(text.encode())) > PAGE_BYTES and not LONG_PAGES.fullmatch(path):
        yield Finding(path, 1, f"a page of {size:,} bytes, at most {PAGE_BYTES:,}")
    for line, block in blocks(text):
        cells = cells_of(block) if block.lstrip().startswith("|") else [block]
        yield from (Finding(path, line, problem) for cell in cells for problem in problems(cell))
        if any(len(cell.split()) > CELL_WORDS for cell in cells[1:]):
            yield Finding(path, line, f"a table cell of more than {CELL_WORDS} words")
        height = sum(1 + len(one) // LINE_CHARACTERS for one in block.splitlines())
        if height > PARAGRAPH_LINES and len(cells) == 1:
            yield Finding(path, line, f"a paragraph of more than {PARAGRAPH_LINES} lines")


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield strings that stand alone: docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def in_python(path: str, text: str) -> Iterator[Finding]:
    """Yield what is wrong with a module's texts of the program."""
    tree = ast.parse(text)
    docstrings = set(map(id, _docstrings(tree)))
    for node in ast.walk(tree):
        if id(node) in docstrings or not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if " " in node.value and not node.value.lstrip().startswith("import "):  # else it is a program
            for line, block in blocks(node.value):
                for problem in problems(block):
                    yield Finding(path, node.lineno + line - 1, problem)


def found() -> Iterator[Finding]:
    """Yield everything that is wrong."""
    for path in (path for pattern in PAGES for path in sorted(ROOT.glob(pattern))):
        yield from in_page(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    for root in (ROOT / path for path in CODE):
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            name = path.relative_to(ROOT).as_posix()
            if path.suffix == ".py":
                yield from in_python(name, path.read_text("utf-8"))
            elif path.suffix in (".yml", ".yaml", ".html"):
                for line, text in enumerate(path.read_text("utf-8").splitlines(), 1):
                    yield from (Finding(name, line, problem) for problem in problems(text))


if __name__ == "__main__":
    wrong = list(found())
    print(*(f"{path}:{line}: {problem}" for path, line, problem in wrong), sep="\n")
    sys.exit(bool(wrong))
