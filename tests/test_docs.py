"""The documentation: it builds without a warning, what it shows runs, and each page keeps to its purpose."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from prequential.cli.main import main
from prequential.demo.broker import EmbeddedBroker

from tests import prose
from tests.dashboard.screenshots import text_of, wrong
from tests.files.test_tutorials import Block, blocks_of, environment, said_by, stop

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"

#: Pages that may name tests and source files: evidence, and pages for contributors.
_EVIDENCE = re.compile(
    r"understand/(validation.*|benchmarks|costs)|architecture|features|reference/(cli|configuration)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def pages() -> list[Path]:
    return sorted(DOCS.rglob("*.md"))


@pytest.mark.slow
def test_every_page_is_there(site: Path) -> None:
    built = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")} - {Path("404")}
    wanted = {path.relative_to(DOCS).with_suffix("") for path in pages()}
    assert built == wanted | {Path("index"), Path("changelog"), Path("contributing")}


def questions() -> dict[str, set[str]]:
    """The questions that a page answers: each with the files that the answer links to."""
    text = (DOCS / "understand/questions.md").read_text("utf-8")
    sections = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return {title: set(re.findall(r"\(\.\./([\w/-]+\.md)", answer)) for title, answer in sections}


def anchor_of(title: str) -> str:
    """A heading's anchor, as code hosts make it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def test_troubleshooting_leads_to_every_question() -> None:
    """Directly, or to the page that has the rest."""
    page = (DOCS / "do/troubleshooting.md").read_text("utf-8")
    linked = {f"do/{name}" for name in re.findall(r"\(([\w-]+\.md)", page)}
    linked |= set(re.findall(r"\(\.\./([\w/-]+\.md)", page))
    assert len(questions()) == 15
    for title, pages_of_answer in questions().items():
        is_there = f"questions.md#{anchor_of(title)})" in page or pages_of_answer & linked
        assert is_there, title


@pytest.mark.slow
def test_the_search_has_every_question(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text("utf-8"))
    found = {entry["location"] for entry in index["docs"]}
    for title in questions():
        assert f"understand/questions.html#{anchor_of(title)}" in found, title


@pytest.mark.slow
def test_nothing_is_loaded_from_other_hosts(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=\"(?:https?:)?//[^\"]*", text) == [], path
        assert re.findall(r"<link[^>]*rel=\"stylesheet\"[^>]*href=\"(?:https?:)?//", text) == [], path


@pytest.mark.slow
def test_pictures_are_there(site: Path) -> None:
    for path in site.rglob("*.html"):
        for source in re.findall(r"<img[^>]*\ssrc=\"([^\"]*)\"", path.read_text(encoding="utf-8")):
            found = (path.parent / source, site / source.lstrip("/"))
            assert any(place.exists() for place in found), (path.name, source)


def test_every_page_has_one_place_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = re.findall(r"^ +- (\S+/\S+\.md)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(
        path.relative_to(DOCS).as_posix() for path in pages() if path.parent != DOCS
    )
    parts = re.findall(r"^  - ([^:\n]+):", text[text.index("nav:") :], re.MULTILINE)
    assert parts == ["Start", "Learn", "Do", "Look up", "Understand", "Contribute"]


def test_pages_for_users_name_no_tests() -> None:
    for path in [README, *pages()]:
        if not _EVIDENCE.match(path.relative_to(ROOT if path == README else DOCS).as_posix()):
            text = path.read_text("utf-8").replace("make test", "")
            assert not re.findall(r"\btests[/.]\w+|pipeline/\S+\.py", text), path


def test_how_to_pages_end_with_a_check() -> None:
    for path in DOCS.glob("do/*.md"):
        titles = re.findall(r"^## (.*)", path.read_text("utf-8"), re.MULTILINE)
        if path.stem != "troubleshooting":
            assert titles[-2:] == ["Check that it worked", "If it didn't"], path


