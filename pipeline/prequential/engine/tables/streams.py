"""Streams, and the entities evaluated in them, as tables: settings, clocks, classes, baselines, counts."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, Words, inlined, inner
from prequential.engine.tables.store import NO_CLASS


class Streams(NamedTuple):
    """By stream (its code); times in ms, places are rows of other tables."""

    # Settings:
    name: Words  # hash of its name: the same in every process
    horizon: Ints
    settle: Ints
    regression: Bytes
    at_horizon: Ints32  # 1 + the class of instances without a label by the horizon; 0: none, they expire
    probabilities: Bytes  # whether probabilities are scored
    expects: Bytes  # whether periods are estimated, by the confidence of predictions …
    ranks: Bytes  # … and their ranks by the scores
    weights: Bytes  # whether propensities are
    valued: Bytes  # whether the costs of outcomes depend on their `value`
    reads: Ints  # which numbers of records mean something, bits by their places in `topics.messages.NUMBERS`
    quantile: Floats  # the quantile of the label that predictions for regression give; 0: none is configured
    quantiles: Bytes  # whether predicted numbers have quantiles that are scored
    season: Ints  # ms, if errors are scaled by those of seasonal baselines; 0: they aren't
    correction: Bytes  # whether predictions are corrected by the labels before
    estimates: Bytes  # whether a judge's predictions estimate losses
    initial: Bytes  # whether the stage is evaluated
    final: Bytes
    bins: Ints32  # how many are evaluated
    compared: Bytes  # whether any two of its models are compared
    paired: Bytes  # whether their predictions are compared, before there are labels
    by_cohorts: Bytes  # whether verdicts, tests or intervals count outcomes by their predictions' time
    cluster: Ints  # length of clusters of these, ms; 0: it follows from the data; -1: none
    versions: Bytes  # whether any prediction has named a version of its model
    keys: Ints32  # keys of segments
    slots: Ints32  # values of a key that have segments, and one for the others
    ages: Ints32  # first of its stages at an age in `Ages.age`, and how many
    age_count: Ints32
    emit_outcomes: Ints  # 0: not by count
    rows_per_prediction: Ints32  # of the outcome log, at most, for each prediction that meets its label
    rows_per_label: Ints32  # … and for each label
    # State:
    clock: Ints  # event time: the largest ts seen, within tolerance
    started: Bytes  # whether anything was seen
    wheel: Ints  # the clock when its deadlines were checked last (see `engine.tables.store`)
    persistent: Ints32  # the baselines' classes now
    majority: Ints32
    labels: Ints  # labels that baselines have seen
    classes: Ints32  # first of its rows in `Classes`
    class_capacity: Ints32
    class_count: Ints32
    pairs: Ints  # first of its class_capacity² places in `LabelPairs`; -1: none
    positive_code: Ints32  # … its code; -1: it has none yet; -2: none is configured
    nothing: Ints32  # class of what baselines predict before the first label
    positive: Words  # configured positive class: hash of its name; 0: none is
    persistent_entity: Ints32  # entities of the evaluated baselines; 0: not evaluated
    majority_entity: Ints32
    judge: Ints32  # entity of the model that estimates losses; 0: none yet
    completed: Ints  # labels that met a prediction
    waiting_labels: Ints
    late_label: Ints
    unmatched_label: Ints
    after_settle: Ints  # labels of instances that were settled and forgotten
    revisions: Ints
    withdrawn: Ints  # labels that were withdrawn
    sequence_outcomes: Ints  # of all of its sequences: models, segments, stages
    first_outcome: Ints  # the clock at the first of them
    instances_without_predictions: Ints
    predictions_without_instance: Ints
    duplicate_instances: Ints  # records delivered again; predictions are counted by model
    duplicate_labels: Ints
    changes: Ints  # how often records have moved its clock, or come to an instance
    #: Number of the first label, among those that met predictions, that is scored by the present settings
    #: (`scores.SETTINGS`): a revision of an earlier one doesn't take out what was never counted by them.
    settings_since: Ints


#: Columns of streams that are state under any configuration, and those with places of rows in other tables.
#: All other columns are settings, or follow from settings.
STREAM_STATE = (
    "versions", "clock", "started", "wheel", "persistent", "majority", "labels", "completed",
    "waiting_labels", "late_label", "unmatched_label", "after_settle", "revisions", "withdrawn",
    "sequence_outcomes",
    "first_outcome", "instances_without_predictions", "predictions_without_instance",
    "duplicate_instances", "duplicate_labels", "changes", "settings_since",
)  # fmt: skip
STREAM_PLACES = ("classes", "class_capacity", "class_count", "pairs")


class Classes(NamedTuple):
    """By class, each stream's in one block: labels seen, and what is known of the name."""

    seen: Ints  # labels of it
    order: Ints  # number of its first label among the classes' first labels
    name: Words  # hash
    meaning: Bytes  # the meaning of the name: see `SORTS`
    followed: Ints  # labels that came after one of it


