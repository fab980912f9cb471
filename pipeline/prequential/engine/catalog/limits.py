"""Limits on streams, models and classes, and reserved names; the checks run before a name is registered."""

from __future__ import annotations

from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import MOST_VERSIONS, Stream
from prequential.engine.estimators.naming import CORRECTED_SUFFIX, RANDOM_SUFFIX
from prequential.engine.tables.errors import Unusable


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
    taken = (
        (not numbers and name in evaluated)
        or (name.endswith(RANDOM_SUFFIX) and "random" in config.baselines)
        or (name.endswith(CORRECTED_SUFFIX) and config.temporal_correction and not numbers)
    )
    if taken:
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
