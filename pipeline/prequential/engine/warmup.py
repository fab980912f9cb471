"""Calls each compiled loop once, so that none is compiled in the middle of a stream.

The warm-up covers the default detectors, memories, periods, measures and losses, and those that the
configuration names. Most streams don't use the others.

numba compiles a loop when it is first called, and keeps the result on disk. A worker that called a loop for
the first time under load would stop for seconds, and its consumer group might revoke its shards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import numpy as np
from prequential.configuration.settings import streams
from prequential.configuration.settings.model import Config, Limits
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.positives import positives_by_owner, positives_of_plan
from prequential.engine.comparisons.disagreement import Disagreements, repeat_encounters
from prequential.engine.comparisons.reporting import pair_statuses
from prequential.engine.compiled.pool import remove_all
from prequential.engine.delay import coverage, following, latency, periods, selection
from prequential.engine.delay.expected import begin
from prequential.engine.delay.expecting import look_together
from prequential.engine.delay.records import FINALS, put_ratios
from prequential.engine.detectors import DETECTORS
from prequential.engine.detectors.objectives import every_detector
from prequential.engine.estimators import MEMORIES
from prequential.engine.estimators.rows import CellNumbers, unrevised
from prequential.engine.incidents import lasting, phases
from prequential.engine.incidents.following import UnreadRows, decision, follow, follow_events
from prequential.engine.input import json_scanner
from prequential.engine.input.merge import Batch
from prequential.engine.input.plain import Parser
from prequential.engine.measures.per_class import NO_OWNER
from prequential.engine.measures.registry import NAMES, OF_NUMBERS, OF_RANKS
from prequential.engine.merging.merger import Merger
from prequential.engine.output.period_ranks import add_coming, put_positives
from prequential.engine.shard import Shard
from prequential.engine.snapshot import read_snapshot
from prequential.engine.snapshot.pending_rows import forget_segment_numbers
from prequential.engine.state import ShardState
from prequential.engine.tables import scores
from prequential.engine.tables.logs import new_alarms
from prequential.engine.tables.outcomes import new_log
from prequential.topics.decoding import Decoded
from prequential.topics.messages import Instance, Label, Prediction, Record
from prequential.topics.outputs import Encoded, Output
from prequential.topics.parts import decode
from prequential.topics.specs import PARTS

#: One estimator for each memory; the windows are small enough to fill up.
_EXAMPLES = {name: memory.example for name, memory in MEMORIES.items()}

#: Features that only some configurations need. `PERIODS`: periods. `MEASURES`: measures or signals beyond the
#: default ones, or costs. `RANKS`: measures or signals of ranks. `DETAILS`: details, objectives or
#: corrections. `LOSSES`: comparisons by other losses than wrong or right. `WIDE`: streams in all partitions.
#: `DISPARITY`: comparisons of segments.
PERIODS, MEASURES, RANKS, DETAILS, LOSSES, WIDE, DISPARITY = (
    "periods", "measures", "ranks", "details", "losses", "wide", "disparity"
)  # fmt: skip

#: Names of all features that only some configurations need.
ALL = frozenset({*DETECTORS, *MEMORIES, PERIODS, MEASURES, RANKS, DETAILS, LOSSES, WIDE, DISPARITY})

#: Length of periods, ms.
_PERIOD = 1_500

#: Settings that evaluate everything except for the features that `needed` selects.
_CLASSES = StreamConfig(
    measures=NAMES,
    costs={"a": {"b": 1.0}},
    cost_per_value=True,
    stages=("initial", "final", "bins", "intermediate", "after:1s"),
    bins=2,
    positive_class="a",
    baselines=streams.BASELINES,
    details=streams.DETAILS,
    objective=streams.Objective({}, reference="2s"),
    temporal_correction=True,
    segments=("arm",),
    disparity=streams.DisparityConfig(("arm",)),
    label_horizon=4_000,
    settle=1_000,
    emit_outcomes=19,
    emit_every=3_000,
    compare_losses=("error", "log_loss"),
    detectors=(
        DetectorConfig(params={"lambda": 0.5, "min_outcomes": 2}),
        DetectorConfig(signal="window:5:auc"),
        DetectorConfig(signal="recall"),
    ),
)
_NUMBERS = replace(
    _CLASSES,
    task="regression",
    measures=OF_NUMBERS,
    positive_class=None,
    objective=None,
    disparity=None,
    quantile=0.9,
    season=900,
    details=("residuals",),
    temporal_correction=False,
    baselines=("persistent",),
    compare_losses=("error", "squared"),
    detectors=(
        DetectorConfig(params={"lambda": 0.5, "min_outcomes": 2}),
        DetectorConfig(signal="window:5/all"),
        DetectorConfig(signal="scaled_error"),
    ),
)


def config_of(needed: Collection[str]) -> Config:
    """The configuration of a small shard with these features of `ALL`; it has only the default detector.

    `RANKS` comes with `MEASURES`, and `DETAILS` with both.
    """
    estimators = tuple(example for name, example in _EXAMPLES.items() if name in needed)
    period = _PERIOD if PERIODS in needed else None
    of_estimators = (
        *(DetectorConfig(signal=f"{estimator}:log_loss") for estimator in estimators),
        *(DetectorConfig(signal=f"{estimator}/all") for estimator in estimators),
    )
    classes = replace(
        _CLASSES, estimators=estimators, period=period, detectors=(*_CLASSES.detectors, *of_estimators)
    )
    numbers = replace(_NUMBERS, estimators=estimators, period=period)
    if DETAILS not in needed:
        classes = replace(classes, details=(), objective=None, temporal_correction=False)
        numbers = replace(numbers, details=())
    if RANKS not in needed:
        unranked = tuple(name for name in classes.measures if name not in OF_RANKS)
        signals = tuple(detector for detector in classes.detectors if not _is_of_ranks(detector.signal))
        classes = replace(classes, measures=unranked, detectors=signals)
    if MEASURES not in needed:
        classes, numbers = (
            replace(
                stream_config, measures=streams.DEFAULT_MEASURES, costs=None, cost_per_value=False,
                quantile=None, season=None, detectors=(stream_config.detectors[0], *of_estimators),
            )
            for stream_config in (classes, numbers)
        )  # fmt: skip
    if DISPARITY not in needed:
        classes = replace(classes, disparity=None)
    if LOSSES not in needed:
        classes, numbers = replace(classes, compare_losses=("error",)), replace(numbers, compare="off")
    return Config(
        defaults=classes,
        streams={
            "numbers": numbers,
            "plain": StreamConfig(),
            "versions": replace(classes, versions="separate"),
        },
        limits=Limits(versions_per_model=1),
    )


_STREAMS = ("classes", "numbers", "plain", "versions")

_INSTANCES = 24
_STEP = 300


def needed_by(config: Config) -> set[str]:
    """The features of `ALL` that shards of a configuration use.

    >>> sorted(needed_by(Config()))
    ['all', 'fading', 'page-hinkley', 'window']
    """
    names: set[str] = set()
    for stream_config in (StreamConfig(), config.defaults, *config.streams.values()):
        detectors = every_detector(stream_config)
        signals = [name for detector in detectors for name in detector.signal.split("/")]
        names.update(detector.detector for detector in detectors)
        names.update(name.partition(":")[0] for name in (*stream_config.estimators, *signals))
        if stream_config.period is not None:
            names.add(PERIODS)
        if stream_config.key == streams.BY_INSTANCE:
            names.add(WIDE)
        if stream_config.disparity is not None:
            names.add(DISPARITY)
        if stream_config.details or stream_config.objective or stream_config.temporal_correction:
            names |= {MEASURES, RANKS, DETAILS}
        elif not set(OF_RANKS).isdisjoint(stream_config.measures) or any(map(_is_of_ranks, signals)):
            names |= {MEASURES, RANKS}
        elif (
            set(stream_config.measures).difference(streams.DEFAULT_MEASURES)
            or stream_config.costs
            or not all(map(_is_usual, signals))
        ):
            names.add(MEASURES)
        wrong_or_right = stream_config.has_classes and stream_config.compare_losses == ("error",)
        if stream_config.compare != "off" and stream_config.compare_losses and not wrong_or_right:
            names.add(LOSSES)
    return names & ALL


def _is_of_ranks(signal: str) -> bool:
    """Whether a signal, or a part of a ratio, is a measure of ranks."""
    return signal.rpartition(":")[2] in OF_RANKS


def _is_usual(signal: str) -> bool:
    """Whether a signal, or a part of a ratio, is the error, an estimator or a default measure of one."""
    memory, measure = signal.partition(":")[0], signal.rpartition(":")[2]
    usual = measure in (memory, *streams.DEFAULT_MEASURES) or not measure.isidentifier()
    return signal == "error" or (memory in MEMORIES and usual)


def warm_up(needed: Collection[str]) -> None:
    """Compile the loops that shards use, or load them from numba's cache.

    A small shard processes records with everything that can be evaluated. Of the optional features it uses
    only those in `needed` (see `needed_by`).
    """
    config = config_of(needed)
    warm_up_detectors(DETECTORS.keys() & needed)
    _warm_up_plain(config)
    shard = Shard(config)
    _warm_up_rare(shard.state)
    _feed(shard, 0)
    if PERIODS in needed:
        _warm_up_estimates(shard.state, shard.catalog, ranked=RANKS in needed)
    parts = list(shard.snapshot())
    shard = Shard(config)
    shard.restore(iter(parts))
    _feed(shard, _INSTANCES)
    for part in read_snapshot.parts(shard.state, scored=True):
        copied = read_snapshot.take(shard.state, shard.comparisons, part, scored=True)
        list(copied.reporter.estimates(copied.part.entities.tolist()))
        list(pair_statuses(copied.pairs))
    shard.last_set()
    if WIDE in needed:
        _warm_up_merging(config)


def _warm_up_merging(config: Config) -> None:
    """Compile the loops that make a partition's parts of a stream, and those that merge parts."""
    wide = {name: replace(config.stream(name), key=streams.BY_INSTANCE) for name in _STREAMS[:2]}
    config = replace(config, streams={**config.streams, **wide})
    shard, merger = Shard(config, 0, 1), Merger(config)
    outputs = _feed(shard, 0)
    shard.last_set()
    for output in [*outputs, *shard.flush()[0]]:
        if isinstance(output, Encoded) and output.topic == PARTS:
            merger.add(decode(output.json), 0)


