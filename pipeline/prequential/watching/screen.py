"""The screen: a title, warnings, the page on top of those that were opened, and what keys do."""

from __future__ import annotations

from prequential.topics.reasons import printable
from prequential.watching.keyboard import CLOSED
from prequential.watching.pages import AllChanges, Detail, Help, Overview, Page, Picker, picker
from prequential.watching.ranking import Ranking
from prequential.watching.state import State
from prequential.watching.table import warnings
from prequential.watching.text import clock, counted, elide, wrapped
from rich.text import Text

#: Lines that warnings take at most: what else is to be seen must be seen, too.
_WARNINGS = 4

_BACK = ("escape", "backspace", "left", "b")

_KEYS = "Enter open  s sort  t stage  e estimator  / search  a alarms  ? help  q quit"
_KEYS_OPENED = "Esc back  up down PgUp PgDn scroll  t stage  e estimator  ? help  q quit"
_KEYS_PICKER = "Enter choose  Esc back  up down PgUp PgDn scroll"
_KEYS_TYPING = "letters of a stream or model, Enter to end, Esc for all"
_NO_KEYS = "standard input is no terminal: no keys; Ctrl-C ends"


class Screen:
    """What is on the screen; `press` takes keys, `lines` gives its lines."""

    def __init__(self, state: State, cluster: str, *, keys: bool = True) -> None:
        self._state = state
        self._cluster = cluster
        self._has_keys = keys
        self._ranking = Ranking(state)
        self._pages: list[Page] = [Overview(state, self._ranking)]
        self._now = 0
        self.over = False

    def refresh(self, now: int) -> None:
        """Look at the state again; `now` in epoch ms."""
        self._now = now
        self._pages[-1].refresh(now)

    def press(self, key: str) -> None:
        """What a key does; `over` says whether it was the last one."""
        page = self._pages[-1]
        if key == CLOSED:
            self.over = True
        elif page.typing:
            page.press(key)
        elif key == "q":
            self.over = True
        elif len(self._pages) > 1 and key in _BACK:
            self._pages.pop()
        elif isinstance(page, Picker) and key == "enter":
            page.take()
            self._pages.pop()
        elif (opened := self._opened(key, page) or page.press(key)) is not None:
            self._pages.append(opened)
        if self._pages[-1] is not page or key in ("r", "escape") or page.typing or key == "enter":
            self._pages[-1].refresh(self._now)

    def _opened(self, key: str, page: Page) -> Page | None:
        """The page that a key opens on any other one."""
        if isinstance(page, (Picker, Help)):
            return None
        if key in ("?", "h"):
            return Help()
        if key == "a" and not isinstance(page, AllChanges):
            return AllChanges(self._state, self._ranking)
        if key == "r":
            self._ranking.choose(reverse=not self._ranking.choice.reverse)
        return picker(key, self._state, self._ranking)

    def lines(self, width: int, height: int, trouble: str | None = None, reading: bool = False) -> list[Text]:
        """The whole screen; `reading` while the newest messages are still being read."""
        page = self._pages[-1]
        streams = {key.stream for key in self._state.models}
        title = f"prequential watch  {elide(printable(self._cluster), 30)}  {clock(self._now)[11:19]} UTC"
        models = f"{counted(len(self._state.models), 'model')} of {counted(len(streams), 'stream')}"
        top = [_wide(title, models, width), _line(page.title(), width, "bold")]
        for warning in warnings(self._state, trouble, self._now):
            top += wrapped(warning, width)
        top = top[: 2 + _WARNINGS]
        if reading:
            top.append(Text(f"reading what is there: {self._state.messages:,} messages", style="dim"))
        room = max(1, height - len(top) - 1)
        lines = page.lines(width, room, self._now)[:room]
        blank = [Text()] * (room - len(lines))
        seen = [*top, *lines, *blank, _line(self._keys(page), width, "dim")][:height]
        for line in seen:
            line.truncate(width)
        return seen

    def _keys(self, page: Page) -> str:
        if not self._has_keys:
            return _NO_KEYS
        if page.typing:
            return _KEYS_TYPING
        if isinstance(page, Picker):
            return _KEYS_PICKER
        return _KEYS_OPENED if isinstance(page, (Detail, AllChanges, Help)) else _KEYS


def _line(text: str, width: int, style: str) -> Text:
    line = Text(text, style, no_wrap=True)
    line.truncate(width, overflow="ellipsis")
    return line


def _wide(left: str, right: str, width: int) -> Text:
    """Two ends of a line, in reverse; where they don't fit, the left one."""
    gap = width - len(left) - len(right)
    text = f"{left}{' ' * gap}{right}" if gap > 0 else left
    return _line(text.ljust(width), width, "reverse")
