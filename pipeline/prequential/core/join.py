"""The join: labels that come late meet the predictions that wait for them (contract, section 2).

What is known of an instance is an entry of the stream's book: see `prequential.core.remembering`.
"""

from __future__ import annotations

from typing import Any

from prequential.core.completing import bare
from prequential.core.errors import Unusable
from prequential.core.model import Model
from prequential.core.outcomes import H_MASK, H_SHIFT
from prequential.core.remembering import (
    CLOCK_TOLERANCE,
    EXPIRED,
    LABELLED,
    REPEATED,
    SETTLED,
    WAITING,
    Entry,
    Remembering,
)
from prequential.core.shadow import SUFFIX, corrected
from prequential.core.stages import triples, views
from prequential.topics.decoding import INSTANCES, LABELS
from prequential.topics.messages import Instance, Label, Prediction


class Join(Remembering):
    """Instances, predictions and labels of one stream; completed outcomes go to its models."""

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
            self._note_instance(record)
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
        place = 2 if state != LABELLED else 3
        known = entry[place]
        t0 = entry[1] - horizon if state != LABELLED else entry[2]
        if known is not None and ts >= t0 and version <= known:
            self.duplicates[INSTANCES] += 1
            return
        self._note_instance(record)
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
        ts = time if record.ts is None else record.ts
        name = record.instance_id
        entry = self.book.get(name) or self._spilled(name)
        # Everything is checked before anything is added: a dead letter leaves no trace.
        if model is None:
            self._check_model(record.model)
        if h is None:
            target.check(record.y_pred, "y_pred")
        if entry is not None and len(entry) >= self._full and entry[0] <= REPEATED:
            self._check_predictions(entry, record, ts, time)
        if ts > self.clock:
            self._advance(ts, time)
            entry = self.book.get(name) or self._spilled(name)
        if entry is None:
            self.remember(1)
        if h is None:
            h = target.code(record.y_pred)
        if model is None:
            model = self._add_model(record.model)
        scored = None if target.scored is None else target.scored(record)
        if scored is not None and self.labels is not None:
            scored = (*scored, corrected(scored, self.classes, self.labels))
        if entry is None:
            if self.segments is not None:
                self.segments.note_prediction(name, model.code, record.segments)
            deadline = ts + self.config.label_horizon
            code: Any = h << H_SHIFT | self.baselines.packed
            if scored is not None:
                code = (code, scored)
            self.book[name] = (WAITING, deadline, None, model.code, ts, code)
            self._wait(model, ts)
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
            self._wait(model, ts)
            if self.segments is not None:
                self.segments.note_prediction(name, model.code, record.segments)
        elif self._repeats(entry, model, ts, h, scored):
            model.duplicate += 1
        else:
            self._further_prediction(name, entry, model, ts, h, scored)
            if self.segments is not None:
                self.segments.note_prediction(name, model.code, record.segments)

    def label(self, record: Label, time: int) -> None:
        """Process a label record with record time `time` (ms)."""
        self.target.check(record.y_true, "y_true")
        t1 = time if record.ts is None else record.ts
        if t1 > self.clock:
            self._advance(t1, time)
        name = record.instance_id
        entry = self.book.get(name) or self._spilled(name)
        if entry is None:
            self.remember(1)
        y = self.target.label(record.y_true)
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
        earlier = version is None and ts + horizon < deadline
        deadline = ts + horizon if earlier else deadline
        state = REPEATED if entry[0] == REPEATED or model.code in waiting[::3] else WAITING
        made: Any = h << H_SHIFT | self.baselines.packed
        if scored is not None:
            made = (made, scored)
        self.book[name] = (state, deadline, version, *waiting, model.code, ts, made)
        self._wait(model, ts)
        if earlier:
            self._run_out(deadline, name)

    def _check_predictions(self, entry: Entry, record: Prediction, ts: int, time: int) -> None:
        """Raise Unusable if the instance has as many predictions as it may, and will go on waiting."""
        if entry[1] < max(self.clock, min(ts, time + CLOCK_TOLERANCE)):
            return  # it expires first
        model, h = self.models.get(record.model), self.target.known(record.y_pred)
        if model is not None and h is not None:
            scored = None if self.target.scored is None else self.target.scored(record)
            if self._repeats(entry, model, ts, h, scored):
                return
        raise Unusable(
            f"instance {record.instance_id!r} has {len(entry) // 3 - 1} predictions waiting: "
            f"limits.predictions_per_instance is {self.limits.predictions_per_instance}"
        )

    def _repeats(self, entry: Entry, model: Model, ts: int, h: int, scored: Any) -> bool:
        """Whether it says what the model's latest prediction of this time says; before it others may have."""
        same_time = [made for code, at, made in triples(entry, 3) if (code, at) == (model.code, ts)]
        return bool(same_time) and self._same(same_time[-1], h, scored)

    def _same(self, made: Any, h: int, scored: Any) -> bool:
        """Whether a waiting prediction says the same class, or number."""
        if self._measures.regression:
            return bool(made[1] == scored)
        return bool((bare(made) & H_MASK) == h << H_SHIFT)

    def _prediction_after_label(
        self, name: str, entry: Entry, model: Model, ts: int, h: int, scored: Any
    ) -> None:
        """The label is known already, or its time is over."""
        if entry[0] == EXPIRED:
            model.expired += 1
            return
        if entry[0] == SETTLED:
            _, _, version, t1, _, y, baselines, ordinal, *_ = entry
            if ts > t1:
                model.late += 1
            elif model.code in entry[9::3]:
                model.duplicate += 1
            else:
                code = h << H_SHIFT | baselines
                judged = self.target.bits(y) + 1
                made: Any = code if scored is None else (code, scored)
                self._wait(model, ts)
                self._account(name, (model.code, ts, made), version, y, t1)
                self.book[name] = (*entry, model.code, ts, code | judged)
                self._log(name, t1, -1, ordinal, baselines | self.target.bits(y))
                self._complete_one(model, y, made)
                self._complete_afters(y, (model.code, ts, made), entry[8], t1, lead=False)
                self._complete_segments(model, name, y, (made,))
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
            self._wait(model, ts)
            made = h << H_SHIFT | self.baselines.packed  # it waits like any other, from now on
            made = made if scored is None else (made, scored)
            self._drop_label(name, (WAITING, deadline, version, model.code, ts, made))
            return
        self._settle(name, t1, t0, version, y, baselines, (model.code, ts, code), single=True)
        made = code if scored is None else (code, scored)
        self._wait(model, ts)
        self._account(name, (model.code, ts, made), version, y, t1)
        self._complete_one(model, y, made)
        self._complete_segments(model, name, y, (made,))
        self._complete_lead(y, (model.code, ts, code), t1, t1)
        self._complete_afters(y, (model.code, ts, made), t0, t1, lead=True)

    # ---- labels

    def _first_label(self, name: str, entry: Entry | None, y: Any, t1: int) -> None:
        horizon = self.config.label_horizon
        baselines = self.baselines.packed
        if entry is None:
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
        if waiting and max(waiting[1::3]) > t1:
            kept = self._drop_late(waiting, t1)
            if self.segments is not None:
                for code in set(waiting[::3]).difference(kept[::3]):
                    self.segments.drop_prediction(name, code)
            waiting = kept
        if waiting:
            self._account(name, waiting, version, y, t1)
            single = entry is not None and entry[0] == WAITING
            self._settle(name, t1, t0, version, y, baselines, waiting, single=single)
            if single:
                for code, prediction in zip(waiting[::3], waiting[2::3]):
                    self._complete_one(self.by_code[code], y, prediction)
                    self._complete_segments(self.by_code[code], name, y, (prediction,))
            elif t0 is not None:
                for code, view in views(waiting, t0, t1, self._bins).items():
                    self._complete_view(self.by_code[code], y, view)
                    self._complete_segments(self.by_code[code], name, y, view)
            self._complete_lead(y, waiting, t1 if single or t0 is None else t0, t1)
            self._complete_afters(y, waiting, t1 if t0 is None else t0, t1, lead=True)
        else:
            t0 = t0 if version is not None else None
            self.book[name] = (LABELLED, t1 + horizon, t0, version, t1, y, baselines)
            self._run_out(t1 + horizon, name)
            self.waiting_labels += 1

    def _drop_late(self, waiting: Entry, t1: int) -> Entry:
        """Count predictions made after the label; returns the others."""
        kept: list[Any] = []
        for code, ts, prediction in triples(waiting, 0):
            if ts > t1:
                self.by_code[code].late += 1
                self.by_code[code].coverage.late(ts)
                if (periods := self.by_code[code].periods) is not None:
                    periods.late(ts)
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
        *,
        single: bool,
    ) -> None:
        """Remember an evaluated instance, and log its completion."""
        deadline = self.clock + self.config.settle
        ordinal = self._completed
        self._completed = ordinal + 1
        if self.target.scored is not None:  # what was scored isn't needed any more
            waiting = tuple(map(bare, waiting))
        # Usual instances, which may come from columns, have no arrival any more: see `Columns.spill`.
        arrival = t1 if single and not self.after_stages else t0
        self.book[name] = (SETTLED, deadline, version, t1, y, y, baselines, ordinal, arrival) + waiting  # noqa: RUF005
        # What the columns hold may be due before this one, also where nothing else is in the book.
        self._settled_until = min(self._settled_until, deadline)
        self._settled.append(name)
        latency = t1 - t0 if t1 > t0 else 0
        self._log(name, t1, latency, ordinal, baselines | self.target.bits(y))

    def _revise(self, name: str, entry: Entry, y: Any) -> None:
        """A different label within `settle`: move the outcomes, keep what baselines saw."""
        self._revise_outcomes(name, entry, y)
        self.book[name] = (*entry[:5], y, *entry[6:])
        self.revisions += 1

    def _check_model(self, name: str) -> None:
        baselines = self.config.baselines
        if (
            any(name == companion.name for companion in self.companions)
            or (name.endswith("@random") and "random" in baselines)
            or (name.endswith(SUFFIX) and self.labels is not None)
        ):
            raise Unusable(f"model {name!r}: the name is that of something evaluated beside models")
        if name not in self.models and len(self.by_code) >= self.limits.models_per_stream:
            raise Unusable(
                f"model {name!r} is one too many: limits.models_per_stream is "
                f"{self.limits.models_per_stream}"
            )
