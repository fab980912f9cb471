"""The tutorials run as they stand: every block, in order, in an empty folder."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pandas as pd
import pytest
from prequential.configfile.reading.reader import load_config
from prequential.demo.broker import pick_port
from prequential.topics.clients import KafkaConfig

from tests.ingest.registry_server import RegistryServer

TUTORIALS = Path(__file__).parents[2] / "docs" / "learn"

_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: Seconds for a command, and for a process beside it to have done its work. A test may take longer, so
#: that a failure shows what was printed so far.
_PATIENCE = 240


class Block(NamedTuple):
    """A block of code: its language, what stands beside it, and its text."""

    language: str
    about: str
    text: str


def renamed(path: Path, names: Mapping[str, str] | None) -> str:
    """Return the text of a file in which names of the reader's machine are replaced by others."""
    text = path.read_text("utf-8")
    for name, other in (names or {}).items():
        text = text.replace(name, other)
    return text


def blocks_of(tutorial: Path, names: Mapping[str, str] | None = None) -> list[Block]:
    """Return the blocks of a page, with other names."""
    found = _BLOCK.finditer(renamed(tutorial, names))
    return [Block(one[1], one[2].strip(), one[3]) for one in found]


def tutorial_blocks(name: str, names: Mapping[str, str] | None = None) -> list[Block]:
    """Return the blocks of a tutorial, and put the scripts that it runs into the present folder."""
    scripts = Path("docs/learn/data")
    scripts.mkdir(parents=True)
    for script in (TUTORIALS / "data").glob("*.py"):
        (scripts / script.name).write_text(renamed(script, names), "utf-8")
    return blocks_of(TUTORIALS / name, names)


def environment() -> dict[str, str]:
    """One in which the program is found."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def said_by(block: Block, names: dict[str, Any]) -> str:
    """What a block prints."""
    if block.language == "python":
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(block.text, "tutorial", "exec"), names)
        return out.getvalue()
    shell = subprocess.Popen(
        ["bash", "-e"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**environment(), "PYTHONFAULTHANDLER": "1"}, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = shell.communicate(block.text, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGABRT)  # Python then prints what it was doing
        out, err = shell.communicate()
        pytest.fail(f"not done after {_PATIENCE} s:\n{block.text}\n{out}\n{err}\n{said_beside()}")
    if block.about != "until":
        assert (shell.returncode != 0) == (block.about == "fails"), err
    return out + err


def in_a_terminal(command: str) -> str:
    """What a command prints where standard output is a terminal, without colours."""
    done = subprocess.run(
        ["script", "--quiet", "--return", "--command", command, "/dev/null"],
        env={**environment(), "COLUMNS": "120", "TERM": "xterm"}, capture_output=True, text=True,
        timeout=_PATIENCE, check=False,
    )  # fmt: skip
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stdout)


def missing(shown: str, said: str) -> list[str]:
    """Lines that are shown and weren't said; what is shown may be the beginning of a line.

    Or its items in another order: models are listed in the order of their first records, and partitions of a
    source race for this place.
    """
    lines = [" ".join(line.split()) for line in said.splitlines()]
    wanted = [" ".join(line.split()) for line in shown.splitlines()]
    in_any_order = {tuple(sorted(re.split("[:,] ", line))) for line in lines}
    return [
        line for line in wanted
        if not any(one.startswith(line) for one in lines)
        and tuple(sorted(re.split("[:,] ", line))) not in in_any_order
    ]  # fmt: skip


def run(blocks: list[Block]) -> dict[str, Any]:
    """Run blocks in the present folder, and return what their Python code defines.

    After `sh` there may be `fails`, `background` (it runs until the end), `install` (done beforehand) or
    `until` (it is repeated until it prints the text below it). The block before a block `text` prints it.
    A block `console` has a command and what it prints in a terminal, at the latest after some time.
    """
    names: dict[str, Any] = {}
    said = ""
    with ExitStack() as stack:
        stack.callback(drop_clients, names)  # of a broker that is gone: they would go on complaining
        for block, after in zip(blocks, [*blocks[1:], Block("", "", "")]):
            if block.language == "yaml":
                Path(block.about).write_text(block.text)
            elif block.about == "install":
                continue
            elif block.about == "background":
                log = stack.enter_context(Path("background.log").open("wb"))
                command = ["bash", "-c", f"exec {block.text}"]
                process = subprocess.Popen(command, env=environment(), stdout=log, stderr=log)
                stack.callback(stop, process)
            elif block.language == "console":
                command, _, shown = block.text.removeprefix("$ ").partition("\n")
                end = time.monotonic() + _PATIENCE
                while missing(shown, printed := in_a_terminal(command)):
                    assert time.monotonic() < end, printed + said_beside()
                    time.sleep(1)
            elif block.language in ("python", "sh"):
                said = said_by(block, names)
                end = time.monotonic() + _PATIENCE
                while block.about == "until" and missing(after.text, said) and time.monotonic() < end:
                    time.sleep(1)
                    said = said_by(block, names)
            else:
                assert not missing(block.text, said), said + said_beside()
    return names


def said_beside() -> str:
    """What the background process of this folder printed."""
    log = Path("background.log")
    return f"\nIn the background:\n{log.read_text('utf-8')}" if log.exists() else ""


def drop_clients(names: dict[str, Any]) -> None:
    """Drop everything but plain data."""
    for name, value in list(names.items()):
        if not isinstance(value, dict | list | int | float | str | pd.DataFrame):
            del names[name]


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process as Ctrl-C or a supervisor does."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    finally:
        process.kill()


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "report"),
    [
        ("quickstart-files.md", "report.html"),
        ("digits.md", "digits.html"),
        ("temperature.md", "temperature.html"),
        pytest.param("churn.md", "churn.html", marks=pytest.mark.nightly),
        pytest.param("flights.md", "flights.html", marks=pytest.mark.nightly),
    ],
)
def test_files(page: str, report: str) -> None:
    run(tutorial_blocks(page))
    assert Path(report).stat().st_size > 50_000


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.timeout(600)
@pytest.mark.nightly
def test_quickstart_kafka() -> None:
    """At another port than the reader's, so that the machine's own broker is left alone."""
    run(tutorial_blocks("quickstart-kafka.md", {"9092": str(pick_port())}))


def at_home(cluster: KafkaConfig) -> dict[str, str]:
    """What stands for the reader's cluster."""
    return {"localhost:9092": cluster.bootstrap_servers, "tutorial.": f"{cluster.prefix}tutorial."}


