"""The model of a mapping, which names the place of each input field in a source's records.

You write a mapping as YAML (`files:` and `ingest:` in the configuration, see `map-columns.md`) or as a dict
of the same form. `parse` reads both. `prequential.mapping.translation` applies the mapping. This module does
no I/O.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple

from prequential.mapping.units import time_zone, unit, why_no_zone
from prequential.topics import values
from prequential.topics.decoding import INSTANCES, KINDS, LABELS, PREDICTIONS

#: The roots with which a path begins.
ROOTS = ("value", "key", "headers", "topic", "timestamp")

#: By kind: required and optional fields. `y_proba` and `segments` consist of several values.
REQUIRED = {
    INSTANCES: ("stream", "instance_id"),
    PREDICTIONS: ("stream", "model", "instance_id", "y_pred"),
    LABELS: ("stream", "instance_id", "y_true"),
}
OPTIONAL = {
    INSTANCES: ("ts", "version", "label_propensity", "segments"),
    PREDICTIONS: ("ts", "model_version", "y_proba", "segments", "value", "y_lower", "y_upper"),
    LABELS: ("ts", "value"),
}

#: The fields of all kinds.
KNOWN_FIELDS = frozenset(
    name for fields in (REQUIRED, OPTIONAL) for of_kind in fields.values() for name in of_kind
)

#: Formats of files. Without a format, the first bytes of the file decide.
FORMATS = ("csv", "jsonl", "parquet", "arrow")

#: The field that may combine the values of several paths.
_ID = "instance_id"

#: Fields that are classes or numbers; fields that may have a `map`; the field that has a unit.
TARGETS = ("y_pred", "y_true")
_NAMES = ("stream", "model", "model_version", *TARGETS)
_TIME = "ts"

#: The column with a label's time in a table that also contains the prediction's time.
_LABEL_TIME = "label_ts"

#: Fields that are objects.
SEVERAL = ("y_proba", "segments")

#: Keys of a section other than fields.
_ABOUT = ("as", "format", "when")

#: A step of a path: the text up to the next dot, or a quoted name, which may contain dots.
_STEP = re.compile(r'"((?:[^"\\]|\\.)*)"(?=\.|$)|([^."]+)(?=\.|$)')

#: The keys that turn a number into a class.
_CUT = {"threshold", "above", "below"}

#: The prefix of a probability that is 1 minus another one.
_REST = re.compile(r"1\s*-\s*(?=\D)")

_CONDITION = re.compile(r"(.+?)\s*(!=|=)\s*(.*)")

#: Characters that a path may contain only in quotes, and a quoted name.
_COMPARISON, _QUOTED = re.compile("[<>=!]"), re.compile(r'"(?:[^"\\]|\\.)*"')

#: The number of classes for which one probability is enough.
_TWO = 2


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
    def parse(cls, text: Any, bare: bool = False) -> Path:
        """Parse a path; in a `bare` path, a column's name needs no root before it.

        Raises ValueError, which quotes the text, if it is no path.

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
        steps, at = [], 0
        while at < len(text):
            step = _STEP.match(text, at)
            if step is None:
                raise ValueError(
                    f'{text!r} is no path: expected names with dots between them; odd names are quoted: "a.b"'
                )
            steps.append(re.sub(r"\\(.)", r"\1", step[1]) if step[1] is not None else step[2])
            at = step.end() + 1
        if text.endswith("."):
            raise ValueError(f"{text!r} is no path: expected a name after its last dot")
        root, *keys = steps
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
    #: The paths of an id that combines several values.
    parts: tuple[Path, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """All paths from which the value is made; none for a constant."""
        return self.parts or (() if self.path is None else (self.path,))


class ProbabilityField(NamedTuple):
    """A probability: the value at a path, or 1 minus that value."""

    path: Path
    is_remainder: bool = False


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
    #: Fields by name, without `y_proba` and `segments`.
    fields: Mapping[str, Field] = field(default_factory=dict, hash=False)
    #: Probabilities by class; or the path of an object that contains them.
    y_proba: Mapping[str, ProbabilityField] | Path | None = field(default=None, hash=False)
    segments: Mapping[str, Field] | Path | None = field(default=None, hash=False)
    when: tuple[RecordCondition, ...] = ()
    origin: MappingOrigin = field(default_factory=lambda: MappingOrigin("the mapping"), compare=False)
    #: Required fields that the section does not mention. Their path is their own name.
    implied: frozenset[str] = frozenset()

    def paths(self) -> list[tuple[tuple[Any, ...], Path]]:
        """Return every path of the mapping, with the keys that lead to it in the section."""
        paths: list[tuple[tuple[Any, ...], Path]] = [
            ((name,), path) for name, one in self.fields.items() for path in one.paths
        ]
        for name, several in (("y_proba", self.y_proba), ("segments", self.segments)):
            if isinstance(several, Path):
                paths.append(((name,), several))
            elif several is not None:
                paths += [((name, key), one.path) for key, one in several.items() if one.path is not None]
        return paths + [(("when",), condition.path) for condition in self.when]


def parse(
    section: Any, kind: int | None = None, *, bare: bool = False, formats: Sequence[str] = ("json",),
    origin: MappingOrigin | None = None,
) -> RecordMapping:  # fmt: skip
    """Parse the mapping of a section, given as YAML returns it.

    `kind` is the kind of its records, unless the section itself names it (`as`). In a `bare` section the name
    of a column is a path. `formats` are the formats that the section may name, and `origin` is the section's
    place. Raises MappingError for the first error.

    >>> section = {"as": "labels", "stream": {"const": "s"}, "instance_id": "key", "y_true": "value.truth"}
    >>> parse(section).fields["y_true"].path
    Path(root='value', keys=('truth',), text='value.truth')
    >>> parse({"as": "labels", "y_treu": "value.truth"})
    Traceback (most recent call last):
    ...
    prequential.mapping.model.MappingError: unknown field 'y_treu' of labels; did you mean y_true? known: \
stream, instance_id, y_true, ts, value
    """
    if not isinstance(section, Mapping):
        raise MappingError((), f"{values.quoted(section)}: expected fields and where each is found")
    if kind is None:
        kind = _kind(section.get("as"))
    elif "as" in section:
        raise MappingError(("as",), f"as: expected none, because this section is for {KINDS[kind]}")
    if "format" in section and section["format"] not in formats:
        raise MappingError(
            ("format",), f"format {values.quoted(section['format'])}: expected {', '.join(formats)}"
        )
    known = (*REQUIRED[kind], *OPTIONAL[kind])
    for name in section:
        if name not in known and name not in _ABOUT:
            near = difflib.get_close_matches(str(name), (*known, *_ABOUT), n=1)
            hint = f"; did you mean {near[0]}?" if near else ";"
            unknown = f"unknown field {name!r} of {KINDS[kind]}{hint} known: {', '.join(known)}"
            raise MappingError((name,), unknown)
    parser = _MappingParser(bare)
    given = {name: one for name, one in section.items() if one is not None}
    single = [name for name in known if name in given and name not in SEVERAL]
    fields = {name: parser.field(given[name], name) for name in single}
    implied = [name for name in REQUIRED[kind] if name not in fields]
    fields |= {name: Field(Path("value", (name,), name if bare else f"value.{name}")) for name in implied}
    return RecordMapping(
        kind, section.get("format"), fields,
        parser.probabilities(given["y_proba"], fields["y_pred"]) if "y_proba" in given else None,
        parser.segments(given["segments"]) if "segments" in given else None,
        parser.conditions(given["when"]) if "when" in given else (),
        origin or MappingOrigin("the mapping"), frozenset(implied),
    )  # fmt: skip


def same_names(kind: int, columns: Sequence[str], origin: MappingOrigin | None = None) -> RecordMapping:
    """Return the mapping of a table whose columns have the names of input fields; other columns are ignored.

    The entries of objects may be separate columns (`y_proba.UP`, `segments.country`). Labels in the rows of
    their predictions may have a separate time, `label_ts`.

    >>> str(same_names(LABELS, ["y_true", "instance_id", "stream", "age", "label_ts"]).fields["ts"].path)
    'label_ts'
    """
    section: dict[str, Any] = {}
    for name in (*REQUIRED[kind], *OPTIONAL[kind]):
        parts = [column.partition(".")[2] for column in columns if column.startswith(f"{name}.")]
        if name in columns:
            section[name] = name
        elif parts and name in SEVERAL:
            section[name] = {part: f"{name}.{_as_step(part)}" for part in parts}
    if kind == LABELS and _LABEL_TIME in columns:
        section[_TIME] = _LABEL_TIME
    return replace(parse(section, kind, bare=True, origin=origin), implied=frozenset(REQUIRED[kind]))


def _as_step(name: str) -> str:
    """Return a name as a step of a path, with quotes if it needs them."""
    if (step := _STEP.fullmatch(name)) is not None and step[2] is not None and name == name.strip():
        return name
    escaped = name.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


def as_text(value: Any) -> str:
    """Return a value as text for comparisons: booleans as `true` or `false`, whole numbers without fraction.

    >>> as_text(True), as_text(1.0), as_text(0.5), as_text(None), as_text(b"x")
    ('true', '1', '0.5', 'null', 'x')
    """
    if isinstance(value, str):
        return value
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


def _kind(value: Any) -> int:
    if value not in KINDS:
        raise MappingError(("as",), f"as {values.quoted(value)}: expected {', '.join(KINDS)}")
    return KINDS.index(value)


class _MappingParser:
    """Parses the parts of a mapping."""

    def __init__(self, bare: bool) -> None:
        self._bare = bare

    def field(self, given: Any, name: str, *above: Any) -> Field:
        """Parse a field; `above` are the keys before it."""
        keys = (*above, name)
        if isinstance(given, str):
            return Field(self._path(given, keys))
        if name == _ID and isinstance(given, list) and given:
            return Field(parts=tuple(self._path(one, (*keys, place)) for place, one in enumerate(given)))
        if not isinstance(given, Mapping):
            wrong = f"{name} is {values.quoted(given)}: expected a path, or e.g. {{const: 1}}"
            raise MappingError(keys, wrong)
        more: dict[str, Callable[[Any], Any]] = {}
        if name in TARGETS:
            more = {"threshold": _number, "above": _class, "below": _class}
        if name in _NAMES or above:
            more["map"] = _names
        if name == _TIME:
            more |= {"unit": unit, "timezone": time_zone}
        known = ("const", "path", *more)
        for key in given:
            if key not in known:
                raise MappingError((*keys, key), f"unknown key {key!r} of {name}; known: {', '.join(known)}")
        if ("const" in given) == ("path" in given) or ("const" in given and len(given) > 1):
            settings_of_path = f", and next to path {', '.join(more)}" if more else ""
            raise MappingError(keys, f"{name}: expected either const or path{settings_of_path}")
        if "const" in given:
            return Field(const=self._value(_class, given["const"], (*keys, "const")))
        settings = {
            key: self._value(parser, given[key], (*keys, key)) for key, parser in more.items() if key in given
        }
        if settings.keys() & _CUT and settings.keys() != _CUT:
            has = f"{name} has {', '.join(settings)}"
            raise MappingError(keys, f"{has}: expected all of threshold, above and below, and no map")
        if (why := why_no_zone(settings.get("unit"), settings.get("timezone"))) is not None:
            raise MappingError(keys, f"{name}: {why}")
        names = settings.pop("map", None)
        return Field(self._path(given["path"], (*keys, "path")), names=names, **settings)

    def probabilities(self, given: Any, y_pred: Field) -> Mapping[str, ProbabilityField] | Path:
        """Parse the probabilities by class; for two classes, one probability determines the other."""
        if isinstance(given, str):
            return self._path(given, ("y_proba",))
        if not isinstance(given, Mapping) or not given:
            raise MappingError(
                ("y_proba",),
                f"y_proba is {values.quoted(given)}: expected classes and the path of each one's probability",
            )
        shares: dict[str, ProbabilityField] = {}
        for key, text in given.items():
            name = self._value(_class, key, ("y_proba", key))
            remainder = isinstance(text, str) and _REST.match(text.strip()) is not None
            path_text = _REST.sub("", text.strip(), count=1) if remainder else text
            path = self._path(path_text, ("y_proba", key))
            shares[as_text(name)] = ProbabilityField(path, remainder)
        if len(shares) == 1:
            [(name, share)] = shares.items()
            others = {as_text(one) for one in (y_pred.above, y_pred.below) if one is not None}
            others |= {as_text(one) for one in (y_pred.names or {}).values()}
            if len(others) != _TWO or name not in others:
                raise MappingError(
                    ("y_proba",),
                    f"y_proba has the class {name!r} only: expected all classes; the other one of two is "
                    f"written as `1 - {share.path}`",
                )
            [other] = others - {name}
            shares[other] = ProbabilityField(share.path, not share.is_remainder)
        return shares

    def segments(self, given: Any) -> Mapping[str, Field] | Path:
        """Parse the segments by key, or the path of an object."""
        if isinstance(given, str):
            return self._path(given, ("segments",))
        if not isinstance(given, Mapping):
            wrong = f"segments is {values.quoted(given)}: expected keys and their paths"
            raise MappingError(("segments",), wrong)
        return {as_text(key): self.field(one, key, "segments") for key, one in given.items()}

    def conditions(self, given: Any) -> tuple[RecordCondition, ...]:
        """Parse one condition, or a list of conditions that must all hold."""
        return tuple(self._condition(one) for one in (given if isinstance(given, list) else [given]))

    def _condition(self, given: Any) -> RecordCondition:
        match = _CONDITION.fullmatch(given.strip()) if isinstance(given, str) else None
        if match is None:
            return RecordCondition(self._path(self._compared(given, given, ""), ("when",)))
        return RecordCondition(
            self._path(self._compared(given, match[1], match[3]), ("when",)), match[3].strip("\"'"),
            match[2] == "=",
        )  # fmt: skip

    @staticmethod
    def _compared(given: Any, path: Any, value: str) -> Any:
        """Return the path; raises MappingError for an unknown comparison."""
        if isinstance(path, str) and (_COMPARISON.search(_QUOTED.sub("", path)) or value.startswith("=")):
            raise MappingError(
                ("when",), f"when: {values.quoted(given)}: expected a path, PATH = VALUE or PATH != VALUE"
            )
        return path

    def _path(self, text: Any, keys: Sequence[Any]) -> Path:
        path: Path = self._value(lambda text: Path.parse(text, self._bare), text, keys)
        return path

    def _value(self, parser: Callable[[Any], Any], given: Any, keys: Sequence[Any]) -> Any:
        try:
            return parser(given)
        except ValueError as error:
            raise MappingError(keys, f"{'.'.join(map(str, keys))}: {error}") from error


def _class(value: Any) -> values.Class:
    return values.target("value", value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{values.quoted(value)}: expected a number")
    return float(value)


def _names(value: Any) -> dict[str, values.Class]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"{values.quoted(value)}: expected values and the name for each")
    return {as_text(key): _class(name) for key, name in value.items()}
