"""Conditions about pairs of models: `challenger not better`, by the verdict that forgets."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

from prequential.configuration.settings.stages import FINAL
from prequential.engine.comparisons import A_BETTER, B_BETTER, UNDECIDED, VERDICTS
from prequential.views.dashboard.answer import Answer, lately
from prequential.views.dashboard.history import History
from prequential.views.watching.ranking import is_baseline

PATTERN = re.compile(r"\s*(?P<name>[^\s\[\]]+)\s*(?:\[(?P<where>.*)\])?\s+not\s+better\s*")

#: By what it can choose.
SELECTORS = ("stream", "against", "stage", "segment", "loss")


class Challenge(NamedTuple):
    """A model (`*` stands for anything) that isn't better now than each one that it is compared with."""

    text: str
    model: str
    selectors: dict[str, str]
    measure: str = "comparisons"

    def check(self, history: History) -> list[Answer]:
        """Return an answer for each pair, and whether it fails.

        There is one failure where it is about none.
        """
        answers: list[Answer] = []
        for key, (recent, same) in history.recent.items():
            stage, loss = self.selectors.get("stage", FINAL), self.selectors.get("loss", "error")
            segment = self.selectors.get("segment")
            of_segment = key.segment is None if segment is None else fnmatchcase(key.segment or "", segment)
            of_stage = any(fnmatchcase(one, stage) for one in (key.stage, *same))
            if not recent:  # all partitions together have no such verdict
                continue
            if not (of_stage and fnmatchcase(key.loss, loss) and of_segment):
                continue
            if not fnmatchcase(key.stream, self.selectors.get("stream", "*")) or key.model == key.against:
                continue
            for model, other, leads in (
                (key.model, key.against, VERDICTS[A_BETTER]), (key.against, key.model, VERDICTS[B_BETTER]),
            ):  # fmt: skip
                if fnmatchcase(model, self.model) and not is_baseline(model) and self._meets(other):
                    verdict, since = recent.get("verdict"), recent.get("since")
                    where = f"{key.stream} / {model} against {other}, {key.stage}, {key.loss}"
                    better = None if verdict == VERDICTS[UNDECIDED] else model if verdict == leads else other
                    answers.append(Answer(verdict != leads, f"{where}: {lately(better, since)}"))
        return answers or [Answer(True, f"`{self.text}`: no pair of models that it is about is compared")]

    def _meets(self, other: str) -> bool:
        """Baselines are meant only where they are asked for."""
        return fnmatchcase(other, self.selectors.get("against", "*")) and (
            "against" in self.selectors or not is_baseline(other)
        )
