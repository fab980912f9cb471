"""The latest messages of streams in all partitions, for `/metrics`."""

from __future__ import annotations

from typing import Any

import msgspec
from prequential.engine.merging.names import PartNames
from prequential.topics.errors import Fault
from prequential.topics.outputs import Encoded, Metrics, decoded
from prequential.topics.specs import METRICS

#: Key of a sequence: stream, model, segment, stage and estimator.
_Key = tuple[str, str, str | None, str, str]


class LatestMessages:
    """The latest messages of streams in all partitions. One thread adds them, others may read them."""

    def __init__(self) -> None:
        self.metrics: dict[_Key, Metrics] = {}
        #: By stream and model, the start of the newest whole period with expected values, and these values.
        self.expected: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
        #: By stream and model, the expected values of pending predictions.
        self.waiting: dict[tuple[str, str], dict[str, Any]] = {}

    def keep(self, stream: str, names: PartNames) -> None:
        """Forget models and segments of a stream that no longer have messages."""
        for key in [one for one in self.metrics if one[0] == stream and not names.has(*one[1:3])]:
            del self.metrics[key]
        for known in (self.expected, self.waiting):
            for model in [one for one in known if one[0] == stream and not names.has(one[1], None)]:
                del known[model]

    def note(self, output: Encoded) -> None:
        """Store a message if it is a metrics message."""
        if output.topic != METRICS:
            return
        said = decoded(output)
        if not isinstance(said, Metrics):
            raise Fault(f"a message of topic {METRICS!r} has another type: {type(said).__name__}")
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
