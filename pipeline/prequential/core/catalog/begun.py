"""What starts empty under the present configuration though there have been outcomes."""

from __future__ import annotations

from typing import NamedTuple

from prequential.settings.stages import parse

#: Something that is configured: a kind, and a name of it (empty where there is one at most).
Item = tuple[str, str]


def item_of(kind: str, name: str) -> Item:
    """What is configured by this name; bins are one stage."""
    return kind, parse(name).configured if kind == "stage" else name


class Begun(NamedTuple):
    """Something that starts empty though there have been outcomes; `whose` is a model, a segment or a pair.

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
        """The same without whose."""
        return " ".join(part for part in (self.stage, self.kind, self.name) if part)

    @property
    def item(self) -> Item:
        """What is configured."""
        return item_of(self.kind, self.name)
