"""Rows of a micro-batch that is still open: records are added one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from prequential.engine.input.encoder import Encoder
from prequential.engine.tables.records import Rows

#: Records, bytes of their ids, and probabilities that there is room for.
RECORDS, TEXT, PROBABILITIES = 1_024, 1 << 16, 1 << 14


class OpenRows:
    """Room for records, the first of which are there; `rows` are always the same arrays."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._text = bytearray(TEXT)
        text = np.frombuffer(self._text, dtype=np.uint8)
        text.flags.writeable = False  # as the text of a micro-batch is, which loops are compiled for
        self.rows = Rows(
            np.zeros(RECORDS, np.uint8), np.zeros(RECORDS, np.int32), np.zeros(RECORDS, np.int64),
            np.zeros(RECORDS, np.int64), text, np.zeros(RECORDS + 1, np.int64), np.zeros(RECORDS, np.int32),
            np.zeros(RECORDS, np.int32), np.zeros(RECORDS), np.zeros(RECORDS, np.int64), np.zeros(RECORDS),
            np.zeros((RECORDS, encoder.numbers)), np.zeros((RECORDS, encoder.keys), np.uint16),
            np.zeros(RECORDS + 1, np.int64),
            np.zeros(PROBABILITIES, np.uint64), np.zeros(PROBABILITIES), np.zeros(RECORDS, np.int32),
            np.zeros(RECORDS, np.uint8), np.zeros(RECORDS, np.int64), np.zeros(RECORDS, np.uint8),
        )  # fmt: skip
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
        given = encoder.probabilities_of(record)
        if i == RECORDS or end > TEXT or last + len(given) > PROBABILITIES:
            return False
        encoder.write(rows, i, record, time)
        self._text[self._end : end] = text
        rows.starts[i + 1] = end
        if given:
            stop = last + len(given)
            rows.names[last:stop], rows.p[last:stop] = encoder.codes_of(given), list(given.values())
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
