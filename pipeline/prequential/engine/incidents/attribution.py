"""Causes of a change of the level, each with the share of the change that it accounts for.

With L0 and L1 the mean losses before and after, and outcomes put into groups g (by label, say) with weights w
and mean losses l,

    L1 - L0 = Σ (w1 - w0)·l0  +  Σ w1·(l1 - l0).

The first sum is the effect of other weights alone, at the earlier losses. The second sum is the effect of
other losses for the same weights: worse (or better) service of the same groups. With groups by label, the
first sum is the class-ratio component (Brzezinski et al. 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from prequential.engine.incidents.cause import LEAST_SHARE, NOT_CLEAR, Cause, CauseNames, rounded
from prequential.engine.incidents.circumstances import Others, of_circumstances
from prequential.engine.incidents.class_weights import of_weights
from prequential.engine.incidents.inputs import of_confidence, of_shares
from prequential.engine.incidents.labelled import coverages
from prequential.engine.incidents.phases import Phases
from prequential.engine.incidents.places import of_segments, where_it_changed

#: Where no cause has this share, none is: what changed isn't clear.
CLEAR_SHARE = 0.3


def causes(
    phases: Phases, classes: int, names: CauseNames, others: Callable[[], Others] | None = None
) -> list[Cause]:
    """The causes of a change of the level, the largest share first; `NOT_CLEAR` alone without one.

    `others` returns how the other models of the stream fared; None: there are none.
    """
    before, after, change = phases.before, phases.after, phases.change
    if not before.n or not after.n or not change:
        return [NOT_CLEAR]
    parts = of_weights(phases, classes, names)
    where = where_it_changed(before, after, change, phases.binary, classes, names)
    at = where.detail | {f"{where.cause}share_of": where.share} if where is not None else {}
    covered = phases.of_predictions is not None and coverages(*phases.of_predictions[2]) is not None
    mix = of_segments(phases, classes, names)
    explained = 0.0 if mix is None else mix.share
    surer = of_confidence(phases, classes, explained + math.fsum(cause.share for cause in parts))
    if surer is not None:
        parts.append(surer._replace(cause="selection") if covered else surer)
    left = max(0.0, 1.0 - math.fsum(cause.share for cause in parts))
    if mix is not None and covered:
        parts.append(mix._replace(cause="selection", share=mix.share * left))
        left *= 1.0 - mix.share
        mix = None
    about = of_circumstances(phases, names, others)
    parts += [one._replace(share=one.share * left, detail=one.detail | at) for one in about]
    left *= 1.0 - max((one.share for one in about), default=0.0)
    if mix is not None:
        parts.append(mix._replace(share=mix.share * left))
        left *= 1.0 - mix.share
    if where is not None:
        parts.append(where._replace(share=where.share * left))
        left *= 1.0 - where.share
    other_inputs = None if covered else of_shares(phases, classes, names)
    if other_inputs is not None:
        parts.append(other_inputs._replace(share=left))
    elif phases.differs_by_model:
        parts.append(Cause("concept", left, {}))
    named = [one._replace(share=rounded(one.share)) for one in parts if one.share >= LEAST_SHARE]
    named.sort(key=lambda one: -one.share)
    return named if named and named[0].share >= CLEAR_SHARE else [NOT_CLEAR]
