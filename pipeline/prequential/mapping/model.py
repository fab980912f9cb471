"""The model of a mapping: the place of each input field in a source's records; which entries occurred.

You write a mapping as YAML (`files:` and `ingest:` in the configuration, see `map-columns.md`) or as a dict
of the same form. `parse` reads both. `prequential.mapping.translation` applies the mapping. This module does
no I/O.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from prequential.topics import values
from prequential.topics.decoding import INSTANCES, LABELS, PREDICTIONS
from prequential.topics.messages import NUMBERS_OF_KIND

#: The roots with which a path begins, and the root of paths within one row of a record (see `rows`).
ROOTS = ("value", "key", "headers", "topic", "timestamp")
ROW = "row"

#: By kind: required and optional fields. `y_proba`, `segments` and `quantiles` consist of several values.
REQUIRED = {
    INSTANCES: ("stream", "instance_id"),
    PREDICTIONS: ("stream", "model", "instance_id", "y_pred"),
    LABELS: ("stream", "instance_id", "y_true"),
}
OPTIONAL = {
    INSTANCES: ("ts", "version", "label_propensity", "segments"),
    PREDICTIONS: (
        "ts", "model_version", "y_proba", "segments", *NUMBERS_OF_KIND[PREDICTIONS], "quantiles",
    ),
    LABELS: ("ts", *NUMBERS_OF_KIND[LABELS]),
}  # fmt: skip

#: The fields of all kinds.
KNOWN_FIELDS = frozenset(
    name for fields in (REQUIRED, OPTIONAL) for of_kind in fields.values() for name in of_kind
)

#: Formats of files. Without a format, the first bytes of the file decide.
FORMATS = ("csv", "jsonl", "parquet", "arrow")

#: Fields that are classes or numbers.
TARGETS = ("y_pred", "y_true")

#: Fields that are objects.
SEVERAL = ("y_proba", "segments", "quantiles")

#: A step of a path: the text up to the next dot, or a quoted name, which may contain dots.
STEP = re.compile(r'"((?:[^"\\]|\\.)*)"(?=\.|$)|([^."]+)(?=\.|$)')


def hint(name: str, known_names: Sequence[str], also: Sequence[str] = ()) -> str:
    """Return what to write instead of an unknown name: one that is similar, `also` of others, or any.

    >>> hint("y_treu", ("ts", "y_true")), hint("label", ("ts",))
    ('; did you mean y_true? known: ts, y_true', '; known: ts')
    """
    near = difflib.get_close_matches(name, (*known_names, *also), n=1)
    return f"; {f'did you mean {near[0]}? ' if near else ''}known: {', '.join(known_names)}"


class MappingError(ValueError):
    """An invalid mapping: `keys` lead to the place in its section, and the message is one sentence."""

    def __init__(self, keys: Sequence[Any], sentence: str) -> None:
        super().__init__(sentence)
        self.keys = tuple(keys)


class MappingOrigin(NamedTuple):
    """The place of a mapping: its section, and the file and line of each part, by the keys that lead to it.

    >>> MappingOrigin("files.labels", {("ts",): "conf.yaml line 7"}).place("ts", "unit")
    'conf.yaml line 7: files.labels.ts.unit'
    """

    section: str
    lines: Mapping[tuple[Any, ...], str] = {}

    def line(self, keys: tuple[Any, ...]) -> str:
        """Return the file and line of a part, as a prefix of a sentence; "" if they are unknown.

        For a part without its own line, this is the line of the nearest part around it.
        """
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return f"{self.lines[keys]}: " if keys in self.lines else ""

    def place(self, *keys: Any) -> str:
        """Return the name of the part at these keys for a sentence: file and line, section and keys."""
        return f"{self.line(keys)}{'.'.join((self.section, *map(str, keys)))}"


class Path(NamedTuple):
    """A place in a record: one of `ROOTS`, and the names (or places in lists) below it.

    `text` is the path as you wrote it.
    """

    root: str
    keys: tuple[str, ...]
    #: The path as you wrote it.
    text: str

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: Any, bare: bool = False, has_rows: bool = False) -> Path:
        """Parse a path; in a `bare` path, a column's name needs no root before it.

        In a mapping that `has_rows`, a path that begins with `row` leads into one row of a record. Raises
        ValueError, which quotes the text, if it is no path.

        >>> Path.parse("value.request.id").keys, Path.parse('value."a.b".0').keys
        (('request', 'id'), ('a.b', '0'))
        >>> Path.parse("score", bare=True)
        Path(root='value', keys=('score',), text='score')
        >>> Path.parse("request.id")
        Traceback (most recent call last):
        ...
        ValueError: 'request.id' is no path: expected one that begins with value., key, headers.NAME, topic \
