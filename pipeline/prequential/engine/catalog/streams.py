"""A stream's names, entities and settings, also as columns and tables by class for compiled loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from prequential.configuration.settings.parsing import NO_CLUSTERS
from prequential.configuration.settings.stages import FINAL, INITIAL
from prequential.configuration.settings.stages import parse as parse_stage
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import Bytes, Floats
from prequential.engine.detectors.objectives import every_detector
from prequential.engine.estimators.score_histogram import SCORES
from prequential.engine.measures import per_class
from prequential.engine.measures.declaration import NO_POSITIVE, UNSEEN_POSITIVE
from prequential.engine.measures.registry import (
    OF_PROBABILITIES,
    OF_RANKS,
    OF_WEIGHTS,
    fields_read,
    numbers_read,
    parts_asked,
    parts_read,
)
from prequential.engine.tables.scores import SEASONS
from prequential.engine.tables.store import NO_CLASS
from prequential.engine.tables.streams import Registry, name_hash
from prequential.topics.values import labels_of

#: The value that all segment values beyond the limit of their key share, and all versions beyond the limit.
OTHER = "other"

#: Maximum number of segment keys to remember that aren't configured: records may contain any keys.
MOST_OTHER_KEYS = 20

#: Maximum number of versions of a stream's models to distinguish, and of retired versions to remember.
#: It suffices for a few new versions a day over years.
MOST_VERSIONS = 10_000


class Entity(NamedTuple):
    """An evaluated entity, by its names in messages: a model, one of its segments or ages, or a baseline."""

    row: int
    stream: int
    kind: int
    model: str
    segment: str | None
    age: str | None  # the stage `after:…` that the entity is about


class Stream:
    """A stream's settings, and its names: models, classes, values of segments, versions."""

    def __init__(self, code: int, name: str, config: StreamConfig) -> None:
        self.code = code
        self.name = name
        self.config = config
        self.models: dict[str, int] = {}  # entities
        self.came: dict[str, int] = {}  # record times (ms) of the models' first predictions
        self.classes: dict[str, int] = {}
        self.class_names: list[str] = []
        self.values: list[dict[str, int]] = [{} for _ in config.segments]  # positions from 1, by key
        self.values_came: list[list[int]] = [[] for _ in config.segments]  # … and their first record times
        #: Configured segment keys that no record has had yet, and other keys that records have had.
        self.unseen_keys = set(config.segments)
        self.other_keys: list[str] = []
        self.versions: dict[str, int] = {}  # codes from 1, of all models together
        self.version_names: list[str] = []  # … the other way round; it only grows
        self.families: dict[str, list[str]] = {}  # separately evaluated versions of a model, oldest first
        #: Versions that gave way to newer ones. They never come back: their outcomes would restart at number
        #: 1.
        self.retired: dict[str, None] = {}
        self.everywhere = tuple(stage for stage in config.stages if not parse_stage(stage).is_age)
        self.ages = tuple(stage for stage in config.stages if parse_stage(stage).is_age)
        self.bins = sum(parse_stage(stage).is_bin for stage in self.evaluated)
        self.initial, self.final = (stage in self.evaluated for stage in (INITIAL, FINAL))
        self.entities: list[int] = []
        #: The fields of records that mean something to it; and the numbers among these, bits by place.
        self.fields = fields_read(config)
        self.reads = numbers_read(self.fields)

    @property
    def evaluated(self) -> tuple[str, ...]:
        """The stages in which outcomes are evaluated, in the order of their rows."""
        return self.config.evaluated_stages

    def reports(self, stage: str) -> bool:
        """Whether messages report a stage; some stages are evaluated only because others need them."""
        return parse_stage(stage).configured in self.config.stages

    def position(self, key: int, value: str) -> int:
        """The position of a segment's value among the values of its key, from 1.

        All values beyond the limit share the last position, also the value `other`. Raises KeyError for a new
        value that has to be added.
        """
        values = self.values[key]
        position = values.get(value)
        if position is None:
            most = self.config.segments_per_key
            if len(values) < most and value != OTHER:
                raise KeyError(value)
            return most + 1
        return position

    def add_value(self, key: int, value: str, came: int) -> None:
        """Register a value of the key with this index at the next position; `came` is its record time, ms."""
        values = self.values[key]
        values[value] = len(values) + 1
        self.values_came[key].append(came)

    def note_keys(self, segments: Mapping[str, str]) -> None:
        """Note the segment keys of a record: the configured ones, and at most `MOST_OTHER_KEYS` others."""
        self.unseen_keys -= segments.keys()
        for key in segments:
            if key not in self.config.segments and key not in self.other_keys:
                if len(self.other_keys) >= MOST_OTHER_KEYS:
                    return
                self.other_keys.append(key)

    def version(self, name: str) -> int:
        """The code of a model's version, from 1; raises KeyError for a new version that has to be added.

        All versions beyond `MOST_VERSIONS` share one code.
        """
        code = self.versions.get(name)
        if code is None:
            code = self.versions[OTHER if len(self.versions) >= MOST_VERSIONS else name]
        return code

    def add_version(self, name: str) -> None:
        """Register a version with the next code; those beyond `MOST_VERSIONS` share one name."""
        name = OTHER if len(self.versions) >= MOST_VERSIONS else name
        self.versions[name] = len(self.versions) + 1
        self.version_names.append(name)

    def version_name(self, code: int) -> str:
        """The name of the version that has this code, from 1."""
        return self.version_names[code - 1]

    def segment_name(self, key: int, position: int) -> str:
        """`key=value`."""
        value = next((name for name, slot in self.values[key].items() if slot == position), OTHER)
        return f"{self.config.segments[key]}={value}"


