"""The join for many records at once: what is usual by columns, the rest record by record.

`prequential.core.join` says what the join is. Here the same comes about for a whole round: the records of
*usual* instances (new or waiting, at most one prediction of each model, a label in time after them)
don't depend on each other except through what labels do to the baselines, so each step is done for all
of them with numpy. Every other instance is *odd*: its records go through `Join` at their places, and
between them the usual ones go in segments. What comes out is bit for bit the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.core import columns as slot_states
from prequential.core.arrays import Ints, Packed
from prequential.core.classes import class_name
from prequential.core.columns import FAR, NONE, NOWHERE, Columns
from prequential.core.errors import Unusable
from prequential.core.join import Join
from prequential.core.model import Model
from prequential.core.outcomes import H_MASK, H_SHIFT
from prequential.core.remembering import CLOCK_TOLERANCE, WAITING, Entry

#: Records of a stream from which numpy's cost per call is worth while.
BULK = 64

#: One odd record in so many, or so many records in a segment: with more, or fewer, record by record
#: is faster.
_ODD_SHARE = 8
_SEGMENT = 32

Bools = npt.NDArray[np.bool_]

class Part(NamedTuple):
    """The messages of one kind, each with its time, its position among all, and its place in the round."""

    records: list[Any]
    times: Ints
    positions: Ints
    places: Ints


#: Instances, predictions, labels.
Parts = tuple[Part, ...]


class Rejected(NamedTuple):
    """A record that can't be used."""

    place: int
    reason: str


class _Rows(NamedTuple):
    """Usual or odd: records of one kind in columns."""

    slots: Ints
    ts: Ints
    positions: Ints

    def between(self, start: int, stop: int) -> slice:
        """The records from one position to another."""
        first, last = self.positions.searchsorted((start, stop)).tolist()
        return slice(first, last)


