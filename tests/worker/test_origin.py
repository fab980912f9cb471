"""Input topics that have become others: said in one sentence, never passed over."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from prequential.configuration.settings.model import Config
from prequential.runtime.worker import app
from prequential.runtime.worker.journal import TopicsOrigin, present_origin
from prequential.topics.admin import create, identities
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError
from prequential.topics.specs import INPUTS, topic_specs
from processes import WorkerProcess, await_published, await_ready, eventually, outputs, write_config
from workload import Sender, records


def send(cluster: KafkaConfig) -> None:
    sender = Sender(cluster)
    sender.send(list(records(5, 300, 8)))
    sender.flush()


def work(config: Path, cluster: KafkaConfig) -> None:
    """A worker publishes all there is, and ends with a snapshot."""
    with WorkerProcess(config) as worker:
        await_ready(worker)
        await_published(cluster, worker)
        assert worker.stop() == 0, worker.log


def finals(cluster: KafkaConfig) -> int:
    """How many messages about `final` there are.

    From when on `initial` has its own depends on the order in which records came, which is another each time.
    """
    return sum(message["stage"] == "final" for message in outputs(cluster, "metrics"))


def refused(config: Path) -> str:
    """What a worker says when it ends by itself."""
    with WorkerProcess(config) as worker:
        assert worker.wait() == 1, worker.log
        return worker.log


def make_anew(cluster: KafkaConfig, *names: str) -> None:
    admin = AdminClient(cluster.client())
    topics = [cluster.topic(name) for name in names]
    before = identities(cluster, topics)
    for done in admin.delete_topics(topics).values():
        done.result()

    def made() -> bool:
        create(cluster, topic_specs(cluster))
        found = identities(cluster, topics)
        return all(found[name].id != before[name].id for name in topics)

    def made_without_errors() -> bool:
        try:
            return made()
        except WorkError:
            return False  # it isn't quite gone yet, or not quite there

    eventually("the topics are made anew", made_without_errors)


def test_topics_made_anew_are_refused_and_rebuild_begins_with_them(
    cluster: KafkaConfig, tmp_path: Path
) -> None:
    config = write_config(tmp_path, cluster, defaults={"emit": {"outcomes": 10, "every": None}})
    send(cluster)
    work(config, cluster)
    first = finals(cluster)
    assert first
    make_anew(cluster, *INPUTS)
    send(cluster)  # as many records as before, so no offset is out of range
    said = refused(config)
    assert re.search(
        r"^prequential: shard \d: instances and predictions and labels were recreated since its state "
        r"was written; `prequential worker --rebuild` .*$",
        said,
        re.MULTILINE,
    ), said
    assert "Traceback" not in said
    with WorkerProcess(config, "--rebuild") as worker:
        # (The journal has cuts as far as this already, of the topics before.)
        eventually("all is published again", lambda: finals(cluster) == 2 * first)
        assert worker.stop() == 0, worker.log
    work(config, cluster)  # and from then on as ever
    assert finals(cluster) == 2 * first


def test_topics_that_grew_are_refused(cluster: KafkaConfig, tmp_path: Path) -> None:
    """All eight, so that nothing else is wrong; but streams lie elsewhere now."""
    config = write_config(tmp_path, cluster)
    send(cluster)
    work(config, cluster)
    admin = AdminClient(cluster.client())
    names = [spec.name for spec in topic_specs(cluster)]
    for done in admin.create_partitions([NewPartitions(name, 6) for name in names]).values():
        done.result()
    eventually("the broker shows it", lambda: present_origin(cluster).partitions == 6)
    said = refused(config)
    assert re.search(r"shard \d: the topics had 4 partitions and have 6 since", said), said


@pytest.mark.parametrize("change", [{"labels": "another"}, {"partitions": 3}])
def test_a_running_worker_notices(
    cluster: KafkaConfig, change: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_WATCH_SECONDS", 0.01)

    async def watch() -> None:
        worker = app.Worker(Config(kafka=cluster))
        worker._origin = present_origin(cluster)._replace(**change)
        await asyncio.wait_for(worker._watch_cluster(), 30)

    with pytest.raises(WorkError, match=r"while the worker ran; `prequential topics check`"):
        asyncio.run(watch())


def test_a_broker_without_ids_is_believed() -> None:
    assert TopicsOrigin(4).difference(TopicsOrigin(4, "a", "b", "c")) is None
    assert TopicsOrigin(4, "a", "b", "c").difference(TopicsOrigin(4, "a", "x", "y")) == (
        "predictions and labels were recreated"
    )
