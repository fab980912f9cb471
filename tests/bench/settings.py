"""Settings that everything in the benchmark shares, so that no contestant owes its rank to them."""

from __future__ import annotations

from typing import Final

#: How librdkafka fetches for whoever reads with it: the worker, and the peers loop and Quix.
FETCH: Final = {
    # Milliseconds for which a partition whose local queue was full isn't fetched again. The default
    # of 1000 starves a reader that empties the queue in a tenth of that time.
    "fetch.queue.backoff.ms": 5,
    # Records per partition that librdkafka keeps ready: some tenths of a second's work.
    "queued.min.messages": 200_000,
    # Milliseconds for which the broker may hold back an answer that has no data yet.
    "fetch.wait.max.ms": 10,
}

#: Outcomes of a model between two of its metrics messages, and in its window.
EMIT_OUTCOMES: Final = 1_000
WINDOW: Final = 1_000

#: Fading factor of the faded error (2013 paper: S = x + A*S, N = 1 + A*N, error S/N).
FADING: Final = 0.999

#: How long a prediction or label waits for its counterpart, in ms of event time: the default of
#: `label_horizon`, 7 days.
HORIZON_MS: Final = 7 * 24 * 3_600_000
