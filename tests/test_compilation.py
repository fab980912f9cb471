"""Loops are compiled once, before anything else: what the cache sees, and what it can do without."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from numba.core import caching
from prequential.engine.compiled import loopcache
from prequential.engine.input import plain
from prequential.engine.join import join
from prequential.engine.tables import store
from prequential.topics import messages

from tests.nightly import few, scaled

_HERE = Path(__file__).resolve()


def in_another_process(*args: str, **environment: str) -> str:
    """What this file says as a program; the loops compiled elsewhere in this process don't count there."""
    root = _HERE.parents[1]
    folders = (root / "tests/engine", root / "tests", root, root / "pipeline", root / "topics")
    done = subprocess.run(
        [sys.executable, str(_HERE), *args],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), **environment},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def noting() -> list[str]:
    """A list to which loops of ours are added as they are compiled, or fetched from the cache."""
    from numba.core.dispatcher import Dispatcher

    found: list[str] = []
    compile_one: Any = Dispatcher.compile

    def noted(self: Any, signature: Any) -> Any:
        new = tuple(getattr(signature, "args", signature)) not in self.overloads
        if new and self.py_func.__module__.startswith("prequential"):
            found.append(f"{self.py_func.__module__}.{self.py_func.__name__} {signature}")
        return compile_one(self, signature)

    Dispatcher.compile = noted
    return found


def by_default() -> list[str]:
    """Loops that a shard of the default configuration needs after all should have been made ready for it.

    With those that it has no use of and that there are all the same, and those that aren't in the cache
    though another process has compiled them, also of loops that a factory makes.
    """
    from prequential.configuration.settings.model import Config
    from prequential.engine import warmup
    from prequential.engine.comparisons.disagreement import repeat_encounters
    from prequential.engine.comparisons.reporting import pair_statuses
    from prequential.engine.delay import due_periods, expecting, following, periods
    from prequential.engine.estimators import window
    from prequential.engine.shard import Shard
    from prequential.engine.snapshot import read_snapshot
    from prequential.runtime.compilation import compile_loops

    config, anew = Config(), missing()
    compile_loops(lambda notice: None, config)
    found = [f"not in the cache: {loop}" for loop in anew]
    # Only messages between two rounds of comparisons need it, which no small shard has.
    found += [loop.__qualname__ for loop in (repeat_encounters,) if not loop.overloads]
    warmup._STREAMS = ("classes", "plain")
    found += noting()
    shard = Shard(config)
    warmup._feed(shard, 0)
    parts = list(shard.snapshot())
    shard = Shard(config)
    shard.restore(iter(parts))
    warmup._feed(shard, warmup._INSTANCES)
    for part in read_snapshot.parts(shard.state, scored=True):
        copied = read_snapshot.take(shard.state, shard.comparisons, part, scored=True)
        list(copied.reporter.estimates(copied.part.entities.tolist()))
        list(pair_statuses(copied.pairs))
    shard.last_set()
    unneeded: tuple[Any, ...] = (
        following._update, expecting._look_at_labels, expecting._look_at_samples, periods._update,
        due_periods._due, window.rank,
    )  # fmt: skip
    return [*found, *(loop.__qualname__ for loop in unneeded if loop.overloads)]


def with_periods() -> list[str]:
    """Loops that periods of the default configuration have no use of, and that are there all the same.

    Ranks, sampled labels and costs by value are for streams that ask for them. Measures are computed by the
    loop that estimators have: only its form without periods is there.
    """
    from prequential.configuration.settings.model import Config
    from prequential.configuration.settings.streams import StreamConfig
    from prequential.engine.delay import expecting
    from prequential.engine.estimators import measuring
    from prequential.engine.output import period_measures, period_ranks
    from prequential.runtime.compilation import compile_loops

    compile_loops(lambda notice: None, Config())
    forms = len(measuring.measure.overloads)  # type: ignore[attr-defined]
    compile_loops(lambda notice: None, Config(defaults=StreamConfig(period=86_400_000)))
    unneeded: tuple[Any, ...] = (
        expecting._look_at_samples, period_measures._put_paid,
        period_ranks.add_coming, period_ranks.put_positives,
    )  # fmt: skip
    found = [loop.__qualname__ for loop in unneeded if loop.overloads]
    further = len(measuring.measure.overloads) - forms  # type: ignore[attr-defined]
    return [*found, *["measure"] * further]


