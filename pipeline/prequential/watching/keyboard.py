"""Keys as they are pressed, without a line's end; the terminal is given back as it was."""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
import time
from types import TracebackType

try:
    import termios
    import tty
except ImportError:  # Windows has neither: no keys there
    termios = None  # type: ignore[assignment]

#: Keys with names, by what they send; others are the characters that they type.
_NAMED = {
    "[A": "up", "OA": "up", "[B": "down", "OB": "down", "[5~": "pageup", "[6~": "pagedown",
    "[H": "home", "OH": "home", "[1~": "home", "[F": "end", "OF": "end", "[4~": "end",
    "": "escape",
}  # fmt: skip
_CONTROL = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace"}

#: A key: an escape sequence (ECMA-48: up to its final byte), or a character; and an end in the middle of one.
_KEY = re.compile(r"\x1b(\[[0-?]*[@-~]|O.|)|.", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(\[[0-?]*|O|)$")

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
        """Whether standard input is a terminal, so that keys can be pressed."""
        return self._descriptor is not None

    def wait(self, seconds: float) -> list[str]:
        """The keys that were pressed; returns at the first, and after so many seconds without.

        The last one is `CLOSED` where the terminal is gone.
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
    r"""What was typed, key by key; unknown keys and control characters are left out.

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
