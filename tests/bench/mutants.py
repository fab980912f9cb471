"""Mutation testing of the engine: the share of small errors in the code that the tests find.

A mutant is a copy of the sources with one change. It is killed if a test fails or takes too long. Mutants are
drawn by a seed, with equal numbers for all packages. First, each test runs once on unchanged sources, which
gives its time and the functions that it calls. Then each mutant runs the tests that call its function, the
fastest first. Loops run as plain Python, because compiling them for each mutant would take minutes.

Usage: `python -m tests.bench.mutants --mutants 150 --seed 1 [--only TEXT] [--tests FILES]`; `--help` has the rest.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[2]
ENGINE = "pipeline/prequential/engine"
PACKAGES = ("join", "estimators", "measures", "detectors", "comparisons")

#: What each process would import again otherwise; the product itself is imported from the mutant's copy.
_LIBRARIES = ("numba", "hypothesis.strategies", "rich.progress", "confluent_kafka", "playwright.sync_api")

#: Survivors that no test can find, by file and changed code, with the reason.
EQUIVALENT = ROOT / "tests" / "bench" / "equivalent_mutants.json"

#: Processor seconds: tests that take longer are left out, and so is what comes after so many of a file.
_LONGEST, _PER_FILE = 4.0, 8.0

#: Examples of Hypothesis, the same in each run: a mutant that lives through these rarely dies of more.
_EXAMPLES = 6

#: Tests of these packages that run in seconds.
TESTS = [
    *(f"tests/tables/test_{name}.py" for name in (
        "measure_kernels", "page_hinkley", "run_lengths", "signals", "harm_detector", "estimator_tables", "detectors",
    )),
    *(f"tests/engine/test_{name}.py" for name in (
        "transitions", "measures", "label_sets", "q_mcnemar", "confidence_sequence", "stages", "residuals",
        "comparisons", "shard_against_oracle", "withdrawn", "scores", "estimators",
    )),
]  # fmt: skip


class _TooLongError(BaseException):
    """A test takes too long; neither tests nor Hypothesis catch it."""


def _stop(*_: Any) -> None:
    raise _TooLongError


_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of a file: a line before and after, the first line of the function around, all of the file."""

    file: str
    line: int
    function: int
    before: str
    after: str
    source: str

    @property
    def package(self) -> str:
        return self.file.split("/")[3]


def mutants_of(file: str) -> Iterator[Mutant]:
    """All mutants of a file."""
    source = (ROOT / file).read_text(encoding="utf-8")
    raw = source.encode()
    starts = [0]
    for text in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(text))
    for node, changed, function in _changes_below(ast.parse(source), 0):
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        text = ast.unparse(changed)
        if isinstance(node, ast.expr) and not isinstance(changed, ast.Constant):
            text = f"({text})"
        mutated = (raw[:start] + text.encode() + raw[end:]).decode()
        before, after = (code.split("\n")[node.lineno - 1].strip() for code in (source, mutated))
        yield Mutant(file, node.lineno, function, before, after, mutated)


