"""What messages need of their streams' settings, as columns by stream.

The objects of a thousand streams are far apart in memory: reading a setting of each takes longer than
printing the numbers of its messages. Streams are only added, and their settings stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.kernel import Ints
from prequential.engine.output.detail_texts import has_details

_Flags = npt.NDArray[np.bool_]


class SettingColumns(NamedTuple):
    """By stream (code)."""

    measures: Ints  # the choice of measures, as `StreamColumns` was told
    digest: Ints  # which of `StreamColumns.digests`
    details: _Flags  # whether messages may have details
    classes: _Flags  # whether its labels are classes
    coverage: _Flags  # whether messages have the field `coverage`
    evaluated: _Flags  # whether its models have stages that aren't about an age
    segments: _Flags  # whether it has keys of segments


class StreamColumns:
    """Columns of a catalog's streams. `measures_of` numbers the choice of measures of settings."""

    def __init__(self, streams: list[Stream], measures_of: Callable[[StreamConfig], int]) -> None:
        self._streams, self._measures_of = streams, measures_of
        #: By stream (code): its name.
        self.names: list[str] = []
        #: Digests of settings.
        self.digests: list[str] = []
        self._numbers: dict[str, int] = {}  # of digests
        self._settings = SettingColumns(*np.zeros((2, 0), dtype=np.int64), *np.zeros((5, 0), dtype=np.bool_))

    @property
    def settings(self) -> SettingColumns:
        """The columns, with all streams that the catalog has now."""
        count = len(self.names)
        if count < len(self._streams):
            new, before = self._streams[count:], self._settings
            self.names += [stream.name for stream in new]
            added = zip(*map(self._row, new))
            self._settings = SettingColumns(
                *(np.append(column, np.array(values, column.dtype)) for column, values in zip(before, added))
            )
        return self._settings

    def _row(self, stream: Stream) -> tuple[int, ...]:
        config = stream.config
        number = self._numbers.setdefault(config.digest, len(self.digests))
        if number == len(self.digests):
            self.digests.append(config.digest)
        return (
            self._measures_of(config), number, has_details(config), config.has_classes, config.coverage,
            bool(stream.everywhere), bool(config.segments),
        )  # fmt: skip
