"""What a workload needs: workers, partitions, memory, Kafka's bytes, time to recover, series.

Sums of measured costs (`prequential.sizing.costs`), nothing else: no clock, no Kafka. A *record* is one of
any of the three input topics; an *instance* is one of `instances`, with a prediction of each model and,
mostly, a label.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from prequential.core.detectors.objectives import every_detector
from prequential.core.estimators.naming import parse_estimator
from prequential.core.measures.registry import MEASURES, OF_PROBABILITIES
from prequential.settings.model import (
    SNAPSHOT_RARELY,
    SNAPSHOT_SHARE,
    SNAPSHOT_WORTH,
    UNSEEN_COMMITS,
    Config,
    StreamConfig,
)
from prequential.settings.stages import reported, told
from prequential.sizing.costs import MEASURED, Costs

_SECOND = 1_000  # ms
_MB = 1e6


@dataclass(frozen=True)
class Workload:
    """What comes: streams, models, records a second, how late labels are, how large records are."""

    streams: int
    models: int = 2
    #: Records a second of all streams together, over the three inputs.
    rate: float = 1_000.0
    #: From an instance to its label, on average (ms).
    label_latency: float = 60_000.0
    #: Share of instances whose label comes within the horizon.
    labelled: float = 1.0
    #: How many values each configured key of segments has.
    segment_values: int = 3
    probabilities: bool = False
    #: Bytes of a record on Kafka, compressed as its producer does it.
    record_bytes: float = 60.0
    #: How long it has been going on (ms); None: so long that windows and histories are full.
    after: float | None = None

    @property
    def instances(self) -> float:
        """Instances a second, of all streams together."""
        return self.rate / (1 + self.models + self.labelled)


class Sizing(NamedTuple):
    """What a workload needs; rates are a second's, of the whole installation, before replication."""

    workers: int
    partitions: int
    cores: float  # that are busy, of all workers
    instances: float
    messages: float  # metrics and comparisons
    transactions: float
    state_bytes: float  # of all shards
    worker_bytes: float  # resident memory of each worker
    remembered: float  # instances, of all shards
    input_bytes: float
    output_bytes: float
    journal_bytes: float
    snapshot_bytes: float
    written_bytes: float  # all of these, with replicas
    read_bytes: float  # by workers and by one reader of outputs
    disk_bytes: float  # by retention, with replicas
    #: From a worker's death until all its shards run elsewhere: what one of them has missed is taken while
    #: the next one is restored. And until they are where they would have been.
    recovery_seconds: float
    caught_up_seconds: float
    series: float
    scrape_bytes: float  # of each worker
    stream_limit: float  # records a second of one stream, with which a core is as busy as is wanted


class Shape(NamedTuple):
    """How many of what there is of each stream, by its configuration."""

    models: int  # with baselines and others that are evaluated as if they were models
    values: int  # segments: values of all keys together
    keys: int
    stages: int  # that have messages
    kept: int  # stages with outcomes of their own: `initial` is `final`, as each instance has one prediction
    estimators: int
    window: int  # outcomes in all windows together
    pairs: int
    losses: int
    measures: int  # of `http.measures` that have a value