def warm_up_detectors(names: Iterable[str]) -> None:
    """Compile the loops of these detectors."""
    nothing = np.zeros(0, dtype=np.int32)
    log, values, fed = new_log(1), np.zeros(0), np.zeros(0, dtype=np.uint8)
    for name in sorted(names):
        detector = DETECTORS[name]
        settings = detector.configured({})
        table = detector.new_table(1, settings)
        detector.run(table, settings, log, nothing, values, fed, 0, new_alarms(1))


def _warm_up_plain(config: Config) -> None:
    """Compile the loops for records as columns."""
    parser, shard = Parser(segments=()), Shard(config)
    value = b'{"stream":"plain","instance_id":"1","y_true":"%s"}'
    json_scanner.wider(json_scanner.new_names(), 0)
    for offset, label in enumerate((b"a", rb"\ud83d\ude00")):  # the scanner doesn't take surrogates
        parsed = parser.parse(Label.KIND, [value % label])
        shard.add(Batch(Label.KIND, range(offset, offset + 1), [offset], parsed))
        shard.advance([_STEP] * 3, 1)


def _warm_up_rare(state: ShardState) -> None:
    """Compile the loops for cases that don't occur in a small shard."""
    sums, nothing = np.zeros(0), np.zeros(0, dtype=np.int32)
    numbers = CellNumbers(1, 16)
    numbers.put(0, np.array([0]))
    numbers.number(unrevised(nothing, np.zeros(0, dtype=np.int64), nothing))
    numbers.in_order(0, np.zeros(16), 1)
    decision(state.incidents.history, 0, False)
    means = state.incidents.history.scratch.means
    lasting.change_place(means, 0, 0, 0.0)
    lasting.course(means, 0, 0, 0.5, 1.0, 1.0, 1.0, 1.0)
    lasting.is_evident(means, 0, 0, 0, 0, True, 1.0)
    phases.best_move(np.zeros((0, 0)), 0, 0, 0, 0, sums, sums)
    repeat_encounters(state.logs.encounters, 0, 1, Disagreements().tables, 1)
    coverage.take_out(state.accounts.coverage, state.logs.events, 0)
    remove_all(state.accounts.coverage.pool, 0)
    forget_segment_numbers(state.store, nothing, np.zeros((0, 1), dtype=np.uint8))


