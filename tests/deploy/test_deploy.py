"""What operators take: compose file, image and configuration are well formed and fit together.

The compose file is checked against the Compose specification's JSON schema (the copy that the
package check-jsonschema brings) and, where Docker's compose command is there, by that too.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from dashboard import DEPLOY, load
from prequential.cli import archive
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.streams import StreamConfig
from prequential.demo import feeder
from prequential.demo.stream import HORIZON, STREAM
from prequential.web.http import ARCHIVE_PORT

ROOT = DEPLOY.parent
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = DEPLOY / "Dockerfile"
#: But for the templates of the chart, which become YAML (`test_chart.py`).
YAML_FILES = [
    COMPOSE, *sorted(DEPLOY.rglob("*.yml")),
    *(path for path in sorted(DEPLOY.rglob("*.yaml")) if path.parent.name != "templates"),
]  # fmt: skip

#: A tag that names a version down to the patch: `3.11.15-slim`, `v3.13.2`, `4.1.0`.
VERSION = re.compile(r"v?\d+\.\d+\.\d+(-[a-z]+)*")

#: Variables that hold secrets are called like this.
SECRET = re.compile(r"password|passwd|secret|token|api_?key|credential", re.IGNORECASE)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def double_keys(node: Any) -> Iterator[str]:
    """Keys that stand more than once in one mapping, with their lines (PyYAML takes the last)."""
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        for key, value in node.value:
            if keys.count(key.value) > 1:
                yield f"{key.value!r} in line {key.start_mark.line + 1}"
            yield from double_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from double_keys(item)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    content: dict[str, Any] = read(COMPOSE)["services"]
    return content


def dockerfile() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each with its arguments on one line."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line]


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_yaml_is_well_formed(path: Path) -> None:
    documents = list(yaml.compose_all(path.read_text(encoding="utf-8")))
    assert documents
    assert [key for document in documents for key in double_keys(document)] == []


def test_compose_file_follows_the_specification() -> None:
    from jsonschema import validators  # takes seconds

    # Only the schema is wanted of it, and its command line may not fit the other packages here.
    package = importlib.util.find_spec("check_jsonschema")
    assert package is not None
    assert package.origin is not None
    schemas = Path(package.origin).parent / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / "compose-spec.json").read_text(encoding="utf-8"))
    checker = validators.validator_for(schema)(schema)
    assert [error.message for error in checker.iter_errors(read(COMPOSE))] == []


def test_compose_accepts_the_file() -> None:
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and not _run(*command, "version").returncode:
            break
    else:
        pytest.skip("neither 'docker compose' nor 'docker-compose' is installed")
    result = _run(*command, "--file", str(COMPOSE), "config", "--quiet")
    assert (result.returncode, result.stderr) == (0, "")


def test_images_are_pinned_and_services_restart_and_report_health(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if "build" not in service:
            assert VERSION.fullmatch(service["image"].partition(":")[2]), name
        if name == "topics":  # which runs once
            continue
        assert service["restart"] == "unless-stopped", name
        if name != "feeder":  # which serves nothing
            assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL"), name
    assert services["topics"]["restart"] == "no"


def test_no_service_is_privileged_or_open_to_the_network(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "cap_add", "network_mode", "pid"} & service.keys(), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert not any(SECRET.search(key + value) for key, value in _variables(service)), name


@pytest.mark.parametrize("name", ["topics", "worker", "archive", "feeder"])
def test_our_containers_have_no_rights(services: dict[str, Any], name: str) -> None:
    service = services[name]
    assert service["user"] == _last("USER") == "10001:10001"
    assert service["read_only"] is True
    assert [entry.partition(":")[0] for entry in service["tmpfs"]] == ["/tmp"]
    assert "ports" not in service
    arguments = {"args": {"REQUIREMENTS": "requirements-feeder.txt"}} if name == "feeder" else {}
    assert service["build"] == {"context": ".", "dockerfile": "deploy/Dockerfile", **arguments}
    assert (service["image"] == services["worker"]["image"]) == (name != "feeder")


def test_start_order(services: dict[str, Any]) -> None:
    healthy = {"condition": "service_healthy"}
    assert services["topics"]["depends_on"] == {"kafka": healthy}
    assert services["topics"]["command"][:2] == ["topics", "create"]
    for name in ("worker", "archive", "feeder"):
        assert services[name]["depends_on"] == {
            "kafka": healthy,
            "topics": {"condition": "service_completed_successfully"},
        }


def test_feeder_is_a_program_of_ours_and_what_it_needs_is_in_its_image(services: dict[str, Any]) -> None:
    service = services["feeder"]
    assert service["entrypoint"] == ["python", "-m", feeder.__name__]
    assert "REQUIREMENTS" in [rest.partition("=")[0] for word, rest in dockerfile() if word == "ARG"]
    assert "-r deploy/${REQUIREMENTS} " in next(rest for word, rest in dockerfile() if "pip wheel" in rest)
    assert "\nriver==" in (DEPLOY / service["build"]["args"]["REQUIREMENTS"]).read_text(encoding="utf-8")


def test_feeders_stream_is_configured_for_it() -> None:
    """Its labels come within seconds or are too late; its instances say a region."""
    config = load_config(str(DEPLOY / "prequential.yaml")).stream(STREAM)
    assert config.label_horizon == HORIZON
    assert config.segments == ("region",)
    assert config.objective is not None


def test_mounted_files_exist_and_are_read_only(services: dict[str, Any]) -> None:
    mounts = [mount for service in services.values() for mount in service.get("volumes", ())]
    from_here = [mount for mount in mounts if mount.startswith(".")]
    assert len(from_here) == 10
    for mount in from_here:
        source, _, mode = mount.split(":")
        assert (ROOT / source).exists(), mount
        assert mode == "ro", mount
    volumes = {mount.partition(":")[0] for mount in mounts} - {m.split(":")[0] for m in from_here}
    assert volumes == read(COMPOSE)["volumes"].keys()


def test_addresses_and_paths_agree(services: dict[str, Any]) -> None:
    config = read(DEPLOY / "prequential.yaml")
    host, _, kafka_port = config["kafka"]["bootstrap_servers"].partition(":")
    listeners = services[host]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"INTERNAL://{host}:{kafka_port}" in listeners.split(",")

    http = config["http"]
    assert http["host"] == "0.0.0.0"
    assert services["worker"]["expose"] == [_last("EXPOSE")] == [str(http["port"])]
    ready = f"http://127.0.0.1:{http['port']}/ready"
    assert ready in services["worker"]["healthcheck"]["test"][-1]
    assert ready in _last("HEALTHCHECK")
    for name in ("topics", "worker", "feeder"):
        path = services[name]["command"][-1]
        assert f"./deploy/prequential.yaml:{path}:ro" in services[name]["volumes"]

    prometheus = read(DEPLOY / "prometheus" / "prometheus.yml")
    workers, archivers = prometheus["scrape_configs"][0]["dns_sd_configs"]
    assert (workers["names"], workers["port"]) == (["worker"], http["port"])
    assert (archivers["names"], archivers["port"]) == (["archive"], ARCHIVE_PORT)


def test_the_archiver_is_asked_for_and_writes_into_its_volume(services: dict[str, Any]) -> None:
    service = services["archive"]
    assert service["profiles"] == ["archive"]
    assert [name for name, other in services.items() if "profiles" in other] == ["archive"]
    parser = argparse.ArgumentParser()
    archive.add_parser(parser.add_subparsers())
    parsed = parser.parse_args(service["command"])
    assert (parsed.http, parsed.once) == (f"0.0.0.0:{ARCHIVE_PORT}", False)
    assert service["expose"] == [str(ARCHIVE_PORT)]
    assert f"http://127.0.0.1:{ARCHIVE_PORT}/ready" in service["healthcheck"]["test"][-1]
    configuration, volume = service["volumes"]
    assert configuration == f"./deploy/prequential.yaml:{parsed.config}:ro"
    assert volume == f"archive-data:{parsed.to}"
    # The image's folder has the rights that a new volume takes over.
    assert parsed.to.removeprefix("/") in (DEPLOY / "rootfs.py").read_text(encoding="utf-8")


def test_alertmanager_is_told_and_tells_somebody_of_every_severity(services: dict[str, Any]) -> None:
    prometheus = read(DEPLOY / "prometheus" / "prometheus.yml")
    [told] = prometheus["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    name, _, port = told.partition(":")
    assert f"127.0.0.1:{port}:{port}" in services[name]["ports"]
    [option] = [word for word in services[name]["command"] if word.startswith("--config.file=")]
    path = option.partition("=")[2]
    assert f"./deploy/alertmanager/alertmanager.yml:{path}:ro" in services[name]["volumes"]

    content = read(DEPLOY / "alertmanager" / "alertmanager.yml")
    receivers = {receiver["name"] for receiver in content["receivers"]}
    route = content["route"]
    assert {route["receiver"], *(one["receiver"] for one in route["routes"])} == receivers
    rules = [
        rule
        for group in read(DEPLOY / "prometheus" / "alerts.yml")["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    [by_program] = {
        rule["labels"]["severity"] for rule in rules if rule["alert"] == "PrequentialProcessDown"
    }  # fmt: skip
    assert {rule["labels"]["severity"] for rule in rules} == {"page", "ticket", by_program}
    assert [one["matchers"] for one in route["routes"]] == [['severity = "page"']]
    matchers = [
        matcher
        for rule in content["inhibit_rules"]
        for matcher in (*rule["source_matchers"], *rule["target_matchers"])
    ]
    named = {found for matcher in matchers for found in re.findall(r"Prequential\w+", matcher)}
    assert named
    assert named <= {rule["alert"] for rule in rules}


def test_grafana_finds_prometheus_and_the_dashboard(services: dict[str, Any]) -> None:
    provisioning = DEPLOY / "grafana" / "provisioning"
    [source] = read(provisioning / "datasources" / "prometheus.yaml")["datasources"]
    url = urlsplit(source["url"])
    assert services[url.hostname]["ports"] == [f"127.0.0.1:{url.port}:{url.port}"]
    scrapes = read(DEPLOY / "prometheus" / "prometheus.yml")["global"]
    assert source["jsonData"]["timeInterval"] == scrapes["scrape_interval"]

    variables = {entry["name"]: entry for entry in load()["templating"]["list"]}
    assert variables["datasource"]["current"]["value"] == source["uid"]

    [provider] = read(provisioning / "dashboards" / "prequential.yaml")["providers"]
    folder = provider["options"]["path"]
    assert f"./deploy/grafana/dashboards:{folder}:ro" in services["grafana"]["volumes"]
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{folder}/prequential.json"


def test_configuration_is_read_and_shows_the_defaults() -> None:
    config = load_config(str(DEPLOY / "prequential.yaml"))
    assert config.defaults == replace(StreamConfig(), alarm_budget="1 per 30d")
    assert config.stream("elec2").label_horizon == 24 * 3_600_000
    assert config.kafka.bootstrap_servers == "kafka:9092"
    assert (config.http.host, config.http.port) == ("0.0.0.0", 9464)


def test_image_is_made_on_a_pinned_base() -> None:
    base = next(rest for word, rest in dockerfile() if word == "ARG")
    name, _, image = base.partition("=")
    assert VERSION.fullmatch(image.removeprefix("python:")), image
    assert [rest for word, rest in dockerfile() if word == "FROM"] == [
        f"${{{name}}} AS build",
        f"${{{name}}} AS install",
        "scratch",
    ]


def test_image_runs_unprivileged_checks_its_health_and_has_no_secrets() -> None:
    instructions = dockerfile()
    final = instructions[max(i for i, (word, _) in enumerate(instructions) if word == "FROM") :]
    words = [word for word, _ in final]
    assert "HEALTHCHECK" in words
    assert int(_last("USER").partition(":")[0]) > 0
    # Nothing but what `rootfs.py` has chosen, and nothing is run in it: there is no shell.
    assert [rest for word, rest in final if word == "COPY"] == ["--from=install /rootfs /"]
    assert not {"RUN", "ADD"} & set(words)
    assert all(rest.startswith(("[", "--")) for word, rest in final if word in ("CMD", "ENTRYPOINT"))
    assert "ADD" not in [word for word, _ in instructions]
    settings = [rest for word, rest in instructions if word in ("ENV", "ARG")]
    assert not [setting for setting in settings if SECRET.search(setting)]


def test_image_takes_only_the_package() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    allowed = {rule[1:] for rule in rules if rule.startswith("!")}
    package = {"pyproject.toml", "README.md", "LICENSE*", "topics", "pipeline"}
    assert allowed == package | {"deploy/requirements*.txt", "deploy/rootfs.py"}


def _variables(service: dict[str, Any]) -> list[tuple[str, str]]:
    return list(service.get("environment", {}).items())


def _last(word: str) -> str:
    """The arguments of the last such instruction of the Dockerfile."""
    return [rest for found, rest in dockerfile() if found == word][-1]


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
