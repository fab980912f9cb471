"""What a run of the whole system has to show."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from prequential.configfile.reading.reader import load_config
from prequential.runtime.notifying.app import chosen
from prequential.runtime.notifying.posting import identifier, read
from prequential.topics.clients import connect

from tests.notify.notifying import Receiver
from tests.secured import chart, webhooks
from tests.secured.acls import all_of
from tests.secured.components import Component, Secrets
from tests.secured.leaks import files_of, leaks
from tests.secured.looking import Viewer
from tests.secured.monitoring import Monitoring
from tests.secured.nodes import Secured
from tests.worker.processes import HANGS, await_published, eventually, read_topic

#: Alerts that must have reached the receiver, and those that may besides: a drift without an incident.
_DUE = {"PrequentialIncident", "PrequentialDeadLetters", "PrequentialIngestDeadLetters"}
_POSSIBLE = {"PrequentialDrift"}

#: How a broker logs what it doesn't let somebody do.
_DENIED = re.compile(
    r"Principal = User:(\S+) is Denied operation = (\w+).* on resource = (\w+):\w+:(\S+) for"
)

#: Pages of the dashboard's that are asked for without parameters.
_VIEWS = ("overview", "incidents")


class Verdict(NamedTuple):
    """One bar."""

    bar: str
    kept: bool
    found: str


Stream = tuple[str, str]


def outcomes(workers: Sequence[Component], name: str = "outcomes") -> Counter[Stream]:
    """By stream and model, as the workers say; of the stage `final`, where there are several."""
    found: Counter[Stream] = Counter()
    for worker in workers:
        for labels, value in worker.metrics().get(f"prequential_{name}_total", {}).items():
            own = dict(labels)
            if own.get("stage", "final") == "final":
                found[own["stream"], own["model"]] += int(value)
    return found


def complete(workers: Sequence[Component], wanted: Mapping[Stream, int]) -> Verdict:
    """Whether each label has its outcome, of each model, but for predictions that came after it."""
    found, late = outcomes(workers), outcomes(workers, "late_predictions")
    wrong = [one for one in wanted.keys() | found.keys() if wanted.get(one, 0) != found[one] + late[one]]
    return Verdict(
        "each label has its outcome", not wrong,
        f"{sum(wanted.values()):,} wanted of {len(wanted)} sequences, {sum(found.values()):,} outcomes, "
        f"{sum(late.values()):,} late predictions; other numbers: {wrong or 'none'}",
    )  # fmt: skip


def alive(pods: Mapping[str, Component]) -> Verdict:
    """Whether all processes run, are ready, and have logged neither an error nor a traceback."""
    ended = {pod: one.status for pod, one in pods.items() if one.status is not None}
    ready = [pod for pod, one in pods.items() if one.status is None and one.ready()]
    lines = [
        f"{pod}: {line}"
        for pod, one in pods.items()
        for line in one.log.splitlines()
        if re.search(r" (ERROR|CRITICAL) |^Traceback", line)
    ]
    return Verdict(
        "no process has ended, and all are ready", not ended and len(ready) == len(pods) and not lines,
        f"ended: {ended or 'none'}; ready: {len(ready)} of {len(pods)}; errors in logs: {lines or 'none'}",
    )  # fmt: skip


def shown(viewer: Viewer, streams: set[str]) -> Verdict:
    """Whether the dashboard has shown all streams; that pages complained of nothing is said by their end."""
    return Verdict(
        "the dashboard shows all streams, and pages complain of nothing",
        viewer.streams == streams and min(viewer.points) > 0,
        f"{viewer.looks} looks at three pages each, {len(viewer.streams)} of {len(streams)} streams, curves "
        f"of {min(viewer.points)} to {max(viewer.points)} points",
    )  # fmt: skip


def alerts(monitoring: Monitoring, receiver: Receiver) -> Verdict:
    """Whether those alerts, and no others, have fired and come to the receiver."""

    def received() -> Counter[str]:
        return Counter(
            one["labels"]["alertname"]
            for request in receiver.requests
            for one in request.json["alerts"]
            if one["status"] == "firing"
        )

    with suppress(AssertionError):  # what is missing is said below
        eventually("alerts have come", lambda: received().keys() >= _DUE)
    fired, came = monitoring.fired(), received()
    return Verdict(
        f"{', '.join(sorted(_DUE))} fire and are received, and nothing fires that shouldn't",
        came.keys() >= _DUE and fired <= _DUE | _POSSIBLE and came.keys() <= fired,
        f"fired: {', '.join(sorted(fired)) or 'none'}; received: "
        f"{', '.join(f'{name} {count}' for name, count in sorted(came.items())) or 'none'}, in "
        f"{len(receiver.requests)} requests",
    )  # fmt: skip


def signed(receiver: Receiver, own: Secrets, kafka: Secured) -> Verdict:
    """Whether all messages that the configuration chooses have come to the webhook, signed."""
    config = load_config_of(kafka)
    wanted = {
        identifier(message)
        for topic in config.notify.topics
        for record in read_topic(kafka.admin, topic)
        if chosen(message := read(topic, record.value()), config.notify)
    }
    with suppress(AssertionError):
        eventually("webhooks have come", lambda: set(receiver.ids) >= wanted)
    bad = webhooks.unsigned(receiver.requests, own.signing)
    missing = wanted - set(receiver.ids)
    return Verdict(
        "every alarm and incident that is chosen is posted, and signed",
        bool(wanted) and not bad and not missing,
        f"{len(receiver.requests)} requests about {len(set(receiver.ids))} messages of {len(wanted)} chosen; "
        f"badly signed: {len(bad)}; missing: {len(missing)}",
    )  # fmt: skip


def load_config_of(kafka: Secured) -> Any:
    """The chart's configuration, for whom nothing of it is a secret."""
    path = kafka.password_file("prequential").parent / "prequential.yaml"
    path.write_text(chart.configuration(kafka.cluster.bootstrap_servers, path.parent), encoding="utf-8")
    return load_config(str(path))


