"""Records of anybody's shape, batch by batch, into input records, or into the reason why one can't be used.

What comes out is what `prequential.topics.decoding` gives for the JSON that such a record would be written
as. A value of a source may have more forms than one of ours, and is brought to ours: whole numbers without a
fraction (tables write them with one where cells are empty), text that is a number where one is needed, dates,
bytes that are UTF-8. An empty cell, NaN and null are all no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, Protocol

from prequential.mapping import conversion
from prequential.mapping.clocks import Clocks
from prequential.mapping.columns import whole_column
from prequential.mapping.model import TARGETS, Condition, Field, Path, RecordMapping, as_text
from prequential.mapping.uses import Uses
from prequential.topics import values
from prequential.topics.messages import (
    SUM_SURELY_WITHIN,
    Instance,
    Label,
    Prediction,
    Record,
    check_probabilities,
)

#: Structs by kind.
STRUCTS: tuple[type[Any], ...] = (Instance, Prediction, Label)

_REQUIRED = ("stream", "model", "instance_id", *TARGETS)

Converter = Callable[[str, Any], Any]


class Table(Protocol):
    """A batch of a source's records, by paths."""

    def __len__(self) -> int: ...

    def column(self, path: Path) -> list[Any]:
        """What every record has there; None where it has nothing."""
        ...


class Records:
    """A batch of records of topics: decoded values, keys, headers, topics and timestamps (ms), where known.

    >>> Records([{"a": {"b": 1}}, {}]).column(Path.parse("value.a.b"))
    [1, None]
    """

    def __init__(
        self,
        values: Sequence[Any],
        keys: Sequence[Any] | None = None,
        headers: Sequence[Any] | None = None,
        topics: Sequence[str] | None = None,
        timestamps: Sequence[int | None] | None = None,
    ) -> None:
        self._roots = {
            "value": values, "key": keys, "headers": headers, "topic": topics, "timestamp": timestamps,
        }  # fmt: skip
        self._count = len(values)

    def __len__(self) -> int:
        return self._count

    def column(self, path: Path) -> list[Any]:
        """What every record has at a path, in their order; None where it has nothing."""
        roots = self._roots[path.root]
        if roots is None:
            return [None] * self._count
        if path.root == "headers":
            return [_header(one, path.keys[0]) for one in roots]
        return pick(roots, path.keys)


def pick(values: Sequence[Any], keys: tuple[str, ...]) -> list[Any]:
    """What each value has below these names, in their order; None where it has nothing.

    >>> pick([{"a": [5, 6]}, {"a": None}], ("a", "1"))
    [6, None]
    """
    column = list(values)
    try:
        for key in keys:
            column = [one[key] for one in column]
    except (KeyError, TypeError, IndexError):
        return [_walk(one, keys) for one in values]
    return column


