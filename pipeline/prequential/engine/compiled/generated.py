"""Writes loops from declarations, as straight lines of Python, which are then compiled like other loops.

A compiled loop can't iterate over a list of functions: its source must contain each call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def written(
    name: str, parameters: str, lines: Sequence[str], given: Mapping[str, Any], module: str, file: str
) -> Callable[..., Any]:
    """A function with these lines as its body; `given` has the names that they use.

    `module` and `file` are the caller's `__name__` and `__file__`. The cache drops the compiled function when
    that file, or a file that it imports, changes (`engine.compiled.loopcache`). The function's name
    contains a digest of its source, which distinguishes functions from different declarations.

    >>> twice = written("twice", "x", ["return add(x, x)"], {"add": lambda a, b: a + b}, __name__, __file__)
    >>> twice(2), twice.__name__[:6]
    (4, 'twice_')
    """
    body = "\n    ".join(lines) if lines else "pass"
    digest = hashlib.sha256(f"{parameters}\n{body}".encode()).hexdigest()[:16]
    name = f"{name}_{digest}"
    source = f"def {name}({parameters}):\n    {body}\n"
    names = {**given, "__name__": module, "__file__": file}
    exec(compile(source, file, "exec"), names)  # the lines come from this program, not from users
    function: Callable[..., Any] = names[name]
    return function
