"""The positive class of a sequence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints32, inner, kernel
from prequential.engine.measures.declaration import NO_POSITIVE, UNSEEN_POSITIVE
from prequential.engine.tables.streams import FALSE, ONE, OTHER, TRUE, ZERO

#: If no stream has costs.
NO_COSTS: Floats = np.zeros((0, 0))
NONE_PRICED: Bytes = np.zeros(0, dtype=np.uint8)

#: If rows are of streams, not of sequences.
NO_OWNER: Ints32 = np.zeros(0, dtype=np.int32)

#: If no stream's predictions are quantiles.
NO_QUANTILES: Floats = np.zeros(0)

#: If no stream's classes are sets of labels.
NO_SETS: Bytes = np.zeros(0, dtype=np.uint8)
NO_MEMBERS: Bytes = np.zeros((0, 0), dtype=np.uint8)

#: The basis of costs: an outcome, or each unit of its value.
PER_OUTCOME, PER_VALUE = 1, 2


class Positives(NamedTuple):
    """The data that determine positive classes: streams of sequences, configuration and classes of streams.

    They also have the costs of outcomes by class, the quantile that predictions are, and the labels in
    classes that are sets of labels.
    """

    owner: Ints32  # stream by sequence
    configured: Ints32  # by stream: the class's code; UNSEEN_POSITIVE: no code yet; NO_POSITIVE: none
    first: Ints32  # by stream: the first of its classes below
    classes: Ints32  # by stream: how many classes it has
    sort: Bytes  # by class: the sort of its name, such as `TRUE`
    priced: Bytes = NONE_PRICED  # by stream: 0, or the basis of its costs; no rows if no stream has any
    costs: Floats = NO_COSTS  # by class, then by code of the prediction; no rows if no stream has any
    quantile: Floats = NO_QUANTILES  # by stream, for regression; 0: none is configured
    sets: Bytes = NO_SETS  # by stream: whether its classes are sets of labels; no rows if no stream's are
    members: Bytes = NO_MEMBERS  # by class, then by label: whether it is in the set; no rows without sets


@inner
def quantile_of(positives: Positives, stream: int) -> float:
    """The quantile that a stream's predictions are, above 0 and below 1; 0: none is configured."""
    return positives.quantile[stream] if len(positives.quantile) else 0.0


@kernel
def positive_of(positives: Positives, sequence: int, labels: Floats) -> int:
    """The code of a sequence's positive class, given its labels by class in memory, (k,) counts or weights.

    It is the configured class. Without one, it is `true` if all labels in memory are booleans, or `1` if they
    are 0 and 1. `NO_POSITIVE`: there is none. `UNSEEN_POSITIVE`: it has no code yet.
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
    """Whether a class (code) may be the positive one of a sequence, whatever its other labels.

    If no class can be identified as positive, it is the second class, which distinguishes two classes.
    """
    stream = positives.owner[sequence]
    if positives.configured[stream] != NO_POSITIVE:
        return positives.configured[stream] == code
    if code >= positives.classes[stream]:
        return False
    sort = positives.sort[positives.first[stream] + code]
    return code == 1 if sort == OTHER else sort in (TRUE, ONE)
