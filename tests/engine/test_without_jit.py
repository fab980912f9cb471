"""The same outputs, to the last bit: as plain Python, on another processor, with other libraries.

As a program it prints the outputs of some worlds, each of which is compared with the oracle first, and a
digest of what is kept in the end: for what takes long, such as `NUMBA_CPU_NAME=generic`, or other versions of
numpy.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec
import pytest
from helpers import World, catch_up, live, small_logs, state_of
from prequential.topics.outputs import Message
from test_shard_against_oracle import assert_same
from worlds import drifting_world, extreme_world, paced_world, random_world

from tests.nightly import few, scaled

try:
    from numpy._core._multiarray_umath import __cpu_dispatch__
except ImportError:  # numpy 1
    from numpy.core._multiarray_umath import __cpu_dispatch__

_HERE = Path(__file__).resolve()


def worlds() -> list[tuple[World, bool]]:
    """A few small worlds of every sort, and whether the oracle knows all that they ask for."""
    seeds = range(scaled(2, 4))
    found = [(random_world(random.Random(seed), 120, 2 + 5 * (seed % 2)), True) for seed in seeds]
    found += [(paced_world(random.Random(seed), 100), True) for seed in range(scaled(1, 2))]
    found.append((drifting_world(scaled(200, 400)), True))
    return found + [(extreme_world(random.Random(seed), 60), False) for seed in seeds]


def written(output: Message) -> str:
    """As JSON. Without the compiler some integers are numpy's."""
    return msgspec.json.encode(output, enc_hook=lambda value: value.item()).decode()


@cache
def told() -> list[str]:
    """Every output as JSON, and digests of all states."""
    lines: list[str] = []
    for seed, (world, known) in enumerate(worlds()):
        life = catch_up(world)
        if known and __name__ != "__main__":
            assert_same(world, life.outputs)
        with small_logs():
            other = live(world, random.Random(seed), takeovers=True)
        assert sorted(map(written, other.outputs)) == sorted(map(written, life.outputs))
        lines += list(map(written, life.outputs))
        lines.append(hashlib.sha256(repr(sorted(state_of(life.shard).items())).encode()).hexdigest())
    return lines


#: Another variant of the C library's functions, whose last bits differ.
_C_LIBRARY = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA"}

#: numpy's and OpenBLAS's loops for an old processor, in another order of sets and dicts of names.
_OLD_PROCESSOR = {
    "NPY_DISABLE_CPU_FEATURES": " ".join(__cpu_dispatch__), "OPENBLAS_CORETYPE": "Prescott",
    "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "7",
}  # fmt: skip


@pytest.mark.parametrize(
    "variables",
    few([{"NUMBA_DISABLE_JIT": "1"}, _C_LIBRARY | _OLD_PROCESSOR, _C_LIBRARY, _OLD_PROCESSOR]),
    ids=["no compiler", "both", "another C library", "an old processor"],
)
@pytest.mark.nightly
def test_the_same_bits(variables: dict[str, str]) -> None:
    root = _HERE.parents[2]
    folders = (_HERE.parent, root / "tests", root, root / "pipeline", root / "topics")
    elsewhere = subprocess.run(
        [sys.executable, str(_HERE)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), **variables},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert elsewhere.returncode == 0, elsewhere.stderr
    here = told()
    assert elsewhere.stdout.split("\n")[:-1] == here  # some names have other ends of lines
    assert len(here) > 100


if __name__ == "__main__":
    print("\n".join(told()))
