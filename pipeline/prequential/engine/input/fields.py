"""Fields of messages as they are evaluated, or why a record is none; and names that aren't known yet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from prequential.configuration.settings.model import Config
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.limits import check_class, check_model, check_stream
from prequential.engine.catalog.streams import Stream
from prequential.engine.tables.errors import Unusable
from prequential.engine.tables.records import INSTANCE, PREDICTION
from prequential.engine.tables.store import LEVEL
from prequential.topics import values
from prequential.topics.messages import NUMBERS, NUMBERS_OF_KIND

#: Numbers beyond it would overflow when they are squared and added up.
_LARGEST = 1e100


def class_name(value: Any, field: str) -> str:
    """A class as output shows it; raises Unusable for a fraction, and for a set of labels.

    >>> [class_name(value, "y_true") for value in (True, 3, "3")]
    ['true', '3', '3']
    """
    if type(value) is str:
        return value
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, values.LabelSet):
        raise Unusable(
            f"{field} is {values.quoted(value)}, a set of labels: expected one class, or `task: multilabel`"
        )
    raise Unusable(f"class {value!r} is a fraction: expected a string, an integer or a boolean")


def set_name(value: Any, field: str) -> str:
    """The name of a set of labels, also from a JSON array as text; raises Unusable for anything else.

    >>> set_name('["b", "a"]', "y_true")
    '["a","b"]'
    """
    found = values.label_set_of_text(value) if isinstance(value, str) else value
    if not isinstance(found, values.LabelSet):
        raise Unusable(
            f"{field} {values.quoted(value)}: expected an array of labels, such as [\"a\", \"b\"] or [] "
            "(task: multilabel)"
        )
    return str(found)


def number_of(value: Any, field: str) -> float:
    """A number as it is evaluated; raises Unusable for anything else, and for numbers that are too large."""
    if type(value) in (int, float) and -_LARGEST <= value <= _LARGEST:
        return float(value)
    expected = values.expected_number(value, f"a number up to {_LARGEST:g}")
    raise Unusable(f"{field} {str(value)[:24]!r}: expected {expected} (task: regression)")


def numbers_of(record: Any, wanted: int) -> list[float]:
    """The numbers of a record by place, up to the last that is wanted; raises Unusable for an invalid one.

    `wanted` are bits by place in `NUMBERS`. NaN stands for one that isn't wanted, or that has no default.

    >>> from prequential.topics.messages import Prediction
    >>> numbers_of(Prediction("s", "m", "1", 2.0, y_lower=1, y_upper=2.5), 6)
    [nan, 1.0, 2.5]
    """
    if not wanted:
        return []
    read = _read(record.KIND, wanted)
    try:
        given = values.numbers({name: getattr(record, name) for name in read})
    except ValueError as error:
        keys = (f" ({key})" for key in {NUMBERS[name].key for name in read} if key)
        raise Unusable("".join((str(error), *keys))) from None
    return [
        given.get(name, number.default) if name in read else math.nan
        for name, number in islice(NUMBERS.items(), wanted.bit_length())
    ]


@cache
def _read(kind: int, wanted: int) -> tuple[str, ...]:
    """The wanted numbers that a kind of records has."""
    return tuple(
        name for place, name in enumerate(NUMBERS) if wanted >> place & 1 and name in NUMBERS_OF_KIND[kind]
    )


def quantiles_of(record: Any) -> dict[int, float]:
    """The quantiles of a prediction by level, in units of `LEVEL`; raises Unusable for invalid ones.

    >>> from prequential.topics.messages import Prediction
    >>> quantiles_of(Prediction("s", "m", "1", 2.0, quantiles={"0.5": 2.5}))
    {4611686018427387904: 2.5}
    """
    try:
        given = values.quantiles(record.quantiles)
    except ValueError as error:
        raise Unusable(str(error)) from None
    return {int(float(level) / LEVEL): number for level, number in (given or {}).items()}


def separate_versions(config: Config, predictions: Sequence[Any]) -> None:
    """Let predictions of streams with `versions: separate` be those of a model `MODEL:VERSION`.

    Those that carry no version keep their model. Records that couldn't be decoded are None. To be called once
    for a record.
    """
    for record in predictions:
        if record is None or record.model_version is None:
            continue
        if config.stream(record.stream).versions == "separate":
            record.model = f"{record.model}:{record.model_version}"


def family_of(prediction: Any) -> str:
    """The model that a version evaluated apart is of.

    >>> from prequential.topics.messages import Prediction
    >>> family_of(Prediction("s", "nb:1:2", "7", "a", model_version="1:2"))
    'nb'
    """
    name: str = prediction.model
    return name[: -len(str(prediction.model_version)) - 1]


class News(NamedTuple):
    """Names of a record that aren't known yet, and what else is made for it."""

    stream: bool
    model: bool
    retires: bool  # whether its model is a version that takes another one's place
    target: str | None  # a class
    correction: bool  # of its model
    version: str | None
    values: list[tuple[int, str]]  # of segments, by key


