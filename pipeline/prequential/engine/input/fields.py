"""Fields of messages as they are evaluated, or why a record is none; limits; records sure to be taken.

Only the join decides whether it takes a record. It is asked in the middle of a micro-batch only where a limit
is near.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.model import Config, Limits
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import MOST_VERSIONS, Stream
from prequential.engine.compiled.ids import Ids, find_hashed, hash_of
from prequential.engine.compiled.kernel import Bytes, kernel
from prequential.engine.estimators.naming import CORRECTED_SUFFIX, RANDOM_SUFFIX
from prequential.engine.join.join import TOO_MANY_INSTANCES
from prequential.engine.tables.records import INSTANCE, PREDICTION, Unusable
from prequential.engine.tables.store import LEVEL, Instances, Predictions, Store, count_of
from prequential.topics import values
from prequential.topics.messages import NUMBERS, NUMBERS_OF_KIND


def check_stream(catalog: Catalog, name: str) -> None:
    """Raise Unusable for a stream that would be one too many (`limits.streams_per_shard`)."""
    limit = catalog.config.limits.streams_per_shard
    if name not in catalog.by_name and len(catalog.streams) >= limit:
        raise Unusable(f"stream {name!r} is one too many: limits.streams_per_shard is {limit}")


def check_model(catalog: Catalog, stream: Stream, name: str, *, retires: bool = False) -> None:
    """Raise Unusable for a model that would be one too many, or whose name is taken.

    The limit is `limits.models_per_stream`. A model that `retires` another one takes its place, so it isn't
    one too many. These names are taken: evaluated baselines, random predictions, corrections, and versions
    that gave way to newer ones.
    """
    config = stream.config
    numbers = config.task == "regression"
    evaluated = {f"@{baseline}" for baseline in config.baselines if baseline != "random"}
    reserved = (
        (not numbers and name in evaluated)
        or (name.endswith(RANDOM_SUFFIX) and "random" in config.baselines)
        or (name.endswith(CORRECTED_SUFFIX) and config.temporal_correction and not numbers)
    )
    if reserved:
        raise Unusable(f"model {name!r}: the name is reserved for a baseline or a correction")
    limit = catalog.config.limits.models_per_stream
    if name in stream.retired:
        raise Unusable(
            f"model {name!r} is a version that gave way to newer ones (limits.versions_per_model, "
            "limits.models_per_stream)"
        )
    if retires and len(stream.retired) >= MOST_VERSIONS:
        gone = f"{MOST_VERSIONS} of the stream have given way to newer ones"
        raise Unusable(f"model {name!r} is a version too many: {gone}")
    if name not in stream.models and len(stream.models) >= limit and not retires:
        raise Unusable(f"model {name!r} is one too many: limits.models_per_stream is {limit}")


def check_class(catalog: Catalog, stream: Stream, name: str) -> None:
    """Raise Unusable for a class that would be one too many (`limits.classes_per_stream`)."""
    limit = catalog.config.limits.classes_per_stream
    if name not in stream.classes and len(stream.class_names) >= limit:
        raise Unusable(f"class {name!r} is one too many: limits.classes_per_stream is {limit}")


#: Numbers beyond it would overflow when they are squared and added up.
_LARGEST = 1e100


def class_name(value: Any, field: str) -> str:
    """A class as output shows it; raises Unusable for a set of labels, and for a number with too many digits.

    >>> [class_name(value, "y_true") for value in (True, 3, "3", 0.5)]
    ['true', '3', '3', '0.5']
    """
    if type(value) is str:
        return value
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, values.ArrayText):
        raise Unusable(
            f"{field} is {values.quoted(value)}, a set of labels: expected one class, or `task: multilabel`"
        )
    try:
        return values.class_name(field, value)
    except ValueError as error:
        raise Unusable(str(error)) from None


def set_name(value: Any, field: str, classes: Sequence[str] | None = None) -> str:
    """The name of a set of labels, also from a JSON array as text; raises Unusable for anything else.

    `classes`, a stream's setting, name the labels of indicators.

    >>> set_name('["b", "a"]', "y_true"), set_name("[0, 1]", "y_true", ("a", "b"))
    ('["a","b"]', '["b"]')
    """
    array = values.array_of_text(value) if isinstance(value, str) else None
    if isinstance(array, values.Indicators):
        try:
            return str(values.set_of_indicators(field, array, classes))
        except ValueError as error:
            raise Unusable(str(error)) from None
    if array is None:
        raise Unusable(
            f'{field} {values.quoted(value)}: expected an array of labels, such as ["a", "b"] or [] '
            "(task: multilabel)"
        )
    return str(array)


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
        numbers = values.numbers({name: getattr(record, name) for name in read})
    except ValueError as error:
        keys = (f" ({key})" for key in {NUMBERS[name].key for name in read} if key)
        raise Unusable("".join((str(error), *keys))) from None
    return [
        numbers.get(name, number.default) if name in read else math.nan
        for name, number in islice(NUMBERS.items(), wanted.bit_length())
    ]


@cache
def _read(kind: int, wanted: int) -> tuple[str, ...]:
    """The wanted numbers that a kind of records has."""
    return tuple(
        name for index, name in enumerate(NUMBERS) if wanted >> index & 1 and name in NUMBERS_OF_KIND[kind]
    )


def quantiles_of(record: Any) -> dict[int, float]:
    """The quantiles of a prediction by level, in units of `LEVEL`; raises Unusable for invalid ones.

    >>> from prequential.topics.messages import Prediction
    >>> quantiles_of(Prediction("s", "m", "1", 2.0, quantiles={"0.5": 2.5}))
    {4611686018427387904: 2.5}
    """
    try:
        quantiles = values.quantiles(record.quantiles)
    except ValueError as error:
        raise Unusable(str(error)) from None
    return {int(float(level) / LEVEL): number for level, number in (quantiles or {}).items()}


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
        target = _target(catalog, stream, record)
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


def target_of(record: Any) -> tuple[Any, str]:
    """The target of a prediction or a label, and the name of its field."""
    return (record.y_pred, "y_pred") if record.KIND == PREDICTION else (record.y_true, "y_true")


def _target(catalog: Catalog, stream: Stream, record: Any) -> str | None:
    """The class that a record names, if it isn't known."""
    value, field = target_of(record)
    if value is None:  # the label is withdrawn
        return None
    if stream.config.task == "regression":
        number_of(value, field)
        return None
    config = stream.config
    target = set_name(value, field, config.classes) if config.has_sets else class_name(value, field)
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
    segments = getattr(record, "segments", None)
    unknown: list[tuple[int, str]] = []
    if not segments:
        return unknown
    for key, name in enumerate(stream.config.segments):
        if name in segments:
            try:
                stream.position(key, segments[name])
            except KeyError:
                unknown.append((key, segments[name]))
    return unknown


