"""What a tick costs: a shard with the streams of the soak, without a broker.

`python -m tests.bench.ticks [--streams 250] [--seconds 2400]` puts records through a shard as
`tests.evidence.soak` does, an instance of each stream in two seconds of record time, and says how long the
messages of a multiple of ten seconds took: CPU ms of the process, of the last third by kind. Multiples of a
minute have comparisons, too, and at the end of a period all that began together are final.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from prequential.configuration.reading.reader import load_config
from prequential.configuration.settings.model import Config
from prequential.engine.facts import Fact
from prequential.engine.input.merge import Batch
from prequential.engine.input.plain import Parser
from prequential.engine.shard import Shard
from prequential.runtime.program.compilation import compile_loops

from tests.bench.live import Load, name_of, texts_of
from tests.evidence.soak import STREAMS

#: Instances of a stream in a second; shares of truths that change, and of instances without a label.
_EACH, _CHANGES, _UNLABELLED = 0.5, 0.3, 0.02

#: Record time at first, and the time between ticks, periods and comparisons, s.
_BEGIN, _TICK, _PERIOD, _MINUTE = 1_700_000_000, 10, 300, 60


class Ticks:
    """Runs the shard, and notes what its ticks took."""

    def __init__(self, config: Config, streams: int) -> None:
        self._shard = Shard(config, 0, 4)
        self._load = Load(streams, probabilities=True, drift_every=900, drift_for=180)
        self._chance = random.Random(1)
        self._parser = Parser({"quantiles"})
        self._truth = [0] * streams
        self._due: list[tuple[float, int, str]] = []
        self._offsets, self._number = [0, 0, 0], 0
        #: By record time (s): CPU ms, and how many messages.
        self.took: dict[int, tuple[float, int]] = {}
        observer: Any = self._shard.observer
        tick, observe = self._shard.schedule.tick, observer.observe
        at: list[int] = []

        def noted(record_time: int) -> Iterator[Fact]:
            at.append(record_time // 1000 // _TICK * _TICK)
            yield from tick(record_time)

        def timed(changes: Iterator[Fact]) -> None:
            began, before = time.process_time(), len(self._shard.outbox)
            observe(changes)
            if at:
                count = len(self._shard.outbox) - before
                self.took[at.pop()] = (time.process_time() - began) * 1e3, count

        self._shard.schedule.tick, observer.observe = noted, timed  # type: ignore[method-assign]

    def second(self, second: int) -> None:
        """Let a second of record time pass."""
        texts: tuple[list[bytes], ...] = ([], [], [])
        for _ in range(round(self._load.streams * _EACH)):
            stream = self._number % self._load.streams
            if self._chance.random() < _CHANGES:
                self._truth[stream] = 1 - self._truth[stream]
            truth = self._truth[stream]
            for kind, text in texts_of(self._load, self._number, stream, truth, second, self._chance):
                texts[kind].append(text.encode())
            if self._chance.random() >= _UNLABELLED:
                late = second + 1 + min(self._chance.expovariate(1 / 4), 29)
                label = f'{{"stream":"{name_of(stream)}","instance_id":"{self._number}","y_true":"{truth}"}}'
                heapq.heappush(self._due, (late, self._number, label))
            self._number += 1
        while self._due and self._due[0][0] <= second:
            texts[2].append(heapq.heappop(self._due)[2].encode())
        begin = (_BEGIN + second) * 1000
        for kind, some in enumerate(texts):
            if some:
                offset, times = self._offsets[kind], [begin + i * 999 // len(some) for i in range(len(some))]
                span = range(offset, offset + len(some))
                self._shard.add(Batch(kind, span, times, self._parser.parse(kind, some)))
                self._offsets[kind] = span.stop
        while self._shard.advance([begin + 999] * 3, 1 << 20):
            pass
        self._shard.flush()


def main() -> None:
    """Print the median of each kind of tick, in the last third of the run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--streams", type=int, default=250, metavar="N")
    parser.add_argument("--seconds", type=int, default=2_400, metavar="S", help="of record time")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "prequential.yaml")
        path.write_text(yaml.safe_dump({"defaults": STREAMS}))
        config = load_config(str(path))
    compile_loops(partial(print, file=sys.stderr), config)
    gc.disable()
    ticks = Ticks(config, args.streams)
    for second in range(args.seconds):
        ticks.second(second)
    kinds: dict[str, list[tuple[float, int]]] = {}
    for at, took in ticks.took.items():
        if at >= _BEGIN + args.seconds * 2 // 3:
            end = at % _PERIOD == 0 or (at - _TICK) % _PERIOD == 0
            kind = "end of a period" if end else "minute" if at % _MINUTE == 0 else "other"
            kinds.setdefault(kind, []).append(took)
    for kind, some in sorted(kinds.items()):
        ms, messages = (median(column) for column in zip(*some))
        most = max(one for one, _ in some)
        print(f"{kind:16} {len(some):4} ticks  {ms:7.0f} ms, at most {most:.0f}  {messages:7,.0f} messages")


if __name__ == "__main__":
    main()
