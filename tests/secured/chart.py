"""What the Helm chart deploys, as a machine without Kubernetes can have it.

Read from `tests/deploy/data/chart/rendered`, which is held against the chart itself where helm is installed:
with `everything`, or with other values, by name. What differs here: addresses, the paths of secrets, and that
nothing grows, so that the worker's user hasn't what `topics grow` needs.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.secured.acls import Acl, of_kafka_user

_ROOT = Path(__file__).parents[2]
_RENDERED = _ROOT / "tests" / "deploy" / "data" / "chart" / "rendered"

#: Names of values: with all that the chart can render at once; with a stream in all partitions, which can't
#: be together with growth.
EVERYTHING, WIDE = "everything", "wide"

#: Alert rules as the chart has them, and the Alertmanager's configuration.
RULES = _ROOT / "deploy" / "helm" / "prequential" / "files" / "rules.yaml"
ALERTMANAGER = _ROOT / "deploy" / "alertmanager" / "alertmanager.yml"

#: Where pods find secrets.
_SECRETS = "/run/secrets/"


class Part(NamedTuple):
    """A component: its pods' command line, its user and what that one may do."""

    name: str
    args: tuple[str, ...]
    user: str
    acls: tuple[Acl, ...]
    values: str


@cache
def documents(values: str = EVERYTHING) -> list[dict[str, Any]]:
    """All that was rendered."""
    text = (_RENDERED / f"{values}.yaml").read_text(encoding="utf-8")
    return [one for one in yaml.safe_load_all(text) if one is not None]


def of(kind: str, values: str = EVERYTHING) -> list[dict[str, Any]]:
    """Those of a kind."""
    return [one for one in documents(values) if one["kind"] == kind]


def component_of(document: dict[str, Any]) -> str:
    """Whose it is."""
    return str(document["metadata"]["labels"]["app.kubernetes.io/component"])


def parts(values: str = EVERYTHING) -> dict[str, Part]:
    """The components that go on, by name."""
    users = {component_of(one): one for one in of("KafkaUser", values)}
    found = {}
    for document in of("StatefulSet", values) + of("Deployment", values):
        name = component_of(document)
        [container] = document["spec"]["template"]["spec"]["containers"]
        user = users[name]["metadata"]["name"]
        variables = {one["name"]: one.get("value") for one in container["env"]}
        assert variables["KAFKA_USERNAME"] == user, name
        acls = of_kafka_user(users[name])
        if name == "worker":
            acls = [acl for acl in acls if not _for_growth(acl)]
        found[name] = Part(name, tuple(container["args"]), user, tuple(acls), values)
    return found


def _for_growth(acl: Acl) -> bool:
    """Whether the worker's user has it because `grow.partitions` is set."""
    if acl.kind == "topic" and acl.name.endswith("incident-marks"):
        return True
    return acl.operation == "Alter" or (acl.kind == "group" and acl.name.endswith("-ingest"))


def configuration(servers: str, secrets: Path, values: str = EVERYTHING) -> str:
    """The ConfigMap's `prequential.yaml`, for a cluster at these addresses and secrets in this folder."""
    [document] = of("ConfigMap", values)
    text: str = document["data"]["prequential.yaml"]
    there = yaml.safe_load(text)["kafka"]["bootstrap_servers"]
    return text.replace(there, servers).replace(_SECRETS, f"{secrets}/")


def settings(values: str = EVERYTHING) -> dict[str, Any]:
    """The ConfigMap's `prequential.yaml`, parsed."""
    [document] = of("ConfigMap", values)
    return dict(yaml.safe_load(document["data"]["prequential.yaml"]))


def monitors() -> dict[str, dict[str, Any]]:
    """How Prometheus scrapes each component that it scrapes, and the job's name there."""
    found = {}
    for one in of("PodMonitor"):
        [endpoint] = one["spec"]["podMetricsEndpoints"]
        meta = one["metadata"]
        found[component_of(one)] = {**endpoint, "job": f"{meta['namespace']}/{meta['name']}"}
    return found
