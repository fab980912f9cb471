"""OTLP as receivers get it: requests of a small server, and their samples in Prometheus' names."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prequential.demo.broker import pick_port


def value_of(any_value: Any) -> Any:
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(entry) for entry in any_value.array_value.values]
    return getattr(any_value, kind)


def attributes_of(pairs: Any) -> dict[str, Any]:
    return {pair.key: value_of(pair.value) for pair in pairs}


def samples_of_request(request: Any) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """By name and labels the values, as Prometheus' receiver writes them."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points:
                    labels = attributes_of(point.attributes)
                    for name, further, value in _samples(metric, kind, point):
                        found[name, frozenset({**labels, **further}.items())] = value
    return found


def _samples(metric: Any, kind: str, point: Any) -> Iterator[tuple[str, dict[str, str], float]]:
    if kind != "histogram":
        assert metric.name.endswith("_total") == (kind == "sum")
        number = point.WhichOneof("value")
        yield metric.name, {}, getattr(point, number)
        return
    so_far = 0
    for bound, count in zip([*map(str, point.explicit_bounds), "+Inf"], point.bucket_counts):
        so_far += count
        yield f"{metric.name}_bucket", {"le": bound}, so_far
    yield f"{metric.name}_count", {}, point.count
    yield f"{metric.name}_sum", {}, point.sum


class PushServer(ThreadingHTTPServer):
    """Receives OTLP; answers with `status`, and keeps what it took."""

    def __init__(self) -> None:
        self.status = 200
        self.metrics: list[Any] = []
        self.logs: list[Any] = []
        super().__init__(("127.0.0.1", pick_port()), _Handler)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def records(self) -> list[Any]:
        """The log records that it took."""
        return [
            record for request in self.logs for resource in request.resource_logs
            for scope in resource.scope_logs for record in scope.log_records
        ]  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    server: PushServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.server.status == 200:
            is_logs = self.path.endswith("/v1/logs")
            request = ExportLogsServiceRequest() if is_logs else ExportMetricsServiceRequest()
            request.ParseFromString(body)
            (self.server.logs if is_logs else self.server.metrics).append(request)
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def push_server() -> Iterator[PushServer]:
    with PushServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
