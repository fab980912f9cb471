"""Outputs of commands: none empties an input, and a reader that goes early spoils nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
from boards import alarm, comparison, incident, metrics
from prequential.cli.main import main

from tests import forked
from tests.worker.processes import HANGS

OUTPUTS = ("metrics", "comparisons", "alarms", "incidents", "dead-letters")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Records, messages, and configurations."""
    for kind, field, count in (("predictions", "y_pred", 1_500), ("labels", "y_true", 1_500)):
        lines = [
            f'{{"stream": "s", "model": "m", "instance_id": {n}, "{field}": {n % 3% 2}, "ts": {n}}}'
            for n in range(count)
        ]
        (tmp_path / kind).write_text("\n".join([*lines, "{}"]) + "\n", encoding="utf-8")
    (tmp_path / "instances").write_text("", encoding="utf-8")
    (tmp_path / "c.yaml").write_text("defaults: {emit: {outcomes: 5}}\n", encoding="utf-8")
    (tmp_path / "other.yaml").write_text("defaults: {label_horizon: 1h}\n", encoding="utf-8")
    for name, one in (("m", metrics()), ("x", comparison()), ("a", alarm()), ("i", incident())):
        (tmp_path / f"{name}.jsonl").write_bytes((one.value or b"") + b"\n")
    return tmp_path


def hard(target: Path, name: Path) -> Path:
    name.hardlink_to(target)
    return name


def symbolic(target: Path, name: Path) -> Path:
    name.symlink_to(target)
    return name


def both(target: Path, name: Path) -> Path:
    """A symbolic link to a hard link, in another folder."""
    (name.parent / "deep").mkdir(exist_ok=True)
    return symbolic(hard(target, name.parent / "deep" / f"{name.name}.hard"), name)


def detour(target: Path, name: Path) -> Path:
    return target.parent / ".." / target.parent.name / target.name


#: Ways to name a file once more.
WAYS = (lambda target, name: target, detour, symbolic, hard, both)

PAST = ("--config=c.yaml", "--instances=instances", "--predictions=predictions", "--labels=labels")
REPLAY = ("replay", *PAST)
REPORT = (
    "report", "--config=c.yaml", "m.jsonl", "--comparisons=x.jsonl", "--alarms=a.jsonl",
    "--incidents=i.jsonl",
)  # fmt: skip

#: Commands, and their options that write.
WRITERS = (
    (REPLAY, (*(f"{name}-out" for name in OUTPUTS), "report", "summary")), (REPORT, ("out", "markdown")),
    (("detectors", *PAST), ("plot",)), (("calibrate", *PAST), ("out",)),
    (("dead-letters", "--config=c.yaml"), ("out",)),
)  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("words", "options"), WRITERS, ids=lambda given: given[0])
def test_an_input_is_no_output_under_any_name(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...],
    options: tuple[str, ...], way: Callable[[Path, Path], Path],
) -> None:  # fmt: skip
    monkeypatch.chdir(folder)
    inputs = [word.partition("=")[2] or word for word in words[1:]]
    for number, name in enumerate(inputs):
        output = way(folder / name, folder / f"link-{number}")
        before = (folder / name).read_bytes()
        for option in options:
            assert main([*words, f"--{option}={output}"]) == 2
            said = capsys.readouterr().err
            assert f"can't write {str(output)!r}: {name!r} is read as well, expected another file" in said
            assert (folder / name).read_bytes() == before


def test_two_outputs_and_standard_streams_are_no_one_file(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    first = folder / "first"
    first.write_text("", encoding="utf-8")
    assert main([*REPLAY, f"--metrics-out={first}", f"--summary={hard(first, folder / 'second')}"]) == 2
    assert "is written as well, expected another file" in capsys.readouterr().err
    words = [*REPLAY[:-1], "--labels=-"]
    with (folder / "labels").open("rb") as stdin, (folder / "labels").open("ab") as stdout:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert main([*words, f"--metrics-out={hard(folder / 'labels', folder / 'third')}"]) == 2
        assert "'-' is read as well, expected another file" in capsys.readouterr().err
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(fileno=stdout.fileno, flush=lambda: None))
        assert main([*REPLAY, "--metrics-out=-"]) == 2  # `>> labels`
    assert len((folder / "labels").read_text("utf-8").splitlines()) == 1_501


