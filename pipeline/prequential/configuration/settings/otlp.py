"""Settings of what is pushed to OpenTelemetry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from prequential.configuration.settings.parsing import DURATION, AcceptedValues, list_of, one_of, optional
from prequential.configuration.settings.setting import setting

#: What can be pushed.
METRICS, INCIDENTS, VERDICTS = "metrics", "incidents", "verdicts"

SENDABLE = (METRICS, INCIDENTS, VERDICTS)


def _receiver(value: Any) -> str:
    """Check the address of a receiver. Errors don't quote it, because it may contain a secret."""
    if not isinstance(value, str) or not value.startswith(("https://", "http://")):
        raise ValueError("not the address of an OTLP receiver: expected such as http://localhost:4318")
    if "@" in value:
        raise ValueError(
            "do not put a user or password in this file; use the environment variable "
            "OTEL_EXPORTER_OTLP_HEADERS"
        )
    if value.rstrip("/").endswith(("/v1/metrics", "/v1/logs")):
        raise ValueError("the address has the path of a signal: leave out /v1/metrics or /v1/logs")
    return value


otlp_setting = partial(
    setting, change="kept; it is of what is pushed, and each process uses it after its restart"
)


@dataclass(frozen=True)
class OtlpConfig:
    """Where workers, `ingest` and `notify` push metrics and events by OTLP over HTTP; times in ms."""

    #: Address of a receiver, without `/v1/metrics`, such as `http://localhost:4318`; null: no push.
    endpoint: str | None = otlp_setting(None, optional(AcceptedValues(_receiver)))
    #: Time between two pushes of metrics.
    every: int = otlp_setting(60_000, DURATION)
    #: What is pushed: `metrics`, and as log records `incidents` and `verdicts`.
    send: tuple[str, ...] = otlp_setting(SENDABLE, list_of(one_of(SENDABLE)))
    #: Longest time for an answer, repeats included.
    timeout: int = otlp_setting(10_000, DURATION)
