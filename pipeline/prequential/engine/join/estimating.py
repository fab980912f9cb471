"""Estimates of losses before labels: whether a prediction differs from that of a judge, another model.

The estimate f is 1 or 0. What counts is its deviation e = f - m, with m the mean of the model's latest
estimates, each of weight 1/`MEMORY`. The sum of all deviations is `MEMORY` times the change of m. So it is
limited, however estimates change. A random sample of predictions has the same mean of e, so about 0: the
detector `harm` can subtract a multiple of e from losses (a control variate).

The judge's prediction must come before the label. Estimates aren't used any more once a model predicts an
instance twice: the predictions that count are then no random sample of all predictions.
"""

from __future__ import annotations

from prequential.engine.compiled.kernel import inner
from prequential.engine.tables.store import SETTLED, Store
from prequential.engine.tables.streams import Registry

#: Predictions whose mean estimates are compared with: their own chance adds 1/63 to the variance of e.
MEMORY = 32

#: In `Entities.judged`: estimates of a model aren't used.
_UNUSED = -1


@inner
def estimate(registry: Registry, store: Store, stream: int, slot: int, row: int) -> None:
    """Estimate the losses for which a prediction, the last one of its instance's list, allows it."""
    predictions, judge = store.predictions, registry.streams.judge[stream]
    model, verdict = predictions.model[row], 0
    one = first = store.instances.first[slot]
    while one:
        if predictions.model[one] == judge and not verdict:
            verdict = one
        if one != row and predictions.model[one] == model:
            registry.entities.judged[model] = _UNUSED
        one = predictions.next[one]
    if not verdict:
        return
    if model != judge:
        _compare(registry, store, row, verdict)
    elif row == verdict and store.instances.state[slot] != SETTLED:
        one = first
        while one != row:
            _compare(registry, store, one, verdict)
            one = predictions.next[one]


@inner
def _compare(registry: Registry, store: Store, row: int, verdict: int) -> None:
    """Note the deviation of a prediction's estimate, by the judge's prediction."""
    entities, predictions = registry.entities, store.predictions
    model = predictions.model[row]
    count = entities.judged[model]
    if count == _UNUSED:
        return
    f = 1.0 if predictions.label[row] != predictions.label[verdict] else 0.0
    if not count:
        entities.disagreement[model] = f
    e = f - entities.disagreement[model]
    entities.judged[model] = count + 1
    entities.disagreement[model] += e / min(count + 1, MEMORY)
    store.values.estimate[row, 0] = e


@inner
def estimate_of(registry: Registry, store: Store, prediction: int) -> float:
    """The deviation of a prediction's estimate; 0: it has none, or it isn't used."""
    used = registry.entities.judged[store.predictions.model[prediction]] > 0
    return float(store.values.estimate[prediction, 0]) if used else 0.0
