"""What a worker doesn't use isn't in memory: freed blocks, empty tables, and the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prequential.runtime import program

_BLOCK, _COUNT, _KEPT = 1_000, 200_000, 100


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(program._trim is None, reason="the C library has no malloc_trim")
def test_what_is_free_between_what_is_in_use_is_given_back() -> None:
    blocks = [bytes(_BLOCK) for _ in range(_COUNT)]
    kept = blocks[::_KEPT]  # so that the heap can't simply end earlier
    full = resident()
    del blocks
    assert program.give_back()
    assert resident() < full - _COUNT * _BLOCK // 2
    assert kept == [bytes(_BLOCK)] * len(kept)


def test_a_c_library_without_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_trim", None)
    assert not program.give_back()


#: 16 threads at once, each of which asks for memory; then what glibc says of its arenas.
_THREADS = """
import ctypes, threading
from prequential.runtime.program import share_arenas
print(share_arenas(), flush=True)
c, all_there, done = ctypes.CDLL(None), threading.Barrier(17), threading.Event()
def work():
    c.malloc(1_000)
    all_there.wait()
    done.wait()
threads = [threading.Thread(target=work) for _ in range(16)]
for thread in threads:
    thread.start()
all_there.wait()
c.malloc_stats()
done.set()
"""


@pytest.mark.skipif(program._mallopt is None, reason="the C library has no mallopt")
@pytest.mark.parametrize(
    ("given", "shared", "most"), [({}, "True", 2), ({"MALLOC_ARENA_MAX": "3"}, "False", 3)]
)
def test_threads_share_few_arenas_unless_the_environment_decides(
    given: dict[str, str], shared: str, most: int
) -> None:
    own = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    done = subprocess.run(
        [sys.executable, "-c", _THREADS], env=own | given, check=True, timeout=60, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.stdout.strip() == shared
    assert 1 <= done.stderr.count("Arena ") <= most


def test_arenas_of_another_c_library_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_mallopt", None)
    assert not program.share_arenas()


#: Frees blocks, of which one lies below another; then prints by how much a table of zeros adds to memory.
_TABLES = """
import os
from pathlib import Path
import numpy as np
from prequential.runtime.program import give_back, map_large_blocks
print(map_large_blocks())
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
largest = np.ones(3 << 20)
del largest
large, other = np.ones(1 << 20), np.ones(1 << 14)
del large
give_back()
before = resident()
table = np.zeros(1 << 20)
print(resident() - before)
"""


@pytest.mark.skipif(program._mallopt is None, reason="the C library has no mallopt")
@pytest.mark.parametrize(("given", "done"), [({}, "True"), ({"MALLOC_MMAP_THRESHOLD_": "65536"}, "False")])
def test_rows_that_are_not_used_take_no_memory(given: dict[str, str], done: str) -> None:
    said = in_new_process(_TABLES, given)
    assert said[0] == done
    assert int(said[1]) < 1_000_000


def in_new_process(code: str, given: dict[str, str]) -> list[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=own | given, check=True, timeout=120, capture_output=True, text=True
    )
    return done.stdout.splitlines()


#: Prints the memory that LLVM's code takes, before and after it is given back; then compiles.
_COMPILER = """
import numba
from prequential.runtime import program
numba.njit(lambda number: number + 1)(1)
def resident():
    return sum(mapping.resident for mapping in program._mappings() if mapping.file.startswith("libllvmlite"))
before = resident()
given = program.give_back_code("libllvmlite")
print(before, given, resident())
print(numba.njit(lambda number: number * 7)(6))
"""


@pytest.mark.skipif(program._madvise is None, reason="not Linux")
def test_the_compiler_takes_no_memory_until_it_compiles_again() -> None:
    sizes, product = in_new_process(_COMPILER, {})
    before, given, after = map(int, sizes.split())
    assert before > 40_000_000
    assert given > before * 0.9
    assert after < before // 5
    assert product == "42"


def test_a_system_without_advice_on_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_madvise", None)
    assert program.give_back_code("libllvmlite") == 0
