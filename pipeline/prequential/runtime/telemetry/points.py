"""Prometheus' text of a process as OpenTelemetry's metrics: one list of metrics for both.

A counter becomes a monotonic sum, a gauge a gauge, and a histogram a histogram with the same bounds. Names
and labels stay. A summary, which has no quantiles here, becomes a gauge of its count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prequential.web.http import COUNTER, HISTOGRAM

#: A label with its value as it is escaped.
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')

#: An escaped character of a label's value.
_ESCAPED = re.compile(r"\\(.)")
_CHARACTERS = {"n": "\n"}

#: Label of a histogram's upper bound.
_BOUND = "le"

#: Prometheus' histograms don't have the smallest and largest value.
_UNKNOWN: Any = None

_CUMULATIVE = AggregationTemporality.CUMULATIVE


class Sample(NamedTuple):
    """A line of Prometheus' text: its name, its labels, and its value."""

    name: str
    labels: dict[str, str]
    value: int | float


class SampleFamily(NamedTuple):
    """The samples of a metric with its kind and its help."""

    name: str
    kind: str
    help: str
    samples: list[Sample]


def families_of(text: str) -> Iterator[SampleFamily]:
    r"""Yield the metrics of a process's text, as `web.http.Family` writes it.

    >>> text = '# HELP a_total Help\n# TYPE a_total counter\na_total{s="x\\"y"} 3\n'
    >>> next(families_of(text)).samples
    [Sample(name='a_total', labels={'s': 'x"y'}, value=3)]
    """
    name = help = ""
    family: SampleFamily | None = None
    for line in text.split("\n"):
        if line.startswith("# HELP "):
            name, _, help = line[len("# HELP ") :].partition(" ")
        elif line.startswith("# TYPE "):
            if family is not None:
                yield family
            family = SampleFamily(name, line.rpartition(" ")[2], help, [])
        elif line and family is not None:
            family.samples.append(_sample(line))
    if family is not None:
        yield family


def _sample(line: str) -> Sample:
    named, _, shown = line.rpartition(" ")
    name, _, label_text = named.partition("{")
    value = int(shown) if shown.lstrip("-").isdecimal() else float(shown)
    return Sample(name, {match[1]: _plain(match[2]) for match in _LABEL.finditer(label_text)}, value)


def _plain(escaped: str) -> str:
    if "\\" not in escaped:
        return escaped
    return _ESCAPED.sub(lambda match: _CHARACTERS.get(match[1], match[1]), escaped)


def metrics_of(
    text: str, resource: Resource, scope: InstrumentationScope, start: int, now: int
) -> MetricsData:
    """Return the metrics of a process's text; `start` of the process and `now` are in ns since 1970."""
    metrics = [
        metric for family in families_of(text) if family.samples for metric in _metrics(family, start, now)
    ]
    scoped = ScopeMetrics(scope, metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource, [scoped], schema_url="")])


def _metrics(family: SampleFamily, start: int, now: int) -> Iterator[Metric]:
    if family.kind == HISTOGRAM:
        points = list(_histogram_points(family, start, now))
        yield Metric(family.name, family.help, "", Histogram(points, _CUMULATIVE))
        return
    by_name: dict[str, list[NumberDataPoint]] = {}
    for sample in family.samples:
        point = NumberDataPoint(sample.labels, start, now, sample.value)
        by_name.setdefault(sample.name, []).append(point)
    for name, points_of_name in by_name.items():
        data = (
            Sum(points_of_name, _CUMULATIVE, is_monotonic=True)
            if family.kind == COUNTER
            else Gauge(points_of_name)
        )
        yield Metric(name, family.help, "", data)


def _histogram_points(family: SampleFamily, start: int, now: int) -> Iterator[HistogramDataPoint]:
    """Yield a point for each set of labels; only Prometheus' buckets are added up."""
    series: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in family.samples:
        labels = tuple((name, value) for name, value in sample.labels.items() if name != _BOUND)
        series.setdefault(labels, []).append(sample)
    for labels, samples in series.items():
        bounds: list[float] = []
        counts: list[int] = []
        so_far, total, count = 0, 0.0, 0
        for sample in samples:
            if sample.name == f"{family.name}_bucket":
                bounds.append(float(sample.labels[_BOUND]))
                counts.append(int(sample.value) - so_far)
                so_far = int(sample.value)
            elif sample.name == f"{family.name}_sum":
                total = float(sample.value)
            else:
                count = int(sample.value)
        yield HistogramDataPoint(
            dict(labels), start, now, count, total, counts, bounds[:-1], min=_UNKNOWN, max=_UNKNOWN
        )
