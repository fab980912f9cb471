"""What processes log when they stop; the loggers of this package's other modules are quiet by default."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)


def note_stopping(signal_name: str) -> None:
    """Log that the process stops because of a signal."""
    log.info("%s: stopping; a second signal ends the process at once", signal_name)


def note_stopped() -> None:
    """Log that the process has written what it has to, and ends now."""
    log.info("stopped")
