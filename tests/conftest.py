"""What tests share: brokers, a cluster with fresh topics, and what the run says at its end."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import settings

_TESTS = Path(__file__).parent

# Tests import the helpers beside them by their bare names, and `tests.brokers` from the root.
for _folder in (_TESTS / "dashboard", _TESTS / "deploy", _TESTS, _TESTS.parent):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from prequential.demo import broker as _ports  # noqa: E402
from prequential.runtime.compilation import compile_loops  # noqa: E402
from prequential.topics import errors  # noqa: E402
from prequential.topics.admin import create  # noqa: E402
from prequential.topics.clients import KafkaConfig  # noqa: E402
from prequential.topics.specs import topic_specs  # noqa: E402

from tests import browser, pages  # noqa: E402
from tests.brokers import SHORT_LIVED, Broker, JavaBroker, launch, used  # noqa: E402
from tests.loops import EVERYTHING  # noqa: E402
from tests.nightly import NIGHTLY, scaled  # noqa: E402
from tests.shared_broker import SharedBroker  # noqa: E402
from tests.skipping import or_skip  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# A machine that others wait for tries the same examples in every run, however long one takes;
# elsewhere each run tries new ones, and Hypothesis remembers those that failed.
EXAMPLES = scaled(50, 100)
settings.register_profile("ci", max_examples=EXAMPLES, derandomize=True, deadline=None, print_blob=True)
settings.register_profile("dev", max_examples=EXAMPLES, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


JavaBroker.options = SHORT_LIVED

#: The digest of the pages' sources at the beginning of the run.
_PAGES = pytest.StashKey[str]()

#: The broker that this process has of its run.
_SHARED = pytest.StashKey[SharedBroker]()

# Processes of one run never pick the same port: one is free until it is bound, seconds later.
_OWN, _ALL = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
_ports._PORTS = _ports._PORTS[int(_OWN.removeprefix("gw")) :: int(_ALL)]


@pytest.fixture(autouse=True)
def _forgotten_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has secrets of its own: those of others would be hidden in its texts."""
    monkeypatch.setattr(errors, "_known", set())


#: Files that take some seconds or more altogether: all of their tests are `slow`.
_SLOW = frozenset({
    "cli/test_config_diff.py", "cli/test_config_live.py", "cli/test_hostile_names.py", "cli/test_locales.py",
    "cli/test_outputs.py", "cli/test_start.py", "deploy/test_pins.py", "engine/test_alarm_budgets.py",
    "engine/test_baselines_in_time.py", "engine/test_between_lives.py", "engine/test_clustered_intervals.py",
    "engine/test_compact.py", "engine/test_comparisons.py", "engine/test_confidence_sequence.py",
    "engine/test_detectors_on_signals.py", "engine/test_disparity.py", "engine/test_expected_messages.py",
    "engine/test_exporter.py", "engine/test_extreme_memories.py", "engine/test_forecasts.py",
    "engine/test_idle.py", "engine/test_incident_causes.py", "engine/test_incident_losses.py",
    "engine/test_incidents.py", "engine/test_label_sets.py", "engine/test_many_classes.py",
    "engine/test_merged_periods.py", "engine/test_merging.py", "engine/test_observer.py",
    "engine/test_one_sequence.py", "engine/test_period_alarms.py", "engine/test_plain.py",
    "engine/test_references.py", "engine/test_segments_between_lives.py",
    "engine/test_shard_against_oracle.py", "engine/test_split.py", "engine/test_table_keys.py",
    "engine/test_withdrawn.py", "engine/test_without_jit.py",
    "files/test_beside_reference.py", "files/test_evaluation.py", "files/test_ids_and_times.py",
    "files/test_plain_columns.py", "files/test_results_look_back.py", "files/test_stepping.py",
    "files/test_tables.py", "ingest/test_schema_registry.py", "report/test_odd_messages.py",
    "report/test_report_pages.py", "tables/test_calendar.py", "tables/test_estimator_tables.py",
    "tables/test_expected_tables.py", "tables/test_harm_detector.py", "tables/test_ids.py",
    "tables/test_measure_kernels.py", "tables/test_same_bits.py", "tables/test_signals.py",
    "topics/test_decoding.py", "topics/test_permissions.py", "topics/test_schemas.py",
    "worker/test_access.py", "worker/test_batch_producing.py", "worker/test_partition_queues.py",
    "worker/test_record_times.py", "worker/test_static_member.py", "test_backtesting.py",
    "test_calibration.py", "test_compilation.py", "test_http_server.py", "test_imports.py",
    "test_packages.py", "test_replay.py",
})  # fmt: skip


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Apache Kafka, one for the whole run; its address is `bootstrap_servers`."""
    own, parallel = tmp_path_factory.getbasetemp(), hasattr(request.config, "workerinput")
    shared = SharedBroker(own.parent if parallel else own)
    with or_skip():
        broker = shared.get()
    if parallel:
        request.config.stash[_SHARED] = shared
    yield broker
    if not parallel:
        shared.stop()


@pytest.fixture(scope="session")
def embedded() -> Iterator[Broker]:
    """The embedded broker, one for each process of the run."""
    with or_skip():
        broker = launch("embedded")
    with broker:
        yield broker


@pytest.fixture
def cluster(kafka: Broker, request: pytest.FixtureRequest) -> KafkaConfig:
    """Topics on Apache Kafka that nobody else uses: four partitions, or as many as are asked for.

    (`@pytest.mark.parametrize("cluster", [2], indirect=True)` asks for two.)
    """
    return fresh_cluster(kafka, getattr(request, "param", 4))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A headless Chromium; skipped where none can be had.

    Not one for the whole run: while it is there, Playwright's event loop runs in this thread.
    """
    with browser.browser() as launched:
        yield launched


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page of it that may complain of nothing."""
    with browser.opened(chromium) as one:
        yield one


def fresh_cluster(broker: Broker, partitions: int) -> KafkaConfig:
    """A configuration for a broker whose topics are new and nobody else's; they exist."""
    config = broker.config(prefix=f"t{uuid4().hex[:8]}.", partitions=partitions)
    create(config, topic_specs(config))
    return config


