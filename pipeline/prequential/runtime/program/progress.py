"""Progress: a bar on standard error, if that is a terminal."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from prequential.views.wording.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _Rate(ProgressColumn):
    """Units a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} {self._unit}/s")


def progress_bar(*, wanted: bool = True, unit: str | None = "records") -> Progress:
    """A bar with time left, and units a second, if it is wanted and standard error is a terminal.

    Or in a notebook, where rich needs ipywidgets for it.
    """
    rate = () if unit is None else (_Rate(unit),)
    console = Console(stderr=True)
    seen = console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), *rate,
        TimeRemainingColumn(), console=console, transient=True, disable=not (wanted and seen),
    )  # fmt: skip


def reading(progress: Progress, kind: str) -> Callable[[int, float | None], None]:
    """Shows how far the reading of a file is; its rows are known by the share that has been read."""
    task = progress.add_task(f"reading {kind}", total=None)

    def advance(rows: int, share: float | None) -> None:
        progress.update(task, completed=rows, total=rows / share if share else None)

    return advance
