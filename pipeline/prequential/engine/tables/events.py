"""The log of what becomes of predictions: they wait, meet their label, turn out to be late, or expire.

Consumers of predictions read it (coverage, selection, periods); consumers of outcomes read the outcome log.
"""

from __future__ import annotations

from typing import NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, records

#: The last one: it is as it was before the revision that follows, for what is scored or at stake.
WAITS, MET, LATE, EXPIRED, REVISED, UNREVISED = range(6)


class Events(NamedTuple):
    """What became of predictions, in the order in which it happened; all columns have equal length."""

    kind: Bytes
    model: Ints32  # row of the model
    ts: Ints  # of the prediction, ms
    t1: Ints  # of its label (MET), ms; the stream's clock when it came (WAITS)
    prediction: Ints32  # class code
    bin: Bytes  # of its confidence, where periods are estimated (`scores.confidence_bin`); 0: none is given
    label: Ints32  # class code (MET); of a revision the label before, or NO_CLASS
    revised: Ints32  # of a revision: the label now; NO_CLASS: it is withdrawn
    before: Ints32  # rows of the outcome log that were written before it
    bits: Bytes  # which baselines were right when the prediction was made: 2·persistent + majority
    known: Bytes  # whether they had a label to predict by
    at_horizon: Bytes  # whether the label (MET, REVISED) is that of instances without one by the horizon
    # What is scored of one that met its label or was revised, as in the outcome log:
    scored: Bytes
    log_loss: Floats
    brier: Floats
    confidence: Floats
    positive: Floats
    is_positive: Bytes
    error: Floats
    value: Floats
    width: Floats
    weight: Floats
    # Where costs are by what is at stake, as in the outcome log, of one that met its label or was revised:
    valued: Bytes
    stake: Floats


def new_events(rows: int) -> Events:
    """An empty log with this many rows, all zero; `Logs.used[EVENTS]` is the number of rows in use."""
    return records(Events, rows)
