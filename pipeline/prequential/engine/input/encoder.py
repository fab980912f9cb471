"""A micro-batch's messages as rows: names become codes, and invalid records are found.

A new name is registered when its record's turn comes, so that codes are a function of the log. It is
registered only if the join takes the record; else strangers could fill the tables with names that a limit
refuses. Mostly it is certain that the join takes a record (see `engine.input.fields`). Where it
isn't, the record asks the join, and no name behind it is registered in this micro-batch. A record that asks
and would be taken stops the join, and begins the next micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Entity, Stream, reads_probabilities, reads_propensities
from prequential.engine.compiled.kernel import Bytes, Ints
from prequential.engine.input.fields import (
    Admission,
    News,
    class_name,
    family_of,
    news_of,
    number_of,
    numbers_of,
    quantiles_of,
    reason_of,
    set_name,
    stream_of,
)
from prequential.engine.input.plain import PlainRecords
from prequential.engine.input.plain_rows import ClassHashes, PlainEncoder
from prequential.engine.join.join import TOO_MANY_INSTANCES
from prequential.engine.measures.registry import OF_KIND, all_fields_read, numbers_read
from prequential.engine.tables.records import INSTANCE, LABEL, PREDICTION, Rows, Unusable
from prequential.engine.tables.store import NO_CLASS
from prequential.engine.tables.streams import OTHER_FORM
from prequential.topics.messages import Instance

#: From a record with a new name on, this many are encoded one by one: other new names follow, as a rule.
_NEW_AT_ONCE = 1_000

#: In place of the class of a prediction that asks with a new one: it repeats no other.
_NO_LABEL = -1


class Unused(NamedTuple):
    """A record that can't be used."""

    position: int
    reason: str


class EncodedBatch(NamedTuple):
    """Rows, which of the given records they are of, and which of these can't be used."""

    rows: Rows
    positions: Ints  # of each row among the records that were given
    unused: list[Unused]
    stop: int  # how many of these records it has; the next one has to begin a micro-batch


