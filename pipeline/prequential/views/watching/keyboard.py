"""Read single keys from the terminal, without waiting for a line end, and restore the terminal afterwards."""

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
