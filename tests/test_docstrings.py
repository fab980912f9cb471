"""Docstrings of what another package calls: they say what comes back, in which shape, and what is raised.

ruff says that there are docstrings and how they are laid out (`D` in `pyproject.toml`); here it is what
callers elsewhere can't do without. A function or class counts as called if another package imports it, a
public method if its class is imported elsewhere and another package has an attribute of its name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
#: Packages that hold others.
_OUTER = {folder.parent.parent.name for folder in (ROOT / "pipeline/prequential").glob("*/*/__init__.py")}

#: Characters of prose below which nothing is said of a value beyond its name.
_LEAST = 40

#: Types of arrays, as annotations name them: of these one has to know what the axes are.
_ARRAYS = {"Ints", "Ints32", "Floats", "Bytes", "Words", "Shorts", "NDArray"}

#: Values that a sentence of any length can describe.
_PLAIN = {"None", "bool", "Iterator[Table]"}

#: `(n,)`, `(rows, width)`, `(4·k²,)`.
_SHAPE = re.compile(r"\((?:[^()\s,][^()]*)?,[^()]*\)")

#: A program's error, or one that says that a method isn't there: no part of what callers have to know.
_NOT_SAID = {"AssertionError", "Fault", "NotImplementedError"}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Called(NamedTuple):
    """What another package calls."""

    module: str
    name: str
    node: Definition

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


def package(module: str) -> str:
    """The innermost package of a module; a module that stands directly in `engine` counts as one."""
    parts = module.split(".")
    return ".".join(parts[: 3 if set(parts[1:2]) & _OUTER else 2])


@cache
def modules() -> dict[str, ast.Module]:
    """All modules by name."""
    found = {}
    for base in (ROOT / "pipeline", ROOT / "topics"):
        for path in sorted(base.rglob("*.py")):
            name = ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def uses(module: str) -> Iterator[tuple[str, str]]:
    """Modules of other packages, and names in them, that a module uses."""
    tree, known, aliases = modules()[module], modules(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                if f"{node.module}.{one.name}" in known:
                    aliases[one.asname or one.name] = f"{node.module}.{one.name}"
                elif node.module in known:
                    yield node.module, one.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            yield aliases[node.value.id], node.attr


def definition(module: str, name: str) -> Called | None:
    """Where a name is defined that a module has, maybe by an import of its own."""
    for node in modules()[module].body:
        if isinstance(node, Definition) and node.name == name and not _is_overload(node):
            return Called(module, name, node)
        if isinstance(node, ast.ImportFrom) and node.module in modules():
            for one in node.names:
                if (one.asname or one.name) == name:
                    return definition(node.module, one.name)
    return None


@cache
def called() -> tuple[Called, ...]:
    """All that is called from another package."""
    attributes: dict[str, set[str]] = {}
    found: dict[str, Called] = {}
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                attributes.setdefault(node.attr, set()).add(package(module))
        for other, name in uses(module):
            one = definition(other, name) if package(other) != package(module) else None
            if one is not None and not name.startswith("_"):
                found[str(one)] = one
    for one in list(found.values()):
        for node in one.node.body if isinstance(one.node, ast.ClassDef) else ():
            if (
                isinstance(node, Definition)
                and not (node.name.startswith("_") or _is_setter(node))
                and attributes.get(node.name, set()) - {package(one.module)}
            ):
                method = Called(one.module, f"{one.name}.{node.name}", node)
                found[str(method)] = method
    return tuple(found.values())


def _is_setter(node: Definition) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr == "setter" for one in node.decorator_list)


def _is_overload(node: Definition) -> bool:
    """Whether it only has types; what it does is described where it is implemented."""
    return any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list)


def prose(node: Definition) -> str:
    """The docstring without its examples."""
    text = ast.get_docstring(node) or ""
    return text.partition("\nExamples\n---")[0].partition(">>> ")[0].strip()


def lacks(node: Definition) -> list[str]:
    """What a docstring doesn't say."""
    said, found = prose(node), []
    if isinstance(node, ast.ClassDef):
        return [] if len(said) >= _LEAST / 2 else ["what it is"]
    returned = ast.unparse(node.returns) if node.returns else "None"
    if len(said) < (_LEAST / 2 if returned in _PLAIN else _LEAST) and "Returns\n---" not in said:
        found.append("what is returned, or done")
    if {one.strip() for one in returned.split("|")} & _ARRAYS and not _SHAPE.search(said):
        found.append("the shape of the array that is returned")
    for error in raised(node):
        if error not in said:
            found.append(f"that it raises {error}")
    return found


def raised(node: ast.AST) -> Iterator[str]:
    """Names of the exceptions that a function's own lines raise and don't catch again."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition | ast.Lambda):
            continue
        if isinstance(child, ast.Raise) and child.exc is not None:
            error = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
            name = ast.unparse(error).rpartition(".")[2]
            if name[:1].isupper() and name not in _NOT_SAID:
                yield name
        if not isinstance(child, ast.Try):
            yield from raised(child)
        else:  # what is raised under `try` may be meant for its own handlers
            for part in (*child.handlers, *child.orelse, *child.finalbody):
                yield from raised(part)


@pytest.mark.slow
def test_what_another_package_calls_is_described() -> None:
    flaws = [f"{one}: the docstring doesn't say {what}" for one in called() for what in lacks(one.node)]
    assert not flaws, "\n".join(flaws)


@pytest.mark.parametrize(
    ("source", "flaws"),
    [
        ("def f() -> int:\n    'The number.'", ["what is returned, or done"]),
        ("def f() -> None:\n    'Count a record that is dropped.'", []),
        ("def f() -> Ints:\n    'The rows of all models, (n,) int64, in order of their names.'", []),
        ("def f() -> Ints | None:\n    'The rows of all models in order of their names.'",
         ["the shape of the array that is returned"]),
        ("def f(x: int) -> int:\n    'Twice x, which is a whole number above 0.'\n    raise ValueError(x)",
         ["that it raises ValueError"]),
        ("def f(x: int) -> int:\n    'Twice the number x; raises ValueError for 0.'\n    raise ValueError",
         []),
        ("def f(x: int) -> int:\n    'Twice the number x, which must be above 0.'\n    raise ValueError",
         ["that it raises ValueError"]),
        ("class A:\n    'An A.'", ["what it is"]),
    ],
)  # fmt: skip
def test_what_is_asked_of_a_docstring(source: str, flaws: list[str]) -> None:
    node = ast.parse(source).body[0]
    assert isinstance(node, Definition)
    assert lacks(node) == flaws


@pytest.mark.slow
def test_calls_are_found() -> None:
    assert package("prequential.runtime.worker.shards") == "prequential.runtime.worker"
    assert package("prequential.engine.join.join") == "prequential.engine.join"
    assert package("prequential.engine.state") == "prequential.engine.state"
    names = {str(one) for one in called()}
    assert {"prequential.engine.shard.Shard", "prequential.engine.compiled.kernel.grown"} <= names
    assert "prequential.engine.shard.Shard.snapshot" in names
    assert "prequential.engine.join.join._too_many" not in names