def later() -> list[str]:
    """Loops that are compiled, or fetched from the cache, after all should have been."""
    from helpers import catch_up, live, small_logs
    from prequential.configuration.settings.model import Config
    from prequential.configuration.settings.streams import DetectorConfig
    from prequential.engine.detectors import DETECTORS
    from prequential.engine.warmup import ALL, config_of, warm_consumers
    from prequential.runtime.compilation import compile_loops
    from worlds import extreme_world, paced_world, random_world

    every = replace(config_of(ALL).defaults, detectors=tuple(map(DetectorConfig, DETECTORS)))
    compile_loops(lambda notice: None, Config(defaults=every))
    found = noting()
    warm_consumers(ALL)
    for seed in range(scaled(1, 6)):
        some = random.Random(seed)
        for world in (random_world(some, 120, 2 + seed), paced_world(some, 100), extreme_world(some, 60)):
            catch_up(world)
            with small_logs():
                live(world, some, takeovers=True)
    return found


def _without_details(settings: dict[str, Any], *, ranked: bool) -> dict[str, Any]:
    """A stream's settings without details, objective and correction, and maybe without measures of ranks."""
    from prequential.engine.measures.registry import OF_RANKS

    less = {key: value for key, value in settings.items() if key not in ("objective", "temporal_correction")}
    less["details"] = []
    if not ranked:
        less["measures"] = [name for name in less.get("measures", ["f1"]) if name not in OF_RANKS] or ["f1"]
        less["detectors"] = [
            detector
            for detector in less.get("detectors", [])
            if detector.get("signal", "").rpartition(":")[2] not in OF_RANKS
        ]
    return less


def without_details(*, ranked: bool) -> list[str]:
    """Loops that streams with further measures, but without details, need after all should be there."""
    from helpers import World, catch_up, live
    from prequential.engine import warmup
    from prequential.runtime.compilation import compile_loops
    from worlds import random_world

    rng = random.Random(7)
    worlds = []
    for world in (random_world(rng, 120, 2 + number % 2) for number in range(scaled(8, 40))):
        of_streams = {"defaults": world.settings["defaults"], **world.settings.get("streams", {})}
        defaults, *others = (_without_details(own, ranked=ranked) for own in of_streams.values())
        streams = dict(zip([*of_streams][1:], others))
        worlds.append(World({**world.settings, "defaults": defaults, "streams": streams}, world.topics))
    for world in worlds:
        needed = warmup.needed_by(world.config)
        assert warmup.DETAILS not in needed
        assert ranked or warmup.RANKS not in needed
        compile_loops(lambda notice: None, world.config)
    found = noting()
    for world in worlds:
        catch_up(world)
        live(world, rng, takeovers=True)
    return found


def merged() -> list[str]:
    """Loops that partitions of streams with periods, and who merges them, need after all should be there."""
    import partitioned
    from prequential.runtime.compilation import compile_loops

    seeds = range(scaled(2, 12))
    worlds = [(seed, partitioned.with_periods(partitioned.world(seed), seed)) for seed in seeds]
    for _, world in worlds:
        compile_loops(lambda notice: None, world.config)
    found = noting()
    for seed, world in worlds:
        some = random.Random(seed)
        parts = partitioned.parts_of(world.config, world.topics, 2, some)
        assert partitioned.merged(world.config, partitioned.shuffled(some, parts))
    return found


def missing() -> list[str]:
    """Loops that this process compiles from now on, as they aren't in the cache."""
    found: list[str] = []
    save: Any = loopcache.LoopCache.save_overload

    def noted(self: Any, signature: Any, data: Any) -> None:
        found.append(f"{self._name} {signature}")
        save(self, signature, data)

    loopcache.LoopCache.save_overload = noted  # type: ignore[method-assign]
    return found


def test_periods_need_no_loops_of_other_settings() -> None:
    assert in_another_process("with periods") == "[]\n"


@pytest.mark.parametrize("stream", ["by default", "", "merged", "measures", "ranks"])
def test_nothing_is_compiled_in_the_middle_of_a_stream(stream: str) -> None:
    assert in_another_process(*filter(None, [stream])) == "[]\n"


