"""The join: labels that come late meet the predictions that wait for them (contract, section 2).

What is known of an instance is one flat, immutable tuple in the stream's `book`, so a copy of the
book is a consistent snapshot of it, and the garbage collector has nothing to follow. It begins with
its state and with the event time after which it runs out:

    WAITING    deadline=t0+horizon, version, (model, ts, prediction)*   a label is awaited
    REPEATED   the same, with several predictions of some model
    LABELLED   deadline=t1+horizon, t0, version, t1, y, baselines   predictions are awaited
    SETTLED    deadline, version, t1, first y, y, baselines, ordinal, t0, (model, ts, prediction)*
               (t1 in place of t0 where one prediction of a model counts in every stage)
    EXPIRED    deadline=t0+2*horizon   the label's time is over

`version` is None where no instance record has come. A `prediction` is the class code and the
baselines at the time when it was processed, packed as in `pipeline.core.outcomes`; its low 16 bits are
0, or 1 + the label's class at that time where the label had met others before it came. While it waits
and something of it is scored (see `pipeline.core.target`), it is a tuple of that and what is scored.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from typing import Any

from pipeline.config import Limits, StreamConfig
from pipeline.core import columns as slot_states
from pipeline.core.baselines import Baselines
from pipeline.core.classes import Classes
from pipeline.core.columns import Columns
from pipeline.core.companions import FIRST_SEGMENT, FIRST_SHADOW, companions_of
from pipeline.core.errors import Unusable
from pipeline.core.expiry import NEVER, Expiry
from pipeline.core.measures import MeasureSet
from pipeline.core.measures.matrix import PositiveClass
from pipeline.core.model import Model
from pipeline.core.outcomes import H_MASK, H_SHIFT
from pipeline.core.scores import Score
from pipeline.core.segments import Segments
from pipeline.core.shadow import SUFFIX, corrected
from pipeline.core.stages import FINAL, FIRST_BIN, bins_of, views
from pipeline.core.target import build_target
from pipeline.core.transitions import Transitions
from topics.decoding import INSTANCES, LABELS
from topics.messages import Instance, Label, Prediction

WAITING, REPEATED, LABELLED, SETTLED, EXPIRED = range(5)

#: A message's time may be ahead of its record's by this much (ms) in moving the stream's clock: one
#: producer with a wrong clock must not let everything expire.
CLOCK_TOLERANCE = 3_600_000

#: The calendar of deadlines has at most about this many buckets within one horizon.
_BUCKETS = 1024

Entry = tuple[Any, ...]  # flat: integers, but `version` may be None


class Join:
    """Instances, predictions and labels of one stream; completed outcomes go to its models."""

    def __init__(self, config: StreamConfig, limits: Limits) -> None:
        self.config = config
        self.limits = limits
        self.clock = -NEVER  # event time: the largest ts seen, within tolerance
        self.book: dict[str, Entry] = {}
        #: Usual instances are here and not in the book, once rounds are large enough.
        self.columns: Columns | None = None
        self.classes = Classes(limits.classes_per_stream)
        self.baselines = Baselines()
        self._measures = MeasureSet(
            config.measures,
            PositiveClass(config.positive_class, self.classes),
            config.task == "regression",
        )
        self.companions = companions_of(config, self._measures, self.classes)
        self.target = build_target(config, self.classes)
        self._bins = bins_of(config)
        #: All labels so far, and shadow models by their model's code, where temporal correction is wanted.
        self.labels = Transitions() if self.target.shadowed else None
        self.shadows: dict[int, Model] = {}
        #: Segments, and their models by model's code and segment, where some are wanted.
        self.segments = Segments(config) if config.segments else None
        self.segment_models: dict[tuple[int, str], Model] = {}
        self.models: dict[str, Model] = {}
        self.by_code: list[Model] = []
        self.dirty: list[Model] = []  # models with outcomes collected, in order of the first
        self.waiting = 0  # predictions
        self.waiting_labels = 0
        self.late_label = 0
        self.unmatched_label = 0
        self.revisions = 0
        self.duplicates = [0, 0, 0]  # by kind of record; predictions' are counted by model
        # The log of completions since the last evaluation: one row for each, in columns.
        self.log_names: list[str] = []
        self.log_times = array("q")  # t1
        self.log_latencies = array("q")  # t1 - t0; -1 where a further model joined a label
        self.log_ordinals = array("q")  # number of the label
        self.log_labels = array("Q")  # the label's class and the baselines before it, packed
        self._completed = 0  # labels that met a prediction so far
        self._full = 3 + 3 * limits.predictions_per_instance  # length of an entry with no more room
        self._expiry = Expiry(max(1, config.label_horizon // _BUCKETS))
        # Settled instances in order of their deadlines: the clock never goes back.
        self._settled: deque[str] = deque()
        self._settled_until = NEVER  # deadline of the first of them

    @property
    def every_model(self) -> list[Model]:
        """Models, then the baselines, shadow models and segments beside them."""
        beside = (*self.companions, *self.shadows.values(), *self.segment_models.values())
        return [*self.by_code, *beside]

    # ---- what `pipeline.core.stream` defines

    def on_full(self, model: Model) -> None:
        """A model has collected as many outcomes as it has room for."""
        raise NotImplementedError

    def on_completions(self) -> None:
        """The first completion since the last evaluation is about to be logged."""
        raise NotImplementedError

    def on_revision(self, model: Model) -> None:
        """An outcome of a model was revised."""
        raise NotImplementedError

    def remember(self, more: int) -> None:
        """The book has `more` entries; raises Unusable when the shard remembers as many as it may."""
        raise NotImplementedError

    # ---- records

    def instance(self, record: Instance, time: int) -> None:
        """Process an instance record with record time `time` (ms)."""
        ts = time if record.ts is None else record.ts
        if ts > self.clock:
            self._advance(ts, time)
        name = record.instance_id
        version = record.version or 0
        entry = self.book.get(name) or self._spilled(name)
        horizon = self.config.label_horizon
        if entry is None:
            self.remember(1)
            deadline = ts + horizon
            if self.segments is not None:
                self.segments.note_instance(name, record.segments)
            self.book[name] = (WAITING, deadline, version)
            self._run_out(deadline, name)
            return
        state = entry[0]
        if state == EXPIRED or (state == SETTLED and entry[2] is not None and version <= entry[2]):
            self.duplicates[INSTANCES] += 1
            return
        if state == SETTLED:
            self.book[name] = (*entry[:2], version, *entry[3:])
            return
        if self.segments is not None:
            self.segments.note_instance(name, record.segments)
        place = 2 if state != LABELLED else 3
        known = entry[place]
        t0 = entry[1] - horizon if state != LABELLED else entry[2]
        if known is not None and ts >= t0 and version <= known:
            self.duplicates[INSTANCES] += 1
            return
        t0 = ts if known is None else min(t0, ts)
        version = version if known is None else max(version, known)
        if state != LABELLED:
            self.book[name] = (state, t0 + horizon, version, *entry[3:])
            self._run_out(t0 + horizon, name)
        elif entry[4] - t0 > horizon:
            self._drop_label(name, (WAITING, t0 + horizon, version))
        else:
            self.book[name] = (LABELLED, entry[1], t0, version, *entry[4:])

    def prediction(self, record: Prediction, time: int) -> None:
        """Process a prediction record with record time `time` (ms)."""
        model = self.models.get(record.model)
        target = self.target
        h = target.known(record.y_pred)
        if model is None or h is None:
            self._check_model(record.model)  # before anything is added: a dead letter leaves no trace
            h = target.code(record.y_pred, "y_pred")
            model = self.models.get(record.model) or self._add_model(record.model)
        scored = None if target.scored is None else target.scored(record)
        if scored is not None and self.labels is not None:
            scored = (*scored, corrected(scored, self.classes, self.labels))
        ts = time if record.ts is None else record.ts
        if ts > self.clock:
            self._advance(ts, time)
        name = record.instance_id
        entry = self.book.get(name) or self._spilled(name)
        if entry is None:
            self.remember(1)
            if self.segments is not None:
                self.segments.note_prediction(name, model.code, record.segments)
            deadline = ts + self.config.label_horizon
            code: Any = h << H_SHIFT | self.baselines.packed
            if scored is not None:
                code = (code, scored)
            self.book[name] = (WAITING, deadline, None, model.code, ts, code)
            self.waiting += 1
            self._run_out(deadline, name)
        elif entry[0] > REPEATED:
            if self.segments is not None and entry[0] != EXPIRED:
                self.segments.note_prediction(name, model.code, record.segments)
            self._prediction_after_label(name, entry, model, ts, h, scored)
            if self.segments is not None and self.book.get(name, (EXPIRED,))[0] != WAITING:
                self.segments.drop_prediction(name, model.code)
        elif len(entry) < self._full and (
            len(entry) == 3 or (entry[2] is not None and model.code not in entry[3::3])
        ):
            # The usual case. A sum is twice as fast as (*entry, …).
            code = h << H_SHIFT | self.baselines.packed
            if scored is not None:
                code = (code, scored)
            self.book[name] = entry + (model.code, ts, code)  # noqa: RUF005
            self.waiting += 1
            if self.segments is not None:
                self.segments.note_prediction(name, model.code, record.segments)
        else:
            self._further_prediction(name, entry, model, ts, h, scored)
            if self.segments is not None:
                self.segments.note_prediction(name, model.code, record.segments)

    def label(self, record: Label, time: int) -> None:
        """Process a label record with record time `time` (ms)."""
        y = self.target.label(record.y_true)
        t1 = time if record.ts is None else record.ts
        if t1 > self.clock:
            self._advance(t1, time)
        name = record.instance_id
        entry = self.book.get(name) or self._spilled(name)
        if entry is None or entry[0] <= REPEATED:
            self._first_label(name, entry, y, t1)
        elif entry[0] == EXPIRED:
            self.late_label += 1
        elif y == entry[5]:
            self.duplicates[LABELS] += 1
        elif entry[0] == LABELLED:
            self.book[name] = (*entry[:5], y, entry[6])
            self.revisions += 1
        else:
            self._revise(name, entry, y)

    # ---- predictions that need care

    def _further_prediction(
        self, name: str, entry: Entry, model: Model, ts: int, h: int, scored: Any
    ) -> None:
        """A prediction where others wait: of the same model, or without an instance record."""
        _, deadline, version, *waiting = entry
        horizon = self.config.label_horizon
        for code, other_ts, other in _triples(entry, 3):
            if code == model.code and other_ts == ts and self._same(other, h, scored):
                model.duplicate += 1
                return
        if len(waiting) >= 3 * self.limits.predictions_per_instance:
            raise Unusable(
                f"instance {name!r} has {len(waiting) // 3} predictions waiting: "
                f"limits.predictions_per_instance is {self.limits.predictions_per_instance}"
            )
        earlier = version is None and ts + horizon < deadline
        deadline = ts + horizon if earlier else deadline
        state = REPEATED if entry[0] == REPEATED or model.code in waiting[::3] else WAITING
        made: Any = h << H_SHIFT | self.baselines.packed
        if scored is not None:
            made = (made, scored)
        self.book[name] = (state, deadline, version, *waiting, model.code, ts, made)
        self.waiting += 1
        if earlier:
            self._run_out(deadline, name)

    def _same(self, made: Any, h: int, scored: Any) -> bool:
        """Whether a waiting prediction says the same class, or number."""
        if self._measures.regression:
            return bool(made[1] == scored)
        code = made[0] if type(made) is tuple else made
        return (code & H_MASK) == h << H_SHIFT

    def _prediction_after_label(
        self, name: str, entry: Entry, model: Model, ts: int, h: int, scored: Any
    ) -> None:
        """The label is known already, or its time is over."""
        if entry[0] == EXPIRED:
            model.expired += 1
            return
        if entry[0] == SETTLED:
            _, _, _, t1, _, y, baselines, ordinal, *_ = entry
            if ts > t1:
                model.late += 1
            elif model.code in entry[9::3]:
                model.duplicate += 1
            else:
                code = h << H_SHIFT | baselines
                judged = self.target.bits(y) + 1
                self.book[name] = (*entry, model.code, ts, code | judged)
                self._log_again(name, t1, ordinal, baselines | self.target.bits(y))
                self._complete_one(model, y, code if scored is None else (code, scored))
                self._complete_segments(model, name, y, (code,))
            return
        _, _, t0, version, t1, y, baselines = entry
        if ts > t1:
            model.late += 1
            return
        t0 = ts if version is None else t0
        self.waiting_labels -= 1
        code = h << H_SHIFT | baselines
        if t1 - t0 > self.config.label_horizon:
            deadline = t0 + self.config.label_horizon
            self.waiting_labels += 1
            self.waiting += 1
            made: Any = h << H_SHIFT | self.baselines.packed  # it waits like any other, from now on
            made = made if scored is None else (made, scored)
            self._drop_label(name, (WAITING, deadline, version, model.code, ts, made))
            return
        self._settle(name, t1, t0, version, y, baselines, (model.code, ts, code), arrival=t1)
        self._complete_one(model, y, code if scored is None else (code, scored))
        self._complete_segments(model, name, y, (code if scored is None else (code, scored),))
        for companion in self.companions:
            self._complete_one(companion, y, code)

    def _log_again(self, name: str, t1: int, ordinal: int, label: int) -> None:
        """Log that a further model joined a label."""
        if not self.log_names:
            self.on_completions()
        self.log_names.append(name)
        self.log_times.append(t1)
        self.log_latencies.append(-1)
        self.log_ordinals.append(ordinal)
        self.log_labels.append(label)

    # ---- labels

    def _first_label(self, name: str, entry: Entry | None, y: Any, t1: int) -> None:
        horizon = self.config.label_horizon
        baselines = self.baselines.packed
        if entry is None:
            self.remember(1)
            t0 = version = None
            waiting: Entry = ()
        else:
            t0, version, waiting = entry[1] - horizon, entry[2], entry[3:]
            if t1 - t0 > horizon:
                self.late_label += 1
                return
        if not self._measures.regression:
            self.baselines.update(y)
        if self.labels is not None:
            self.labels.update(y)
        if waiting:
            self.waiting -= len(waiting) // 3
            if max(waiting[1::3]) > t1:
                kept = self._drop_late(waiting, t1)
                if self.segments is not None:
                    for code in set(waiting[::3]).difference(kept[::3]):
                        self.segments.drop_prediction(name, code)
                waiting = kept
        if waiting:
            single = entry is not None and entry[0] == WAITING
            self._settle(name, t1, t0, version, y, baselines, waiting, arrival=t1 if single else t0)
            if single:
                for code, prediction in zip(waiting[::3], waiting[2::3]):
                    self._complete_one(self.by_code[code], y, prediction)
                    self._complete_segments(self.by_code[code], name, y, (prediction,))
            elif t0 is not None:
                for code, view in views(waiting, t0, t1, self._bins).items():
                    self._complete_view(self.by_code[code], y, view)
                    self._complete_segments(self.by_code[code], name, y, view)
            if self.companions:
                of_lead = _lead_view(waiting, t1 if single or t0 is None else t0, t1, self._bins)
                for companion in self.companions:
                    self._complete_view(companion, y, of_lead)
        else:
            t0 = t0 if version is not None else None
            self.book[name] = (LABELLED, t1 + horizon, t0, version, t1, y, baselines)
            self._run_out(t1 + horizon, name)
            self.waiting_labels += 1

    def _drop_late(self, waiting: Entry, t1: int) -> Entry:
        """Count predictions made after the label; returns the others."""
        kept: list[Any] = []
        for code, ts, prediction in _triples(waiting, 0):
            if ts > t1:
                self.by_code[code].late += 1
            else:
                kept += (code, ts, prediction)
        return tuple(kept)

    def _drop_label(self, name: str, entry: Entry) -> None:
        """A waiting label turned out to be later than the horizon: the instance waits without it."""
        self.late_label += 1
        self.waiting_labels -= 1
        self.book[name] = entry
        self._run_out(entry[1], name)

    def _settle(
        self,
        name: str,
        t1: int,
        t0: Any,
        version: int | None,
        y: Any,
        baselines: int,
        waiting: Entry,
        arrival: int | None,
    ) -> None:
        """Remember an evaluated instance, and log its completion."""
        deadline = self.clock + self.config.settle
        ordinal = self._completed
        self._completed = ordinal + 1
        if self.target.scored is not None:  # what was scored isn't needed any more
            waiting = tuple(part[0] if type(part) is tuple else part for part in waiting)
        self.book[name] = (SETTLED, deadline, version, t1, y, y, baselines, ordinal, arrival) + waiting  # noqa: RUF005
        if not self._settled:
            self._settled_until = deadline
        self._settled.append(name)
        if not self.log_names:
            self.on_completions()
        self.log_names.append(name)
        self.log_times.append(t1)
        self.log_latencies.append(t1 - t0 if t1 > t0 else 0)
        self.log_ordinals.append(ordinal)
        self.log_labels.append(baselines | self.target.bits(y))

    def _complete_one(self, model: Model, y: Any, prediction: Any) -> None:
        """One outcome of a prediction that counts in every stage. The label is the log's last row."""
        if type(prediction) is tuple:
            model.scores[len(model.positions)] = (self.target.score(y, prediction),)
            if self.labels is not None and model.segment is None:
                self._complete_shadow(model, y, (prediction,))
            prediction = prediction[0]
        positions = model.positions
        if not positions:
            self.dirty.append(model)
        positions.append(len(self.log_names) - 1)
        model.first.append(prediction)
        if len(positions) >= model.room:
            self.on_full(model)

    def _complete_view(self, model: Model, y: Any, view: tuple[Any, ...]) -> None:
        """One outcome whose stages may have several predictions (see `pipeline.core.stages`)."""
        if len(view) > 1:
            place = len(model.positions)
            if any(type(prediction) is tuple for prediction in view):
                scores = [self._score(y, prediction) for prediction in view]
                model.scores[place] = tuple(scores)
                if self.labels is not None and model.segment is None:
                    self._complete_shadow(model, y, view)
            view = tuple(p[0] if type(p) is tuple else p for p in view)
            model.views[place] = view
        self._complete_one(model, y, view[0])

    def _complete_segments(self, model: Model, name: str, y: Any, view: tuple[Any, ...]) -> None:
        """The model's outcome once more, for each of its segments."""
        if self.segments is None:
            return
        for segment in self.segments.take(name, model.code):
            if (model.code, segment) not in self.segment_models:
                self.add_segment(model, segment)
            self._complete_view(self.segment_models[model.code, segment], y, view)

    def add_segment(self, model: Model, segment: str) -> Model:
        """Evaluate a model on a segment, too."""
        code = FIRST_SEGMENT + len(self.segment_models)
        added = Model(code, model.name, self.config, self._measures)
        added.segment = segment
        self.segment_models[model.code, segment] = added
        return added

    def _complete_shadow(self, model: Model, y: Any, view: tuple[Any, ...]) -> None:
        """The outcome of what the model would have said with the labels before."""
        codes = []
        for prediction in view:
            if type(prediction) is not tuple or prediction[1][-1] is None:
                return  # without probabilities there is nothing to correct
            codes.append((prediction[0] & ~H_MASK) | prediction[1][-1] << H_SHIFT)
        if model.code not in self.shadows:
            self.add_shadow(model)
        self._complete_view(self.shadows[model.code], y, tuple(codes))

    def add_shadow(self, model: Model) -> None:
        """Let a model have a shadow."""
        code = FIRST_SHADOW + model.code
        self.shadows[model.code] = Model(code, model.name + SUFFIX, self.config, self._measures)

    def _score(self, y: Any, prediction: Any) -> Score | None:
        return self.target.score(y, prediction) if type(prediction) is tuple else None

    def _revise(self, name: str, entry: Entry, y: Any) -> None:
        """A different label within `settle`: move the outcomes, keep what baselines saw."""
        _, _, _, t1, first_y, old_y, baselines, _, t0, *made = entry
        bits = self.target.bits
        capacity = self.classes.capacity
        for code, view in views(made, t0, t1, self._bins).items():
            model = self.by_code[code]
            if model.positions:
                self.on_full(model)
            first = view[0]
            judged = (first & 0xFFFF) - 1 if first & 0xFFFF else bits(first_y)
            last = view[FINAL] if len(view) > 1 else first
            seen = [prediction & ~0xFFFF | judged for prediction in view]
            seen[FINAL:FIRST_BIN] = [last & H_MASK | baselines | judged]
            model.revise(entry[7], bits(old_y), bits(y), tuple(seen), capacity)
            self.on_revision(model)
        if self.companions:
            self._revise_companions(entry, bits(old_y), bits(y))
        self.book[name] = (*entry[:5], y, *entry[6:])
        self.revisions += 1

    def _revise_companions(self, entry: Entry, old_y: int, new_y: int) -> None:
        """The baselines' outcome was made with the label that came first."""
        _, _, _, t1, first_y, _, baselines, ordinal, t0, *_ = entry
        # The lead is among those that the label met at once.
        met = [part for triple in _triples(entry, 9) if not triple[2] & 0xFFFF for part in triple]
        view = _lead_view(met, t0, t1, self._bins)
        seen = [prediction & ~0xFFFF | first_y for prediction in view]
        seen[FINAL:FIRST_BIN] = [view[0] & H_MASK | baselines | first_y]
        for companion in self.companions:
            if companion.positions:
                self.on_full(companion)
            companion.revise(ordinal, old_y, new_y, tuple(seen), self.classes.capacity)
            self.on_revision(companion)

    @property
    def unused(self) -> bool:
        """Whether no record has been taken yet."""
        return self.clock == -NEVER

    # ---- time

    def _run_out(self, deadline: int, name: str) -> None:
        """Let `name` expire once the clock is above `deadline`, which may be now."""
        self._expiry.add(deadline, name)
        if deadline < self.clock:
            self._expire_due()

    def _advance(self, ts: int, time: int) -> None:
        """Move the stream's clock to `ts` (at most a tolerance ahead of `time`); let things expire."""
        limit = time + CLOCK_TOLERANCE
        if ts > limit:
            ts = max(limit, self.clock)
        self.clock = ts
        if ts > self._expiry.next_due or ts > self._settled_until:
            self._expire_due()

    def _expire_due(self) -> None:
        for name in self._expiry.due(self.clock, self._deadline):
            self._expire(name)
        self._forget_settled()

    def _forget_settled(self) -> None:
        clock, book, settled = self.clock, self.book, self._settled
        while settled and book[settled[0]][1] < clock:
            name = settled.popleft()
            del book[name]
            self._forget_segments(name)
            self.remember(-1)
        self._settled_until = book[settled[0]][1] if settled else NEVER
        if self.columns is not None:
            gone, spilled = self.columns.forget(clock)
            for name in spilled:
                del book[name]
            self.remember(-gone)
            self._settled_until = min(self._settled_until, self.columns.settled_until)

    def _forget_segments(self, name: str, models: Entry = ()) -> None:
        if self.segments is not None:
            self.segments.drop_instance(name)
            for code in models:
                self.segments.drop_prediction(name, code)

    def _spilled(self, name: str) -> Entry | None:
        """Move what the columns know of an instance into the book."""
        found = None if self.columns is None else self.columns.spill(name)
        if found is None:
            return None
        state, entry = found
        self.book[name] = (SETTLED if state == slot_states.SETTLED else WAITING, *entry)
        return self.book[name]

    def _deadline(self, name: str) -> int | None:
        entry = self.book.get(name)
        if entry is None:
            return None if self.columns is None else self.columns.deadline_of(name)
        return None if entry[0] == SETTLED else entry[1]

    def _expire(self, name: str) -> None:
        entry = self.book.get(name) or self._spilled(name)
        assert entry is not None, "only what is known runs out"
        state = entry[0]
        if state <= REPEATED:
            for code in entry[3::3]:
                self.by_code[code].expired += 1
            self.waiting -= len(entry[3::3])
            self._forget_segments(name, entry[3::3])
            deadline = entry[1] + self.config.label_horizon
            self.book[name] = (EXPIRED, deadline)
            self._expiry.add(deadline, name)
            return
        if state == LABELLED:
            self.waiting_labels -= 1
            self.unmatched_label += 1
        del self.book[name]
        self._forget_segments(name)
        self.remember(-1)

    def _check_model(self, name: str) -> None:
        if name not in self.models and len(self.by_code) >= self.limits.models_per_stream:
            raise Unusable(
                f"model {name!r} is one too many: limits.models_per_stream is "
                f"{self.limits.models_per_stream}"
            )

    def _add_model(self, name: str) -> Model:
        model = Model(len(self.by_code), name, self.config, self._measures)
        self.models[name] = model
        self.by_code.append(model)
        return model


def _triples(entry: Entry, start: int) -> Iterator[tuple[int, int, int]]:
    """(model, ts, prediction) of a flat entry from `start` on."""
    return zip(entry[start::3], entry[start + 1 :: 3], entry[start + 2 :: 3])


def _lead_view(made: Any, t0: int, t1: int, bins: int) -> tuple[Any, ...]:
    """The view of the lead (see `pipeline.core.companions`), without what is scored."""
    _, lead = min((ts, model) for model, ts in zip(made[::3], made[1::3]))
    view = views(made, t0, t1, bins)[lead]
    return tuple(p[0] if type(p) is tuple else p for p in view)
