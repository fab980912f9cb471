"""What each component says and does without one of its ACLs, on an Apache Kafka that asks for them.

The components have the chart's ACLs, but for one. `make test` tries some, `make nightly` each of them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import pytest
from boards import metrics
from confluent_kafka import Producer
from prequential.runtime.kafka.transactions import Outgoing, Transactions
from prequential.topics.errors import WorkError

from tests.nightly import few
from tests.notify.notifying import Receiver
from tests.secured import chart
from tests.secured.acls import Acl, revoke
from tests.secured.components import Component, Secrets
from tests.secured.documented import documented
from tests.secured.nodes import ADMIN, Secured, secured
from tests.secured.scoring import Scores
from tests.skipping import or_skip
from tests.worker.processes import eventually, prequential, write_config

pytestmark = pytest.mark.kafka

#: The source that the chart's configuration has.
SOURCE = "scores.raw"

#: Values with which the chart gives ACLs.
VALUES = (chart.EVERYTHING, chart.WIDE)

#: Groups that clients name, though they never join them, without which all works: a dry run's, that of
#: whoever reads what workers have said, and the archiver's.
UNNEEDED = ("eu.scores-ingest-dry-run", "prequential-watch", "prequential-archive")

#: What components may read, and don't have to: the latter topic is missing here.
UNREAD = {("dashboard", "eu.incident-marks"), ("archive", "eu.disparities")}


class Cluster(NamedTuple):
    """A broker with the chart's topics, records that come all the time, and what else pods have."""

    kafka: Secured
    own: Secrets
    folder: Path
    numbers: Iterator[int]

    @contextmanager
    def started(self, name: str, acls: list[Acl], values: str = chart.EVERYTHING) -> Iterator[Component]:
        """A component, as a user of its own with these ACLs."""
        user = f"{name}-{next(self.numbers)}"
        self.kafka.add_user(user, acls)
        folder = self.folder / user
        folder.mkdir()
        part = chart.parts(values)[name]._replace(user=user)
        with Component(part, "pod-0", folder, self.kafka, self.own, copied=True) as component:
            yield component
            if component.status is None:
                component.stop()  # one that is killed stays in its group for 30 s, for which the next waits


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("kafka")
    prefix = chart.settings()["kafka"]["prefix"]
    hooks = Receiver()
    with or_skip():
        context = secured(folder, 1, prefix)
        kafka = context.__enter__()
    try:
        topics = {
            one["spec"]["topicName"]: one["spec"] for values in VALUES
            for one in chart.of("KafkaTopic", values)
        }  # fmt: skip
        kafka.create(topics.values())
        kafka.create([{"topicName": SOURCE, "partitions": 1, "replicas": 1}])
        producer = Producer(kafka.client_of(ADMIN).client())
        producer.produce(f"{prefix}metrics", metrics().value, "elec2")
        producer.flush(30)
        feeding = [
            Scores(kafka.admin, source, stream, ("nb",), 5.0, (0.1, 1.0), ())
            for source, stream in ((SOURCE, "elec2"), (None, "direct"))
        ]
        for scores in feeding:
            scores.start()
        with hooks.serving() as url:
            yield Cluster(kafka, Secrets(url), tmp_path_factory.mktemp("pods"), count(1))
        for scores in feeding:
            scores.stop()
    finally:
        context.__exit__(None, None, None)


def lacks(component: Component, *acls: Acl) -> str:
    """What a component must say that lacks them."""
    kinds = {"transactionalId": "transactional id"}
    said: dict[tuple[str, str], list[str]] = {}
    for acl in acls:
        said.setdefault((acl.operation, kinds.get(acl.kind, acl.kind)), []).append(acl.name)
    what = ", ".join(
        f"{operation} on {kind}{'s' if len(names) > 1 else ''} {', '.join(f'{name!r}' for name in names)}"
        for (operation, kind), names in said.items()
    )
    return f"the principal '{component.part.user}' (kafka.security: sasl.username) lacks {what}"


def works(component: Component) -> bool:
    """Whether it has done its work with Kafka: read, and written."""
    if not component.ready():
        return False
    name = component.part.name
    if name == "worker":
        return sum(component.metrics()["prequential_transaction_seconds_count"].values()) > 0
    if name == "ingest":
        return sum(component.metrics()["prequential_ingest_records_total"].values()) > 0
    if name == "archive":
        return sum(component.metrics()["prequential_archive_messages_total"].values()) > 0
    return name == "notify" or '"elec2"' in component.get("/api/overview")[1]