def compiled_here() -> list[str]:
    """Loops that this process compiles itself on a machine that has none; prints what it is told first."""
    from numba.core import event
    from prequential.runtime.compilation import compile_loops

    names: list[str] = []

    class Names(event.Listener):
        def on_start(self, event: Any) -> None:
            names.append(event.data["dispatcher"].py_func.__qualname__)

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Names())  # type: ignore[no-untyped-call]
    compile_loops(print)
    return names


@pytest.mark.nightly
def test_other_processes_compile(tmp_path: Path) -> None:
    """All but the loop that is asked for first, and its parts; the same configuration finds them later."""
    *said, names = in_another_process("here", NUMBA_CACHE_DIR=str(tmp_path)).splitlines()
    assert [line for line in said if "once for this machine" in line] == said[:1]
    assert 0 < len(eval(names)) < 40
    loops = {path.name for path in tmp_path.glob("*/*.nbi")}
    assert not [name for name in loops if name.startswith(("adwin.", "kswin.", "curves.", "periods._update"))]
    assert in_another_process("by default", NUMBA_CACHE_DIR=str(tmp_path)) == "[]\n"
    # Another configuration adds its own.
    assert in_another_process("everything", NUMBA_CACHE_DIR=str(tmp_path)) != "[]\n"
    assert loops < {path.name for path in tmp_path.glob("*/*.nbi")}
    assert in_another_process("everything", NUMBA_CACHE_DIR=str(tmp_path)) == "[]\n"


def everything() -> list[str]:
    """What this process is told, and loops that it compiles, when all that there is is made ready."""
    from prequential.engine.warmup import ALL, config_of
    from prequential.runtime.compilation import compile_loops
    from prequential.runtime.kafka import partition_queues

    told: list[str] = []
    found = missing()
    compile_loops(told.append, config_of(ALL))
    partition_queues.warm_up()
    return [line for line in told if not line.startswith("loading")] + found


def slow_compilation() -> list[str]:
    """What is told and reported while loops are compiled slowly, of a loop that no cache has."""
    from numba import njit
    from prequential.engine import warmup
    from prequential.engine.compiled import loopcache
    from prequential.runtime import compilation

    told: list[str] = []
    reported: list[str] = []

    def fill(needed: Collection[str]) -> Iterator[int]:
        for _ in range(4):
            sleep(1.0)
            yield 1

    compilation._TELL_SECONDS = 2
    loopcache.LoopCache.warned = False
    compilation._fill_cache = fill
    warmup.warm_up = lambda needed: njit(lambda x: x + 1)(1)  # type: ignore[assignment]
    compilation.compile_loops(told.append, None, reported.append)
    return [told[0], told[-1], reported[-1]]


def test_progress_is_reported_while_loops_are_compiled() -> None:
    """In the log, and to whoever is asked how far it is: four loops are filled in, and one is compiled."""
    notice, told, reported = eval(in_another_process("slow"))
    assert notice.startswith("compiling the engine's loops, once for this machine")
    for line in (told, reported):
        assert re.fullmatch(r"compiling the engine's loops: [1-5] of about \d+, \d+ s", line), line


_FACTORY = """
from prequential.engine.compiled.kernel import inner, kernel, named
from prequential.engine.compiled.steps import one, two

def loop_of(owner, step):
    def put(x):
        return step(x) + 0.5
    put = inner(named(put, owner))
    def run(x):
        return put(x)
    return kernel(named(run, owner))

loops = [loop_of("one", one), loop_of("two", two)]
"""

_STEPS = """
from prequential.engine.compiled.kernel import inner

@inner
def one(x):
    return x + 1.0

@inner
def two(x):
    return x + {two}
"""


