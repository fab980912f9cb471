"""The detectors by their name in the configuration: a new one is a module here and a line below."""

from __future__ import annotations

from prequential.engine.detectors import (
    adwin,
    cusum,
    ddm,
    ecdd,
    eddm,
    harm,
    hddm_a,
    hddm_w,
    kswin,
    page_hinkley,
)
from prequential.engine.detectors.declaration import Detector

DETECTORS: dict[str, Detector] = {
    "page-hinkley": page_hinkley.DETECTOR,
    "adwin": adwin.DETECTOR,
    "ddm": ddm.DETECTOR,
    "eddm": eddm.DETECTOR,
    "hddm-a": hddm_a.DETECTOR,
    "hddm-w": hddm_w.DETECTOR,
    "kswin": kswin.DETECTOR,
    "cusum": cusum.DETECTOR,
    "ecdd": ecdd.DETECTOR,
    "harm": harm.DETECTOR,
}
