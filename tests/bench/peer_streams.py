"""Peer: a Kafka Streams application (`Streams.java`), exactly once, twice in one JVM: cold, then warm.

`python -m tests.bench.peer_streams --bootstrap-servers ADDR --prefix P --records N`

Needs Java and, once, Maven. This process becomes the JVM, which prints a line of JSON for each run. In real
time (the case `quiet`) there is one run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from prequential.configuration.settings.model import WorkerConfig

from tests.bench.cases import CASES, PEERS, QUIET
from tests.bench.peer import Peer
from tests.bench.settings import EMIT_EVERY_MS, EMIT_OUTCOMES, FADING, HORIZON_MS, SETTLE_MS, WINDOW
from tests.kafka_jars import KAFKA, Unavailable, fetched_jars, java_program

_SOURCE: Final = Path(__file__).with_name("Streams.java")

#: What Maven fetches. The logging is told to be quiet.
_ARTIFACTS: Final = (
    ("org.apache.kafka", "kafka-streams", KAFKA),
    ("com.fasterxml.jackson.core", "jackson-databind", "2.19.0"),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
    ("org.apache.arrow", "arrow-vector", "18.3.0"),
    ("org.apache.arrow", "arrow-memory-unsafe", "18.3.0"),
)

#: State is on the heap: millions of instances, and those of the run before until they are collected. Arrow
#: needs access to Java's buffers.
_JVM: Final = (
    "-Xms1g", "-Xmx4g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)  # fmt: skip


def classpath() -> str:
    """Kafka Streams' jars and the compiled peer. Raises Unavailable where they can't be had."""
    jars = fetched_jars(f"kafka-streams-{KAFKA}-arrow", _ARTIFACTS)
    java = Path(java_program())
    compiler = shutil.which("javac", path=str(java.parent)) or shutil.which("javac")
    if compiler is None:
        raise Unavailable("Java's compiler (javac) is not installed")
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    classes = jars.parent / f"{jars.name}-peer-{digest}"
    if not classes.is_dir():
        with tempfile.TemporaryDirectory(dir=jars.parent) as work:
            subprocess.run([compiler, "-cp", f"{jars}/*", "-d", f"{work}/classes", _SOURCE], check=True)
            try:
                Path(work, "classes").rename(classes)
            except OSError:
                if not classes.is_dir():  # else another run was quicker
                    raise
    return f"{classes}{os.pathsep}{jars}/*"


def run(peer: Peer) -> None:
    """Become the JVM."""
    options = {
        "bootstrap-servers": peer.bootstrap_servers, "prefix": peer.prefix, "group": peer.group,
        "records": peer.records, "case": peer.case, "runs": 1 if peer.case == QUIET else 2,
        "commit-every": WorkerConfig().commit_every, "emit-outcomes": EMIT_OUTCOMES,
        "emit-every": EMIT_EVERY_MS, "window": WINDOW, "fading": FADING, "horizon": HORIZON_MS,
        "settle": SETTLE_MS, "batch": CASES[peer.case].batch,
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    peer.create_topics(peer.output, f"{peer.output}-cold")
    java = java_program()
    sys.stdout.flush()
    os.execv(java, [java, *_JVM, "-cp", classpath(), "Streams", *words])


if __name__ == "__main__":
    try:
        run(Peer.from_command_line("streams", __doc__, PEERS))
    except Unavailable as reason:
        sys.exit(str(reason))
