"""No credential in any output: each URL and field of the configuration that may have one."""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from prequential.cli.common import start_log
from prequential.cli.main import main
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import ConfigError
from prequential.runtime.ingest.registry import SchemaRegistry
from prequential.runtime.kafka.rejected import Complaints
from prequential.runtime.notifying.posting import Poster
from prequential.topics.clients import KafkaConfig, connect, resolved
from prequential.topics.errors import UsageError, WorkError, redacted

from tests.ingest.registry_server import RegistryServer

#: Where no broker is.
NOBODY = "127.0.0.1:1"

#: A password that a URL and a repr write in other ways than it is.
HUSH = "hu%sh'HUSH"
IN_URL = "hu%25sh%27HUSH"
WEBHOOK = "https://hooks.example/T0/HUSH-B0"

#: Each field that takes a credential, as it should be.
FIELDS: dict[str, dict[str, Any]] = {
    "kafka": {
        "security": {
            "sasl.password": HUSH, "ssl.key.password": HUSH, "ssl.key.pem": HUSH,
            "ssl.keystore.password": HUSH,
            "sasl.oauthbearer.client.secret": HUSH, "sasl.oauthbearer.config": f"principal={HUSH}",
            "sasl.oauthbearer.token.endpoint.url": f"https://me:{IN_URL}@idp/token",
        },
        "schema_registry": {
            "url": f"https://me:{IN_URL}@one:8081,https://me:{IN_URL}@two:8081",
            "basic.auth.user.info": f"me:{HUSH}",
            "bearer.auth.token": HUSH, "bearer.auth.client.secret": HUSH,
            "proxy": f"http://me:{IN_URL}@proxy:3128",
            "bearer.auth.issuer.endpoint.url": f"https://me:{IN_URL}@idp",
        },
    },
    "http": {"token": f"{HUSH}-0123456789"}, "notify": {"url": WEBHOOK},
}  # fmt: skip

#: Credentials where none belong, or written wrongly.
MISTAKES = [
    "kafka: {bootstrap_servers: 'me:HUSH@kafka:9092'}",
    "kafka: {bootstrap_servers: 'SASL_SSL://me:HUSH@kafka:9092'}",
    "kafka: {security: sasl.password=HUSH}",
    "kafka: {security: {sasl.password HUSH}}",
    "kafka: {security: {sasl.password=HUSH}}",
    "kafka: {security: {sasl.password: [HUSH]}}",
    "kafka: {security: {sasl.password: {of: HUSH}}}",
    "kafka: {security: {sasl.password: *HUSH}}",
    "kafka: {security: {sasl.password: !HUSH 1}}",
    "kafka: {security: {sasl.password: !!int HUSH}}",
    "kafka: {schema_registry: 'https://me:HUSH@registry'}",
    "kafka: {schema_registry: {url: ['https://me:HUSH@registry']}}",
    "kafka: {schema_registry: {basic.auth.user.info: {me: HUSH}, bearer.auth.token: [HUSH]}}",
    "http: {token: [HUSH]}", "http: {token=HUSH}", "http: {token HUSH}",
    "http: {host: ['https://me:HUSH@host']}",
    "notify: {url: 'ftp://me:HUSH@hooks'}", "notify: {url: ['https://hooks/HUSH']}", "notify: {secret: HUSH}",
    "worker: {group: ['https://me:HUSH@host']}",
    "files: 'https://me:HUSH@host'",
]


def written(folder: Path, sections: Any, name: str = "c.yaml") -> Path:
    path = folder / name
    path.write_text(sections if isinstance(sections, str) else yaml.safe_dump(sections), encoding="utf-8")
    return path


def is_hushed(text: str) -> bool:
    return "HUSH" not in text


@pytest.mark.parametrize("mistake", MISTAKES)
def test_errors_of_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str], mistake: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(str(written(tmp_path, mistake)))
    assert is_hushed(str(error.value))
    assert main(["config", "check", str(written(tmp_path, mistake))]) == 2
    assert is_hushed(capsys.readouterr().err)