def begun(folder: Path, words: Sequence[str], out: IO[Any], err: IO[Any]) -> Any:
    """The program, started in the folder: a copy, or a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return forked.start(words, folder, environment, out, err) or subprocess.Popen(
        [sys.executable, "-m", "prequential.cli.main", *words], cwd=folder, env=environment, stdout=out,
        stderr=err,
    )  # fmt: skip


def without_reader(
    folder: Path, words: Sequence[str], some: int, *, of_errors: bool = False
) -> tuple[int, str]:
    """A command's status, and its complaints, when standard output's reader leaves after some bytes."""
    reading, writing = os.pipe()
    with open(writing, "wb") as out, (folder / "err").open("wb") as err:
        process = begun(folder, words, out, out if of_errors else err)
    with open(reading, "rb", buffering=0) as reader:
        assert not some or reader.read(some)
    return process.wait(HANGS), (folder / "err").read_text("utf-8")


@pytest.mark.parametrize("some", [0, 100])
@pytest.mark.parametrize("name", ["metrics", "dead-letters"])
def test_a_reader_that_leaves_spoils_no_other_output(folder: Path, name: str, some: int) -> None:
    """`replay … | head`: the other outputs are whole, and the status is what it would be."""
    with (folder / "err").open("wb") as file:
        options = [f"--{one}-out={one}.whole" for one in OUTPUTS]
        assert begun(folder, [*REPLAY, *options, "--summary=summary.whole"], file, file).wait(HANGS) == 0
    assert (folder / "metrics.whole").stat().st_size > 4 * 65_536  # more than a pipe holds
    others = [one for one in OUTPUTS if one != name]
    options = [f"--{one}-out={one}.part" for one in others]
    words = [*REPLAY, *options, "--summary=summary.part"]

    def check(status: int, said: str) -> None:
        assert (status, "Traceback" in said) == (0, False), said
        assert "outcomes of s: m 1,500" in said
        for one in (*others, "summary"):
            assert (folder / f"{one}.part").read_bytes() == (folder / f"{one}.whole").read_bytes(), one
            (folder / f"{one}.part").unlink()

    check(*without_reader(folder, [*words, f"--{name}-out=-"], some))
    os.mkfifo(folder / "named")  # a pipe with a name: as `>(head)`
    held = os.open(folder / "named", os.O_RDWR)
    with (folder / "err").open("wb") as file:
        process = begun(folder, [*words, f"--{name}-out=named"], file, file)
    assert os.read(held, some or 1)
    os.close(held)
    check(process.wait(HANGS), (folder / "err").read_text("utf-8"))


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--help",), 0), (("schema",), 0), (("schema", "metrics", "--avro"), 0), (("explain", "--help"), 0),
        (("config", "diff", "c.yaml", "other.yaml"), 1),
        (("config", "diff", "c.yaml", "other.yaml", "--json"), 1),
        (("config", "diff", "c.yaml", "c.yaml"), 0),
        ((*REPORT, "--markdown=-", "--fail-if=accuracy < 2"), 1),
        ((*REPORT, "--markdown=-", "--fail-if=accuracy < 0"), 0),
        (("explain", "ffff", "--from", "i.jsonl"), 1), (("replay",), 2),
        (("detectors", *PAST, "--json", "--plot=drawn.svg"), 0), (("detectors", *PAST), 0),
        (("replay", "--predictions=instances", "--labels=instances", "--metrics-out=-"), 1),
    ],
    ids=lambda given: given if isinstance(given, int) else " ".join(given[:2] + given[-1:]),
)  # fmt: skip
def test_the_status_does_not_depend_on_readers(folder: Path, words: tuple[str, ...], status: int) -> None:
    for of_errors in (False, True):
        found, said = without_reader(folder, words, 0, of_errors=of_errors)
        assert found == status, said
        assert "Traceback" not in said
        assert "Broken pipe" not in said
