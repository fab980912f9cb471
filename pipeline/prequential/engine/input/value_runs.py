"""Values of messages of several formats: runs of consecutive records, each with one format.

A run is text, or a sequence of another kind that makes the text of a record when it is asked for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

import numpy as np
from prequential.engine.input.plain import JoinedValues, Plain, together
from prequential.topics.decoding import Decoded

#: The values of records, None for records without a value.
Values = Sequence["bytes | None"]


class ValueRuns(Sequence["bytes | None"]):
    """The values of consecutive records, run by run.

    >>> values = ValueRuns([[b"a", None], JoinedValues.of([b"b"]), [b"c"]])
    >>> len(values), values[2], list(values[1:3]), [len(run) for run in values[1:3].runs]
    (4, b'b', [None, b'b'], [1, 1])
    >>> list(values.replaced({0: None, 2: b"B"}))
    [None, None, b'B', b'c']
    """

    def __init__(self, runs: Sequence[Values]) -> None:
        self.runs = [run for run in runs if len(run)]
        self._starts = np.cumsum([0, *map(len, self.runs)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...

    @overload
    def __getitem__(self, index: slice) -> ValueRuns: ...

    def __getitem__(self, index: int | slice) -> bytes | ValueRuns | None:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            firsts = self._starts.tolist()
            return ValueRuns(
                [run[max(0, start - first) : max(0, stop - first)] for first, run in zip(firsts, self.runs)]
            )
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        run = int(np.searchsorted(self._starts, index, "right")) - 1
        return self.runs[run][index - int(self._starts[run])]

    def replaced(self, texts: Mapping[int, bytes | None]) -> ValueRuns:
        """The same values, but for these places; runs of other formats are divided there."""
        runs: list[Values] = []
        for first, run in zip(self._starts.tolist(), self.runs):
            own = {place - first: text for place, text in texts.items() if 0 <= place - first < len(run)}
            if own and isinstance(run, (list, JoinedValues)):
                runs.append(replaced(run, own))
                continue
            start = 0
            for place in sorted(own):
                runs += [run[start:place], [own[place]]]
                start = place + 1
            runs.append(run[start:] if start else run)
        return ValueRuns(runs)


def replaced(values: Values, texts: Mapping[int, bytes | None]) -> Values:
    """These values, but for the texts at some places."""
    if isinstance(values, ValueRuns):
        return values.replaced(texts)
    return [texts.get(index, value) for index, value in enumerate(values)]


def combined(contents: Sequence[Decoded | Plain]) -> Decoded | Plain:
    """The records of runs, one after the other: as columns if all of them are columns that go together."""
    plain = [content for content in contents if isinstance(content, Plain)]
    if len(plain) == len(contents) and (whole := together(plain)) is not None:
        return whole
    whole_decoded = Decoded([], {})
    for content in contents:
        start = len(whole_decoded.records)
        whole_decoded.records.extend(content.records() if isinstance(content, Plain) else content.records)
        for index, why in content.reasons.items():
            whole_decoded.records[start + index] = None
            whole_decoded.reasons[start + index] = why
    return whole_decoded
