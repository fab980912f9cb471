"""Errors meant for the person at the command line: one clear sentence, no traceback."""

from __future__ import annotations


class UsageError(Exception):
    """The command line or the configuration is wrong (exit status 2)."""


class WorkError(Exception):
    """The work that was asked for failed (exit status 1)."""
