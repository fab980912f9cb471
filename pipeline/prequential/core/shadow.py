"""Temporal correction as a shadow model: what a model would predict if it used the labels before.

Where predictions carry probabilities, P(y|x)·P(y|y_prev)/P(y) is evaluated beside the model (2015 paper,
eq. 3), with y_prev the latest label that was known when the prediction was processed and the
probabilities of labels estimated from those known then. So late labels make it as weak as they would be.
Revisions don't reach it, since what is scored isn't remembered beyond the outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

from prequential.core.classes import Classes
from prequential.core.transitions import Transitions

#: Behind the model's name.
SUFFIX = "+temporal"


def corrected(probabilities: Sequence[str | float], classes: Classes, labels: Transitions) -> int | None:
    """The class of the largest corrected probability (ties: the one named first).

    None if none of the classes is known, so that there is no code for it.

    >>> classes, labels = Classes(9), Transitions()
    >>> for name in ("a", "a", "b", "b", "b"):
    ...     labels.update(classes.code(name))
    >>> classes.names[corrected(("a", 0.55, "b", 0.45), classes, labels)]
    'b'
    """
    previous = labels.last
    best, most = None, -1.0
    for name, p in zip(probabilities[::2], probabilities[1::2]):
        code = classes.codes.get(name)
        if code is None:
            continue
        value = float(p) * (1.0 if previous is None else labels.lift(code, previous))
        if value > most:
            best, most = code, value
    return best
