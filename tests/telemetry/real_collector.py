"""The OpenTelemetry Collector, built from its modules."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import yaml
from built_programs import built
from prequential.demo.broker import pick_port

from tests.worker.processes import HANGS, eventually

SOURCES = Path(__file__).parent / "collector"

@contextmanager
def collector(folder: Path, destination: str) -> Iterator[str]:
    """Its address; it passes what it receives on to `destination`, OTLP over HTTP as well."""
    program, port = built("collector", SOURCES), pick_port()
    pipeline = {"receivers": ["otlp"], "exporters": ["otlp_http"]}
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {"otlp_http": {"endpoint": destination, "compression": "none"}},
        "service": {
            "pipelines": {"metrics": pipeline, "logs": pipeline},
            "telemetry": {"metrics": {"level": "none"}},
        },
    }
    path = folder / "collector.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    with (folder / "collector.log").open("wb") as log:
        process = subprocess.Popen([str(program), "--config", f"file:{path}"], stdout=log, stderr=log)
        try:

            def answers() -> bool:
                assert process.poll() is None, (folder / "collector.log").read_text("utf-8")
                try:
                    urlopen(f"http://127.0.0.1:{port}/", timeout=HANGS).close()
                except URLError as error:
                    return getattr(error, "code", None) is not None
                return True

            eventually("the collector answers", answers)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(HANGS)
