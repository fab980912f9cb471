"""The tutorials run as they stand: every block, in order, in an empty folder."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prequential.config import load_config

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"

_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: Seconds for a command.
_PATIENCE = 300


class Block(NamedTuple):
    """A block of code: its language, what stands beside it, and its text."""

    language: str
    about: str
    text: str


def blocks_of(tutorial: Path) -> list[Block]:
    return [Block(one[1], one[2].strip(), one[3]) for one in _BLOCK.finditer(tutorial.read_text("utf-8"))]


def said_by(block: Block, names: dict[str, Any]) -> str:
    """What a block prints."""
    if block.language == "python":
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(block.text, "tutorial", "exec"), names)
        return out.getvalue()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e"], input=block.text, capture_output=True, text=True, timeout=_PATIENCE,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert (done.returncode != 0) == (block.about == "fails"), done.stderr
    return done.stdout + done.stderr


def run(tutorial: Path) -> None:
    """Run it in the present folder; the lines of a block `text` must have been said just before."""
    names: dict[str, Any] = {}
    said = ""
    for block in blocks_of(tutorial):
        if block.language == "yaml":
            Path(block.about).write_text(block.text)
        elif block.language == "text":
            lines = [" ".join(line.split()) for line in said.splitlines()]
            for shown in block.text.splitlines():
                wanted = " ".join(shown.split())
                assert any(line.startswith(wanted) for line in lines), (shown, said)
        elif block.language in ("python", "sh"):
            said = said_by(block, names)


@pytest.mark.slow
def test_churn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(TUTORIALS / "churn.md")
    assert (tmp_path / "churn.html").stat().st_size > 50_000


def test_every_tutorial_is_run() -> None:
    """And its pictures are there."""
    here = Path(__file__).read_text("utf-8")
    for tutorial in TUTORIALS.glob("*.md"):
        assert f'"{tutorial.name}"' in here
        for picture in re.findall(r"!\[.*?\]\((.*?)\)", tutorial.read_text("utf-8")):
            assert (TUTORIALS / picture).exists()


def test_the_examples_of_the_page_on_mappings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run, and its configuration is one."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks_of(TUTORIALS.parent / "mapping.md"):
        if block.language == "yaml":
            Path("c.yaml").write_text(block.text)
            assert list(load_config("c.yaml").files) == ["predictions", "labels"]
        else:
            said_by(block, names)
    assert names["evaluator"].get("accuracy") == 0.75
