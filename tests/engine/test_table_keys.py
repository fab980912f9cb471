"""All tables of a shard's state by what they declare: written and read, split, restored otherwise, copied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers import alarms_of, comparisons_of, decoded, metrics_of, snapshot_of, take
from oracle_cases import lab, pred
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine import warmup
from prequential.engine.catalog.plans import Plan
from prequential.engine.comparisons.tables import Comparisons, codes_of
from prequential.engine.compiled.kernel import columns_of
from prequential.engine.past import PastCourses, PastOutcomes
from prequential.engine.shard import Shard
from prequential.engine.snapshot.snapshot import split
from prequential.engine.state import JointSequence, SequenceKey, ShardState
from prequential.engine.tables.rows import Key
from prequential.topics.outputs import Output
from rows import contents, sort_of

from tests.nightly import few

#: Everything that there is to evaluate.
CONFIG = warmup.config_of(warmup.ALL)

Contents = dict[str, dict[tuple[Any, ...], bytes]]


def _sorts() -> list[str]:
    """The names of all tables of a shard with this configuration."""
    found = {table.name: table.key for table in ShardState(CONFIG).tables()}
    for config in (CONFIG.defaults, *CONFIG.streams.values()):
        plan = Plan(0, config, config.evaluated_stages, True, 2)
        plan.score()
        tables = Comparisons(0, config.estimators, codes_of(config))
        found |= {table.name: table.key for table in (*plan.tables(), *tables.tables())}
    return sorted({sort_of(name) for name, key in found.items() if key is not Key.NONE})


SORTS = _sorts()

#: Tables without rows here: losses that are added up, of a stream of which errors are compared alone; and
#: cells of parts of clusters, which have none.
_EMPTY = {f"comparisons|scored|{name}|" for name in ("window:1000", "fading:0.999")}
_EMPTY.add("incidents|parts|cells")


@cache
def original() -> Shard:
    """A shard that has seen a little of everything."""
    shard = Shard(CONFIG)
    warmup._feed(shard, 0)
    return shard


@cache
def known() -> Contents:
    return contents(original().state)


@cache
def again() -> Contents:
    """The same, written and read."""
    shard = Shard(CONFIG)
    assert shard.restore(decoded(snapshot_of(original()))).begun == []
    return contents(shard.state)


@cache
def halves() -> list[Contents]:
    """The same in two shards."""
    snapshot, found = snapshot_of(original()), []
    for own in ({"classes"}, {"numbers", "plain", "versions"}):
        shard = Shard(CONFIG)
        parts = list(split(decoded(snapshot), own.__contains__, moved=True))
        assert shard.restore(iter(parts)).begun == []
        assert {stream.name for stream in shard.catalog.streams} == own
        found.append(contents(shard.state))
    return found


@cache
def otherwise() -> Contents:
    """The same under a configuration that evaluates other things beside those that it had."""

    def changed(stream: StreamConfig) -> StreamConfig:
        return replace(
            stream, estimators=(*stream.estimators[::-1], "window:9"),
            stages=tuple(stage for stage in stream.stages if stage != "after:1s"),
            detectors=stream.detectors[::-1],
        )  # fmt: skip

    streams = {name: changed(stream) for name, stream in CONFIG.streams.items()}
    shard = Shard(replace(CONFIG, defaults=changed(CONFIG.defaults), streams=streams))
    shard.restore(decoded(snapshot_of(original())))
    return contents(shard.state)


@pytest.mark.parametrize("sort", SORTS)
class TestEachTable:
    def test_it_has_rows(self, sort: str) -> None:
        """What is looked at below isn't nothing."""
        assert bool(known()[sort]) == (sort not in _EMPTY)

    def test_it_is_written_and_read(self, sort: str) -> None:
        assert again()[sort] == known()[sort]

    def test_it_is_split(self, sort: str) -> None:
        """Each row is in one of the shards."""
        one, other = (half.get(sort, {}) for half in halves())
        assert one | other == known()[sort]
        assert len(one) + len(other) == len(known()[sort])

    def test_it_goes_on_under_another_configuration(self, sort: str) -> None:
        """Rows that still stand for something have what they had."""
        now, before = otherwise()[sort], known()[sort]
        common = now.keys() & before.keys()
        assert {name: now[name] for name in common} == {name: before[name] for name in common}
        assert common or sort in _EMPTY


# ---- whether all are declared

