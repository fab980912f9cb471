"""Compile the engine's loops in a notebook or in your own program."""

from __future__ import annotations

from prequential.configuration.settings.model import Config
from prequential.runtime.program.compilation import compile_loops
from prequential.views.wording.console import complain


def compile_once(config: Config) -> None:
    """Compile the loops that a configuration needs, once in a process, with a message on standard error."""
    compile_loops(complain, config)
