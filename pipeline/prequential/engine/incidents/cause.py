"""A cause of a change, as in messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

#: Causes with a smaller share aren't named.
LEAST_SHARE = 0.1


class Cause(NamedTuple):
    """A cause, its share of the change, and its details."""

    cause: str
    share: float
    detail: dict[str, Any]

    @property
    def message(self) -> dict[str, Any]:
        """As it stands in messages."""
        return {"cause": self.cause, "share": self.share, **self.detail}


NOT_CLEAR = Cause("not_clear", 0.0, {})


class CauseNames(NamedTuple):
    """What columns stand for."""

    classes: Sequence[str]
    segments: Sequence[str]
    versions: Sequence[str]


def rounded(share: float) -> float:
    """Round a share to three digits: more aren't certain, and smaller differences don't change the order."""
    return round(share, 3)
