"""A platform wheel: the engine's loops, compiled, beside the sources that they are made of.

`python deploy/wheel.py WHEEL` takes a wheel of sources, as `python -m build --wheel` makes it, and writes
beside it one for this version of Python and this platform. It runs in an environment that has what the
package requires: loops are those of its numba. Where another version of that is installed, or the processor
is older, loops are compiled when they are first needed, as ever.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

#: x86-64-v2, as processors have it since 2009, and what of it isn't in every x86-64 one. Neither v3 nor loops
#: for the very processor are faster (docs/understand/benchmarks.md).
PROCESSOR = "x86-64-v2"
FEATURES = ("cx16", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2")

_COMPILE = """
import json, sys
from llvmlite import binding
from prequential.runtime.compilation import compile_all
compile_all()
json.dump({"target": [binding.get_process_triple(), sys.argv[1], ""], "features": sys.argv[2:]}, sys.stdout)
"""


def compiled(sources: Path, folder: Path) -> None:
    """Compile the loops of a package that lies in `sources` into a folder of it."""
    environment = {
        **os.environ, "PYTHONPATH": str(sources), "NUMBA_CACHE_DIR": str(folder / "made"),
        "NUMBA_CPU_NAME": PROCESSOR, "NUMBA_CPU_FEATURES": "",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE, PROCESSOR, *FEATURES],
        env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    loops = sources / "prequential/engine/compiled/loops"
    loops.mkdir()
    for file in (folder / "made").glob("*/*.nb[ci]"):
        shutil.copyfile(file, loops / file.name)
    (loops / "target.json").write_text(json.dumps(json.loads(done.stdout)) + "\n")


def platform_wheel(wheel: Path) -> Path:
    """Write a wheel with loops beside one without; returns its path."""
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        command = [sys.executable, "-m", "wheel"]
        subprocess.run([*command, "unpack", "--dest", folder, wheel], check=True, stdout=sys.stderr)
        (sources,) = folder.iterdir()
        compiled(sources, folder)
        subprocess.run([*command, "pack", "--dest-dir", folder, sources], check=True, stdout=sys.stderr)
        (pure,) = folder.glob("*.whl")
        tags = ["--python-tag", version, "--abi-tag", version, "--platform-tag", platform]
        done = subprocess.run(
            [*command, "tags", *tags, pure], check=True, stdout=subprocess.PIPE, text=True
        )
        name = done.stdout.split()[-1]
        return Path(shutil.copy(folder / name, wheel.parent / name))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("wheel", type=Path)
    print(platform_wheel(parser.parse_args().wheel))
