"""A receiver of OTLP over HTTP, through OpenTelemetry's SDK. Only this module and `points` import it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prequential.runtime.telemetry.events import TelemetryEvent
from prequential.runtime.telemetry.points import metrics_of

#: Samples in one request at most: receivers refuse requests of some megabytes.
_MOST_POINTS = 10_000


class Receiver:
    """A receiver at an address, to which `/v1/metrics` and `/v1/logs` are added.

    `seconds` is the longest time for an answer, `attributes` those of the process. Headers, certificates and
    compression come from the variables `OTEL_EXPORTER_OTLP_…` of the environment.
    """

    def __init__(self, endpoint: str, seconds: float, attributes: Mapping[str, str]) -> None:
        base = endpoint.rstrip("/")
        self._resource = Resource.create(dict(attributes))
        self._scope = InstrumentationScope("prequential", version("prequential"))
        self._start = time.time_ns()
        self._metrics = OTLPMetricExporter(
            f"{base}/v1/metrics", timeout=seconds, max_export_batch_size=_MOST_POINTS
        )
        self._logs = OTLPLogExporter(f"{base}/v1/logs", timeout=seconds)

    def send_metrics(self, text: str) -> bool:
        """Push the metrics of Prometheus' text; return whether they were taken."""
        metrics = metrics_of(text, self._resource, self._scope, self._start, time.time_ns())
        return self._metrics.export(metrics) is MetricExportResult.SUCCESS

    def send_events(self, events: Sequence[TelemetryEvent]) -> bool:
        """Push events as log records; return whether they were taken."""
        records = [self._record(event) for event in events]
        return self._logs.export(records) is LogRecordExportResult.SUCCESS

    def close(self) -> None:
        """End both clients."""
        self._metrics.shutdown()
        self._logs.shutdown()  # type: ignore[no-untyped-call]

    def _record(self, event: TelemetryEvent) -> ReadableLogRecord:
        severity = SeverityNumber.WARN if event.is_warning else SeverityNumber.INFO
        record = LogRecord(
            timestamp=event.time, observed_timestamp=time.time_ns(), severity_number=severity,
            severity_text=severity.name, body=event.text, attributes=event.attributes, event_name=event.name,
        )  # fmt: skip
        return ReadableLogRecord(record, self._resource, self._scope)
