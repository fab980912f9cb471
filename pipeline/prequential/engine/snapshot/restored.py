"""What became of a snapshot's content under the present configuration: kept, begun empty, ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from prequential.configuration.settings.durations import shown_period
from prequential.configuration.settings.stages import parse
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.comparisons.pairing import Pairing
from prequential.engine.detectors.objectives import every_detector
from prequential.engine.estimators.naming import BASELINE_PREFIX
from prequential.engine.tables.streams import AGE, BASELINE, BASELINE_AGE, CORRECTION, MODEL, SEGMENT

#: A configured item: its kind, and its name (empty where there is at most one).
Item = tuple[str, str]


def item_of(kind: str, name: str) -> Item:
    """Kind and name of a configured item; all bins of a stage are one item.

    >>> item_of("stage", "bin:3"), item_of("estimator", "all")
    (('stage', 'bins'), ('estimator', 'all'))
    """
    return kind, parse(name).configured if kind == "stage" else name


class Begun(NamedTuple):
    """An item that starts empty although there have been outcomes; `owner` is a model, a segment or a pair.

    >>> print(Begun("s/nb", "estimator", "all", "final"))
    s/nb: final estimator all
    """

    owner: str
    kind: str
    name: str = ""
    stage: str = ""

    def __str__(self) -> str:
        return f"{self.owner}: {self.item_text}"

    @property
    def item_text(self) -> str:
        """Stage, kind and name of the item, as far as it has them, without `owner`."""
        return " ".join(part for part in (self.stage, self.kind, self.name) if part)

    @property
    def item(self) -> Item:
        """The configured item that starts empty; all bins of a stage are one item."""
        return item_of(self.kind, self.name)


class SavedPair(NamedTuple):
    """A pair in a snapshot's head, in the order of its fields."""

    a: int  # rows of its entities
    b: int
    plan: int  # number of its tables in `comparisons`
    counted: int  # its first rows there, on either side
    scored: int
    label: str | None  # of stages that are compared; None: two models are
    rank: int
    disagreement: int


class Restored(NamedTuple):
    """`kept` and `ended` count models, baselines, segments and pairs by item."""

    begun: list[Begun]
    kept: Counter[Item]
    ended: Counter[Item]

    @property
    def summary(self) -> str:
        """All in one line, the most frequent first; empty if nothing has begun or ended.

        >>> begun = [Begun("s/nb", "estimator", "all", "initial"), Begun("s/nb", "estimator", "all", "final")]
        >>> Restored(begun, Counter({("stage", "final"): 2}), Counter({("period", "1d"): 1})).summary
        'begun empty: estimator all (1); ended: period 1d (1); kept: stage final (2)'
        """
        if not self.begun and not self.ended:
            return ""
        begun = Counter(item for _, item in dict.fromkeys((entry.owner, entry.item) for entry in self.begun))
        parts = {"begun empty": begun, "ended": self.ended, "kept": self.kept}
        return "; ".join(f"{heading}: {_counted(items)}" for heading, items in parts.items() if items)


