"""Configured state that starts empty although there have been outcomes."""

from __future__ import annotations

from typing import NamedTuple

from prequential.configuration.settings.stages import parse

#: A configured item: its kind, and its name (empty where there is at most one).
Item = tuple[str, str]


def item_of(kind: str, name: str) -> Item:
    """Kind and name of a configured item; all bins of a stage are one item.

    >>> item_of("stage", "bin:3"), item_of("estimator", "all")
    (('stage', 'bins'), ('estimator', 'all'))
    """
    return kind, parse(name).configured if kind == "stage" else name


class Begun(NamedTuple):
    """An item that starts empty although there have been outcomes; `whose` is a model, a segment or a pair.

    >>> print(Begun("s/nb", "estimator", "all", "final"))
    s/nb: final estimator all
    """

    whose: str
    kind: str
    name: str = ""
    stage: str = ""

    def __str__(self) -> str:
        return f"{self.whose}: {self.what}"

    @property
    def what(self) -> str:
        """Stage, kind and name of the item, as far as it has them, without `whose`."""
        return " ".join(part for part in (self.stage, self.kind, self.name) if part)

    @property
    def item(self) -> Item:
        """The configured item that starts empty; all bins of a stage are one item."""
        return item_of(self.kind, self.name)