def test_files_that_contributors_are_sent_to_exist() -> None:
    for path in (ROOT / "CONTRIBUTING.md", DOCS / "architecture.md", DOCS / "features.md"):
        named = re.findall(r"`([\w./-]+(?:/|\.(?:py|md|toml|yml|js)))`", path.read_text("utf-8"))
        assert named
        roots = (ROOT, ROOT / "pipeline/prequential", ROOT / "topics/prequential")
        missing = [name for name in named if not any((root / name).exists() for root in roots)]
        assert missing == [], path


def test_evidence_names_programs_that_exist() -> None:
    for path in DOCS.glob("understand/*.md"):
        text = path.read_text("utf-8")
        for module in re.findall(r"python -m (tests[.\w]+)", text):
            assert (ROOT / (module.replace(".", "/") + ".py")).exists(), module
        for name in re.findall(r"`(tests/[\w/]+(?:\.py)?)`", text):
            assert (ROOT / name).exists(), name


def test_changelog_has_its_form() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = re.split(r"^## ", text, flags=re.MULTILINE)[1]
    titles = re.findall(r"^### (.*)", newest, re.MULTILINE)
    assert titles[0].startswith("Changed: breaking")
    breaking = newest.split("### ")[1]
    steps = re.findall(r"^- .*(?:\n  .*)*", breaking, re.MULTILINE)
    assert steps
    assert all("Migration:" in step for step in steps), steps


# The README: its commands and snippets are run as a reader would.


@pytest.mark.parametrize("name", ["overview", "pair", "incident"])
def test_pictures_show_a_page_without_warnings(name: str) -> None:
    path = DOCS / "images" / f"{name}.png"
    shown = text_of(path.read_bytes())
    assert shown is not None, "taken by hand: tests/dashboard/screenshots.py makes the pictures"
    assert wrong(shown) == []
    assert shown["live"] == (name == "overview")


def test_stale_pictures_are_refused() -> None:
    fresh = {"status": "live, newest message 3 s ago (12:00:00 UTC)", "alerts": [], "live": True, "cut": []}
    assert wrong(fresh) == []
    for changed in (
        {"status": "live, newest message 11 s ago"}, {"status": "not live, newest message 3 s ago"},
        {"status": "live, newest message 3 min ago"}, {"status": ""}, {"alerts": ["the connection is lost"]},
        {"status": "loading history: 45%"}, {"cut": ["a long na"]},
    ):  # fmt: skip
        assert wrong({**fresh, **changed}), changed


def readme_blocks(start: str) -> list[Block]:
    """The blocks of code below the heading."""
    section = README.read_text("utf-8").split(f"## {start}")[1].split("\n## ")[0]
    return [Block(language, "", text) for language, text in re.findall(r"```(\w+)\n(.*?)```", section, re.S)]


