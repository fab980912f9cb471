"""Manifests for Kubernetes that say what stands elsewhere; `make manifests` writes them anew.

Alert rules as the Prometheus operator wants them, topics and permissions as Strimzi's operators do. A test
holds them against where they come from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from prequential.config.reader import load_config
from prequential.settings.model import Config
from prequential.topics.specs import TopicSpec, topic_specs

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
STRIMZI = KUBERNETES / "overlays" / "strimzi"

#: The rules that Prometheus reads.
RULES = ("alerts.yml", "recording.yml")

#: What a worker may do with its topics, by their role (see `docs/operations.md`).
_OPERATIONS = {
    "input": ["Read", "Describe", "DescribeConfigs"],
    "output": ["Write", "Describe", "DescribeConfigs"],
    "dead-letters": ["Write", "Describe", "DescribeConfigs"],
    "journal": ["Read", "Write", "Describe", "DescribeConfigs"],
    "snapshots": ["Read", "Write", "Describe", "DescribeConfigs"],
}

#: Strimzi's own label: which Kafka it is about.
_CLUSTER = {"strimzi.io/cluster": "kafka"}

_HEAD = "# Made by `make manifests` of {source}: change it there.\n"


def manifests() -> dict[Path, tuple[str, list[dict[str, Any]]]]:
    """By file: what it is made of, and its documents."""
    config = load_config(str(STRIMZI / "prequential.yaml"))
    return {
        KUBERNETES / "components" / "monitoring" / "prometheusrule.yaml": (
            "deploy/prometheus/alerts.yml and recording.yml",
            [_rule()],
        ),
        STRIMZI / "topics.yaml": (
            "topics/prequential/topics/specs.py",
            [_topic(spec) for spec in topic_specs(config.kafka)],
        ),
        STRIMZI / "user.yaml": ("tests/deploy/manifests.py", [_user(config)]),
    }


def _rule() -> dict[str, Any]:
    texts = [(DEPLOY / "prometheus" / name).read_text(encoding="utf-8") for name in RULES]
    groups = [group for text in texts for group in yaml.safe_load(text)["groups"]]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "prequential"},
        "spec": {"groups": groups},
    }


def _topic(spec: TopicSpec) -> dict[str, Any]:
    return {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaTopic",
        "metadata": {"name": spec.name, "labels": _CLUSTER},
        "spec": {
            "partitions": spec.partitions, "replicas": spec.replication, "config": dict(spec.configs),
        },
    }  # fmt: skip


def _user(config: Config) -> dict[str, Any]:
    def rule(kind: str, name: str, operations: list[str], pattern: str = "literal") -> dict[str, Any]:
        return {
            "resource": {"type": kind, "name": name, "patternType": pattern},
            "operations": operations,
        }

    topics = [rule("topic", spec.name, _OPERATIONS[spec.role]) for spec in topic_specs(config.kafka)]
    acls = [
        *topics,
        rule("group", config.group, ["Read", "Describe"]),
        rule("group", f"{config.group}-fetch", ["Describe"]),
        rule("group", "prequential-read", ["Describe"]),
        rule("transactionalId", f"{config.group}-shard-", ["Write", "Describe"], "prefix"),
    ]
    return {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaUser",
        "metadata": {"name": "prequential", "labels": _CLUSTER},
        "spec": {
            "authentication": {"type": "scram-sha-512"},
            "authorization": {"type": "simple", "acls": acls},
        },
    }


class _Dumper(yaml.SafeDumper):
    """Without anchors, and with lists indented."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)


def text(source: str, documents: list[dict[str, Any]]) -> str:
    """A file's content."""
    dumped = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
    return _HEAD.format(source=source) + dumped


if __name__ == "__main__":
    for path, (source, documents) in manifests().items():
        path.write_text(text(source, documents), encoding="utf-8")
        print(path)
