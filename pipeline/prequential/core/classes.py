"""The classes of a stream: names to small codes, in the order in which they were first seen."""

from __future__ import annotations

from typing import Any

from prequential.core.errors import Unusable


class Classes:
    """Codes 0, 1, 2, … for class names; a name is a string, `true` or `false`, or an integer's digits.

    >>> classes = Classes(limit=2)
    >>> classes.code("UP"), classes.code(True), classes.code("true")
    (0, 1, 1)
    >>> classes.code(7)
    Traceback (most recent call last):
    ...
    prequential.core.errors.Unusable: class '7' is one too many: limits.classes_per_stream is 2
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.names: list[str] = []
        #: Class name to code; callers on the hot path look here first.
        self.codes: dict[Any, int] = {}

    def check(self, value: str | int | bool | float) -> None:
        """Raise Unusable where `code` would; nothing is added."""
        name = value if type(value) is str else class_name(value)
        if name not in self.codes and len(self.names) >= self.limit:
            raise Unusable(f"class {name!r} is one too many: limits.classes_per_stream is {self.limit}")

    def code(self, value: str | int | bool | float) -> int:
        """The code of a class as it stands in a message; raises Unusable."""
        name = value if type(value) is str else class_name(value)
        code = self.codes.get(name)
        if code is not None:
            return code
        self.check(name)
        return self.add(name)

    @property
    def capacity(self) -> int:
        """Room for classes in confusion matrices: the next power of two, at least 2."""
        return max(2, 1 << (len(self.names) - 1).bit_length())

    def add(self, name: str) -> int:
        """The code of a class name, whatever the limit."""
        code = self.codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code

    def snapshot(self) -> list[str]:
        return list(self.names)

    def restore(self, state: Any) -> None:
        self.names[:] = state
        self.codes.clear()  # others hold on to it
        self.codes.update({name: code for code, name in enumerate(state)})


def class_name(value: str | int | bool | float) -> str:
    """A class as output shows it; raises Unusable for a fraction.

    >>> class_name(True), class_name(3), class_name("3")
    ('true', '3', '3')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise Unusable(f"class {value!r} is a fraction: expected a string, an integer or a boolean")