def test_installation_commands_name_extras_that_exist() -> None:
    extras = re.findall(r"^([\w-]+) = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    for path in [README, *pages()]:
        for names in re.findall(r"pip install '\.\[([\w,]+)\]'", path.read_text("utf-8")):
            assert set(names.split(",")) <= set(extras), path
        assert "pip install prequential" not in path.read_text("utf-8"), "it is on no index yet"


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for path in [README, ROOT / "CONTRIBUTING.md", *pages()]:
        for block in re.findall(r"^make ([a-z]+)|`make ([a-z]+)", path.read_text("utf-8"), re.MULTILINE):
            assert set(filter(None, block)) <= targets, path


def test_commands_exist(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [path.read_text("utf-8") for path in [README, *pages()]]
    fences = [one for text in texts for one in re.findall(r"^ *```sh.*?^ *```", text, re.M | re.S)]
    spans = [one for text in texts for one in re.findall(r"`(prequential [^`]+)`", text)]
    named = re.compile(r"^ *prequential ([a-z][a-z-]+)", re.MULTILINE)
    commands = {one for text in fences + spans for one in named.findall(text)}
    assert {"replay", "worker", "topics"} <= commands
    for command in sorted(commands):
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0, command
    capsys.readouterr()


def test_the_readme_begins_with_a_number() -> None:
    """The first snippet runs as it stands, on the package's data, and prints the numbers of the page."""
    _, python, output, _ = readme_blocks("Try it")
    result = said_by(python, {})
    for row in output.text.splitlines()[1:]:
        model, *values = row.split()
        line = next(line for line in result.splitlines() if line.startswith(model))
        assert all(value in line for value in values), row


@pytest.mark.slow
def test_the_readme_evaluates_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tables = {
        "predictions": [("instance_id", "y_pred", "ts"), *((i, "ok", 1000 * i) for i in range(200))],
        "labels": [("instance_id", "y_true", "ts"), *((i, "ok", 1000 * i + 500) for i in range(200))],
    }
    for name, rows in tables.items():
        with open(f"{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows(rows)
    [_, python] = readme_blocks("Evaluate your own predictions")
    assert "200" in said_by(python, {})
    assert Path("report.html").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.embedded
def test_the_readme_evaluates_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is one at another port, so that the machine's own is left alone."""
    monkeypatch.chdir(tmp_path)
    commands, python = readme_blocks("Evaluate live")
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        for line in commands.text.splitlines():
            command = line.partition("#")[0].strip()
            if command.startswith(("pip ", "prequential broker")):
                continue
            other = f"{command.rstrip(' &')} --bootstrap-servers {broker.bootstrap_servers}"
            if command.endswith("&") or "dashboard" in command:
                place = "--http 127.0.0.1:0" if "worker" in command else "--port 0"
                process = subprocess.Popen(f"exec {other} {place}", shell=True, env=environment())
                stack.callback(stop, process)
            else:
                subprocess.run(other, shell=True, env=environment(), check=True)
        said_by(Block("python", "", python.text.replace("localhost:9092", broker.bootstrap_servers)), {})
        end = time.monotonic() + 300
        replay = f"prequential replay --from-topics --bootstrap-servers {broker.bootstrap_servers}"
        while "outcomes of fraud: model-a 1" not in (said := said_by(Block("sh", "until", replay), {})):
            assert time.monotonic() < end, said
            time.sleep(1)


# The prose check itself.


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Compile it anew.", "anew"), ("It costs 5 % more.", "per cent"), ("Nothing is had.", "is had"),
        (" ".join(["word"] * 31) + ".", "31 words"),
        ("What waits is counted.", "pending"), ("\n".join(["A line."] * 6), "more than 5 lines"),
        ("x" * 10_300, "bytes"), ("| a | " + "word " * 31 + "|", "cell"), ("The behavior.", "British"),
    ],
)  # fmt: skip
def test_prose_is_checked(text: str, problem: str) -> None:
    found = [one.problem.lower() for one in prose.in_page("docs/page.md", text)]
    assert any(problem.lower() in one for one in found), found


def test_prose_of_code_is_checked_in_texts_that_users_read() -> None:
    """Help, errors and logs are texts of the program; docstrings and comments are for contributors."""
    code = '"""Compile it anew."""\n# Compile it anew.\nx = "the cache is compiled anew"\n'
    assert [finding.line for finding in prose.in_python("a.py", code)] == [3]


@pytest.mark.parametrize(
    "text",
    [
        "It costs 5%.", "`costs 5 %`", "```\nis had\n```", "It knows what it wants, and says so.",
        "Harm is over.", "It waits 10 s.",
    ],
)  # fmt: skip
def test_prose_of_code_and_terms_is_left_alone(text: str) -> None:
    assert list(prose.in_page("docs/page.md", text)) == []


def test_configurations_in_pages_are_valid_yaml() -> None:
    for path in pages():
        for block in blocks_of(path):
            if block.language == "yaml":
                assert yaml.safe_load(block.text) is not None, path