def _changes_below(node: ast.AST, function: int) -> Iterator[tuple[Any, ast.AST, int]]:
    """Nodes that run, what replaces them, the first line of the function around: no types, no decorators."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or (isinstance(child, ast.If) and "TYPE_CHECK" in ast.unparse(child.test)):
                continue
            inside = function
            if isinstance(child, ast.FunctionDef):
                inside = min([child.lineno, *(one.lineno for one in child.decorator_list)])
            if isinstance(child, (ast.expr, ast.stmt)):
                yield from ((child, changed, inside) for changed in _changes(child))
            if isinstance(child, (ast.If, ast.While, ast.IfExp)):
                yield child.test, ast.UnaryOp(ast.Not(), child.test), inside
            if not isinstance(child, ast.JoinedStr):
                yield from _changes_below(child, inside)


def _changes(node: Any) -> Iterator[ast.AST]:
    """What stands in a node's place in its mutants."""

    def changed(**fields: Any) -> ast.AST:
        other = copy.copy(node)
        other.__dict__.update(fields)
        return other

    if isinstance(node, ast.Compare):
        yield changed(ops=[_OTHER[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in _OTHER:
        if not any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(node)):
            yield changed(op=_OTHER[type(node.op)]())
    elif isinstance(node, ast.AugAssign):
        yield changed(op=_OTHER[type(node.op)]())
        yield ast.Pass()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        is_bool = isinstance(node.value, bool)
        yield from (ast.Constant(one) for one in ([not node.value] if is_bool else [node.value + 1, node.value - 1]))
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield ast.Return(ast.Constant(0))
    elif isinstance(node, (ast.Continue, ast.Break, ast.Raise)) or (
        isinstance(node, ast.Assign) and not isinstance(node.targets[0], (ast.Name, ast.Tuple))
    ) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):  # fmt: skip
        yield ast.Pass()


class _Watching:
    """A plugin of pytest: what each test takes, and which of the engine's functions it calls."""

    def __init__(self) -> None:
        signal.signal(signal.SIGVTALRM, _stop)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.seconds: dict[str, float] = {}
        self.of_file: Counter[Path] = Counter()
        self.called: dict[str, list[str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Take the first case of each test of a file, then the second ones."""
        cases: Counter[str] = Counter()
        places: dict[pytest.Item, tuple[int, int]] = {}
        files = list(dict.fromkeys(item.path for item in items))
        for item in items:
            name = item.nodeid.partition("[")[0]
            places[item] = (files.index(item.path), cases[name])
            cases[name] += 1
        items.sort(key=places.__getitem__)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self.of_file[item.path] > _PER_FILE:
            pytest.skip("enough of this file")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        called: set[tuple[str, int]] = set()
        sys.settrace(lambda frame, *_: called.add((frame.f_code.co_filename, frame.f_code.co_firstlineno)))
        began = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST)
        yield
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.settrace(None)
        self.seconds[item.nodeid] = max(self.seconds.get(item.nodeid, 0), time.process_time() - began)
        self.of_file[item.path] += time.process_time() - began
        self.called[item.nodeid] = [f"{file[file.index(ENGINE):]}:{line}" for file, line in called if ENGINE in file]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.skipped:
            self.seconds[report.nodeid] = float("inf")

    def pytest_sessionfinish(self) -> None:
        kept = {test: called for test, called in self.called.items() if self.seconds[test] < float("inf")}
        Path("calls.json").write_text(json.dumps([self.seconds, kept]), encoding="utf-8")


def run(tree: Path, tests: list[str], seconds: float, options: tuple[str, ...] = ("-x",), plugins: tuple[Any, ...] = ()) -> bool:
    """Whether these tests pass in a tree; False also if they take more than `seconds` of processor time."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    status = 1
    try:
        os.chdir(tree)
        os.nice(0 if plugins else 19)
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
        signal.alarm(20 * int(seconds) + 60)  # a mutant may wait for ever, which takes no processor time
        log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        type.__setattr__(settings, "max_examples", property(lambda self: min(self._max_examples, _EXAMPLES)))
        sys.path[:] = [str(tree), *(path for path in sys.path if Path(path).resolve() != ROOT)]
        sys.dont_write_bytecode = not plugins  # a mutant may have the size and the time of another
        for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "prequential")]:
            del sys.modules[name]
        given = ("-q", "-p", "no:cacheprovider", "--timeout", "0",
            "-W", "ignore::pytest.PytestAssertRewriteWarning", "-m", "not kafka and not embedded and not bench")
        status = int(pytest.main([*given, *options, *tests], plugins=list(plugins)))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def drawn(number: int, seed: int, only: str) -> list[Mutant]:
    """So many mutants, evenly over the packages; or those whose place or code contains `only`."""
    found = []
    for package in PACKAGES:
        files = sorted((ROOT / ENGINE / package).glob("*.py"))
        every = [one for file in files for one in mutants_of(str(file.relative_to(ROOT)))]
        if only:
            found += [one for one in every if only in told(one)]
        else:
            found += random.Random(f"{seed} {package}").sample(every, number // len(PACKAGES))
    return found


def told(mutant: Mutant) -> str:
    """A mutant in a line: its place, the code, the changed code."""
    return f"{mutant.file.removeprefix(ENGINE + '/')}:{mutant.line}: {mutant.before}  ->  {mutant.after}"


def main() -> None:
    """Print a line for each mutant, and the table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--mutants", type=int, default=150)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--only", default="", help="instead: all mutants whose line of the output contains this")
    asked.add_argument("--calls", type=Path, help="file with times and calls of tests, made if it is missing")
    asked.add_argument("--budget", type=float, default=30, help="processor seconds for a mutant's tests")
    asked.add_argument("tests", nargs="*", default=TESTS)
    args = asked.parse_args()
    os.environ.update(NUMBA_DISABLE_JIT="1", CI="1", OPENBLAS_NUM_THREADS="1")  # CI: the same examples each time
    for name in _LIBRARIES:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("pipeline", "topics", "tests"):
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "evidence"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        if not (args.calls and args.calls.exists()):
            watching = _Watching()
            run(tree, args.tests, 3600, (), (watching,))
            print((tree / "log.txt").read_text()[-1500:], flush=True)
            shutil.copy(tree / "calls.json", args.calls or tree / "kept.json")
        seconds, called = json.loads((args.calls or tree / "kept.json").read_text())
        test_all(tree, drawn(args.mutants, args.seed, args.only), seconds, called, args.budget)


def test_all(tree: Path, mutants: list[Mutant], seconds: dict[str, float], called: dict[str, list[str]], budget: float) -> None:
    """Test each mutant and print the table."""
    tests_of = defaultdict(list)
    for test in sorted(called, key=seconds.__getitem__):
        for place in {*called[test], *(place.rpartition(":")[0] for place in called[test])}:
            tests_of[place].append(test)
    equivalent = json.loads(EQUIVALENT.read_text(encoding="utf-8")) if EQUIVALENT.exists() else {}
    table: dict[str, Counter[str]] = {package: Counter() for package in (*PACKAGES, "all")}
    for mutant in mutants:
        chosen, total = [], 0.0
        for test in tests_of[f"{mutant.file}:{mutant.function}"] or tests_of[mutant.file]:
            total += seconds[test]
            if total > budget and chosen:
                break
            chosen.append(test)
        path = tree / mutant.file
        path.write_text(mutant.source, encoding="utf-8")
        outcome = "survived" if not chosen or run(tree, chosen, 4 * total + 20) else "killed"
        shutil.copy2(ROOT / mutant.file, path)
        key = told(mutant).split(":", 2)
        if outcome == "survived" and f"{key[0]}:{key[2]}" in equivalent:
            outcome = "equivalent"
        for package in (mutant.package, "all"):
            table[package][outcome] += 1
        print(f"{outcome:10} {len(chosen):3} tests  {told(mutant)}", flush=True)
    print(f"{'package':14}{'mutants':>9}{'killed':>9}{'survived':>10}{'equivalent':>12}")
    for package, counts in table.items():
        outcomes = "".join(f"{counts[one]:{width}}" for one, width in (("killed", 9), ("survived", 10), ("equivalent", 12)))
        print(f"{package:14}{counts.total():9}{outcomes}")


if __name__ == "__main__":
    main()
