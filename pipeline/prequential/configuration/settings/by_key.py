"""All settings by their keys in a file: `label_horizon`, `emit.every`, `period_alarms.miss`, `worker.grace`.

A key that ends with a dot stands for all that begin with it: those of a client, of files, of topics.
"""

from __future__ import annotations

from collections.abc import Iterator

from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.kafka import CLIENTS, KAFKA
from prequential.configuration.settings.model import Config, Limits, WorkerConfig
from prequential.configuration.settings.notifications import NotifyConfig
from prequential.configuration.settings.otlp import OtlpConfig
from prequential.configuration.settings.setting import Setting, settings_of
from prequential.configuration.settings.streams import PeriodAlarmConfig, StreamConfig

#: Sections within a stream's section, each of whose keys is a setting of its own.
_NESTED = {"period_alarms": PeriodAlarmConfig}

#: Sections of everything but streams, files and topics.
_REST = {
    "limits": Limits,
    "http": HttpConfig,
    "worker": WorkerConfig,
    "notify": NotifyConfig,
    "otlp": OtlpConfig,
}


def key_of(name: str) -> str:
    """Return the key of a field of `StreamConfig`.

    >>> key_of("emit_every"), key_of("bins")
    ('emit.every', 'bins')
    """
    return name.replace("emit_", "emit.")


def _of_streams() -> Iterator[tuple[str, Setting]]:
    for name, declared in settings_of(StreamConfig).items():
        if name in _NESTED:
            for inner_name, inner in settings_of(_NESTED[name]).items():
                yield f"{name}.{inner_name}", inner
        else:
            yield key_of(name), declared


def _of_rest() -> Iterator[tuple[str, Setting]]:
    for name, declared in KAFKA.items():
        yield f"kafka.{name}", declared
    for name, declared in CLIENTS.items():
        yield f"kafka.{name}.", declared
    for section, owner in _REST.items():
        for name, declared in settings_of(owner).items():
            yield f"{section}.{name}", declared
    for name, declared in settings_of(Config).items():
        yield f"{name}.", declared


#: The settings of streams.
OF_STREAMS: dict[str, Setting] = dict(_of_streams())

#: All settings.
SETTINGS: dict[str, Setting] = {**OF_STREAMS, **dict(_of_rest())}


def setting_of(key: str) -> Setting:
    """Return what a key declares, or the section that it belongs to.

    >>> setting_of("worker.grace").change, setting_of("kafka.security.sasl.username").change
    ('kept; each worker uses it after its restart', 'kept; it changes the access to the cluster')
    """
    if key in SETTINGS:
        return SETTINGS[key]
    return next(SETTINGS[name] for name in SETTINGS if name.endswith(".") and key.startswith(name))
