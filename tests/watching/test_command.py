"""`prequential watch` as it is called: without a terminal, on one, and against a broker."""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from prequential.cli import watch
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError
from prequential.views.state.output_records import OutputRecord
from prequential.views.watching import tail
from prequential.views.watching.tail import Tail
from watched import ALARM_LINE, COMPARISON_LINE, LABELLED, METRICS_LINE, alarm, comparison, metrics

from tests.groups import group_ids
from tests.worker.processes import await_markers

#: Seconds in which the screen must show what it is asked for: the machine may be busy.
_PATIENCE = 150.0


def run(*words: str) -> int:
    """The program, without the mapping of errors to exit statuses."""
    parser = argparse.ArgumentParser()
    watch.add_parser(parser.add_subparsers())
    args = parser.parse_args(words)
    status: int = args.run(args)
    return status


def of_metrics(**changed: Any) -> OutputRecord:
    return OutputRecord("metrics", metrics(**changed), LABELLED)


def of_alarms(**changed: Any) -> OutputRecord:
    return OutputRecord("drift-alarms", alarm(**changed), LABELLED)


def of_comparisons(**changed: Any) -> OutputRecord:
    return OutputRecord("comparisons", comparison(**changed), LABELLED)


class FakeTail:
    """Stands for the topics: some records now, some later, then Ctrl-C."""

    now = (of_metrics(), of_alarms())
    end: type[BaseException] = KeyboardInterrupt
    later = ((of_metrics(outcomes=45313), of_alarms(outcome=17343)), ())

    def __init__(self, *_: object, **__: object) -> None:
        self.trouble = None
        self.since: dict[str, int] = {}
        self.catching_up = False
        self._later = list(self.later)

    def to_end(self) -> Iterator[OutputRecord]:
        yield from self.now

    def take(self, _: float = 0) -> tuple[OutputRecord, ...]:
        if not self._later:
            raise self.end
        return self._later.pop(0)

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def fake_tail(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("kafka") is None:
        monkeypatch.setattr(watch, "Tail", FakeTail)


class TestWithoutATerminal:
    def test_once_prints_plain_lines(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("watch", "--once") == 0
        assert capsys.readouterr().out.splitlines() == [METRICS_LINE, ALARM_LINE]

    def test_each_message_is_a_line_until_control_c(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("watch") == 0
        assert capsys.readouterr().out.splitlines() == [
            METRICS_LINE, ALARM_LINE, METRICS_LINE.replace("45312", "45313"),
            ALARM_LINE.replace("17342", "17343"),
        ]

    def test_once_goes_by_names_then_alarms_by_time(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        now = (
            of_alarms(ts=LABELLED + 2000, outcome=2), of_metrics(model="z"), of_metrics(segment="arm=A"),
            of_metrics(stage="initial"), of_alarms(outcome=1, model="z"), of_metrics(estimator="all"),
            of_metrics(measures={"mae": 0.5, "r2": 0.25}, model="numbers"), OutputRecord("metrics", b"?", 0),
        )  # fmt: skip
        monkeypatch.setattr(FakeTail, "now", now)
        assert run("watch", "--once") == 0
        said = capsys.readouterr()
        assert [" ".join(line.split()[1:7]) for line in said.out.splitlines()] == [
            "elec2 nb final all n=1000 outcomes=45312",
            "elec2 nb initial window:1000 n=1000 outcomes=45312",
            "elec2 nb arm=A final window:1000 n=1000",
            "elec2 numbers final window:1000 n=1000 outcomes=45312",
            "elec2 z final window:1000 n=1000 outcomes=45312",
            "elec2 z final ALARM page-hinkley error",
            "elec2 nb final ALARM page-hinkley error",
        ]
        assert "mae=0.5000 rmse=- r2=0.2500" in said.out
        assert said.err == "prequential: 1 unreadable message\n"

    def test_comparisons_are_said_once_for_all_estimators(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        said = of_metrics(), of_comparisons(), of_comparisons(estimator="window:1000")
        undecided = {"verdict": "undecided", "since": None, "interval": None, "measures": {}}
        later = of_comparisons(estimator="all", outcomes=5000, segment="arm=A", **undecided)
        monkeypatch.setattr(FakeTail, "now", said)
        monkeypatch.setattr(FakeTail, "later", ((later,), ()))
        assert run("watch") == 0
        assert capsys.readouterr().out.splitlines() == [
            METRICS_LINE, COMPARISON_LINE,
            "2023-11-14T22:13:20Z elec2 nb arm=A final COMPARED against=tree loss=error outcomes=5000 "
            "difference=- low=- high=- verdict=undecided since=-",
        ]

    @pytest.mark.parametrize(("model", "lines"), [("nb", 1), ("tree", 1), ("other", 0)])
    def test_only_pairs_with_the_model_that_is_asked_for(
        self, model: str, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        both = of_metrics(model="nb"), of_metrics(model="tree")
        monkeypatch.setattr(FakeTail, "now", (*both, of_comparisons()))
        assert run("watch", "--once", "--model", model) == 0
        assert [line for line in capsys.readouterr().out.splitlines() if "COMPARED" in line] == (
            [COMPARISON_LINE] * lines
        )

    def test_a_split_stream_is_warned_about_and_its_lines_say_which_part(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(FakeTail, "later", ((of_metrics(partition=2), of_alarms()), ()))
        assert run("watch") == 0
        said = capsys.readouterr()
        assert said.out.splitlines()[2:] == [f"{METRICS_LINE} partition=2", f"{ALARM_LINE} partition=0"]
        assert said.err.count("\n") == 1
        assert "elec2 (0, 2); key records by stream with murmur2" in said.err

    def test_names_cannot_write_to_the_terminal(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(FakeTail, "now", (of_metrics(stream="\x1b[31m[red]a\nb", ts=10**17),))
        assert run("watch", "--once") == 0
        assert capsys.readouterr().out.startswith("100000000000000000 \ufffd[31m[red]a\ufffdb nb")


def test_an_order_that_there_isnt_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^--sort is 'speed': expected a measure, such as kappa, or newest"):
        run("watch", "--once", "--sort", "speed")


@pytest.mark.parametrize(("end", "status"), [(KeyboardInterrupt, 0), (WorkError, None)])
def test_the_terminal_is_given_back_however_it_ends(
    end: type[BaseException], status: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before an error is told: it would vanish with the screen."""
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    monkeypatch.setattr(FakeTail, "end", end)
    monkeypatch.setenv("TERM", "xterm-256color")
    with os.fdopen(theirs, "r", closefd=False) as keys, os.fdopen(theirs, "w") as screen:
        monkeypatch.setattr("sys.stdin", keys)
        monkeypatch.setattr("sys.stdout", screen)
        if status is None:
            with pytest.raises(end):
                run("watch")
        else:
            assert run("watch") == status
        said = ""
        while select.select([ours], [], [], 0)[0]:
            said += os.read(ours, 65536).decode()
        assert termios.tcgetattr(theirs) == before
    os.close(ours)
    assert said.rfind("\x1b[?1049l") > said.rfind("\x1b[?1049h") >= 0


class Session:
    """The program in a terminal of 80 columns and 24 lines."""

    def __init__(self, *words: str) -> None:
        self.ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self._theirs)
        taken = ("COLUMNS", "LINES", "NO_COLOR")
        free = {key: value for key, value in os.environ.items() if key not in taken}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "prequential.cli.main", "watch", *words],
            stdin=self._theirs, stdout=self._theirs, stderr=self._theirs,
            env={**free, "TERM": "xterm-256color"}, preexec_fn=self._take_terminal,
        )  # fmt: skip
        self.said = ""

    def _take_terminal(self) -> None:
        """In the child: a session of its own, whose terminal it is, so that Ctrl-C there reaches it.

        Also where the tests themselves run in the background of a shell, which has its children ignore it.
        """
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.setsid()
        fcntl.ioctl(self._theirs, termios.TIOCSCTTY, 0)

    def press(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def until(self, *words: str) -> list[str]:
        """The screen's lines, as soon as it shows these words."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            lines = self.lines()
            if all(word in "\n".join(lines) for word in words):
                return lines
            self.read(1.0)
        raise AssertionError(f"{words} didn't come; the screen is:\n" + "\n".join(self.lines()))

    def lines(self) -> list[str]:
        """The last picture that is complete: each begins at the screen's first place."""
        pictures = self.said.split("\x1b[H")
        whole = [picture for picture in pictures[1:] if picture.count("\n") == 23]
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", whole[-1]) if whole else ""
        return [line.rstrip() for line in text.split("\r\n")]

    def read(self, seconds: float) -> None:
        if select.select([self.ours], [], [], seconds)[0]:
            self.said += os.read(self.ours, 65536).decode()

    def end(self) -> int:
        """The exit status."""
        end = time.monotonic() + _PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.1)
        self.read(0)
        return self.process.wait(1)

    def is_as_before(self) -> bool:
        """Whether the terminal has its settings, its own screen and its cursor again."""
        settings = termios.tcgetattr(self._theirs) == self.before
        screen = self.said.rfind("\x1b[?1049l") > self.said.rfind("\x1b[?1049h") >= 0
        return settings and screen and self.said.rfind("\x1b[?25h") > self.said.rfind("\x1b[?25l") >= 0

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
        os.close(self._theirs)


def options(cluster: KafkaConfig) -> tuple[str, ...]:
    return ("--bootstrap-servers", cluster.bootstrap_servers, "--prefix", cluster.prefix)


def publish(cluster: KafkaConfig, *values: bytes) -> None:
    """In a transaction, as workers do."""
    producer = Producer(cluster.client(**{"transactional.id": uuid4().hex}))
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        topic = "drift-alarms" if b'"detector"' in value else "metrics"
        producer.produce(cluster.topic(topic), value, b"elec2")
    producer.commit_transaction(30)


class TestOnATerminal:
    @pytest.fixture
    def session(self, cluster: KafkaConfig) -> Iterator[Session]:
        publish(
            cluster,
            *(metrics(stream=f"clicks-on-the-homepage-{i}", measures={"accuracy": i / 10}) for i in range(6)),
            alarm(stream="clicks-on-the-homepage-3"),
        )
        session = Session(*options(cluster))
        yield session
        session.close()

    def test_keys_from_the_first_row_to_the_end(self, session: Session, cluster: KafkaConfig) -> None:
        lines = session.until("6 models of 6 streams", "1 alarm since")
        start = next(i for i, line in enumerate(lines) if line.startswith("stream ")) + 1
        names = [line.split()[0] for line in lines[start : start + 6]]
        assert [name[-2:] for name in names] == [f"-{i}" for i in (3, 0, 1, 2, 4, 5)]
        session.press("\x1b[B")
        session.until("2 of 6")
        session.press("\r")
        session.until("nb of clicks-on-the-homepage-0", "stages and estimators")
        session.press("\x1b")
        session.until("2 of 6")
        publish(cluster, metrics(stream="another", measures={"accuracy": -1.0}))
        session.until("another", "7 models of 7 streams", "3 of 7")
        session.press("q")
        assert session.end() == 0
        assert session.is_as_before()

    @pytest.mark.parametrize("way", ["Ctrl-C", "SIGTERM"])
    def test_the_terminal_is_given_back(self, session: Session, way: str) -> None:
        session.until("6 models of 6 streams")
        assert not session.is_as_before()
        if way == "Ctrl-C":
            session.press("\x03")
        else:
            session.process.send_signal(signal.SIGTERM)
        assert session.end() == 0
        assert session.is_as_before()


class TestTopics:
    @pytest.fixture
    def published(self, cluster: KafkaConfig) -> KafkaConfig:
        """Two committed transactions and an aborted one, which ends the partitions."""
        producer = Producer(cluster.client(**{"transactional.id": uuid4().hex}))
        producer.init_transactions(30)
        for outcomes, commit in ((1, True), (45312, True), (99999, False)):
            producer.begin_transaction()
            producer.produce(cluster.topic("metrics"), metrics(outcomes=outcomes), b"elec2")
            producer.produce(cluster.topic("metrics"), b"not JSON", b"elec2")
            if outcomes > 1:
                outcome = 17342 if commit else 99999
                producer.produce(cluster.topic("drift-alarms"), alarm(outcome=outcome), b"elec2")
            producer.flush(30)
            (producer.commit_transaction if commit else producer.abort_transaction)(30)
        await_markers(cluster, "metrics")
        await_markers(cluster, "drift-alarms")
        return cluster

    @pytest.mark.parametrize("more", [(), ("--from-beginning",)])
    def test_once_shows_what_is_committed(
        self, published: KafkaConfig, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run("watch", "--once", *more, *options(published)) == 0
        assert capsys.readouterr().out.splitlines() == [METRICS_LINE, ALARM_LINE]

    def test_no_group_is_left_behind(self, published: KafkaConfig) -> None:
        assert run("watch", "--once", *options(published)) == 0
        assert "prequential-watch" not in group_ids(published)

    def test_only_the_tail_is_read(
        self, published: KafkaConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        # The aborted transaction's two records and marker, and one marker before them.
        monkeypatch.setattr(tail, "TAIL_RECORDS", 4)
        assert run("watch", "--once", *options(published)) == 0
        assert METRICS_LINE not in capsys.readouterr().out
        monkeypatch.setattr(tail, "TAIL_RECORDS", 5)
        with closing(Tail(published, ("metrics",), from_beginning=False)) as reading:
            [cut] = [record for record in reading.to_end() if record.value == b"not JSON"]
            assert reading.since == {"metrics": cut.time}
        with closing(Tail(published, ("metrics",), from_beginning=True)) as reading:
            assert (len(list(reading.to_end())), reading.since) == (4, {})
        assert run("watch", "--once", "--from-beginning", *options(published)) == 0
        assert METRICS_LINE in capsys.readouterr().out

    def test_an_open_transaction_is_waited_for_by_nobody(
        self, published: KafkaConfig, capsys: pytest.CaptureFixture[str]
    ) -> None:
        producer = Producer(published.client(**{"transactional.id": uuid4().hex}))
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(published.topic("metrics"), metrics(outcomes=99999), b"elec2")
        producer.flush(30)
        assert run("watch", "--once", *options(published)) == 0
        assert capsys.readouterr().out.splitlines() == [METRICS_LINE, ALARM_LINE]
        producer.abort_transaction(30)

    def test_missing_topics_are_named(self, kafka: Any) -> None:
        place = options(KafkaConfig(kafka.bootstrap_servers, prefix="nowhere."))
        with pytest.raises(WorkError, match=r"no topic 'nowhere\.metrics', 'nowhere\.comparisons'"):
            run("watch", "--once", *place)
