"""The field `coverage` of models' messages, as JSON: written from columns for all models at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.decimals import LONGEST_NUMBER, put_bytes, put_float
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, kernel
from prequential.engine.delay import coverage as coverages
from prequential.engine.delay import latency, maturity
from prequential.engine.delay.accounts import Accounts
from prequential.engine.delay.selection import Selection, index_column
from prequential.engine.output.fields import ABSENT, FieldColumns, TextPool, as_bytes, put_comma, put_text
from prequential.topics.encoding import fields_of

_BY_CLASS, _PSI = as_bytes(b'"labelled_by_class":{'), as_bytes(b'},"prediction_psi":')


class ClassNames:
    """Texts of the names of streams' classes, as JSON with a colon."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._texts: list[bytes] = []
        self._pool = TextPool.from_texts([])
        # By stream (code): where the texts of its classes begin in `_chosen`, and their number.
        self._begins, self._counts = np.zeros((2, 0), dtype=np.int64)
        self._chosen: Ints = np.zeros(0, dtype=np.int64)

    def of_stream(self, stream: Stream) -> Ints:
        """By class code, which of the texts is its name."""
        if stream.code >= len(self._counts) or self._counts[stream.code] != len(stream.class_names):
            self._note([stream])
        begin = int(self._begins[stream.code])
        return self._chosen[begin : begin + int(self._counts[stream.code])]

    def of_streams(self, streams: Sequence[Stream], codes: Ints, counts: Ints) -> tuple[Ints, Ints]:
        """The same of many streams (codes), one behind the other, and where each ends.

        `counts`: by one of these streams, the number of its classes.
        """
        highest = int(codes.max(initial=-1))
        changed = codes if highest >= len(self._counts) else codes[self._counts[codes] != counts]
        if len(changed):
            self._note([streams[code] for code in np.unique(changed).tolist()])
        return self._gathered(codes)

    def _gathered(self, codes: Ints) -> tuple[Ints, Ints]:
        sizes = self._counts[codes]
        ends = np.cumsum(sizes)
        places = np.repeat(self._begins[codes] - (ends - sizes), sizes)
        return self._chosen[places + np.arange(len(places))], ends

    def _note(self, streams: Sequence[Stream]) -> None:
        """Note the names that these streams' classes have now."""
        codes = np.array([stream.code for stream in streams], dtype=np.int64)
        more = max(0, int(codes.max()) + 1 - len(self._counts))
        self._begins = np.append(self._begins, np.zeros(more, dtype=np.int64))
        self._counts = np.append(self._counts, np.zeros(more, dtype=np.int64))
        names = [self.of_names(stream.class_names) for stream in streams]
        sizes = np.array(list(map(len, names)), dtype=np.int64)
        self._begins[codes] = len(self._chosen) + np.cumsum(sizes) - sizes
        self._counts[codes] = sizes
        self._chosen = np.concatenate([self._chosen, *names])
        if len(self._chosen) > 2 * int(self._counts.sum()):  # most of it is about fewer classes
            self._chosen, ends = self._gathered(np.arange(len(self._counts)))
            self._begins = ends - self._counts

    def of_names(self, names: Sequence[str]) -> Ints:
        """By name, which of the texts it is."""
        return np.array([self._index_of(name) for name in names], dtype=np.int64)

    def _index_of(self, name: str) -> int:
        index = self._index.get(name)
        if index is None:
            index = self._index[name] = len(self._texts)
            self._texts.append(fields_of({name: 0})[:-1])
        return index

    @property
    def pool(self) -> TextPool:
        """All texts so far."""
        if len(self._pool.ends) != len(self._texts):
            self._pool = TextPool.from_texts(self._texts)
        return self._pool


class CoveredModels(NamedTuple):
    """Models whose coverage is written, by model; what is no array is in the same order."""

    rows: Ints
    codes: Ints  # of their streams
    clocks: Ints  # of their streams, ms
    waiting: Sequence[dict[str, Any] | None]  # the field `waiting_expected`
    segment_psi: Sequence[dict[str, float] | None]  # the field `segment_psi`
    have_classes: npt.NDArray[np.bool_]  # whether their streams' labels are classes