#: Arrays that aren't state: they follow from it or from the configuration, or are empty between rounds.
#: (`store.settled` and `store.seasons` are state; snapshots hold the places of them that are in use.)
NO_STATE = re.compile(
    r"""\.logs\.|\.accounts\.late_latencies\.
    |\.catalog\.(_registry|columns)\.(streams|entities|classes|ages|settings|next_rows)|\.catalog\.prices\._newest\.
    |\.catalog\.positives\.table\.|\._located$
    |\.catalog\.(plans|_plans)\..*\.(owner|entity|(estimators\.\d+|reference\.counts|_estimator)\.sums\..*)$
    |\.store\.((ids|compact)\.entries|links|wheels|settled|season)
    |\.pairing\.(pairs|heads|seen|_joint|_used)$|\.pairing\.tables\..*\.((_closed|_over)\.|due\.|_due_rows$)
    |\.incidents\.history\.(due|examples|notes|scratch\..*)$
    """,
    re.VERBOSE,
)


def _arrays(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """All arrays that are within something, by where they are."""
    if id(value) in seen or isinstance(value, (Config, StreamConfig, DetectorConfig)):
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield path, value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _arrays(one, f"{path}.{key}", seen)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, one in zip(value._fields, value):
            yield from _arrays(one, f"{path}.{name}", seen)
    elif isinstance(value, (list, tuple)):
        for i, one in enumerate(value):
            yield from _arrays(one, f"{path}.{i}", seen)
    elif type(value).__module__.startswith("prequential.engine"):
        yield from _arrays(vars(value), path, seen)


def _undeclared(state: ShardState) -> list[str]:
    contents_of = [table.content for table in state.tables()]
    tables = [one if isinstance(one, np.ndarray) else list(columns_of(one).values()) for one in contents_of]
    declared = [column for one in tables for column in ([one] if isinstance(one, np.ndarray) else one)]
    starts = {_start(column) for column in declared if column.size}  # nearly all are found here, at once
    return [
        path for path, array in _arrays(state, "", set())
        if array.size and not NO_STATE.match(path) and _start(array) not in starts
        and not any(np.may_share_memory(array, column) for column in declared)
    ]  # fmt: skip


def _start(array: Any) -> int:
    """Where in memory an array begins."""
    return int(array.__array_interface__["data"][0])


def test_every_table_says_its_key() -> None:
    """A new one that doesn't is in no snapshot."""
    state = original().state
    assert _undeclared(state) == []
    state.accounts.new_table = np.zeros(3)  # type: ignore[attr-defined]
    state.catalog.plans[0].new_table = {"a": np.zeros(3)}  # type: ignore[attr-defined]
    try:
        assert _undeclared(state) == [".catalog.plans.0.new_table.a", ".accounts.new_table"]
    finally:
        del state.accounts.new_table, state.catalog.plans[0].new_table  # type: ignore[attr-defined]


def test_names_of_arrays_are_different() -> None:
    names = [name for table in original().state.tables() for name in table.columns()]
    assert len(names) == len(set(names))


# ---- one row as another

ONE_STREAM = StreamConfig(
    estimators=("all", "window:7", "fading:0.9"), stages=("initial", "final"), emit_outcomes=1,
    emit_every=None, segments=("arm",), temporal_correction=True, alarm_budget=None,
    details=CONFIG.defaults.details, compare_losses=("error", "log_loss"), label_horizon=10_000, settle=1_000,
    detectors=(
        *CONFIG.defaults.detectors,
        *(DetectorConfig(detector, "error") for detector in ("adwin", "kswin", "ddm", "hddm-w", "cusum")),
    ),
)  # fmt: skip


def _records(first: int, last: int, *, twice: bool) -> Iterator[Any]:
    """Instances of two models, which think again if it is `twice`, and their labels."""
    for i in range(first, last):
        time, truth = 100 * i, "abc"[i * i % 7 % 3]
        for model, step in (("m", 3), ("n", 5)):
            for again in range(1 + twice):
                guess = "abc"[(i // step + again) % 3]
                proba = {name: 0.5 if name == guess else 0.25 for name in "abc"}
                segments = {"arm": "xy"[i % 2]}
                yield pred(i, time + again, guess, model=model, y_proba=proba, segments=segments)
        yield lab(i, time + 20, truth)


def _sequences(shard: Shard) -> list[tuple[SequenceKey, SequenceKey] | tuple[JointSequence, JointSequence]]:
    """All pairs of rows of the stages `final` and `initial`."""
    pairing = shard.state.pairing
    rows = [one.row for one in shard.catalog.entities if one is not None]
    pairs = [pair for pair in pairing.ends if len(pairing.stages(pair)) > 1]
    return [
        *((SequenceKey(row, "final"), SequenceKey(row, "initial")) for row in rows),
        *((JointSequence(pair, "final"), JointSequence(pair, "initial")) for pair in pairs),
    ]


def _by_stage(state: ShardState, stage: str) -> dict[str, dict[tuple[Any, ...], bytes]]:
    """What is known of a stage, by whose it is."""
    found: dict[str, dict[tuple[Any, ...], bytes]] = {}
    for sort, rows in contents(state).items():
        if sort.startswith(("plan|", "comparisons|")):
            found[sort] = {
                tuple(part for part in name if part != stage): content
                for name, content in rows.items() if stage in name
            }  # fmt: skip
    for row, of in state.notes.worse.items():
        own = {key[1:]: repr(since).encode() for key, since in of.items() if key[0] == stage}
        found[f"worse {row}"] = own
    for one in state.catalog.entities[1:]:
        assert one is not None
        assert state.courses is not None
        place = state.catalog.streams[one.stream].evaluated.index(stage)
        found[f"course {one.row}"] = {(): repr(state.courses.course(one.row, place)).encode()}
    assert state.past is not None
    for entity, place, log in state.past.sequences():
        if ONE_STREAM.stages[place] == stage:
            columns = {name: column for name, column in columns_of(log).items() if name != "sequence"}
            found[f"past {entity}"] = {(): b"".join(column.tobytes() for column in columns.values())}
    return found


def _said(outputs: list[Output], stage: str) -> list[dict[str, Any]]:
    """Messages of a stage without what says that they are its: also, what bounds `initial` alone."""
    found = [*metrics_of(outputs), *alarms_of(outputs), *comparisons_of(outputs)]
    own = "id", "stage", "disagreement"
    return [
        {name: getattr(one, name) for name in one.__struct_fields__ if name not in own}
        for one in found if one.stage == stage
    ]  # fmt: skip


@pytest.mark.parametrize("restarted", few([True, False]))
def test_a_sequence_goes_on_from_another_ones_rows(restarted: bool) -> None:
    """Equal to the bit, as long as both are given the same; also once it has been written and read."""
    config = Config(defaults=ONE_STREAM)
    shard = Shard(config)
    state = shard.state
    state.courses, state.past = PastCourses(), PastOutcomes()
    take(shard, *_records(0, 60, twice=True))
    first, last = _by_stage(state, "initial"), _by_stage(state, "final")
    different = {sort for sort in last if first[sort] != last[sort]}
    assert {sort.split("|")[0].split()[0] for sort in different} >= {"plan", "comparisons", "course", "past"}
    for source, target in _sequences(shard):
        state.copy(source, target)
    assert _by_stage(state, "initial") == last
    assert _by_stage(state, "final") == last
    if restarted:
        successor = Shard(config)
        assert successor.restore(decoded(snapshot_of(shard))).begun == []
        successor.state.courses, successor.state.past = state.courses, state.past
        shard = successor
    outputs = take(shard, *_records(80, 160, twice=False))  # behind the time in which labels are revised
    assert _by_stage(shard.state, "initial") == _by_stage(shard.state, "final") != last
    assert _said(outputs, "initial") == _said(outputs, "final") != []
    assert alarms_of(outputs)
    # … and no longer once they aren't.
    take(shard, *_records(170, 172, twice=True))
    assert _by_stage(shard.state, "initial") != _by_stage(shard.state, "final")


def test_what_cant_be_as_another() -> None:
    shard = Shard(Config(defaults=ONE_STREAM))
    take(shard, *_records(0, 2, twice=True))
    model = shard.catalog.by_name["s"].models["m"]
    copy = shard.state.copy
    with pytest.raises(ValueError, match=r"no stage 'bin:1': expected one of initial, final"):
        copy(SequenceKey(model, "final"), SequenceKey(model, "bin:1"))
    with pytest.raises(ValueError, match=r"expected two stages of one entity or pair"):
        copy(SequenceKey(model, "final"), SequenceKey(model + 1, "initial"))
    with pytest.raises(ValueError, match=r"expected two stages of one entity or pair"):
        copy(SequenceKey(model, "final"), JointSequence(model, "initial"))
    with pytest.raises(ValueError, match=r"no stage 'after:1s' of the pair: expected one of initial, final"):
        copy(JointSequence(1, "after:1s"), JointSequence(1, "final"))
