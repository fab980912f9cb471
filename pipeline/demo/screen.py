"""The demo's screen: a live picture for a terminal, plain lines for anything else."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from pipeline.demo.board import RECENT, STAGES, WHOLE, Board
from pipeline.demo.feed import Feed
from pipeline.demo.server import ModelServer
from topics.outputs import Alarm

#: Alarms shown while it runs, the latest: what fits below the table on a screen of 24 lines.
_ALARMS = 5

#: Characters for a model's course, and the accuracies that the lowest and highest stand for.
_COURSE = 24
_BARS = "▁▂▃▄▅▆▇█"
_LOWEST, _HIGHEST = 0.5, 1.0

#: Seconds that the stream must be behind its plan for that to be said.
_BEHIND = 2.0

#: Width of a table with courses; what doesn't go to a terminal is as wide.
_WIDE = 100


def picture(board: Board, feed: Feed, console: Console) -> Group:
    """Everything that is known by now."""
    server = feed.server
    parts: list[Text | Table] = [
        Text(progress(board, feed)),
        Text(drift(server)),
        table(board, console) if board.newest else Text("waiting for the first labels"),
    ]
    for alarm in board.alarms[-_ALARMS:]:
        line = alarm_line(alarm, server)
        parts.append(Text(line, style="yellow", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def table(board: Board, console: Console) -> Table:
    """The models: accuracy in the whole run, and recent measures against their baselines."""
    with_course = console.encoding.startswith("utf") and console.width >= _WIDE
    grid = Table(
        title=f"after {board.outcomes:,} outcomes: accuracy in the whole run; then {RECENT}",
        caption="final: as predicted just before the label; initial: as predicted first. "
        "kappa_per below 0: worse than repeating the latest label",
        title_justify="left",
        caption_justify="left",
    )
    for name in ("model", "stage"):
        grid.add_column(name, no_wrap=True)
    for name in ("whole run", "accuracy", "kappa", "kappa_per"):
        grid.add_column(name, justify="right", no_wrap=True)
    if with_course:
        grid.add_column("accuracy over time", no_wrap=True)
    for model in board.models:
        for stage in STAGES:
            recent = [
                board.measure(model, stage, RECENT, name) for name in ("accuracy", "kappa", "kappa_per")
            ]
            course = board.course.get(model, []) if stage == STAGES[0] else []
            grid.add_row(
                model if stage == STAGES[0] else "",
                stage,
                _number(board.measure(model, stage, WHOLE, "accuracy")),
                *map(_number, recent),
                *([bars(course)] if with_course else []),
                end_section=stage == STAGES[-1],
            )
    return grid


def progress(board: Board, feed: Feed) -> str:
    """How far it is, in one line."""
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
        parts.append(f"labels take {readings.latency:.1f} s")
        parts.append(f"{readings.waiting:,} predictions wait")
    return ", ".join(parts)


def drift(server: ModelServer) -> str:
    """Where the drift is, in one line."""
    number = server.plan.drift
    if server.instances < number:
        return f"drift to be put in at instance {number:,}"
    return f"drift put in at instance {number:,}"


def recent_line(board: Board) -> str:
    """The models' recent final measures, in one line of plain text.

    >>> recent_line(Board())
    'no outcomes yet'
    """
    if not board.newest:
        return "no outcomes yet"
    shown = []
    for model in board.models:
        accuracy, kappa, kappa_per = (
            _number(board.measure(model, "final", RECENT, name)).plain
            for name in ("accuracy", "kappa", "kappa_per")
        )
        shown.append(f"{model} accuracy={accuracy} kappa={kappa} kappa_per={kappa_per}")
    return "; ".join(shown)


def alarm_line(alarm: Alarm, server: ModelServer) -> str:
    """One alarm, in one line."""
    later = ""
    if server.drift_outcome is not None and alarm.outcome >= server.drift_outcome:
        later = f" ({alarm.outcome - server.drift_outcome:,} after the drift)"
    return (
        f"ALARM at outcome {alarm.outcome:,}{later}: {alarm.model} {alarm.stage} {alarm.signal}, "
        f"{alarm.statistic:.1f} > {alarm.threshold:g}"
    )


def bars(values: Sequence[float], width: int = _COURSE) -> str:
    """A course as a row of bars, the newest at the right.

    >>> bars([0.5, 0.75, 1.0], width=3)
    '▁▅█'
    >>> bars([0.9] * 10 + [0.7] * 10, width=4)
    '▇▇▄▄'
    """
    width = min(width, len(values))
    places = [len(values) * (i + 1) // width - 1 for i in range(width)]
    shares = [(values[place] - _LOWEST) / (_HIGHEST - _LOWEST) for place in places]
    return "".join(_BARS[min(max(int(share * len(_BARS)), 0), len(_BARS) - 1)] for share in shares)


def print_table(board: Board, console: Console) -> None:
    """The table for good, at the end."""
    if not console.is_terminal:
        console = Console(width=_WIDE, no_color=True, file=console.file)
    console.print(table(board, console))


def _number(value: float | None) -> Text:
    """A measure; one below zero, which is worse than the baseline, is red."""
    if value is None:
        return Text("-", style="dim")
    return Text(f"{value:.3f}", style="red" if value < 0 else "")
