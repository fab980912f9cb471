"""Loops are compiled once, before anything else: what the cache sees, and what it can do without."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from numba.core import caching
from prequential import loopcache
from prequential.core import calendar, join

_HERE = Path(__file__).resolve()


def in_another_process(*args: str, **environment: str) -> str:
    """What this file says as a program; the loops compiled elsewhere in this process don't count there."""
    root = _HERE.parents[1]
    folders = (root / "tests/core", root / "tests", root, root / "pipeline", root / "topics")
    done = subprocess.run(
        [sys.executable, str(_HERE), *args],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), **environment},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def later() -> list[str]:
    """Loops that are compiled, or fetched from the cache, after all should have been."""
    from helpers import catch_up, live, small_logs
    from numba.core.dispatcher import Dispatcher
    from prequential.compilation import compile_loops
    from prequential.config import Config, DetectorConfig, StreamConfig
    from prequential.core.detectors import DETECTORS
    from worlds import extreme_world, paced_world, random_world

    every = tuple(DetectorConfig(name) for name in DETECTORS)
    compile_loops(lambda notice: None, Config(defaults=StreamConfig(detectors=every)))
    found: list[str] = []
    compile_one: Any = Dispatcher.compile

    def noted(self: Any, signature: Any) -> Any:
        new = tuple(getattr(signature, "args", signature)) not in self.overloads
        if new and self.py_func.__module__.startswith("prequential"):
            found.append(f"{self.py_func.__module__}.{self.py_func.__name__} {signature}")
        return compile_one(self, signature)

    Dispatcher.compile = noted
    for seed in range(6):
        some = random.Random(seed)
        for world in (random_world(some, 120, 2 + seed), paced_world(some, 100), extreme_world(some, 60)):
            catch_up(world)
            with small_logs():
                live(world, some, takeovers=True)
    return found


def test_nothing_is_compiled_in_the_middle_of_a_stream() -> None:
    assert in_another_process() == "[]\n"


def test_a_loop_is_compiled_anew_when_one_that_it_calls_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = tmp_path / "core"
    core.mkdir()
    (core / "inner.py").write_text("THREE = 3\n")
    (core / "middle.py").write_text("from prequential.core.inner import (\n    THREE,\n)\n")
    (core / "outer.py").write_text("from prequential.core import middle\n")
    (core / "other.py").write_text("")
    monkeypatch.setattr(loopcache, "_ROOT", tmp_path)

    def stamps() -> tuple[str, str]:
        loopcache.stamp.cache_clear()
        loopcache._imported.cache_clear()
        return loopcache.stamp(core / "outer.py"), loopcache.stamp(core / "other.py")

    before = stamps()
    assert stamps() == before
    (core / "inner.py").write_text("THREE = 4\n")
    after = stamps()
    loopcache.stamp.cache_clear()
    loopcache._imported.cache_clear()
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_the_join_depends_on_what_it_calls_two_files_away() -> None:
    files, new = set(), [Path(str(join.__file__))]
    while new:
        file = new.pop()
        if file not in files:
            files.add(file)
            new += loopcache._imported(file)
    assert Path(str(calendar.__file__)) in files


def test_a_given_folder_is_read_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(caching.UserProvidedCacheLocator, "ensure_cache_path", refuse)
    found = loopcache.GivenFolder.from_function(refuse, __file__)
    assert found.get_cache_path().startswith(str(tmp_path))
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "nowhere"))
    assert loopcache.GivenFolder.from_function(refuse, __file__) is None


if __name__ == "__main__":
    print(later())