def coverage_texts(
    catalog: Catalog, accounts: Accounts, class_names: ClassNames, models: CoveredModels
) -> TextPool:
    """By model, its field `coverage`."""
    streams, entities = catalog.columns.streams, catalog.columns.entities
    rows, codes, clocks = models.rows, models.codes, models.clocks
    account, fields = accounts.coverage, FieldColumns(len(rows))
    fields.begin("coverage")
    fields.whole("waiting", account.models.waiting[rows].astype(np.int64))
    fields.whole("oldest_waiting_ms", coverages.oldest_ages(account, rows, clocks))
    fields.begin("labelled")
    for name, shares in zip(coverages.SHARES, maturity.update(account, rows, clocks).T):
        fields.number(name, np.ascontiguousarray(shares), optional=True)
    fields.end()
    unique, back = np.unique(codes, return_inverse=True)
    for field, recent in (("label_latency_ms", False), ("recent_label_latency_ms", True)):
        values, labels = latency.quantile_columns(accounts.latencies, unique, recent=recent)
        values[labels == 0] = ABSENT
        fields.begin(field)
        for name, quantiles in zip(latency.QUANTILES, values[back].T):
            fields.whole(name, quantiles)
        fields.end()
    fields.whole("unpredicted_labels", streams.unmatched_label[codes].astype(np.int64))
    fields.whole(
        "instances_without_predictions", streams.instances_without_predictions[codes].astype(np.int64)
    )
    fields.whole("predictions_without_instance", streams.predictions_without_instance[codes].astype(np.int64))
    closes = streams.at_horizon[codes] != 0
    fields.whole("at_horizon", np.where(closes, entities.at_horizon[rows].astype(np.int64), ABSENT))
    _add_texts(fields, "waiting_expected", models.waiting)
    chosen = np.flatnonzero(models.have_classes)
    indices = np.full(len(rows), ABSENT)
    indices[chosen] = np.arange(len(chosen))
    counts = streams.class_count[codes[chosen]].astype(np.int64)
    names, ends = class_names.of_streams(catalog.streams, codes[chosen], counts)
    fields.text(_class_texts(accounts.selection, rows[chosen], names, ends, class_names.pool), indices)
    _add_texts(fields, "segment_psi", models.segment_psi)
    fields.end()
    return fields.written()


def _add_texts(fields: FieldColumns, name: str, objects: Sequence[dict[str, Any] | None]) -> None:
    """Add a field that is an object of its own for each row; None: the row doesn't have it."""
    present = [index for index, value in enumerate(objects) if value is not None]
    if present:
        indices = np.full(len(objects), ABSENT)
        indices[present] = np.arange(len(present))
        fields.text(TextPool.from_texts([fields_of({name: objects[index]}) for index in present]), indices)


def _class_texts(selection: Selection, models: Ints, names: Ints, stops: Ints, pool: TextPool) -> TextPool:
    """By model, its fields `labelled_by_class` and `prediction_psi`.

    `names`: which texts its classes have, one model behind the other; `stops`: by model, where they end.
    """
    ends, psi = np.zeros(len(models), dtype=np.int64), index_column(selection, models)
    if not len(models):
        return TextPool.from_texts([])
    sizes = np.diff(pool.ends, prepend=0)[names]
    around = len(_BY_CLASS) + len(_PSI) + LONGEST_NUMBER
    room = int(sizes.sum()) + (LONGEST_NUMBER + 1) * len(names) + around * len(models)
    out = np.empty(room, dtype=np.uint8)
    _write_classes(out, ends, selection, models, names, stops, pool, psi)
    return TextPool(out[: int(ends[-1])].copy(), ends)


@kernel
def _write_classes(
    out: Bytes, ends: Ints, selection: Selection, models: Ints, names: Ints, stops: Ints, pool: TextPool,
    psi: Floats,
) -> None:  # fmt: skip
    """Write the texts of `_class_texts`; `stops`: by model, where its classes end in `names`."""
    position = 0
    for i in range(len(models)):
        first = stops[i - 1] if i else 0
        start = np.int64(selection.models.block[models[i]])
        classes = min(stops[i] - first, np.int64(selection.models.capacity[models[i]]))
        position = put_bytes(out, position, _BY_CLASS, 0, len(_BY_CLASS))
        for code in range(classes):
            labelled = selection.classes.counts[start + code, 0]
            expired = selection.classes.counts[start + code, 1]
            if labelled + expired > 0:
                position = put_comma(out, 0, position)
                position = put_text(out, position, pool, names[first + code])
                position = put_float(out, position, labelled / (labelled + expired))
        position = put_bytes(out, position, _PSI, 0, len(_PSI))
        position = put_float(out, position, psi[i])
        ends[i] = position
