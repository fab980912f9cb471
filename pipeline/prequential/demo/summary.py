"""The last lines of the demo: its records, its models and what it found."""

from __future__ import annotations

from prequential.demo.board import LATEST, STAGES, DemoBoard
from prequential.demo.screen import incident_line, signal_name
from prequential.demo.server import ModelServer
from prequential.demo.stream import HORIZON
from prequential.demo.worker import EMIT_OUTCOMES
from prequential.topics.outputs import Alarm
from prequential.views.wording.comparing import WHOLE, report

#: What to do after the demo, for a cluster of one's own.
NEXT = (
    "next, with your own Kafka: prequential topics create, then worker, then watch",
    "(all take --bootstrap-servers); send with prequential.topics.producer.StreamProducer",
)


def totals(board: DemoBoard, server: ModelServer) -> list[str]:
    """Return lines about the records, and about the faults that the demo injects."""
    behind = server.outcomes - board.outcomes
    waiting, repeated = (board.readings.waiting, board.readings.repeated) if board.readings else (0, 0)
    return [
        f"{server.instances:,} instances, {server.labels:,} labels; "
        f"{server.outcomes:,} outcomes (prediction met label) of each model and stage"
        + (f" (the worker is {behind:,} behind)" if behind >= EMIT_OUTCOMES else ""),
        f"labels: {repeated:,} were repeated, {board.count('revisions'):,} were revised, "
        f"{board.count('late_label'):,} came after {HORIZON / 1000:g} s and were dropped",
        f"predictions: {board.total('expired'):,} got no label within {HORIZON / 1000:g} s and expired, "
        f"{waiting:,} are pending",
    ]


def worth(board: DemoBoard, server: ModelServer) -> list[str]:
    """Return lines about how much better the last predictions are than the first ones."""
    lines = []
    later = []
    for model in server.learning:
        initial, final = (board.measure(model, stage, WHOLE, "accuracy") for stage in STAGES)
        if initial is not None and final is not None:
            lines.append(
                f"{model}: accuracy {initial:.3f} initial, {final:.3f} final: "
                f"predicting again before the label added {_gain(initial, final)}"
            )
        initial, final = (board.since(model, stage, server.drift_outcome) for stage in STAGES)
        if initial is not None and final is not None:
            later.append(f"{_gain(initial, final)} to {model}")
    if later:
        lines.append(f"in the {LATEST:,} outcomes after the drift it added {', '.join(later)}")
    return lines


def compared(board: DemoBoard, server: ModelServer) -> list[str]:
    """Return lines about pairs: which model is better, by how much, by which verdict, and since when."""
    return list(report(board.pairs.known()))


def _gain(initial: float, final: float) -> str:
    """Return the difference of the two numbers as printed."""
    return f"{round(final, 3) - round(initial, 3):.3f}"


def detected(board: DemoBoard, server: ModelServer) -> list[str]:
    """Return lines about the drift and the incidents up to the end of the run."""
    number = server.plan.drift
    first = server.drift_outcome
    if first is None:
        lines = [f"ended before the labels of the drift, which is at instance {number:,}"]
    else:
        after = next((alarm for alarm in board.alarms if alarm.outcome >= first), None)
        lines = [
            f"drift at instance {number:,}, outcome {first:,}; "
            + (
                "no alarm since"
                if after is None
                else f"first alarm {after.outcome - first:,} outcomes later: {_source(after)}"
            )
        ]
    lines += [incident_line(one, server) for one in board.incidents]
    incidents = len(lines) - 1
    if incidents:
        lines[0] += f"; {len(board.alarms)} alarms, {incidents} incident{'s' if incidents != 1 else ''}:"
    return lines


def _source(alarm: Alarm) -> str:
    return f"{alarm.model} {alarm.stage}, {signal_name(alarm)}"
