"""The losses of one outcome whose means are measures (`declaration.Loss`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prequential.engine.compiled.generated import written
from prequential.engine.compiled.kernel import inner
from prequential.engine.measures.declaration import NO_POSITIVE, POSITIVE, QUANTILES
from prequential.engine.measures.positive import Positives, quantile_of
from prequential.engine.measures.registry import INDEX, LOSSES, MEASURES, OWN_LOSSES
from prequential.engine.tables.streams import ONE, TRUE


@inner
def is_positive(positives: Positives, sequence: int, code: int) -> bool:
    """Whether a class is the configured positive one; if none is configured, whether it is `true` or `1`."""
    stream = positives.owner[sequence]
    if positives.configured[stream] != NO_POSITIVE:
        return positives.configured[stream] == code
    return positives.sort[positives.first[stream] + code] in (TRUE, ONE)


def _lines() -> Iterator[str]:
    """The lines of `own_loss`, by measure; those of the positive class are last, as only they need it."""
    of_class = [name for name in OWN_LOSSES if MEASURES[name].inputs is POSITIVE]
    for name in OWN_LOSSES:
        if name not in of_class:
            yield f"if measure == {INDEX[name]}:"
            quantile = ", quantile_of(positives, log.sequence[row])"
            yield f"    return {name}(log, row{quantile if MEASURES[name].inputs is QUANTILES else ''})"
    for what in ("label", "prediction"):
        yield f"{what} = is_positive(positives, log.sequence[row], log.{what}[row])"
    for name in of_class:
        yield f"if measure == {INDEX[name]}:"
        yield f"    return {name}(label, prediction)"
    yield "return 0.0, False"


_GIVEN: dict[str, Any] = {name: LOSSES[name].function for name in OWN_LOSSES}

#: own_loss(measure, log, row, positives): the loss of a row of the log for a measure (a column) that is a
#: mean of losses, and whether the outcome counts.
own_loss: Callable[..., tuple[float, bool]] = inner(
    written(
        "own_loss", "measure, log, row, positives", list(_lines()),
        {**_GIVEN, "is_positive": is_positive, "quantile_of": quantile_of}, __name__, __file__,
    )
)  # fmt: skip
