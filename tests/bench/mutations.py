"""Mutations: the small errors in a file of the engine that `tests.bench.mutants` makes, one at a time."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

#: Each operator's replacement.
_PAIRS = (
    "Lt LtE, Gt GtE, Eq NotEq, Is IsNot, In NotIn, Add Sub, Mult Div, LShift RShift, BitAnd BitOr, And Or"
)
_OTHER = {"FloorDiv": "Mult", "Mod": "Mult", "Pow": "Mult", "BitXor": "BitAnd"}
for _one, _two in map(str.split, _PAIRS.split(",")):
    _OTHER |= {_one: _two, _two: _one}


class Mutant(NamedTuple):
    """One change of a file; `place` is where the function around it begins."""

    path: Path
    place: str
    line: int
    change: str
    source: str

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}:{self.line}: {self.change}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    source = path.read_text(encoding="utf-8")
    raw, starts = source.encode(), [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, new, first in _changes_below(ast.parse(source), 0):
        start, end = (starts[line - 1] for line in (node.lineno, node.end_lineno))
        text = ast.unparse(new) + "\n" * (node.end_lineno - node.lineno)  # other functions keep their lines
        text = f"({text})" if isinstance(node, ast.expr) and not isinstance(new, ast.Constant) else text
        mutated = (raw[: start + node.col_offset] + text.encode() + raw[end + node.end_col_offset :]).decode()
        before, after = (code.split("\n")[node.lineno - 1].strip() for code in (source, mutated))
        yield Mutant(path, f"{path}:{first}", node.lineno, f"{before}  ->  {after}", mutated)


def _changes_below(node: ast.AST, first: int) -> Iterator[tuple[Any, ast.AST, int]]:
    """Nodes in functions, what replaces them, and the function's first line: no types, no defaults."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            inside = first_line(child) if isinstance(child, ast.FunctionDef) else first
            if inside:
                yield from ((child, new, inside) for new in _changes(child))
                if isinstance(child, (ast.If, ast.While, ast.IfExp)):
                    yield child.test, ast.UnaryOp(ast.Not(), child.test), inside
            yield from _changes_below(child, inside)


def _changes(node: Any) -> Iterator[ast.AST]:
    """What stands in a node's place in its mutants."""
    other = copy.copy(node)
    if isinstance(node, ast.Compare):
        other.ops = [getattr(ast, _OTHER[type(node.ops[0]).__name__])(), *node.ops[1:]]
        yield other
    elif isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)):
        other.op = getattr(ast, _OTHER[type(node.op).__name__])()
        yield from [other, ast.Pass()] if isinstance(node, ast.AugAssign) else [other]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield from (ast.Constant(node.value + 1), ast.Constant(node.value - 1))
    elif isinstance(node, ast.Return) and node.value and not isinstance(node.value, ast.Constant):
        yield ast.Return(ast.Constant(0))
    elif (
        isinstance(node, (ast.Continue, ast.Break, ast.Raise))
        or (isinstance(node, ast.Assign) and not isinstance(node.targets[0], (ast.Name, ast.Tuple)))
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    ):
        yield ast.Pass()


def first_line(node: ast.FunctionDef) -> int:
    """Where a function begins, with its decorators."""
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def codes_of(code: CodeType) -> Iterator[tuple[tuple[int, str], CodeType]]:
    """A code and all codes in it, by where they begin."""
    yield (code.co_firstlineno, code.co_name), code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from codes_of(part)


def reporting(path: Path) -> ast.Module:
    """The code of a file whose functions add their places to `_calls`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            place = f"{path}:{first_line(node)}"
            node.body.insert(0, ast.parse(f"_calls.add({place!r})").body[0])
    return tree
