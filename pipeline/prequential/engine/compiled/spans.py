"""Texts that lie in one array of bytes, as a sequence whose objects are made only when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Ints


class Spans(Sequence[bytes]):
    """Texts of one array of bytes, (n,): where each begins, and where it ends. They may share bytes.

    >>> spans = Spans.from_texts([b"ab", b"", b"c"])
    >>> spans[2], list(spans[:2]), len(spans)
    (b'c', [b'ab', b''], 3)
    >>> list(Spans.joined([spans[2:], spans[:1]]))
    [b'c', b'ab']
    """

    def __init__(self, text: Bytes, begins: Ints, ends: Ints) -> None:
        self.text, self.begins, self.ends = text, begins, ends

    @classmethod
    def from_texts(cls, texts: Sequence[bytes]) -> Spans:
        """Return these texts, copied behind each other."""
        return cls.from_ends(
            np.frombuffer(b"".join(texts), dtype=np.uint8),
            np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts))),
        )

    @classmethod
    def from_ends(cls, text: Bytes, ends: Ints) -> Spans:
        """Return texts that lie behind each other, the first one at the beginning."""
        begins = np.zeros(len(ends), dtype=np.int64)
        begins[1:] = ends[:-1]
        return cls(text, begins, ends)

    @classmethod
    def joined(cls, parts: Sequence[Spans]) -> Spans:
        """Return all texts of these parts, in their order; their bytes are copied."""
        texts, begins, ends, size = [], [], [], 0
        for part in parts:
            first, stop = (int(part.begins.min()), int(part.ends.max())) if len(part) else (0, 0)
            texts.append(part.text[first:stop])
            begins.append(part.begins + (size - first))
            ends.append(part.ends + (size - first))
            size += stop - first
        return cls(np.concatenate(texts), np.concatenate(begins), np.concatenate(ends))

    @property
    def sizes(self) -> Ints:
        """Return the number of bytes of each text, (texts,) int64."""
        sizes: Ints = self.ends - self.begins
        return sizes

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Spans: ...

    def __getitem__(self, index: int | slice) -> bytes | Spans:
        if isinstance(index, slice):
            return Spans(self.text, self.begins[index], self.ends[index])
        return self.text[self.begins[index] : self.ends[index]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        view = self.text.data
        for begin, end in zip(self.begins.tolist(), self.ends.tolist()):
            yield bytes(view[begin:end])
