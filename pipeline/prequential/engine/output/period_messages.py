"""Messages about periods of prediction time, and their alarms (`docs/reference/semantics-periods.md`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from prequential.configuration.settings.stages import PERIOD
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Stream
from prequential.engine.delay import maturity, records
from prequential.engine.delay.accounts import Accounts
from prequential.engine.delay.due_periods import PeriodState, due_of
from prequential.engine.detectors.period_alarms import PeriodAlarm
from prequential.engine.output.estimates import counts_of
from prequential.engine.output.expectations import DuePeriods, Expectations, PeriodForecast
from prequential.engine.output.period_measures import Measures, SoFar
from prequential.topics.outputs import Alarm, Encoded, Metrics, encode, identity
from prequential.topics.specs import METRICS


class OfPeriods(NamedTuple):
    """The output about a stream's periods: messages, and alarms with the rows of their models."""

    messages: list[Encoded]
    alarms: list[tuple[int, Alarm]]
    #: For a stream in all partitions: by model, the periods (rows) that changed enough or became final.
    rows: dict[int, list[int]]


class PeriodReporter:
    """Makes the messages about periods of a catalog's models."""

    def __init__(self, catalog: Catalog, accounts: Accounts, expectations: Expectations) -> None:
        self._catalog, self._accounts, self._expectations = catalog, accounts, expectations

    def due(self, streams: Sequence[Stream], *, all_news: bool = False) -> list[OfPeriods]:
        """The due messages about periods of streams' models, by stream; they count as reported.

        With `all_news` any change is enough.
        """
        clock, accounts = self._catalog.columns.streams.clock, self._accounts
        whose = [(stream, name, row) for stream in streams for name, row in stream.models.items()]
        models = np.array([row for _, _, row in whose], dtype=np.int64)
        clocks = clock[np.array([stream.code for stream, _, _ in whose], dtype=np.int64)].astype(np.int64)
        shares = maturity.shares_at_horizon(accounts.coverage, models, clocks)
        found = due_of(accounts.periods, models, clocks, shares, all_news=all_news)
        due = [
            DuePeriods(stream, row, clock, share, states) for (stream, _, row), clock, share, states in zip(
                whose, clocks.tolist(), shares.tolist(), found
            )
        ]  # fmt: skip
        by_stream = {stream.code: OfPeriods([], [], {}) for stream in streams}
        for one in due:
            if one.periods and one.stream.name in self._catalog.wide:
                by_stream[one.stream.code].rows[one.model] = [state.row for state in one.periods]
        labelled = SoFar(self._catalog, accounts.periods)
        labelled.add((one.model, state.row) for one in due for state in one.periods)
        said = self._expectations.of_models(due, labelled)
        some = [(name, one) for (_, name, _), one in zip(whose, due) if one.periods]
        for (name, one), counts in zip(some, counts_of(self._catalog, [one.model for _, one in some])):
            self._report(by_stream[one.stream.code], name, one, said, labelled, counts)
        return [by_stream[stream.code] for stream in streams]

    def _report(
        self, into: OfPeriods, name: str, due: DuePeriods, said: dict[int, PeriodForecast], labelled: SoFar,
        counts: dict[str, int],
    ) -> None:  # fmt: skip
        """Add the messages about a model's periods."""
        for state in due.periods:
            saying = said.get(state.row)
            message = self._message(due.stream, name, state, saying, labelled[state.row], counts)
            into.messages.append(Encoded(METRICS, due.stream.name, encode(message)))
            if saying:
                into.alarms.extend(
                    (due.model, self._alarm(due, name, state, one, saying.maturity)) for one in saying.alarms
                )

    def _message(
        self, stream: Stream, model: str, state: PeriodState, saying: PeriodForecast | None,
        measures: Measures, counts: dict[str, int],
    ) -> Metrics:  # fmt: skip
        key = (stream.name, self._catalog.partition, model, None, PERIOD, state.name)
        said = state.as_message(closes=stream.config.label_at_horizon is not None)
        return Metrics(
            identity(
                *key, state.predictions, state.labelled, state.revisions, state.corrections, state.status,
                *self._catalog.loss, *([saying.maturity] if saying else []),
            ),
            *key, state.labelled, state.labelled, state.newest_ts, *measures, counts, stream.config.digest,
            period=said, expected=saying.message if saying else msgspec.UNSET,
            untimed=self._catalog.untimed or msgspec.UNSET,
        )  # fmt: skip

    def _alarm(
        self, due: DuePeriods, name: str, state: PeriodState, alarm: PeriodAlarm, maturity: int
    ) -> Alarm:
        key = (
            due.stream.name, self._catalog.partition, name, None, PERIOD, alarm.detector, alarm.signal
        )  # fmt: skip
        period = {"start": state.start, "end": state.end, "maturity": records.share_of(maturity)}
        outcomes = int(self._catalog.columns.entities.outcomes[due.model])
        return Alarm(
            identity(*key, state.start, *self._catalog.loss), *key, outcomes, "", due.clock, alarm.statistic,
            alarm.threshold, {}, period=period, untimed=self._catalog.untimed or msgspec.UNSET,
        )  # fmt: skip
