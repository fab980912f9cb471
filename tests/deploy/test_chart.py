"""The Helm chart: what it comes to fits the API, the program and each other.

What it comes to with some values lies in `data/chart/rendered`, so that this is looked at without helm, too.
Where helm is installed, or the variable HELM says where it is, these files are held against the chart itself.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from crds import SCHEMAS
from manifests import CASES, CHART, HELM, NEWEST, OLDEST, helm, parts, render, rendered, without_rules
from prequential.cli import archive
from prequential.cli.dashboard import PORT as PAGE_PORT
from prequential.cli.main import main
from prequential.configfile.reading.reader import SECTIONS, load_config
from prequential.configuration.settings.model import Config
from prequential.topics.specs import topic_specs
from prequential.web.http import ARCHIVE_PORT, INGEST_PORT, NOTIFY_PORT, WORKER_PORT

Documents = list[dict[str, Any]]

VALUES = CHART / "values.yaml"

#: Components with pods of their own that go on, and where they serve.
SERVERS = {
    "worker": WORKER_PORT, "ingest": INGEST_PORT, "dashboard": PAGE_PORT, "notify": NOTIFY_PORT,
    "archive": ARCHIVE_PORT,
}  # fmt: skip

#: Those of them that Prometheus reads.
SCRAPED = SERVERS.keys() - {"dashboard"}

needs_helm = pytest.mark.skipif(
    helm() is None,
    reason="helm isn't installed, and HELM doesn't say where it is: the chart isn't rendered, only what it "
    "came to in tests/deploy/data/chart/rendered is looked at",
)


def validate(document: Any, own: Any) -> None:
    """Hold it against a schema."""
    import jsonschema  # takes seconds, in each process of a run that has it at the top of a file

    jsonschema.validate(document, own)


def read(path: Path) -> Documents:
    return list(yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader))


@pytest.fixture(params=CASES, ids=lambda path: path.stem)
def documents(request: pytest.FixtureRequest) -> Documents:
    """What the chart comes to, but for the alert rules."""
    return read(rendered(request.param))


def of(documents: Documents, kind: str) -> Documents:
    return [document for document in documents if document["kind"] == kind]


def only(documents: Documents, kind: str) -> dict[str, Any]:
    [found] = of(documents, kind)
    return found


def component(document: dict[str, Any]) -> str:
    name: str = document["metadata"]["labels"]["app.kubernetes.io/component"]
    return name


def pods(documents: Documents) -> dict[str, dict[str, Any]]:
    """The templates of all pods of the release, by component: not of the check, which runs before it."""
    owners = [one for one in documents if one["kind"] in ("StatefulSet", "Deployment", "Job")]
    return {component(one): one["spec"]["template"] for one in owners if component(one) != "check"}


def container(template: dict[str, Any]) -> dict[str, Any]:
    [found] = template["spec"]["containers"]
    return dict(found)


def configuration(documents: Documents, folder: Path) -> Config:
    """The ConfigMap, as the program reads it."""
    path = folder / "prequential.yaml"
    path.write_text(only(documents, "ConfigMap")["data"]["prequential.yaml"], encoding="utf-8")
    return load_config(str(path))


# ---- what it comes to


@pytest.mark.slow
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_api_takes_everything(documents: Documents, version: str) -> None:
    import kubernetes_validate

    for document in documents:
        own = SCHEMAS.get((document["apiVersion"], document["kind"]))
        if own is not None:
            validate(document, own)
        else:
            kubernetes_validate.validate(document, version, strict=True)


def test_names_are_each_object_s_own(documents: Documents) -> None:
    named = [(one["kind"], one["metadata"]["name"]) for one in documents]
    assert len(set(named)) == len(named)
    assert len({one["metadata"]["namespace"] for one in documents}) == 1


def test_the_program_reads_its_configuration(documents: Documents, tmp_path: Path) -> None:
    config = configuration(documents, tmp_path)
    assert config.http.host == "0.0.0.0"
    assert config.http.port is None
    assert config.kafka.replication == 3
    # The name of the pod is that of the member.
    assert config.worker.instance_id == "env:POD_NAME"
    for name, template in pods(documents).items():
        one = container(template)
        variables = {entry["name"]: entry for entry in one["env"]}
        assert variables["POD_NAME"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
        command, path = one["args"][:2] if name in ("topics", "grow") else one["args"][:1], "--config"
        assert command == {"topics": ["topics", "create"], "grow": ["topics", "grow"]}.get(name, [name])
        file = Path(one["args"][one["args"].index(path) + 1])
        mounts = [mount["mountPath"] for mount in one["volumeMounts"]]
        assert str(file.parent) in mounts
        assert file.name in only(documents, "ConfigMap")["data"]
        # What it names is there: files are mounted, variables are set.
        for value in filter(None, [*config.kafka.security.values(), config.http.token]):
            form, _, source = value.partition(":")
            source = value if value.startswith("/") else source
            if form == "env":
                assert source in variables, (name, value)
            elif source.startswith("/"):
                assert any(source.startswith(f"{mount}/") for mount in mounts), (name, value)


def test_ports_and_probes_are_what_they_serve_and_answer(documents: Documents) -> None:
    answers = {"startupProbe": "/live", "livenessProbe": "/live", "readinessProbe": "/ready"}
    for name, template in pods(documents).items():
        one = container(template)
        if name not in SERVERS:
            assert not {*answers, "ports"} & one.keys()
            continue
        assert [port["containerPort"] for port in one["ports"]] == [SERVERS[name]]
        for probe, path in answers.items():
            if name == "dashboard":  # which has no path that needs no token
                assert one[probe]["tcpSocket"] == {"port": "http"}
                continue
            assert one[probe]["httpGet"] == {"path": path, "port": "http"}
            # A worker answers within 5 s, or says that it can't.
            assert one[probe]["timeoutSeconds"] > 5


def test_pods_are_restricted(documents: Documents) -> None:
    """As Kubernetes' Pod Security Standard `restricted` asks, and no more rights than that."""
    account = only(documents, "ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    for template in pods(documents).values():
        spec = template["spec"]
        own = spec["securityContext"]
        assert own["runAsNonRoot"]
        assert own["runAsUser"] == 10001
        assert own["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert spec["serviceAccountName"] == account["metadata"]["name"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        kinds = {next(key for key in volume if key != "name") for volume in spec["volumes"]}
        assert kinds <= {"configMap", "emptyDir", "secret", "projected", "persistentVolumeClaim"}
        one = container(template)
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert one["resources"]["limits"] == {"memory": one["resources"]["requests"]["memory"]}
        assert re.fullmatch(r"[a-z./]*prequential(:\d+\.\d+\.\d+|@sha256:[0-9a-f]{64})", one["image"])


def test_the_configuration_is_checked_before_anything_changes(
    documents: Documents, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a hook that needs nothing of the release: no Secret, no ConfigMap, no account."""
    [job] = [one for one in of(documents, "Job") if component(one) == "check"]
    hooks = job["metadata"]["annotations"]
    assert hooks["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert job["spec"]["backoffLimit"] == 0
    template = job["spec"]["template"]
    assert template["spec"]["restartPolicy"] == "Never"
    assert "serviceAccountName" not in template["spec"]
    kinds = {next(key for key in volume if key != "name") for volume in template["spec"]["volumes"]}
    assert kinds == {"downwardAPI", "emptyDir"}
    one, worker = container(template), container(pods(documents)["worker"])
    for key in ("image", "imagePullPolicy", "securityContext"):
        assert one[key] == worker[key]
    own, others = template["spec"]["securityContext"], pods(documents)["worker"]["spec"]["securityContext"]
    assert own == others
    [volume] = [found for found in template["spec"]["volumes"] if "downwardAPI" in found]
    [item] = volume["downwardAPI"]["items"]
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['prequential.yaml']"
    content = template["metadata"]["annotations"]["prequential.yaml"]
    assert content == only(documents, "ConfigMap")["data"]["prequential.yaml"]
    command, what, path = one["args"]
    assert path == f"{one['volumeMounts'][0]['mountPath']}/{item['path']}"
    file = tmp_path / item["path"]
    file.write_text(content, encoding="utf-8")
    assert main([command, what, str(file)]) == 0
    file.write_text(f"{content}\ndefalts: {{}}\n", encoding="utf-8")
    assert main([command, what, str(file)]) == 2
    assert "unknown key 'defalts'" in capsys.readouterr().err


def test_selectors_meet_their_component_and_nothing_else(documents: Documents) -> None:
    labels = {name: template["metadata"]["labels"] for name, template in pods(documents).items()}
    for document in documents:
        spec = document.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if selector is None:
            continue
        matched = selector.get("matchLabels", selector)
        met = {name for name, own in labels.items() if matched.items() <= own.items()}
        whole = document["kind"] == "NetworkPolicy" and spec["policyTypes"] == ["Ingress", "Egress"]
        assert met == (set(labels) if whole else {component(document)}), document["kind"]
    assert all(document["metadata"]["labels"].items() >= {
        "app.kubernetes.io/name": "prequential", "app.kubernetes.io/instance": "prequential",
        "app.kubernetes.io/managed-by": "Helm",
    }.items() for document in documents)  # fmt: skip


def test_only_what_is_named_gets_in_and_out(documents: Documents) -> None:
    whole, *others = sorted(of(documents, "NetworkPolicy"), key=lambda one: len(one["metadata"]["name"]))
    served = {port["port"] for rule in whole["spec"]["ingress"] for port in rule["ports"]}
    assert served == {SERVERS[name] for name in SCRAPED & pods(documents).keys()}
    dns, kafka = whole["spec"]["egress"][:2]
    assert {(port["protocol"], port["port"]) for port in dns["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert kafka["ports"] == [{"protocol": "TCP", "port": 9093}]
    blocks = [to["ipBlock"]["cidr"] for to in kafka["to"] if "ipBlock" in to]
    if blocks:  # of both families
        assert {":" in block for block in blocks} == {False, True}
    else:
        assert kafka["to"][0]["podSelector"]["matchLabels"]["strimzi.io/kind"] == "Kafka"
    stores = {"archive"} if _archived_to(documents).startswith("s3://") else set()
    assert {component(one) for one in others} == pods(documents).keys() & {"dashboard", "notify", *stores}
    for one in others:
        if component(one) != "dashboard":  # to the webhook or the object store, and nothing gets in by it
            [rule] = one["spec"]["egress"]
            assert one["spec"]["policyTypes"] == ["Egress"]
            assert rule["ports"] == [{"protocol": "TCP", "port": 443}]


def test_the_number_of_partitions_stands_in_one_place(documents: Documents, tmp_path: Path) -> None:
    partitions = configuration(documents, tmp_path).kafka.partitions
    assert {one["spec"]["partitions"] for one in of(documents, "KafkaTopic")} <= {partitions}
    assert {one["spec"]["maxReplicaCount"] for one in of(documents, "ScaledObject")} <= {partitions}


def test_scaling_asks_for_what_the_workers_scrape_has(documents: Documents) -> None:
    [workers] = [one for one in of(documents, "StatefulSet") if component(one) == "worker"]
    scaled = of(documents, "ScaledObject")
    assert ("replicas" in workers["spec"]) == (not scaled)  # it is KEDA's: a rollout mustn't set it back
    for one in scaled:
        assert one["spec"]["scaleTargetRef"]["name"] == workers["metadata"]["name"]
        [trigger] = one["spec"]["triggers"]
        [monitor] = [found for found in of(documents, "PodMonitor") if component(found) == "worker"]
        job = "{namespace}/{name}".format(**monitor["metadata"])  # as the operator names it
        assert trigger["metadata"]["query"] == f'sum(prequential_lag_records{{job="{job}"}})'


def test_monitoring_is_what_the_operator_selects(documents: Documents) -> None:
    monitors = of(documents, "PodMonitor")
    scraped = SCRAPED & set(pods(documents))
    assert {component(one) for one in monitors} in (set(), scraped)
    for monitor in monitors:
        assert monitor["metadata"]["labels"]["release"] == "kube-prometheus-stack"


def test_no_secret_stands_there(documents: Documents, tmp_path: Path) -> None:
    assert "Secret" not in {document["kind"] for document in documents}
    assert configuration(documents, tmp_path).kafka.security["sasl.password"].startswith("file:")


# ---- Strimzi


@cache
def strimzi() -> list[Any]:
    return [pytest.param(read(rendered(path)), id=path.stem) for path in CASES if path.stem != "outside"]


@pytest.mark.parametrize("documents", strimzi())
def test_strimzi_makes_the_topics_that_the_program_expects(documents: Documents, tmp_path: Path) -> None:
    config = configuration(documents, tmp_path)
    found = {
        one["spec"]["topicName"]: (one["spec"]["partitions"], one["spec"]["replicas"], one["spec"]["config"])
        for one in of(documents, "KafkaTopic")
    }
    assert found == {
        spec.name: (spec.partitions, spec.replication, dict(spec.configs))
        for spec in topic_specs(config.kafka, config.longest_horizon, wide=bool(config.wide))
    }


#: What a worker may do with its topics, by their role, as docs/reference/topics.md has it.
WORKERS_TOPICS = {
    "input": {"Read"}, "output": {"Write"}, "dead-letters": {"Write"}, "journal": {"Read", "Write"},
    "snapshots": {"Read", "Write"}, "parts": {"Read", "Write"},
}  # fmt: skip


@pytest.mark.parametrize("documents", strimzi())
def test_each_may_do_what_it_does_and_nothing_else(documents: Documents, tmp_path: Path) -> None:
    config = configuration(documents, tmp_path)
    growing, group, prefix = "grow" in pods(documents), config.group, config.kafka.prefix
    looks = {"Describe", "DescribeConfigs"}
    topics: dict[str, set[str]] = {}
    for spec in topic_specs(config.kafka, wide=bool(config.wide)):
        topics.setdefault(spec.role, set()).add(spec.name)
    merges: dict[tuple[str, str, str], set[str]] = {
        ("group", config.merge_group, "literal"): {"Read", "Describe"},
        ("transactionalId", f"{config.merge_group}-", "prefix"): {"Write", "Describe"},
    }
    expected: dict[str, dict[tuple[str, str, str], set[str]]] = {
        "worker": {
            **{
                ("topic", name, "literal"): WORKERS_TOPICS[role] | looks | ({"Alter"} if growing else set())
                for role, names in topics.items() if role != "marks" for name in names
            },
            # A worker has nothing to do with them, but growth is about all topics.
            **{("topic", name, "literal"): {"Describe", "Alter"} for name in topics["marks"] if growing},
            ("group", group, "literal"): {"Read", "Describe"},
            ("group", f"{group}-fetch", "literal"): {"Describe"},
            ("group", "prequential-read", "literal"): {"Describe"},
            **({("group", f"{group}-ingest", "literal"): {"Describe"}} if growing else {}),
            ("transactionalId", f"{group}-shard-", "prefix"): {"Write", "Describe"},
            **(merges if config.wide else {}),
        },
        "ingest": {
            **{("topic", name, "literal"): {"Write", "Describe"} for name in topics["input"]},
            ("topic", f"{prefix}dead-letters", "literal"): {"Write"} | looks,
            **{
                ("topic", name, "literal"): {"Read"} | looks
                for source in config.ingest for name in source.topics
            },
            ("group", f"{group}-ingest", "literal"): {"Read", "Describe"},
            ("group", f"{group}-ingest-fetch", "literal"): {"Describe"},
            ("group", f"{group}-ingest-dry-run", "literal"): {"Describe"},
            ("transactionalId", f"{group}-ingest-", "prefix"): {"Write", "Describe"},
        },
        "dashboard": {
            **{("topic", name, "literal"): {"Read", "Describe"} for name in topics["output"]},
            **{("topic", name, "literal"): {"Read", "Describe", "Write"} for name in topics["marks"]},
            ("group", "prequential-watch", "literal"): {"Describe"},
        },
        "notify": {
            **{
                ("topic", f"{prefix}{name}", "literal"): {"Read", "Describe"}
                for name in (*config.notify.topics, "incident-marks")
            },
            ("group", config.notify_group, "literal"): {"Read", "Describe"},
            ("group", "prequential-watch", "literal"): {"Describe"},
        },
        "archive": {
            **{
                ("topic", name, "literal"): {"Read", "Describe"}
                for name in (
                    _topics_archived(documents, prefix)
                    or {*topics["output"], *topics["marks"], f"{prefix}disparities"}
                )
            },
            ("group", "prequential-archive", "literal"): {"Describe"},
        },
    }  # fmt: skip
    users = of(documents, "KafkaUser")
    assert {component(one) for one in users} == pods(documents).keys() - {"grow"}
    for user in users:
        acls = user["spec"]["authorization"]["acls"]
        found = {
            tuple(acl["resource"][key] for key in ("type", "name", "patternType")): set(acl["operations"])
            for acl in acls
        }
        assert len(found) == len(acls)
        assert found == expected[component(user)]
        # Its credentials are those of its pod.
        template = pods(documents)[component(user)]
        [kafka] = [volume for volume in template["spec"]["volumes"] if volume["name"] == "kafka"]
        secrets = [source["secret"]["name"] for source in kafka["projected"]["sources"]]
        assert secrets[1] == user["metadata"]["name"]
        name = next(entry for entry in container(template)["env"] if entry["name"] == "KAFKA_USERNAME")
        assert name["value"] == user["metadata"]["name"]


# ---- the archive


def _archived_to(documents: Documents) -> str:
    """The address or folder of the archive; empty without an archiver."""
    if "archive" not in pods(documents):
        return ""
    words = container(pods(documents)["archive"])["args"]
    return str(words[words.index("--to") + 1])


def _topics_archived(documents: Documents, prefix: str) -> set[str]:
    """The topics that the archiver is to read; none: the program's default."""
    if "archive" not in pods(documents):
        return set()
    _, _, named = " ".join(container(pods(documents)["archive"])["args"]).partition(" --topics ")
    return {f"{prefix}{name}" for name in named.split()}


def test_an_archive_has_one_writer_and_outlives_the_release(tmp_path: Path) -> None:
    documents = read(rendered(next(path for path in CASES if path.stem == "everything")))
    [owner] = [one for one in of(documents, "StatefulSet") if component(one) == "archive"]
    assert owner["spec"]["replicas"] == 1
    [claim] = of(documents, "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"] == {"requests": {"storage": "50Gi"}}
    template = owner["spec"]["template"]
    [volume] = [one for one in template["spec"]["volumes"] if "persistentVolumeClaim" in one]
    assert volume["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}
    [mount] = [one for one in container(template)["volumeMounts"] if one["name"] == volume["name"]]
    assert _archived_to(documents) == mount["mountPath"]
    assert "readOnly" not in mount
    for name, other in pods(documents).items():
        if name != "archive":
            assert all("persistentVolumeClaim" not in one for one in other["spec"]["volumes"])


def test_the_program_takes_the_archiver_s_arguments(documents: Documents) -> None:
    if "archive" not in pods(documents):
        pytest.skip("these values have no archiver")
    words = container(pods(documents)["archive"])["args"]
    parser = argparse.ArgumentParser()
    archive.add_parser(parser.add_subparsers())
    parsed = parser.parse_args(words)
    assert (parsed.once, parsed.http) == (False, f"0.0.0.0:{ARCHIVE_PORT}")
    specs = topic_specs(Config().kafka, disparity=True)
    topics = {spec.name for spec in specs if spec.role in ("output", "marks")}
    assert set(parsed.topics) <= topics | {"dead-letters"}
    known = schema()["properties"]["archive"]["properties"]["topics"]["items"]["enum"]
    assert set(known) == topics | {"dead-letters"}


# ---- the webhook


def test_a_webhook_is_a_secret_that_notify_alone_has(tmp_path: Path) -> None:
    documents = read(rendered(next(path for path in CASES if path.stem == "everything")))
    config = configuration(documents, tmp_path).notify
    folder = "file:/run/secrets/webhook"
    assert (config.url, config.secret) == (f"{folder}/url", f"{folder}/secret")
    assert (config.form, config.severity) == ("cloudevents", 0.2)
    for name, template in pods(documents).items():
        secrets = {volume["name"]: volume.get("secret") for volume in template["spec"]["volumes"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in container(template)["volumeMounts"]}
        assert ("webhook" in secrets) == ("webhook" in mounts) == (name == "notify")
        if name == "notify":
            assert secrets["webhook"]["secretName"] == "prequential-webhook"
            assert mounts["webhook"] == "/run/secrets/webhook"


# ---- growth


def test_growth_stops_everybody_and_is_stopped_by_nobody() -> None:
    documents = read(rendered(next(path for path in CASES if path.stem == "everything")))
    job = container(pods(documents)["grow"])
    assert job["args"][:2] == ["topics", "grow"]
    assert job["args"][-2:] == ["--partitions", "12"]
    workers = container(pods(documents)["worker"])
    assert job["resources"] == workers["resources"]  # it holds what a worker holds
    scaled = only(documents, "ScaledObject")
    assert scaled["spec"]["minReplicaCount"] == 2
    assert scaled["metadata"]["annotations"] == {"autoscaling.keda.sh/paused-replicas": "0"}
    [ingest] = [one for one in of(documents, "Deployment") if component(one) == "ingest"]
    assert ingest["spec"]["replicas"] == 0
    # Strimzi's operator leaves the topics alone meanwhile.
    assert {one["spec"]["partitions"] for one in of(documents, "KafkaTopic")} == {4}


# ---- the chart's own files


@pytest.mark.parametrize("path", list(parts()), ids=lambda path: path.name)
def test_what_is_made_of_other_files_is_as_they_are(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == parts()[path], "`make manifests` writes it anew"


@pytest.mark.slow
def test_the_operator_takes_the_alert_rules() -> None:
    [rules] = read(CHART / "files" / "rules.yaml")
    about = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule"}
    document = {**about, "metadata": {"name": "prequential"}, "spec": rules}
    validate(document, SCHEMAS["monitoring.coreos.com/v1", "PrometheusRule"])


def test_versions_are_the_program_s() -> None:
    [about] = read(CHART / "Chart.yaml")
    project = (CHART.parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    [version] = re.findall(r'^version = "(.*)"$', project, re.MULTILINE)
    assert (about["version"], about["appVersion"]) == (version, version)


def schema() -> Any:
    return json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [VALUES, *CASES], ids=lambda path: path.stem)
def test_values_are_known(path: Path) -> None:
    validate(yaml.safe_load(path.read_text(encoding="utf-8")), schema())


def test_the_schema_takes_each_section_of_the_configuration() -> None:
    assert schema()["properties"]["config"]["properties"].keys() == set(SECTIONS)


def test_each_value_has_its_line_in_the_schema() -> None:
    def names(value: Any, properties: dict[str, Any], at: str) -> None:
        for key, child in value.items():
            assert key in properties, f"{at}{key}"
            if isinstance(child, dict) and "properties" in properties[key] and key != "config":
                names(child, properties[key]["properties"], f"{at}{key}.")

    names(yaml.safe_load(VALUES.read_text(encoding="utf-8")), schema()["properties"], "")


def test_a_value_that_nobody_knows_is_refused() -> None:
    from jsonschema import ValidationError

    for wrong in ({"kafka": {"partition": 8}}, {"worker": {"replicas": 0}}, {"workers": {}}):
        with pytest.raises(ValidationError):
            validate(wrong, schema())


# ---- with helm


@needs_helm
@pytest.mark.parametrize("values", CASES, ids=lambda path: path.stem)
def test_what_is_looked_at_is_what_the_chart_comes_to(values: Path) -> None:
    documents = render(values, CASES[values])
    assert read(rendered(values)) == without_rules(documents), "`make manifests` writes it anew"
    [rules] = read(CHART / "files" / "rules.yaml")
    assert [one["spec"] for one in of(documents, "PrometheusRule")] in ([], [rules])


@needs_helm
def test_helm_finds_nothing_wrong() -> None:
    command = helm()
    assert command is not None
    for values in CASES:
        done = subprocess.run(
            [command, "lint", "--strict", str(CHART), "--values", str(values)],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


@needs_helm
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "kafka.bootstrapServers="], "kafka.bootstrapServers is empty: expected host:port"),
        (["--set", "grow.partitions=6"], "is 6: expected a multiple of kafka.partitions, which is 4"),
        (["--set", "grow.partitions=4"], "grow.partitions is 4: expected a multiple"),
        (["--set", "ingest.enabled=true"], "ingest.enabled: expected topics and what their records become"),
        (["--set", "dashboard.enabled=true"], "dashboard.enabled: expected token.secret"),
        (["--set", "notify.enabled=true"], "notify.enabled: expected notify.webhook.secret"),
        (["--set", "archive.enabled=true,archive.to=/srv"], 'archive.to is "/srv": expected the address of'),
        (["--set", "archive.enabled=true,archive.to=s3://k:s@b"], "archive.to has credentials: expected"),
        (["--set", "archive.topics={journal}"], "archive.topics"),
        (["--set", "config.notify.url=https://h"], "config.notify.url: the chart sets it"),
        (["--set", "config.kafka.partitions=8"], "config.kafka: expected these settings under the chart"),
        (["--set", "config.http.token=open-sesame"], "config.http.token: the chart sets"),
        (["--set", "config.worker.group=mine"], "config.worker.group: the chart sets it"),
        (["--set", "kafka.partition=8"], "partition"),
        (["--set", "worker.replicas=5"], "worker.replicas is 5, and kafka.partitions 4: expected at most"),
        (["--set", "kafka.partitions=1"], "worker.replicas is 2, and kafka.partitions 1: expected at most"),
        (["--set", "keda.enabled=true"], "keda.enabled: expected monitoring.enabled, whose PodMonitor"),
        (
            ["--set", "keda.enabled=true,monitoring.enabled=true,keda.minReplicas=5"],
            "keda.minReplicas is 5, and kafka.partitions 4: expected at most one",
        ),
        (
            ["--set", "monitoring.enabled=true,rules.disabled={PrequentialNoLabel}"],
            'rules: there is no alert "PrequentialNoLabel"; known: Prequential',
        ),
        (
            ["--set", "monitoring.enabled=true,rules.overrides.Nothing.for=1m"],
            'rules: there is no alert "Nothing"; known: Prequential',
        ),
        (["--set", "rules.overrides.PrequentialIncident.form=1m"], "form"),
        (["--set", "runbookBaseUrl=docs"], "runbookBaseUrl"),
    ],
    ids=lambda one: one[-1] if isinstance(one, list) else "",
)  # fmt: skip
def test_what_can_t_be_is_said(arguments: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        render(HELM / "outside.yaml", "prequential", *arguments)


@needs_helm
def test_values_go_where_they_belong(tmp_path: Path) -> None:
    documents = render(
        HELM / "outside.yaml", "prequential", "--set",
        "grow.partitions=null,kafka.partitions=8,keda.enabled=true,worker.replicas=5,listen=::,"
        "monitoring.enabled=true,check.enabled=false,"
        "kafka.security.security\\.protocol=PLAINTEXT,kafka.secret=,kafka.schemaRegistry.url=http://registry,"
        "config.limits.instances_per_shard=20000000,networkPolicy.enabled=false,"
        "podDisruptionBudget.enabled=false,topics.create=false,dashboard.enabled=true,dashboard.open=true,"
        "worker.staticMembership=false,archive.enabled=true,archive.serviceAccountName=writer,"
        "archive.volume.existingClaim=mine,config.otlp.endpoint=http://collector:4318",
    )  # fmt: skip
    config = configuration(documents, tmp_path)
    assert config.kafka.partitions == only(documents, "ScaledObject")["spec"]["maxReplicaCount"] == 8
    assert config.kafka.security == {"security.protocol": "PLAINTEXT"}
    assert config.kafka.schema_registry == {"url": "http://registry"}
    assert config.limits.instances_per_shard == 20_000_000
    assert config.http.host == "::"
    assert config.worker.instance_id is None
    assert config.otlp.endpoint == "http://collector:4318"
    archiver = pods(documents)["archive"]
    assert archiver["spec"]["serviceAccountName"] == "writer"
    assert f"[::]:{ARCHIVE_PORT}" in container(archiver)["args"]
    assert {"name": "archive", "persistentVolumeClaim": {"claimName": "mine"}} in archiver["spec"]["volumes"]
    assert of(documents, "PersistentVolumeClaim") == []
    page = pods(documents)["dashboard"]
    assert "::" in container(page)["args"]
    assert [volume["name"] for volume in page["spec"]["volumes"]] == ["configuration", "tmp"]
    kinds = {one["kind"] for one in documents}
    assert not kinds & {"NetworkPolicy", "PodDisruptionBudget", "Job"}


def alerts(*more: str) -> dict[str, Any]:
    """The alert rules of the chart, by name."""
    documents = render(HELM / "outside.yaml", "prequential", "--set", "monitoring.enabled=true", *more)
    groups = only(documents, "PrometheusRule")["spec"]["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


@needs_helm
def test_rules_can_be_changed_by_values(tmp_path: Path) -> None:
    """Each value changes what it names, and nothing else; promtool takes the result."""
    before = alerts()
    values = tmp_path / "mine.yaml"
    changes = {"for": "33m", "expr": "vector(1) > 0", "labels": {"severity": "ticket"}}
    values.write_text(yaml.safe_dump({
        "rules": {
            "disabled": ["PrequentialProcessDown", "PrequentialIncident"],
            "overrides": {"PrequentialNotReady": changes}, "labels": {"team": "ml", "severity": "none"},
        },
        "runbookBaseUrl": "https://example.com/docs-of-us/",
    }), encoding="utf-8")  # fmt: skip
    after = alerts("--values", str(values))
    assert before.keys() - after.keys() == {"PrequentialProcessDown", "PrequentialIncident"}
    for name, rule in after.items():
        own = before[name]
        page = "https://example.com/docs-of-us/docs/reference/alerts.md"
        assert rule["annotations"].pop("runbook_url") == f"{page}#{name.lower()}"
        del own["annotations"]["runbook_url"]
        own["labels"] |= {"team": "ml", "severity": "none"}
        if name == "PrequentialNotReady":
            own |= changes | {"labels": own["labels"] | {"severity": "ticket"}}
        assert rule == own
    rules = only(render(HELM / "outside.yaml", "p", "--set", "monitoring.enabled=true"), "PrometheusRule")
    assert rules["spec"] == yaml.safe_load((CHART / "files" / "rules.yaml").read_text(encoding="utf-8"))


@needs_helm
def test_the_recipe_that_compares_configurations_works_as_printed(tmp_path: Path) -> None:
    """Each line of the page, with a stand-in for `kubectl` that has the ConfigMap of an earlier release."""
    page = (HELM.parents[1] / "docs" / "do" / "kubernetes.md").read_text(encoding="utf-8")
    [recipe] = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "config diff" in block]
    now = render(HELM / "outside.yaml", "prequential")
    (tmp_path / "now").write_text(only(now, "ConfigMap")["data"]["prequential.yaml"], encoding="utf-8")
    asked = r"--namespace prequential get configmap prequential --output jsonpath={.data.prequential\.yaml}"
    programs = {
        "kubectl": f"[ \"$*\" = '{asked}' ] && cat '{tmp_path}/now'",
        "helm": f"exec {helm()} \"$@\" --kube-version {NEWEST}",
        "prequential": f"exec {sys.executable} -m prequential.cli.main \"$@\"",
    }
    for name, does in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    mine = yaml.safe_load((HELM / "outside.yaml").read_text(encoding="utf-8"))
    mine["config"] = {"defaults": {"label_horizon": "1d"}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(mine), encoding="utf-8")
    (tmp_path / "deploy").symlink_to(HELM.parent)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", recipe], cwd=tmp_path, capture_output=True, text=True, timeout=200,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "label_horizon: 7d -> 1d" in done.stdout


@needs_helm
def test_growth_without_keda_stops_the_workers() -> None:
    documents = render(HELM / "outside.yaml", "prequential", "--set", "grow.partitions=8")
    assert only(documents, "StatefulSet")["spec"]["replicas"] == 0
    assert {component(one) for one in of(documents, "Job")} == {"check", "grow"}


@needs_helm
def test_another_configuration_is_another_pod() -> None:
    def digests(*more: str) -> list[tuple[str, str]]:
        found = render(HELM / "outside.yaml", "prequential", *more)
        return [
            (one["metadata"]["name"], one["spec"]["template"]["metadata"]["annotations"]["checksum/config"])
            for one in found if one["kind"] in ("StatefulSet", "Job") and component(one) != "check"
        ]  # fmt: skip

    before, same, after = digests(), digests(), digests("--set", "config.defaults.settle=1m")
    assert before == same
    assert all(one[1] != other[1] for one, other in zip(before, after))
    jobs = [name for name, _ in (*before, *after) if name.startswith("prequential-topics-")]
    assert len(set(jobs)) == 2


@needs_helm
def test_streams_in_all_partitions_have_a_topic_and_rights() -> None:
    """And without any neither is there."""
    wide = "config.streams.ads.key=instance"
    for options, expected in (((), 0), (("--set", wide), 1)):
        documents = render(HELM / "strimzi.yaml", "prequential", *options)
        topics = [one["spec"]["topicName"] for one in of(documents, "KafkaTopic")]
        assert topics.count("prequential-parts") == expected
        [worker] = [one for one in of(documents, "KafkaUser") if one["metadata"]["name"] == "prequential"]
        found = {
            (acl["resource"]["type"], acl["resource"]["name"]): set(acl["operations"])
            for acl in worker["spec"]["authorization"]["acls"]
        }
        assert (("group", "prequential-merge") in found) == bool(expected)
        if expected:
            assert found["topic", "prequential-parts"] >= {"Read", "Write", "Describe"}
            assert found["group", "prequential-merge"] == {"Read", "Describe"}
            assert found["transactionalId", "prequential-merge-"] == {"Write", "Describe"}