#: Columns of classes that are state.
CLASS_STATE = ("seen", "order", "followed")

#: Meanings of class names: booleans, and 0 and 1, have a positive class without configuration.
OTHER, FALSE, TRUE, ZERO, ONE = range(5)
SORTS = {"false": FALSE, "true": TRUE, "0": ZERO, "1": ONE}


#: The other form of a name: `true` and 1 are one class of a stream, and so are `false` and 0.
OTHER_FORM = {"false": "0", "true": "1", "0": "false", "1": "true"}

BOOLEANS = ("false", "true")


def name_hash(name: str) -> int:
    """64 bits, never 0, that stand for a class's name: the same in every process, since snapshots hold them.

    Names in `y_proba` come from strangers and needn't be classes, so they are given no codes. Both forms of a
    name, `true` and `1`, `false` and `0`, have the same (BLAKE2b, the first 8 bytes, little-endian).

    >>> name_hash("true") == name_hash("1"), name_hash("UP")
    (True, 128599920667742867)
    """
    if name in ("0", "1"):
        name = OTHER_FORM[name]
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") or 1


_TRUE, ONE_HASH = np.uint64(name_hash("true")), np.uint64(name_hash("1"))


class Entities(NamedTuple):
    """What is evaluated: models, and also baselines, corrections, segments, stages at an age."""

    stream: Ints32
    #: The model that it is about: itself, or that of a correction, a segment, a stage; 0: a baseline.
    model: Ints32
    kind: Bytes
    plan: Ints32
    first: Ints32  # first of its rows in the plan's tables: one for each stage that is evaluated
    stages: Ints32  # how many
    #: Whether `initial` is the same as `final` up to now, so that it has no rows of the log: both are
    #: evaluated, and no instance has had two predictions. It has no row in the plan's tables either: what is
    #: in row `first` isn't the entity's then.
    initial_is_final: Bytes
    outcomes: Ints
    revisions: Ints
    newest_ts: Ints  # label time of the newest outcome
    newest_change: Ints  # its stream's `changes` at the newest outcome or revision
    changed: Bytes  # whether there are outcomes or revisions since its last messages
    began: Ints  # of an evaluated baseline: labels that had met predictions when it came
    # Of models and evaluated baselines:
    twofold: Bytes  # whether an instance with an outcome had two predictions of it, of which one is initial
    after: Ints32  # the first of its entities for stages at an age, one after the other; 0: none
    # Of models:
    corrected: Ints32  # entity of its temporal correction; 0: none yet
    segments: Ints32  # first of its keys·slots rows in `SegmentRows`
    late: Ints
    expired: Ints
    at_horizon: Ints  # predictions that got the class of instances without a label by the horizon
    duplicate: Ints
    repeats: Bytes  # whether an instance had two predictions of it, where predictions of models are compared
    judged: Ints  # predictions with an estimate of their loss; -1: it isn't used (`join.scoring`)
    disagreement: Floats  # the mean of the latest estimates
    retired: Bytes  # whether it isn't evaluated any more, though its predictions may still wait
    version: Ints32  # code of its version, of the newest prediction that has met its label; 0: none was given
    version_since: Ints  # its outcome that was the first of this version
    version_ts: Ints  # time of that newest prediction, ms


#: As of streams.
ENTITY_STATE = (
    "outcomes",
    "revisions",
    "newest_ts",
    "newest_change",
    "changed",
    "began",
    "late",
    "expired",
    "at_horizon",
    "duplicate",
    "repeats",
    "version",
    "judged",
    "disagreement",
    "version_since",
    "version_ts",
    "twofold",
)
ENTITY_PLACES = ("stream", "plan", "first", "segments")

#: Kinds of entities, in the order in which messages of a stream about them go.
MODEL, BASELINE, CORRECTION, SEGMENT, AGE, BASELINE_AGE = range(6)


