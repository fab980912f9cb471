"""Prometheus' text format, written line by line: a scrape may have a hundred thousand samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prometheus_client.utils import floatToGoString

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

GAUGE, COUNTER, HISTOGRAM, SUMMARY = "gauge", "counter", "histogram", "summary"

#: A float as Prometheus reads it; without types.
_shown: Any = floatToGoString

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def labels(**values: Any) -> str:
    r"""Labels as they stand between braces, with values escaped.

    A name may end in an underscore where Python has it for itself.

    >>> print(labels(stream='a"b', class_="UP"))
    stream="a\"b",class="UP"
    """
    return ",".join(f'{name.rstrip("_")}="{escaped(value)}"' for name, value in values.items())


def escaped(value: Any) -> str:
    """A label's value within its quotes."""
    return str(value).translate(_ESCAPES)


class Family:
    """A metric with its samples; `kind` is `COUNTER`, `GAUGE` or `HISTOGRAM`.

    Every sample has the labels `common`, as `labels` writes them, before its own.

    >>> family = Family("prequential_late_labels_total", COUNTER, "Labels after the horizon", 'group="g"')
    >>> family.add('stream="s"', 3)
    >>> print(family.text(), end="")
    # HELP prequential_late_labels_total Labels after the horizon
    # TYPE prequential_late_labels_total counter
    prequential_late_labels_total{group="g",stream="s"} 3
    """

    def __init__(self, name: str, kind: str, help: str, common: str = "") -> None:
        self.name, self._common = name, common
        self._head = f"# HELP {name} {help}\n# TYPE {name} {kind}\n"
        self._lines: list[str] = []

    def add(self, labels: str, value: float) -> None:
        """Add a sample with labels (as `labels` writes them), or without any ("")."""
        self._line(self.name, labels, value)

    def add_buckets(self, labels: str, bounds: Iterable[float], counts: Iterable[int], total: float) -> None:
        """Add a histogram's samples.

        Parameters
        ----------
        labels
            As in `add`.
        bounds
            Upper bounds of the buckets, ascending, without the infinite one.
        counts
            Values in each bucket, not added up, and one more count of those beyond.
        total
            Sum of all values.
        """
        so_far = 0
        first = labels and f"{labels},"
        for bound, count in zip((*map(str, bounds), "+Inf"), counts):
            so_far += count
            self._line(f"{self.name}_bucket", f'{first}le="{bound}"', so_far)
        self.add_count(labels, so_far)
        self._line(f"{self.name}_sum", labels, total)

    def add_count(self, labels: str, count: int) -> None:
        """Of a histogram, or of a summary without quantiles: how many values there are."""
        self._line(f"{self.name}_count", labels, count)

    def text(self) -> str:
        """The metric in Prometheus's text format: its help, its type, and its samples."""
        return self._head + "".join(self._lines)

    def _line(self, name: str, labels: str, value: float) -> None:
        shown = str(value) if type(value) is int else _shown(value)
        every = f"{self._common},{labels}" if self._common and labels else self._common or labels
        self._lines.append(f"{name}{{{every}}} {shown}\n" if every else f"{name} {shown}\n")
