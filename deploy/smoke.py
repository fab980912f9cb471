"""Whether a platform wheel works where nothing else is: install it, get numbers, and compile nothing.

    python deploy/smoke.py FOLDER

takes the wheel in FOLDER that has compiled loops for this Python and platform, and installs it into a new
environment. There it does what users do first: the lines of the README, then a replay of files. Prints the
seconds that each took. Ends with status 1 and a sentence if a step fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

#: The lines of the README.
_FIRST_LINES = """
from prequential import evaluate
from prequential.datasets import flights
predictions, labels = flights()
print(evaluate(predictions, labels, stream="flights", positive_class="late"))
"""

#: Writes a year of flights, which is so much that no replay of it runs without the compiler.
_YEAR = """
import json
from prequential.datasets import flights
for name, rows in zip(("predictions", "labels"), flights(None)):
    with open(f"{name}.jsonl", "w") as file:
        file.writelines(json.dumps({"stream": "flights", **row}) + "\\n" for row in rows)
"""

_REPLAY = (
    "replay", "--predictions", "predictions.jsonl", "--labels", "labels.jsonl",
    "--metrics-out", "metrics.jsonl",
)  # fmt: skip

#: Those of the year whose label came: see `prequential.datasets.flights`.
_OUTCOMES = 14_434


class _Step(Exception):
    """Why a step failed, as a sentence."""


class _Installed:
    """A wheel in a new environment, in a folder of its own, with an empty cache of compiled loops."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        venv.create(folder / "environment", with_pip=True)
        self.programs = folder / "environment" / "bin"
        self.folder, self.loops = folder, folder / "loops"
        self.loops.mkdir()
        install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", wheel.resolve()]
        subprocess.run([self.programs / "python", *install], check=True)

    def run(self, program: str, *words: str) -> tuple[float, str]:
        """Run a program of the environment; returns its seconds and output. It may compile nothing."""
        environment = {
            "PATH": os.environ.get("PATH", ""), "HOME": str(self.folder), "NUMBA_CACHE_DIR": str(self.loops)
        }  # fmt: skip
        began = time.monotonic()
        done = subprocess.run(
            [self.programs / program, *words],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - began
        if done.returncode:
            raise _Step(f"{program} ended with {done.returncode}: {done.stdout}{done.stderr}")
        compiled = [file.name for file in self.loops.rglob("*.nbc")]
        if compiled or "compiling" in done.stderr:
            raise _Step(f"{len(compiled)} loops were compiled: expected none; {done.stderr}")
        return seconds, done.stdout


def main(folder: Path) -> int:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheels = sorted(folder.glob(f"prequential-*-{tag}-{tag}-*.whl"))
    if len(wheels) != 1:
        return _failed(f"{folder} has {len(wheels)} wheels for {tag}: expected 1; run make wheel")
    with tempfile.TemporaryDirectory() as temporary:
        work, began = Path(temporary), time.monotonic()
        installed = _Installed(wheels[0], work)
        print(f"{wheels[0].name}: installed after {time.monotonic() - began:.1f} s")
        try:
            installed.run("prequential", "--version")
            seconds, table = installed.run("python", "-c", _FIRST_LINES)
            if "daily" not in table or "monthly" not in table:
                return _failed(f"no table of the two models: {table}")
            print(f"the README's lines: {seconds:.1f} s, nothing compiled\n{table}")
            installed.run("python", "-c", _YEAR)
            seconds, _ = installed.run("prequential", *_REPLAY)
        except _Step as why:
            return _failed(str(why))
        metrics = [json.loads(line) for line in (work / "metrics.jsonl").open(encoding="utf-8")]
        finals = [message for message in metrics if message.get("stage") == "final"]
        most = max((message["outcomes"] for message in finals), default=0)
        if most != _OUTCOMES:
            return _failed(f"the replay's last message has {most} outcomes: expected {_OUTCOMES}")
        print(f"replay of a year: {seconds:.1f} s, nothing compiled; {len(metrics)} messages")
    return 0


def _failed(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
