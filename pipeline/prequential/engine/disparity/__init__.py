"""Disparity between the segments of a key: whether a measure differs between groups, by one sequential test."""

from __future__ import annotations

#: Verdicts by code: too few groups have enough outcomes; no difference was found; groups differ.
TOO_FEW, NO_DIFFERENCE, DIFFERS = range(3)
VERDICTS = ("too_few", "no_difference_found", "differs")