def shape(workload: Workload, config: Config) -> Shape:
    """Count.

    >>> shape(Workload(10, models=3), Config())[:8]
    (3, 0, 0, 1, 1, 3, 1000, 3)
    """
    defaults = config.defaults
    estimators = [parse_estimator(name) for name in defaults.estimators]
    stages = len(told(reported(defaults.stages, defaults.bins)))
    keys = len(defaults.segments)
    models = workload.models
    more = len([one for one in defaults.baselines if one != "random"]) + models * defaults.temporal_correction
    everyone = min(models * (models - 1) // 2, config.limits.pairs_per_stream)
    pairs = {"all": everyone, "champion": max(0, models - 1), "off": 0}[defaults.compare]
    return Shape(
        models + more, keys * workload.segment_values, keys, stages,
        max(1, len(told(defaults.evaluated_stages))), len(estimators),
        sum(one.memory.kept(one.parameter) for one in estimators), pairs, len(defaults.compare_losses),
        _shown(workload, config),
    )  # fmt: skip


def _shown(workload: Workload, config: Config) -> int:
    """How many of `http.measures` have a value."""
    shown = 0
    for name in config.http.measures:
        if name not in config.defaults.measures:
            continue
        if MEASURES[name].task == config.defaults.task:
            shown += workload.probabilities or name not in OF_PROBABILITIES
    return shown


def due(outcomes: float, every: int | None, count: int | None) -> float:
    """How often a second messages about somebody are due who has so many outcomes a second, by chance.

    By time: in each `every` (ms) with an outcome. By count: after each `count` outcomes. None: not by it.

    >>> [round(due(outcomes, 10_000, 1_000), 3) for outcomes in (0.01, 1.0, 10_000.0)]
    [0.01, 0.101, 10.1]
    """
    rate = 0.0
    if every is not None:
        seconds = every / _SECOND
        rate += -math.expm1(-outcomes * seconds) / seconds
    if count is not None:
        rate += outcomes / count
    return rate


def messages(workload: Workload, config: Config) -> tuple[float, float]:
    """Metrics and comparison messages a second."""
    defaults, counted = config.defaults, shape(workload, config)
    outcomes = workload.instances * workload.labelled / workload.streams  # a second, of a model of a stream

    def moments(every: int | None) -> float:
        rate = due(outcomes, every, defaults.emit_outcomes)
        if counted.keys:
            share = outcomes * counted.keys / counted.values
            rate += counted.values * due(share, every, defaults.emit_outcomes)
        return workload.streams * counted.stages * counted.estimators * rate

    return (
        moments(defaults.emit_every) * counted.models,
        moments(defaults.emit_comparisons) * counted.pairs * counted.losses,
    )


def remembered(workload: Workload, config: StreamConfig) -> float:
    """Instances that are waiting, settled, or expired and not yet forgotten.

    With a label an instance waits for it, and is remembered for `settle` then; without one it is remembered
    for two horizons.
    """
    most = math.inf if workload.after is None else workload.after
    latency = min(workload.label_latency, config.label_horizon)
    with_label = min(most, latency + config.settle)
    without = min(most, 2.0 * config.label_horizon)
    kept = workload.labelled * with_label + (1 - workload.labelled) * without
    return workload.instances * kept / _SECOND


#: Share of its blocks that a history has soon, as pairs of them become one when they are full.
_FILLING: Final = 0.18


def state(workload: Workload, config: Config, costs: Costs = MEASURED) -> float:
    """Bytes of state, of all shards: what a snapshot holds before it is compressed."""
    defaults, counted = config.defaults, shape(workload, config)
    seen = math.inf
    if workload.after is not None:
        waited = max(0.0, workload.after - workload.label_latency)
        seen = workload.instances / workload.streams * workload.labelled * waited / _SECOND
    blocks = _FILLING * costs.most_blocks + seen / costs.block_outcomes
    history = costs.block_bytes * min(costs.most_blocks, max(costs.first_blocks, blocks))
    segments = costs.segment_history_share * counted.values
    by_outcome = costs.window_bytes + costs.window_probability_bytes * workload.probabilities
    sequence = costs.sequence_bytes + counted.window * by_outcome
    # Those that nothing is said of have rows, too.
    sequences = counted.models * max(1, len(defaults.evaluated_stages))
    plain = counted.pairs * (1 + counted.values) * len(defaults.evaluated_stages)
    others = len([loss for loss in defaults.compare_losses if loss != "error"])
    by_loss = costs.pair_window_bytes + costs.pair_loss_bytes * others
    pair = costs.pair_bytes + counted.window * by_loss
    stream = (
        costs.stream_bytes
        + sequences * ((1 + counted.values) * sequence + history * (1 + segments))
        + plain * pair
    )
    instance = (
        costs.instance_bytes
        + workload.models * costs.prediction_bytes
        + costs.segment_key_bytes * counted.keys
    )
    return workload.streams * stream + remembered(workload, defaults) * instance


def exposition(
    workload: Workload, config: Config, costs: Costs, partitions: int, workers: int
) -> tuple[float, float]:
    """Samples at all `/metrics` together, and the bytes of their lines."""
    counted, http = shape(workload, config), config.http
    defaults = config.defaults
    estimators = [one for one in defaults.estimators if http.shows_estimator(one, defaults)]
    kept = [one for one in told(defaults.evaluated_stages) if http.shows_stage(one, defaults)]
    said = told(reported(defaults.stages, defaults.bins))
    stages = len([one for one in said if http.shows_stage(one, defaults)])
    signals = len({(one.detector, one.signal) for one in every_detector(config.defaults)})
    of_subject = stages * len(estimators) * counted.measures + len(kept) * signals
    of_model = costs.model_series + len(kept) * costs.stage_series
    of_stream, of_estimator = costs.stream_series, costs.pair_estimator_series
    if "maturity" in http.series:
        of_model += costs.maturity_series
    if "selection" in http.series:
        of_model += costs.selection_series
    if "latency_buckets" in http.series:
        of_stream += costs.latency_series
    if "tests" in http.series:
        of_estimator += costs.tests_series
    of_pair = float(len(kept) * counted.losses)
    of_pair *= costs.pair_series + of_estimator * len(estimators)
    plain = of_stream + counted.models * (of_model + of_subject)
    values = counted.values * http.segments
    in_segments = counted.models * values * of_subject
    pairs = counted.pairs * (1 + values) * of_pair
    samples = workload.streams * (plain + in_segments + pairs)
    size_of = workload.streams * (
        plain * costs.line_bytes + in_segments * costs.segment_line_bytes + pairs * costs.pair_line_bytes
    )
    of_workers = partitions * costs.shard_series + workers * costs.worker_series
    return samples + of_workers, size_of + of_workers * costs.line_bytes


#: Partitions for each worker: growing them stops all workers, so there is room for four times as many.
_PARTITIONS_EACH, _LEAST_PARTITIONS = 4, 4

#: Commits of a busy shard are so much farther apart than `worker.commit_every` (s), as each takes its time.
_BETWEEN_COMMITS: Final = 0.05

#: Megabytes of snapshots that a worker writes a second, and those of a transaction (eight chunks of 900 kB):
#: see `prequential.worker.checkpoint`.
_SNAPSHOT_MB_PER_SECOND, _CHUNKS_MB = 40.0, 7.2


def size(
    workload: Workload,
    config: Config,
    *,
    busy: float = 0.6,
    partitions: int | None = None,
    workers: int | None = None,
    speed: float = 1.0,
    costs: Costs = MEASURED,
) -> Sizing:
    """What a workload needs, if a worker's core is to be busy for a share `busy` of the time at most.

    `speed`: how much faster a core is than the one that `costs` were measured on. `partitions` and `workers`:
    those that are there.

    Workers cost something themselves, and so do partitions, whose number depends on them: workers are added
    until they suffice.
    """
    count = workers or 1
    while True:
        shards = partitions or max(_LEAST_PARTITIONS, _PARTITIONS_EACH * count)
        sizing = _with(workload, config, costs, busy, speed, count, shards)
        if workers is not None or sizing.cores <= busy * count * _evenly(shards, count):
            return sizing
        if partitions is not None and count >= partitions:
            return sizing  # more than there are partitions have nothing to do
        count = max(count + 1, math.ceil(sizing.cores / busy) if sizing.cores / busy > 2 * count else 0)


def _evenly(partitions: int, workers: int) -> float:
    """The share of what all workers could do when the one with the most shards is as busy as it may be."""
    return partitions / workers / math.ceil(partitions / workers)


def _with(
    workload: Workload, config: Config, costs: Costs, busy: float, speed: float, workers: int, partitions: int
) -> Sizing:
    defaults, counted = config.defaults, shape(workload, config)
    metrics, comparisons = messages(workload, config)
    active = partitions * (1 - (1 - 1 / partitions) ** workload.streams)  # that have a stream
    pause = config.worker.commit_every / _SECOND + _BETWEEN_COMMITS
    rounds = -math.expm1(-workload.rate / active * pause) / pause
    with_outputs = min(rounds, _moments(workload, config, active))
    bytes_of_state = state(workload, config, costs)
    each = bytes_of_state / active / _MB
    of_worker = max(1.0, active / workers) * each / _SNAPSHOT_MB_PER_SECOND  # s, of all its shards
    outcomes = workload.instances * workload.labelled * counted.models * counted.kept * (1 + counted.keys)
    following = workload.rate * costs.record_seconds + outcomes * costs.outcome_seconds
    touched = costs.touched_seconds * _touched(workload, active, active * rounds) * (
        counted.models * counted.kept * (1 + counted.keys)
    )
    processing = (
        following + touched + metrics * costs.metrics_seconds + comparisons * costs.comparison_seconds
    ) / speed / active  # s a second, of a shard
    every = config.worker.snapshot_every / _SECOND
    worth = max(every, min(SNAPSHOT_RARELY * every, SNAPSHOT_WORTH / max(processing, 1e-9)))
    interval = max(worth, of_worker / SNAPSHOT_SHARE)
    snapshots = min(rounds, 1 / interval)
    parts = each / _CHUNKS_MB + 1  # transactions of a snapshot, with the manifest's
    unseen = min(rounds, _unseen(with_outputs, config.worker.commit_every / _SECOND))
    transactions = active * (unseen + 2 * with_outputs + snapshots * parts)
    snapshot_mb = active * snapshots * each

    cores = (
        workers * costs.worker_seconds
        + partitions * costs.shard_seconds
        + active * rounds * costs.round_seconds
        + transactions * costs.transaction_seconds
        + following
        + touched
        + metrics * costs.metrics_seconds
        + comparisons * costs.comparison_seconds
        + snapshot_mb * costs.snapshot_seconds_per_mb
    ) / speed

    inputs = workload.rate * workload.record_bytes
    outputs = (
        metrics * costs.metrics_bytes
        + comparisons * costs.comparison_bytes
        + active * with_outputs * 2 * costs.transaction_bytes
    )
    journal = active * (unseen + 2 * with_outputs) * costs.journal_bytes
    snapshot = snapshot_mb * _MB * costs.snapshot_share
    written = (inputs + outputs + journal + snapshot) * config.kafka.replication
    kept = _DAYS * 86_400
    disk = kept * (inputs + outputs + journal) + _SLOTS * bytes_of_state * costs.snapshot_share
    samples, bytes_of_lines = exposition(workload, config, costs, partitions, workers)
    resident = (
        costs.resident_share * bytes_of_state
        + workload.streams * costs.stream_object_bytes
        + (metrics + comparisons) * costs.message_object_bytes
    )
    most = math.ceil(partitions / workers)
    away, share = config.worker.session_timeout / _SECOND, cores / workers
    # Of what came since the last snapshot, on average half of the time between two, nothing is put out again.
    restoring = most * costs.restore_seconds_per_shard + (
        most * each * costs.restore_seconds_per_mb + interval / 2 * following / workers
    ) / speed
    return Sizing(
        workers, partitions, cores, workload.instances, metrics + comparisons, transactions, bytes_of_state,
        costs.worker_bytes + resident / workers, remembered(workload, defaults), inputs, outputs, journal,
        snapshot, written, inputs + outputs, disk * config.kafka.replication, away + restoring + share * away,
        (away + restoring) / max(1e-3, 1 - share), samples, bytes_of_lines / workers,
        _one_stream(workload, config, costs, busy, speed),
    )  # fmt: skip


#: Days that inputs, outputs and journal are kept, as topics are created (`prequential.topics.specs`).
_DAYS: Final = 14

#: Generations of snapshots on disk: two, and one that isn't compacted yet.
_SLOTS: Final = 3


def _touched(workload: Workload, active: float, rounds: float) -> float:
    """How often a second a stream has outcomes in a round, of which there are so many a second, by chance."""
    streams = workload.streams / active  # of a shard
    labels = workload.instances * workload.labelled / rounds if rounds else 0.0
    return -rounds * streams * math.expm1(-labels / streams)


def _moments(workload: Workload, config: Config, active: float) -> float:
    """How often a second a shard has something to say: what time makes due, is due for all its streams."""
    defaults = config.defaults
    times = [time for time in (defaults.emit_every, defaults.emit_comparisons) if time is not None]
    outcomes = workload.instances * workload.labelled / active
    return due(outcomes, min(times, default=None), defaults.emit_outcomes)


def _unseen(with_outputs: float, commit_every: float) -> float:
    """How often a second a shard settles an order without outputs, which come so often by chance.

    >>> _unseen(0.0, 0.5), round(_unseen(0.2, 0.5), 3), round(_unseen(2.0, 0.5), 6)
    (0.5, 0.407, 0.037315)
    """
    longest = UNSEEN_COMMITS * commit_every
    return with_outputs / math.expm1(with_outputs * longest) if with_outputs * longest > 1e-9 else 1 / longest


def _one_stream(workload: Workload, config: Config, costs: Costs, busy: float, speed: float) -> float:
    """Records a second of a stream that has a worker of its own, at which that is as busy as is wanted."""
    counted = shape(workload, config)
    an_instance = 1 + workload.models + workload.labelled
    outcomes = workload.labelled * counted.models * counted.kept * (1 + counted.keys)
    record = costs.record_seconds + outcomes * costs.outcome_seconds / an_instance
    return max(0.0, busy * speed - costs.worker_seconds) / record
