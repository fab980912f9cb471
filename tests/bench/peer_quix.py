"""Peer: a Quix Streams application whose join and counts live in its RocksDB state.

`python -m tests.bench.peer_quix --bootstrap-servers ADDR --prefix P --records N`

Predictions and labels become one dataframe: Quix then reads its topics in order of time and gives
it one store, keyed by stream, which is backed by a changelog topic and committed every 5 s.
Instances are read with them, but the join has no use for them. Nothing expires: Quix could see to
that (`ttl`), but it would cost a quarter of its speed.
"""

from __future__ import annotations

import tempfile
from typing import Any

from quixstreams import Application, State

from tests.bench import counting
from tests.bench.peer import Peer
from tests.bench.settings import FETCH

#: The last counts of each (stream, model): what the run reports in the end.
newest: dict[tuple[str, str], counting.Counts] = {}


def evaluate(record: dict[str, Any], state: State[str, Any]) -> list[dict[str, Any]]:
    """Join a prediction or a label with what waits for it; the metrics messages that are due."""
    due: list[dict[str, Any]] = []
    key = f"instance/{record['instance_id']}"
    instance = state.get(key, {"predictions": {}})
    if "y_true" in record:
        instance["label"] = record["y_true"], state.get("newest_label")
        state.set("newest_label", record["y_true"])
        for model, (first, last) in instance.pop("predictions", {}).items():
            due += outcome(state, record, model, instance["label"], first, last)
    else:
        model, y_pred = record["model"], record["y_pred"]
        if label := instance.get("label"):
            due += outcome(state, record, model, label, y_pred, y_pred)
        else:
            first, _ = instance["predictions"].get(model, (y_pred, None))
            instance["predictions"][model] = first, y_pred
    state.set(key, instance)
    return due


def outcome(
    state: State[str, Any],
    record: dict[str, Any],
    model: str,
    label: tuple[str, str | None],
    first: str,
    last: str,
) -> list[dict[str, Any]]:
    """Count one outcome of a model; the metrics message if it is due."""
    stream = record["stream"]
    counts = state.get(f"model/{model}") or counting.new_counts()
    counting.add(counts, *label, first, last)
    state.set(f"model/{model}", counts)
    newest[stream, model] = counts
    return [counting.message(stream, model, counts)] if counting.is_due(counts) else []


def run(peer: Peer) -> None:
    """Run the application until all records were processed, and report."""
    done = 0

    def count(topic: str, partition: int, offset: int) -> None:
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
            on_message_processed=count,
            # When one topic was read ahead of the others, Quix polls in vain before it fetches from
            # them again: its default, 1 s, would be half of the run.
            consumer_poll_timeout=0.01,
            loglevel="WARNING",
        )
        _, predictions, labels = (
            app.dataframe(app.topic(name, key_deserializer="str")) for name in peer.inputs.values()
        )
        events = predictions.concat(labels)
        events = events.apply(evaluate, stateful=True, expand=True)
        events.to_topic(app.topic(peer.output))
        app.run()
    peer.report(
        sum(counts["outcomes"] for counts in newest.values()),
        {
            f"{stream}/{model}": counting.accuracy(counts["final"]["all"])
            for (stream, model), counts in newest.items()
        },
    )


if __name__ == "__main__":
    run(Peer.from_command_line("quix", __doc__))
