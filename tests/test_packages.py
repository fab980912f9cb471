"""The picture shows the contracts, which name all packages; names of classes are unique, functions short."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.bench import mutants
from tests.packages import PICTURE, ROOT, contracts, drawn, layers

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with 3.11")


def test_the_picture_shows_the_contracts() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawn(), "run tests/packages.py"


def test_the_contracts_name_all_packages() -> None:
    """A package without modules of its own stands for those in it."""
    every, engine = ([name for layer in layers(one) for name in layer] for one in contracts())
    root = ROOT / "pipeline" / "prequential"
    found = set()
    for init in (*root.glob("*/__init__.py"), *root.glob("*/*/__init__.py")):
        folder, outer = init.parent, init.parents[1]
        holds_packages_only = folder != root / "engine" and any(folder.glob("*/__init__.py"))
        if not holds_packages_only and outer != root / "engine":
            found.add(folder.relative_to(root).as_posix())
    for file in root.glob("*/*.py"):  # modules beside packages
        folder = file.parent
        if file.stem != "__init__" and folder.name != "engine" and any(folder.glob("*/__init__.py")):
            found.add(file.relative_to(root).with_suffix("").as_posix())
    assert sorted(every) == sorted(found | {"topics"})
    inside = {folder.parent.name for folder in (root / "engine").glob("*/__init__.py")}
    inside |= {file.stem for file in (root / "engine").glob("*.py")} - {"__init__"}
    assert sorted(engine) == sorted(inside)


def test_an_installation_has_all_packages() -> None:
    """Tests run on the sources: nothing else notices a folder that an installation lacks."""
    import tomllib

    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(content["tool"]["setuptools"]["packages"])
    for root in (ROOT / "pipeline", ROOT / "topics"):
        for init in root.rglob("__init__.py"):
            name = ".".join(init.parent.relative_to(root).parts)
            assert name in listed, f"pyproject.toml lists no package {name}: tool.setuptools.packages"


def _parsed() -> Iterator[tuple[str, ast.Module]]:
    """The product's files by their paths."""
    for root in ("pipeline", "topics"):
        for path in sorted((ROOT / root).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def test_no_two_classes_have_one_name() -> None:
    """A reader should not have to look up the module to know which class is meant."""
    nodes = (one for _, tree in _parsed() for one in ast.walk(tree))
    names = Counter(one.name for one in nodes if isinstance(one, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} == set()


#: The most lines of a function below its docstring, and the most blocks within each other.
MOST_LINES, DEEPEST = 60, 4

#: `path::function` and why it exceeds a limit.
EXCEPTIONS: dict[str, str] = {}

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try)


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines below the docstring, with comments and empty lines."""
    first = function.body[0]
    assert function.end_lineno is not None
    assert first.end_lineno is not None
    has_docstring = ast.get_docstring(function) is not None
    return function.end_lineno - (first.end_lineno if has_docstring else first.lineno - 1)


def _depth(node: ast.AST) -> int:
    """How many blocks are within each other; `elif` counts as its `if`; functions within count separately."""
    deepest = 0
    for field, value in ast.iter_fields(node):
        children = [one for one in value if isinstance(one, ast.AST)] if isinstance(value, list) else [value]
        for child in children:
            if not isinstance(child, ast.AST) or isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
                continue
            is_elif = isinstance(node, ast.If) and field == "orelse" and isinstance(child, ast.If)
            is_elif = is_elif and len(children) == 1
            deepest = max(deepest, _depth(child) + (isinstance(child, _BLOCKS) and not is_elif))
    return deepest


def _excess(name: str, tree: ast.Module) -> dict[str, str]:
    """By function that exceeds a limit, by how much."""
    found = {}
    for function in ast.walk(tree):
        if isinstance(function, _FUNCTIONS):
            lines, depth = _lines(function), _depth(function)
            if lines > MOST_LINES or depth > DEEPEST:
                found[f"{name}::{function.name}"] = f"{lines} lines, {depth} blocks within each other"
    return found


def test_functions_are_short_and_flat() -> None:
    """A reader should understand a function at the first reading."""
    found = {one: excess for name, tree in _parsed() for one, excess in _excess(name, tree).items()}
    assert {one: excess for one, excess in found.items() if one not in EXCEPTIONS} == {}, (
        f"expected at most {MOST_LINES} lines and {DEEPEST} blocks: extract a step with a name of its own"
    )
    assert set(EXCEPTIONS) <= set(found), "an exception isn't needed any more"


def test_the_limits_of_functions_are_checked() -> None:
    """At each limit a function passes, and beyond it fails."""

    def excess(body: str) -> dict[str, str]:
        return _excess("f.py", ast.parse(f'def f(x):\n    """Text.\n\n    More.\n    """\n{body}'))

    assert not excess("    pass\n" * MOST_LINES)
    assert excess("    pass\n" * (MOST_LINES + 1)) == {"f.py::f": "61 lines, 0 blocks within each other"}
    heads = ("if x:", "for x in x:", "while x:", "with x:")
    nested = "".join("    " * level + head + "\n" for level, head in enumerate(heads, 1))
    inside = "    " * (len(heads) + 1)
    assert not excess(f"{nested}{inside}pass")
    assert excess(f"{nested}{inside}try:\n{inside}    pass\n{inside}finally:\n{inside}    pass")
    assert not excess("    if x:\n        pass\n" + "    elif x:\n        pass\n" * 5)


def test_mutants_are_given_to_tests_that_exist() -> None:
    for test in mutants.tests():
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / file).read_text("utf-8"), test