def _warm_up_estimates(state: ShardState, catalog: Catalog, *, ranked: bool) -> None:
    """Compile the loops of estimates that need a past, such as records of final periods; streams exist.

    `ranked`: also those of ranks, which the small shard doesn't estimate, as its labels are sampled.
    """
    expected, none = state.accounts.expected, np.zeros(0, dtype=np.int64)
    put_ratios(expected.records, none, none, np.empty(FINALS), np.zeros(0))
    if not ranked:
        return
    codes, classes = expected.models.codes[none], expected.models.classes[none]
    positives = positives_by_owner(catalog, np.zeros(1, dtype=np.int32))
    put_positives(np.zeros((0, 2, 2)), codes, classes, positives, np.empty(2), none)
    add_coming(
        expected.of_models.counts, expected.of_periods.counts, none, none, np.zeros((0, 2, 1, 2)), codes,
        classes, none, np.empty((2, scores.SCORE_BINS)), np.zeros((0, scores.SCORE_WIDTH)),
    )  # fmt: skip


def warm_consumers(needed: Collection[str]) -> None:
    """Compile the loops that read the join's logs, by letting them read empty logs.

    This needs none of the join's own loops. Two processes can therefore share the work: each finds in the
    cache the loops that the other has compiled.
    """
    shard = Shard(config_of(needed))
    records = [record for name in _STREAMS for _, record in _records(name, 0)]
    kinds = np.array([record.KIND for record in records], dtype=np.uint8)
    shard.encoder.encode(records, np.zeros(len(records), np.int64), kinds)
    shard.add_rows()
    state, catalog = shard.state, shard.catalog
    logs, accounts = state.logs, state.accounts
    nothing = np.zeros(0, dtype=np.int32)
    state.follow_predictions()
    for plan in catalog.plans:
        plan.consume(logs.outcomes, nothing, positives_of_plan(catalog, plan))
        if plan.groups is not None:
            plan.groups.consume(logs.outcomes, nothing, catalog.registry, positives_of_plan(catalog, plan))
    rows = [row for row, entity in enumerate(catalog.entities) if entity is not None]
    shard.reporter.metrics(rows, covered=True)
    past = state.incidents.history
    entities, positives = catalog.registry.entities, positives_by_owner(catalog, NO_OWNER)
    follow(past, logs.outcomes, logs.events, UnreadRows(0, 0, 0, 0), entities, positives, False)
    follow_events(past, logs.events, 0, 0, False)
    _warm_up_rare(state)
    accounts.coverage = coverage.update(accounts.coverage, logs.events, 0, 0)
    if PERIODS in needed:
        _warm_up_estimates(state, catalog, ranked=RANKS in needed)
        accounts.periods = periods.update(accounts.periods, logs.events, 0, 0)
        accounts.expected = following.update(accounts.expected, logs.events, 0, 0)
        model, begun = np.array([1]), begin(accounts.expected, 1)
        look_together(begun, model, nothing, np.array([0]), np.array([0]))
    accounts.selection = selection.update(accounts.selection, logs.events, 0, 0)
    accounts.latencies = latency.update(accounts.latencies, nothing, *np.zeros((2, 0), np.int64))


