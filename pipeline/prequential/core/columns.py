"""The usual instances of a stream, in columns: one slot each, ready for whole rounds at once.

Usual is: predictions wait, at most one of each model, or a label has met them. Everything else is an
entry of the book (see `prequential.core.remembering`), and what is here becomes one when a record comes
that needs care: it is *spilled*. Columns take less than half of the memory, and a copy of millions of
slots takes milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from prequential.core.arrays import Ints, Packed
from prequential.core.stages import triples

#: What a slot is: nothing; an instance whose predictions wait, or whose outcomes have been made; or
#: one of the latter whose entry is in the book, until its time is over.
FREE, WAITING, SETTLED, SPILLED = range(4)

#: In place of a version, a time, a deadline that isn't there.
NONE = -(1 << 63)
FAR = 1 << 62

#: The slot of names that have none: always odd.
NOWHERE = 0

_LABEL = 0xFFFF

#: Names of the columns of which a snapshot is made, in its order.
_SAVED = ("state", "deadline", "version", "t1", "label", "ordinal")

#: Columns by slot: what a slot begins with, and the type.
_COLUMNS: dict[str, tuple[int, type]] = {
    "state": (FREE, np.uint8), "deadline": (FAR, np.int64), "version": (NONE, np.int64),
    "t1": (0, np.int64), "label": (0, np.uint64), "ordinal": (0, np.int64),
    "newest": (NONE, np.int64), "soonest": (FAR, np.int64), "label_at": (FAR, np.int64),
    "odd": (False, np.bool_),
}  # fmt: skip

#: Slots of a small stream, and of a large one: from then on columns are long enough for huge pages,
#: and memory behind the slots that there are isn't touched, so room costs nothing.
_SMALL, _LARGE = 1 << 16, 1 << 20


def _capacity(slots: int) -> int:
    """Room for so many slots, and for some time."""
    needed = 1 << max(6, (slots - 1).bit_length())
    if needed < _SMALL:
        return min(_SMALL, 2 * needed)
    return max(_LARGE, needed)


class Columns:
    """Slots by name; `state`, `deadline`, … by slot; `ts` and `code` by slot and model.

    A settled slot's `label` is the label's class and the baselines before it, packed. `code` is a
    prediction's class and the baselines when it was processed, as in the book.
    """

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        self.names: list[str] = [""]
        self.state: npt.NDArray[np.uint8]
        self.deadline: Ints
        self.version: Ints
        self.t1: Ints
        self.label: Packed
        self.ordinal: Ints
        self.newest: Ints  # largest time of a slot's predictions
        # Scratch, in use only within one round:
        self.soonest: Ints
        self.label_at: Ints
        self.odd: npt.NDArray[np.bool_]
        self.ts: Ints
        self.code: Packed
        self._capacity = 0
        self._free: list[int] = []
        #: Settled slots in order of their deadlines, in pieces.
        self._settled: deque[tuple[Ints, Ints]] = deque()
        self.models = 0
        self._begun = 0  # slots that are initialised
        self._resize(_capacity(0), 2)
        self._begin()
        self.odd[NOWHERE] = True

    def __len__(self) -> int:
        return len(self.slots)

    # ---- room

    def _resize(self, capacity: int, models: int) -> None:
        """Columns of that length, uninitialised behind the slots that there are."""
        known = self._begun
        for name, (_, dtype) in _COLUMNS.items():
            column: npt.NDArray[Any] = np.empty(capacity, dtype=dtype)
            if known:
                column[:known] = getattr(self, name)[:known]
            setattr(self, name, column)
        ts = np.empty((capacity, models), dtype=np.int64)
        code = np.empty((capacity, models), dtype=np.uint64)
        ts[:known], code[:known] = NONE, 0
        if known:
            ts[:known, : self.models] = self.ts[:known]
            code[:known, : self.models] = self.code[:known]
        self.ts, self.code = ts, code
        self._capacity, self.models = capacity, models

    def _begin(self) -> None:
        """Initialise the columns for the slots that `names` has and they haven't."""
        fresh = slice(self._begun, len(self.names))
        if len(self.names) > self._capacity:
            self._resize(_capacity(len(self.names)), self.models)
        for name, (fill, _) in _COLUMNS.items():
            getattr(self, name)[fresh] = fill
        self.ts[fresh], self.code[fresh] = NONE, 0
        self._begun = len(self.names)

    def make_room(self, models: int) -> None:
        """Have columns for that many models."""
        if models > self.models:
            self._resize(self._capacity, 1 << (models - 1).bit_length())

    def add(self, names: Sequence[str]) -> Ints:
        """The slots of names; a name that has none is given one, FREE until something is known."""
        again = min(len(self._free), len(names))
        offered = self._free[len(self._free) - again :]
        del self._free[len(self._free) - again :]
        first = len(self.names)
        offered += range(first, first + len(names) - again)
        slots = np.fromiter(map(self.slots.setdefault, names, offered), np.int64, len(names))
        self.names += names[again:]
        self._begin()
        declined = np.flatnonzero(slots != offered)  # by names that had one
        for slot, name in zip(offered, names[:again]):
            self.names[slot] = name
        self._free += map(offered.__getitem__, declined.tolist())
        return slots

    def release(self, slots: Ints) -> None:
        """Nothing is known any more of what was in these slots; their names are forgotten already."""
        self._clear(slots)
        self._free += slots.tolist()

    def _release_one(self, slot: int) -> None:
        """`release`, without numpy's cost for arrays of one."""
        self._clear(slot)
        self._free.append(slot)

    def _clear(self, which: Ints | int) -> None:
        self.state[which] = FREE
        self.deadline[which] = FAR
        self.version[which] = NONE
        self.newest[which] = NONE
        self.ts[which] = NONE

    # ---- to and from the book

    def adopt(self, name: str, entry: Sequence[int]) -> None:
        """Take a waiting entry of the book over."""
        slot = int(self.add([name])[0])
        _, deadline, version, *predictions = entry
        self.state[slot] = WAITING
        self.deadline[slot] = deadline
        self.version[slot] = NONE if version is None else version
        for code, ts, prediction in triples(predictions, 0):
            self.ts[slot, code] = ts
            self.code[slot, code] = prediction
        self.newest[slot] = max(predictions[1::3], default=NONE)

    def spill(self, name: str) -> tuple[int, list[int | None]] | None:
        """Take what is known of a name out: its state, and its entry from the deadline on.

        None if nothing is known of it.
        """
        slot = self.slots.pop(name, NOWHERE)
        if slot == NOWHERE:
            return None
        state = int(self.state[slot])
        if state == FREE:
            self._release_one(slot)
            return None
        version = int(self.version[slot])
        entry: list[int | None] = [int(self.deadline[slot]), None if version == NONE else version]
        if state == SETTLED:
            label = int(self.label[slot])
            y = label & _LABEL
            t1 = int(self.t1[slot])
            # Where one prediction counts in every stage, arrival doesn't matter any more.
            entry += [t1, y, y, label & ~_LABEL, int(self.ordinal[slot]), t1]
        for model, (ts, code) in enumerate(zip(self.ts[slot].tolist(), self.code[slot].tolist())):
            if ts != NONE:
                entry += [model, ts, code]
        if state == SETTLED:
            self.state[slot] = SPILLED  # its time is over when it would have been
        else:
            self._release_one(slot)
        return state, entry

    def deadline_of(self, name: str) -> int | None:
        """The deadline of a name that waits."""
        slot = self.slots.get(name, NOWHERE)
        return int(self.deadline[slot]) if self.state[slot] == WAITING else None

    # ---- settled

    def settle(self, slots: Ints, deadlines: Ints) -> None:
        """These slots have become settled; deadlines never decrease."""
        self.state[slots] = SETTLED
        self.deadline[slots] = deadlines
        self._settled.append((deadlines, slots))

    @property
    def settled_until(self) -> int:
        """Deadline of the first settled slot."""
        return int(self._settled[0][0][0]) if self._settled else FAR

    def forget(self, clock: int) -> tuple[int, list[str]]:
        """Forget settled slots whose deadline lies before `clock`: how many, and which were spilled."""
        gone = 0
        spilled: list[str] = []
        while self.settled_until < clock:
            deadlines, slots = self._settled.popleft()
            over = int(np.searchsorted(deadlines, clock))
            if over < len(slots):
                self._settled.appendleft((deadlines[over:], slots[over:]))
                slots = slots[:over]
            there = self.state[slots] == SETTLED
            if there.all():
                names = self.names_of(slots)
            else:
                names = self.names_of(slots[there])
                spilled += self.names_of(slots[~there])
            deque(map(self.slots.__delitem__, names), maxlen=0)
            self.release(slots)
            gone += len(slots)
        return gone, spilled

    def names_of(self, slots: Ints) -> list[str]:
        """The names in slots."""
        return list(map(self.names.__getitem__, slots.tolist()))

    # ---- snapshot

    def copy(self) -> dict[str, Any]:
        """Everything that is known, as it is now: see `parts_of`."""
        state = self.state[: self._begun]
        known = np.flatnonzero((state == WAITING) | (state == SETTLED))
        copied: dict[str, Any] = {name: getattr(self, name)[known] for name in _SAVED}
        copied["names"] = self.names.copy()
        copied["slots"] = known
        copied["ts"], copied["code"] = self.ts[known], self.code[known]
        return copied

    @staticmethod
    def parts_of(copied: dict[str, Any], size: int) -> Iterator[list[object]]:
        """A copy in parts of `size` slots: names, models, then the columns' bytes."""
        columns = dict(copied)
        names = columns.pop("names")
        slots = columns.pop("slots").tolist()
        for start in range(0, len(slots), size):
            part = slice(start, start + size)
            yield [
                list(map(names.__getitem__, slots[part])),
                columns["ts"].shape[1],
                *(column[part].tobytes() for column in columns.values()),
            ]

    def restore(self, part: Sequence[Any], moved: int) -> None:
        """Take a part of a copy over; deadlines of what waits move by `moved` ms."""
        names, models = part[:2]
        slots = self.add(names)
        self.make_room(models)
        for name, saved in zip(_SAVED, part[2:]):
            column = getattr(self, name)
            column[slots] = np.frombuffer(saved, dtype=column.dtype)
        for name, saved in zip(("ts", "code"), part[2 + len(_SAVED) :]):
            column = getattr(self, name)
            column[slots, :models] = np.frombuffer(saved, dtype=column.dtype).reshape(-1, models)
        self.newest[slots] = self.ts[slots].max(axis=1)
        self.deadline[slots[self.state[slots] == WAITING]] += moved

    def restored(self) -> None:
        """All parts are here: put what is settled in order of its deadlines."""
        slots = np.flatnonzero(self.state[: self._begun] == SETTLED)
        if len(slots):
            slots = slots[np.argsort(self.deadline[slots], kind="stable")]
            self._settled.append((self.deadline[slots], slots))

    def waiting(self) -> Ints:
        """The slots in which predictions wait."""
        return np.flatnonzero(self.state[: self._begun] == WAITING)
