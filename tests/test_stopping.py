"""Programs that are told to stop do so, whatever their main thread is at just then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from prequential.runtime.program import Stop, stop_signals

#: A handler runs between any two steps of waiting, where a profiler is called.
_PROGRAM = """
import sys
from prequential.runtime.program import Stop as Waiting

waiting = Waiting()
sys.setprofile(lambda *_: waiting.set())
told = waiting.wait(60.0)
sys.setprofile(None)
print("stopped" if told else "waited in vain")
"""


def test_a_signal_at_any_moment_is_heard() -> None:
    """It hangs with `threading.Event`, whose lock is held while it waits."""
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("stopped\n", 0), done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_both_signals_are_heard_and_given_back(number: signal.Signals) -> None:
    handlers: Callable[[], list[object]] = lambda: [  # noqa: E731
        signal.getsignal(signal.SIGINT),
        signal.getsignal(signal.SIGTERM),
    ]
    before = handlers()
    with stop_signals() as stop:
        assert not stop.is_set()
        assert not stop.wait(0.0)
        os.kill(os.getpid(), number)
        assert stop.wait(60.0)
        assert stop.is_set()
        assert stop.wait(0.0), "once is enough"
    assert handlers() == before


def test_nothing_comes() -> None:
    assert not Stop().wait(0.01)
