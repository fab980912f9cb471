"""The detectors by their name in the configuration: a new one is a module here and a line below."""

from __future__ import annotations

from prequential.core.detectors import page_hinkley
from prequential.core.detectors.declaration import Detector

DETECTORS: dict[str, Detector] = {
    "page-hinkley": page_hinkley.DETECTOR,
}