def _feed(shard: Shard, first: int) -> list[Output]:
    """Let the shard process some records in small micro-batches; returns the outputs."""
    offsets, outputs = list(shard.merge.added), list[Output]()
    for number in range(first, first + _INSTANCES):
        records = [record for name in _STREAMS for record in _records(name, number)]
        for kind in range(3):
            batch = [(ts, record) for ts, record in records if kind == record.KIND]
            if batch:
                span = range(offsets[kind], offsets[kind] + len(batch))
                offsets[kind] = span.stop
                batch.sort(key=lambda pair: pair[0])
                times = [ts for ts, _ in batch]
                shard.add(Batch(kind, span, times, Decoded([record for _, record in batch], {})))
        shard.advance([(number + 1) * _STEP] * 3, len(records))
        outputs += shard.flush()[0]
    return outputs


def _records(stream: str, number: int) -> Iterator[tuple[int, Record]]:
    """An instance, its predictions, and the label of an earlier instance; some come twice or never."""
    ts, name = number * _STEP, str(number)
    segments = {"arm": "xyz"[number % 3]}
    yield ts, Instance(stream, name, ts, number, segments, 0.5)
    of_numbers, version = stream == "numbers", f"v{number // 20}"
    for model in ("m", "n"):
        for repetition in range(1 + number % 2):
            predicted_at = ts + 50 * repetition
            guess = "ab"[number % 2] if not of_numbers else number % 5 + 0.5
            proba = None if of_numbers else {"a": 0.75, "b": 0.25}
            lower, upper = (number % 5, number % 5 + 1.0) if of_numbers else (None, None)
            quantiles = {"0.25": lower, "0.75": upper} if of_numbers else None
            yield (
                predicted_at,
                Prediction(
                    stream,
                    model,
                    name,
                    guess,
                    predicted_at,
                    proba,
                    segments,
                    version,
                    1.0,
                    lower,
                    upper,
                    quantiles,
                ),
            )
    labelled, missing = number - number % 3, 7
    if labelled % missing:
        truth = number % 4 + 0.25 if of_numbers else "abc"[number // 20]
        yield ts + 100, Label(stream, str(labelled), truth, ts + 100)
        yield ts + 150, Label(stream, str(labelled), truth, ts + 150)
