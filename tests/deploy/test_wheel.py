"""The platform wheel: whoever installs it compiles nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

_LATER = """
from numba.core import event
class Listener(event.Listener):
    def on_start(self, event):
        print("compiled:", event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
from prequential.cli.main import main
main([ARGUMENTS])
"""


#: A root that nothing can be written to, for a user whom nobody knows; what follows is the program.
_BARE = """
mount --make-rprivate / && mount -o remount,bind,ro / &&
exec unshare --user --map-user=54321 --map-group=54321 "$@"
"""


def write_records(folder: Path) -> None:
    """50 instances of one model."""
    lines = [{"stream": "s", "model": "m", "instance_id": i, "y_pred": i % 2, "ts": i} for i in range(50)]
    (folder / "p").write_text("\n".join(map(json.dumps, lines)))
    lines = [{"stream": "s", "instance_id": i, "y_true": i % 3 == 0, "ts": i + 5} for i in range(50)]
    (folder / "l").write_text("\n".join(map(json.dumps, lines)))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One of sources, one with loops."""
    folder = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", folder, ROOT]
    subprocess.run(build, check=True)
    (sources,) = folder.glob("*.whl")
    done = subprocess.run(
        [sys.executable, ROOT / "deploy/wheel.py", sources], capture_output=True, text=True, check=True
    )
    return sources, Path(done.stdout.split()[-1])


@pytest.mark.nightly
def test_nothing_is_compiled_where_it_is_installed(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    sources, wheel = wheels
    assert "none-any" in sources.name
    assert "none-any" not in wheel.name
    with zipfile.ZipFile(wheel) as file:
        loops = [name for name in file.namelist() if "/compiled/loops/" in name]
        assert sum(name.endswith(".nbi") for name in loops) > 80
        assert json.loads(file.read("prequential/engine/compiled/loops/target.json"))["features"]
        file.extractall(tmp_path / "installed")
    write_records(tmp_path)
    (tmp_path / "loops").mkdir()
    arguments = "'replay', '--predictions', 'p', '--labels', 'l', '--metrics-out', 'm'"
    said = subprocess.run(
        [sys.executable, "-c", _LATER.replace("ARGUMENTS", arguments)],
        cwd=tmp_path, capture_output=True, text=True,
        env={
            **os.environ, "PYTHONPATH": str(tmp_path / "installed"),
            "NUMBA_CACHE_DIR": str(tmp_path / "loops"),
        },
    )  # fmt: skip
    assert "read: 50 predictions, 50 labels" in said.stdout + said.stderr
    assert "compiling" not in said.stderr
    assert "compiled:" not in said.stdout
    assert not [file for file in (tmp_path / "loops").rglob("*") if file.is_file()]
    assert (tmp_path / "m").stat().st_size > 1_000


@pytest.mark.nightly
@pytest.mark.parametrize("with_loops", [True, False])
def test_a_root_that_is_read_only_and_a_user_without_a_home(
    with_loops: bool, wheels: tuple[Path, Path], tmp_path: Path
) -> None:
    """Loops that came with the wheel are used. Without them, a warning says that none can be kept."""
    bare = ["unshare", "--mount", "sh", "-c", _BARE, "sh"]
    if (tried := subprocess.run([*bare, "true"], capture_output=True, text=True)).returncode:
        pytest.skip(f"unshare can't make a root that is read-only: {tried.stderr.strip()}")
    with zipfile.ZipFile(wheels[with_loops]) as file:
        file.extractall(tmp_path / "installed")
    write_records(tmp_path)
    arguments = "'replay', '--predictions', 'p', '--labels', 'l', '--metrics-out', '/dev/null'"
    said = subprocess.run(
        [*bare, sys.executable, "-c", _LATER.replace("ARGUMENTS", arguments)],
        cwd=tmp_path, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "installed")},
    )  # fmt: skip
    assert "read: 50 predictions, 50 labels" in said.stdout + said.stderr
    assert said.returncode == 0
    assert ("compiled:" in said.stdout) is not with_loops
    assert ("compiled loops can't be kept" in said.stderr) is not with_loops
    assert "once for this machine" not in said.stderr
