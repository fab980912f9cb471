"""Errors meant for the person at the command line: one clear sentence, no traceback."""

from __future__ import annotations


class UsageError(Exception):
    """The command line, the configuration or a client's settings are wrong (exit status 2)."""


class WorkError(Exception):
    """The work that was asked for failed, although it was asked for rightly (exit status 1)."""
