"""Cases of the benchmark: what messages say, and the configuration that makes the product evaluate it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from prequential.configuration.settings.streams import DETAILS, StreamConfig

#: The easy case; those that the product alone can evaluate are compared with it.
PLAIN: Final = "plain"

#: Ids and spaces as applications have them, and many predictions that wait for an hour.
UUID: Final = "uuid"

#: Records as applications write them: as above, with probabilities and two segments in each prediction.
SCORED: Final = "scored"

#: Records at their own pace, in real time.
QUIET: Final = "quiet"

#: The easy case with many records in each message: JSON arrays, and Arrow streams.
BATCHES: Final = "batches"
ARROW: Final = "arrow"


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
    #: Instances in a second of event time, over all streams.
    rate: float = 10_000.0
    #: Labels come so many ms after their instance: at the earliest, on average, at the latest.
    label_ms: tuple[float, float, float] = (300.0, 1_000.0, 5_000.0)
    #: Ids are UUIDs, and JSON has spaces as `json.dumps` writes them.
    as_dumped: bool = False
    #: Records of a topic and stream in one message, which is sent when its last record is there; and whether
    #: it is Arrow instead of JSON.
    batch: int = 1
    arrow: bool = False
    #: Peers can evaluate it, too: classes, one prediction of a model for an instance. They read all fields
    #: and publish what they publish of plain records.
    peers: bool = False


_SEGMENTS = {"region": 5, "device": 3}

#: Length of a period in ms: some seconds of event time then have several, each with as many instances as an
#: hour has at six a second. (With event time as slow as that, messages of each second would be all there is.)
_PERIOD = 2_000

#: Records of a message with several.
_BATCH = 1_000

#: With labels an hour late and two models a million predictions wait.
_WAITING_RATE = 1_000_000 / 2 / 3_600

#: The details of classes: all but those of numbers.
_DETAILS = tuple(name for name in DETAILS if name not in ("residuals", "hits"))

_UUID = Case(
    rate=_WAITING_RATE, label_ms=(3_600_000.0, 3_610_000.0, 3_660_000.0), as_dumped=True, peers=True
)

CASES: Final[Mapping[str, Case]] = {
    PLAIN: Case(peers=True),
    UUID: _UUID,
    SCORED: replace(_UUID, probabilities=True, segments=_SEGMENTS),
    QUIET: Case(rate=1_000.0, peers=True),
    "y_proba": Case(probabilities=True),
    "details": Case(
        StreamConfig(details=_DETAILS, positive_class="1", emit_every=1_000), probabilities=True
    ),
    "segments": Case(StreamConfig(segments=tuple(_SEGMENTS)), segments=_SEGMENTS),
    "several": Case(StreamConfig(stages=("initial", "final", "bins"), bins=3), predictions=3),
    "period": Case(StreamConfig(period=_PERIOD)),
    "regression": Case(StreamConfig(task="regression"), numbers=True),
    BATCHES: Case(batch=_BATCH, peers=True),
    ARROW: Case(batch=_BATCH, arrow=True, peers=True),
    "uncompared": Case(StreamConfig(compare="off"), models=5),
}

#: Those of the peers.
PEERS: Final = tuple(name for name, case in CASES.items() if case.peers)
