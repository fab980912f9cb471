"""Mutation testing of the engine: which small errors in its functions would pass the tests.

A mutant has one change, and exists only in a copy of the process that has collected the tests: functions get
the changed code, and tests run. If one fails or takes too long, the mutant is killed. Before, tests run on
unchanged code, for the time of each and the functions that it calls. A mutant runs the tests that call its
function, and the examples of docstrings. Loops run as plain Python: to compile them takes minutes.
"""

from __future__ import annotations

import argparse
import ast
import doctest
import gc
import importlib
import json
import os
import random
import resource
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, settings

from tests.bench.mutations import Mutant, codes_of, mutants_of, reporting

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "pipeline/prequential/engine"
PACKAGES = ("join", "estimators", "measures", "detectors", "comparisons")

#: Changes that no test can find, with the reason.
EQUIVALENT: dict[str, str] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

#: Processor seconds of a test, of a file of tests and of a mutant's tests; the others are left out.
_LONGEST, _OF_FILE, _OF_MUTANT = 3.0, 2.5, 30.0

#: Examples of Hypothesis, the same in each run.
_EXAMPLES = 6

#: Those that take little time, by folder.
TESTS = {
    "tables": "measure_kernels run_lengths signals estimator_tables harm_detector losses "
    "detectors",
    "engine": "shard_against_oracle withdrawn stages comparisons at_horizon references baselines_in_time "
    "retired_versions model_versions estimated_errors segments scores weights forecasts predicted_intervals "
    "costs_by_value confidence_sequence q_mcnemar alarm_budgets period_alarms intervals label_sets measures "
    "residuals transitions between_lives detector_registry "
    "many_classes.py::test_cells_are_numbered_as_they_come "
    "expected_messages.py::test_what_waits_is_as_right_as_what_was_as_sure "
    "top_k.py::test_equal_probabilities_count_as_the_mean_over_all_their_orders",
}


class _TooLongError(BaseException):
    """A test takes too long; neither tests nor Hypothesis catch it."""


def _stop(*_: Any) -> None:
    raise _TooLongError


