"""Messages about periods of prediction time (`docs/reference/semantics-periods.md`)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from prequential.configuration.settings.stages import PERIOD
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.facts import PeriodDue
from prequential.engine.output.estimates import counts_of
from prequential.topics.encoding import encode, identity
from prequential.topics.outputs import Encoded, Metrics
from prequential.topics.specs import METRICS


def messages_of(catalog: Catalog, periods: Sequence[PeriodDue]) -> list[Encoded]:
    """The messages about these periods of a catalog's models."""
    models = list(dict.fromkeys(one.model for one in periods))
    counts = dict(zip(models, counts_of(catalog, models))) if models else {}
    messages = (_message(catalog, one, counts[one.model]) for one in periods)
    return [Encoded(METRICS, message.stream, encode(message)) for message in messages]


def _message(catalog: Catalog, due: PeriodDue, counts: dict[str, int]) -> Metrics:
    about, state, forecast = catalog.entity(due.model), due.state, due.forecast
    stream = catalog.streams[about.stream]
    key = (stream.name, catalog.partition, about.model, None, PERIOD, state.name)
    return Metrics(
        identity(
            *key, state.predictions, state.labelled, state.revisions, state.corrections, state.status,
            *catalog.loss, *([forecast.maturity] if forecast else []),
        ),
        *key, state.labelled, state.labelled, state.newest_ts, *due.measures, counts, stream.config.digest,
        period=state.as_message(closes=stream.config.label_at_horizon is not None),
        expected=forecast.message if forecast else msgspec.UNSET,
        untimed=catalog.untimed or msgspec.UNSET,
    )  # fmt: skip