or timestamp; a fixed value is {const: …}
        """
        if not isinstance(text, str) or not text.strip():
            expected = "a column's name" if bare else "a path such as value.request.id"
            shown = values.quoted(text)
            raise ValueError(f"{shown} is no path: expected {expected}; a fixed value is {{const: …}}")
        text = text.strip()
        steps, offset = [], 0
        while offset < len(text):
            step = STEP.match(text, offset)
            if step is None:
                raise ValueError(
                    f'{text!r} is no path: expected names with dots between them; odd names are quoted: "a.b"'
                )
            steps.append(re.sub(r"\\(.)", r"\1", step[1]) if step[1] is not None else step[2])
            offset = step.end() + 1
        if text.endswith("."):
            raise ValueError(f"{text!r} is no path: expected a name after its last dot")
        root, *keys = steps
        if has_rows and root == ROW and text.startswith(ROW):
            return cls(ROW, tuple(keys), text)
        if bare:
            return cls("value", tuple(keys if root == "value" and keys else steps), text)
        if root not in ROOTS:
            raise ValueError(
                f"{text!r} is no path: expected one that begins with value., key, headers.NAME, topic or "
                "timestamp; a fixed value is {const: …}"
            )
        if root == "headers":  # names of headers may contain dots and dashes
            keys = [text.partition(".")[2]] if len(steps) > 1 and '"' not in text else keys
            if len(keys) != 1:
                raise ValueError(f"{text!r} is no path: expected headers.NAME")
        elif root in ("topic", "timestamp") and keys:
            raise ValueError(f"{text!r} is no path: {root} has nothing below it")
        return cls(root, tuple(keys), text)


@dataclass(frozen=True)
class Field:
    """The origin of one value: a constant, or the value at a path, which the settings may convert."""

    path: Path | None = None
    const: values.Class | None = None
    #: The class is `above` if the number at the path is at least `threshold`, else `below`.
    threshold: float | None = None
    above: values.Class | None = None
    below: values.Class | None = None
    #: The class or name for each value, by the value as text.
    names: Mapping[str, values.Class] | None = field(default=None, hash=False)
    #: The unit or form of a time; None: ms, or RFC 3339 text.
    unit: str | None = None
    #: The IANA name of the time zone for times without an offset.
    timezone: str | None = None
    #: The value of records that have none at the path.
    default: values.Class | None = None
    #: The paths of an id that combines several values.
    parts: tuple[Path, ...] = ()
    #: The path of a row's number, which is a part of the row's id.
    row: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """All paths from which the value is made; none for a constant."""
        own = () if self.path is None else (self.path,)
        return self.parts or (own if self.row is None else (*own, self.row))


class ProbabilityField(NamedTuple):
    """A probability: the value at a path, or 1 minus that value."""

    path: Path
    is_remainder: bool = False
    #: The value of records that have none at the path.
    default: float | None = None


class RecordCondition(NamedTuple):
    """Selects the records with (`equal`) or without this value at a path; None: with any value."""

    path: Path
    value: str | None = None
    equal: bool = True


@dataclass(frozen=True)
class RecordMapping:
    """The mapping from a source to records of one kind (0 instances, 1 predictions, 2 labels)."""

    kind: int
    format: str | None = None
    #: Fields by name, without those that are objects.
    fields: Mapping[str, Field] = field(default_factory=dict, hash=False)
    #: The entries of those that are (`SEVERAL`), by name; or the path of an object that contains them.
    objects: Mapping[str, Mapping[str, Field | ProbabilityField] | Path] = field(
        default_factory=dict, hash=False
    )
    when: tuple[RecordCondition, ...] = ()
    origin: MappingOrigin = field(default_factory=lambda: MappingOrigin("the mapping"), compare=False)
    #: Required fields that the section does not mention. Their path is their own name.
    implied: frozenset[str] = frozenset()
    #: The path of the rows within a record, each of which makes a record; None: the record makes one.
    rows: Path | None = None
    #: Conditions under which a record withdraws the label.
    withdrawn: tuple[RecordCondition, ...] = ()

    def paths(self) -> list[tuple[tuple[Any, ...], Path]]:
        """Return every path of the mapping, with the keys that lead to it in the section."""
        paths: list[tuple[tuple[Any, ...], Path]] = [
            ((name,), path) for name, source_field in self.fields.items() for path in source_field.paths
        ]
        for name in filter(self.objects.__contains__, SEVERAL):
            several = self.objects[name]
            if isinstance(several, Path):
                paths.append(((name,), several))
            else:
                paths += [
                    ((name, key), source_field.path)
                    for key, source_field in several.items()
                    if source_field.path is not None
                ]
        paths += [(("when",), condition.path) for condition in self.when]
        paths += [(("withdrawn",), condition.path) for condition in self.withdrawn]
        return paths if self.rows is None else [(("rows",), self.rows), *paths]

    def optional_paths(self) -> set[Path]:
        """Return the paths at which records may have nothing: with a default, or of `withdrawn`."""
        fields: list[Any] = [*self.fields.values()]
        for several in self.objects.values():
            fields += several.values() if isinstance(several, Mapping) else ()
        withdrawn = {condition.path for condition in self.withdrawn}
        return withdrawn | {
            source_field.path
            for source_field in fields
            if source_field.default is not None and source_field.path is not None
        }


def as_text(value: Any) -> str:
    """Return a value as text for comparisons: booleans as `true` or `false`, whole numbers without fraction.

    >>> as_text(True), as_text(1.0), as_text(0.5), as_text(None), as_text(b"x")
    ('true', '1', '0.5', 'null', 'x')
    """
    if isinstance(value, str):
        return value if type(value) is str else str(values.plain(value))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    value = values.plain(value)
    if isinstance(value, bool):
        return as_text(value)
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


#: Share of scores on one side of a threshold that counts as all of them.
_NEARLY_ALL = 0.95

#: The largest number of values of a path that are kept.
_MOST = 50


class ScoreRange:
    """The range of the scores that a threshold was compared with, and how many of them are above it."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.least, self.most = math.inf, -math.inf
        self.count = self.above = 0

    def add(self, column: Iterable[Any]) -> None:
        """Add scores, which may be text."""
        for value in column:
            try:
                score = float(value)
            except (TypeError, ValueError, OverflowError):
                continue
            if math.isfinite(score):
                self.least, self.most = min(self.least, score), max(self.most, score)
                self.count += 1
                self.above += score >= self.threshold

    @property
    def is_off_scale(self) -> bool:
        """Whether nearly all scores are on one side of a threshold that is on another scale than they are.

        Scales are shares from 0 to 1, and anything else.

        >>> scores = ScoreRange(0.5)
        >>> scores.add([12, 37, 81, 95])
        >>> scores.is_off_scale
        True
        """
        if not self.count:
            return False
        are_shares = self.least >= 0 and self.most <= 1
        is_share = 0 <= self.threshold <= 1
        larger_side = max(self.above, self.count - self.above)
        return are_shares != is_share and larger_side >= _NEARLY_ALL * self.count


