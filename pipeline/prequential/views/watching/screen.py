"""The live screen: all models, the worst first, or one of them; and keys with their effects."""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

from prequential.topics.errors import printable
from prequential.views.watching.detail import detail
from prequential.views.watching.incidents import AlarmGroup, ShownIncident
from prequential.views.watching.ranking import Choice, RankedModel, Ranking, is_shown
from prequential.views.watching.state import ModelKey, ModelState, WatchState
from prequential.views.watching.table import change_lines, label, newest_changes, table, warnings
from prequential.views.watching.text import clock, counted, elide, moment
from rich.console import (  # `Console`: the type that rich calls with
    Console,  # noqa: TID251
    ConsoleOptions,
    Group,
    RenderableType,
    RenderResult,
)
from rich.segment import Segment
from rich.text import Text

try:
    import termios
    import tty
except ImportError:  # Windows has neither module, so there are no keys
    termios = None  # type: ignore[assignment]

#: Names of special keys by the characters that they send; other keys are the characters that they type.
_NAMED = {
    "[A": "up", "OA": "up", "[B": "down", "OB": "down", "[5~": "pageup", "[6~": "pagedown",
    "[H": "home", "OH": "home", "[1~": "home", "[F": "end", "OF": "end", "[4~": "end",
    "": "escape",
}  # fmt: skip
_CONTROL = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace"}

