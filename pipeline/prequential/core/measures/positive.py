"""Which class is the positive one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Bytes, Floats, Ints32, inner, kernel
from prequential.core.measures.declaration import NO_POSITIVE, UNSEEN_POSITIVE
from prequential.core.tables.streams import FALSE, ONE, OTHER, TRUE, ZERO

#: Where no stream has costs.
NO_COSTS: Floats = np.zeros((0, 0))
NONE_PRICED: Bytes = np.zeros(0, dtype=np.uint8)

#: Where none says which quantile predictions are.
NO_QUANTILES: Floats = np.zeros(0)

#: What costs are of: an outcome, or each unit of what is at stake in it.
PER_OUTCOME, PER_VALUE = 1, 2


class Positives(NamedTuple):
    """What says it: of each sequence its stream, of each stream what is configured and its classes.

    And what outcomes cost by their classes, or which quantile predicted numbers are.
    """

    owner: Ints32  # stream by sequence
    configured: Ints32  # by stream: the class's code; UNSEEN_POSITIVE: it has none yet; NO_POSITIVE: none is
    first: Ints32  # by stream: the first of its classes below
    classes: Ints32  # by stream: how many classes it has
    sort: Bytes  # by class: what its name says
    priced: Bytes = NONE_PRICED  # by stream: 0, or what its costs are of; no rows where none has
    costs: Floats = NO_COSTS  # by class, then by code of the prediction; no rows where no stream has any
    quantile: Floats = NO_QUANTILES  # by stream, of numbers; 0: none is configured


@inner
def quantile_of(positives: Positives, sequence: int) -> float:
    """Which quantile a sequence's predictions are, above 0 and below 1; 0: it isn't said."""
    return positives.quantile[positives.owner[sequence]] if len(positives.quantile) else 0.0


@kernel
def positive_of(positives: Positives, sequence: int, labels: Floats) -> int:
    """The code of a sequence's positive class, given its labels by class in memory, (k,) counts or weights.

    The configured one; else `true` where all labels in memory are booleans, `1` where they are 0 and 1.
    `NO_POSITIVE` where there is none, `UNSEEN_POSITIVE` for one that has had no code yet.
    """
    stream = positives.owner[sequence]
    if positives.configured[stream] != NO_POSITIVE:
        return positives.configured[stream]
    first = positives.first[stream]
    booleans = digits = True
    for code in range(min(len(labels), positives.classes[stream])):
        if labels[code] > 0.0:
            sort = positives.sort[first + code]
            booleans &= sort in (FALSE, TRUE)
            digits &= sort in (ZERO, ONE)
    if not booleans and not digits:
        return NO_POSITIVE
    wanted = TRUE if booleans else ONE
    for code in range(positives.classes[stream]):
        if positives.sort[first + code] == wanted:
            return code
    return UNSEEN_POSITIVE


@inner
def may_be_positive(positives: Positives, sequence: int, code: int) -> bool:
    """Whether a class (code) may be the positive one of a sequence, whatever other labels there are.

    Where none can be known as positive, the second class: it tells two classes apart.
    """
    stream = positives.owner[sequence]
    if positives.configured[stream] != NO_POSITIVE:
        return positives.configured[stream] == code
    if code >= positives.classes[stream]:
        return False
    sort = positives.sort[positives.first[stream] + code]
    return code == 1 if sort == OTHER else sort in (TRUE, ONE)
