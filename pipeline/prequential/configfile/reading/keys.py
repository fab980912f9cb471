"""What each key of the configuration takes, by section: as declared, and names that the engine declares."""

from __future__ import annotations

from typing import Any

from prequential.configfile.reading.together import parse_estimator
from prequential.configuration.settings import kafka
from prequential.configuration.settings.by_key import key_of
from prequential.configuration.settings.http_server import ALL_SERIES, HttpConfig
from prequential.configuration.settings.model import Limits, WorkerConfig
from prequential.configuration.settings.notifications import NotifyConfig
from prequential.configuration.settings.otlp import OtlpConfig
from prequential.configuration.settings.parsing import (
    LARGEST,
    AcceptedValues,
    expected,
    known_name,
    list_of,
    number,
    optional,
    or_all,
)
from prequential.configuration.settings.setting import settings_of
from prequential.configuration.settings.streams import (
    DisparityConfig,
    Objective,
    PeriodAlarmConfig,
    StreamConfig,
)
from prequential.engine.detectors import DETECTORS
from prequential.engine.estimators.naming import canonical
from prequential.engine.measures.registry import MEASURES, NAMES

_ESTIMATOR = AcceptedValues(parse_estimator)
_MEASURE = known_name("measure", MEASURES)

#: A detector's name.
detector = known_name("detector", DETECTORS)

#: By section and key, the values of settings that name what the engine declares.
_OF_ENGINE: dict[type, dict[str, AcceptedValues]] = {
    StreamConfig: {
        "estimators": list_of(_ESTIMATOR, key=canonical),
        "measures": list_of(_MEASURE),
    },
    HttpConfig: {
        "measures": or_all(list_of(_MEASURE, empty=True), NAMES),
        "estimators": optional(or_all(list_of(_ESTIMATOR, key=canonical, empty=True), ALL_SERIES)),
    },
}


def _taken(section: type) -> dict[str, AcceptedValues]:
    """The values of a section's settings, but for those that are sections of their own."""
    values = {name: declared.values for name, declared in settings_of(section).items()}
    values |= _OF_ENGINE.get(section, {})
    return {name: taken for name, taken in values.items() if taken is not None}


_OF_STREAMS = _taken(StreamConfig)

#: The settings of streams without those below `emit`.
STREAM = {name: values for name, values in _OF_STREAMS.items() if not name.startswith("emit_")}
EMIT = {
    name.removeprefix("emit_"): values for name, values in _OF_STREAMS.items() if name.startswith("emit_")
}

#: All keys within a stream's section, also those of sections of their own.
KEYS_OF_STREAM = tuple(dict.fromkeys(key_of(name).partition(".")[0] for name in settings_of(StreamConfig)))

OBJECTIVE = _taken(Objective)
DISPARITY = _taken(DisparityConfig)
PERIOD_ALARMS = _taken(PeriodAlarmConfig)

KAFKA = {name: declared.values for name, declared in kafka.KAFKA.items() if declared.values is not None}
LIMITS = _taken(Limits)
HTTP = _taken(HttpConfig)
WORKER = _taken(WorkerConfig)
NOTIFY = _taken(NotifyConfig)
OTLP = _taken(OtlpConfig)

#: What can be asked of a model.
OBJECTIVE_MEASURES = tuple(name for name, measure in MEASURES.items() if measure.quality)


def bound_of(name: str) -> AcceptedValues:
    """What a bound of one of them may be: what the measure itself may."""
    low, high = max(-LARGEST, MEASURES[name].low), min(LARGEST, MEASURES[name].high)

    def parse(value: Any) -> float:
        bound: float = number(-LARGEST)(value)
        if not low <= bound <= high:
            raise expected(value, f"a bound from {low:g} to {high:g}, between which {name} lies")
        return bound

    return AcceptedValues(parse)