def pytest_configure(config: pytest.Config) -> None:
    """Have a parallel run take files in our order (below), and not by their numbers of tests."""
    config.option.loadscopereorder = False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by brokers and files, drop those of `make nightly`, mix files that wait and compute."""
    for item in items:
        if _TESTS in item.path.parents and item.path.relative_to(_TESTS).as_posix() in _SLOW:
            item.add_marker("slow")
        if _TESTS / "evidence" in item.path.parents:
            item.add_marker("nightly")
        for broker in {"kafka", "embedded"}.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(broker)
    left_out = [] if NIGHTLY else [item for item in items if item.get_closest_marker("nightly")]
    if not NIGHTLY and pages.have_passed():
        left_out += filter(_needs_browser_only, items)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    if "PYTEST_XDIST_WORKER" in os.environ:
        _put_in_turn(items)


def _needs_browser_only(item: pytest.Item) -> bool:
    """Whether a test tries pages in a browser, without a worker on a broker behind them."""
    has_broker = any(item.get_closest_marker(mark) for mark in ("kafka", "embedded"))
    return "chromium" in getattr(item, "fixturenames", ()) and not has_broker


#: Files that take longest, of each kind (see `_put_in_turn`).
_LONG = (
    "worker/test_everything_on.py", "worker/test_merging_worker.py", "worker/test_end_to_end.py",
    "notify/test_notify.py", "worker/test_silence.py", "worker/test_growing.py", "sinks/test_sinks_page.py",
    "worker/test_delayed.py", "test_replay.py",
    "engine/test_observer.py", "engine/test_neighbouring_configurations.py", "engine/test_batching.py",
    "deploy/test_monitoring.py", "test_calibration.py", "test_compilation.py", "engine/test_pace.py",
    "engine/test_shard_against_oracle.py", "engine/test_incidents.py", "engine/test_intervals.py",
)  # fmt: skip


def _put_in_turn(items: list[pytest.Item]) -> None:
    """Files that wait for brokers or a browser first, then those that compute; long ones at both ends."""
    waits = dict.fromkeys((item.path for item in items), False)
    for item in items:
        waits[item.path] |= any(item.get_closest_marker(mark) for mark in ("kafka", "embedded"))
        waits[item.path] |= "chromium" in getattr(item, "fixturenames", ())
    ranks = {path: len(_LONG) + number for number, path in enumerate(waits)}
    ranks.update({_TESTS / name: number for number, name in enumerate(_LONG)})
    items.sort(key=lambda item: (0, ranks[item.path]) if waits[item.path] else (1, -ranks[item.path]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have every second process of a parallel run begin at the end, with the files that compute.

    The others begin with those that wait for brokers. So the processor always has something to do.
    """
    from xdist.scheduler import LoadFileScheduling

    class FromBothEnds(LoadFileScheduling):
        def _assign_work_unit(self, node: Any) -> None:
            if int(node.gateway.id.removeprefix("gw")) % 2:
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            super()._assign_work_unit(node)

    return FromBothEnds(config, log) if config.option.dist == "loadfile" else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the engine's loops before a parallel run's processes begin: each would compile all of them.

    `make test` has done so, and says that they needn't be looked for.
    """
    if pages.stamp() is not None:
        session.config.stash[_PAGES] = pages.digest()
    if _is_parallel(session.config) and "LOOPS_READY" not in os.environ:
        compile_loops(print, EVERYTHING)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile them before tests that wait for workers: these have their own limits of time."""
    gc.collect()
    gc.freeze()  # modules and tests stay: no collection of garbage need look at their millions of objects
    gc.set_threshold(10_000)
    if _is_parallel(session.config) or "PYTEST_XDIST_WORKER" in os.environ:
        return  # it is done
    if session.config.option.collectonly:
        return  # nothing runs
    if any(item.get_closest_marker(mark) for item in session.items for mark in ("kafka", "embedded", "slow")):
        compile_loops(print)


def _is_parallel(config: pytest.Config) -> bool:
    """Whether this process hands the tests to others (`-n`)."""
    return bool(config.getoption("tx", None)) and "PYTEST_XDIST_WORKER" not in os.environ


#: Brokers and browsers that the processes of a parallel run have told of.
_of_others: dict[str, dict[str, None]] = {"broker": {}, "browser": {}}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the brokers that this process has used, and release the shared one."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["used"] = {"broker": used(), "browser": list(browser.seen)}
    elif session.exitstatus == pytest.ExitCode.OK and (browser.seen or _of_others["browser"]):
        pages.note_passed(session.config.stash.get(_PAGES, ""))
    if _SHARED in session.config.stash:
        # Not within a test, whose time is limited: others may still use it.
        session.config.stash[_SHARED].stop()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take it over from one of several processes."""
    for kind, names in getattr(node, "workeroutput", {}).get("used", {}).items():
        _of_others[kind].update(dict.fromkeys(names))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say last which brokers and browsers the run was about: not every machine can have all of them."""
    yield
    brokers = {**dict.fromkeys(used()), **_of_others["broker"]}
    for name in brokers or ["none was needed, or none could be had"]:
        terminalreporter.write_line(f"broker: {name}")
    if pages.have_passed():
        terminalreporter.write_line("browser: the pages are as they were when they passed in it")
    for name in {**dict.fromkeys(browser.seen), **_of_others["browser"]}:
        terminalreporter.write_line(f"browser: {name}")