class BulkJoin(Join):
    """A join that takes rounds."""

    def process(self, parts: Parts) -> list[Rejected]:
        """Process a round's records of this stream; positions are 0, 1, … over all parts."""
        rejected: list[Rejected] = []
        if self._goes_by_record(parts[1]):
            return self._one_by_one(parts, 0)
        few = BULK
        while (total := sum(len(part.records) for part in parts)) > few:
            plan = self._plan(parts)
            if plan is not None:
                return rejected + self._process(parts, plan, total)
            # Something new among the first, most often: then the rest is usual.
            head, parts = _divided(parts, few)
            rejected += self._one_by_one(head, 0)
            few *= 4
        return rejected + self._one_by_one(parts, 0)

    def _goes_by_record(self, predictions: Part) -> bool:
        """Whether columns have no room for all of it.

        That is: segments, weights, periods, the arrival of what is settled (for stages at an age), what is
        scored.
        """
        if self.segments is not None or self.after_stages or self.config.period is not None:
            return True
        if self.propensities is not None:
            return True
        scored = self.target.scored
        if scored is None:
            return False
        if self._measures.regression:
            return True
        probabilities = [record.y_proba for record in predictions.records]
        return any(probabilities)

    def _process(self, parts: Parts, plan: _Plan, total: int) -> list[Rejected]:
        if len(plan.odd) * _ODD_SHARE > total:
            return self._one_by_one(parts, 0)
        rejected: list[Rejected] = []
        start = segments = 0
        for stop in (*sorted(plan.odd), total):
            while start < stop:
                clock = plan.clock[start:stop]
                if clock[0] > self._expiry.next_due:
                    # What runs out does so before the record that moved the clock past it.
                    self.clock = int(clock[0])
                    self._expire_due()
                end = start + int(clock.searchsorted(self._expiry.next_due, "right"))
                self._segment(plan, start, end)
                start = end
                segments += 1
                if segments * _SEGMENT > total:
                    self._schedule(plan)
                    return rejected + self._one_by_one(parts, start)
            if stop < total:
                rejected += self._take(parts, [plan.odd[stop]])
                start = stop + 1
        self._schedule(plan)
        return rejected

    # ---- record by record

    def _one_by_one(self, parts: Parts, start: int) -> list[Rejected]:
        """All records from a position on."""
        kinds = np.repeat(np.arange(3), [len(part.records) for part in parts])
        indices = np.concatenate([np.arange(len(part.records)) for part in parts])
        order = np.argsort(np.concatenate([part.positions for part in parts]))[start:]
        return self._take(parts, zip(kinds[order].tolist(), indices[order].tolist()))

    def _take(self, parts: Parts, which: Iterable[tuple[int, int]]) -> list[Rejected]:
        """Records, in the order of their positions, as (kind, index)."""
        rejected = []
        take = (self.instance, self.prediction, self.label)
        for kind, index in which:
            part = parts[kind]
            try:
                take[kind](part.records[index], int(part.times[index]))
            except Unusable as reason:
                rejected.append(Rejected(int(part.places[index]), str(reason)))
        return rejected

    # ---- what is usual

    def _plan(self, parts: Parts) -> _Plan | None:
        """Bring the records into columns and tell the odd from the usual.

        None if a model or a class is new (codes are given in the order of the records), or if even
        one prediction of each model is more than may wait.
        """
        instances, predictions, labels = parts
        if len(self.by_code) > self.limits.predictions_per_instance:
            return None
        codes = {name: model.code for name, model in self.models.items()}
        model = _codes(codes, [record.model for record in predictions.records])
        h = self._class_codes([record.y_pred for record in predictions.records])
        y = self._class_codes([record.y_true for record in labels.records])
        if min(column.min(initial=0) for column in (model, h, y)) < 0:
            return None
        if self.columns is None:
            self.columns = Columns()
        columns = self.columns
        columns.make_room(len(self.by_code))
        names = [record.instance_id for record in labels.records]
        rows = (
            self._rows(instances, self._slots([r.instance_id for r in instances.records], True)),
            self._rows(predictions, self._slots([r.instance_id for r in predictions.records], True)),
            self._rows(labels, self._slots(names, False)),
        )
        clock = np.empty(sum(map(len, (row.slots for row in rows))), dtype=np.int64)
        for part, row in zip(parts, rows):
            clock[row.positions] = np.minimum(row.ts, part.times + CLOCK_TOLERANCE)
        clock = np.maximum(np.maximum.accumulate(clock), self.clock)
        odd: dict[int, tuple[int, int]] = {}
        for kind, is_odd in enumerate(self._odd(rows, model, int(clock[-1]))):
            indices = np.flatnonzero(is_odd)
            for index, position in zip(indices.tolist(), rows[kind].positions[indices].tolist()):
                odd[position] = (kind, index)
        versions = [record.version or 0 for record in instances.records]
        return _Plan(
            *rows, np.array(versions, dtype=np.int64), model, h, y, names, clock, odd,
            columns.deadline[rows[0].slots], columns.deadline[rows[1].slots],
        )  # fmt: skip

    def _class_codes(self, values: list[Any]) -> Ints:
        """The classes' codes, -1 for what is new or unusable."""
        codes = _codes(self.classes.codes, values)
        if codes.min(initial=0) < 0:
            codes = _codes(self.classes.codes, list(map(_name, values)))
        return codes

    def _rows(self, part: Part, slots: Ints) -> _Rows:
        values = [record.ts for record in part.records]
        try:
            ts = np.array(values, dtype=np.int64)
        except TypeError:  # a record without a time of its own has its record's
            times = part.times.tolist()
            ts = np.array([time if own is None else own for own, time in zip(values, times)])
        return _Rows(slots, ts, part.positions)

    def _slots(self, names: list[str], new: bool) -> Ints:
        """The slots of instances: those that wait in the book are adopted, `new` ones are added."""
        columns = self.columns
        assert columns is not None
        try:  # the usual cases are the faster ones: each is known, …
            return np.fromiter(map(columns.slots.__getitem__, names), np.int64, len(names))
        except KeyError:
            pass
        for name in self.book.keys() & names if self.book else ():
            if self._fits(self.book[name]):
                columns.adopt(name, self.book.pop(name))
        if new and self.book.keys().isdisjoint(names):  # … or many are new
            return columns.add(names)
        known = _codes(columns.slots, names, NOWHERE)
        if new:
            absent = map(names.__getitem__, np.flatnonzero(known == NOWHERE).tolist())
            columns.add([name for name in absent if name not in self.book])
            known = _codes(columns.slots, names, NOWHERE)
        return known

    @staticmethod
    def _fits(entry: Entry) -> bool:
        """Whether columns have room for what is known of an instance."""
        return entry[0] == WAITING and not any(type(made) is tuple for made in entry[5::3])

    def _odd(self, rows: tuple[_Rows, _Rows, _Rows], model: Ints, clock: int) -> list[Bools]:
        """Which records belong to odd instances; `clock` is the round's last."""
        columns = self.columns
        assert columns is not None
        odd, soonest = columns.odd, columns.soonest
        instances, predictions, labels = rows
        every = np.concatenate([row.slots for row in rows])

        def are_odd(slots: Ints) -> None:
            odd[slots] = True

        # Neither new nor waiting; a second instance record, or prediction of a model, or label.
        are_odd(every[columns.state[every] > slot_states.WAITING])
        are_odd(instances.slots[columns.version[instances.slots] != NONE])
        are_odd(predictions.slots[columns.ts[predictions.slots, model] != NONE])
        are_odd(_repeated(instances.slots))
        are_odd(_repeated(predictions.slots * columns.models + model) // columns.models)
        are_odd(_repeated(labels.slots))
        # Anything after the label.
        columns.label_at[labels.slots] = labels.positions
        for row in (instances, predictions):
            are_odd(row.slots[row.positions > columns.label_at[row.slots]])
        columns.label_at[labels.slots] = FAR
        # Nothing predicted before the label, or something after its time; too late; running out.
        np.maximum.at(columns.newest, predictions.slots, predictions.ts)
        newest = columns.newest[labels.slots]
        soonest[every] = columns.deadline[every]
        for row in (instances, predictions):
            np.minimum.at(soonest, row.slots, row.ts + self.config.label_horizon)
        late = labels.ts > soonest[labels.slots]
        are_odd(labels.slots[(newest == NONE) | (newest > labels.ts) | late])
        are_odd(every[soonest[every] < clock])

        found = [odd[row.slots] for row in rows]
        odd[every] = False
        odd[NOWHERE] = True
        return found

    # ---- usual records

    def _segment(self, plan: _Plan, start: int, stop: int) -> None:
        """The records from one position to another; all of them are usual, and nothing runs out."""
        columns = self.columns
        assert columns is not None
        state, deadline = columns.state, columns.deadline

        rows = plan.instances.between(start, stop)
        slots = plan.instances.slots[rows]
        fresh = int(np.count_nonzero(state[slots] == slot_states.FREE))
        columns.version[slots] = plan.versions[rows]
        deadline[slots] = plan.instances.ts[rows] + self.config.label_horizon
        state[slots] = slot_states.WAITING

        label_rows = plan.labels.between(start, stop)
        baselines = self.baselines.update_many(plan.y[label_rows])
        if self.labels is not None:
            self.labels.update_many(plan.y[label_rows])

        rows = plan.predictions.between(start, stop)
        slots, ts = plan.predictions.slots[rows], plan.predictions.ts[rows]
        bare = columns.version[slots] == NONE
        if bare.any():
            without = slots[bare]
            np.minimum.at(deadline, without, ts[bare] + self.config.label_horizon)
            fresh += len(np.unique(without[state[without] == slot_states.FREE]))
            state[without] = slot_states.WAITING
        labels_before = plan.labels.positions[label_rows].searchsorted(plan.predictions.positions[rows])
        columns.ts[slots, plan.model[rows]] = ts
        columns.code[slots, plan.model[rows]] = (
            (plan.h[rows] << H_SHIFT).astype(np.uint64) | baselines[labels_before]
        )
        for model in self.by_code:
            own = ts if len(self.by_code) == 1 else ts[plan.model[rows] == model.code]
            model.coverage.wait_many(own)

        self.remember(fresh)
        if label_rows.start < label_rows.stop:
            self._settle_many(plan, label_rows, baselines[:-1])
        self.clock = int(plan.clock[stop - 1])
        if self.clock > self._settled_until:
            self._forget_settled()

    def _settle_many(self, plan: _Plan, rows: slice, baselines: Packed) -> None:
        """Labels meet the predictions that wait for them."""
        columns = self.columns
        assert columns is not None
        slots, t1 = plan.labels.slots[rows], plan.labels.ts[rows]
        latencies = t1 - (columns.deadline[slots] - self.config.label_horizon)
        ordinals = np.arange(self._completed, self._completed + len(slots))
        self._completed += len(slots)
        labels = baselines | plan.y[rows].astype(np.uint64)
        columns.t1[slots], columns.label[slots], columns.ordinal[slots] = t1, labels, ordinals
        columns.settle(slots, plan.clock[plan.labels.positions[rows]] + self.config.settle)
        self._settled_until = min(self._settled_until, columns.settled_until)

        if not self.log_names:
            self.on_completions()
        first_row = len(self.log_names)
        self.log_names += plan.names[rows]
        self.log_times.frombytes(t1.tobytes())
        self.log_latencies.frombytes(np.maximum(latencies, 0).tobytes())
        self.log_ordinals.frombytes(ordinals.tobytes())
        self.log_labels.frombytes(labels.tobytes())

        predicted, code = columns.ts[slots] != NONE, columns.code[slots]
        bare = columns.version[slots] == NONE
        self.predictions_without_instance += int(np.count_nonzero(predicted[bare]))
        for model, some in zip(self.by_code, predicted.any(axis=0).tolist()):
            if some:
                by = np.flatnonzero(predicted[:, model.code])
                model.coverage.met_many(columns.ts[slots[by], model.code], t1[by])
                h = (code[by, model.code] & np.uint64(H_MASK)) >> np.uint64(H_SHIFT)
                model.selection.met_many(h.astype(np.int64))
                self._collect(model, first_row + by, code[by, model.code])
        if self.companions:
            every = np.arange(len(slots))
            lead = np.where(predicted, columns.ts[slots], FAR).argmin(axis=1)
            for companion in self.companions:
                self._collect(companion, first_row + every, code[every, lead])

    def _collect(self, model: Model, positions: Ints, first: Packed) -> None:
        """Outcomes of a model, evaluated whenever it has no more room."""
        start = 0
        while start < len(positions):
            if not model.positions:
                self.dirty.append(model)
            stop = start + model.room - len(model.positions)
            model.positions.frombytes(positions[start:stop].tobytes())
            model.first.frombytes(first[start:stop].tobytes())
            if len(model.positions) >= model.room:
                self.on_full(model)
            start = stop

    def _schedule(self, plan: _Plan) -> None:
        """Let the usual instances that wait expire, where their deadlines are new."""
        columns = self.columns
        assert columns is not None
        for slots, before in (
            (plan.instances.slots, plan.instances_before),
            (plan.predictions.slots, plan.predictions_before),
        ):
            moved = columns.deadline[slots] != before
            moved &= columns.state[slots] == slot_states.WAITING
            if slots is plan.predictions.slots:  # with an instance record it is the instance's
                moved &= columns.version[slots] == NONE
            if moved.any():
                slots = slots[moved]
                if slots.size > 1 and (slots[1:] <= slots[:-1]).any():
                    slots = np.unique(slots)
                self._expiry.add_many(columns.deadline[slots], columns.names_of(slots))


class _Plan(NamedTuple):
    """A round in columns."""

    instances: _Rows
    predictions: _Rows
    labels: _Rows
    versions: Ints  # of instances
    model: Ints  # of predictions: codes of model and class
    h: Ints
    y: Ints  # of labels: code of the class, and the instance's name
    names: list[str]
    clock: Ints  # by position
    odd: dict[int, tuple[int, int]]  # kind and index of the odd records, by position
    instances_before: Ints  # deadlines before the round, by record
    predictions_before: Ints


def _divided(parts: Parts, position: int) -> tuple[Parts, Parts]:
    """What lies before a position, and the rest, which begins at 0 again."""
    heads, tails = [], []
    for records, times, positions, places in parts:
        at = int(positions.searchsorted(position))
        heads.append(Part(records[:at], times[:at], positions[:at], places[:at]))
        tails.append(Part(records[at:], times[at:], positions[at:] - position, places[at:]))
    return tuple(heads), tuple(tails)


def _codes(known: dict[str, int], values: list[Any], unknown: int = -1) -> Ints:
    """What is known of each value."""
    try:  # the usual case is the faster one
        return np.fromiter(map(known.__getitem__, values), np.int64, len(values))
    except KeyError:
        return np.fromiter(map(known.get, values, repeat(unknown)), np.int64, len(values))


def _name(value: Any) -> str | None:
    try:
        return class_name(value)
    except Unusable:
        return None


def _repeated(values: Ints) -> Ints:
    """Those that occur more than once."""
    ordered = np.sort(values)
    return ordered[1:][ordered[1:] == ordered[:-1]]
