"""Whether a platform wheel works where nothing else is: install it, get a number, and compile nothing.

    python deploy/smoke.py FOLDER

takes the wheel in FOLDER that has compiled loops for this Python and platform, and installs it into a new
environment. Prints the seconds that the first number took. Ends with status 1 and a sentence if a step fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

_FIRST_NUMBER = """
from prequential import evaluate
from prequential.datasets import flights
predictions, labels = flights(None)  # so many that no small input runs without the compiler
result = evaluate(predictions, labels, stream="flights", progress=False)
print(result.measures("accuracy", estimator="all"))
"""


def main(folder: Path) -> int:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheels = sorted(folder.glob(f"prequential-*-{tag}-{tag}-*.whl"))
    if len(wheels) != 1:
        return _failed(f"{folder} has {len(wheels)} wheels for {tag}: expected 1; run make wheel")
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        venv.create(work / "environment", with_pip=True)
        python = work / "environment" / "bin" / "python"
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheels[0].resolve()]
        subprocess.run(install, check=True)
        loops = work / "loops"
        loops.mkdir()
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": temporary, "NUMBA_CACHE_DIR": str(loops)}
        subprocess.run(
            [python, "-m", "prequential.cli.main", "--version"], cwd=work, env=environment, check=True
        )
        began = time.monotonic()
        done = subprocess.run(
            [python, "-c", _FIRST_NUMBER],
            cwd=work, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - began
        if done.returncode or "daily" not in done.stdout:
            return _failed(f"no first number: {done.stdout}{done.stderr}")
        compiled = [file.name for file in loops.rglob("*.nbc")]
        if compiled or "compiling" in done.stderr:
            return _failed(f"{len(compiled)} loops were compiled: expected none; {done.stderr}")
        number = done.stdout.strip()
        print(f"{wheels[0].name}: first number after {seconds:.1f} s, nothing compiled: {number}")
    return 0


def _failed(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