def reads_probabilities(config: StreamConfig) -> bool:
    """Whether probabilities of predictions mean something to a stream."""
    return _scores_probabilities(config) or _expects(config)


def reads_propensities(config: StreamConfig) -> bool:
    """Whether the probabilities of labels mean something to a stream."""
    # Where each instance gets a label, labels are not a sample, so propensities have no meaning.
    sampled = config.task != "regression" and config.label_at_horizon is None
    return sampled and not _measured(config).isdisjoint(OF_WEIGHTS)


def _measured(config: StreamConfig) -> set[str]:
    signals = (d.signal.rpartition(":")[2] for d in every_detector(config))
    return {*config.measures, *signals, config.incident_loss}


def _scores_probabilities(config: StreamConfig) -> bool:
    return config.task != "regression" and (
        not _measured(config).isdisjoint(OF_PROBABILITIES)
        or SCORES in config.details
        or config.temporal_correction
        or (config.compare != "off" and not {"log_loss", "brier"}.isdisjoint(config.compare_losses))
    )


def _expects(config: StreamConfig) -> bool:
    return config.task != "regression" and config.period is not None and config.expected


def write_settings(registry: Registry, stream: Stream, ages: int) -> None:
    """Write a stream's settings to its rows; its stages at an age begin at row `ages` of their table."""
    s, config, code = registry.streams, stream.config, stream.code
    numbers = config.task == "regression"
    s.name[code] = name_hash(stream.name)
    s.horizon[code], s.settle[code] = config.label_horizon, config.settle
    s.regression[code] = numbers
    s.correction[code] = config.temporal_correction and not numbers
    s.estimates[code] = config.objective is not None and config.objective.estimate is not None and not numbers
    s.probabilities[code], s.expects[code] = _scores_probabilities(config), _expects(config)
    s.ranks[code] = _expects(config) and not set(OF_RANKS).isdisjoint(config.measures)
    verdicts = (config.compare != "off" and bool(config.compare_losses)) or config.disparity is not None
    referred = config.objective is not None and config.objective.reference is not None
    intervals = not numbers and ("intervals" in config.details or referred)
    harm = any(d.detector == "harm" for d in every_detector(config))
    s.by_cohorts[code] = verdicts or intervals or harm
    s.cluster[code] = -1 if config.cluster == NO_CLUSTERS else config.cluster or 0
    s.weights[code] = reads_propensities(config)
    s.reads[code], s.quantiles[code] = stream.reads, "quantiles" in stream.fields
    s.valued[code], s.quantile[code] = "value" in stream.fields, config.quantile or 0.0
    s.season[code] = config.season or 0 if SEASONS in parts_asked(config) else 0
    read = {part.setting for part in parts_read(config)}
    for name, values in registry.settings._asdict().items():
        values[code] = getattr(config, name) if name in read else 0
    s.initial[code], s.final[code], s.bins[code] = stream.initial, stream.final, stream.bins
    s.keys[code], s.slots[code] = len(config.segments), config.segments_per_key + 1
    s.emit_outcomes[code] = config.emit_outcomes or 0
    s.ages[code], s.age_count[code] = ages, len(stream.ages)
    rows_per_kind = len(stream.evaluated) + 1
    kinds = 1 + int(s.correction[code]) + len(config.segments)
    s.rows_per_prediction[code] = rows_per_kind * kinds + 2 * len(stream.ages)
    s.rows_per_label[code] = 2 * (rows_per_kind + len(stream.ages)) + 2
    s.persistent[code] = s.majority[code] = NO_CLASS
    s.positive[code] = 0 if config.positive_class is None else name_hash(config.positive_class)
    s.positive_code[code] = NO_POSITIVE if config.positive_class is None else UNSEEN_POSITIVE
    s.pairs[code] = -1


