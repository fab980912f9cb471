"""A configuration as keys and values, as a file has them; what may be a secret has no value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

import msgspec
from prequential.configuration.settings.durations import exact_duration
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import (
    DetectorConfig,
    DisparityConfig,
    Objective,
    PeriodAlarmConfig,
    StreamConfig,
)
from prequential.topics.errors import is_secret

#: Keys whose values are times in ms.
DURATIONS = frozenset(
    {"label_horizon", "settle", "period", "season", "emit.every", "emit.comparisons", "emit.idle", "cluster",
     "worker.session_timeout", "worker.grace", "worker.commit_every",
     "worker.snapshot_every", "worker.stop_within", "notify.timeout"}
)  # fmt: skip

#: Stands for the value of such a key, and for its change.
HIDDEN, CHANGED = "(not shown)", "changed"

#: Sections of the configuration other than those of streams.
_SECTIONS = ("kafka", "limits", "http", "worker", "notify")


def of_stream(config: StreamConfig) -> dict[str, Any]:
    """The settings of a stream by key, as in a file: `emit.every`, `period_alarms.miss`."""
    found: dict[str, Any] = {}
    for field in fields(StreamConfig):
        value = getattr(config, field.name)
        if not field.compare:
            continue
        if isinstance(value, PeriodAlarmConfig):
            found |= {f"{field.name}.{one.name}": getattr(value, one.name) for one in fields(value)}
        else:
            found[field.name.replace("emit_", "emit.")] = value
    return found


def of_rest(config: Config) -> dict[str, Any]:
    """The settings of everything but streams, by key: `kafka.prefix`, `kafka.security.sasl.mechanism`."""
    found: dict[str, Any] = {}
    for section in _SECTIONS:
        for field in fields(getattr(config, section)):
            value, key = getattr(getattr(config, section), field.name), f"{section}.{field.name}"
            if isinstance(value, Mapping):
                found |= {f"{key}.{name}": one for name, one in value.items()}
            else:
                found[key] = value
    found |= {f"files.{name}": mappings for name, mappings in config.files.items()}
    found |= {f"ingest.{','.join(source.topics)}": source for source in config.ingest}
    return found


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
    if key in DURATIONS and value is not None:
        return exact_duration(value)
    return _plain(value)


def _plain(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, DetectorConfig):
        return _mapping({"detector": value.detector, "signal": value.signal, **value.params})
    if isinstance(value, Objective):
        first = {} if value.reference is None else {"reference": value.reference}
        return _mapping({**value.bounds, **first, "tolerance": value.tolerance, "level": value.level})
    if isinstance(value, DisparityConfig):
        return _mapping(asdict(value))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_plain, value))}]"
    return f"{value:g}" if isinstance(value, float) else '""' if value == "" else str(value)


def _mapping(entries: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_plain(value)}" for key, value in entries.items()) + "}"


class ListedSettings(msgspec.Struct, frozen=True):
    """What a digest of a stream's settings (`config` in messages) stands for."""

    config: str
    #: By key (`texts`).
    settings: dict[str, str | list[str]]


#: Keys of a stream that its digest (`StreamConfig.digest`) isn't of.
_NOT_EVALUATED = ("emit.", "alarm_change")


def texts(config: StreamConfig) -> dict[str, str | list[str]]:
    """The settings of a stream that its digest is of, by key: each as a text, or texts of a list's items.

    >>> found = texts(StreamConfig(settle=1000))
    >>> found["settle"], found["stages"], "emit.every" in found
    ('1s', ['initial', 'final'], False)
    """
    return {
        key: text_of(key, value)
        for key, value in of_stream(config).items()
        if not key.startswith(_NOT_EVALUATED)
    }


def text_of(key: str, value: Any) -> str | list[str]:
    """A value as a text, and a list that isn't empty as texts of its items.

    >>> text_of("stages", ("initial", "final")), text_of("stages", ()), text_of("period", None)
    (['initial', 'final'], '[]', 'null')
    """
    if isinstance(value, tuple) and value and not is_secret(key):
        return [_plain(one) for one in value]
    return shown(key, value)


def difference(key: str, before: Any, after: Any) -> Iterator[str]:
    """Yield a value before and after in one line; for lists, the entries that were added and removed.

    >>> list(difference("estimators", ("all", "window:10"), ("all", "decay:1h")))
    ['without window:10', 'with decay:1h']
    >>> list(difference("period", None, 86_400_000)), list(difference("stages", ("a", "b"), ("b", "a")))
    (['null -> 1d'], ['[a, b] -> [b, a]'])
    >>> list(difference("kafka.security.sasl.password", "env:ONE", "env:OTHER"))
    ['changed']
    """
    if is_secret(key):
        yield CHANGED
    else:
        yield from between(text_of(key, before), text_of(key, after))


def between(before: str | list[str], after: str | list[str]) -> Iterator[str]:
    """Yield a text (`text_of`) before and after in one line; for lists, the added and removed entries.

    >>> list(between(["all"], ["all", "decay:1h"])), list(between("null", ["all"]))
    (['with decay:1h'], ['null -> [all]'])
    """
    if isinstance(before, list) and isinstance(after, list):
        gone = [one for one in before if one not in after]
        come = [one for one in after if one not in before]
        if gone:
            yield f"without {', '.join(gone)}"
        if come:
            yield f"with {', '.join(come)}"
        if gone or come:
            return
    yield f"{_joined(before)} -> {_joined(after)}"


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else f"[{', '.join(text)}]"
