"""Names of a stream in all partitions: which of them are evaluated, in the order in which they came.

Models and segments come to partitions in different orders, and each partition applies the limits separately.
The merged names are as in a single partition. They are ordered by their first record in any partition. A
segment that one partition counts as `KEY=other` belongs to `KEY=other` in all partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace
from prequential.configuration.settings.model import Config
from prequential.engine.catalog.streams import OTHER
from prequential.engine.estimators.naming import RANDOM_SUFFIX
from prequential.topics.parts import Compared, Part


class PartNames:
    """The names that the parts of a stream have at one moment."""

    def __init__(self, config: Config, parts: Sequence[Part]) -> None:
        self._parts, self._limits = parts, config.limits
        stream = config.stream(parts[0].stream)
        self._champion = stream.champion if stream.compare == "champion" else None
        self._models = _ranks(part.models for part in parts)
        self._retired = {name for part in parts for name in part.retired}
        #: Segments that belong to `KEY=other`.
        self._others: dict[str, str] = {}
        for key in stream.segments:
            other = f"{key}={OTHER}"
            ranks = _ranks(part.values.get(key, {}) for part in parts)
            full = [part for part in parts if any(one.segment == other for one in part.evaluated)]
            for value, rank in ranks.items():
                if rank >= stream.segments_per_key or any(value not in part.values[key] for part in full):
                    self._others[f"{key}={value}"] = other
        known = sorted(
            {self._ordered(*pair) for part in parts for pair in part.pairs},
            key=lambda pair: tuple(self._models[name] for name in reversed(pair)),
        )
        limit = config.limits.pairs_per_stream if stream.compare == "all" else len(known)
        self._pairs = set([pair for pair in known if self._retired.isdisjoint(pair)][:limit])

    def parts(self) -> Sequence[Part]:
        """The parts without the versions that gave way to newer ones in some partition."""
        if not self._retired:
            return self._parts
        return [
            replace(part, evaluated=[one for one in part.evaluated if one.model not in self._retired])
            for part in self._parts
        ]

    def has(self, model: str, segment: str | None) -> bool:
        """Whether a model, or one of its segments, has messages."""
        name = model.removesuffix(RANDOM_SUFFIX)
        return name in self._models and name not in self._retired and segment not in self._others

    def segment(self, name: str | None) -> str | None:
        """The segment to which a partition's segment belongs."""
        return name if name is None else self._others.get(name, name)

    def pair(self, one: Compared) -> tuple[str, str] | None:
        """Models A and B of a partition's pair; None: the pair has no messages."""
        if one.model == one.against:
            return None if one.model in self._retired else (one.model, one.against)
        pair = self._ordered(one.model, one.against)
        return pair if pair in self._pairs else None

    def _ordered(self, a: str, b: str) -> tuple[str, str]:
        """The pair in order: the champion first, or else the model that came first."""
        first, second = sorted((a, b), key=lambda name: (name != self._champion, self._models[name]))
        return first, second

    def without_model(self, model: str) -> list[int]:
        """Partitions without room for a model, which may therefore have refused predictions of it."""
        limit = self._limits.models_per_stream
        return [
            part.partition for part in self._parts
            if model not in part.models and len(part.models) >= limit
        ]  # fmt: skip

    def without_pair(self, pair: tuple[str, str]) -> list[int]:
        """Partitions that evaluate two models without comparing them, or that may have refused one."""
        a, b = pair
        if a == b:
            return self.without_model(a)
        refused = {*self.without_model(a), *self.without_model(b)}
        return [
            part.partition for part in self._parts
            if part.partition in refused
            or (part.models.keys() >= {a, b} and (a, b) not in part.pairs and (b, a) not in part.pairs)
        ]  # fmt: skip


def _ranks(of: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Names with their ranks, from 0, by their first times; ties are broken by partition and order there.

    >>> _ranks([{"a": 20, "b": 30}, {"b": 10, "c": 20}])
    {'b': 0, 'a': 1, 'c': 2}
    """
    first: dict[str, tuple[int, int, int]] = {}
    for partition, names in enumerate(of):
        for place, (name, time) in enumerate(names.items()):
            came = time, partition, place
            first[name] = min(came, first.get(name, came))
    return {name: rank for rank, name in enumerate(sorted(first, key=first.__getitem__))}
