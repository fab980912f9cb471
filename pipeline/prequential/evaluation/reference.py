"""The reference of an evaluation: its own first outcomes, or another evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
from prequential.configuration.reading.reader import combined
from prequential.configuration.settings.durations import duration
from prequential.configuration.settings.model import Config, ConfigError, Objective, StreamConfig
from prequential.engine.details.details import WeightedShare
from prequential.engine.details.references import difference, short
from prequential.evaluation.result import Result
from prequential.topics.errors import UsageError, existing
from prequential.topics.outputs import Metrics
from prequential.topics.reasons import listed

#: The detail from which differences between evaluations are computed.
_NEEDED = "intervals"


def is_extent(reference: Any) -> bool:
    """Return whether a reference is a number of outcomes or a duration, rather than a table or path.

    >>> is_extent(1000), is_extent("30d"), is_extent("month.csv")
    (True, True, False)
    """
    if isinstance(reference, str):
        try:
            return duration(reference) >= 0
        except ValueError:
            return False
    return isinstance(reference, (int, float, timedelta, np.timedelta64))


def with_extent(config: Config, reference: Any) -> Config:
    """Return the configuration with a number of first outcomes, or a duration, as every stream's reference.

    Raises ConfigError if the reference is invalid.
    """
    given = combined(None, {"objective": {"reference": reference}}).defaults.objective
    read = existing(given, "the objective that was given")

    def changed(some: StreamConfig) -> StreamConfig:
        if some.task == "regression":
            return some
        return replace(some, objective=replace(some.objective or Objective({}), reference=read.reference))

    return _of_all(config, changed)


def with_intervals(config: Config) -> Config:
    """Return the configuration with intervals in messages, from which differences are computed."""
    return _of_all(config, lambda some: replace(some, details=tuple(dict.fromkeys((*some.details, _NEEDED)))))


def _of_all(config: Config, changed: Callable[[StreamConfig], StreamConfig]) -> Config:
    if all(one.task == "regression" for one in (config.defaults, *config.streams.values())):
        raise ConfigError(
            "reference: intervals exist for shares of classes only, but labels of task regression are numbers"
        )
    streams = {name: changed(some) for name, some in config.streams.items()}
    return replace(config, defaults=changed(config.defaults), streams=streams)


def check_result(reference: Result) -> None:
    """Raise UsageError if another evaluation has no intervals."""
    if not any(one.intervals for one in _newest(reference.all_messages).values()):
        raise UsageError(
            "the reference was evaluated without intervals, which the intervals of differences need: "
            "expected a result with details=['intervals'], or the table"
        )


def stand_beside(result: Result, reference: Result) -> None:
    """Add to the result's summary how its sequences differ from those of another evaluation.

    The two evaluations are assumed to have no outcome in common. Each sequence is compared with the sequence
    of the same stream, model and stage: with its estimator `all`, or its first one. Raises UsageError if the
    evaluations share no sequence.
    """
    now, then = _newest(result.messages), _newest(reference.all_messages)
    found = False
    for one in result.summary.sequences:
        for estimator in one.measures:
            key = _key(one)
            other = next((then[of] for name in ("all", *one.measures) if (of := (*key, name)) in then), None)
            present = now.get((*key, estimator))
            if other is None or present is None:
                continue
            known = {} if one.reference is msgspec.UNSET else one.reference
            one.reference = {**known, estimator: _beside(present, other)}
            found = True
    if not found:
        names = sorted({" ".join(map(str, key[:3])) for key in then})
        raise UsageError(
            f"the reference has no sequence of the same stream, model and stage: it has {listed(names)}"
        )


def _key(one: Any) -> tuple[str, str, str]:
    return one.stream, one.model, one.stage


def _newest(messages: Any) -> Mapping[tuple[str, str, str, str], Metrics]:
    """Return the newest message of each sequence and estimator, without segments and periods."""
    of_streams = (one for one in messages if isinstance(one, Metrics) and one.segment is None)
    return {(*_key(one), one.estimator): one for one in of_streams if one.period is msgspec.UNSET}


def _beside(present: Metrics, other: Metrics) -> dict[str, Any]:
    now, then = present.intervals or {}, other.intervals or {}
    measures = {}
    for name in then:
        if name in now and name in present.measures and name in other.measures:
            shares = [
                WeightedShare(one.measures[name], 0.0, ends[name])
                for one, ends in ((present, now), (other, then))
            ]
            low, high = difference(*shares)
            measures[name] = {
                "value": short(shares[1].value), "difference": short(shares[0].value - shares[1].value),
                "interval": (short(low), short(high)),
            }  # fmt: skip
    return {"outcomes": other.outcomes, "measures": measures}