class SegmentRows(NamedTuple):
    """By model, key and position of the value: the segment's entity, 0 for none yet."""

    entity: Ints32


@inlined
def is_beyond_horizon(t0: int, t1: int, horizon: int) -> bool:
    """Whether a label at t1 is too late for an instance that arrived at t0; exactly t0 + H is in time."""
    return t1 - t0 > horizon


@inner
def count_label(streams: Streams, classes: Classes, pairs: LabelPairs, stream: int, label: int) -> None:
    """Baselines and transitions see a label.

    Persistent: the latest label. Majority: the most frequent of all labels so far, ties to the class whose
    first label came first (Žliobaitė et al. 2015, section 4.1, made online).
    """
    start = streams.classes[stream]
    if streams.pairs[stream] >= 0 and streams.labels[stream]:
        previous = streams.persistent[stream]
        capacity = streams.class_capacity[stream]
        pairs.pairs[streams.pairs[stream] + previous * capacity + label] += 1
        classes.followed[start + previous] += 1
    count = classes.seen[start + label] + 1
    classes.seen[start + label] = count
    if count == 1:
        classes.order[start + label] = streams.labels[stream]
    majority = streams.majority[stream]
    if label != majority:
        if majority == NO_CLASS:
            streams.majority[stream] = label
        else:
            best = classes.seen[start + majority]
            earlier = classes.order[start + label] < classes.order[start + majority]
            if count > best or (count == best and earlier):
                streams.majority[stream] = label
    streams.persistent[stream] = label
    streams.labels[stream] += 1


@inner
def lift(streams: Streams, classes: Classes, pairs: LabelPairs, stream: int, label: int) -> float:
    """P(label | latest label)/P(label), the factor of temporal correction (2015 paper, eq. 3), smoothed.

    The factor is (n(j, i) + 1)/(n(j, ·)·P(i) + 1), with j the latest label and i this one. The numerator adds
    one pair to those seen, and the denominator one pair to those that independent labels would have given.
    The factor is 1 before the first label.
    """
    n = streams.labels[stream]
    if n == 0:
        return 1.0
    start = streams.classes[stream]
    previous = streams.persistent[stream]
    expected = classes.followed[start + previous] * classes.seen[start + label] / n
    seen = pairs.pairs[streams.pairs[stream] + previous * streams.class_capacity[stream] + label]
    return (seen + 1) / (expected + 1)


@inner
def positive_name(streams: Streams, classes: Classes, stream: int, label: int) -> np.uint64:
    """Hash of the positive class's name where `label` is a label; 0: there is none.

    The configured one; else `true` where labels are booleans, `1` where they are 0 and 1.
    """
    if streams.positive[stream]:
        return streams.positive[stream]
    sort = classes.meaning[streams.classes[stream] + label]
    if sort in (FALSE, TRUE):
        return _TRUE
    if sort in (ZERO, ONE):
        return ONE_HASH
    return np.uint64(0)


class Ages(NamedTuple):
    """Stages at an age, of all streams: their ages, ms; for a lead before the label, -1 minus the lead."""

    age: Ints


class LabelPairs(NamedTuple):
    """Pairs of labels, each stream's in one block: at j·capacity + i, how often label i came after j."""

    pairs: Ints


class NextRows(NamedTuple):
    """The first rows that were never used, for segments that the join registers."""

    entity: Ints  # (1,), of `Entities`
    sequence: Ints  # by plan, of its sequences
    #: By plan: whether others are free, which the catalog has to give out: in bit 0 rows for all stages, in
    #: bit 1 rows for all but `initial`.
    free: Bytes


class Registry(NamedTuple):
    """What is known of streams, and what is evaluated: tables as compiled loops take them."""

    streams: Streams
    classes: Classes
    pairs: LabelPairs
    entities: Entities
    segment_rows: SegmentRows
    ages: Ages
    settings: Any  # `scores.SettingValues`
    next_rows: NextRows


def segment_rows_of(registry: Registry, models: Ints) -> Ints:
    """All rows in `SegmentRows` of these models, (n,) int64, one model after the other."""
    streams, entities = registry.streams, registry.entities
    codes = entities.stream[models]
    counts = streams.keys[codes].astype(np.int64) * streams.slots[codes]
    ends = np.cumsum(counts)
    places = np.arange(int(ends[-1]) if len(ends) else 0)
    rows = np.repeat(entities.segments[models] - (ends - counts), counts) + places
    return np.asarray(rows, dtype=np.int64)
