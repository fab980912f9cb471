"""A shard goes on under each neighbouring configuration: a key changed, added or taken away.

As plain Python, where an index outside of a table is an error; a compiled loop would write elsewhere. With
NUMBA_BOUNDSCHECK (`make fuzz`) loops are compiled, and there are thousands of records. `make test` changes
several keys at once, `make nightly` and `make fuzz` one after the other.
As a program it does so for the keys of `StreamConfig` that are its arguments, and prints what went wrong;
keys with commas between them change at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers import ENDED, Feed, Topics, decoded, snapshot_of
from prequential.configfile.changes.trial import trial
from prequential.configuration.settings import streams
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig, PeriodAlarmConfig, StreamConfig
from prequential.engine.catalog.state import check
from prequential.engine.measures.registry import NAMES, OF_NUMBERS
from prequential.engine.shard import Shard
from prequential.topics.outputs import Encoded
from prequential.topics.specs import PARTS

from tests.nightly import NIGHTLY, scaled

_HERE = Path(__file__).resolve()

_SIGNALS = ("error", "fading:0.9/fading:0.99")

#: All that adds tables or columns.
FULL = StreamConfig(
    positive_class="a", estimators=("all", "window:20", "fading:0.99"),
    measures=NAMES, costs={"a": {"b": 5.0}, "b": {"a": 1.0}}, quantile=0.9, season=10, top_k=2,
    stages=("initial", "final", "bins", "after:5ms", "after:20ms"),
    bins=1, temporal_correction=True, baselines=("persistent", "majority", "random"),
    segments=("arm", "site"), segments_per_key=3, period=500, details=streams.DETAILS, label_horizon=3_000,
    settle=1_000, detectors=tuple(DetectorConfig("page-hinkley", signal) for signal in _SIGNALS),
    compare_losses=("error", "log_loss", "brier"), compare_stages=("initial/final",),
    objective=streams.Objective({"accuracy": 0.6}, reference="100ms"), emit_outcomes=None, emit_every=100,
)  # fmt: skip

#: What each key is as well: less, more, something else.
NEIGHBOURS: dict[str, tuple[Any, ...]] = {
    "costs": (None, {"b": {"a": 2.0}}), "cost_per_value": (True,),
    "top_k": (1,), "quantile": (None, 0.5), "season": (None, 55), "hit_tolerance": (None, 0.5),
    "loss": ("squared",), "compare_margin": (0.01, 0.5),
    "positive_class": (None, "b", "unseen"), "classes": (("b", "a"), ("a", "b", "c")),
    "estimators": (("all",), ("window:20", "window:7"), ("fading:0.9", "all")),
    "measures": (("accuracy",), streams.DEFAULT_MEASURES, ("ipw_accuracy",), ("log_loss", "ipw_n")),
    "stages": (("initial",), ("final",), ("after:20ms", "final"), ("initial", "final", "bins"), ("bins",)),
    "temporal_correction": (False,), "baselines": ((), ("majority",), ("persistent", "random")),
    "segments": ((), ("site",), ("site", "arm"), ("arm", "site", "more")), "segments_per_key": (1, 2, 9),
    "period": (None, 200), "period_zone": ("Asia/Tokyo",), "period_final_at": (0.5,),
    "book_periods": (2,),
    "details": ((), ("dependence",)), "coverage": (False,),
    "dependence_order": (2, 4), "bins": (2,), "alpha": (3.0,), "label_horizon": (100, 100_000),
    "label_at_horizon": ("b", "unseen", "c"),
    "settle": (1, 100_000),
    "detectors": ((), FULL.detectors[:1], (*FULL.detectors, DetectorConfig("adwin", "all:ipw_accuracy"))),
    "cluster": (10, 1_000), "incident_budget": (None, "1 per 1d"),
    "incident_loss": ("cost", "recall", "brier"), "compare": ("off", "champion"),
    "champion": ("m",), "compare_losses": (("error",), ("brier",), ("cost", "error")),
    "compare_stages": ((),),
    "compare_level": (0.1,), "mcnemar_level": (0.1,),
    "disparity": (streams.DisparityConfig(("arm",)), streams.DisparityConfig(("site", "arm"), ("error",))),
    "objective": (
        None, streams.Objective({"recall": 0.5}), streams.Objective({"accuracy": 0.6}, reference="200ms")
    ),
    "alarm_budget": ("1 per 30d",), "alarm_change": (0.1,), "versions": ("separate",),
    "key": ("instance",),
    "emit_outcomes": (5,), "emit_idle": (None, 1_000), "emit_every": (None,), "emit_comparisons": (200,),
    "expected": (False,),
    "period_alarms": (PeriodAlarmConfig(1.0, None, 2.0, 0.5),),
}  # fmt: skip

#: Keys that say how many outcomes there are, and of which models.
_COUNTS = {"label_horizon", "label_at_horizon", "settle", "versions"}

#: Ms of silence after which all that is unpublished is published.
SILENCE = 60_000

CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"

#: Whether each key is changed by itself, to each of its neighbours.
EVERY = CHECKED or NIGHTLY

#: Instances before the change, and all. Where loops are compiled, tables have doubled several times since.
BEFORE, ALL = (200, 1_500) if CHECKED else (10, scaled(20, 30))


def topics() -> Topics:
    """Two streams, one of numbers; all that a record may carry, and some carry less."""
    found: Topics = ([], [], [])
    for i in range(ALL):
        now, numbers = 10 * i, i % 4 == 3
        about: dict[str, Any] = {"stream": "numbers" if numbers else "classes", "instance_id": f"id-{i}"}
        segments = {"arm": f"arm {i % 5}", "site": "ab"[i % 2]}
        if i % 3:
            found[0].append((now, {**about, "label_propensity": 0.5, "segments": segments}))
        for k, model in enumerate("mmn"):
            y = i % 7 + k / 2 if numbers else "ab"[(i // 5 + (i + k) % 3) % 2]
            more: dict[str, Any] = {} if numbers or i % 5 == 0 else {"y_proba": {y: 0.75, "c": 0.25}}
            more |= {"segments": {"arm": f"arm {i % 7}"}} if i % 6 == 0 else {}
            more |= {"model_version": i // 200} if i % 2 else {}
            more |= {"value": i % 4} if i % 5 else {}
            more |= {"y_lower": y - 1, "y_upper": y + i % 3} if numbers and i % 8 else {}
            more |= {"quantiles": {"0.1": y - 1, "0.7": y + i % 3}} if numbers and i % 6 else {}
            found[1].append((now + k, {**about, "model": model, "y_pred": y, **more}))
        if i % 9:
            y = i % 7 if numbers else "abc"[i // 5 % 2 + (i % 50 == 0)]
            said = {"value": i % 3} if i % 4 == 1 else {}
            found[2].append((now + 30 + i % 11, {**about, "y_true": y, **said}))
            if i % 20 == 1:
                found[2].append((now + 90, {**about, "y_true": 9 if numbers else "b"}))
    for rows in found:
        rows.sort(key=lambda row: row[0])
    return found


def config(settings: StreamConfig) -> Config:
    numbers = replace(
        settings, task="regression", classes=None, positive_class=None, temporal_correction=False,
        objective=None, disparity=None, label_at_horizon=None,
        measures=OF_NUMBERS if settings.coverage else ("mae", "r2"), baselines=(),
        compare_losses=("absolute",),
        detectors=tuple(one for one in settings.detectors if one.signal == "error"),
    )  # fmt: skip
    return Config(defaults=settings, streams={"numbers": numbers})


class Life:
    """A shard that has got so far."""

    def __init__(self, settings: StreamConfig, before: Life | None = None) -> None:
        self.shard = Shard(config(settings))
        self.feed = Feed(self.shard, topics())
        self.outputs: list[Any] = []
        if before is not None:
            self.restored = self.shard.restore(decoded(before.written))
            self.feed.given = list(before.feed.given)
            self.feed.hand_over(self.shard)

    def go(self, time: int) -> Life:
        """Give and take all records up to a time."""
        for kind, rows in enumerate(self.feed.topics):
            count = sum(at <= time for at, _ in rows)
            self.feed.give(kind, count - self.feed.given[kind])
        while self.shard.advance([ENDED] * 3, 500):
            self.outputs += self.shard.flush()[0]
        self.written = snapshot_of(self.shard)
        return self

    def wait(self) -> Life:
        """Have all that is unpublished published, as in a silence."""
        self.shard.idle(SILENCE)
        self.outputs += self.shard.flush()[0]
        self.written = snapshot_of(self.shard)
        return self

    def outcomes(self) -> dict[tuple[str, str], int]:
        """By stream and model."""
        entities = self.shard.catalog.columns.entities
        return {
            (stream.name, name): int(entities.outcomes[row])
            for stream in self.shard.catalog.streams for name, row in stream.models.items()
        }  # fmt: skip


def check_foretold(before: StreamConfig, after: StreamConfig, life: Life, *, every: bool) -> None:
    """What became of the state is what `prequential config diff` says of a few records', or `every` of it."""
    then, now = config(before), config(after)
    said = [trial(then.stream(name), now.stream(name)) for name in ("classes", "numbers")]
    restored = life.restored
    found = {"kept": restored.kept, "begun": {one.item for one in restored.begun}, "ended": restored.ended}
    for what, items in found.items():
        foretold = {item for one in said for item in getattr(one, what)}
        more = foretold - set(items) if every else set()
        assert not more, f"{what}: foretold {more}"
        assert foretold >= set(items), f"{what}: not foretold {set(items) - foretold}"


