"""Values of settings as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from prequential.configuration.settings import streams
from prequential.configuration.settings.by_key import setting_of
from prequential.configuration.settings.streams import DetectorConfig
from prequential.topics.errors import is_secret

#: Stands for the value of such a key, and for its change.
HIDDEN, CHANGED = "(not shown)", "changed"


def shown(key: str, value: Any) -> str:
    """A value as a file would have it, in one line.

    >>> shown("label_horizon", 86_400_000), shown("champion", None), shown("coverage", True)
    ('1d', 'null', 'true')
    >>> shown("detectors", (DetectorConfig("adwin", "error", {"delta": 0.01}),))
    '[{detector: adwin, signal: error, delta: 0.01}]'
    >>> shown("http.token", "file:/run/token")
    '(not shown)'
    """
    if is_secret(key):
        return HIDDEN
    values = setting_of(key).values
    if value is None or values is None or values.text is None:
        return plain_text(value)
    return values.text(value)


def plain_text(value: Any) -> str:
    """A value that is no duration and no secret, as a file would have it, in one line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, DetectorConfig):
        return _mapping({"detector": value.detector, "signal": value.signal, **value.params})
    if isinstance(value, streams.Objective):
        first = {} if value.reference is None else {"reference": value.reference}
        return _mapping({**value.bounds, **first, "tolerance": value.tolerance, "level": value.level})
    if isinstance(value, streams.DisparityConfig):
        return _mapping(asdict(value))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(plain_text, value))}]"
    return f"{value:g}" if isinstance(value, float) else '""' if value == "" else str(value)


def _mapping(entries: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {plain_text(value)}" for key, value in entries.items()) + "}"
