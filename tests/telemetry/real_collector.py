"""The OpenTelemetry Collector, built from its modules once, into a cache outside the project."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import yaml
from prequential.demo.broker import pick_port

from tests.worker.processes import HANGS, eventually

SOURCES = Path(__file__).parent / "collector"

#: Seconds that the build gets: a minute of processor time with a cold cache.
_BUILD_SECONDS = 1_200


def built() -> Path:
    """The program; pytest skips where Go or its modules can't be had."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    sources = b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))
    digest = hashlib.sha256(sources).hexdigest()[:12]
    named = os.environ.get("PREQUENTIAL_CACHE")
    cache = Path(named) if named else Path.home() / ".cache" / "prequential"
    program = cache.resolve() / f"collector-{digest}"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".collector-", dir=program.parent) as work:
            made = Path(work, "collector")
            command = [go, "build", "-p", "2", "-ldflags", "-s -w", "-o", str(made), "."]
            done = subprocess.run(
                command, cwd=SOURCES, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False
            )
            if done.returncode:
                pytest.skip(f"the collector can't be built: {done.stderr.strip()[-300:]}")
            made.replace(program)
    return program


@contextmanager
def collector(folder: Path, destination: str) -> Iterator[str]:
    """Its address; it passes what it receives on to `destination`, OTLP over HTTP as well."""
    program, port = built(), pick_port()
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
