"""Kafka Connect with Debezium's JDBC sink, and PostgreSQL, as processes of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prequential.demo.broker import pick_port

from tests.kafka_jars import Unavailable, fetched_jars, java_program

#: From this version on JsonConverter takes a schema from its configuration (KIP-1054).
CONNECT = "4.2.1"

#: Debezium's sink; it brings PostgreSQL's driver.
DEBEZIUM = "3.3.1.Final"

_ARTIFACTS = (
    *(("org.apache.kafka", f"connect-{part}", CONNECT) for part in ("runtime", "json", "transforms", "api")),
    ("org.apache.kafka", "kafka-clients", CONNECT), ("io.debezium", "debezium-connector-jdbc", DEBEZIUM),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
)  # fmt: skip

#: Where Debian has PostgreSQL's programs, one folder a version.
_DEBIAN = Path("/usr/lib/postgresql")

#: Seconds that PostgreSQL has to start, and a query to be answered.
_POSTGRES_SECONDS = 60


@contextmanager
def connect(folder: Path, worker: Mapping[str, str], *sinks: Mapping[str, str]) -> Iterator[Path]:
    """A standalone worker with these properties, and such connectors; gives its log.

    Raises Unavailable without Java or Maven.
    """
    java, jars = java_program(), fetched_jars(f"connect-{CONNECT}-debezium-{DEBEZIUM}", _ARTIFACTS)
    files = []
    for number, properties in enumerate((worker, *sinks)):
        files.append(folder / f"{number}.properties")
        files[-1].write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    command = [java, "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*",
               "org.apache.kafka.connect.cli.ConnectStandalone", *files]  # fmt: skip
    log = folder / "connect.log"
    with log.open("wb") as stream, subprocess.Popen(command, stdout=stream, stderr=stream) as process:
        try:
            yield log
        finally:
            process.kill()


class Postgres:
    """A server that runs; `query` asks it."""

    def __init__(self, port: int, psql: str) -> None:
        self.port, self._psql = port, psql

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def query(self, sql: str) -> list[list[str]]:
        """The rows, as text; raises AssertionError for what it refuses."""
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        command = [self._psql, *where, "-AtF", "|", "-c", sql]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_POSTGRES_SECONDS)
        assert not done.returncode, done.stderr
        return [line.split("|") for line in done.stdout.splitlines()]


@contextmanager
def postgres() -> Iterator[Postgres]:
    """PostgreSQL with an empty database, whose user `postgres` needs no password.

    Raises Unavailable where it isn't installed.
    """
    versions = sorted(_DEBIAN.glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    path = os.pathsep.join([*map(str, versions), os.environ.get("PATH", "")])
    programs = {name: shutil.which(name, path=path) for name in ("initdb", "postgres", "psql")}
    if missing := [name for name, program in programs.items() if program is None]:
        raise Unavailable(f"PostgreSQL is not installed: there is no {missing[0]}")
    # It doesn't run as root; whose folder it is then is whose process it is.
    user: dict[str, Any] = {"user": "nobody", "extra_groups": []} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="prequential-postgres-") as folder:
        if user:
            shutil.chown(folder, "nobody")
        made = subprocess.run(
            [str(programs["initdb"]), "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8"],
            cwd=folder, capture_output=True, text=True, **user,
        )  # fmt: skip
        if made.returncode:
            raise Unavailable(f"initdb failed: {made.stderr.strip()[-300:]}")
        port = pick_port()
        command = [str(programs["postgres"]), "-D", f"{folder}/data", "-p", str(port), "-h", "127.0.0.1",
                   "-k", folder]  # fmt: skip
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **user
        ) as process:
            try:
                yield Postgres(port, str(programs["psql"]))
            finally:
                process.terminate()