def ends(component: Component, *sentences: str) -> None:
    """It ends with status 1 and such a sentence, without a traceback."""
    assert component.wait() == 1, component.log
    assert "Traceback" not in component.log, component.log
    [last] = [line for line in component.log.splitlines() if line.startswith("prequential: ")]
    assert any(sentence in last for sentence in sentences), component.log


#: Each ACL of each component, and with which values it has it.
CASES = {
    (part.name, acl): values
    for values in reversed(VALUES) for part in chart.parts(values).values() for acl in part.acls
}  # fmt: skip

#: Of each kind of resource one, for `make test`.
SOME = [
    ("worker", Acl("topic", "eu.drift-alarms", "Write")),
    ("worker", Acl("topic", "eu.labels", "DescribeConfigs")),
    ("worker", Acl("transactionalId", "eu.scores-shard-", "Write", True)),
    ("worker", Acl("group", "eu.scores-merge", "Read")),
    ("ingest", Acl("group", "eu.scores-ingest", "Read")),
    ("notify", Acl("topic", "eu.incidents", "Read")),
]


def title(case: tuple[str, Acl]) -> str:
    return f"{case[0]}: {case[1]}"


#: Those first that `make test` tries.
ORDER = sorted(CASES, key=lambda case: case not in SOME)


@pytest.mark.parametrize("case", few(map(title, ORDER), len(SOME)))
def test_without_one_acl_it_says_which_one_and_ends_or_does_not_need_it(cluster: Cluster, case: str) -> None:
    [(name, acl)] = [one for one in CASES if title(one) == case]
    values = CASES[name, acl]
    acls = list(chart.parts(values)[name].acls)
    left = [one for one in acls if one != acl]
    same = {one.operation for one in left if one[:2] == acl[:2]}
    with cluster.started(name, left, values) as component:
        if acl.operation == "Describe" and same & {"Read", "Write"}:
            eventually("it works, as who may read or write may describe", lambda: works(component))
        elif acl.operation == "DescribeConfigs":
            eventually("it works", lambda: works(component))
            assert re.search(rf"not check(ed|ing .*): {re.escape(lacks(component, acl))}", component.log)
        elif acl.name in UNNEEDED or (name, acl.name) in UNREAD:
            eventually("it works", lambda: works(component))
        elif acl.kind == "transactionalId":
            ends(component, lacks(component, acl)[:-1])
        else:
            ends(component, lacks(component, acl))


@pytest.mark.parametrize("name", few(["worker", "ingest", "notify", "dashboard", "archive"]))
def test_without_any_acl_it_says_at_once_all_that_it_lacks_of_topics(cluster: Cluster, name: str) -> None:
    needed = [
        acl
        for acl in chart.parts()[name].acls
        if acl.kind == "topic" and acl.operation != "DescribeConfigs" and (name, acl.name) != UNREAD
    ]
    with cluster.started(name, []) as component:
        assert component.wait() == 1, component.log
        [last] = [line for line in component.log.splitlines() if line.startswith("prequential: ")]
        for acl in needed:
            named = rf"\b{acl.operation} on topics? (?:'[^']+', )*'{re.escape(acl.name)}'"
            assert re.search(named, last), acl


#: What is taken away while a component runs, of each kind one.
REVOKED = {
    "worker": ("eu.labels", "eu.metrics", "eu.prequential-journal", "eu.scores", "eu.scores-shard-"),
    "ingest": (SOURCE, "eu.predictions", "eu.scores-ingest", "eu.scores-ingest-"),
    "notify": ("eu.incidents", "eu.scores-notify"),
    "dashboard": ("eu.metrics",),
    "archive": ("eu.metrics",),
}


@pytest.mark.parametrize(
    ("name", "resource"), few([(name, one) for name, names in REVOKED.items() for one in names], 0)
)
def test_what_is_taken_away_while_it_runs_is_named(cluster: Cluster, name: str, resource: str) -> None:
    acls = list(chart.parts()[name].acls)
    with cluster.started(name, acls) as component:
        eventually("it works", lambda: works(component))
        gone = [acl for acl in acls if acl.name == resource]
        revoke(cluster.kafka.inside, component.part.user, gone)
        assert component.wait() == 1, component.log
        [last] = [line for line in component.log.splitlines() if line.startswith("prequential: ")]
        assert re.search(rf"the principal '{component.part.user}' .* lacks .*'{re.escape(resource)}", last)


