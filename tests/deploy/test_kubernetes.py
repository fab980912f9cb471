"""The manifests for Kubernetes: what kustomize makes of them fits the API, the program and each other."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from crds import SCHEMAS
from manifests import KUBERNETES, manifests, text
from prequential.config.reader import load_config
from prequential.http.endpoint import WORKER_PORT
from prequential.settings.model import Config
from prequential.topics.specs import topic_specs

OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())

#: The oldest and the newest version of Kubernetes that is looked at.
VERSIONS = ("1.33", "1.37")


def _kustomize() -> list[str] | None:
    for command in (["kustomize", "build"], ["kubectl", "kustomize"]):
        if shutil.which(command[0]):
            return command
    return None


@pytest.fixture(scope="module", params=OVERLAYS)
def documents(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """What an overlay comes to."""
    command = _kustomize()
    if command is None:
        pytest.skip("neither kustomize nor kubectl is installed: overlays aren't composed")
    folder = KUBERNETES / "overlays" / request.param
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def only(documents: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    [found] = [document for document in documents if document["kind"] == kind]
    return found


def pods(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The templates of all pods."""
    return [one["spec"]["template"] for one in documents if one["kind"] in ("StatefulSet", "Job")]


def configuration(documents: list[dict[str, Any]], folder: Path) -> Config:
    """The ConfigMap, as the program reads it."""
    path = folder / "prequential.yaml"
    path.write_text(only(documents, "ConfigMap")["data"]["prequential.yaml"], encoding="utf-8")
    return load_config(str(path))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_api_takes_everything(documents: list[dict[str, Any]], version: str) -> None:
    for document in documents:
        own = SCHEMAS.get((document["apiVersion"], document["kind"]))
        if own is not None:
            jsonschema.validate(document, own)
        else:
            kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("path", sorted(KUBERNETES.rglob("*.yaml")), ids=lambda path: path.name)
def test_files_are_used(path: Path) -> None:
    """Each is named by the kustomization beside it."""
    if path.name == "kustomization.yaml":
        return
    assert path.name in (path.parent / "kustomization.yaml").read_text(encoding="utf-8")


def test_the_program_reads_its_configuration(documents: list[dict[str, Any]], tmp_path: Path) -> None:
    config = configuration(documents, tmp_path)
    [container] = only(documents, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert config.http.host == "0.0.0.0"
    served = WORKER_PORT if config.http.port is None else config.http.port
    assert [port["containerPort"] for port in container["ports"]] == [served]
    assert config.kafka.replication == 3
    # The name of the pod is that of the member.
    form, _, variable = (config.worker.instance_id or "").partition(":")
    assert form == "env"
    assert [env["name"] for env in container["env"]] == [variable]
    assert container["env"][0]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    # Files that it names are mounted.
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    for value in config.kafka.security.values():
        file = value.removeprefix("file:")
        assert not file.startswith("/") or any(file.startswith(f"{mount}/") for mount in mounts), file
    path = Path(container["args"][-1])
    assert container["args"] == ["worker", "--config", str(path)]
    assert path.name == "prequential.yaml"
    assert str(path.parent) in mounts


def test_probes_are_what_workers_answer(documents: list[dict[str, Any]]) -> None:
    [container] = only(documents, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    answers = {"startupProbe": "/live", "livenessProbe": "/live", "readinessProbe": "/ready"}
    for probe, path in answers.items():
        assert container[probe]["httpGet"] == {"path": path, "port": "http"}
        # A worker answers within 5 s, or says that it can't.
        assert container[probe]["timeoutSeconds"] > 5


def test_pods_are_restricted(documents: list[dict[str, Any]]) -> None:
    """As Kubernetes' Pod Security Standard `restricted` asks, and no more rights than that."""
    for template in pods(documents):
        spec = template["spec"]
        own = spec["securityContext"]
        assert own["runAsNonRoot"]
        assert own["runAsUser"] == 10001
        assert own["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        kinds = {next(key for key in volume if key != "name") for volume in spec["volumes"]}
        assert kinds <= {"configMap", "emptyDir", "secret", "projected"}
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            resources = container["resources"]
            assert resources["limits"] == {"memory": resources["requests"]["memory"]}
            assert re.fullmatch(r"prequential:\d+\.\d+\.\d+", container["image"])


def test_selectors_meet_the_workers_and_nothing_else(documents: list[dict[str, Any]]) -> None:
    workers = only(documents, "StatefulSet")["spec"]
    labels = workers["template"]["metadata"]["labels"]
    others = [one["metadata"]["labels"] for one in pods(documents) if one["metadata"]["labels"] != labels]
    selectors = [
        workers["selector"]["matchLabels"],
        only(documents, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        only(documents, "PodMonitor")["spec"]["selector"]["matchLabels"],
        only(documents, "Service")["spec"]["selector"],
    ]
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert not any(selector.items() <= other.items() for other in others)
    network = only(documents, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
    assert all(network.items() <= one["metadata"]["labels"].items() for one in pods(documents))


def test_scaling_goes_up_to_the_partitions(documents: list[dict[str, Any]], tmp_path: Path) -> None:
    scaled = only(documents, "ScaledObject")["spec"]
    workers = only(documents, "StatefulSet")
    assert scaled["maxReplicaCount"] == configuration(documents, tmp_path).kafka.partitions
    assert scaled["scaleTargetRef"]["name"] == workers["metadata"]["name"]
    assert "replicas" not in workers["spec"]
    [trigger] = scaled["triggers"]
    namespace = workers["metadata"]["namespace"]
    assert trigger["metadata"]["query"] == f'sum(prequential_lag_records{{namespace="{namespace}"}})'


def test_no_secret_stands_there(documents: list[dict[str, Any]], tmp_path: Path) -> None:
    assert "Secret" not in {document["kind"] for document in documents}
    assert configuration(documents, tmp_path).kafka.security["sasl.password"].startswith("file:")


@pytest.mark.parametrize("path", list(manifests()), ids=lambda path: path.name)
def test_what_is_made_of_other_files_is_as_they_are(path: Path) -> None:
    wanted = text(*manifests()[path])
    assert path.read_text(encoding="utf-8") == wanted, "`make manifests` writes it anew"


def test_strimzi_makes_the_topics_that_the_program_expects() -> None:
    folder = KUBERNETES / "overlays" / "strimzi"
    specs = topic_specs(load_config(str(folder / "prequential.yaml")).kafka)
    found = yaml.safe_load_all((folder / "topics.yaml").read_text(encoding="utf-8"))
    assert [(one["metadata"]["name"], one["spec"]["partitions"], one["spec"]["config"]) for one in found] == [
        (spec.name, spec.partitions, dict(spec.configs)) for spec in specs
    ]
