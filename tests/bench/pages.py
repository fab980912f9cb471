"""How soon the dashboard answers over many streams: the 95th percentile of each page, in milliseconds of CPU.

`python -m tests.bench.pages [--streams N] [--messages M]` feeds messages of two models for each stream, with
comparisons of each and incidents of some, into the read model. It then asks
for pages while more messages come.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from statistics import median, quantiles
from time import thread_time

from prequential.configuration.settings.model import Config
from prequential.views.dashboard.history import History
from prequential.views.dashboard.views import Board

from tests.dashboard import boards

#: Models of a stream, and the share of streams with an open incident.
_MODELS, _INCIDENTS = ("nb", "tree"), 0.01


def main() -> None:
    """Print a row for each page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--messages", type=int, default=60, help="messages of each model")
    parser.add_argument("--asked", type=int, default=200, help="requests of each page")
    args = parser.parse_args()
    rng = random.Random(1)
    history = History(Config())
    now = boards.START + 100_000 * args.messages
    board = Board(history, "bench", lambda: now)
    streams = [f"stream-{i:04}" for i in range(args.streams)]
    for number in range(1, args.messages + 1):
        for stream in streams:
            for model in _MODELS:
                one = boards.metrics(100 * number, rng.uniform(0.6, 0.9), stream=stream, model=model)
                history.update(*one)
    for stream in streams:
        history.update(*boards.comparison(stream=stream))
        if rng.random() < _INCIDENTS:
            history.update(*boards.incident(stream=stream, id=f"{stream:0<32}"))
    print(f"{args.streams:,} streams of {len(_MODELS)} models, {args.messages} messages each")
    views: dict[str, Callable[[str], dict[str, str]]] = {
        "overview": lambda stream: {}, "model": lambda stream: {"stream": stream, "model": "nb"},
        "incidents": lambda stream: {},
        "pair": lambda stream: {
            "stream": stream, "model": "nb", "against": "tree", "stage": "final", "loss": "error",
        },
    }  # fmt: skip
    for name, params in views.items():
        took = []
        for number in range(args.asked):
            stream = rng.choice(streams)
            outcomes = 100 * (args.messages + 1 + number)
            history.update(*boards.metrics(outcomes, rng.uniform(0.6, 0.9), stream=stream, model="nb"))
            start = thread_time()
            json.dumps(board.answer(name, params(stream)))
            took.append(1000 * (thread_time() - start))
        print(f"{name:10} median {median(took):6.1f} ms, 95th percentile {quantiles(took, n=20)[-1]:6.1f} ms")


if __name__ == "__main__":
    main()
