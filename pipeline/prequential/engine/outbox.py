"""Where a shard puts its outputs, and whether it reads messages from its state at all.

State is changed first; then messages about the new state are read, which changes nothing. A shard that
repeats what an earlier worker has published makes the same changes with a closed outbox, and reads none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ParamSpec

from prequential.topics.outputs import DeadLetter, Encoded, Output

_Parameters = ParamSpec("_Parameters")


class Outbox:
    """Outputs since the last flush.

    >>> outbox = Outbox()
    >>> outbox.close()
    >>> outbox.read(lambda: ["never called"]), outbox.is_empty
    ([], True)
    """

    def __init__(self) -> None:
        self.is_open = True
        self.messages: list[Output] = []
        self.dead_letters: list[DeadLetter] = []

    def open(self) -> None:
        """Take outputs from now on."""
        self.is_open = True

    def close(self) -> None:
        """Drop outputs from now on."""
        self.is_open = False

    def read(
        self, function: Callable[_Parameters, list[Encoded]], *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> list[Encoded]:  # fmt: skip
        """Return the messages that a function reads from the state; a closed outbox doesn't call it."""
        return function(*args, **kwargs) if self.is_open else []

    def add(self, messages: Iterable[Output]) -> None:
        """Append messages, or drop them."""
        if self.is_open:
            self.messages += messages

    def refuse(self, letter: DeadLetter) -> None:
        """Append a dead letter, or drop it."""
        if self.is_open:
            self.dead_letters.append(letter)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to flush."""
        return not (self.messages or self.dead_letters)

    def __len__(self) -> int:
        return len(self.messages) + len(self.dead_letters)

    def flush(self) -> list[Output]:
        """Return and forget the outputs: dead letters by topic and offset, then messages."""
        letters = sorted(self.dead_letters, key=lambda letter: (letter.kind, letter.offset))
        outputs = [*letters, *self.messages]
        self.dead_letters, self.messages = [], []
        return outputs
