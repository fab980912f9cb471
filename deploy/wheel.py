"""A platform wheel: the engine's loops, compiled, beside the sources that they are made of.

`python deploy/wheel.py WHEEL` takes a wheel of sources, as `python -m build --wheel` makes it, and writes
beside it one for this version of Python and this platform. It runs in an environment that has what the
package requires: loops are those of its numba. Where another version of that is installed, or the processor
is older, loops are compiled when they are first needed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

#: The processor that loops are compiled for, and its features that not every processor of its kind has, by
#: kind. x86-64-v2 is what processors have since 2009. Neither v3 nor loops for the very processor are faster
#: (docs/understand/benchmarks.md), so a wheel needs no second copy of them for newer ones.
_X86 = "x86-64-v2", ("cx16", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2")
_PROCESSORS = {"x86_64": _X86, "amd64": _X86}

#: For kinds without newer features: what each of them has.
_GENERIC: tuple[str, tuple[str, ...]] = ("generic", ())

#: Platforms that index servers accept. Loops are data: they call only functions of Python and of libm, which
#: any system has that numba's wheels run on.
_LINUX, _MACOS = "manylinux_2_28", "macosx_11_0"

_COMPILE = """
import json, sys
from llvmlite import binding
from prequential.runtime.compilation import compile_all
compile_all()
json.dump({"target": [binding.get_process_triple(), sys.argv[1], ""], "features": sys.argv[2:]}, sys.stdout)
"""


def compiled(sources: Path, folder: Path) -> None:
    """Compile the loops of a package that lies in `sources` into a folder of it."""
    processor, features = _PROCESSORS.get(platform.machine().lower(), _GENERIC)
    environment = {
        **os.environ, "PYTHONPATH": str(sources), "NUMBA_CACHE_DIR": str(folder / "made"),
        "NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": "",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE, processor, *features],
        env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    loops = sources / "prequential/engine/compiled/loops"
    loops.mkdir()
    for file in (folder / "made").glob("*/*.nb[ci]"):
        shutil.copyfile(file, loops / file.name)
    (loops / "target.json").write_text(json.dumps(json.loads(done.stdout)) + "\n")


def platform_tag() -> str:
    """Return the tag of this platform; that of Python's own build if it is neither Linux nor macOS."""
    systems = {"Linux": _LINUX, "Darwin": _MACOS}
    if platform.system() in systems:
        return f"{systems[platform.system()]}_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def platform_wheel(wheel: Path) -> Path:
    """Write a wheel with loops beside one without; returns its path."""
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        command = [sys.executable, "-m", "wheel"]
        subprocess.run([*command, "unpack", "--dest", folder, wheel], check=True, stdout=sys.stderr)
        (sources,) = folder.iterdir()
        compiled(sources, folder)
        subprocess.run([*command, "pack", "--dest-dir", folder, sources], check=True, stdout=sys.stderr)
        (pure,) = folder.glob("*.whl")
        tags = ["--python-tag", version, "--abi-tag", version, "--platform-tag", platform_tag()]
        done = subprocess.run(
            [*command, "tags", *tags, pure], check=True, stdout=subprocess.PIPE, text=True
        )
        name = done.stdout.split()[-1]
        return Path(shutil.copy(folder / name, wheel.parent / name))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("wheel", type=Path)
    print(platform_wheel(parser.parse_args().wheel))