Tables = TypeVar("Tables", bound="tuple[Bytes, Any]")


class ClassTables(ABC, Generic[Tables]):
    """Tables of the streams that were added; made again when streams, or classes of these, are added."""

    #: The tables without such a stream.
    none: Tables

    def __init__(self) -> None:
        self._streams: list[Stream] = []
        self._newest: tuple[Any, Tables] | None = None

    def add(self, stream: Stream) -> None:
        """Add a stream that has such tables."""
        self._streams.append(stream)

    def tables(self, registry: Registry, streams: int) -> Tables:
        """Return the tables for all classes of the registry and this number of streams."""
        if not self._streams:
            return self.none
        s, codes = registry.streams, [stream.code for stream in self._streams]
        rows, firsts = len(registry.classes.meaning), s.classes[codes].tolist()
        key = rows, streams, firsts, s.class_count[codes].tolist()
        if self._newest is None or self._newest[0] != key:
            self._newest = key, self._new_tables(rows, streams, firsts, max(key[-1]))
        return self._newest[1]

    @abstractmethod
    def _new_tables(self, rows: int, streams: int, firsts: list[int], most: int) -> Tables:
        """Return new tables for `rows` classes; `firsts` are the streams' first ones, `most` of a stream."""


class LabelTables(ClassTables[tuple[Bytes, Bytes]]):
    """Which streams have sets, (streams,), and which labels are in a class, (classes, labels).

    The labels of a stream are in the order in which its classes came.
    """

    none = per_class.NO_SETS, per_class.NO_MEMBERS

    def _new_tables(self, rows: int, streams: int, firsts: list[int], most: int) -> tuple[Bytes, Bytes]:
        sets = np.zeros(streams, dtype=np.uint8)
        members: list[tuple[int, int]] = []
        for stream, first in zip(self._streams, firsts):
            sets[stream.code] = 1
            numbers: dict[str, int] = {}
            for code, name in enumerate(stream.class_names):
                for label in labels_of(name):
                    members.append((first + code, numbers.setdefault(label, len(numbers))))
        table = np.zeros((rows, 1 + max((number for _, number in members), default=-1)), dtype=np.uint8)
        for row, number in members:
            table[row, number] = 1
        return sets, table


class CostTables(ClassTables[tuple[Bytes, Floats]]):
    """The kind of costs by stream, (streams,) uint8, and the costs, (classes, predictions) floats.

    Costs are per outcome or per value. The second table has a row for each class that a label may have, and a
    column for each class that a prediction may have.
    """

    none = per_class.NONE_PRICED, per_class.NO_COSTS

    def _new_tables(self, rows: int, streams: int, firsts: list[int], most: int) -> tuple[Bytes, Floats]:
        priced, table = np.zeros(streams, dtype=np.uint8), np.zeros((rows, most))
        for stream, first in zip(self._streams, firsts):
            by_value = stream.config.cost_per_value
            priced[stream.code] = per_class.PER_VALUE if by_value else per_class.PER_OUTCOME
            for label, by_prediction in (stream.config.costs or {}).items():
                for prediction, amount in by_prediction.items():
                    y, h = stream.classes.get(label), stream.classes.get(prediction)
                    if y is not None and h is not None:
                        table[first + y, h] = amount
        return priced, table
