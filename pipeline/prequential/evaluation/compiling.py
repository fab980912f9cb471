"""Compile the engine's loops in a notebook or in your own program."""

from __future__ import annotations

from prequential.program.compilation import compile_loops
from prequential.settings.model import Config
from prequential.wording.console import complain


def compile_once(config: Config) -> None:
    """Compile the loops that a configuration needs, once in a process, with a message on standard error."""
    compile_loops(complain, config)
