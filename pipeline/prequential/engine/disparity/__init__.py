"""Disparity between the segments of a key: one sequential test over all groups."""

from __future__ import annotations

#: Verdicts by code: too few groups have enough outcomes; no difference was found; groups differ.
TOO_FEW, NO_DIFFERENCE, DIFFERS = range(3)
VERDICTS = ("too_few", "no_difference_found", "differs")