def test_commands_about_configurations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`check`, `diff` as text and JSON, and an option of the command line."""
    before, after = written(tmp_path, FIELDS), written(tmp_path, {"kafka": {}}, "other.yaml")
    config = load_config(str(before))
    assert is_hushed(repr(config))
    assert is_hushed(f"{config.kafka} {config.http} {config.notify}")
    assert main(["config", "check", str(before)]) == 0
    for one, other in ((before, after), (after, before)):
        assert main(["config", "diff", str(one), str(other)]) == 1
        assert main(["config", "diff", str(one), str(other), "--json"]) == 1
    assert main(["config", "live", "--bootstrap-servers", "me:HUSH@kafka:9092"]) == 2
    printed = "".join(capsys.readouterr())
    assert "kafka.security.sasl.password" in printed
    assert is_hushed(printed)


@pytest.mark.slow
@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("allowed", [False, True])
def test_a_registry_with_a_password_in_its_url(
    allowed: bool, encoded: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password works, and no HTTP client logs it at any level."""
    caplog.set_level(logging.DEBUG)
    with RegistryServer(f"me:{HUSH}") as server:
        server.register("a", {"schema": json.dumps("string")})
        url = server.url.replace("://", f"://me:{IN_URL if allowed else IN_URL + 'x'}@")
        if encoded:
            monkeypatch.setenv("REGISTRY_URL", url)
            url = "env:REGISTRY_URL"
        registry = SchemaRegistry(KafkaConfig(schema_registry={"url": url, "max.retries": 0}), "avro")
        if allowed:
            assert registry.schema(1).schema_str == '"string"'
        else:
            with pytest.raises(WorkError, match=r"http://127\.0\.0\.1:\d+ refuses schema 1") as error:
                registry.schema(1)
            assert is_hushed(str(error.value))
    assert any(one.name.startswith("httpx") for one in caplog.records)
    assert is_hushed(caplog.text)


@pytest.mark.parametrize(
    "url",
    ["me:HUSH@registry:8081", "https://me:HUSH/x@registry", "https://me:x@[HUSH", "ftp://me:HUSH@registry"],
)
def test_an_address_of_a_registry_that_is_none(url: str) -> None:
    with pytest.raises(UsageError, match=r"kafka\.schema_registry\.url is no address: expected") as error:
        SchemaRegistry(KafkaConfig(schema_registry={"url": url}), "avro")
    assert is_hushed(str(error.value))


@pytest.mark.parametrize(
    "name", ["httpx", "httpcore.http11", "urllib3.connectionpool", "confluent_kafka", "aiohttp"]
)
@pytest.mark.parametrize("level", ["debug", "info", "error"])
def test_logs_of_libraries(name: str, level: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Messages, their arguments, exceptions: a resolved secret, and the user of any URL."""
    root = logging.getLogger()
    former, root.handlers = root.handlers, []
    before = root.level
    try:
        start_log(argparse.Namespace(log_level=level), [])
        resolved("kafka.security: sasl.password", HUSH)
        resolved("notify.url", WEBHOOK)
        log = logging.getLogger(name)
        log.error("GET %s", urlsplit(f"https://me:{IN_URL}@host/a?token=HUSH").geturl())
        log.error("conf %r %s", {"sasl.password": HUSH}, WEBHOOK)
        try:
            raise OSError(f"can't reach {WEBHOOK} as https://me:{HUSH}@host")
        except OSError:
            log.exception("failed")
        log.debug("Starting https://me:HUSH@host:8081")
    finally:
        root.handlers = former
        root.setLevel(before)
    said = capfd.readouterr().err
    assert "GET https://***@host/a" in said
    assert is_hushed(said)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"sasl.mechanism": HUSH}, {"ssl.key.pem": HUSH}, {"no": HUSH}])
def test_errors_of_librdkafka(settings: dict[str, str]) -> None:
    with pytest.raises((UsageError, WorkError)) as error:
        connect(KafkaConfig(NOBODY, security={"sasl.password": HUSH, **settings}), timeout=0.5)
    assert is_hushed(str(error.value))


def test_complaints_of_librdkafka() -> None:
    text = Complaints().news("no token from https://me:HUSH@idp/token", now=0.0)
    assert is_hushed(redacted(text or "HUSH"))


def test_a_webhook(tmp_path: Path) -> None:
    """No answer's text has its address, nor do errors about it."""
    poster = Poster("http://127.0.0.1:1/HUSH", 1.0)
    assert is_hushed(str(poster.post(b"{}", {})))
    poster.close()
    with pytest.raises(UsageError) as error:
        Poster("https://me:HUSH@hooks", 1.0)
    assert is_hushed(str(error.value))


def test_tracebacks_of_faults() -> None:
    code = (
        "from prequential.cli import main\n"
        "from prequential.topics.clients import resolved\n"
        "def fault(argv):\n"
        f"    resolved('http.token', {HUSH!r})\n"
        f"    raise RuntimeError({HUSH!r} + ' at https://me:HUSH@host')\n"
        "main._run = fault\nmain.main([])\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.endswith("RuntimeError: *** at https://***@host\n")