class Mutation:
    """A plugin of pytest that tests mutants in place of the unchanged code."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.failed = args, False
        self.functions: dict[str, list[FunctionType]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= not report.passed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Print a line for each mutant, then the table."""
        self.items = {item.nodeid: item for item in session.items}
        self.files = {package: sorted((ENGINE / package).glob("*.py")) for package in PACKAGES}
        parts = (path.with_suffix("").parts[-4:] for path in chain(*self.files.values()))
        self.modules = {name: importlib.import_module(name) for name in map(".".join, parts)}
        gc.unfreeze()  # what pytest has collected: `gc.get_objects` leaves frozen objects out
        for function in gc.get_objects():
            if isinstance(function, FunctionType):
                self.functions[function.__code__.co_filename].append(function)
        gc.freeze()  # so that copies of this process share these objects
        with TemporaryDirectory() as folder:
            calls = self.args.calls or Path(folder, "calls.json")
            if not calls.exists():
                _forked(lambda: self._watch(calls), 36_000, 0)
            called = json.loads(calls.read_text(encoding="utf-8"))
        table: dict[str, Counter[str]] = {package: Counter() for package in (*PACKAGES, "all")}
        for package, files in self.files.items():
            every = [mutant for path in files for mutant in mutants_of(path)]
            found = [mutant for mutant in every if self.args.only in str(mutant)]
            count = min(len(found), self.args.mutants // len(PACKAGES))
            for mutant in random.Random(f"{self.args.seed} {package}").sample(found, count):
                tests = {test: took for test, (took, calls) in called.items() if mutant.place in calls}
                outcome = self._outcome(mutant, tests)
                print(f"{outcome:10} {len(tests):3} tests  {mutant}", flush=True)
                table[package][outcome] += 1
                table["all"][outcome] += 1
        print(f"{'':12} {'mutants':>11} {'killed':>11} {'survived':>11} {'equivalent':>11}")
        for package, counts in table.items():
            numbers = sum(counts.values()), counts["killed"], counts["survived"], counts["equivalent"]
            print(f"{package:12}", *(f"{number:11}" for number in numbers))
        return True

    def _outcome(self, mutant: Mutant, tests: dict[str, float]) -> str:
        """What becomes of a mutant; fast tests first."""
        chosen, total = [], 0.0
        for test in sorted(tests, key=tests.__getitem__):
            if total + tests[test] < _OF_MUTANT:
                chosen.append(test)
                total += tests[test]

        def passes() -> bool:
            self._insert(mutant.path, mutant.source)
            return all(map(self._passes, chosen))

        if not _forked(passes, 2 * total + 2):
            return "killed"
        return "equivalent" if mutant.change in EQUIVALENT else "survived"

    def _insert(self, path: Path, source: str | ast.Module, calls: set[str] | None = None) -> None:
        """Give all functions of a file other code."""
        codes = dict(codes_of(compile(source, str(path), "exec", dont_inherit=True)))
        for function in self.functions[str(path)]:
            code = codes.get((function.__code__.co_firstlineno, function.__code__.co_name))
            if code and code != function.__code__:  # no code: a generated function
                function.__code__ = code
                function.__globals__["_calls"] = calls

    def _passes(self, test: str) -> bool:
        """Whether a test passes, or the examples of a module."""
        if test in self.modules:
            with np.printoptions(legacy="1.25"):  # numbers as compiled loops return them: no `np.float64(…)`
                return not doctest.testmod(self.modules[test], optionflags=doctest.ELLIPSIS).failed
        self.failed = False
        self.items[test].config.hook.pytest_runtest_protocol(item=self.items[test], nextitem=None)
        return not self.failed

    def _watch(self, into: Path) -> bool:
        """Write the time of each test, and the functions that it calls."""
        signal.signal(signal.SIGVTALRM, _stop)
        calls: set[str] = set()
        for path in chain(*self.files.values()):
            self._insert(path, reporting(path), calls)
        called, spent = {}, Counter[str]()
        for test in chain(self.modules, self.items):
            file, name = test.partition("::")[0], test.partition("[")[0]
            if spent[file] > _OF_FILE or spent[name] > _OF_FILE / 2:
                continue
            calls.clear()
            began = time.process_time()
            signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST)
            passes = self._passes(test)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            took = time.process_time() - began
            spent += Counter({file: took, name: took})
            if passes:
                called[test] = took, sorted(calls)
        into.write_text(json.dumps(called), encoding="utf-8")
        return True


def _forked(run: Callable[[], bool], seconds: float, nice: int = 19) -> bool:
    """What a function returns in a copy of this process; False after so many seconds of processor time."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    status = 1
    try:
        os.nice(nice)
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds + time.process_time()) + 1,) * 2)
        signal.alarm(100 * int(seconds))  # a mutant that waits takes no processor time
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        status = not run()
    finally:
        os._exit(status)


def tests() -> list[str]:
    """The tests as pytest takes them: files, or tests in files."""
    found = [f"tests/{folder}/test_{name}" for folder, names in TESTS.items() for name in names.split()]
    return [one if "::" in one else f"{one}.py" for one in found]


def main() -> None:
    """Test mutants."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--mutants", type=int, default=150, help="how many, evenly over the packages")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--only", default="", help="those whose line of the output contains this")
    asked.add_argument("--calls", type=Path, help="file for what tests call; kept")
    args = asked.parse_args()
    os.environ.update(NUMBA_DISABLE_JIT="1", CI="1")  # CI: the same examples of Hypothesis each time
    type.__setattr__(settings, "max_examples", property(lambda self: min(self._max_examples, _EXAMPLES)))
    type.__setattr__(settings, "phases", property(lambda self: (Phase.explicit, Phase.generate)))
    options = "-q -s -p no:cacheprovider --timeout 0 -W ignore::pytest.PytestAssertRewriteWarning"
    pytest.main([*options.split(), *tests()], plugins=[Mutation(args)])


if __name__ == "__main__":
    main()
