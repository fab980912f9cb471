"""Set how often a replay of files emits messages: often enough for a curve, whatever the time span."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, count

from prequential.configuration.settings.durations import duration
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.topics.errors import existing

#: The most messages of one sequence and estimator in a replay of files: more points than a screen has
#: columns.
POINTS = 1_000

#: The least number of these messages that are due by time, however many are due by `emit.outcomes`.
_LEAST_POINTS = POINTS // 2

#: The least number of messages within a period, and within the label horizon. The intervals of expected
#: measures use the messages about earlier periods at the same age.
_LOOKS_IN_PERIOD, _LOOKS_IN_HORIZON = 24, 28

#: Round times, from a worker's default on; above the last one, its multiples by 1, 2 and 5 times powers of
#: ten.
_STEPS = tuple(
    map(
        duration,
        (
            "1s", "2s", "5s", "10s", "15s", "30s", "1m", "2m", "5m", "10m", "15m", "30m", "1h", "2h", "3h",
            "6h", "12h", "1d", "2d", "1w",
        ),
    )
)  # fmt: skip


def every_for(span: int, points: int) -> int:
    """Return the shortest round time (ms) with at most `points` multiples in `span` ms.

    >>> every_for(0, 1000), every_for(7 * 86_400_000, 1000), every_for(1_000_000, 1000)
    (1000, 900000, 2000)
    >>> every_for(1000 * 365 * 86_400_000, 1000) // 604_800_000
    100
    """
    larger: Iterator[int] = (_STEPS[-1] * 10**power * factor for power in count() for factor in (1, 2, 5))
    # A multiple may lie at either end.
    return next(step for step in chain(_STEPS, larger) if span // step + 1 <= points)


def most_with_period(stream: StreamConfig) -> int | None:
    """Return the longest `emit.every` (ms) with which expected measures can be graded; None without periods.

    >>> most_with_period(StreamConfig(period=86_400_000, label_horizon=86_400_000))
    3085714
    """
    if stream.period is None:
        return None
    return max(1, min(stream.period // _LOOKS_IN_PERIOD, stream.label_horizon // _LOOKS_IN_HORIZON))


def for_files(config: Config, span: int, labels: int) -> Config:
    """Return the configuration for files with a number of labels over `span` ms of record time.

    If `emit.every` isn't configured, it is set so that each sequence and estimator has at most `POINTS`
    messages. These include the messages due by `emit.outcomes`, and the last one. With periods, `emit.every`
    is at most `most_with_period`. `emit.comparisons` is set the same way, but never below its default.
    """

    def resolved(stream: StreamConfig) -> StreamConfig:
        counted = labels // stream.emit_outcomes if stream.emit_outcomes else 0
        every = every_for(span, max(_LEAST_POINTS, POINTS - 1 - counted))
        usual = StreamConfig.emit_comparisons
        if not stream.emit_comparisons_given and stream.emit_comparisons == usual:
            stream = replace(stream, emit_comparisons=max(every, usual or every))
        if stream.emit_every_given or stream.emit_every != StreamConfig.emit_every:
            return stream
        return replace(stream, emit_every=min(every, most_with_period(stream) or every))

    return _with_streams(config, resolved)


def by_count(config: Config, labels: int) -> Config:
    """Return the configuration for a program that reads a table with so many labels.

    If `emit.outcomes` isn't configured, each sequence and estimator has at most half of `POINTS` messages by
    count. `for_files` leaves the other half to messages by time.

    >>> by_count(Config(), 5_000_000).defaults.emit_outcomes, by_count(Config(), 500).defaults.emit_outcomes
    (10000, 1000)
    """
    usual = existing(StreamConfig.emit_outcomes, "a default")
    steps = (usual * 10**power * factor for power in count() for factor in (1, 2, 5))
    outcomes = next(step for step in steps if labels // step <= POINTS - _LEAST_POINTS)

    def resolved(stream: StreamConfig) -> StreamConfig:
        given = stream.emit_outcomes_given or stream.emit_outcomes != usual
        return stream if given else replace(stream, emit_outcomes=outcomes)

    return _with_streams(config, resolved)


def without_metrics(config: Config) -> Config:
    """Return the configuration with metrics messages turned off; alarms and incidents stay the same."""
    return _with_streams(
        config,
        lambda stream: replace(
            stream, emit_outcomes=None, emit_every=None, emit_comparisons=None, emit_idle=None
        ),
    )


def _with_streams(config: Config, change: Callable[[StreamConfig], StreamConfig]) -> Config:
    streams = {name: change(stream) for name, stream in config.streams.items()}
    return replace(config, defaults=change(config.defaults), streams=streams)
