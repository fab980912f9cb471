"""A stream's names, and its entities by their names in messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from prequential.configuration.settings.stages import FINAL, INITIAL
from prequential.configuration.settings.stages import parse as parse_stage
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.measures.reading import fields_read, numbers_read

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

    def note_keys(self, given: Mapping[str, str]) -> None:
        """Note the segment keys of a record: the configured ones, and at most `MOST_OTHER_KEYS` others."""
        self.unseen_keys -= given.keys()
        for key in given:
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
        value = next((name for name, at in self.values[key].items() if at == position), OTHER)
        return f"{self.config.segments[key]}={value}"
