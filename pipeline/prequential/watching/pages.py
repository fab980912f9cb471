"""The pages of the screen: each knows its lines, and what keys do on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prequential.topics.reasons import printable
from prequential.watching.changes import Change
from prequential.watching.detail import detail
from prequential.watching.incidents import OpenIncident
from prequential.watching.ranking import OTHER_WAYS, Ranking, Row, is_shown, measures_shown
from prequential.watching.state import Model, ModelKey, State
from prequential.watching.table import (
    change_line,
    columns,
    heading,
    label,
    model_label,
    names_of_change,
    newest_changes,
    row_line,
    warnings,
)
from prequential.watching.text import counted, moment, wrapped
from rich.text import Text

#: Share of the screen that recent changes take at most, below the table, and lines of them at least.
_CHANGES_SHARE = 5
_CHANGES = 2

HELP = """\
One line a model, the worst first: models with an open incident, or an alarm in the last hour, then
the lowest accuracy (of numbers, the highest mae), or the worst value of the
measure that you sort by. Baselines come last.

  up down j k   next line              PgUp PgDn Home End g G   further
  Enter         open a model: its stages, estimators, comparisons with others,
                measures, segments, counts, coverage, label latency, and alarms
                with their times
  Esc b         back (as Backspace and Left)
  s             sort by a measure, newest alarm, outcomes, silence or name
  r             sort the other way round
  t  e          choose the stage; the estimator
  /             only streams and models whose names contain what you type
  a             all incidents that aren't over, and other alarms, one change in a line
  ?  q          this page; quit

heard     since its newest message (without new outcomes there are none);
          who has said nothing since the time in the second line is not there
