"""A Schema Registry as others have it: Apicurio's, with Confluent's API, as a process of this machine."""

from __future__ import annotations

import gc
import subprocess
import tarfile
import tempfile
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from prequential.demo.broker import pick_port

from tests.kafka_jars import fetched_jars, java_program
from tests.worker.processes import eventually

APICURIO = "2.6.13.Final"

#: Marks of tests with one. It keeps connections alive, which confluent-kafka's clients never close.
MARKS = (pytest.mark.nightly, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))

_ARTIFACTS = (("io.apicurio", "apicurio-registry-app", APICURIO, "tar.gz", "all"),)

#: Seconds that it has to start: 8 here.
_START_SECONDS = 120.0


class Registry(NamedTuple):
    """One that answers."""

    url: str


@contextmanager
def apicurio() -> Iterator[Registry]:
    """An empty one, which keeps schemas in memory. Raises Unavailable without Java or Maven."""
    java, fetched = java_program(), fetched_jars(f"apicurio-{APICURIO}", _ARTIFACTS)
    [packed] = fetched.glob("*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="prequential-registry-") as folder:
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        [program] = Path(folder).glob("*-runner.jar")
        port = pick_port()
        command = [java, "-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1",
                   f"-Dquarkus.http.port={port}", "-jar", program]  # fmt: skip
        nowhere = subprocess.DEVNULL
        with subprocess.Popen(command, stdout=nowhere, stderr=nowhere) as process:
            try:
                registry = Registry(f"http://127.0.0.1:{port}/apis/ccompat/v7")
                eventually("the registry answers", lambda: _answers(registry), _START_SECONDS)
                yield registry
            finally:
                process.kill()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ResourceWarning)
                    gc.collect()


def _answers(registry: Registry) -> bool:
    try:
        with urllib.request.urlopen(f"{registry.url}/subjects", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
