"""Messages about an entity's sequences (`docs/reference/output-messages.md`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.stages import FINAL, INITIAL, parts
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.compiled.kernel import Ints
from prequential.engine.delay import selection
from prequential.engine.delay.accounts import Accounts
from prequential.engine.delay.latest_estimates import LatestEstimates, Waiting
from prequential.engine.details.notes import Notes
from prequential.engine.estimators.residuals import DETAIL as RESIDUALS
from prequential.engine.estimators.score_histogram import SCORES
from prequential.engine.measures.declaration import REASONS
from prequential.engine.measures.registry import INDEX, NAMES
from prequential.engine.output import estimates
from prequential.engine.output.counts import CountColumns, counts_of, texts_of
from prequential.engine.output.coverage_texts import ClassNames, CoveredModels, coverage_texts
from prequential.engine.output.detail_texts import DetailedLine, DetailTexts
from prequential.engine.output.estimates import Estimates, LineColumns, MessageSubject
from prequential.engine.output.fields import TextPool
from prequential.engine.output.pending_estimates import all_waiting
from prequential.engine.output.stream_columns import StreamColumns
from prequential.engine.output.texts import Writer, vocabulary
from prequential.engine.output.unwritten import (
    COVERAGE,
    DETAILS,
    STARTED_EMPTY,
    VERSION,
    MessageColumn,
    MetricsReading,
    Unwritten,
    UnwrittenMessages,
    column_by_owner,
    draft_of,
)
from prequential.engine.tables.streams import AGE, MODEL
from prequential.topics.encoding import fields_of
from prequential.topics.outputs import Encoded
from prequential.topics.specs import METRICS

#: Parts of an estimator that a new configuration may add: all of it, its histogram of scores, its residuals.
_BEGUN = ("estimator", SCORES, RESIDUALS)

_STARTED_EMPTY = TextPool.from_texts([b'"started_empty":true'])


class Estimate(NamedTuple):
    """One estimator in one stage of an entity: its state, and details."""

    entity: Entity
    model: str  # … or of random predictions with the model's distribution
    stage: str
    estimator: str
    state: estimates.EstimatorState
    details: dict[str, Any]
    same: list[str]  # stages that are the same up to now


class Reporter:
    """Makes the messages about a catalog's streams and entities."""

    def __init__(
        self, catalog: Catalog, accounts: Accounts, notes: Notes, cluster_of: Callable[[int], int],
        latest: LatestEstimates | None = None,
    ) -> None:  # fmt: skip
        """`latest` has the estimates of pending predictions; messages with `coverage` need it."""
        self._catalog, self._accounts, self._notes = catalog, accounts, notes
        #: The values of estimators in its messages.
        self.of_estimators = Estimates(catalog)
        self._latest = latest or LatestEstimates()
        self._writer = writer = Writer(METRICS, vocabulary(NAMES, REASONS))
        # Without a reference to the reporter, which would then have one to itself.
        self._streams = StreamColumns(
            catalog.streams, lambda config: writer.columns(tuple(INDEX[name] for name in config.measures))
        )
        self._class_names = ClassNames()
        self._details = DetailTexts(catalog, notes, cluster_of, self._class_names)
        self._unwritten: UnwrittenMessages[MetricsReading] = UnwrittenMessages()

    def forget(self, row: int) -> None:
        """Drop the data about an entity's messages."""
        self.of_estimators.forget(row)

    # ---- metrics

    def metrics(self, rows: Sequence[int], *, covered: bool = False) -> Sequence[Encoded]:
        """The messages about entities in their present state, in the order of the rows.

        `covered`: all records so far are accounted for, so messages have the field `coverage`, and ids that
        name the moment.
        """
        if not len(rows):
            return []
        unwritten = self.read(rows, covered=covered)
        self.write()
        return unwritten.encoded()

    def read(self, rows: Sequence[int], *, covered: bool = False) -> Unwritten:
        """Read what messages about entities say in their present state; `write` writes them."""
        catalog, entities = self._catalog, self._catalog.columns.entities
        subjects, shapes = self.of_estimators.messages(rows)
        owners, lines = self.of_estimators.shapes.lines(shapes)
        states = self.of_estimators.states(rows)
        values = states.rows
        value_rows = states.first[owners] + lines.block * states.step[owners] + lines.position
        combined = np.flatnonzero(lines.position < 0).tolist()
        if combined:
            values, beyond = self.of_estimators.with_intermediate(rows, states)
            for message in combined:
                value_rows[message] = beyond[int(owners[message]), int(lines.block[message])]
        codes, settings = entities.stream[rows], self._streams.settings
        reading = MetricsReading(
            list(map(self._streams.names.__getitem__, codes.tolist())), subjects,
            self._numbers(rows, covered=covered), entities.outcomes[rows].astype(np.int64),
            estimates.times_of(catalog, rows), settings.measures[codes], owners, lines, value_rows, values,
            counts_of(catalog, self._accounts, rows),
            self._further_texts(rows, owners, lines, covered=covered),
        )  # fmt: skip
        counts = np.bincount(owners, minlength=len(rows)).tolist()
        unwritten = self._unwritten.add(reading, reading.streams, counts)
        if self._unwritten.are_many:
            self.write()
        return unwritten

    def write(self) -> None:
        """Write the messages that were read and aren't written yet."""
        if readings := self._unwritten.readings:
            draft, values = draft_of(readings, self._texts_of_counts, self.of_estimators.shapes.same)
            self._unwritten.take(self._writer.write_together(draft, values))

    def _texts_of_counts(self, counts: CountColumns) -> TextPool:
        """By row of counts, the fields `counts` and `config`."""
        digests = self._streams.settings.digest[counts.streams]
        return texts_of(self._catalog, counts, self._streams.digests, digests)

    def _numbers(self, rows: Sequence[int], *, covered: bool) -> list[bytes]:
        """By entity, the end of its messages' ids: it names the state that they are about."""
        catalog, entities = self._catalog, self._catalog.columns.entities
        moments = [b""] * len(rows)
        if covered:
            moments = [b",[%d]" % since for since in estimates.changes_since(catalog, rows).tolist()]
        ending = b"".join(b",%d" % loss for loss in catalog.loss) + b"]"
        columns = entities.outcomes[rows].tolist(), entities.revisions[rows].tolist(), moments
        return [b",%d,%d%b%b" % (*numbers, ending) for numbers in zip(*columns)]

    def _further_texts(
        self,
        rows: Sequence[int],
        owners: Ints,
        lines: LineColumns,
        *,
        covered: bool,
    ) -> dict[int, MessageColumn]:
        """The fields that few messages have, by their places among all fields.

        `owners`: by message, the index of its entity among `rows`.
        """
        columns: dict[int, MessageColumn] = {}
        with_version = np.flatnonzero(self._catalog.columns.entities.version[rows])
        if len(with_version):
            versions = [self._version(rows[index]) for index in with_version.tolist()]
            columns[VERSION] = column_by_owner(
                TextPool.from_texts(versions), with_version, owners, lines.chance == 0
            )
        if self._notes.started_empty:
            columns[STARTED_EMPTY] = MessageColumn(_STARTED_EMPTY, self._started_empty(rows, owners))
        if covered:
            indices, models = self.covered(rows)
            if len(models):
                is_first = np.diff(owners, prepend=-1) > 0
                columns[COVERAGE] = column_by_owner(self._coverages(models), indices, owners, is_first)
        codes = self._catalog.columns.entities.stream[rows]
        if self._streams.settings.details[codes].any():
            columns[DETAILS] = MessageColumn(*self._details_of(rows, owners))
        return columns

    def _version(self, row: int) -> bytes:
        """The fields about the version of the model's newest labelled prediction."""
        entities = self._catalog.columns.entities
        stream = self._catalog.streams[int(entities.stream[row])]
        name, since = stream.version_name(int(entities.version[row])), int(entities.version_since[row])
        return fields_of({"model_version": name, "version_since": since})

    def _started_empty(self, rows: Sequence[int], owners: Ints) -> Ints:
        """By message, 0 if a new configuration brought its sequence or its estimator; otherwise -1."""
        began = np.full(len(owners), -1, dtype=np.int64)
        notes = self._notes.started_empty
        for index, row in enumerate(rows) if notes else ():
            if row not in notes:
                continue
            entity = self._catalog.entity(row)
            stream = self._catalog.streams[entity.stream]
            first = int(owners.searchsorted(index))
            for place, line in enumerate(self.of_estimators.lines(row, entity, stream).all):
                if self._began_later(notes[row], row, line, stream):
                    began[first + place] = 0
        return began

    def _details_of(self, rows: Sequence[int], owners: Ints) -> tuple[TextPool, Ints]:
        """Texts of details, and by message which one it has; -1: none."""
        lines: list[DetailedLine] = []
        messages: list[int] = []
        codes = self._catalog.columns.entities.stream[rows]
        for index in np.flatnonzero(self._streams.settings.details[codes]).tolist():
            stream, entity = self._catalog.streams[int(codes[index])], self._catalog.entity(rows[index])
            subjects = self.of_estimators.lines(rows[index], entity, stream).all
            lines += [DetailedLine(rows[index], stream, subject) for subject in subjects]
            first = int(owners.searchsorted(index))
            messages += range(first, first + len(subjects))
        indices = np.full(len(owners), -1, dtype=np.int64)
        texts, indices[messages] = self._details.texts(lines)
        return texts, indices

    def estimates(
        self, rows: Sequence[int], shown: Callable[[MessageSubject, StreamConfig], bool] = lambda *_: True
    ) -> Iterator[Estimate]:
        """The present estimates of these entities, as in their messages; no state changes.

        There is one for each line (model, stage, estimator) for which `shown` is true.
        """
        states, lines, indices = self.of_estimators.states(rows), list[DetailedLine](), list[int]()
        for index, row in enumerate(rows):
            entity = self._catalog.entity(row)
            stream = self._catalog.streams[entity.stream]
            for line in self.of_estimators.lines(row, entity, stream).all:
                if shown(line, stream.config):
                    lines.append(DetailedLine(row, stream, line))
                    indices.append(index)
        detailed = self._details.objects(lines)
        for (row, stream, line), index, details in zip(lines, indices, detailed):
            state = estimates.state_of(states, index, line, stream.config.alpha)
            entity = self._catalog.entity(row)
            yield Estimate(entity, line.model, line.stage, line.estimator, state, details, line.same)

    def _began_later(self, kept: list[str], row: int, line: MessageSubject, stream: Stream) -> bool:
        """Whether a new configuration brought it, so that it hasn't seen the whole sequence."""
        initial_is_final = self._catalog.columns.entities.initial_is_final[row]
        stages = (
            FINAL if initial_is_final and stage == INITIAL else stage
            for stage in parts(line.stage, stream.bins)
        )
        return any(
            note in kept
            for stage in stages
            for note in (f"stage {stage}", *(f"{stage} {kind} {line.estimator}" for kind in _BEGUN))
        )

    def clocks_of(self, models: Ints) -> Ints:
        """The clock of the stream of each of these models (rows), as an array of shape (n,) of epoch ms."""
        columns = self._catalog.columns
        return columns.streams.clock[columns.entities.stream[models]].astype(np.int64)

    def _coverages(self, models: Ints) -> TextPool:
        """By model (row), the field `coverage`."""
        catalog = self._catalog
        clocks = self.clocks_of(models)
        codes = catalog.columns.entities.stream[models].astype(np.int64)
        latest = self._latest.waiting
        waiting = [latest[row].as_message() if row in latest else None for row in models.tolist()]
        settings = self._streams.settings
        by_segment: list[dict[str, float] | None] = [None] * len(models)
        for index in np.flatnonzero(settings.segments[codes]).tolist():
            by_segment[index] = self.segment_psi(catalog.streams[int(codes[index])], int(models[index]))
        covered_models = CoveredModels(models, codes, clocks, waiting, by_segment, settings.classes[codes])
        return coverage_texts(catalog, self._accounts, self._class_names, covered_models)

    def of_waiting(self, models: Ints, clocks: Ints) -> list[Waiting | None]:
        """Present estimates of models' pending predictions, (m,)."""
        return all_waiting(self._accounts.expected, models, clocks)

    def covered(self, rows: Sequence[int]) -> tuple[Ints, Ints]:
        """The first of these entities for each model whose messages have `coverage`.

        Returns their indices among `rows`, and the rows of their models.
        """
        entities, settings = self._catalog.columns.entities, self._streams.settings
        kinds, codes = entities.kind[rows], entities.stream[rows]
        has_coverage = (kinds == AGE) | ((kinds == MODEL) & settings.evaluated[codes])
        indices = np.flatnonzero(has_coverage & settings.coverage[codes])
        models = entities.model[rows][indices].astype(np.int64)
        _, first = np.unique(models, return_index=True)
        first.sort()
        return indices[first], models[first]

    def segment_psi(self, stream: Stream, model: int) -> dict[str, float]:
        """By key of segments, the stability index of a model's labelled predictions against the unlabelled.

        Keys without one are left out; see `engine.delay.selection.stability_index`.
        """
        start = int(self._catalog.columns.entities.segments[model])
        slots = stream.config.segments_per_key + 1
        by_name = {}
        for key, name in enumerate(stream.config.segments):
            rows = slice(start + key * slots, start + (key + 1) * slots)
            index = selection.segment_index(self._accounts.selection, rows)
            if index is not None:
                by_name[name] = index
        return by_name