def mean_errors(days: pd.DataFrame, of: str, columns: list[str]) -> list[float]:
    """How far these columns are from the column `of`, on average."""
    return [(days[name] - days[of]).abs().mean() for name in columns]


@pytest.mark.nightly
@pytest.mark.slow
def test_judge() -> None:
    names = run(tutorial_blocks("judge.md"))
    errors = mean_errors(names["days"], "truth", ["final", "weighted", "expected"])
    shown = "mean errors are {:.3f}, {:.3f} and {:.3f}".format(*errors)
    assert shown in (TUTORIALS / "judge.md").read_text("utf-8")


@pytest.mark.nightly
@pytest.mark.slow
def test_clicks() -> None:
    """Precision over the labels so far is 1: these are clicks."""
    days = run(tutorial_blocks("clicks.md"))["days"].dropna(subset=["expected", "final"])
    errors = mean_errors(days.assign(so_far=1.0), "final", ["expected", "so_far"])
    shown = "`expected` precision is {:.3f}. That of the labels so far is {:.3f}.".format(*errors)
    assert shown in (TUTORIALS / "clicks.md").read_text("utf-8")


@pytest.mark.nightly
@pytest.mark.slow
def test_avro_and_cdc(cluster: KafkaConfig) -> None:
    with RegistryServer() as registry:
        names = {**at_home(cluster), "http://localhost:8081": registry.url}
        run(tutorial_blocks("avro-and-cdc.md", names))
    assert Path("fraud.html").stat().st_size > 50_000


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.nightly
def test_kserve(cluster: KafkaConfig) -> None:
    run(tutorial_blocks("kserve.md", at_home(cluster)))
    assert Path("kserve.html").stat().st_size > 50_000


def test_every_tutorial_is_run() -> None:
    """And its pictures are there."""
    here = Path(__file__).read_text("utf-8")
    for tutorial in TUTORIALS.glob("*.md"):
        assert f'"{tutorial.name}"' in here
        for read_snapshot in re.findall(r"!\[.*?\]\((.*?)\)", tutorial.read_text("utf-8")):
            assert (TUTORIALS / read_snapshot).exists()


@pytest.mark.slow
def test_the_examples_of_the_pages_on_files() -> None:
    """They run, and the mapping is one."""
    pages, names = TUTORIALS.parent / "do", dict[str, Any]()
    found = [
        one for page in ("map-columns.md", "evaluate-files.md") for one in indented_blocks_of(pages / page)
    ]
    for block in found:
        if block.language == "yaml":
            Path("c.yaml").write_text(block.text)
            assert list(load_config("c.yaml").files) == ["predictions", "labels"]
        elif block.language == "python":
            said_by(block, names)
    assert names["evaluator"].get("accuracy") == 0.75


def indented_blocks_of(page: Path) -> list[Block]:
    """The blocks of numbered steps."""
    found = re.findall(r"^( *)```(\w+)\n(.*?)^\1```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(language, "", dedent(text)) for _, language, text in found]