def test_loops_of_a_factory_are_kept_each_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found again in another process, and dropped with the file of what is handed to the factory."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "loops"))
    folder = tmp_path / "prequential" / "engine" / "compiled"
    folder.mkdir(parents=True)
    program = f"""
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import sleep
from prequential.engine import compiled
from prequential.engine.compiled import loopcache
compiled.__path__.append({str(folder)!r})
loopcache._ROOTS = (*loopcache._ROOTS, Path({str(folder.parents[1])!r}))
from prequential.engine.compiled.factory import loops
print([loop(1.0) for loop in loops], [sum(loop.stats.cache_hits.values()) for loop in loops])
"""
    (folder / "factory.py").write_text(_FACTORY)

    def said(two: float) -> str:
        (folder / "steps.py").write_text(_STEPS.format(two=two))
        # Bytecode of a file that changes twice within a second, and keeps its size, would be taken for that
        # of the newer one.
        done = subprocess.run(
            [sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=300, check=True
        )
        return done.stdout.strip()

    assert said(2.0) == "[2.5, 3.5] [0, 0]"
    assert said(2.0) == "[2.5, 3.5] [1, 1]"
    assert said(3.0) == "[2.5, 4.5] [0, 0]"
    names = {path.name.split("-")[0] for path in (tmp_path / "loops").glob("*/factory.*.nbi")}
    assert names == {"factory.one.run", "factory.two.run"}  # with `put` in them


def test_a_loop_is_compiled_anew_when_one_that_it_calls_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tmp_path / "engine"
    engine.mkdir()
    (engine / "inner.py").write_text("THREE = 3\n")
    (engine / "middle.py").write_text("from prequential.engine.inner import (\n    THREE,\n)\n")
    (engine / "outer.py").write_text("from prequential.engine import middle\n")
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "limits.py").write_text("MOST = 3\n")
    (engine / "parser.py").write_text("from prequential.topics.limits import MOST\n")
    (engine / "other.py").write_text("")
    monkeypatch.setattr(loopcache, "_ROOTS", (tmp_path,))

    def stamps() -> tuple[str, ...]:
        loopcache.stamp.cache_clear()
        loopcache._imported.cache_clear()
        return tuple(loopcache.stamp(engine / f"{name}.py") for name in ("outer", "other", "parser"))

    before = stamps()
    assert stamps() == before
    (engine / "inner.py").write_text("THREE = 4\n")
    after = stamps()
    loopcache.stamp.cache_clear()
    loopcache._imported.cache_clear()
    assert after[0] != before[0]
    assert after[1:] == before[1:]
    (tmp_path / "topics" / "limits.py").write_text("MOST = 4\n")
    later = stamps()
    loopcache.stamp.cache_clear()
    assert later[:2] == after[:2]
    assert later[2] != after[2]


@pytest.mark.parametrize(("loop", "used"), [(join, store), (plain, messages)])
def test_a_loop_depends_on_what_it_calls_two_files_away(loop: Any, used: Any) -> None:
    """The join on the calendar, and the parser on constants of the topics."""
    files, new = set(), [Path(str(loop.__file__))]
    while new:
        file = new.pop()
        if file not in files:
            files.add(file)
            new += loopcache._imported(file)
    assert Path(str(used.__file__)) in files


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_wherever_python_starts_and_in_every_locale_the_same_files_count(
    tmp_path: Path, locale: dict[str, str]
) -> None:
    program = "import pathlib; from prequential.engine.compiled import loopcache; "
    program += "from prequential.engine.input import plain; "
    program += "print(loopcache.stamp(pathlib.Path(plain.__file__)))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, **locale}, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    loopcache.stamp.cache_clear()
    loopcache._imported.cache_clear()
    assert said.stdout == f"{loopcache.stamp(Path(str(plain.__file__)))}\n"


_ONE_LOOP = """
import numpy as np
from prequential.engine.compiled.ids import _spread
to = np.zeros(16, np.int64)
_spread(np.array([5 << 32 | 1]), to)
print(to[5] == 5 << 32 | 1, sum(_spread.stats.cache_hits.values()))
"""