@kernel
def count_predictions(
    ids: Ids, instances: Instances, predictions: Predictions, stream: int, text: Bytes
) -> int:
    """How many predictions an instance has."""
    end = len(text)
    slot = find_hashed(ids, hash_of(ids, stream, text, 0, end), stream, text, 0, end)
    return count_of(predictions, instances.first[slot]) if slot else 0


class Admission:
    """How many rows of a micro-batch are sure to be taken, as limits stand at its beginning.

    `remembered` instances are known; `streams` are those that the catalog had then. With `first_admitted` the
    first record is sure to be taken: the join has been asked.
    """

    def __init__(
        self, limits: Limits, store: Store, remembered: int, streams: int, *, first_admitted: bool = False
    ) -> None:
        self._store = store
        self._room = limits.instances_per_shard - remembered
        self._most = limits.predictions_per_instance
        self._streams = streams
        self._first_admitted = first_admitted

    def slack(self, record: Any, stream: int, row: int) -> int:
        """With fewer rows than these before it a record is sure to be taken; 0: not even as the first one.

        Each of the others may be another instance, or another prediction for the same one.
        """
        if self._first_admitted and row == 0:
            return 1
        if record.KIND != PREDICTION or self._room <= 0:
            return max(0, self._room)
        return max(0, min(self._room, self._most - self._waiting(record, stream)))

    def is_sure(self, record: Any, stream: int, row: int, of_stream: int) -> bool:
        """Whether a record is sure to be taken after `row` others, at most `of_stream` of them of its stream.

        Only these may be predictions for the same instance.
        """
        if self._first_admitted and row == 0:
            return True
        if row >= self._room:
            return False
        return record.KIND != PREDICTION or min(row, of_stream) < self._most - self._waiting(record, stream)

    def _waiting(self, record: Any, stream: int) -> int:
        """How many predictions of a prediction's instance wait."""
        if not 0 <= stream < self._streams:
            return 0
        store = self._store
        text = np.frombuffer(record.instance_id.encode(), dtype=np.uint8)
        return count_predictions(store.ids, store.instances, store.predictions, stream, text)


def reason_of(code: int, record: Any, limits: Limits) -> str:
    """The sentence that explains why the join has refused a record, by its code in `Rows.refused`."""
    if code == TOO_MANY_INSTANCES:
        return (
            "the shard remembers too many instances: limits.instances_per_shard is "
            f"{limits.instances_per_shard}"
        )
    return (
        f"instance {record.instance_id!r} has {limits.predictions_per_instance} predictions waiting: "
        f"limits.predictions_per_instance is {limits.predictions_per_instance}"
    )
