"""Compiled loops for a program of one's own."""

from __future__ import annotations

from prequential.program.compilation import compile_loops
from prequential.settings.model import Config
from prequential.wording.console import complain


def compile_once(config: Config) -> None:
    """Have the engine's loops compiled that a configuration needs, once in a process; says so on stderr."""
    compile_loops(complain, config)