def _walk(one: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        if isinstance(one, Mapping):
            one = one.get(key)
        elif isinstance(one, (list, tuple)) and key.isdigit() and int(key) < len(one):
            one = one[int(key)]
        else:
            return None
    return one


def _header(headers: Any, name: str) -> Any:
    """The last header of a name, as Kafka's clients have it."""
    if isinstance(headers, Mapping):
        return headers.get(name)
    return next((content for key, content in reversed(headers or ()) if key == name), None)


class Translated(NamedTuple):
    """Input records by place in the batch: None where `reasons` says why, or `passed` that none is meant."""

    records: list[Record | None]
    reasons: dict[int, str]
    passed: frozenset[int]


class Translator:
    """Applies a mapping.

    `is_regression` says of a stream whether its targets are numbers: then text must be one. The targets of
    `text` sources (CSV) are read as tables write them: `1.0` as 1, `True` as true. Rows whose label is absent
    are passed over where `unlabelled` rows are to be expected.

    >>> from prequential.mapping.model import parse
    >>> section = {"as": "labels", "stream": {"const": "s"}, "instance_id": "value.id",
    ...     "y_true": {"path": "value.paid", "map": {"1": "good", "0": "bad"}},
    ...     "ts": {"path": "value.at", "unit": "s"}}
    >>> translate = Translator(parse(section))
    >>> translate(Records([{"id": 7, "paid": 1, "at": 1.5}])).records
    [Label(stream='s', instance_id='7', y_true='good', ts=1500, value=None)]
    >>> translate(Records([{"id": 7, "paid": "2"}])).reasons
    {0: "value.paid is '2': expected 1 or 0"}
    """

    def __init__(
        self,
        mapping: RecordMapping,
        is_regression: Callable[[str], bool] = lambda stream: False,
        *,
        text: bool = False,
        unlabelled: bool = False,
    ) -> None:
        self.mapping = mapping
        self._is_regression, self._text, self._unlabelled = is_regression, text, unlabelled
        self._struct = STRUCTS[mapping.kind]
        #: Counts what times say of their zone, where somebody wants to know.
        self.clocks: Clocks | None = None
        #: What of the mapping has occurred.
        self.uses = Uses(mapping)

    def __call__(self, table: Table) -> Translated:
        """The input records of a batch."""
        count, mapping = len(table), self.mapping
        kept = self._kept(table, count)
        batch = _Batch(table, kept, {})
        columns: list[Any] = []
        for name in self._struct.__struct_fields__:
            columns.append(self._column(name, batch, columns[0] if columns else []))
        if mapping.y_proba is not None:
            of_fields = dict(zip(self._struct.__struct_fields__, columns))
            self._name_as_predictions(of_fields["y_proba"], of_fields["y_pred"], batch)
        made: list[Record | None] = list(map(self._struct, *columns))
        if len(kept) == count and not batch.reasons:
            return Translated(made, {}, frozenset())
        records: list[Record | None] = [None] * count
        for place, record in zip(kept, made):
            if place not in batch.reasons:
                records[place] = record
        return Translated(records, batch.reasons, frozenset(range(count)).difference(kept))

    def times(self, table: Table) -> tuple[frozenset[int], list[int | None]]:
        """Places of the records that are passed over, and the `ts` (ms) of all others in their order.

        The `ts` is None where nothing says it.
        """
        count = len(table)
        batch = _Batch(table, self._kept(table, count), {})
        passed = frozenset(range(count)).difference(batch.kept)
        return passed, list(self._column("ts", batch, []))

    def _kept(self, table: Table, count: int) -> Sequence[int]:
        """Places of the records that are meant."""
        kept: Sequence[int] = range(count)
        conditions = self.mapping.when
        if self._unlabelled and (path := self.mapping.fields["y_true"].path) is not None:
            conditions = (*conditions, Condition(path))
        for number, condition in enumerate(conditions):
            column, asked = table.column(condition.path), kept
            kept = [place for place in kept if _holds(condition, column[place])]
            if number < len(self.mapping.when):
                self.uses.note_condition(number, [column[place] for place in asked], len(kept))
        return kept

    def _column(self, name: str, batch: _Batch, streams: Sequence[Any]) -> Any:
        """The values of one field."""
        mapping = self.mapping
        if name == "y_proba":
            return _probabilities(mapping.y_proba, batch)
        if name == "segments":
            return _segments(mapping.segments, batch)
        one = mapping.fields.get(name)
        if one is None:
            return repeat(None, len(batch.kept))
        if one.parts:
            return _together(one.parts, batch)
        if one.path is None:
            return [_CONVERTERS[name](name, one.const)] * len(batch.kept)
        column = batch.column(one.path)
        self.uses.note_values(name, column)
        if name in TARGETS and one.threshold is None:
            column = self._targets(column, streams if one.names is None else ())
        converter = _converter(name, one)
        if name == "ts" and self.clocks is not None:
            times = partial(conversion.time, unit=one.unit, timezone=one.timezone)
            converter = partial(times, clocks=self.clocks)
        return batch.converted(column, one.path, converter, required=name in _REQUIRED)

    def _name_as_predictions(self, probabilities: list[Any], predictions: list[Any], batch: _Batch) -> None:
        """Give the classes of probabilities the names that the same values have as predictions.

        A `map` of predictions is theirs, too, and text such as `1.0` and `True` is a number or a boolean
        where predictions are, or where the source has text alone.
        """
        names = self.mapping.fields["y_pred"].names
        known = {*map(as_text, (names or {}).values())}

        def renamed(name: str, plain: bool) -> str:
            read = as_text(values.class_of_text(name)) if plain else name
            if names is None or read in known:
                return read
            return as_text(names.get(name, names.get(as_text(values.class_of_text(name)), read)))

        new_names = {
            (name, plain): renamed(name, plain)
            for name in set().union(*filter(None, probabilities)) for plain in (False, True)
        }  # fmt: skip
        if all(name == new for (name, _), new in new_names.items()):
            return
        for index, (given, prediction) in enumerate(zip(probabilities, predictions)):
            if not given:
                continue
            plain = self._text or (prediction is not None and not isinstance(prediction, str))
            made = {new_names[name, plain]: share for name, share in given.items()}
            if len(made) < len(given):
                twice = ", ".join(map(values.quoted, given))
                batch.fail(index, f"y_proba has a class twice: {twice} are {', '.join(made)}")
            probabilities[index] = made

    def _targets(self, column: list[Any], streams: Sequence[Any]) -> list[Any]:
        """Targets as their streams and source have them, before they are checked."""
        numbers = {name: self._is_regression(name) for name in set(streams) if name is not None}
        if any(numbers.values()):
            return [
                conversion.number_of_text(value) if numbers.get(name)
                else values.class_of_text(value) if self._text
                else value
                for name, value in zip(streams, column)
            ]  # fmt: skip
        return list(map(values.class_of_text, column)) if self._text else column


class _Batch:
    """The records of a batch that are meant, and why some can't be used."""

    def __init__(self, table: Table, kept: Sequence[int], reasons: dict[int, str]) -> None:
        self._table, self.kept, self.reasons = table, kept, reasons

    def column(self, path: Path) -> list[Any]:
        """What they have at a path."""
        column = self._table.column(path)
        return column if len(self.kept) == len(column) else [column[place] for place in self.kept]

    def fail(self, index: int, reason: str) -> None:
        """The record is unusable; of several reasons the first one counts."""
        self.reasons.setdefault(self.kept[index], reason)

    def converted(
        self, column: list[Any], path: Path, convert: Converter, *, required: bool = False
    ) -> list[Any]:
        """Every value in its form; None where there is none, or where it can't be had."""
        made = whole_column(convert, column)
        if made is not None:
            return made
        made = []
        for index, value in enumerate(column):
            if conversion.is_absent(value):
                if required:
                    self.fail(index, f"{path} is missing")
                made.append(None)
                continue
            try:
                made.append(convert(path.text, value))
            except ValueError as error:
                self.fail(index, str(error))
                made.append(None)
        return made


def _together(paths: tuple[Path, ...], batch: _Batch) -> list[Any]:
    """Ids of several values."""
    columns = [
        batch.converted(batch.column(path), path, conversion.instance, required=True) for path in paths
    ]
    made: list[Any] = []
    for index, parts in enumerate(zip(*columns)):
        try:
            made.append(None if None in parts else conversion.together(", ".join(map(str, paths)), parts))
        except ValueError as error:
            batch.fail(index, str(error))
            made.append(None)
    return made


def _probabilities(given: Any, batch: _Batch) -> Any:
    if given is None or isinstance(given, Path):
        return _whole(given, batch, conversion.probabilities)
    columns = []
    for one in given.values():
        convert = conversion.remainder if one.is_remainder else conversion.share
        columns.append(batch.converted(batch.column(one.path), one.path, convert))
    if any(None in column for column in columns):
        _refuse_parts(list(given.values()), columns, batch)
    made = _objects(tuple(given), columns)
    for index, probabilities in enumerate(made):
        if probabilities and sum(probabilities.values()) > SUM_SURELY_WITHIN:
            try:
                check_probabilities(probabilities)
            except ValueError as error:
                batch.fail(index, str(error))
    return made


def _refuse_parts(given: list[Any], columns: list[list[Any]], batch: _Batch) -> None:
    """Records of which some classes have a probability and others don't can't be used."""
    for index, shares in enumerate(zip(*columns)):
        if None in shares:
            known = next((place for place, share in enumerate(shares) if share is not None), None)
            if known is not None:
                absent = given[shares.index(None)].path
                batch.fail(index, conversion.missing_probability(absent.text, given[known].path.text))


def _segments(given: Any, batch: _Batch) -> Any:
    if given is None or isinstance(given, Path):
        return _whole(given, batch, conversion.segments)
    columns = [
        [conversion.name(key, one.const)] * len(batch.kept) if one.path is None
        else batch.converted(batch.column(one.path), one.path, _converter("segments", one))
        for key, one in given.items()
    ]  # fmt: skip
    return _objects(tuple(given), columns)


def _whole(path: Path | None, batch: _Batch, convert: Converter) -> Any:
    """Objects that stand as such in the source."""
    if path is None:
        return repeat(None, len(batch.kept))
    return batch.converted(batch.column(path), path, convert)


def _objects(names: tuple[str, ...], columns: list[list[Any]]) -> list[dict[str, Any] | None]:
    """Objects of these entries, without those that have no value; None for empty ones."""
    if names and not any(None in column for column in columns):
        return [dict(zip(names, row)) for row in zip(*columns)]
    return [
        {name: value for name, value in zip(names, row) if value is not None} or None for row in zip(*columns)
    ]


#: What brings a field's values to their form.
_CONVERTERS: dict[str, Converter] = {
    "stream": conversion.name, "model": conversion.name, "instance_id": conversion.instance,
    "y_pred": conversion.target, "y_true": conversion.target, "ts": conversion.time,
    "version": conversion.integer, "model_version": conversion.name, "segments": conversion.name,
    "label_propensity": conversion.propensity, "value": conversion.amount,
    "y_lower": conversion.amount, "y_upper": conversion.amount,
}  # fmt: skip


def _converter(name: str, one: Field) -> Converter:
    convert = _CONVERTERS[name]
    if one.threshold is not None:
        return partial(conversion.above_or_below, field=one)
    if one.names is not None:
        return lambda path, value: convert(path, conversion.one_of(path, value, one))
    if one.unit is not None or one.timezone is not None:
        return partial(conversion.time, unit=one.unit, timezone=one.timezone)
    return convert


def _holds(condition: Condition, value: Any) -> bool:
    if condition.value is None:
        return not conversion.is_absent(value)
    wanted = condition.value
    if not isinstance(value, str):  # `1.0` and `True` as `as_text` has them
        wanted = as_text(values.class_of_text(wanted))
    return (as_text(value) == wanted) is condition.equal
