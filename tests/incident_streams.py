"""Streams in which one thing changes, as records, and a shard that lives on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.incidents.lasting import BRIEF
from prequential.engine.input.merge import Batch
from prequential.engine.shard import Shard
from prequential.topics.decoding import Decoded
from prequential.topics.messages import Label, Prediction, Record
from prequential.topics.outputs import Incident, Output

#: A watermark above all times.
ENDED = 1 << 62

#: Metrics aren't asked for.
QUIET = StreamConfig(stages=("final",), estimators=("all",), emit_outcomes=None, emit_every=None)

#: Milliseconds between two instances, and from an instance to its label.
STEP, LATENCY = 1_000, 5_000


@dataclass
class Stream:
    """Instances in order: labels, whether predictions are wrong, and what else there is of each."""

    label: np.ndarray  # codes of classes
    wrong: np.ndarray
    latency: np.ndarray | None = None  # ms
    labelled: np.ndarray | None = None
    segment: Sequence[str] | None = None
    version: Sequence[str] | None = None
    confidence: np.ndarray | None = None  # the probability that predictions give themselves, of two classes
    classes: str = "ab"
    name: str = "s"
    model: str = "m"
    step: int = STEP
    extra: list[Record] = field(default_factory=list)

    def records(self) -> list[Record]:
        """A prediction at each step, and a label later."""
        found: list[Record] = list(self.extra)
        k = len(self.classes)
        for i, (label, wrong) in enumerate(zip(self.label.tolist(), self.wrong.tolist())):
            ts = i * self.step
            predicted = (label + wrong) % k
            segments = None if self.segment is None else {"region": self.segment[i]}
            version = None if self.version is None else self.version[i]
            said, proba = self.classes[predicted], None
            if self.confidence is not None:
                sure = float(self.confidence[i])
                proba = {said: sure, self.classes[1 - predicted]: 1 - sure}
            found.append(Prediction(self.name, self.model, str(i), said, ts, proba, segments, version))
            if self.labelled is None or self.labelled[i]:
                latency = LATENCY if self.latency is None else int(self.latency[i])
                found.append(Label(self.name, str(i), self.classes[label], ts + latency))
        return found


def batches(records: Iterable[Record]) -> list[Batch]:
    """The records of each topic, in order of time."""
    found = []
    rows = list(records)
    for kind in range(3):
        own = [record for record in rows if kind == record.KIND]
        own.sort(key=lambda record: record.ts or 0)
        if own:
            times: Any = [record.ts for record in own]
            found.append(Batch(kind, range(len(own)), times, Decoded(list(own), {})))
    return found


def live(records: Iterable[Record], config: StreamConfig = QUIET, most: int = 10_000) -> list[Output]:
    """What a shard puts out, in rounds of so many records."""
    shard = Shard(Config(defaults=config))
    for batch in batches(records):
        shard.add(batch)
    found: list[Output] = []
    while shard.advance([ENDED] * 3, most):
        found += shard.flush()[0]
    return found + shard.flush()[0]


def incidents(records: Iterable[Record], config: StreamConfig = QUIET, **changed: Any) -> list[Incident]:
    """The messages about incidents."""
    return [one for one in live(records, replace(config, **changed)) if isinstance(one, Incident)]


def seen_after(message: Incident) -> float:
    """The mean loss since the change: `after` is that less what usually passes."""
    before, after, count = message.before["level"], message.after["level"], message.cluster["after"]
    return float(before + (after - before) * (count + BRIEF) / count)


def steps(rng: np.random.Generator, *parts: tuple[int, float]) -> np.ndarray:
    """0 and 1: so many with this probability each, one part after the other."""
    return np.concatenate([(rng.random(n) < p) for n, p in parts]).astype(np.int64)


def markov(rng: np.random.Generator, n: int, stays: float) -> np.ndarray:
    """Labels 0 and 1, each like the one before with this probability."""
    return np.cumsum(rng.random(n) >= stays) % 2
