"""Count which entries of a mapping's `map`s and which conditions occurred in the records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from prequential.mapping.model import RecordMapping, as_text

#: The largest number of values of a path that are kept.
_MOST = 50


class Uses:
    """Counts of one mapping: the values that each `map` met, and the records that passed each condition.

    >>> from prequential.mapping.parsing import parse
    >>> section = {"y_true": {"path": "y", "map": {"Y": 1, "N": 0}}, "instance_id": "id", "when": "op = u"}
    >>> uses = Uses(parse(section, 2, bare=True))
    >>> uses.note_values("y_true", ["Y", "Y"])
    >>> uses.met["y_true"], uses.named("y_true")
    ({'Y'}, ['Y', 'N'])
    """

    def __init__(self, mapping: RecordMapping) -> None:
        self.mapping = mapping
        self._maps: Mapping[str, Sequence[str]] = {
            name: list(one.names) for name, one in mapping.fields.items() if one.names is not None
        }
        #: By field with a `map`: the values of records, as long as they are few.
        self.met: dict[str, set[str]] = {name: set() for name in self._maps}
        #: By condition: the records tested, those for which it holds, and the values as long as they are few.
        self.asked = [0] * len(mapping.when)
        self.held = [0] * len(mapping.when)
        self.values: list[dict[str, None]] = [{} for _ in mapping.when]

    def named(self, field: str) -> list[str]:
        """Return the values that the `map` of a field names."""
        return list(self._maps[field])

    def note_values(self, field: str, column: Iterable[Any]) -> None:
        """Note the values of a field; fields without a `map` are ignored."""
        met = self.met.get(field)
        if met is not None:
            named = {*self._maps[field]}
            for text in _texts(column):
                if text in named or len(met) < _MOST:
                    met.add(text)

    def note_condition(self, place: int, column: Sequence[Any], held: int) -> None:
        """Note the values for which a condition was tested, and for how many records it holds."""
        self.asked[place] += len(column)
        self.held[place] += held
        values = self.values[place]
        if len(values) < _MOST:
            for text in _texts(column):
                values[text] = None


def _texts(column: Iterable[Any]) -> dict[str, None]:
    """Return values as text, each once, without lists and objects."""
    with suppress(TypeError):  # lists and objects are not hashable
        column = dict.fromkeys(column)
    return {as_text(one): None for one in column if isinstance(one, (str, int, float)) and one == one}
