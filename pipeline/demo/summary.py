"""What the demo found, in a few lines."""

from __future__ import annotations

from pipeline.demo.board import Board
from pipeline.demo.server import ModelServer
from pipeline.demo.stream import HORIZON
from pipeline.demo.worker import EMIT_OUTCOMES

#: What to do after the demo, for a cluster of one's own.
NEXT = (
    "next, with your own Kafka: prequential topics create, then worker, then watch",
    "(all take --bootstrap-servers); send with topics.producer.StreamProducer",
)


def totals(board: Board, server: ModelServer) -> list[str]:
    """What came in, what became of it, and what went wrong with it on purpose."""
    behind = server.outcomes - board.outcomes
    waiting, repeated = (board.readings.waiting, board.readings.repeated) if board.readings else (0, 0)
    return [
        f"{server.instances:,} instances, {server.labels:,} labels, "
        f"{server.outcomes:,} outcomes per model and stage"
        + (f" (the worker is {behind:,} behind)" if behind >= EMIT_OUTCOMES else ""),
        f"labels: {repeated:,} came again, {board.count('revisions'):,} were revised, "
        f"{board.count('late_label'):,} came after {HORIZON / 1000:g} s and were dropped",
        f"predictions: {board.count('expired'):,} of each model expired, "
        f"{waiting:,} of all models still wait for a label",
    ]


def found(board: Board, server: ModelServer) -> list[str]:
    """The drift and the alarms, as far as the run came."""
    number = server.plan.drift
    first = server.drift_outcome
    if first is None:
        lines = [f"ended before the labels of the drift, which is at instance {number:,}"]
        early = board.alarms
    else:
        early = [alarm for alarm in board.alarms if alarm.outcome < first]
        after = next((alarm for alarm in board.alarms if alarm.outcome >= first), None)
        lines = [
            f"drift put in at instance {number:,}; "
            + (
                "no alarm since"
                if after is None
                else f"first alarm {after.model} {after.signal} at outcome {after.outcome:,} "
                f"({after.outcome - first:,} outcomes later)"
            )
        ]
    if early:
        names = ", ".join(f"{one.model} {one.signal} at outcome {one.outcome:,}" for one in early)
        lines.append(f"alarms without a drift: {names}")
    return lines
