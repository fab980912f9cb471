"""What processes log when they stop; the loggers of this package's other modules are quiet by default."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import suppress
from typing import Any

log = logging.getLogger(__name__)


def exit_on_sigterm() -> None:
    """Have SIGTERM end the process at once, with a line in the log: nothing needs to be written yet.

    A process that begins to work replaces this handler.
    """
    signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, frame: Any) -> None:
    with suppress(RuntimeError):  # a line of the log is being written at this moment
        log.info("%s: stopped before any records were taken", signal.Signals(number).name)
    os._exit(0)


def note_stopping(signal_name: str) -> None:
    """Log that the process stops because of a signal."""
    log.info("%s: stopping; a second signal ends the process at once", signal_name)


def note_stopped() -> None:
    """Log that the process has written what it has to, and ends now."""
    log.info("stopped")
