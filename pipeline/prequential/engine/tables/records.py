"""A micro-batch's records as columns, and the error with which the engine rejects an invalid record."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Codes, Floats, Ints, Ints32, Words, zeros

INSTANCE, PREDICTION, LABEL = range(3)


class Rows(NamedTuple):
    """By record, in the order of processing; times in ms. Columns are (records,) unless noted."""

    kind: Bytes
    stream: Ints32
    ts: Ints  # event time
    time: Ints  # record time
    text: Bytes  # all ids, one after the other
    starts: Ints  # (records + 1,): where each id begins in `text`
    model: Ints32  # of predictions: the model's entity
    label: Ints32  # of predictions and labels: the class; NO_CLASS: the label is withdrawn
    number: Floats  # … or the number
    version: Ints  # of instances; of predictions, the code of the model's version, 0: not given
    propensity: Floats  # of instances; 0: not given
    numbers: Floats  # (records, those up to the last that a stream reads): `NUMBERS`; NaN: none
    segments: Codes  # (records, keys): 0 not given, else 1 + position of the value
    probabilities: Ints  # (records + 1,): where each prediction's probabilities begin in the two below
    names: Words  # hash of the class's name
    p: Floats
    classes: Ints32  # how many classes its stream has when it is processed
    asks: Bytes  # whether the record has names that become known only if it is taken
    hashes: Ints  # of the ids, as the join needs them
    refused: Bytes  # the join's answer: 0 taken, else the code of the reason


def new_rows(count: int, numbers: int, keys: int, text: Bytes, probabilities: int) -> Rows:
    """Rows of zeros, and NaN for numbers.

    `numbers` and `keys` are the widths of the columns `numbers` and `segments`, `text` has the ids, and
    there is room for so many probabilities.
    """
    return zeros(Rows, count, segments=keys)._replace(
        text=text, starts=np.zeros(count + 1, np.int64), numbers=np.full((count, numbers), np.nan),
        probabilities=np.zeros(count + 1, np.int64), names=np.zeros(probabilities, np.uint64),
        p=np.zeros(probabilities),
    )  # fmt: skip


class Unusable(Exception):
    """A record goes to dead-letters; the message is the reason, one sentence that quotes what is wrong."""