def run_one_loop(folder: Path) -> tuple[str, list[str]]:
    """What a process says that needs one compiled loop, and its warnings."""
    done = subprocess.run(
        [sys.executable, "-c", _ONE_LOOP], env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.splitlines()


@pytest.fixture(scope="module")
def with_one_loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one process has left a loop, and another one has found it."""
    folder = tmp_path_factory.mktemp("loops")
    assert run_one_loop(folder) == ("True 0", [])
    assert run_one_loop(folder) == ("True 1", [])
    return folder


#: By suffix and content.
_DAMAGES = [
    ("nbi", "half"), ("nbc", "one bit"), ("nbi", "one bit"), ("nbc", "half"),
    *((suffix, content) for content in ("empty", "garbage", "a folder", "unreadable")
      for suffix in ("nbi", "nbc")),
]  # fmt: skip


@pytest.mark.parametrize(("suffix", "content"), few(_DAMAGES))
def test_a_damaged_file_is_made_again(suffix: str, content: str, with_one_loop: Path, tmp_path: Path) -> None:
    if content == "unreadable" and os.geteuid() == 0:
        pytest.skip("root reads everything")
    shutil.copytree(with_one_loop, tmp_path, dirs_exist_ok=True)
    [file] = tmp_path.glob(f"*/ids._spread*.{suffix}")
    whole = file.read_bytes()
    if content == "a folder":
        file.unlink()
        file.mkdir()
    elif content == "unreadable":
        file.chmod(0)
    else:
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        damaged = {"empty": b"", "half": whole[:middle], "garbage": b"\xff" * 99, "one bit": flipped}
        file.write_bytes(damaged[content])
    said, warnings = run_one_loop(tmp_path)
    assert said == "True 0"
    may_be_of_no_use = content == "one bit" and suffix == "nbi"  # a signature or a stamp that isn't ours
    assert len(warnings) == 1 or may_be_of_no_use
    assert all("they are compiled again" in line for line in warnings)
    if content != "a folder":
        assert run_one_loop(tmp_path) == ("True 1", [])


def test_an_index_of_other_sources_may_name_modules_that_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade, say: these loops are compiled again without a warning."""
    former = types.ModuleType("former")
    exec("class Table: pass", vars(former))
    monkeypatch.setitem(sys.modules, "former", former)
    loopcache._Files(str(tmp_path), "loop", "before").save((vars(former)["Table"],), b"code")
    monkeypatch.delitem(sys.modules, "former")
    with pytest.raises(ModuleNotFoundError, match="former"):
        loopcache._Files(str(tmp_path), "loop", "before").load("key")
    assert loopcache._Files(str(tmp_path), "loop", "after").load("key") is None


def small() -> list[str]:
    """Whether loops are being compiled, and the messages of a small table with probabilities and segments."""
    from prequential import evaluate
    from prequential.runtime import compilation

    rows = [
        {
            "model": "mn"[i % 2], "instance_id": i, "y_pred": "ab"[i % 3 % 2], "y_true": "ab"[i % 5 % 2],
            "y_proba": {"a": 0.25, "b": 0.75}, "segments": {"arm": "xy"[i % 7 % 2]}, "ts": i * 60_000,
        }
        for i in range(120)
    ]  # fmt: skip
    result = evaluate(rows, progress=False, estimators=["all", "window:20"], label_horizon="1h")
    begun = compilation._background is not None
    return [str(begun), *(repr(message) for message in result.messages)]


def test_a_small_input_does_not_wait_for_the_compiler(tmp_path: Path) -> None:
    """Its loops run as plain Python while another process compiles them, and the messages are the same."""
    # A machine without compiled loops.
    begun, *interpreted = eval(in_another_process("small", NUMBA_CACHE_DIR=str(tmp_path)))
    assert begun == "True"
    begun, *compiled = small()
    assert begun == "False"
    assert interpreted == compiled
    assert len(compiled) > 10


def test_a_large_input_waits_for_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    from prequential.configuration.settings.model import Config
    from prequential.runtime import compilation

    done: list[str] = []
    monkeypatch.setattr(compilation, "_are_compiled", lambda config: False)
    monkeypatch.setattr(compilation, "_compile_in_background", lambda config: done.append("background"))
    monkeypatch.setattr(compilation, "compile_loops", lambda tell, config: done.append("compiled"))
    for records in (5_000, 5_001):
        with compilation.loops_for(Config(), records, done.append):
            interpreted = hasattr(join.join, "interpreted")
            assert interpreted == (records == 5_000)
    assert not hasattr(join.join, "interpreted")
    assert [one[:28] for one in done] == ["running without compiled loops"[:28], "background", "compiled"]


def test_a_given_folder_is_read_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(caching.UserProvidedCacheLocator, "ensure_cache_path", refuse)
    loop, file = join.join.py_func, str(join.__file__)
    found = loopcache.GivenFolder.from_function(loop, file)
    assert found.get_cache_path().startswith(str(tmp_path))
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "nowhere"))
    assert loopcache.GivenFolder.from_function(loop, file) is None


