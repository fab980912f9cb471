"""river, which is an optional dependency."""

from __future__ import annotations

import importlib
from typing import Any

from prequential.topics.errors import WorkError


def river(module: str) -> Any:
    """A module of river, such as `linear_model`. Raises WorkError if river is not installed."""
    try:
        return importlib.import_module(f"river.{module}")
    except ModuleNotFoundError as error:
        raise WorkError(
            f"the demo's models need {error.name!r}, which is not installed: pip install 'prequential[demo]'"
        ) from error
