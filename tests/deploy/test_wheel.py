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


@pytest.mark.nightly
def test_nothing_is_compiled_where_it_is_installed(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", tmp_path, ROOT]
    subprocess.run(build, check=True)
    (sources,) = tmp_path.glob("*.whl")
    done = subprocess.run(
        [sys.executable, ROOT / "deploy/wheel.py", sources], capture_output=True, text=True, check=True
    )
    wheel = Path(done.stdout.split()[-1])
    assert "none-any" in sources.name
    assert "none-any" not in wheel.name
    with zipfile.ZipFile(wheel) as file:
        loops = [name for name in file.namelist() if "/compiled/loops/" in name]
        assert sum(name.endswith(".nbi") for name in loops) > 80
        assert json.loads(file.read("prequential/core/compiled/loops/target.json"))["features"]
        file.extractall(tmp_path / "installed")
    lines = [{"stream": "s", "model": "m", "instance_id": i, "y_pred": i % 2, "ts": i} for i in range(50)]
    (tmp_path / "p").write_text("\n".join(map(json.dumps, lines)))
    lines = [{"stream": "s", "instance_id": i, "y_true": i % 3 == 0, "ts": i + 5} for i in range(50)]
    (tmp_path / "l").write_text("\n".join(map(json.dumps, lines)))
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
