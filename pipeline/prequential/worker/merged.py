"""Streams that lie in all partitions as Prometheus metrics: without the label `partition`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from prequential.http.exposition import COUNTER, GAUGE, Family, labels
from prequential.settings.model import Config
from prequential.topics.outputs import Encoded, Metrics, decoded
from prequential.topics.specs import METRICS
from prequential.worker.expecting import add_expected, add_waiting

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


#: Of a sequence: stream, model, segment, stage and estimator.
_Key = tuple[str, str, str | None, str, str]


class Latest:
    """What was said last of streams in all partitions. One thread notes it, others may look."""

    def __init__(self) -> None:
        self.metrics: dict[_Key, Metrics] = {}
        #: By stream and model the start of the newest whole period of which anything is expected, and what.
        self.expected: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
        #: … and what is expected of predictions that wait.
        self.waiting: dict[tuple[str, str], dict[str, Any]] = {}

    def note(self, output: Encoded) -> None:
        """Take a message over, if it is one of metrics."""
        if output.topic != METRICS:
            return
        said = decoded(output)
        assert isinstance(said, Metrics)
        model = said.stream, said.model
        if said.coverage is not msgspec.UNSET:
            waits = said.coverage.get("waiting_expected")
            if waits is None:
                self.waiting.pop(model, None)
            else:
                self.waiting[model] = waits
        if said.period is msgspec.UNSET:
            self.metrics[said.stream, said.model, said.segment, said.stage, said.estimator] = said
        elif said.expected is not msgspec.UNSET and said.expected["maturity"] is not None:
            start = said.period["start"]
            if model not in self.expected or start >= self.expected[model][0]:
                self.expected[model] = start, said.expected["measures"]


def add(families: dict[str, Family], merging: Merging, config: Config) -> None:
    """What is merged here: by the measures and stages that are shown, and each estimator that adds up.

    And what is expected of models, as the last messages say it.
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