def stream_of(catalog: Catalog, record: Any) -> Stream:
    """A record's stream; one that isn't known has no code."""
    name = record.stream
    return catalog.by_name.get(name) or Stream(-1, name, catalog.config.stream(name))


def news_of(catalog: Catalog, stream: Stream, record: Any) -> News | None:
    """The unknown names in a record, if any; raises Unusable for an invalid record."""
    kind = record.KIND
    is_new = stream.code < 0
    if is_new:
        check_stream(catalog, stream.name)
    model = retires = correction = False
    target = version = None
    if kind == PREDICTION:
        model = record.model not in stream.models
        if model:
            retires = _retires(catalog, stream, record)
            check_model(catalog, stream, record.model, retires=retires)
    if kind != INSTANCE:
        target = _target(catalog, stream, record, kind)
        numbers_of(record, stream.reads)
    if kind == PREDICTION:
        if "quantiles" in stream.fields:
            quantiles_of(record)
        correction = bool(record.y_proba) and _lacks_correction(catalog, stream, record.model)
        if record.model_version is not None:
            version = _unknown_version(stream, str(record.model_version))
    values = _unknown_values(stream, record)
    named = target is not None or version is not None  # an empty name is one, too
    if not (is_new or model or correction or named or values):
        return None
    return News(is_new, model, retires, target, correction, version, values)


def _target(catalog: Catalog, stream: Stream, record: Any, kind: int) -> str | None:
    """The class that a record names, if it isn't known."""
    value, field = (record.y_pred, "y_pred") if kind == PREDICTION else (record.y_true, "y_true")
    if value is None:  # the label is withdrawn
        return None
    if stream.config.task == "regression":
        number_of(value, field)
        return None
    target = set_name(value, field) if stream.config.has_sets else class_name(value, field)
    check_class(catalog, stream, target)
    return None if target in stream.classes else target


def _lacks_correction(catalog: Catalog, stream: Stream, model: str) -> bool:
    """Whether the temporal correction of a model is wanted, and isn't there."""
    if not stream.config.temporal_correction or stream.config.task == "regression":
        return False
    row = stream.models.get(model)
    return row is None or not catalog.columns.entities.corrected[row]


def _retires(catalog: Catalog, stream: Stream, record: Any) -> bool:
    """Whether a prediction of a model that isn't known is of a version that takes another one's place.

    It does where its model has as many as there may be, or the stream has as many models.
    """
    if stream.config.versions != "separate" or record.model_version is None:
        return False
    limits, versions = catalog.config.limits, stream.families.get(family_of(record), ())
    is_full = len(versions) >= limits.versions_per_model or len(stream.models) >= limits.models_per_stream
    return bool(versions) and is_full


def _unknown_version(stream: Stream, name: str) -> str | None:
    """A model's version, if it isn't known."""
    try:
        stream.version(name)
    except KeyError:
        return name
    return None


def _unknown_values(stream: Stream, record: Any) -> list[tuple[int, str]]:
    """Values of a record's segments that aren't known, by the places of their keys."""
    given = getattr(record, "segments", None)
    unknown: list[tuple[int, str]] = []
    if not given:
        return unknown
    for key, name in enumerate(stream.config.segments):
        if name in given:
            try:
                stream.position(key, given[name])
            except KeyError:
                unknown.append((key, given[name]))
    return unknown