class Encoder:
    """Makes rows of messages: names become the catalog's codes, and invalid records are found."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._streams: dict[str, int] = {}
        #: By the stream's name.
        self._models: dict[str, dict[str, int]] = {}
        self._classes: dict[str, dict[str, int]] = {}
        self.class_hashes = ClassHashes()
        self._plain = PlainEncoder(catalog, self._streams, self._models, self._classes, self.class_hashes)
        #: Entities that were taken out of the catalog since this was last emptied.
        self.retired: list[Entity] = []
        fields = all_fields_read(catalog.config)
        #: Most keys of segments that a stream has; and columns for numbers, up to the last that any may need.
        self.keys, self.numbers = 0, numbers_read(fields).bit_length()
        #: Whether any stream may need probabilities, propensities; and whether any has numbers.
        every = catalog.config.defaults, *catalog.config.streams.values()
        self._scores = any(map(reads_probabilities, every))
        #: Whether any may need quantiles.
        self._quantiles = "quantiles" in fields
        self._weights, self._numbers = any(map(reads_propensities, every)), False
        self._sets = any(config.has_sets for config in every)

    def know(self, stream: Stream) -> None:
        """Take over a stream of the catalog as it is: models, classes, settings."""
        self._streams[stream.name] = stream.code
        stream.unseen_keys -= {key for key, values in zip(stream.config.segments, stream.values) if values}
        self._models[stream.name] = dict(stream.models)
        self._classes[stream.name] = dict(stream.classes)
        s = self._catalog.columns.streams
        self.keys = max(self.keys, len(stream.config.segments))
        self._numbers |= bool(s.regression[stream.code])

    # ---- a micro-batch

    def encode(
        self, records: Sequence[Any], times: Ints, kinds: Bytes, admission: Admission | None = None
    ) -> EncodedBatch:
        """Rows of decoded messages, in the order of processing; names that are new are registered on the way.

        Parameters
        ----------
        records
            Decoded messages, or records as columns (`PlainRecords`), all of them valid.
        times, kinds
            (n,) record times, ms, and kinds, of `engine.tables.records`.
        admission
            What limits leave; without it none is near.

        Returns
        -------
        Micro-batch
            Rows of the first `stop` records, and those of them that can't be used, with reasons.
        """
        count = len(records)
        if isinstance(records, PlainRecords):
            learn = partial(self._learn, records, times, admission)
            rows = self._plain.rows(records, times, kinds, self.keys, self.numbers, self._scores, learn)
            known = len(rows.kind)
            if known:
                return EncodedBatch(rows, np.arange(known), [], known)
            count = min(count, _NEW_AT_ONCE)
        records, times, kinds = list(records[:count]), times[:count], kinds[:count]
        try:
            return EncodedBatch(self._known(records, times, kinds), np.arange(count), [], count)
        except (KeyError, Unusable):
            return self._one_by_one(records, times, kinds, admission)

    def _known(self, records: Sequence[Any], times: Ints, kinds: Any) -> Rows:
        """All names are known; raises KeyError if not, Unusable if there is something that isn't usable."""
        count = len(records)
        streams = np.fromiter(
            map(self._streams.__getitem__, [record.stream for record in records]), np.int32, count
        )
        model, label = np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.int32)
        number = np.zeros(count)
        at = np.flatnonzero(kinds == PREDICTION)
        predictions = list(map(records.__getitem__, at.tolist()))
        names = [record.stream for record in predictions]
        models = self._models
        model[at] = [models[name][record.model] for name, record in zip(names, predictions)]
        self._targets(label, number, at, names, [record.y_pred for record in predictions], streams, "y_pred")
        if self._catalog.columns.streams.correction.any():
            self._check_corrections(predictions, model[at])
        at_labels = np.flatnonzero(kinds == LABEL)
        labels = list(map(records.__getitem__, at_labels.tolist()))
        names = [record.stream for record in labels]
        values = [record.y_true for record in labels]
        self._targets(label, number, at_labels, names, values, streams, "y_true")
        return self._rows(records, times, kinds, streams, model, label, number, at, predictions)

    def _targets(
        self, label: Any, number: Any, at: Any, names: list[str], values: list[Any], streams: Any, field: str
    ) -> None:
        """Fill in the targets of predictions or labels: class codes, or the numbers of regression.

        None withdraws a label.
        """
        classes = self._classes
        if not self._numbers and not self._sets:
            label[at] = [
                classes[name][value if type(value) is str else class_name(value, field)]
                if value is not None else NO_CLASS
                for name, value in zip(names, values)
            ]  # fmt: skip
            return
        numbers = self._catalog.columns.streams.regression[streams[at]].tolist()
        for i, name, value, is_number in zip(at.tolist(), names, values, numbers):
            if value is None:
                label[i] = NO_CLASS
            elif is_number:
                number[i] = number_of(value, field)
            else:
                label[i] = classes[name][self._class_name(name, value, field)]

    def _class_name(self, stream: str, value: Any, field: str) -> str:
        """The name of the class that is the target of a known stream's record."""
        if self._sets and self._catalog.by_name[stream].config.has_sets:
            return set_name(value, field)
        return class_name(value, field)

    def _check_corrections(self, predictions: list[Any], models: Any) -> None:
        """A model that has given probabilities has a correction, if it is wanted."""
        registry = self._catalog.columns
        for record, model in zip(predictions, models.tolist()):
            if (
                record.y_proba
                and not registry.entities.corrected[model]
                and registry.streams.correction[registry.entities.stream[model]]
            ):
                raise KeyError(model)

    def _rows(
        self, records: Sequence[Any], times: Ints, kinds: Any, streams: Any, model: Any, label: Any,
        number: Any, at: Any, predictions: list[Any],
    ) -> Rows:  # fmt: skip
        count = len(records)
        ids = [record.instance_id for record in records]
        joined = "".join(ids)
        if joined.isascii():
            text, sizes = joined.encode(), list(map(len, ids))
        else:
            encoded = [one.encode() for one in ids]
            text, sizes = b"".join(encoded), list(map(len, encoded))
        starts = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(np.array(sizes, dtype=np.int64), out=starts[1:])
        ts = [record.ts for record in records]
        try:
            event_times = np.array(ts, dtype=np.int64)
        except TypeError:  # a record without a time of its own has its record's
            event_times = np.array([time if one is None else one for one, time in zip(ts, times.tolist())])
        instances = np.flatnonzero(kinds == INSTANCE).tolist()
        version = np.zeros(count, dtype=np.int64)
        versions = [records[i].version for i in instances]
        if any(versions):
            version[instances] = [one or 0 for one in versions]
        told = [record.model_version for record in predictions]
        if any(one is not None for one in told):
            by_code = self._catalog.streams
            for i, code, name in zip(at.tolist(), streams[at].tolist(), told):
                if name is not None:
                    version[i] = by_code[code].version(str(name))
        propensity = np.zeros(count)
        if self._weights and instances:
            propensity[instances] = [records[i].label_propensity or 0.0 for i in instances]
        starts_of_p = np.zeros(count + 1, dtype=np.int64)
        names: Any = np.zeros(0, dtype=np.uint64)
        p: Any = np.zeros(0)
        if self._scores or self._quantiles:
            given = list(map(self.probabilities_of, predictions))
            if any(given):
                starts_of_p[at + 1] = list(map(len, given))
                np.cumsum(starts_of_p, out=starts_of_p)
                names = np.array(self.codes_of(chain.from_iterable(given)), dtype=np.uint64)
                p = np.array(list(chain.from_iterable(one.values() for one in given)), dtype=np.float64)
        numbers = np.full((count, self.numbers), np.nan)
        if self.numbers:
            reads = self._catalog.columns.streams.reads[streams] & OF_KIND[kinds]
            for i in np.flatnonzero(reads).tolist():
                wanted = int(reads[i])
                numbers[i, : wanted.bit_length()] = numbers_of(records[i], wanted)
        segments = np.zeros((count, self.keys), dtype=np.uint16)
        if self.keys:
            self._fill_segments(segments, records, streams.tolist())
        return Rows(
            kinds, streams, event_times, times, np.frombuffer(text, dtype=np.uint8), starts, model, label,
            number, version, propensity, numbers, segments, starts_of_p, names, p,
            self._catalog.columns.streams.class_count[streams],
            np.zeros(count, dtype=np.uint8), np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.uint8),
        )  # fmt: skip

    def _fill_segments(self, segments: Any, records: Sequence[Any], streams: list[int]) -> None:
        by_code = self._catalog.streams
        for i, (record, code) in enumerate(zip(records, streams)):
            given = getattr(record, "segments", None)
            if given:
                stream = by_code[code]
                if stream.unseen_keys:
                    stream.note_keys(given)
                for key, name in enumerate(stream.config.segments):
                    if name in given:
                        segments[i, key] = stream.position(key, given[name])

    # ---- one record

    def write(self, rows: Rows, i: int, record: Any, time: int) -> None:
        """Write a prediction or a label into row `i`, but for its id and its probabilities.

        `time` is its record time, ms. Raises KeyError if it has names that aren't known, Unusable if it can't
        be used.
        """
        name, kind, columns = record.stream, record.KIND, self._catalog.columns
        code = self._streams[name]
        value, field = (record.y_pred, "y_pred") if kind == PREDICTION else (record.y_true, "y_true")
        if value is None:
            rows.label[i], rows.number[i] = NO_CLASS, 0.0
        elif self._numbers and columns.streams.regression[code]:
            rows.number[i], rows.label[i] = number_of(value, field), 0
        else:
            target = self._class_name(name, value, field)
            rows.label[i], rows.number[i] = self._classes[name][target], 0.0
        wanted = int(columns.streams.reads[code] & OF_KIND[kind])
        numbers = numbers_of(record, wanted)
        model = version = 0
        if kind == PREDICTION:
            model = self._models[name][record.model]
            if record.y_proba and columns.streams.correction[code] and not columns.entities.corrected[model]:
                raise KeyError(record.model)
            if record.model_version is not None:
                version = self._catalog.streams[code].version(str(record.model_version))
        rows.kind[i], rows.stream[i], rows.time[i] = kind, code, time
        rows.ts[i] = time if record.ts is None else record.ts
        rows.model[i], rows.version[i] = model, version
        rows.classes[i] = columns.streams.class_count[code]
        if self.numbers:
            rows.numbers[i] = np.nan
            rows.numbers[i, : len(numbers)] = numbers
        if self.keys:
            rows.segments[i] = 0
            self._fill_segments(rows.segments[i : i + 1], [record], [code])

    def probabilities_of(self, record: Any) -> dict[str, float] | dict[int, float]:
        """A record's probabilities by class, or its quantiles by level, if any stream has use for them.

        Raises KeyError for a stream that isn't known, Unusable for invalid quantiles.
        """
        if (
            self._quantiles
            and record.KIND == PREDICTION
            and self._catalog.columns.streams.quantiles[self._streams[record.stream]]
        ):
            return quantiles_of(record)
        return (self._scores and getattr(record, "y_proba", None)) or {}

    def codes_of(self, given: Iterable[str | int]) -> list[int]:
        """The hashes of classes; levels are codes already."""
        if not self._quantiles:
            return self.class_hashes.of(given)  # type: ignore[arg-type]
        return [one if isinstance(one, int) else self.class_hashes.of((one,))[0] for one in given]

    # ---- with names that are new

    def _learn(self, records: Sequence[Any], times: Ints, admission: Admission | None, row: int) -> bool:
        """Register what is new of a record as columns, if that changes nothing for those before it."""
        record = records[row]
        stream = stream_of(self._catalog, record)
        try:
            news = news_of(self._catalog, stream, record)
        except Unusable:
            return False
        if news is None or len(stream.config.segments) > self.keys:
            return False
        if row >= _slack(admission, record, stream, row):
            return False
        self._register(record, news, int(times[row]))
        return True

    def _one_by_one(
        self, records: Sequence[Any], times: Ints, kinds: Any, admission: Admission | None
    ) -> EncodedBatch:
        """Register what is new, in the order of the records; those that can't be used are left out."""
        catalog, limits = self._catalog, self._catalog.config.limits
        kept: list[int] = []
        unused: list[Unused] = []
        classes: list[int] = []
        asking: list[int] = []
        stop = len(records)
        for position, record in enumerate(records):
            row = len(kept)
            stream = stream_of(self._catalog, record)
            try:
                news = news_of(self._catalog, stream, record)
            except Unusable as reason:
                unused.append(Unused(position, str(reason)))
                continue
            if news is not None:
                slack = 0 if asking else _slack(admission, record, stream, row)
                sure = row < slack
                if row and (news.retires if sure else news.stream or slack):
                    # The rows before it need what it takes away; or it isn't sure because of them.
                    stop = position
                    break
                if not sure and news.stream:  # no time passes in it that could make room
                    unused.append(Unused(position, reason_of(TOO_MANY_INSTANCES, record, limits)))
                    continue
                if sure:
                    self._register(record, news, int(times[position]))
                else:
                    asking.append(row)
            kept.append(position)
            classes.append(len(catalog.by_name[record.stream].class_names))
        places = np.array(kept, dtype=np.int64)
        rows = self._with_asking([records[i] for i in kept], times[places], kinds[places], asking)
        rows.classes[:] = classes
        return EncodedBatch(rows, places, unused, stop)

    def _with_asking(self, records: list[Any], times: Ints, kinds: Any, asking: list[int]) -> Rows:
        """Rows of records; of those that ask there is what the join decides by, and no name that is new."""
        asked = [records[row] for row in asking]
        of_kind = kinds[asking]
        for row, record in zip(asking, asked):
            records[row] = Instance(record.stream, record.instance_id, record.ts)
        kinds[asking] = INSTANCE
        rows = self._known(records, times, kinds)
        kinds[asking] = of_kind
        rows.asks[asking] = 1
        for row, record in zip(asking, asked):
            if record.KIND == PREDICTION:
                rows.model[row] = self._models[record.stream].get(record.model, 0)
                if self._catalog.columns.streams.regression[rows.stream[row]]:
                    rows.number[row] = number_of(record.y_pred, "y_pred")
                else:
                    target = self._class_name(record.stream, record.y_pred, "y_pred")
                    rows.label[row] = self._classes[record.stream].get(target, _NO_LABEL)
        return rows

    def _register(self, record: Any, news: News, time: int) -> None:
        """Register the new names of a record that is taken; `time` is its record time, ms."""
        catalog, name = self._catalog, record.stream
        if news.stream:
            self.know(catalog.add_stream(name))
        stream = catalog.by_name[name]
        if news.retires:
            versions = stream.families[family_of(record)]
            for oldest in versions[: max(1, len(versions) + 1 - catalog.config.limits.versions_per_model)]:
                self._retire(stream, oldest)
        if news.model:
            self._models[name][record.model] = catalog.add_model(stream, record.model, time)
            if stream.config.versions == "separate" and record.model_version is not None:
                stream.families.setdefault(family_of(record), []).append(record.model)
        if news.correction:
            catalog.add_correction(stream, stream.models[record.model])
        if news.target is not None:
            code = catalog.add_class(stream, news.target)
            for form in (news.target, OTHER_FORM.get(news.target, news.target)):
                self._classes[name][form] = code
        if news.version is not None:
            stream.add_version(news.version)
            catalog.registry.streams.versions[stream.code] = 1
        for key, value in news.values:
            stream.add_value(key, value, time)

    def _retire(self, stream: Stream, name: str) -> None:
        """Stop evaluating a version, even if predictions of it are still pending."""
        self._plain.forget()
        del self._models[stream.name][name]
        self.retired += self._catalog.remove_model(stream, name)
        stream.retired[name] = None


def _slack(admission: Admission | None, record: Any, stream: Stream, row: int) -> int:
    return row + 1 if admission is None else admission.slack(record, stream.code, row)
