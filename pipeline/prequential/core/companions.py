"""Models that nobody sends predictions of: the baselines, evaluated beside a stream's models.

A baseline has one outcome for each labelled instance that any model predicted. It predicts when the
*lead* does, the model whose initial prediction is the earliest (ties: the one known longest), in every
stage with the labels known at that moment, as for `p_per` and `p_maj`; so its accuracy is what these
are, and it has a confusion matrix of its own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from prequential.config import StreamConfig
from prequential.core.arrays import Packed
from prequential.core.classes import Classes
from prequential.core.measures import MeasureSet
from prequential.core.model import Model
from prequential.core.outcomes import H_MASK, H_SHIFT, MAJ_SHIFT, NO_CLASS, PER_SHIFT

#: What baselines predict before the first label: a class of its own, never a label's.
NOTHING = "@none"

_SHIFTS = {"persistent": PER_SHIFT, "majority": MAJ_SHIFT}

#: Companions' codes come after all models', which are numbered from 0.
_FIRST_CODE = 1 << 32

#: … and shadow models' come after these (see `prequential.core.shadow`).
FIRST_SHADOW = 1 << 33

#: … then models' segments, in the order in which they are seen (see `prequential.core.segments`), …
FIRST_SEGMENT = 1 << 34

#: … and then models' stages at an age.
FIRST_AFTER = 1 << 35

#: Those of the companions come last.
FIRST_AFTER_OF_COMPANIONS = 1 << 36


class Companion(Model):
    """`@persistent` or `@majority` as a model of a stream; detectors don't watch it."""

    weighed = False

    def __init__(
        self,
        code: int,
        baseline: str,
        config: StreamConfig,
        measures: MeasureSet,
        classes: Classes,
        stage: str | None = None,
    ) -> None:
        config = replace(config, detectors=(), baselines=())
        super().__init__(code, f"@{baseline}", config, measures, stage)
        self._baseline = baseline
        self._classes = classes
        classes.code(NOTHING)

    def at(self, stage: str, code: int) -> Model:
        """The baseline at a stage that not every outcome is in."""
        config = replace(self._config, stages=("initial",))
        return Companion(code, self._baseline, config, self._measures, self._classes, stage)

    def _outcome(self, packed: Packed) -> Packed:
        """The baseline's class in place of the prediction's."""
        h = (packed >> np.uint64(_SHIFTS[self._baseline])) & np.uint64(0xFFFF)
        h[h == NO_CLASS] = self._classes.code(NOTHING)
        return (packed & ~np.uint64(H_MASK)) | h << np.uint64(H_SHIFT)

    def revise(self, ordinal: int, old_y: int, new_y: int, seen: tuple[int, ...], room: int) -> None:
        """A label was revised: move its outcome."""
        own = self._outcome(np.array([packed & (1 << 64) - 1 for packed in seen], dtype=np.uint64))
        super().revise(ordinal, old_y, new_y, tuple(own.tolist()), room)


def companions_of(config: StreamConfig, measures: MeasureSet, classes: Classes) -> list[Companion]:
    """The configured baselines of a stream; numbers have none."""
    if measures.regression:
        return []
    return [
        Companion(code, baseline, config, measures, classes)
        for code, baseline in enumerate(config.baselines, _FIRST_CODE)
        if baseline in _SHIFTS  # each model has a random one of its own: see `Model.everything`
    ]
