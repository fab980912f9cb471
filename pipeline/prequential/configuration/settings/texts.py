"""Settings as text, and their differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import msgspec
from prequential.configuration.settings import streams
from prequential.configuration.settings.by_key import OF_STREAMS, key_of
from prequential.configuration.settings.model import SECTIONS_OF_REST, Config
from prequential.configuration.settings.setting import InDigest, settings_of
from prequential.configuration.settings.streams import StreamConfig
from prequential.configuration.settings.values import CHANGED, plain_text, shown
from prequential.topics.errors import is_secret


def of_stream(config: StreamConfig) -> dict[str, Any]:
    """The settings of a stream by key, as in a file: `emit.every`, `period_alarms.miss`."""
    settings: dict[str, Any] = {}
    for name in settings_of(StreamConfig):
        value = getattr(config, name)
        if isinstance(value, streams.PeriodAlarmConfig):
            settings |= {f"{name}.{inner}": getattr(value, inner) for inner in settings_of(value)}
        else:
            settings[key_of(name)] = value
    return settings


def of_rest(config: Config) -> dict[str, Any]:
    """The settings of everything but streams, by key: `kafka.prefix`, `kafka.security.sasl.mechanism`."""
    settings: dict[str, Any] = {}
    for section in SECTIONS_OF_REST:
        for entry in fields(getattr(config, section)):
            value, key = getattr(getattr(config, section), entry.name), f"{section}.{entry.name}"
            if isinstance(value, Mapping):
                settings |= {f"{key}.{name}": setting for name, setting in value.items()}
            else:
                settings[key] = value
    settings |= {f"files.{name}": mappings for name, mappings in config.files.items()}
    settings |= {f"ingest.{','.join(source.topics)}": source for source in config.ingest}
    return settings


class ListedSettings(msgspec.Struct, frozen=True):
    """What a digest of a stream's settings (`config` in messages) stands for."""

    config: str
    #: By key (`texts`).
    settings: dict[str, str | list[str]]


def texts(config: StreamConfig) -> dict[str, str | list[str]]:
    """The settings of a stream that its digest is of, by key: each as a text, or texts of a list's items.

    >>> found = texts(StreamConfig(settle=1000))
    >>> found["settle"], found["stages"], "emit.every" in found
    ('1s', ['initial', 'final'], False)
    """
    return {
        key: text_of(key, value)
        for key, value in of_stream(config).items()
        if OF_STREAMS[key].in_digest is not InDigest.NEVER
    }


def text_of(key: str, value: Any) -> str | list[str]:
    """A value as a text, and a list that isn't empty as texts of its items.

    >>> text_of("stages", ("initial", "final")), text_of("stages", ()), text_of("period", None)
    (['initial', 'final'], '[]', 'null')
    """
    if isinstance(value, tuple) and value and not is_secret(key):
        return [plain_text(entry) for entry in value]
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
        gone = [line for line in before if line not in after]
        come = [line for line in after if line not in before]
        if gone:
            yield f"without {', '.join(gone)}"
        if come:
            yield f"with {', '.join(come)}"
        if gone or come:
            return
    yield f"{_joined(before)} -> {_joined(after)}"


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else f"[{', '.join(text)}]"