def replayed(kafka: Secured, user: str, out: Path) -> Verdict:
    """Whether a replay of the topics, by a user who may do that alone, says what was published."""
    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests), str(tests / "worker")]  # its modules import each other so
    from tests.worker.comparison import assert_as_replayed

    await_published(kafka.admin)
    folder = out / "replay"
    folder.mkdir()
    config = chart.settings()
    security = dict(kafka.client_of(user).security)
    config["kafka"] |= {"bootstrap_servers": kafka.cluster.bootstrap_servers, "security": security}
    path = folder / "prequential.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    found = assert_as_replayed(kafka.admin, path, sources=list(config["ingest"]))
    counts = {
        name: sum(map(len, of.values()))
        for name, of in (("metrics", found.metrics), ("alarms", found.alarms), ("incidents", found.incidents))
    }
    return Verdict(
        "a replay says what was published, digit for digit", counts["metrics"] > 0 and counts["alarms"] > 0,
        f"{', '.join(f'{count:,} {name}' for name, count in counts.items())}, "
        f"{len(found.letters)} dead letters",
    )  # fmt: skip


def least(kafka: Secured) -> Verdict:
    """Whether users have the chart's ACLs and no others, and were denied nothing."""
    wrong, parts = [], chart.parts()
    users = {name: part.user for name, part in parts.items()}
    for name, user in users.items():
        there = set(kafka.inside.describe_acls(all_of(user)).result())
        if there != {acl.binding(user) for acl in parts[name].acls}:
            wrong.append(user)
    denied: Counter[str] = Counter()
    for node in kafka.cluster.nodes:
        for user, operation, kind, resource in _DENIED.findall(node.log.read_text("utf-8", "replace")):
            denied[f"{user}: {operation} {kind} {resource}"] += 1
    counts = ", ".join(f"{user} {len(parts[name].acls)}" for name, user in users.items())
    said = "; ".join(f"{what} ({count} times)" for what, count in denied.most_common(10))
    return Verdict(
        "each user has the chart's ACLs and no others, and is denied nothing", not wrong and not denied,
        f"ACLs: {counts}; others: {wrong or 'none'}; denied: {said or 'nothing'}",
    )  # fmt: skip


def secret(
    kafka: Secured, own: Secrets, pods: Mapping[str, Component], monitoring: Monitoring, out: Path,
    receivers: Mapping[str, Receiver],
) -> Verdict:  # fmt: skip
    """Whether no secret stands in anything that was written, answered, sent or kept."""
    secrets = {
        **{f"password of {user}": password for user, password in kafka.passwords.items()},
        "token": own.token, "webhook's secret": own.signing, "webhook's address": own.webhook,
    }  # fmt: skip
    hidden = [*out.glob("pods/*/secrets"), out / "kafka" / "passwords"]
    control, _, _ = leaks(secrets, (one for folder in hidden for one in files_of(folder)))
    unseen = secrets.keys() - {leak.secret for leak in control}

    def texts() -> Iterator[tuple[str, bytes]]:
        yield from files_of(out, hidden)
        for number, node in enumerate(kafka.cluster.nodes, 1):
            yield f"node {number}: log", node.log.read_bytes()
        yield from _answers(pods, monitoring)
        yield from _records(kafka)
        for name, receiver in receivers.items():
            for request in receiver.requests:
                kept = {key: value for key, value in request.headers.items() if key != "authorization"}
                yield f"posted to {name}", json.dumps(kept).encode() + request.content

    found, count, size = leaks(secrets, texts())
    shown = ", ".join(f"{leak.secret} in {leak.place}" for leak in found[:10])
    return Verdict(
        "no secret stands anywhere", not found and not unseen,
        f"{len(secrets)} secrets, each also in base64 and hexadecimal, in {count:,} texts of "
        f"{size / 1e6:.1f} MB: {shown or 'none'}; where they are kept the same search finds all but "
        f"{sorted(unseen) or 'none'}",
    )  # fmt: skip


def _answers(pods: Mapping[str, Component], monitoring: Monitoring) -> Iterator[tuple[str, bytes]]:
    """What everything answers, and what `ps` shows of it."""
    for pod, one in pods.items():
        yield f"{pod}: command line", Path(f"/proc/{one.pid}/cmdline").read_bytes()
        views = [f"/api/{view}" for view in _VIEWS]
        for path in (*(views if one.part.name == "dashboard" else ("/metrics", "/ready")), "/", "/nowhere"):
            for token in (True, False):
                yield f"{pod}: {path}", one.get(path, token=token)[1].encode()
    for what in ("status/config", "status/flags", "targets", "rules", "alerts"):
        yield f"Prometheus: {what}", json.dumps(monitoring.get(f"/api/v1/{what}")).encode()


def _records(kafka: Secured) -> Iterator[tuple[str, bytes]]:
    """All records, by topic."""
    everywhere = replace(kafka.admin, prefix="")
    for name in connect(everywhere).list_topics(timeout=HANGS).topics:
        for message in () if name.startswith("__") else read_topic(everywhere, name):
            headers = (value or b"" for _, value in message.headers() or ())
            yield f"topic {name}", b"\n".join((message.key() or b"", message.value() or b"", *headers))