def test_environments_share_a_given_folder_and_versions_have_their_own_in_it(tmp_path: Path) -> None:
    """The code of a loop is found wherever the same sources are installed, and again after a way back."""
    program = """
import sys
from pathlib import Path
from prequential.engine import compiled
from prequential.engine.compiled import loopcache
root = Path(sys.argv[1])
compiled.__path__.append(str(root / "engine" / "compiled"))
loopcache._ROOTS = (*loopcache._ROOTS, root)
from prequential.engine.compiled.shared import twice
print(twice(1.0), sum(twice.stats.cache_hits.values()))
"""
    source = "from prequential.engine.compiled.kernel import kernel\n\n"
    source += "@kernel\ndef twice(x):\n    return x * {}\n"

    def run(environment: str, factor: float) -> str:
        folder = tmp_path / environment / "prequential" / "engine" / "compiled"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "shared.py").write_text(source.format(factor), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-B", "-c", program, str(folder.parents[1])],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "loops")},
            capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    assert run("first", 2.0) == "2.0 0"
    assert run("second", 2.0) == "2.0 1"
    assert run("second", 3.0) == "3.0 0"
    assert run("first", 2.0) == run("second", 2.0) == "2.0 1"
    assert len(list((tmp_path / "loops").glob("shared-*"))) == 2


def test_a_loop_from_the_cache_becomes_part_of_one_that_is_compiled(tmp_path: Path) -> None:
    """Its LLVM code, which is not read before, is then needed."""
    folder = tmp_path / "prequential" / "engine" / "compiled"
    folder.mkdir(parents=True)
    (folder / "twice.py").write_text(
        "from prequential.engine.compiled.kernel import kernel\n\n"
        "@kernel\ndef twice(x):\n    return x * 2.0\n"
    )
    (folder / "more.py").write_text(
        "from prequential.engine.compiled.kernel import kernel\n"
        "from prequential.engine.compiled.twice import twice\n\n"
        "@kernel\ndef more(x):\n    return twice(x) + 1.0\n"
    )
    start = f"""
from pathlib import Path
from prequential.engine import compiled
from prequential.engine.compiled import loopcache
compiled.__path__.append({str(folder)!r})
loopcache._ROOTS = (*loopcache._ROOTS, Path({str(folder.parents[1])!r}))
from prequential.engine.compiled.twice import twice
print(twice(1.0), sum(twice.stats.cache_hits.values()))
"""
    later = "from prequential.engine.compiled.more import more\nprint(more(1.0), more(2.0))\n"
    for program, expected in ((start, "2.0 0\n"), (start + later, "2.0 1\n3.0 5.0\n")):
        done = subprocess.run(
            [sys.executable, "-B", "-c", program],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "loops")},
            capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        assert done.stdout == expected


def test_code_of_other_sources_is_removed(tmp_path: Path) -> None:
    """Otherwise, a folder next to the sources would grow with each change of them."""
    for stamps in ("before", "after"):
        for key in ("int64", "float64"):
            loopcache._Files(str(tmp_path), "loop", stamps).save(key, stamps.encode())
    assert len(list(tmp_path.glob("loop.*.nbc"))) == 2
    assert loopcache._Files(str(tmp_path), "loop", "after").load("int64") == b"after"


def test_two_processes_that_save_at_once_never_confuse_their_loops(tmp_path: Path) -> None:
    """Both see an empty index, and one entry is lost: that loop is compiled again, the other is right."""
    first, second = (loopcache._Files(str(tmp_path), "loop", "stamps") for _ in range(2))
    first._load_index = dict  # type: ignore[method-assign]
    second.save("int64", b"of int64")
    first.save("float64", b"of float64")
    found = loopcache._Files(str(tmp_path), "loop", "stamps")
    assert found.load("float64") == b"of float64"
    assert found.load("int64") is None


if __name__ == "__main__":
    modes = {
        "": later, "here": compiled_here, "by default": by_default, "merged": merged,
        "everything": everything, "small": small, "slow": slow_compilation, "with periods": with_periods,
        "measures": partial(without_details, ranked=False), "ranks": partial(without_details, ranked=True),
    }  # fmt: skip
    print(modes["".join(sys.argv[1:])]())
