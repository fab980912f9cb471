"""Jars and a Java to run them: Apache Kafka's where there is no Docker, MOA's for evidence."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

#: Version of Apache Kafka, in Docker and on Java alike; `make matrix` asks for others.
KAFKA = os.environ.get("KAFKA_VERSION") or "4.1.0"

#: What Maven fetches: the broker, and what makes its logging (SLF4J 1.7) come out at Log4j 2.
_ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", KAFKA),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
)

#: Apache Kafka 4 runs on this Java or a later one.
_JAVA = 17

#: Seconds that Maven gets: 8 here with a cold cache, the rest is for slow lines.
_MAVEN_SECONDS = 600


class Unavailable(Exception):
    """This machine can't have that kind of broker; the message is the reason."""


def kafka_jars(cache: Path | None = None) -> Path:
    """The folder with Apache Kafka's jars: see `fetched_jars`."""
    return fetched_jars(f"kafka-{KAFKA}", _ARTIFACTS, cache)


def fetched_jars(name: str, artifacts: Sequence[tuple[str, ...]], cache: Path | None = None) -> Path:
    """The folder of that name with jars, fetched through Maven if it is not there yet.

    `artifacts` are groups, names and versions, of others than jars also type and classifier. It lies in
    `cache`, by default `$PREQUENTIAL_CACHE` or `~/.cache/prequential`. The folder appears under its name only
    when it is complete, so runs beside each other and aborted ones do no harm.

    Raises Unavailable if Maven is missing or fails.
    """
    if cache is None:
        named = os.environ.get("PREQUENTIAL_CACHE")
        cache = Path(named) if named else Path.home() / ".cache" / "prequential"
    jars = cache.resolve() / name
    if jars.is_dir():
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Maven (mvn) is not installed")
    cache.mkdir(parents=True, exist_ok=True)
    # Within the cache, so that it can be renamed into place.
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=jars.parent) as work:
        pom, fetched = Path(work, "pom.xml"), Path(work, "jars")
        pom.write_text(_pom(artifacts), encoding="utf-8")
        command: list[str | Path] = [maven, "-q", "-B", "-f", pom, "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={fetched}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_MAVEN_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"Maven took more than {_MAVEN_SECONDS} s") from error
        if done.returncode:
            raise Unavailable(f"Maven failed: {(done.stdout + done.stderr).strip()[-500:]}")
        try:
            fetched.rename(jars)
        except OSError:
            if not jars.is_dir():  # else another run was quicker: the same jars are there
                raise
    return jars


def java_program() -> str:
    """The Java program. Raises Unavailable if there is none that is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None) or shutil.which("java")
    if java is None:
        raise Unavailable("Java is not installed")
    said = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < _JAVA:
        raise Unavailable(f"Java {_JAVA} or later is needed, {java} is {said.splitlines()[:1]}")
    return java


def _pom(artifacts: Sequence[tuple[str, ...]]) -> str:
    """Maven's description of a project that depends on the jars and is nothing else."""
    names = "groupId", "artifactId", "version", "type", "classifier"
    # An archive has in it what it needs.
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = ""
    for one in artifacts:
        fields = "".join(f"<{name}>{value}</{name}>" for name, value in zip(names, one))
        dependencies += f"<dependency>{fields}{alone if len(one) == len(names) else ''}</dependency>"
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>prequential</groupId><artifactId>test-broker</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
