"""Peer: a Quix Streams application whose join and counts live in its RocksDB state.

`python -m tests.bench.peer_quix --bootstrap-servers ADDR --prefix P --records N`

Predictions and labels become one dataframe: Quix then reads its topics in order of time and gives
it one store, keyed by stream, which is backed by a changelog topic and committed every 5 s.
Instances are read with them, but the join has no use for them. Nothing expires: Quix could see to
that (`ttl`), but it would cost a quarter of its speed. What time makes due comes with the stream's own next
record, as a key knows of no other's: of the last multiple of `emit.every` there may be no messages.
"""

from __future__ import annotations

import tempfile
from typing import Any

from quixstreams import Application, State, message_context

from tests.bench import counting
from tests.bench.cases import PEERS
from tests.bench.peer import Peer
from tests.bench.settings import EMIT_EVERY_MS, FETCH

Messages = list[dict[str, Any]]

#: The last counts of each (stream, model): what the run reports in the end.
newest: dict[tuple[str, str], counting.Counts] = {}


def evaluate(record: dict[str, Any], state: State[str, Any]) -> Messages:
    """Join a prediction or a label with what waits for it; the metrics messages that are due."""
    labels = state.get("labels", {"persistent": None, "majority": None, "counts": {}})
    due = passed(record, state)
    key = f"instance/{record['instance_id']}"
    instance = state.get(key, {"predictions": {}})
    label = instance.get("label")
    if "y_true" in record:
        if label is not None:
            return due
        label = record["y_true"], record["ts"]
        instance |= {"label": label, "baselines": (labels["persistent"], labels["majority"])}
        for model, prediction in instance["predictions"].items():
            due += outcome(state, record, model, label, *prediction)
        count(labels, record["y_true"])
        state.set("labels", labels)
    else:
        model, y_pred = record["model"], record["y_pred"]
        if label is None:
            instance["predictions"][model] = y_pred, labels["persistent"], labels["majority"]
        elif record["ts"] <= label[1] and model not in instance["predictions"]:
            instance["predictions"][model] = prediction = y_pred, *instance["baselines"]
            due += outcome(state, record, model, label, *prediction)
    state.set(key, instance)
    return due


def count(labels: dict[str, Any], y_true: str) -> None:
    """Count a label for the baselines; of classes that are as frequent the one that came first is kept."""
    counts = labels["counts"]
    counts[y_true] = counts.get(y_true, 0) + 1
    labels |= {"persistent": y_true, "majority": max(counts, key=counts.__getitem__)}


def outcome(
    state: State[str, Any], record: dict[str, Any], model: str, label: tuple[str, int],
    y_pred: str, persistent: str | None, majority: str | None,
) -> Messages:  # fmt: skip
    """Count one outcome of a model; the metrics messages if they are due."""
    counts = state.get(f"model/{model}")
    if counts is None:
        counts = counting.new_counts()
        state.set("models", [*state.get("models", []), model])
    is_due = counting.add(counts, label[0], y_pred, persistent, majority, label[1])
    state.set(f"model/{model}", counts)
    newest[record["stream"], model] = counts
    return said(record["stream"], model, counts) if is_due else []


def passed(record: dict[str, Any], state: State[str, Any]) -> Messages:
    """Messages that are due since the stream's record before."""
    if record["ts"] < state.get("due", 0):
        return []
    state.set("due", (record["ts"] // EMIT_EVERY_MS + 1) * EMIT_EVERY_MS)
    found: Messages = []
    for model in state.get("models", []):
        counts = state.get(f"model/{model}")
        if not counts["published"]:
            found += said(record["stream"], model, counts)
            state.set(f"model/{model}", {**counts, "published": True})
    return found


def said(stream: str, model: str, counts: counting.Counts) -> Messages:
    """All estimators' messages about a model."""
    return list(counting.messages(stream, message_context().partition, model, counts))


def run(peer: Peer) -> None:
    """Run the application until all records were processed, and report."""
    done = 0

    def processed(topic: str, partition: int, offset: int) -> None:
        nonlocal done
        done += 1
        if done == 1:
            peer.start()
        if done == peer.records:
            peer.stop()
            app.stop()

    with tempfile.TemporaryDirectory() as state_dir:
        app = Application(
            broker_address=peer.bootstrap_servers,
            consumer_group=peer.group,
            auto_offset_reset="earliest",
            consumer_extra_config=FETCH,
            state_dir=state_dir,
            on_message_processed=processed,
            # When one topic was read ahead of the others, Quix polls in vain before it fetches from
            # them again: its default, 1 s, would be half of the run.
            consumer_poll_timeout=0.01,
            loglevel="WARNING",
        )
        peer.create_topics(peer.output)
        _, predictions, labels = (
            app.dataframe(app.topic(name, key_deserializer="str")) for name in peer.inputs.values()
        )
        events = predictions.concat(labels)
        events = events.apply(evaluate, stateful=True, expand=True)
        events.to_topic(app.topic(peer.output))
        app.run()
    peer.report(
        sum(counts["outcomes"] for counts in newest.values()),
        {f"{stream}/{model}": counting.accuracy(counts) for (stream, model), counts in newest.items()},
    )


if __name__ == "__main__":
    run(Peer.from_command_line("quix", __doc__, PEERS))
