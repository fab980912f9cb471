"""Python warnings about what an evaluation found."""

from __future__ import annotations

import warnings

from prequential.offline.replay.summary import Summary
from prequential.offline.replay.text import finding_in_words

#: The share of dropped records of a kind above which a warning is given.
_MOST = 0.5


def warn(summary: Summary, stacklevel: int) -> None:
    """Call `warnings.warn` for each finding, and for each kind of which most records were dropped.

    `stacklevel` is as in `warnings.warn`: 1 stands for the caller.
    """
    for name, kind in summary.records.items():
        if kind.dropped > _MOST * kind.read:
            first = next(drop for drop in summary.dropped if drop.kind == name)
            said = f"{kind.dropped:,} of {kind.read:,} {name} were dropped; most often: {first.reason}"
            warnings.warn(said, UserWarning, stacklevel=stacklevel + 1)
    for finding in summary.findings:
        said = f"looks wrong: {finding_in_words(finding)}"
        warnings.warn(said, UserWarning, stacklevel=stacklevel + 1)
