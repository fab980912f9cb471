"""Versions of a model that are evaluated as models of their own, so that a roll-out is a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prequential.configuration.settings.model import Config


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
