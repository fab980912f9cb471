"""The names in a record that aren't known yet: its stream, model, class, version, segments."""

from __future__ import annotations

from typing import Any, NamedTuple

from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.limits import check_class, check_model, check_stream
from prequential.engine.catalog.streams import Stream
from prequential.engine.input.fields import (
    class_name,
    number_of,
    numbers_of,
    quantiles_of,
    set_name,
)
from prequential.engine.input.versions import family_of
from prequential.engine.tables.records import INSTANCE, PREDICTION


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