def compared(
    head: Mapping[str, Any], plan_of: Sequence[int], catalog: Catalog, pairing: Pairing,
    rows: Mapping[int, int], begun: list[Begun],
) -> Restored:  # fmt: skip
    """What became of a snapshot's content, by its head; `rows` gives the present row for each saved one.

    `plan_of` gives the saved plan for each saved row.
    """
    kept: Counter[Item] = Counter()
    ended: Counter[Item] = Counter()
    both: dict[tuple[int, int, int, int], tuple[frozenset[Item], frozenset[Item]]] = {}
    names: dict[int, str] = {}
    shared: dict[str, frozenset[Item]] = {}
    for row, code, kind, model, segment, age, was_evaluated in head["entities"]:
        stream, saved = catalog.streams[code], head["streams"][code]
        name = names[row] = f"{stream.name}/{model}" + (f" {segment}" if segment else "")
        items = _items_of(kind, model, segment, age)
        if not was_evaluated:
            continue
        if row not in rows:
            ended.update(items)
            continue
        key = plan_of[row], int(catalog.registry.entities.plan[rows[row]]), code, kind
        if key not in both:
            then, plan, config = head["plans"][key[0]], catalog.plans[key[1]], stream.config
            before = _items(
                kind, then["stages"], then["estimators"],
                [(detector["detector"], detector["signal"]) for detector in then["detectors"]
                    if then["watched"]],
                saved["details"], (saved["period"], saved["period_zone"]), then["reference"],
                (then.get("disparity") or [()])[0],
            )  # fmt: skip
            now = _items(
                kind, plan.stages, config.estimators,
                [(detector.detector, detector.signal) for detector in every_detector(config) if plan.watched],
                config.details, (config.period, config.period_zone),
                None if plan.reference is None else plan.reference.extent,
                () if plan.groups is None else plan.groups.keys,
            )  # fmt: skip
            both[key] = before & now, before - now
        common, gone = both[key]
        kept.update([*items, *common])
        ended.update(gone)
        shared[name] = shared.get(name, frozenset()) | common
    _pairs(head, pairing, rows, kept, ended)
    for owner, item in {(entry.owner, entry.item) for entry in begun}:
        if item in shared.get(owner, ()):
            kept[item] -= 1
    return Restored(begun, +kept, ended)


def _pairs(
    head: Mapping[str, Any], pairing: Pairing, rows: Mapping[int, int], kept: Counter[Item],
    ended: Counter[Item],
) -> None:  # fmt: skip
    """The same of models that are compared, by loss."""
    present = {pairing.identity(row): int(pairing.pairs.plan[row]) for row in pairing.ends}
    for pair in (SavedPair(*fields) for fields in head["pairs"]):
        then = {name for name, _ in head["comparisons"][pair.plan][1]}
        plan = present.get((rows.get(pair.a, -1), rows.get(pair.b, -1), pair.label or ""))
        now = set() if plan is None else {name for name, _ in pairing.tables[plan].codes}
        kept.update(("comparison", f"by {loss}") for loss in then & now)
        ended.update(("comparison", f"by {loss}") for loss in then - now)


def _items_of(kind: int, model: str, segment: str | None, age: str | None) -> list[Item]:
    """What a row of the snapshot is there for, by what it is; nothing of a model."""
    if kind == SEGMENT:
        return [("segments", str(segment).partition("=")[0])]
    if kind == BASELINE:
        return [("baseline", model.removeprefix(BASELINE_PREFIX))]
    if kind == CORRECTION:
        return [("temporal_correction", "")]
    return [] if age is None else [("stage", age)]


def _items(
    kind: int, stages: Iterable[str], estimators: Iterable[str], detectors: Iterable[tuple[str, str]],
    details: Iterable[str], periods: tuple[int | None, str], reference: int | str | None,
    groups: Iterable[str],
) -> frozenset[Item]:  # fmt: skip
    """What is evaluated of something."""
    if kind in (AGE, BASELINE_AGE):
        return frozenset()  # its stage, and with it the model's or the baseline's estimators
    items = [item_of("stage", stage) for stage in stages]
    items += [("estimator", name) for name in estimators]
    items += [("detector", f"{detector} on {signal}") for detector, signal in detectors]
    if reference is not None:
        items.append(("reference", str(reference)))
    items += [("disparity", key) for key in groups]
    if kind == MODEL:
        items += [("detail", name) for name in details]
        items += [] if periods[0] is None else [("period", shown_period(periods[0], periods[1]))]
    return frozenset(items)


def _counted(items: Mapping[Item, int]) -> str:
    """Items with how often there are, the most frequent first."""
    return ", ".join(
        f"{' '.join(filter(None, item))} ({count:,})"
        for item, count in sorted(items.items(), key=lambda counted: (-counted[1], counted[0]))
    )
