"""Cases of the benchmark: what messages say, and the configuration that makes the product evaluate it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from prequential.core.detectors import DETECTORS
from prequential.settings.model import DetectorConfig, StreamConfig

#: The case that peers know, too; others are compared with it.
PLAIN: Final = "plain"


@dataclass(frozen=True)
class Case:
    """One case. Everything that isn't named is as in the plain one."""

    config: StreamConfig = field(default_factory=StreamConfig)
    #: Every prediction says probabilities of all classes.
    probabilities: bool = False
    #: Instances carry segments: how many values each key has.
    segments: Mapping[str, int] = field(default_factory=dict)
    #: Predictions of a model for an instance.
    predictions: int = 1
    #: Labels and predictions are numbers.
    numbers: bool = False
    #: Models, whatever is asked for.
    models: int | None = None


_SEGMENTS = {"region": 5, "device": 3}

#: Length of a period in ms: some seconds of event time then have several, each with as many instances as an
#: hour has at six a second. (With event time as slow as that, messages of each second would be all there is.)
_PERIOD = 2_000

#: Ten: one of each but `harm`, which needs an objective, and the default ratio.
_DETECTORS = (
    *(DetectorConfig(name) for name in DETECTORS if name != "harm"),
    DetectorConfig("page-hinkley", "fading:0.997/fading:0.9994", {"delta": 0.1, "lambda": 100.0}),
)

CASES: Final[Mapping[str, Case]] = {
    PLAIN: Case(),
    "y_proba": Case(probabilities=True),
    "segments": Case(StreamConfig(segments=tuple(_SEGMENTS)), segments=_SEGMENTS),
    "several": Case(StreamConfig(stages=("initial", "final", "bins"), bins=3), predictions=3),
    "period": Case(StreamConfig(period=_PERIOD)),
    "regression": Case(StreamConfig(task="regression"), numbers=True),
    "uncompared": Case(StreamConfig(compare="off"), models=5),
    "comparisons": Case(models=5),
    "undetected": Case(StreamConfig(detectors=())),
    "detectors": Case(StreamConfig(detectors=_DETECTORS)),
}
