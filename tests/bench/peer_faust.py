"""Peer: the Faust application that Faust's tutorials teach, one event at a time.

`python -m tests.bench.peer_faust --bootstrap-servers ADDR --prefix P --records N`

Three agents and three tables, one write or more for each event; tables are in memory and backed by
changelog topics, the transport is aiokafka. Nothing expires.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import faust

from tests.bench import counting
from tests.bench.peer import Peer

#: Faust's way to stop waits for its services, now and then for ever. By then the work is done.
STOP_SECONDS = 10.0


class Instance(faust.Record, serializer="json"):
    """An instance arrived."""

    stream: str
    instance_id: str
    ts: int


class Prediction(faust.Record, serializer="json"):
    """A model's prediction."""

    stream: str
    model: str
    instance_id: str
    y_pred: str
    ts: int


class Label(faust.Record, serializer="json"):
    """An instance's label."""

    stream: str
    instance_id: str
    y_true: str
    ts: int


class App(faust.App):
    """Ends the run when an agent fails; Faust would start it again and go on without the event."""

    def __init__(self, finished: asyncio.Future[None], *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.finished = finished

    async def _on_agent_error(self, agent: Any, error: BaseException) -> None:
        if not self.finished.done():
            self.finished.set_exception(error)


def application(peer: Peer, datadir: str, finished: asyncio.Future[None]) -> faust.App:
    """The application; it ends `finished` once all records were processed, or one could not be."""
    app = App(
        finished,
        peer.group,
        broker=f"kafka://{peer.bootstrap_servers}",
        store="memory://",
        datadir=datadir,
        topic_partitions=peer.partitions(),  # tables are partitioned as the inputs are
        producer_linger=0.005,  # s, as librdkafka; the default, 0, sends each write by itself
        web_enabled=False,
    )
    instance_topic, prediction_topic, label_topic = (
        app.topic(name, key_type=str, value_type=record)
        for name, record in zip(peer.inputs.values(), (Instance, Prediction, Label), strict=True)
    )
    metrics_topic = app.topic(peer.output, key_type=str, value_serializer="json")
    waiting = app.Table("waiting", default=dict)  # of an instance: arrival, predictions, label
    newest_labels = app.Table("newest-labels")
    models = app.Table("models", default=counting.new_counts)
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if done == 1:
            peer.start()
        if done == peer.records:
            peer.stop()
            finished.set_result(None)

    async def outcome(
        event: Prediction | Label, model: str, label: Sequence[Any], first: str, last: str
    ) -> None:
        key = f"{event.stream}/{model}"
        counts = models[key]
        y_true, previous = label
        counting.add(counts, y_true, previous, first, last)
        models[key] = counts
        if counting.is_due(counts):
            message = counting.message(event.stream, model, counts)
            await metrics_topic.send(key=event.stream, value=message)

    @app.agent(instance_topic)
    async def on_instance(instances: faust.StreamT[Instance]) -> None:
        async for event in instances:
            key = f"{event.stream}/{event.instance_id}"
            waiting[key] = {**waiting[key], "arrival": event.ts}
            count()

    @app.agent(prediction_topic)
    async def on_prediction(predictions: faust.StreamT[Prediction]) -> None:
        async for event in predictions:
            key = f"{event.stream}/{event.instance_id}"
            instance = waiting[key]
            if label := instance.get("label"):
                await outcome(event, event.model, label, event.y_pred, event.y_pred)
            else:
                earlier = instance.setdefault("predictions", {})
                first, _ = earlier.get(event.model, (event.y_pred, None))
                earlier[event.model] = first, event.y_pred
                waiting[key] = instance
            count()

    @app.agent(label_topic)
    async def on_label(labels: faust.StreamT[Label]) -> None:
        async for event in labels:
            key = f"{event.stream}/{event.instance_id}"
            instance = waiting[key]
            label = [event.y_true, newest_labels.get(event.stream)]
            newest_labels[event.stream] = event.y_true
            waiting[key] = {"label": label}
            for model, (first, last) in instance.get("predictions", {}).items():
                await outcome(event, model, label, first, last)
            count()

    return app


async def run(peer: Peer) -> None:
    """Run the application until all records were processed, and report."""
    finished = asyncio.get_running_loop().create_future()
    with tempfile.TemporaryDirectory() as datadir:
        app = application(peer, datadir, finished)
        # Changelog topics of Faust's own making may still be unknown to it when it writes to them.
        changelogs = (table.changelog_topic.get_topic_name() for table in app.tables.values())
        peer.create_topics(peer.output, *changelogs)
        await app.start()
        await finished
        counts = dict(app.tables["models"].items())  # type: ignore[attr-defined]
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(app.stop(), STOP_SECONDS)
    peer.report(
        sum(model["outcomes"] for model in counts.values()),
        {name: counting.accuracy(model["final"]["all"]) for name, model in counts.items()},
    )


if __name__ == "__main__":
    asyncio.run(run(Peer.from_command_line("faust", __doc__)))
