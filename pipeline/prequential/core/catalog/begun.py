"""What starts empty under the present configuration though there have been outcomes."""

from __future__ import annotations

from typing import NamedTuple

from prequential.settings.stages import parse

#: Something that is configured: a kind, and a name of it (empty where there is one at most).
Item = tuple[str, str]


def item_of(kind: str, name: str) -> Item:
    """Kind and name of what is configured: all bins of a stage are that one stage.

    >>> item_of("stage", "bin:3"), item_of("estimator", "all")
    (('stage', 'bins'), ('estimator', 'all'))
    """
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
        """What starts empty, without whose: stage, kind and name, where it has them."""
        return " ".join(part for part in (self.stage, self.kind, self.name) if part)

    @property
    def item(self) -> Item:
        """The configured thing that starts empty; bins of a stage are one."""
        return item_of(self.kind, self.name)
