"""Prometheus metrics of streams that lie in all partitions; they have no label `partition`."""

from __future__ import annotations

from prequential.configuration.settings.model import Config
from prequential.runtime.http.exposition import COUNTER, GAUGE, Family, labels
from prequential.runtime.worker.expecting import add_expected, add_waiting
from prequential.runtime.worker.merging import Merging

FAMILIES = (
    (
        "merged_timestamp_seconds", GAUGE,
        "Record time up to which the partitions of a stream are merged, as Unix time",
    ),
    (
        "unmerged_moments_total", COUNTER,
        "Moments that were not merged because partitions had different configurations",
    ),
)  # fmt: skip


def add(families: dict[str, Family], merging: Merging, config: Config) -> None:
    """Add the samples of merged streams: the shown measures and stages of each additive estimator.

    Also add the estimated performance of their models from the latest messages.
    """
    http = config.http
    for name, moment in merging.moments().items():
        families["merged_timestamp_seconds"].add(labels(stream=name), moment / 1000)
    families["unmerged_moments_total"].add("", merging.passed_over)
    for latest in merging.latest():
        for said in list(latest.metrics.values()):
            if (said.segment and not http.segments) or not http.shows_stage(
                said.stage, config.stream(said.stream), said.same or []
            ):
                continue
            segment = {"segment": said.segment} if said.segment else {}
            where = labels(
                stream=said.stream, model=said.model, **segment, stage=said.stage, estimator=said.estimator
            )
            for measure, value in said.measures.items():
                if measure in http.measures:
                    families[measure].add(where, value)
        for (stream, model), (_, measures) in list(latest.expected.items()):
            add_expected(families, labels(stream=stream, model=model), measures)
        for (stream, model), waits in list(latest.waiting.items()):
            add_waiting(families, labels(stream=stream, model=model), waits)
