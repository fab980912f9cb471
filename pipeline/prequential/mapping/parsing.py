"""Parse a mapping, given as YAML returns it (see `prequential.mapping.model`)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from prequential.mapping import model
from prequential.mapping.conversion import CONVERTERS
from prequential.mapping.evaluations import RATING_FORMATS
from prequential.mapping.model import Field, MappingError, MappingOrigin, Path, RecordCondition, as_text
from prequential.mapping.units import time_zone, unit, why_no_zone
from prequential.topics import values
from prequential.topics.decoding import KINDS, LABELS
from prequential.topics.errors import existing

#: The field that may combine the values of several paths.
_ID = "instance_id"

#: Fields that are names.
_TEXTS = ("stream", "model", "model_version", _ID, "segments")

#: Fields that may have a `map`, and the field that has a unit.
_NAMES = ("stream", "model", "model_version", *model.TARGETS)
_TIME = "ts"

#: The column with a label's time in a table that also contains the prediction's time.
_LABEL_TIME = "label_ts"

#: Keys of a section other than fields.
ABOUT = ("as", "format", "when", "rows", "withdrawn")

#: The keys that turn a number into a class.
_CUT = {"threshold", "above", "below"}

#: The prefix of a probability that is 1 minus another one.
_REST = re.compile(r"1\s*-\s*(?=\D)")

#: A comparison of a path with a value.
_CONDITION = re.compile(r"(.+?)\s*(!=|=)\s*(.*)")

#: Characters that a path may contain only in quotes, and a quoted name.
_COMPARISON, _QUOTED = re.compile("[<>=!]"), re.compile(r'"(?:[^"\\]|\\.)*"')

#: The number of classes for which one probability is enough.
_TWO = 2


def parse(
    section: Any, kind: int | None = None, *, bare: bool = False, formats: Sequence[str] = ("json",),
    origin: MappingOrigin | None = None,
) -> model.RecordMapping:  # fmt: skip
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
    section = _of_format(section, kind)
    if kind != LABELS and section.get("withdrawn") is not None:
        wrong = f"withdrawn: expected in a mapping of labels, not of {KINDS[kind]}"
        raise MappingError(("withdrawn",), wrong)
    field_names = (*model.REQUIRED[kind], *model.OPTIONAL[kind])
    for name in section:
        if name not in field_names and name not in ABOUT:
            hint = model.hint(str(name), field_names, ABOUT)
            raise MappingError((name,), f"unknown field {name!r} of {KINDS[kind]}{hint}")
    entries = {name: entry for name, entry in section.items() if entry is not None}
    rows = _rows(entries["rows"], bare) if "rows" in entries else None
    parser = _MappingParser(bare, rows is not None)
    single = [name for name in field_names if name in entries and name not in model.SEVERAL]
    fields = {name: parser.field(entries[name], name) for name in single}
    implied = [name for name in model.REQUIRED[kind] if name not in fields]
    fields |= {name: Field(Path("value", (name,), name if bare else f"value.{name}")) for name in implied}
    objects: dict[str, Any] = {
        name: parser.fields(entries[name], name) for name in ("segments", "quantiles") if name in entries
    }
    if "y_proba" in entries:
        objects["y_proba"] = parser.probabilities(entries["y_proba"], fields["y_pred"])
    return model.RecordMapping(
        kind, section.get("format"), fields, objects,
        parser.conditions(entries["when"]) if "when" in entries else (),
        origin or MappingOrigin("the mapping"), frozenset(implied), rows,
        parser.conditions(entries["withdrawn"], "withdrawn") if "withdrawn" in entries else (),
    )  # fmt: skip


def same_names(
    kind: int, columns: Sequence[str], origin: MappingOrigin | None = None, segments: Iterable[str] = ()
) -> model.RecordMapping:
    """Return the mapping of a table whose columns have the names of input fields; other columns are ignored.

    The entries of objects may be separate columns (`y_proba.UP`, `segments.country`). A key of `segments` may
    be a column itself. Labels in the rows of their predictions may have a separate time, `label_ts`.

    >>> str(same_names(LABELS, ["y_true", "instance_id", "stream", "age", "label_ts"]).fields["ts"].path)
    'label_ts'
    """
    section: dict[str, Any] = {}
    for name in (*model.REQUIRED[kind], *model.OPTIONAL[kind]):
        parts = [column.partition(".")[2] for column in columns if column.startswith(f"{name}.")]
        if name in columns:
            section[name] = name
        elif name in model.SEVERAL:
            entries = {key: _as_step(key) for key in segments if key in columns} if name == "segments" else {}
            entries |= {part: f"{name}.{_as_step(part)}" for part in parts}
            if entries:
                section[name] = entries
    if kind == LABELS and _LABEL_TIME in columns:
        section[_TIME] = _LABEL_TIME
    return replace(parse(section, kind, bare=True, origin=origin), implied=frozenset(model.REQUIRED[kind]))


def with_times(mapping: model.RecordMapping, kind: str | None) -> model.RecordMapping:
    """Return the mapping with its time column, of type `kind`, read as ms in its own or the mapped zone."""
    if kind is None:
        return mapping
    time_field = mapping.fields["ts"]
    column_path = existing(time_field.path, "the path of a column of times")
    path, zone = (
        Path("timestamp", column_path.keys, column_path.text),
        None if "tz=" in kind else time_field.timezone,
    )
    of_time = replace(time_field, path=path, unit="ms", timezone=zone)
    return replace(mapping, fields={**mapping.fields, "ts": of_time})


def _by_column(columns: Any) -> Any:
    """Return a list of columns as columns by their names; anything else as it is."""
    if isinstance(columns, (list, tuple)) and columns and all(isinstance(column, str) for column in columns):
        return {column: _as_step(column) for column in columns}
    return columns


def _as_step(name: str) -> str:
    """Return a name as a step of a path, with quotes if it needs them."""
    if (step := model.STEP.fullmatch(name)) is not None and step[2] is not None and name == name.strip():
        return name
    escaped = name.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


def _kind(value: Any) -> int:
    if value not in KINDS:
        raise MappingError(("as",), f"as {values.quoted(value)}: expected {', '.join(KINDS)}")
    return KINDS.index(value)


def _of_format(section: Mapping[Any, Any], kind: int) -> Mapping[Any, Any]:
    """Return a section with the fields that its format has, where the section has none itself."""
    form = RATING_FORMATS.get(section.get("format"))  # type: ignore[arg-type]
    if form is None:
        return section
    if kind not in form.sections:
        raise MappingError(("format",), f"format {section['format']} has no {KINDS[kind]}")
    if kind == LABELS and form.condition is not None and section.get("when") is None:
        raise MappingError(
            ("format",), f"format {section['format']} needs a condition that separates people's labels from "
            f"those of judges: expected e.g. when: {form.condition}",
        )  # fmt: skip
    return {**form.sections[kind], **section}


def _rows(text: Any, bare: bool) -> Path:
    """Parse the path of the rows within a record; `value` alone is a record that is an array."""
    try:
        path = Path.parse(text, bare)
    except ValueError as error:
        raise MappingError(("rows",), f"rows: {error}") from error
    if path.root not in ("value", "key"):
        raise MappingError(
            ("rows",), f"rows: {values.quoted(text)}: expected the path of an array or of tensors"
        )
    return path


class _MappingParser:
    """Parses the parts of a mapping; one that `has_rows` may have paths that begin with `row`."""

    def __init__(self, bare: bool, has_rows: bool) -> None:
        self._bare, self._has_rows = bare, has_rows

    def field(self, declared: Any, name: str, *above: Any) -> Field:
        """Parse a field; `above` are the keys before it."""
        keys = (*above, name)
        if isinstance(declared, str):
            return Field(self._path(declared, keys))
        if name == _ID and isinstance(declared, list) and declared:
            return Field(parts=tuple(self._path(part, (*keys, index)) for index, part in enumerate(declared)))
        if not isinstance(declared, Mapping):
            wrong = f"{name} is {values.quoted(declared)}: expected a path, or e.g. {{const: 1}}"
            raise MappingError(keys, wrong)
        more: dict[str, Callable[[Any], Any]] = {}
        if name in model.TARGETS:
            more = {"threshold": _number, "above": _class, "below": _class}
        if name in _NAMES or above:
            more["map"] = _names
        if name == _TIME:
            more |= {"unit": unit, "timezone": time_zone}
        if name == _ID and not above:
            more["row"] = lambda text: Path.parse(text, self._bare, self._has_rows)
        else:
            more["default"] = _class
        known_keys = ("const", "path", *more)
        for key in declared:
            if key not in known_keys:
                raise MappingError(
                    (*keys, key), f"unknown key {key!r} of {name}; known: {', '.join(known_keys)}"
                )
        if ("const" in declared) == ("path" in declared) or ("const" in declared and len(declared) > 1):
            settings_of_path = f", and next to path {', '.join(more)}" if more else ""
            raise MappingError(keys, f"{name}: expected either const or path{settings_of_path}")
        if "const" in declared:
            of_field = partial(_constant, above[0] if above else name)
            return Field(const=self._value(of_field, declared["const"], (*keys, "const")))
        settings = {
            key: self._value(parser, declared[key], (*keys, key))
            for key, parser in more.items()
            if key in declared
        }
        cut = settings.keys() - {"default"}
        if cut & _CUT and cut != _CUT:
            has = f"{name} has {', '.join(settings)}"
            raise MappingError(keys, f"{has}: expected all of threshold, above and below, and no map")
        if (why := why_no_zone(settings.get("unit"), settings.get("timezone"))) is not None:
            raise MappingError(keys, f"{name}: {why}")
        names, default = settings.pop("map", None), settings.get("default")
        if default is not None and names is not None and as_text(default) not in names:
            raise MappingError(
                (*keys, "default"),
                f"{name}.default is {values.quoted(default)}: expected a value of its map: "
                f"{', '.join(names)}",
            )
        return Field(self._path(declared["path"], (*keys, "path")), names=names, **settings)

    def probabilities(self, declared: Any, y_pred: Field) -> Mapping[str, model.ProbabilityField] | Path:
        """Parse the probabilities by class; for two classes, one probability determines the other."""
        if isinstance(declared, str):
            return self._path(declared, ("y_proba",))
        declared = _by_column(declared)
        if not isinstance(declared, Mapping) or not declared:
            raise MappingError(
                ("y_proba",),
                f"y_proba is {values.quoted(declared)}: expected classes and the path "
                "of each one's probability",
            )
        shares: dict[str, model.ProbabilityField] = {}
        for key, entry in declared.items():
            name = self._value(_class, key, ("y_proba", key))
            text, default = self._with_default(entry, key)
            remainder = isinstance(text, str) and _REST.match(text.strip()) is not None
            path_text = _REST.sub("", text.strip(), count=1) if remainder else text
            path = self._path(path_text, ("y_proba", key))
            shares[as_text(name)] = model.ProbabilityField(path, remainder, default)
        if len(shares) == 1:
            [(name, share)] = shares.items()
            class_names = {as_text(value) for value in (y_pred.above, y_pred.below) if value is not None}
            class_names |= {as_text(value) for value in (y_pred.names or {}).values()}
            if len(class_names) != _TWO or name not in class_names:
                raise MappingError(
                    ("y_proba",),
                    f"y_proba has the class {name!r} only: expected all classes; the other one of two is "
                    f"written as `1 - {share.path}`",
                )
            [other_class] = class_names - {name}
            shares[other_class] = share._replace(is_remainder=not share.is_remainder)
        return shares

    def _with_default(self, declared: Any, key: Any) -> tuple[Any, float | None]:
        """Return the path of a probability as text, and the value of records that have none there."""
        if not isinstance(declared, Mapping):
            return declared, None
        for name in declared:
            if name not in ("path", "default"):
                keys = ("y_proba", key, name)
                raise MappingError(keys, f"unknown key {name!r} of y_proba.{key}; known: path, default")
        default = declared.get("default")
        if default is not None:
            default = self._value(_number, default, ("y_proba", key, "default"))
        return declared.get("path"), default

    def fields(self, declared: Any, name: str) -> Mapping[str, Field] | Path:
        """Parse segments by key, quantiles by level, or the path of an object."""
        if isinstance(declared, str):
            return self._path(declared, (name,))
        declared = _by_column(declared)
        if not isinstance(declared, Mapping):
            wrong = f"{name} is {values.quoted(declared)}: expected keys and their paths"
            raise MappingError((name,), wrong)
        return {as_text(key): self.field(entry, key, name) for key, entry in declared.items()}

    def conditions(self, declared: Any, key: str = "when") -> tuple[RecordCondition, ...]:
        """Parse one condition, or a list of conditions that must all hold."""
        return tuple(
            self._condition(condition, key)
            for condition in (declared if isinstance(declared, list) else [declared])
        )

    def _condition(self, declared: Any, key: str) -> RecordCondition:
        match = _CONDITION.fullmatch(declared.strip()) if isinstance(declared, str) else None
        path, value = (declared, "") if match is None else (match[1], match[3])
        if isinstance(path, str) and (_COMPARISON.search(_QUOTED.sub("", path)) or value.startswith("=")):
            raise MappingError(
                (key,), f"{key}: {values.quoted(declared)}: expected a path, PATH = VALUE or PATH != VALUE"
            )
        if match is None:
            return RecordCondition(self._path(path, (key,)))
        return RecordCondition(self._path(path, (key,)), value.strip("\"'"), match[2] == "=")

    def _path(self, text: Any, keys: Sequence[Any]) -> Path:
        path: Path = self._value(lambda text: Path.parse(text, self._bare, self._has_rows), text, keys)
        return path

    def _value(self, parser: Callable[[Any], Any], value: Any, keys: Sequence[Any]) -> Any:
        try:
            return parser(value)
        except ValueError as error:
            raise MappingError(keys, f"{'.'.join(map(str, keys))}: {error}") from error


def _class(value: Any) -> values.Class:
    return values.target("value", value)


def _constant(field: str, value: Any) -> values.Class:
    """Return a constant of a field, which its records must be able to have."""
    if field in _TEXTS and isinstance(value, float):
        raise ValueError(
            f"{value!r} is a number with a fraction, as YAML takes 1.10 for 1.1: expected text or a whole "
            "number; quote it, as in '1.10'"
        )
    if field in _TEXTS and values.is_set(value):
        raise ValueError(f"{values.quoted(value)}: expected text or a whole number")
    constant = _class(value)
    CONVERTERS[field]("value", constant)
    return constant


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{values.quoted(value)}: expected a number")
    return float(value)


def _names(value: Any) -> dict[str, values.Class]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"{values.quoted(value)}: expected values and the name for each")
    return {as_text(key): _class(name) for key, name in value.items()}
