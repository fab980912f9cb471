"""What importing the library does to a user's process: nothing but to import."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import prequential
import pytest
from prequential.runtime.program import VERSION

#: Prints the environment's changes after the import of all modules that are given.
_CHANGES = """
import importlib, os, sys
before = dict(os.environ)
for name in sys.argv[1:]:
    importlib.import_module(name)
    changed = {key: value for key, value in os.environ.items() if before.get(key) != value}
    gone = before.keys() - os.environ.keys()
    assert not changed and not gone, f"importing {name} changes {changed or gone}"
"""

#: Runs the program; prints what was set when numpy began to be imported.
_PROGRAM = """
import os, sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "numpy":
            print(os.environ.get("OPENBLAS_NUM_THREADS"))

sys.meta_path.insert(0, Finder)
import prequential.cli.main as program
assert "numpy" not in sys.modules
program.main(["--version"])
"""


def python(code: str, *words: str, **environment: str) -> str:
    """What a new interpreter prints."""
    free = {key: value for key, value in os.environ.items() if key != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=Path(__file__).parents[1], env=free | environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_library_leaves_the_environment_alone() -> None:
    """What model servers and notebooks import, and what it stands on."""
    python(
        _CHANGES,
        *(
            f"prequential.{module}"
            for module in (
                "runtime.program", "serving.temporal", "serving.waiting", "topics.producer",
                "topics.admin", "engine.shard", "configuration.settings.model",
                "configfile.reading.reader", "offline.replay.sources", "demo.broker",
                "cli.main", "cli.worker", "cli.replay",
            )
        ),
    )  # fmt: skip


#: Imports the library and the data of its first example; prints the CPU time, and what else that brings.
_LIGHT = """
import sys, time
began = time.process_time()
import prequential
from prequential import Evaluator, evaluate
from prequential.datasets import flights
print(time.process_time() - began)
heavy = "aiohttp confluent_kafka faust llvmlite msgspec numba numpy pandas pyarrow rich".split()
print(*(name for name in heavy if name in sys.modules))
"""

#: CPU seconds that the import may take.
_IMPORT_SECONDS = 0.3


def test_the_import_is_light() -> None:
    said = [python(_LIGHT).splitlines() for _ in range(3)]
    assert [lines[1] for lines in said] == [""] * 3
    assert min(float(lines[0]) for lines in said) < _IMPORT_SECONDS


def test_the_command_for_agents_loads_the_protocol_only_when_it_runs() -> None:
    """Its help, and all else, work without the extra."""
    code = "import sys, prequential.cli.main as program; program.main(['mcp', '--help'])"
    heavy = "'mcp', 'mcp.server', 'starlette', 'uvicorn', 'pydantic'"
    ending = f"print([name for name in ({heavy}) if name in sys.modules])"
    said = python(f"try:\n    {code}\nexcept SystemExit:\n    {ending}")
    assert said.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("given", "used"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_the_program_has_no_threads_that_wait_for_matrices(given: dict[str, str], used: str) -> None:
    """OpenBLAS starts them when numpy is imported, so it must be set by then; the user's setting wins."""
    assert python(_PROGRAM, **given).splitlines()[0] == used


#: Imports the public names as a user does; prints the version, loops compiled and clients of Kafka.
_PUBLIC = """
import sys
from prequential import Evaluator, __version__, evaluate
assert "numpy" not in sys.modules, "names alone need no engine"
import gc
import inspect
from numba.core import event
compiled = []

class Listener(event.Listener):
    def on_start(self, one):
        compiled.append(one)

    def on_end(self, one):
        pass

event.register("numba:compile", Listener())
import prequential, prequential.evaluation, prequential.topics.decoding
for name, public in (("Evaluator", Evaluator), ("evaluate", evaluate)):
    real = getattr(prequential.evaluation, name)
    assert inspect.signature(public) == inspect.signature(real), name
    assert public.__doc__ == real.__doc__ and public.__name__ == real.__name__, name
class Derived(Evaluator):
    pass
assert issubclass(Derived, prequential.evaluation.Evaluator) and issubclass(Derived, Evaluator)
assert isinstance(object.__new__(prequential.evaluation.Evaluator), Evaluator)
assert {"Evaluator", "evaluate", "__version__"} <= set(dir(prequential))
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
clients = [one for one in gc.get_objects() if issubclass(type(one), (Consumer, Producer, AdminClient))]
print(__version__, len(compiled), len(clients))
"""


@pytest.mark.parametrize("installed", [False, True])
def test_public_names_start_no_client_and_compile_nothing(installed: bool, tmp_path: Path) -> None:
    """In a checkout, with nothing but its first folder on the path, and as installed from a wheel."""
    if installed:
        with zipfile.ZipFile(io.BytesIO(wheel())) as archive:
            archive.extractall(tmp_path)
    path = tmp_path if installed else Path(__file__).parents[1] / "pipeline"
    program = f"import sys; sys.path.insert(0, {str(path)!r})\n{_PUBLIC}"
    program += f"assert prequential.__file__.startswith({str(path)!r})"
    assert python(program).split() == [VERSION, "0", "0"]


def test_an_unknown_public_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="'Evaluate': it has Evaluator, __version__, evaluate"):
        _ = prequential.Evaluate


def test_nothing_else_can_be_imported() -> None:
    """A user's own folder `pipeline` or `topics` is theirs."""
    names = sorted({name.split("/")[0] for name in files_of_the_wheel() if not name.endswith("METADATA")})
    assert [name for name in names if ".dist-info" not in name and ".egg-info" not in name] == ["prequential"]
    assert "prequential/py.typed" in files_of_the_wheel()
    assert "prequential/topics/decoding.py" in files_of_the_wheel()


def test_the_pages_files_are_installed() -> None:
    static = Path(__file__).parents[1] / "pipeline/prequential/views/dashboard/static"
    expected = {f"prequential/views/dashboard/static/{file.name}" for file in static.iterdir()}
    assert {"main.js", "uPlot.LICENSE"} <= {name.rpartition("/")[2] for name in expected}
    assert expected <= set(files_of_the_wheel())


def files_of_the_wheel() -> list[str]:
    """What `pip install` brings."""
    with zipfile.ZipFile(io.BytesIO(wheel())) as archive:
        return archive.namelist()


@cache
def wheel() -> bytes:
    """Built from a copy, since building leaves a folder behind."""
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("pipeline", "topics"):
            shutil.copytree(root / name, f"{folder}/{name}", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(root / name, folder)
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", f"{folder}/dist", folder]
        subprocess.run(command, check=True, timeout=300)
        [built] = Path(folder, "dist").glob("*.whl")
        return built.read_bytes()