alarm     since its newest alarm, of the model or of a segment
MODEL*    has not the stage or estimator that was chosen: the nearest is shown
STREAM[2] its records lie in several partitions, and each is evaluated apart:
          this is partition 2"""


def table(rows: Sequence[Row], state: State, by: str | None, width: int, now: int) -> list[Text]:
    """The head of the table, and these rows; `now` in epoch ms."""
    names = [label(row.model.key, state) for row in rows]
    models = [model_label(row) for row in rows]
    shown = columns(zip(names, models), measures_shown(state.measures, by), width)
    lines = [row_line(row, name, model, shown, now) for row, name, model in zip(rows, names, models)]
    return [heading(shown, by), *lines]


def whole_table(state: State, now: int, width: int) -> list[Text]:
    """All that is known, where nobody scrolls; `now` in epoch ms."""
    rows = Ranking(state).rows(now)
    changes = newest_changes(row.model for row in rows)
    read = [] if state.since is None else [Text(f"read since {moment(state.since, now)}", style="dim")]
    return [
        *warnings(state, None, now),
        *read,
        *(table(rows, state, None, width, now) if rows else [Text("no metrics yet")]),
        *_change_lines(changes, state, now, width),
    ]


class Cursor:
    """A place in a list that is longer than the screen."""

    def __init__(self) -> None:
        self.at = 0
        self.top = 0

    def press(self, key: str, length: int, height: int) -> bool:
        """Move; whether the key is one of those that move."""
        step = max(1, height - 1)
        to = {
            "up": self.at - 1, "k": self.at - 1, "down": self.at + 1, "j": self.at + 1,
            "pageup": self.at - step, "pagedown": self.at + step, " ": self.at + step,
            "home": 0, "g": 0, "end": length - 1, "G": length - 1,
        }.get(key)  # fmt: skip
        if to is None:
            return False
        self.at = max(0, min(to, length - 1))
        return True

    def visible(self, length: int, height: int) -> range:
        """The lines that are seen; the cursor is among them."""
        self.at = max(0, min(self.at, length - 1))
        self.top = max(min(self.top, self.at, length - height), self.at - height + 1, 0)
        return range(self.top, min(length, self.top + height))


class Page(ABC):
    """A page; `typing` while keys are letters of a text."""

    typing = False

    def __init__(self) -> None:
        self._cursor = Cursor()
        self._length = 0
        self._height = 1

    def refresh(self, now: int) -> None:  # noqa: B027 - not every page looks at it
        """Look at the state again; `now` in epoch ms."""

    @abstractmethod
    def title(self) -> str:
        """What is seen."""

    @abstractmethod
    def lines(self, width: int, height: int, now: int) -> list[Text]:
        """At most so many lines."""

    def press(self, key: str) -> Page | None:
        """What a key does; a page that it opens."""
        self._cursor.press(key, self._length, self._height)
        return None

    def _seen(self, length: int, height: int) -> range:
        self._length, self._height = length, max(1, height)
        return self._cursor.visible(length, self._height)


    def _window(self, found: list[Text], height: int) -> list[Text]:
        """The part of a text that is seen: its cursor is the line at the top."""
        self._length, self._height = max(1, len(found) - height + 1), max(1, height)
        self._cursor.at = max(0, min(self._cursor.at, self._length - 1))
        return found[self._cursor.at : self._cursor.at + height]


class Overview(Page):
    """One line a model, the worst first; below them open incidents and recent alarms, each in a line."""

    def __init__(self, state: State, ranking: Ranking) -> None:
        super().__init__()
        self._state, self._ranking = state, ranking
        self._now = 0
        self._rows: list[Row] = []
        self._recent: list[tuple[Change | OpenIncident, Model]] = []
        #: The model that the cursor stays with; None: whichever is first.
        self._chosen: ModelKey | None = None

    def refresh(self, now: int) -> None:
        self._now = now
        self._rows = self._ranking.rows(now)
        models = (row.model for row in self._rows if row.change is not None or len(row.model.incidents))
        self._recent = [one for one in newest_changes(models) if is_shown(one[0], now)]
        self._cursor.at = 0
        if self._chosen is not None:
            keys = (place for place, row in enumerate(self._rows) if row.model.key == self._chosen)
            self._cursor.at = next(keys, 0)

    def title(self) -> str:
        choice = self._ranking.choice
        seen = {row.sequence[1:] for row in self._rows if row.sequence is not None}
        own = f"{len(seen)} stages and estimators" if len(seen) != 1 else ", ".join(*seen)
        chosen = ", ".join(name for name in (choice.stage, choice.estimator) if name is not None)
        by = "worst first" if choice.by is None else f"by {choice.by}"
        parts = [chosen or own, f"{by}{', reversed' if choice.reverse else ''}"]
        if choice.search or self.typing:
            parts.append(f"/{printable(choice.search)}{'_' if self.typing else ''}")
        place = f"{self._cursor.at + 1} of {len(self._rows):,}" if self._rows else "none"
        parts.append(place)
        if self._state.since is not None:
            parts.append(f"heard since {moment(self._state.since, self._now)}")
        return "   ".join(parts)

    def lines(self, width: int, height: int, now: int) -> list[Text]:
        room = max(_CHANGES, height // _CHANGES_SHARE)
        below = _change_lines(self._recent[:room], self._state, now, width)
        if (more := len(self._recent) - room) > 0:
            below[-1] = Text(f"      and {more + 1} more: a shows all", style="yellow")
        table = self._table(width, max(1, height - 1 - len(below)), now)
        blank = [Text()] * (height - len(table) - len(below))
        return [*table, *blank, *below]

    def _table(self, width: int, height: int, now: int) -> list[Text]:
        if not self._rows:
            nothing = "no model has these letters" if self._ranking.choice.search else "no metrics yet"
            return [Text(nothing)]
        seen = self._seen(len(self._rows), height)
        rows = [self._rows[place] for place in seen]
        lines = table(rows, self._state, self._ranking.choice.by, width, now)
        _mark(lines[1 + self._cursor.at - seen.start], width)
        return lines

    def press(self, key: str) -> Page | None:
        if self.typing:
            self._type(key)
        elif key == "/":
            self.typing = True
            self._search("")
        elif key in ("enter", "right", "l") and self._rows:
            return Detail(self._rows[self._cursor.at].model, self._state, self._ranking)
        elif key == "escape":
            self._search("")
        elif self._cursor.press(key, len(self._rows), self._height):
            at = self._cursor.at
            self._chosen = self._rows[at].model.key if at else None
        return None

    def _type(self, key: str) -> None:
        text = self._ranking.choice.search
        if key == "enter":
            self.typing = False
        elif key == "escape":
            self.typing = False
            self._search("")
        elif key == "backspace":
            self._search(text[:-1])
        elif len(key) == 1:
            self._search(text + key)

    def _search(self, text: str) -> None:
        self._ranking.choose(search=text)


class Detail(Page):
    """Everything about one model."""

    def __init__(self, model: Model, state: State, ranking: Ranking) -> None:
        super().__init__()
        self._model, self._state, self._ranking = model, state, ranking

    def title(self) -> str:
        return f"{printable(self._model.key.model)} of {label(self._model.key, self._state)}"

    def lines(self, width: int, height: int, now: int) -> list[Text]:
        row, by = self._ranking.row(self._model), self._ranking.choice.by
        found = [
            part
            for line in detail(row, self._state, by, now, width)
            for part in wrapped(line, width)
        ]
        return self._window(found, height)


class AllChanges(Page):
    """All alarms, those of one change of one model in one line."""

    def __init__(self, state: State, ranking: Ranking) -> None:
        super().__init__()
        self._state, self._ranking = state, ranking
        self._found: list[tuple[Change | OpenIncident, Model]] = []

    def refresh(self, now: int) -> None:
        self._found = newest_changes(self._state.models.values())

    def title(self) -> str:
        return f"{counted(len(self._found), 'change')}, the newest first"

    def lines(self, width: int, height: int, now: int) -> list[Text]:
        if not self._found:
            return [Text("no alarms")]
        seen = self._seen(len(self._found), height)
        lines = _change_lines(self._found[seen.start : seen.stop], self._state, now, width)
        _mark(lines[self._cursor.at - seen.start], width)
        return lines

    def press(self, key: str) -> Page | None:
        if key in ("enter", "right", "l") and self._found:
            return Detail(self._found[self._cursor.at][1], self._state, self._ranking)
        return super().press(key)


class Help(Page):
    """What the keys do."""

    def title(self) -> str:
        return "help"

    def lines(self, width: int, height: int, now: int) -> list[Text]:
        found = [part for line in HELP.split("\n") for part in wrapped(Text(line), width)]
        return self._window(found, height)


class Picker(Page):
    """A list to choose from; Enter takes what the cursor is on, and goes back."""

    def __init__(
        self, what: str, options: Sequence[tuple[str, Any]], now: Any, choose: Callable[[Any], None]
    ) -> None:
        super().__init__()
        self._what, self._options, self._choose = what, options, choose
        values = [value for _, value in options]
        self._cursor.at = values.index(now) if now in values else 0

    def title(self) -> str:
        return self._what

    def lines(self, width: int, height: int, now: int) -> list[Text]:
        seen = self._seen(len(self._options), height)
        return [
            Text(f"  {self._options[place][0]}  ", "reverse" if place == self._cursor.at else "")
            for place in seen
        ]

    def take(self) -> None:
        """Choose what the cursor is on."""
        self._choose(self._options[self._cursor.at][1])


def picker(key: str, state: State, ranking: Ranking) -> Picker | None:
    """The list that a key opens: of what to sort by, of stages, or of estimators."""
    choose, choice = ranking.choose, ranking.choice
    if key == "s":
        ways = [*OTHER_WAYS, *measures_shown(state.measures, None)]
        options = _options("worst first: accuracy, of numbers mae", ways)
        return Picker("sort by", options, choice.by, lambda by: choose(by=by))
    sequences = [sequence for model in state.models.values() for sequence in model.sequences]
    if key == "t":
        stages = sorted({sequence.stage for sequence in sequences})
        options = _options("each model's own: final", stages)
        return Picker("stage", options, choice.stage, lambda stage: choose(stage=stage))
    if key == "e":
        names = sorted({sequence.estimator for sequence in sequences})
        options = _options("each model's own: its shortest window", names)
        return Picker("estimator", options, choice.estimator, lambda name: choose(estimator=name))
    return None


def _change_lines(
    changes: Iterable[tuple[Change | OpenIncident, Model]], state: State, now: int, width: int
) -> list[Text]:
    return [
        change_line(change, now, width, names_of_change(model, state, width)) for change, model in changes
    ]


def _mark(line: Text, width: int) -> None:
    """Show that the cursor is on a line."""
    line.pad_right(width - line.cell_len)
    line.stylize("reverse")


def _options(usual: str, names: Iterable[str]) -> list[tuple[str, str | None]]:
    """What is usual (None), and names."""
    return [(usual, None), *((name, name) for name in names)]
