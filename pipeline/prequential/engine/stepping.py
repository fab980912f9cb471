"""Processing records one at a time, with results after each record: a micro-batch that stays open.

A micro-batch of one record costs about as much as one of hundreds, because each reader of the join's logs has
a fixed cost per call. Here the join processes each record in its turn, and only estimators and detectors read
its outcomes at once. All other readers read the logs when the micro-batch is closed, because no caller needs
their results after each record. The state of a shard doesn't depend on how records were divided into
micro-batches, so it doesn't depend on this mode either.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

import msgspec
import numpy as np
from prequential.engine.catalog.state import ensure_rows
from prequential.engine.compiled.calls import entry_of
from prequential.engine.delay.cohorts import locate
from prequential.engine.detectors.objectives import every_detector
from prequential.engine.input.encoder import Encoder
from prequential.engine.input.fields import separate_versions
from prequential.engine.input.merge import RecordPlace
from prequential.engine.join.join import join
from prequential.engine.shard import Shard
from prequential.engine.tables.logs import DONE, EMIT, OVERDUE
from prequential.engine.tables.records import PREDICTION, Unusable, new_rows
from prequential.topics.errors import existing

#: Records, bytes of their ids, and probabilities that there is room for.
RECORDS, TEXT, PROBABILITIES = 1_024, 1 << 16, 1 << 14


class OpenRows:
    """Room for records, the first of which are there; `rows` are always the same arrays."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._text = bytearray(TEXT)
        text = np.frombuffer(self._text, dtype=np.uint8)
        text.flags.writeable = False  # as the text of a micro-batch is, which loops are compiled for
        self.rows = new_rows(RECORDS, encoder.numbers, encoder.keys, text, PROBABILITIES)
        #: The records themselves.
        self.records: list[Any] = []
        self._end = self._last = 0  # of text, and of probabilities

    def add(self, record: Any, time: int) -> bool:
        """Add a prediction or a label with this record time (ms); False: there is no room for it.

        Raises KeyError if it has names that aren't known, Unusable if it can't be used; then it isn't added.
        """
        encoder, rows, i = self._encoder, self.rows, len(self.records)
        text = record.instance_id.encode()
        end, last = self._end + len(text), self._last
        probabilities = encoder.probabilities_of(record)
        if i == RECORDS or end > TEXT or last + len(probabilities) > PROBABILITIES:
            return False
        encoder.write(rows, i, record, time)
        self._text[self._end : end] = text
        rows.starts[i + 1] = end
        if probabilities:
            stop = last + len(probabilities)
            rows.names[last:stop], rows.p[last:stop] = (
                encoder.codes_of(probabilities),
                list(probabilities.values()),
            )
            last = stop
        rows.probabilities[i + 1] = last
        self._end, self._last = end, last
        self.records.append(record)
        return True

    def clear(self) -> None:
        """Have no records any more, and room for as many as at first."""
        self.rows.refused[: len(self.records)] = 0
        self.records = []
        self._end = self._last = 0


class Stepper:
    """Lets a shard process records one at a time; close it before you use the shard in another way."""

    def __init__(self, shard: Shard) -> None:
        self._shard, self._state = shard, shard.state
        self._open: OpenRows | None = None
        self._spare: OpenRows | None = None  # of a micro-batch that was closed
        self._row = 0  # the next row for the join
        self._origins: list[RecordPlace] = []  # by row
        self._tables: tuple[Any, ...] = ()
        self._entry: Callable[..., tuple[int, int]] | None = None  # the join, for these
        settings = (shard.config.defaults, *shard.config.streams.values())
        self._separates = any(stream_config.versions == "separate" for stream_config in settings)
        #: Whether detectors need the places of outcomes in timelines: `harm` does.
        self._locates = any(
            detector.detector == "harm"
            for stream_config in settings
            for detector in every_detector(stream_config)
        )
        self._located: tuple[Any, ...] = ()  # the tables for `locate`
        self._locate_entry: Callable[..., None] | None = None  # its code, for these

    def take(self, record: Any, time: int) -> bool:
        """Take a prediction or a label, after all records that were added before; `advance` processes it.

        Returns False, and changes nothing, if the record has to be added in a batch instead. That is the case
        if the record has new names, or if messages are due before its time. `time` is its record time in ms,
        not less than that of the previous record of its kind.
        """
        if time >= self._state.next_tick or self._shard.state.lacks_rows:
            return False
        if self._separates and record.KIND == PREDICTION:
            record = msgspec.structs.replace(record)  # a batch that takes it instead separates it itself
            separate_versions(self._shard.config, [record])
        try:
            if self._open is None:
                self._begin()
            if not self._open.add(record, time):  # type: ignore[union-attr]
                self.close()
                self._begin()
                if not self._open.add(record, time):  # type: ignore[union-attr]
                    return False
        except (KeyError, Unusable):
            return False
        self._origins.append(RecordPlace(record.KIND, self._shard.merge.pass_by(record.KIND, time)))
        return True

    def advance(self) -> None:
        """Run the join, the estimators and the detectors on all records that were taken."""
        if self._open is None:
            return
        shard, records, used = self._shard, self._open.records, self._state.logs.used
        while self._row < len(records) or used[OVERDUE]:
            self._row, why = self._join(len(records))
            shard.name_segments()
            if why == DONE:
                break
            shard.resolve_stop(why, records)
            if why != EMIT:
                shard.evaluation.forget()
            used = self._state.logs.used
        if self._locates:
            self._locate()
        shard.evaluation.read(records)

    def close(self) -> None:
        """Let all other readers of the logs process the records, and end the micro-batch."""
        self.advance()
        if self._open is None:
            return
        shard, records, rows = self._shard, self._open.records, self._open.rows
        if records:
            shard.schedule.touch(rows.stream[: len(records)])
            shard.resolve_stop(DONE, records)
            shard.note(rows, len(records), records, self._origins.__getitem__)
            self._open.clear()
        self._spare, self._open = self._open, None
        self._row, self._origins = 0, []

    def _begin(self) -> None:
        """Make room for records, also in the state store."""
        state, encoder = self._state, self._shard.encoder
        self._open, self._spare = self._spare or OpenRows(encoder), None
        rows = self._open.rows
        if (rows.segments.shape[1], rows.numbers.shape[1]) != (encoder.keys, encoder.numbers):
            self._open = OpenRows(encoder)
        state.store = ensure_rows(state.store, state.catalog, RECORDS, TEXT, PROBABILITIES)

    def _locate(self) -> None:
        """Note the places of new outcomes in timelines, so that detectors can read the outcomes."""
        args = self._state.unlocated()
        timeline, registry, events, _, outcomes, _, _ = args
        tables = timeline, registry, events, outcomes
        if len(self._located) != len(tables) or not all(map(is_, tables, self._located)):
            self._located, self._locate_entry = tables, None
            locate(*args)
            return
        if self._locate_entry is None:
            self._locate_entry = entry_of(locate, args)
        self._locate_entry(*args)

    def _join(self, stop: int) -> tuple[int, int]:
        """Run the join; returns the next row, and why the join stopped there."""
        state, limits = self._state, self._shard.config.limits
        rows = existing(self._open, "the record that is joined").rows
        tables = rows, state.catalog.registry, state.store, state.logs
        most = limits.instances_per_shard, limits.predictions_per_instance
        args = rows, self._row, stop, *tables[1:], *most
        if len(self._tables) != len(tables) or not all(map(is_, tables, self._tables)):
            self._tables, self._entry = tables, None
            return join(*args)
        if self._entry is None:
            self._entry = entry_of(join, args)
        return self._entry(*args)