#: A key: an escape sequence (ECMA-48: up to its final byte), or a character; and an end in the middle of one.
_KEY = re.compile(r"\x1b(\[[0-?]*[@-~]|O.|)|.", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(\[[0-?]*|O|)$")

#: A pseudo key that reports the end of standard input, after which no key can come.
CLOSED = "closed"

#: Bytes that are read at once, which is more than you can type between two reads.
_BYTES = 1024

#: Seconds to wait for the rest of a key's sequence, whose characters may be separated on a slow connection.
_REST_SECONDS = 0.05


class Keyboard:
    """Keys from standard input, if it is a terminal; a `with` statement restores the terminal.

    If standard input isn't a terminal, there are no keys, and `wait` only waits.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="ignore").decode

    def __enter__(self) -> Keyboard:
        if termios is not None and sys.stdin is not None and sys.stdin.isatty():
            descriptor = sys.stdin.fileno()
            self._before = termios.tcgetattr(descriptor)
            self._descriptor = descriptor
            tty.setcbreak(descriptor)
            settings = termios.tcgetattr(descriptor)
            # Ctrl-Z would return to the shell with the wrong screen.
            settings[6][termios.VSUSP] = b"\x00"
            termios.tcsetattr(descriptor, termios.TCSANOW, settings)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)
            self._descriptor = None

    @property
    def there(self) -> bool:
        """Whether standard input is a terminal, so that keys can be pressed."""
        return self._descriptor is not None

    def wait(self, seconds: float) -> list[str]:
        """Return the pressed keys as soon as there is one, or none after `seconds`.

        The last key is `CLOSED` if the terminal is gone.
        """
        if self._descriptor is None:
            time.sleep(seconds)
            return []
        typed, patience = "", seconds
        while select.select([self._descriptor], [], [], patience)[0]:
            try:
                data = os.read(self._descriptor, _BYTES)
            except OSError:  # the terminal is gone
                data = b""
            if not data:
                return [*keys(typed), CLOSED]
            typed += self._decode(data)
            if not _UNFINISHED.search(typed):
                break
            patience = _REST_SECONDS
        return keys(typed)


def keys(typed: str) -> list[str]:
    r"""Split typed characters into keys; unknown keys and control characters are left out.

    >>> keys("j\x1b[6~\x1b\r\x1b[15~q")
    ['j', 'pagedown', 'escape', 'enter', 'q']
    """
    pressed = []
    for match in _KEY.finditer(typed):
        sequence = match[1]
        key = _CONTROL.get(match[0], match[0]) if sequence is None else _NAMED.get(sequence, "\x1b")
        if key.isprintable():
            pressed.append(key)
    return pressed


#: A function that renders objects at the screen's width.
Lines = Callable[..., list[list[Segment]]]

#: The most lines for warnings, so that the rest of the screen stays visible.
_WARNINGS = 4

#: The largest share of the screen for recent changes below the table (1 in this number), and their least
#: lines.
_CHANGES_SHARE = 5
_CHANGES = 2

_KEYS = "up down PgUp PgDn  Enter open  / filter  q quit"
_KEYS_OPENED = "up down PgUp PgDn  Esc back  q quit"
_KEYS_TYPING = "letters of a stream or model, Enter to end, Esc for all"
_NO_KEYS = "standard input is no terminal: no keys; Ctrl-C ends"


class Screen:
    """The content of the screen, for rich; `press` takes keys, and `refresh` reads the state again."""

    def __init__(self, state: WatchState, cluster: str, choice: Choice | None = None) -> None:
        self._state, self._cluster = state, cluster
        self._ranking = Ranking(state)
        self._ranking.choice = choice or Choice()
        self._rows: list[RankedModel] = []
        self._recent: list[tuple[AlarmGroup | ShownIncident, ModelState]] = []
        #: The model at the cursor (None: the first one), and the opened model.
        self._chosen: ModelKey | None = None
        self._opened: ModelState | None = None
        #: The current line of the list, its first visible line, and the first visible line of the opened
        #: model; then the number of lines, and of lines that fit.
        self._at = self._top = self._scrolled = 0
        self._length = self._height = 1
        self._typing = False
        self._now = 0
        #: The problem that keeps the reader from going on, and whether existing messages are still being
        #: read.
        self.trouble: str | None = None
        self.reading = False
        #: Whether there is a keyboard, and whether the last key ended the screen.
        self.has_keys = True
        self.over = False

    def refresh(self, now: int) -> None:
        """Read the state again; `now` in epoch ms."""
        self._now = now
        self._rows = self._ranking.rows(now)
        if self.reading:  # messages still to be read may end or merge changes that are known so far
            self._rows = [row._replace(change=None) for row in self._rows]
        models = (
            row.model for row in self._rows
            if not self.reading and (row.change is not None or len(row.model.incidents))
        )
        self._recent = [one for one in newest_changes(models) if is_shown(one[0], now)]
        keys = (place for place, row in enumerate(self._rows) if row.model.key == self._chosen)
        self._at = next(keys, 0)

    # ---- keys

    def press(self, key: str) -> None:
        """Handle a key; afterwards, `over` is true if it was the last one."""
        if key == CLOSED or (key == "q" and not self._typing):
            self.over = True
        elif self._typing:
            self._type(key)
        elif key == "escape":
            if self._opened is None:
                self._search("")
            self._opened = None
        elif self._opened is not None:
            self._scrolled = self._moved(key, self._scrolled)
        elif key == "/":
            self._typing = True
            self._search("")
        elif key == "enter" and self._rows:
            self._opened, self._scrolled = self._rows[self._at].model, 0
        elif self._rows:
            self._at = self._moved(key, self._at)
            self._chosen = self._rows[self._at].model.key if self._at else None

    def _moved(self, key: str, at: int) -> int:
        step = max(1, self._height - 1)
        to = {
            "up": at - 1, "k": at - 1, "down": at + 1, "j": at + 1, "home": 0, "end": self._length - 1,
            "pageup": at - step, "pagedown": at + step, " ": at + step,
        }.get(key, at)  # fmt: skip
        return max(0, min(to, self._length - 1))

    def _type(self, key: str) -> None:
        text = self._ranking.choice.search
        self._typing = key not in ("enter", "escape")
        if key == "escape":
            self._search("")
        elif key == "backspace":
            self._search(text[:-1])
        elif len(key) == 1:
            self._search(text + key)

    def _search(self, text: str) -> None:
        self._ranking.choice = replace(self._ranking.choice, search=text)
        self.refresh(self._now)

    # ---- lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.height or options.size.height
        plain = options.update(height=None)

        def lines(*what: RenderableType) -> list[list[Segment]]:
            return console.render_lines(Group(*what), plain)

        top = lines(self._title(width), Text(self._what(), "bold", no_wrap=True, overflow="ellipsis"))
        top += lines(*warnings(self._state, self.trouble, self._now, reading=self.reading))[:_WARNINGS]
        if self.reading:
            top += lines(Text(f"loading history: {self._state.messages:,} messages", "dim"))
        room = max(1, height - len(top) - 1)
        if self._opened is None:
            body = self._list(lines, width, room)
        elif self.reading:
            body = lines(Text("details are shown as soon as all is read"))
        else:
            row = self._ranking.row(self._opened)
            body = lines(detail(row, self._state, self._ranking.choice.by, self._now, width))
            self._length, self._height = max(1, len(body) - room + 1), room
            self._scrolled = min(self._scrolled, self._length - 1)
            body = body[self._scrolled :]
        body = Segment.set_shape(body[:room], width, room)
        bottom = lines(Text(self._keys(), "dim", no_wrap=True, overflow="ellipsis"))
        for line in [*top, *body, *bottom][:height]:
            yield from line
            yield Segment.line()

    def _list(self, lines: Lines, width: int, height: int) -> list[list[Segment]]:
        """Return the lines of the visible models, and below them the newest changes."""
        if not self._rows:
            searched = self._ranking.choice.search
            return lines(Text("no model has these letters" if searched else "no metrics yet"))
        room = max(_CHANGES, height // _CHANGES_SHARE)
        below = change_lines(self._recent[:room], self._state, self._now, width)
        if (more := len(self._recent) - room) > 0:
            below[-1] = Text(f"      and {more + 1} more", style="yellow")
        self._length, self._height = len(self._rows), max(1, height - 1 - len(below))
        self._top = max(min(self._top, self._at, self._length - self._height), self._at - self._height + 1, 0)
        seen = self._rows[self._top : self._top + self._height]
        by, chosen = self._ranking.choice.by, self._at - self._top
        models = lines(table(seen, self._state, by, width, self._now, chosen))
        models = Segment.set_shape(models, width, max(1, height - len(below)))
        return [*models, *lines(*below)]

    def _title(self, width: int) -> Text:
        streams = {key.stream for key in self._state.models}
        title = f"prequential watch  {elide(printable(self._cluster), 30)}  {clock(self._now)[11:19]} UTC"
        models = f"{counted(len(self._state.models), 'model')} of {counted(len(streams), 'stream')}"
        gap = width - len(title) - len(models)
        line = Text(f"{title}{' ' * gap}{models}" if gap > 0 else title, "reverse", no_wrap=True)
        line.truncate(width, pad=True)
        return line

    def _what(self) -> str:
        """Return the second line: the shown stage and estimator, the order, and the position."""
        if self._opened is not None:
            key = self._opened.key
            return f"{printable(key.model)} of {label(key, self._state)}"
        choice = self._ranking.choice
        seen = {row.sequence[1:] for row in self._rows if row.sequence is not None}
        unchosen = f"{len(seen)} stages and estimators" if len(seen) != 1 else ", ".join(*seen)
        chosen = ", ".join(name for name in (choice.stage, choice.estimator) if name is not None)
        parts = [chosen or unchosen, "worst first" if choice.by is None else f"by {choice.by}"]
        if choice.search or self._typing:
            parts.append(f"/{printable(choice.search)}{'_' if self._typing else ''}")
        parts.append(f"{self._at + 1} of {len(self._rows):,}" if self._rows else "none")
        if self._state.since is not None:
            parts.append(f"messages since {moment(self._state.since, self._now)}")
        return "   ".join(parts)

    def _keys(self) -> str:
        if not self.has_keys:
            return _NO_KEYS
        if self._typing:
            return _KEYS_TYPING
        return _KEYS if self._opened is None else _KEYS_OPENED
