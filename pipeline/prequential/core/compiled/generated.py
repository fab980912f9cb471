"""Loops that are written from declarations: straight lines of Python, which are then compiled as others are.

A compiled loop can't go over a list of functions: each call must stand in its source.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def written(
    name: str, parameters: str, lines: Sequence[str], given: Mapping[str, Any], module: str, file: str
) -> Callable[..., Any]:
    """A function with these lines as its body; `given` are the names that they use.

    `module` and `file` are the caller's `__name__` and `__file__`: with that file, and those that it imports,
    what is compiled of the function is dropped from the cache (`prequential.core.compiled.loopcache`). A
    digest in its name tells apart what is written from other declarations.

    >>> twice = written("twice", "x", ["return add(x, x)"], {"add": lambda a, b: a + b}, __name__, __file__)
    >>> twice(2), twice.__name__[:6]
    (4, 'twice_')
    """
    body = "\n    ".join(lines) if lines else "pass"
    digest = hashlib.sha256(f"{parameters}\n{body}".encode()).hexdigest()[:16]
    name = f"{name}_{digest}"
    source = f"def {name}({parameters}):\n    {body}\n"
    names = {**given, "__name__": module, "__file__": file}
    exec(compile(source, file, "exec"), names)  # the lines are ours
    function: Callable[..., Any] = names[name]
    return function
