"""Values of records one after the other in one piece of memory, without an object for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from prequential.engine.compiled.kernel import Bytes, Ints

#: The byte behind each value, which no JSON has.
SEPARATOR = b"\0"


class JoinedValues(Sequence["bytes | None"]):
    r"""Values of records, None for those that have none.

    >>> import numpy as np
    >>> text, bounds = np.frombuffer(b"a\0\0\0bc\0", dtype=np.uint8), np.array([0, 2, 3, 4, 7])
    >>> values = JoinedValues(text, bounds, np.array([0, 1, 0, 0], dtype=np.uint8))
    >>> list(values), values[3], list(values[1:3])
    ([b'a', None, b'', b'bc'], b'bc', [None, b''])
    >>> values[2:].joined()
    (b'\x00bc\x00', array([0, 1, 4]))
    """

    __slots__ = ("absent", "bounds", "text")

    def __init__(self, text: Bytes, bounds: Ints, absent: Bytes) -> None:
        """`bounds`, (n + 1,): where each value begins in `text`, a separator behind each; `absent`, (n,)."""
        self.text = text
        self.bounds = bounds
        self.absent = absent

    def __len__(self) -> int:
        return len(self.absent)

    @overload
    def __getitem__(self, which: int) -> bytes | None: ...

    @overload
    def __getitem__(self, which: slice) -> JoinedValues: ...

    def __getitem__(self, which: int | slice) -> bytes | JoinedValues | None:
        if isinstance(which, slice):
            start, stop, step = which.indices(len(self))
            if step != 1:
                raise ValueError(f"step {step}: expected values that lie together")
            return JoinedValues(self.text, self.bounds[start : max(start, stop) + 1], self.absent[start:stop])
        if not -len(self) <= which < len(self):
            raise IndexError(which)
        which %= len(self)
        if self.absent[which]:
            return None
        return self.text[self.bounds[which] : self.bounds[which + 1] - 1].tobytes()

    def __iter__(self) -> Iterator[bytes | None]:
        text, bounds, absent = self.text.data, self.bounds.tolist(), self.absent.tolist()
        for place, missing in enumerate(absent):
            yield None if missing else bytes(text[bounds[place] : bounds[place + 1] - 1])

    def joined(self) -> tuple[bytes, Ints]:
        """All of them with a separator behind each, and where each begins; absent ones are empty."""
        return self.text[self.bounds[0] : self.bounds[-1]].tobytes(), self.bounds - self.bounds[0]