def contents(outputs: list[Any]) -> Iterator[tuple[tuple[str, str, Any], bytes]]:
    """The ids of messages, with their revisions, and what these messages say."""
    for output in outputs:
        if isinstance(output, Encoded):
            topic, text = output.topic, output.json
        else:
            topic, text = type(output).__name__, msgspec.json.encode(output)
        if topic not in (PARTS, "DeadLetter"):
            message = msgspec.json.decode(text)
            yield (topic, message["id"], message.get("revision")), text


def check_ids(lives: list[Life]) -> None:
    """An id names one content, though settings change from each of the lives to the next."""
    by_id: dict[tuple[str, str, Any], bytes] = {}
    for life in lives:
        for key, content in contents(life.outputs):
            assert by_id.setdefault(key, content) == content, f"{key}: {by_id[key]!r} and {content!r}"


def failures(groups: list[list[str]]) -> Iterator[str]:
    """What goes wrong when the keys of a group are changed, and changed back."""
    middle, end = 10 * BEFORE, 10 * ALL
    full = Life(FULL).go(middle).wait()
    expected = Life(FULL, full).go(end).outcomes()
    assert min(expected.values()) > 1
    for keys in groups:
        for number in range(max(len(NEIGHBOURS[key]) for key in keys) if NIGHTLY else 1):
            changes = {key: NEIGHBOURS[key][number] for key in keys}
            other = replace(FULL, **changes)
            if "stages" in keys:
                other = replace(other, compare_stages=())  # of stages that there are
            try:
                changed = Life(other, full).wait()
                # There needn't be so many values that some are beyond a bound.
                check_foretold(FULL, other, changed, every="segments_per_key" not in keys)
                changed.go(end)
                check(changed.shard.state.store)
                back = Life(FULL, Life(other).go(middle)).go(end)
                there_and_back = Life(FULL, Life(other, full).go(middle + 30)).wait()
                check_ids([full, changed, there_and_back.go(end)])
                for life in (changed, back):
                    assert _COUNTS.intersection(keys) or life.outcomes() == expected
            except Exception:
                yield f"{changes}\n{traceback.format_exc()}"


