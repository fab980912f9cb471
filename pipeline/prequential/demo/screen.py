"""The demo's screen: a live picture for a terminal, plain lines for anything else."""

from __future__ import annotations

from collections.abc import Iterable

from prequential.demo.board import LATEST, RECENT, STAGES, DemoBoard
from prequential.demo.feed import Feed
from prequential.demo.server import AGES, ModelServer
from prequential.demo.stream import DELAY_MEDIAN
from prequential.demo.worker import RATIO
from prequential.offline.replay.table import ModelRow, models_table, number, print_wide, with_courses
from prequential.topics.outputs import Alarm, Incident
from prequential.views.wording.comparing import WHOLE
from prequential.views.wording.console import Console
from prequential.views.wording.incidents import cause_in_words, levels_in_words
from prequential.views.wording.stages import caption_of_stages, marked
from rich.console import Group
from rich.table import Table
from rich.text import Text

#: Incidents shown while it runs, the latest: what fits below the table on a screen of 24 lines.
_INCIDENTS = 4

#: Delay in seconds behind the plan of the stream from which on the screen shows it.
_BEHIND = 2.0


def read_snapshot(board: DemoBoard, feed: Feed, console: Console) -> Group:
    """All that is known by now, for rich to draw: progress, the drift, the models' table, incidents."""
    server = feed.server
    parts: list[Text | Table] = [
        Text(progress(board, feed)),
        Text(drift(server)),
        table(board, server, console) if board.newest else Text("waiting for the first labels"),
    ]
    for incident in list(board.incidents)[-_INCIDENTS:]:
        line = incident_line(incident, server)
        parts.append(Text(line, style="yellow", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def table(board: DemoBoard, server: ModelServer, console: Console) -> Table:
    """The models: accuracy in the whole run and after the drift, and recent measures."""
    rows = []
    for model in board.models:
        stages = board.stages(model)
        for stage in stages:
            recent = [
                board.measure(model, stage, RECENT, name) for name in ("accuracy", "kappa", "kappa_per")
            ]
            rows.append(
                ModelRow(
                    (
                        model if stage == stages[0] else "",
                        marked(stage, board.same(model, stage)),
                    ),
                    (
                        board.measure(model, stage, WHOLE, "accuracy"),
                        board.since(model, stage, server.drift_outcome),
                        *recent,
                    ),
                    [accuracy for _, accuracy in board.course.get((model, stage), [])],
                    stage == stages[-1],
                )
            )
    return models_table(
        rows,
        ("model", "stage"),
        (
            "accuracy\nwhole run", "accuracy\nat drift", "accuracy\nlatest", "kappa\nlatest",
            "kappa_per\nlatest",
        ),
        "accuracy over time" if with_courses(console) else None,
        title=f"after {board.outcomes:,} outcomes; at drift: {LATEST:,} from it on; "
        f"latest: the last {LATEST:,}",
        caption=caption_of_stages(board.same(model, STAGES[-1]) for model in board.models)
        + "kappa_per: gain over repeating the latest label known at the prediction; "
        "below 0: a loss",
    )  # fmt: skip


def legend(server: ModelServer) -> list[str]:
    """Return lines that explain the demo's output to a newcomer."""
    ages = " and ".join(f"{age / 1000:g}" for age in AGES)
    return [
        f"three models predict each instance, whose label comes about {DELAY_MEDIAN / 1000:g} s later;",
        f"those that learn ({', '.join(server.learning)}) predict it again, {ages} s after it came",
        "lines that begin with INCIDENT: a lasting worsening of one model, its size and its likely cause",
    ]


def progress(board: DemoBoard, feed: Feed) -> str:
    """How far the stream is and how much has come, in one line of text."""
    server = feed.server
    readings = board.readings
    behind = f" ({feed.behind:.0f} s behind: busy machine)" if feed.behind >= _BEHIND else ""
    parts = [
        f"{feed.at:.0f} s of {server.plan.duration:g} s{behind}",
        f"{server.instances:,} instances",
        f"{server.labels:,} labels",
        f"{board.rate:,.0f} records/s",
    ]
    if readings is not None and readings.latency is not None:
        parts.append(f"labels take {readings.latency:.1f} s (median)")
        parts.append(f"{readings.waiting:,} predictions pending")
    return ", ".join(parts)


def drift(server: ModelServer) -> str:
    """At which instance the drift is, and whether it has come, in one line of text."""
    number = server.plan.drift
    if server.instances < number:
        return f"the drift comes at instance {number:,}"
    return f"the drift came at instance {number:,}"


def recent_line(board: DemoBoard) -> str:
    """The models' recent accuracies in both stages, in one line of plain text.

    >>> recent_line(DemoBoard())
    'no outcomes yet'
    """
    if not board.newest:
        return "no outcomes yet"
    shown = []
    for model in board.models:
        stages = board.stages(model)
        both = (number(board.measure(model, stage, RECENT, "accuracy")).plain for stage in stages)
        shown.append(f"{model} {' / '.join(both)}")
    return f"accuracy {' / '.join(STAGES)}, latest {LATEST:,}: {', '.join(shown)}"


def incident_line(incident: Incident, server: ModelServer) -> str:
    """An incident in one line of text: since when, how bad, which causes, and how many alarms."""
    began, drift = incident.change_point["outcome"], ""
    if server.drift_outcome is not None:
        drift = f" (drift: {server.drift_outcome:,})"
    causes = ", ".join(map(cause_in_words, incident.causes[:2]))
    return (
        f"INCIDENT {incident.status}: {incident.model} began at outcome {began:,}{drift}: "
        f"{levels_in_words(incident)}; {causes}; {incident.alarm_count} alarms"
    )


def signal_name(alarm: Alarm) -> str:
    """What was watched, in words where the signal's name is a formula."""
    return "recent/older error" if alarm.signal == RATIO else alarm.signal


def print_lines(lines: Iterable[str], console: Console) -> None:
    """Lines for good, broken between words where they go to a terminal."""
    for line in lines:
        console.print(Text(line), soft_wrap=not console.is_terminal)


def print_table(board: DemoBoard, server: ModelServer, console: Console) -> None:
    """Print the models' table for good, at the end of the run."""
    print_wide(lambda wide: table(board, server, wide), console)
