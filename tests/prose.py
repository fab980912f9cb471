"""Check the prose of the documentation and of the code: `python tests/prose.py` prints what to rewrite.

Documentation is checked whole. Of the code, strings and comments in the paths of `CODE` are checked.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

#: The documentation, all of it.
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**/*.md")

#: Pages that are still to be rewritten. A page leaves this list when its facts have moved.
NOT_YET: tuple[str, ...] = ()

#: Paths of code whose texts are checked. A folder or file joins this list once it is rewritten.
CODE: tuple[str, ...] = ("tests/prose.py",)

#: Pages that may exceed `PAGE_BYTES`: generated reference, and evidence.
LONG_PAGES = re.compile(r"CHANGELOG\.md|docs/understand/validation.*|docs/reference/(configuration|cli|measures|python.*)\.md")

PAGE_BYTES, SENTENCE_WORDS, PARAGRAPH_LINES, LINE_CHARACTERS, CELL_WORDS = 10_240, 30, 5, 130, 30

#: A pattern that is banned, and what to write instead.
BANNED = {
    r"anew": "again, from scratch",
    r"beside": "next to",
    r"former": "previous",
    r"likewise": "also",
    r"mend(s|ed|ing)?": "fix",
    r"some \d[\d,.]*": "about N",
    r"as ever": "as before",
    r"(is|are) over": "has ended",
    r"(is|are|was|were) had": "an active verb",
    r"ways? out": "fix",
    r"by itself": "separately, automatically",
    r"look(s|ed|ing)? at|to look at": "check, inspect",
    r"(is|are|was|were) worth": "counts as",
    r"stands(?! (in|for))|stood": "is, is listed",
    r"(comes?|came) of": "results from",
    r"[Oo]f (classes|numbers),": "for classification, for regression",
    r", too": "also, before the verb",
    r"says|said|tells|told": "prints, reports, publishes",
    r"knows|thinks|wants": "has, needs",
    r"[Ww]hat (waits|comes|can't|isn't|is there|there is|lies|has|gets)": "a noun: pending predictions, invalid records",
    r"nobody|somebody|whoever|who wants": "you, or the actor",
    r"flood(s|ed)?|3 am|harm|chance's": "a plain word",
    r"(labeled|normalized|behavior|recogniz\w+|summariz\w+|initializ\w+|color)": "British spelling",
    r"\d+(\.\d+)? %": "the per cent sign without a blank",
}  # fmt: skip

_BANNED = [(re.compile(rf"(?<![\w-])({one})(?![\w-])"), instead) for one, instead in BANNED.items()]
_PER_CENT = re.compile(r"\d %")

#: Python names of words that English sentences also have in another sense don't occur in these.
_CODE_SPAN = re.compile(r"``.+?``|`[^`]+`|https?://\S+|\{\{.*?\}\}")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^\s*([-*]|\d+\.)\s")
_END = re.compile(r"(?<=[.!?])[\"')*]*\s+")


class Finding(NamedTuple):
    """A place and what is wrong there."""

    path: str
    line: int
    problem: str


def plain(text: str) -> str:
    """Return the text with code spans as the word CODE and links as their text."""
    return _LINK.sub(r"\1", _CODE_SPAN.sub("CODE", text)).replace("**", "")


def words_of(text: str) -> Iterator[str]:
    """Yield each problem with the words and the sentences of one paragraph."""
    text = " ".join(plain(text).split())
    for pattern, instead in _BANNED:
        for match in pattern.finditer(text):
            yield f"{match[0]!r}: write {instead}"
    if _PER_CENT.search(text):
        yield "per cent: write 5%, without a blank"
    for sentence in _END.split(text):
        number = len(re.findall(r"[\w'’]+(?:[-,.:/][\w'’]+)*", sentence or ""))
        if number > SENTENCE_WORDS:
            yield f"a sentence of {number} words: {sentence[:60]} …"


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of each paragraph, list item, heading and table row."""
    text = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    text = re.sub(r"<!--.*?-->", lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL)
    start, lines = 1, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        alone = line.lstrip().startswith(("#", "|", "!!!", "<"))
        if lines and (not line.strip() or alone or _ITEM.match(line)):
            yield start, "\n".join(lines)
            lines = []
        if alone:
            yield number, line
        elif line.strip():
            start = start if lines else number
            lines.append(line)


def in_page(path: str, text: str) -> Iterator[Finding]:
    """Yield what is wrong with a page of documentation."""
    size = len(text.encode())
    if size > PAGE_BYTES and not LONG_PAGES.fullmatch(path):
        yield Finding(path, 1, f"a page of {size:,} bytes, at most {PAGE_BYTES:,}")
    for line, block in blocks(text):
        cells = block.strip("| ").split(" | ") if block.lstrip().startswith("|") else [block]
        yield from (Finding(path, line, problem) for cell in cells for problem in words_of(cell))
        if len(cells) == 1 and sum(1 + len(one) // LINE_CHARACTERS for one in block.splitlines()) > PARAGRAPH_LINES:
            yield Finding(path, line, f"a paragraph of more than {PARAGRAPH_LINES} lines")
        yield from (Finding(path, line, "a table cell that is too long") for one in cells[1:] if len(one.split()) > CELL_WORDS)


def in_python(path: str, text: str) -> Iterator[Finding]:
    """Yield what is wrong with the comments and strings of a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for line, block in blocks(re.sub(r"^ *(>>>|\.\.\.).*$", "", node.value, flags=re.MULTILINE)):
                yield from (Finding(path, node.lineno + line - 1, problem) for problem in words_of(block))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from (Finding(path, token.start[0], problem) for problem in words_of(token.string.lstrip("#: ")))


def found() -> list[Finding]:
    """Return everything that is wrong."""
    findings = list[Finding]()
    for name in (path for pattern in PAGES for path in sorted(ROOT.glob(pattern))):
        path = name.relative_to(ROOT).as_posix()
        if path not in NOT_YET:
            findings += in_page(path, name.read_text("utf-8"))
    for root in (ROOT / path for path in CODE):
        for name in sorted(root.rglob("*")) if root.is_dir() else [root]:
            path = name.relative_to(ROOT).as_posix()
            if name.suffix == ".py" and path != "tests/prose.py":
                findings += in_python(path, name.read_text("utf-8"))
            elif name.suffix in (".yml", ".yaml", ".html", ".md"):
                texts = enumerate(name.read_text("utf-8").splitlines(), 1)
                findings += [Finding(path, line, problem) for line, text in texts for problem in words_of(text)]
    return findings


if __name__ == "__main__":
    wrong = found()
    print(*(f"{path}:{line}: {problem}" for path, line, problem in wrong), sep="\n")
    sys.exit(bool(wrong))
