"""Streams that lie in all partitions as Prometheus metrics: without the label `partition`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prequential.http.exposition import COUNTER, GAUGE, Family, labels
from prequential.settings.model import Config

if TYPE_CHECKING:
    from prequential.worker.merging import Merging

FAMILIES = (
    (
        "merged_timestamp_seconds", GAUGE,
        "Record time up to which what partitions know of a stream is merged, as Unix time",
    ),
    (
        "unmerged_moments_total", COUNTER,
        "Moments of which nothing was said, as partitions had different settings",
    ),
)  # fmt: skip


def add(families: dict[str, Family], merging: Merging, config: Config) -> None:
    """What is merged here: by the measures and stages that are shown, and each estimator that adds up."""
    http = config.http
    for name, moment in merging.moments().items():
        families["merged_timestamp_seconds"].add(labels(stream=name), moment / 1000)
    families["unmerged_moments_total"].add("", merging.passed_over)
    for said in merging.latest():
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