class OneTransaction(Transactions):
    """Transactions of which none is ever known to be committed."""

    def _committed(self, messages: object) -> None:
        return None


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("denied", [("first",), ("last",), ("first", "last")])
@pytest.mark.parametrize("count", [1, 40])
def test_a_producer_names_the_topics_that_it_may_not_write_any_more(
    cluster: Cluster, denied: tuple[str, ...], count: int, seen: bool
) -> None:
    """Whether or not its client has `seen` the topics before, and whichever of its messages these have."""
    number = next(cluster.numbers)
    user, topics = f"producer-{number}", {name: f"own.{number}.{name}" for name in ("first", "last")}
    acls = {
        name: [Acl("topic", topic, operation) for operation in ("Write", "Describe")]
        for name, topic in topics.items()
    }
    cluster.kafka.create([{"topicName": topic, "partitions": 1, "replicas": 1} for topic in topics.values()])
    cluster.kafka.add_user(user, [Acl("transactionalId", user, "Write"), *acls["first"], *acls["last"]])
    producer = OneTransaction(
        cluster.kafka.client_of(user), user, owner_name="the test", topic=topics["last"], timeout_ms=60_000,
        partition=0,
    )  # fmt: skip
    messages = [Outgoing(topics[name], b"key", b"value") for name in topics for _ in range(count)]
    producer.take_over()
    if seen:
        assert producer.publish(messages)
    revoke(cluster.kafka.inside, user, [acl for name in denied for acl in acls[name]])
    ending = Timer(60, setattr, (producer, "stopping", True))
    ending.start()
    lacked = ", ".join(map(re.escape, sorted(repr(topics[name]) for name in denied)))
    with pytest.raises(WorkError, match=rf"'{user}' .* lacks Write on topics? {lacked} at "):
        producer.publish(messages)
    ending.cancel()


#: Commands, as the table of ACLs calls them, and what of that is taken away; `topics create` has a
#: prefix of its own, where there are no topics yet.
COMMANDS: dict[str, tuple[tuple[str, ...], Acl]] = {
    "`produce`": (("produce", "labels", "records"), Acl("topic", "eu.labels", "Write")),
    "`topics check`": (("topics", "check"), Acl("topic", "eu.labels", "DescribeConfigs")),
    "`topics create`": (("topics", "create", "--prefix", "new."), Acl("topic", "new.labels", "Create")),
    "`topics grow`": (("topics", "grow", "--partitions", "8"), Acl("topic", "eu.incidents", "Alter")),
    "`replay --from-topics`": (("replay", "--from-topics"), Acl("group", "prequential-replay", "Describe")),
    "`detectors --from-topics`": (
        ("detectors", "--from-topics", "--stream", "elec2"), Acl("topic", "eu.prequential-journal", "Read"),
    ),
    "`dead-letters`": (("dead-letters",), Acl("topic", "eu.dead-letters", "Read")),
}  # fmt: skip


@pytest.mark.parametrize("who", few(COMMANDS))
def test_a_command_has_what_the_docs_say_and_names_what_it_lacks(
    cluster: Cluster, who: str, tmp_path: Path
) -> None:
    words, lacked = COMMANDS[who]
    acls = documented(who) | (documented("worker") if "grow" in who else set())
    if "new." in words:
        acls = {acl._replace(name=acl.name.replace("eu.", "new.")) for acl in acls}
    assert lacked in acls
    (tmp_path / "records").write_text('{"stream": "elec2", "instance_id": "none", "y_true": "UP"}\n')
    # Nothing grows: other tests need the topics.
    for left in [acls - {lacked}] if "grow" in who else [acls - {lacked}, acls]:
        user = f"command-{next(cluster.numbers)}"
        cluster.kafka.add_user(user, left)
        path = write_config(tmp_path, cluster.kafka.client_of(user), worker={"group": "scores"})
        done = prequential(*words, "--config", path, cwd=tmp_path)
        said = done.stdout + done.stderr
        if left == acls:
            assert " lacks " not in said, said
            assert done.returncode == 0, said
        else:
            assert done.returncode == 1, said
            assert f"the principal '{user}' (kafka.security: sasl.username) lacks {lacked.operation}" in said
            assert f"'{lacked.name}'" in said
            assert "Traceback" not in said


def test_who_is_denied_nothing_does_its_work(cluster: Cluster) -> None:
    with cluster.started("worker", list(chart.parts()["worker"].acls)) as component:
        began = time.monotonic()
        eventually("it works", lambda: works(component))
        assert component.stop() == 0, component.log
        assert " lacks " not in component.log
        assert time.monotonic() > began
