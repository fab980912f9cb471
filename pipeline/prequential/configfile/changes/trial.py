"""Find the effect of another configuration on state, by a restore of the state of a few records.

A shard lives through some records under the first configuration and is restored under the second. The
engine then reports which parts are kept, begin empty and end. Limits are made small, in their order, so that
a few records suffice.

As a program it reads pairs of settings from standard input (JSON) and writes what became of each.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import environ

import msgspec
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import parse
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.input.merge import Batch
from prequential.engine.shard import Shard
from prequential.engine.snapshot.restored import Item
from prequential.topics.decoding import Decoded
from prequential.topics.errors import WorkError
from prequential.topics.messages import Instance, Label, Prediction, Record

_INSTANCES = 8

#: Milliseconds between instances.
_STEP = 10

#: Values of each key of segments: more than a bound that has been made small.
_VALUES = 4

#: The stream of all records, as its name appears in results.
_STREAM = "…"

#: A bound of values before, and after it was lowered, kept or raised.
_BOUND = 2


class Effects(msgspec.Struct, frozen=True):
    """What becomes of the state of a stream: items are a kind and a name, such as `("estimator", "all")`."""

    kept: frozenset[Item] = frozenset()
    begun: frozenset[Item] = frozenset()
    ended: frozenset[Item] = frozenset()
    #: Why a worker refuses to go on with the state.
    refused: str | None = None


#: Settings of a stream before, and after.
Pair = tuple[StreamConfig, StreamConfig]


def trial(before: StreamConfig, after: StreamConfig) -> Effects:
    """What a restore makes of state under `before` when the configuration is `after`.

    >>> effects = trial(StreamConfig(stages=("final",)), StreamConfig(stages=("final",), estimators=("all",)))
    >>> sorted(effects.ended), sorted(effects.begun)
    ([('estimator', 'fading:0.999'), ('estimator', 'window:1000')], [])
    """
    before, after = _small(before, after)
    shard = Shard(Config(defaults=before))
    keys = [*before.segments, *after.segments]
    delay = _delay(before, after)
    records = sorted(_records(before, keys, _models(before, after), delay), key=lambda record: record[0])
    for kind in range(3):
        batch = [(ts, record) for ts, record in records if kind == record.KIND]
        content = Decoded([record for _, record in batch], {})
        shard.add(Batch(kind, range(len(batch)), [ts for ts, _ in batch], content))
    end = max(_INSTANCES * _STEP, records[-1][0])
    while shard.advance([end] * 3, len(records)):
        shard.flush()
    shard.flush()
    parts = [msgspec.msgpack.encode(part) for part in shard.snapshot()]
    try:
        restored = Shard(Config(defaults=after)).restore(map(msgspec.msgpack.decode, parts))
    except WorkError as error:
        return Effects(refused=str(error))
    return Effects(
        frozenset(restored.kept), frozenset(begun.item for begun in restored.begun), frozenset(restored.ended)
    )


def trials(pairs: Sequence[Pair]) -> list[Effects]:
    """The same of several pairs, in a process of its own, in which nothing is compiled.

    Raises WorkError if that fails.
    """
    done = subprocess.run(
        [sys.executable, "-m", __name__], input=msgspec.json.encode(pairs), capture_output=True,
        env={**environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}, check=False,
    )  # fmt: skip
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise WorkError(f"what happens to the state can't be tried: {''.join(last)}")
    return msgspec.json.decode(done.stdout, type=list[Effects])


def _small(before: StreamConfig, after: StreamConfig) -> Pair:
    """The same settings with bounds of values that a few records reach."""
    order = (after.segments_per_key > before.segments_per_key) - (
        after.segments_per_key < before.segments_per_key
    )
    return replace(before, segments_per_key=_BOUND), replace(after, segments_per_key=_BOUND + order)


def _models(before: StreamConfig, after: StreamConfig) -> list[str]:
    """Three models, with the champions among them: pairs of the other two may end."""
    champions = [champion for champion in (before.champion, after.champion) if champion is not None]
    return list(dict.fromkeys([*champions, "m", "n", "o"]))[:3]


def _delay(before: StreamConfig, after: StreamConfig) -> int:
    """Milliseconds from predictions to their label: within the horizon, and all stages have outcomes.

    Stages at an age, and with a lead before the label, have none of labels that come earlier.
    """
    ages = [stage.number for stage in map(parse, (*before.stages, *after.stages)) if stage.is_age]
    return min(max(ages, default=0), before.label_horizon)


def _records(
    config: StreamConfig, keys: Sequence[str], models: Sequence[str], delay: int
) -> Iterator[tuple[int, Record]]:
    """All that a record may carry; of the last instance there is no label yet."""
    numbers = config.task == "regression"
    for i in range(_INSTANCES):
        ts, name = i * _STEP, str(i)
        segments = dict.fromkeys(keys, f"value {i % _VALUES}")
        yield ts, Instance(_STREAM, name, ts, i, segments, 0.5)
        # The first model predicts an instance twice, so that `initial` has a sequence of its own.
        for k, model in enumerate((models[0], *models)):
            guess = i + k / 2 if numbers else "ab"[(i + k) % 2]
            proba = None if numbers else {"a": 0.75, "b": 0.25}
            yield ts, Prediction(_STREAM, model, name, guess, ts, proba, segments, f"v{i // 4}")
        if i + 1 < _INSTANCES:
            truth = i + 0.25 if numbers else "ab"[i // 2 % 2]
            yield ts + delay, Label(_STREAM, name, truth, ts + delay)


if __name__ == "__main__":
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Pair])
    sys.stdout.buffer.write(msgspec.json.encode([trial(*pair) for pair in given]))