def test_each_key_has_a_neighbour() -> None:
    known = {one.name for one in fields(StreamConfig) if one.compare}
    assert set(NEIGHBOURS) == known - {"task"}  # another task is refused


def _parts() -> list[list[str]]:
    """Groups of keys, for one process each."""
    keys = sorted(NEIGHBOURS, key=lambda key: len(NEIGHBOURS[key]))
    return [keys[i::4] for i in range(4)] if EVERY else [[",".join(keys[i::8]) for i in range(8)]]


@pytest.mark.slow
@pytest.mark.parametrize("groups", _parts(), ids="-".join)
@pytest.mark.nightly
def test_no_loop_leaves_its_tables(groups: list[str]) -> None:
    root = _HERE.parents[2]
    folders = (_HERE.parent, root / "tests", root, root / "pipeline", root / "topics")
    done = subprocess.run(
        [sys.executable, str(_HERE), *groups],
        env={
            **os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "PYTHONWARNINGS": "ignore",
            **({} if CHECKED else {"NUMBA_DISABLE_JIT": "1"}),
        },
        capture_output=True, text=True, timeout=1_000,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("", 0), done.stdout + done.stderr


if __name__ == "__main__":
    for failure in failures([group.split(",") for group in sys.argv[1:]]):
        print(failure, flush=True)
