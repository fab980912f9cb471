"""The compiled loops and the same loops as plain Python: the same outputs, to the last bit.

As a program it prints the outputs of some worlds, each of which is compared with the oracle first, and a
digest of what is kept in the end.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import msgspec
from helpers import World, catch_up, live, small_logs, state_of
from prequential.topics.outputs import Output
from test_shard_against_oracle import assert_same
from worlds import extreme_world, paced_world, random_world

_HERE = Path(__file__).resolve()


def worlds() -> list[tuple[World, bool]]:
    """A few small worlds of every sort, and whether the oracle knows all that they ask for."""
    found = [(random_world(random.Random(seed), 120, 2 + 5 * (seed % 2)), True) for seed in range(4)]
    found += [(paced_world(random.Random(seed), 100), True) for seed in range(2)]
    return found + [(extreme_world(random.Random(seed), 60), False) for seed in range(4)]


def written(output: Output) -> str:
    """As JSON. Without the compiler some integers are numpy's."""
    return msgspec.json.encode(output, enc_hook=lambda value: value.item()).decode()


def told() -> list[str]:
    """Every output as JSON, and digests of all states."""
    lines: list[str] = []
    for seed, (world, known) in enumerate(worlds()):
        life = catch_up(world)
        if known:
            assert_same(world, life.outputs)
        with small_logs():
            other = live(world, random.Random(seed), takeovers=True)
        assert sorted(map(written, other.outputs)) == sorted(map(written, life.outputs))
        lines += list(map(written, life.outputs))
        lines.append(hashlib.sha256(repr(sorted(state_of(life.shard).items())).encode()).hexdigest())
    return lines


def test_the_same_bits_with_and_without_the_compiler() -> None:
    root = _HERE.parents[2]
    folders = (_HERE.parent, root / "tests", root, root / "pipeline", root / "topics")
    without = subprocess.run(
        [sys.executable, str(_HERE)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(map(str, folders))},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert without.returncode == 0, without.stderr
    with_compiler = told()
    assert without.stdout.split("\n")[:-1] == with_compiler  # some names have other ends of lines
    assert len(with_compiler) > 100


if __name__ == "__main__":
    print("\n".join(told()))
