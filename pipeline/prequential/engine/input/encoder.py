"""A micro-batch's messages as rows: names become codes, and invalid records are found.

A new name is registered when its record's turn comes, so that codes are a function of the log. It is
registered only if the join takes the record; else strangers could fill the tables with names that a limit
refuses. Mostly it is certain that the join takes a record (see `engine.input.fields`). Where it
isn't, the record asks the join, and no name behind it is registered in this micro-batch. A record that asks
and would be taken stops the join, and begins the next micro-batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Entity, Stream, reads_probabilities, reads_propensities
from prequential.engine.compiled.kernel import Bytes, Ints
from prequential.engine.input import fields
from prequential.engine.input.fields import Admission, News
from prequential.engine.input.plain import PlainRecords
from prequential.engine.input.plain_rows import ClassHashes, PlainEncoder
from prequential.engine.input.record_scanner import STREAM
from prequential.engine.join.join import TOO_MANY_INSTANCES
from prequential.engine.measures.registry import OF_KIND, all_fields_read, numbers_read
from prequential.engine.tables.records import INSTANCE, PREDICTION, Rows, Unusable, new_rows
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
        read = all_fields_read(catalog.config)
        #: Most keys of segments that a stream has; and columns for numbers, up to the last that any may need.
        self.keys, self.numbers = 0, numbers_read(read).bit_length()
        #: Whether any stream may need probabilities, or propensities.
        every = catalog.config.defaults, *catalog.config.streams.values()
        self._scores = any(map(reads_probabilities, every))
        #: Whether any may need quantiles.
        self._quantiles = "quantiles" in read
        self._weights = any(map(reads_propensities, every))
        self._sets = any(config.has_sets for config in every)

    def know(self, stream: Stream) -> None:
        """Take over a stream of the catalog as it is: models, classes, settings."""
        self._streams[stream.name] = stream.code
        stream.unseen_keys -= {key for key, values in zip(stream.config.segments, stream.values) if values}
        self._models[stream.name] = dict(stream.models)
        self._classes[stream.name] = dict(stream.classes)
        self.keys = max(self.keys, len(stream.config.segments))

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
            learn = partial(self._learn, records, times, admission, StreamSizes(records))
            rows = self._plain.rows(records, times, kinds, self.keys, self.numbers, self._scores, learn)
            filled = len(rows.kind)
            if filled:
                return EncodedBatch(rows, np.arange(filled), [], filled)
            count = min(count, _NEW_AT_ONCE)
        records, times = list(records[:count]), times[:count]
        try:
            return EncodedBatch(self._rows_of_known(records, times), np.arange(count), [], count)
        except (KeyError, Unusable):
            return self._one_by_one(records, times, admission)

    def _rows_of_known(self, records: Sequence[Any], times: Ints) -> Rows:
        """All names are known; raises KeyError if not, Unusable if there is something that isn't usable."""
        texts = [record.instance_id.encode() for record in records]
        probabilities = [self.probabilities_of(record) for record in records]
        codes = self.codes_of(chain.from_iterable(probabilities))
        text = np.frombuffer(b"".join(texts), dtype=np.uint8)
        rows = new_rows(len(records), self.numbers, self.keys, text, len(codes))
        np.cumsum(np.array(list(map(len, texts)), dtype=np.int64), out=rows.starts[1:])
        np.cumsum(np.array(list(map(len, probabilities)), dtype=np.int64), out=rows.probabilities[1:])
        rows.names[:], rows.p[:] = codes, [p for shares in probabilities for p in shares.values()]
        for i, (record, time) in enumerate(zip(records, times.tolist())):
            self.write(rows, i, record, time)
        return rows

    # ---- one record

    def write(self, rows: Rows, i: int, record: Any, time: int) -> None:
        """Write a record into row `i`, but for its id and its probabilities.

        `time` is its record time, ms. Raises KeyError if it has names that aren't known, Unusable if it can't
        be used.
        """
        name, kind, columns = record.stream, record.KIND, self._catalog.columns
        code = self._streams[name]
        model = version = label = 0
        number = propensity = 0.0
        if kind == INSTANCE:
            version = record.version or 0
            propensity = (self._weights and record.label_propensity) or 0.0
        else:
            value, field = fields.target_of(record)
            if value is None:  # the label is withdrawn
                label = NO_CLASS
            elif columns.streams.regression[code]:
                number = fields.number_of(value, field)
            else:
                label = self._classes[name][self._class_name(name, value, field)]
        if kind == PREDICTION:
            model = self._models[name][record.model]
            if record.y_proba and columns.streams.correction[code] and not columns.entities.corrected[model]:
                raise KeyError(record.model)
            if record.model_version is not None:
                version = self._catalog.streams[code].version(str(record.model_version))
        rows.kind[i], rows.stream[i], rows.time[i] = kind, code, time
        rows.ts[i] = time if record.ts is None else record.ts
        rows.model[i], rows.version[i], rows.propensity[i] = model, version, propensity
        rows.label[i], rows.number[i] = label, number
        rows.classes[i] = columns.streams.class_count[code]
        if self.numbers:
            numbers = fields.numbers_of(record, int(columns.streams.reads[code] & OF_KIND[kind]))
            rows.numbers[i] = np.nan
            rows.numbers[i, : len(numbers)] = numbers
        if self.keys:
            rows.segments[i] = 0
            self._fill_segments(rows.segments[i], record, self._catalog.streams[code])

    def _class_name(self, stream: str, value: Any, field: str) -> str:
        """The name of the class that is the target of a known stream's record."""
        if self._sets:
            config = self._catalog.by_name[stream].config
            if config.has_sets:
                return fields.set_name(value, field, config.classes)
        return fields.class_name(value, field)

    def _fill_segments(self, segments: Any, record: Any, stream: Stream) -> None:
        """Write the positions of a record's segments by key, (keys,)."""
        values_by_key = getattr(record, "segments", None)
        if not values_by_key:
            return
        if stream.unseen_keys:
            stream.note_keys(values_by_key)
        for key, name in enumerate(stream.config.segments):
            if name in values_by_key:
                segments[key] = stream.position(key, values_by_key[name])

    def probabilities_of(self, record: Any) -> dict[str, float] | dict[int, float]:
        """A record's probabilities by class, or its quantiles by level, if any stream has use for them.

        Raises KeyError for a stream that isn't known, Unusable for invalid quantiles.
        """
        if (
            self._quantiles
            and record.KIND == PREDICTION
            and self._catalog.columns.streams.quantiles[self._streams[record.stream]]
        ):
            return fields.quantiles_of(record)
        return (self._scores and getattr(record, "y_proba", None)) or {}

    def codes_of(self, classes: Iterable[str | int]) -> list[int]:
        """The hashes of classes; levels are codes already."""
        if not self._quantiles:
            return self.class_hashes.hashes(classes)  # type: ignore[arg-type]
        return [
            name_or_level if isinstance(name_or_level, int) else self.class_hashes.hashes((name_or_level,))[0]
            for name_or_level in classes
        ]

    # ---- with names that are new

    def _learn(
        self, records: PlainRecords, times: Ints, admission: Admission | None, sizes: StreamSizes, row: int
    ) -> bool:
        """Register what is new of a record as columns, if that changes nothing for those before it."""
        record = records[row]
        stream = fields.stream_of(self._catalog, record)
        try:
            news = fields.news_of(self._catalog, stream, record)
        except Unusable:
            return False
        if news is None or len(stream.config.segments) > self.keys:
            return False
        if not _is_sure(admission, record, stream, row, sizes.of_row(row)):
            return False
        self._register(record, news, int(times[row]))
        return True

    def _one_by_one(self, records: Sequence[Any], times: Ints, admission: Admission | None) -> EncodedBatch:
        """Register what is new, in the order of the records; those that can't be used are left out."""
        catalog, limits = self._catalog, self._catalog.config.limits
        kept: list[int] = []
        kept_of_stream: Counter[str] = Counter()
        unused: list[Unused] = []
        classes: list[int] = []
        asking: list[int] = []
        stop = len(records)
        for position, record in enumerate(records):
            row = len(kept)
            stream = fields.stream_of(self._catalog, record)
            try:
                news = fields.news_of(self._catalog, stream, record)
            except Unusable as reason:
                unused.append(Unused(position, str(reason)))
                continue
            if news is not None:
                of_stream = kept_of_stream[stream.name]
                sure = not asking and _is_sure(admission, record, stream, row, of_stream)
                slack = 0 if asking else _slack(admission, record, stream, row)
                if row and (news.retires if sure else news.stream or slack):
                    # The rows before it need what it takes away; or it isn't sure because of them.
                    stop = position
                    break
                if not sure and news.stream:  # no time passes in it that could make room
                    unused.append(Unused(position, fields.reason_of(TOO_MANY_INSTANCES, record, limits)))
                    continue
                if sure:
                    self._register(record, news, int(times[position]))
                else:
                    asking.append(row)
            kept.append(position)
            kept_of_stream[stream.name] += 1
            classes.append(len(catalog.by_name[record.stream].class_names))
        places = np.array(kept, dtype=np.int64)
        rows = self._with_asking([records[i] for i in kept], times[places], asking)
        rows.classes[:] = classes
        return EncodedBatch(rows, places, unused, stop)

    def _with_asking(self, records: list[Any], times: Ints, asking: list[int]) -> Rows:
        """Rows of records; of those that ask there is what the join decides by, and no name that is new."""
        asked = [records[row] for row in asking]
        for row, record in zip(asking, asked):
            records[row] = Instance(record.stream, record.instance_id, record.ts)
        rows = self._rows_of_known(records, times)
        rows.asks[asking] = 1
        for row, record in zip(asking, asked):
            rows.kind[row] = record.KIND
            if record.KIND == PREDICTION:
                rows.model[row] = self._models[record.stream].get(record.model, 0)
                if self._catalog.columns.streams.regression[rows.stream[row]]:
                    rows.number[row] = fields.number_of(record.y_pred, "y_pred")
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
            versions = stream.families[fields.family_of(record)]
            for oldest in versions[: max(1, len(versions) + 1 - catalog.config.limits.versions_per_model)]:
                self._retire(stream, oldest)
        if news.model:
            self._models[name][record.model] = catalog.add_model(stream, record.model, time)
            if stream.config.versions == "separate" and record.model_version is not None:
                stream.families.setdefault(fields.family_of(record), []).append(record.model)
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


class StreamSizes:
    """How many records of a batch each stream has; they are counted when that is asked for the first time."""

    def __init__(self, records: PlainRecords) -> None:
        self._names, self._places = records.plain.columns.names, records.places
        self._counts: Ints | None = None

    def of_row(self, row: int) -> int:
        """The number of records that the stream of a row has in the batch."""
        if self._counts is None:
            self._counts = np.bincount(self._names[self._places, STREAM])
        return int(self._counts[self._names[self._places[row], STREAM]])


def _is_sure(admission: Admission | None, record: Any, stream: Stream, row: int, of_stream: int) -> bool:
    return admission is None or admission.is_sure(record, stream.code, row, of_stream)


def _slack(admission: Admission | None, record: Any, stream: Stream, row: int) -> int:
    return row + 1 if admission is None else admission.slack(record, stream.code, row)
