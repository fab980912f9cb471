"""Settings that everything in the benchmark shares, so that no contestant owes its rank to them."""

from __future__ import annotations

from typing import Any, Final

from prequential.configuration.settings.streams import StreamConfig
from prequential.runtime.kafka.fetching import FETCH_SETTINGS

_DEFAULT: Final = StreamConfig()

#: How librdkafka fetches for whoever reads with it: for the peers in Python as for the worker.
FETCH: Final[dict[str, Any]] = dict(FETCH_SETTINGS)

#: Outcomes of a model between two of its messages; and a message comes, too, when time passes a multiple of
#: this (ms), if there were outcomes since the last one. Both as by default in a worker.
EMIT_OUTCOMES: Final = _DEFAULT.emit_outcomes or 0
EMIT_EVERY_MS: Final = _DEFAULT.emit_every or 0

#: Outcomes in the window.
WINDOW: Final = 1_000

#: Fading factor (2013 paper: S = x + A*S, N = 1 + A*N, estimate S/N).
FADING: Final = 0.999

#: Peers let a new outcome's weight grow instead of making all others' less; from here on all are made small
#: again.
LARGE_WEIGHT: Final = 1e200

#: How long a prediction or a label waits for its counterpart, and how long an instance is known after its
#: outcomes, so that nothing counts twice: ms of event time.
HORIZON_MS: Final = _DEFAULT.label_horizon
SETTLE_MS: Final = _DEFAULT.settle
