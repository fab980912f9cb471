"""Keys as they are pressed, without a line's end; the terminal is given back as it was."""

from __future__ import annotations

import codecs
import os
import select
import sys
import time
from types import TracebackType

try:
    import termios
    import tty
except ImportError:  # Windows has neither: no keys there
    termios = None  # type: ignore[assignment]

#: Keys with names; others are the characters that they type.
_NAMED = {
    "\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down",
    "\x1b[C": "right", "\x1bOC": "right", "\x1b[D": "left", "\x1bOD": "left",
    "\x1b[5~": "pageup", "\x1b[6~": "pagedown",
    "\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home", "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end",
    "\x1b": "escape", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace",
}  # fmt: skip

#: What ends when standard input does: there will be no key any more.
CLOSED = "closed"

#: Bytes that are read at once: more than anybody types meanwhile.
_BYTES = 1024

#: Seconds in which the rest of a key's sequence comes: over a slow line they may come apart.
_REST_SECONDS = 0.05


class Keyboard:
    """Keys from standard input, where it is a terminal; a `with` statement gives it back.

    Without one there are none, and `wait` only waits.
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
            # Ctrl-Z would leave the shell with a screen that isn't its own.
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
        """Whether keys can be pressed."""
        return self._descriptor is not None

    def wait(self, seconds: float) -> list[str]:
        """The keys that were pressed; returns at the first, and after so many seconds without."""
        if self._descriptor is None:
            time.sleep(seconds)
            return []
        if not self._ready(seconds):
            return []
        typed = self._read()
        while typed and _unfinished(typed) and self._ready(_REST_SECONDS):
            more = self._read()
            if not more:
                break
            typed += more
        return keys(typed) if typed else [CLOSED]

    def _ready(self, seconds: float) -> bool:
        assert self._descriptor is not None
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def _read(self) -> str:
        assert self._descriptor is not None
        try:
            data = os.read(self._descriptor, _BYTES)
        except OSError:  # the terminal is gone
            return ""
        return self._decode(data) or ("\x00" if data else "")


def keys(typed: str) -> list[str]:
    """What was typed, key by key; unknown keys and control characters are left out.

    >>> keys("j\\x1b[6~\\x1b\\r\\x1b[15~q")
    ['j', 'pagedown', 'escape', 'enter', 'q']
    """
    found = []
    while typed:
        length = _length(typed)
        key, typed = typed[:length], typed[length:]
        if key in _NAMED:
            found.append(_NAMED[key])
        elif key.isprintable():
            found.append(key)
    return found


def _length(typed: str) -> int:
    """Of the first key: a character, or an escape sequence (ECMA-48: up to its final byte)."""
    if typed[:2] == "\x1bO":
        return 3
    if typed[:2] != "\x1b[":
        return 1
    for place in range(2, len(typed)):
        if "@" <= typed[place] <= "~":
            return place + 1
    return len(typed)


def _unfinished(typed: str) -> bool:
    """Whether it ends in the middle of an escape sequence.

    >>> [_unfinished(typed) for typed in ("j", "\\x1b", "j\\x1b[", "\\x1b[5", "\\x1b[5~", "\\x1bO")]
    [False, True, True, True, False, True]
    """
    start = typed.rfind("\x1b")
    rest = typed[start:] if start >= 0 else ""
    if rest in ("\x1b", "\x1b[", "\x1bO"):
        return True
    return rest.startswith("\x1b[") and not "@" <= rest[-1] <= "~"
