"""What the Helm chart has of other files, and what it comes to; `make manifests` writes both anew.

Alert rules as the Prometheus operator wants them, and topics with who may do what to them, lie in the chart,
as it can't read files outside of it. What it comes to with some values lies beside the tests, so that it is
looked at also where helm isn't installed. Tests hold all of them against where they come from.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from prequential.configuration.settings.model import Config
from prequential.topics.permissions import INGEST, READER, WORKER
from prequential.topics.specs import DISPARITIES, INPUT_RETENTION, topic_specs

DEPLOY = Path(__file__).parents[2] / "deploy"
HELM = DEPLOY / "helm"
CHART = HELM / "prequential"

#: What the chart came to, by values.
RENDERED = Path(__file__).parent / "data" / "chart"

#: Values that are looked at, with the namespace that they are for.
CASES = {
    HELM / "outside.yaml": "prequential",
    HELM / "strimzi.yaml": "kafka",
    RENDERED / "everything.yaml": "kafka",
    RENDERED / "wide.yaml": "kafka",
}

#: The oldest version of Kubernetes that is looked at, and the newest.
OLDEST, NEWEST = "1.33", "1.37"

#: The rules that Prometheus reads.
RULES = ("alerts.yml", "recording.yml")

#: What each component may do with topics, by their role: what it needs, and to see settings that it looks at
#: (see `docs/reference/topics.md`).
_OPERATIONS = {
    "worker": {role: [*needed, "DescribeConfigs"] for role, needed in WORKER.items()},
    "ingest": {
        role: [*needed, "DescribeConfigs"] if role == "dead-letters" else [*needed]
        for role, needed in INGEST.items()
    },
    # People mark incidents on the page.
    "dashboard": {
        role: [*needed, "Write"] if role == "marks" else [*needed] for role, needed in READER.items()
    },
    "archive": {role: [*needed] for role, needed in READER.items()},
}

_HEAD = "# Made by `make manifests` of {source}: change it there.\n"


def helm() -> str | None:
    """Where helm is: the variable HELM says so, or it is on the path."""
    return os.environ.get("HELM") or shutil.which("helm")


def parts() -> dict[Path, str]:
    """By file of the chart: its content."""
    return {
        CHART / "files" / "rules.yaml": _text("deploy/prometheus/alerts.yml and recording.yml", _rules()),
        CHART / "files" / "topics.yaml": _text("topics/prequential/topics/specs.py", _topics()),
    }


def render(values: Path, namespace: str, *more: str) -> list[dict[str, Any]]:
    """What helm makes of the chart with these values; `more` are arguments of its."""
    command = helm()
    assert command is not None
    done = subprocess.run(
        [
            command, "template", "prequential", str(CHART), "--values", str(values),
            "--namespace", namespace, "--kube-version", OLDEST, *more,
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise ValueError(done.stderr)
    found = [one for one in yaml.safe_load_all(done.stdout) if one is not None]
    return sorted(found, key=lambda one: (one["kind"], one["metadata"]["name"]))


def without_rules(documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the alert rules, which `files/rules.yaml` has already."""
    return [one for one in documents if one["kind"] != "PrometheusRule"]


def rendered(values: Path) -> Path:
    """The file that has what the chart comes to with these values."""
    return RENDERED / "rendered" / values.name


def _rules() -> Any:
    texts = [(DEPLOY / "prometheus" / name).read_text(encoding="utf-8") for name in RULES]
    return {"groups": [group for text in texts for group in yaml.safe_load(text)["groups"]]}


def _topics() -> Any:
    found = []
    for spec in topic_specs(Config().kafka, wide=True, disparity=True):
        configs = dict(spec.configs)
        # What is kept for as long as the inputs, the chart says itself.
        kept = configs.get("retention.ms") == str(INPUT_RETENTION)
        if kept:
            del configs["retention.ms"]
        operations = {who: of[spec.role] for who, of in _OPERATIONS.items() if spec.role in of}
        one = {"name": spec.name, "kept": kept, "config": configs, "operations": operations}
        if spec.role == "parts" or spec.name == DISPARITIES:  # only where the configuration needs it
            one["wide" if spec.role == "parts" else "disparity"] = True
        found.append(one)
    return found


class _Dumper(yaml.SafeDumper):
    """Without anchors, and with lists indented."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)


def _text(source: str, *documents: Any) -> str:
    """A file's content."""
    dumped = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
    return _HEAD.format(source=source) + dumped


def main() -> None:
    """Write all."""
    for path, content in parts().items():
        path.write_text(content, encoding="utf-8")
        print(path)
    if helm() is None:
        raise SystemExit(
            "helm isn't installed (the variable HELM may say where it is): the chart isn't rendered"
        )
    for values, namespace in CASES.items():
        documents = without_rules(render(values, namespace))
        source = f"deploy/helm/prequential with {values.name}"
        rendered(values).write_text(_text(source, *documents), encoding="utf-8")
        print(rendered(values))


if __name__ == "__main__":
    main()
