"""What is pushed is what a scrape shows: names, labels and values, read back by Prometheus' own parser."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prequential.runtime.telemetry.points import metrics_of
from prequential.web.http import COUNTER, GAUGE, HISTOGRAM, SUMMARY, Family, labels
from prometheus_client.parser import text_string_to_metric_families
from pushed import samples_of_request


def pushed(text: str) -> dict[Any, float]:
    metrics = metrics_of(text, Resource({}), InstrumentationScope("test"), 1, 2)
    return samples_of_request(encode_metrics(metrics))


def scraped(text: str) -> dict[Any, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text) for sample in family.samples
    }  # fmt: skip


VALUES = st.one_of(st.integers(0, 2**53), st.floats(allow_nan=False, width=64), st.just(math.inf))
NAMES = st.text(max_size=8)


@given(st.dictionaries(NAMES, VALUES, max_size=5), st.lists(st.integers(0, 9), min_size=4, max_size=4), NAMES)
def test_each_kind_with_any_label(values: dict[str, float], counts: list[int], group: str) -> None:
    common = labels(group=group)
    gauge, counter = Family("p_g", GAUGE, "Help", common), Family("p_c_total", COUNTER, "Help", common)
    histogram, summary = Family("p_h", HISTOGRAM, "Help", common), Family("p_s", SUMMARY, "", common)
    for name, value in values.items():
        gauge.add(labels(stream=name), value)
        counter.add(labels(class_=name, other='x"y\\'), abs(value))
        histogram.add_buckets(labels(stream=name), (0.5, 1.0, 2.5), counts, 7.5)
        summary.add_count(labels(stream=name), counts[0])
    text = "".join(family.text() for family in (gauge, counter, histogram, summary))
    assert pushed(text) == scraped(text)


def test_a_family_without_samples_is_left_out() -> None:
    assert pushed(Family("p_g", GAUGE, "Help").text()) == {}
