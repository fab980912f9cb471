"""All of the engine's loops: the tests need them. As a program it compiles those that are missing."""

from __future__ import annotations

from dataclasses import replace

from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig
from prequential.engine.detectors import DETECTORS
from prequential.engine.warmup import ALL, config_of
from prequential.runtime.compilation import compile_loops

#: A configuration that needs all of them.
EVERYTHING = Config(
    defaults=replace(config_of(ALL).defaults, detectors=tuple(map(DetectorConfig, DETECTORS)))
)

if __name__ == "__main__":
    compile_loops(print, EVERYTHING)
