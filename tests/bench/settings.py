"""Settings that everything in the benchmark shares, so that no contestant owes its rank to them."""

from __future__ import annotations

from typing import Any, Final

from prequential.kafka.fetching import FETCH_SETTINGS

#: How librdkafka fetches for whoever reads with it: for the peers loop and Quix as for the worker.
FETCH: Final[dict[str, Any]] = dict(FETCH_SETTINGS)

#: Outcomes of a model between two of its metrics messages, and in its window.
EMIT_OUTCOMES: Final = 1_000
WINDOW: Final = 1_000

#: Fading factor of the faded error (2013 paper: S = x + A*S, N = 1 + A*N, error S/N).
FADING: Final = 0.999

#: How long a prediction or label waits for its counterpart, in ms of event time: the default of
#: `label_horizon`, 7 days.
HORIZON_MS: Final = 7 * 24 * 3_600_000