class Uses:
    """Counts of one mapping: the values that each `map` met, and the records that passed each condition.

    >>> from prequential.mapping.parsing import parse
    >>> section = {"y_true": {"path": "y", "map": {"Y": 1, "N": 0}}, "instance_id": "id", "when": "op = u"}
    >>> uses = Uses(parse(section, 2, bare=True))
    >>> uses.note_values("y_true", ["Y", "Y"])
    >>> uses.met["y_true"], uses.named("y_true")
    ({'Y'}, ['Y', 'N'])
    """

    def __init__(self, mapping: RecordMapping) -> None:
        self.mapping = mapping
        self._maps: Mapping[str, Sequence[str]] = {
            name: list(source_field.names)
            for name, source_field in mapping.fields.items()
            if source_field.names is not None
        }
        #: By field with a `map`: the values of records, as long as they are few.
        self.met: dict[str, set[str]] = {name: set() for name in self._maps}
        #: By field with a `threshold`: the scores of records.
        self.scores: dict[str, ScoreRange] = {
            name: ScoreRange(source_field.threshold)
            for name, source_field in mapping.fields.items()
            if source_field.threshold is not None
        }
        #: By condition: the records tested, those for which it holds, and the values as long as they are few.
        self.asked = [0] * len(mapping.when)
        self.held = [0] * len(mapping.when)
        self.values: list[dict[str, None]] = [{} for _ in mapping.when]

    def named(self, field: str) -> list[str]:
        """Return the values that the `map` of a field names."""
        return list(self._maps[field])

    def note_values(self, field: str, column: Iterable[Any]) -> None:
        """Note the values of a field; fields without a `map` are ignored."""
        met = self.met.get(field)
        if met is not None:
            named = {*self._maps[field]}
            for text in _texts(column):
                if text in named or len(met) < _MOST:
                    met.add(text)

    def note_scores(self, field: str, column: Iterable[Any]) -> None:
        """Note the scores of a field with a `threshold`; values that are no numbers are ignored."""
        self.scores[field].add(column)

    def note_condition(self, number: int, column: Sequence[Any], held: int) -> None:
        """Note the values for which a condition was tested, and for how many records it holds."""
        self.asked[number] += len(column)
        self.held[number] += held
        values = self.values[number]
        if len(values) < _MOST:
            for text in _texts(column):
                values[text] = None


def _texts(column: Iterable[Any]) -> dict[str, None]:
    """Return values as text, each once, without lists and objects."""
    with suppress(TypeError):  # lists and objects are not hashable
        column = dict.fromkeys(column)
    return {
        as_text(value): None for value in column if isinstance(value, (str, int, float)) and value == value
    }
