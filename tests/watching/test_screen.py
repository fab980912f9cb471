"""`prequential watch`: what stands on a screen of 80 columns and 24 lines, and what keys do to it."""

from __future__ import annotations

import os
import pty
import re
import termios
from collections.abc import Iterator
from typing import Any

import pytest
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import Objective, StreamConfig
from prequential.views.dashboard.overview import Overview
from prequential.views.state.history import History
from prequential.views.state.newest import NewestMessages
from prequential.views.state.ranking import Choice, Ranking
from prequential.views.watching import screen
from prequential.views.watching.screen import CLOSED, Keyboard, Screen
from prequential.views.watching.table import whole_table
from rich.cells import cell_len
from rich.console import Console, Group
from watched import LABELLED, alarm, comparison, incident, metrics, state_of

#: Six streams as a platform names them: some differ only at their ends.
STREAMS = (
    "fraud-cards-authorisation-europe-west", "fraud-cards-authorisation-europe-east",
    "recommendations-homepage-desktop", "recommendations-homepage-mobile", "churn-monthly-subscription",
    "house-prices-netherlands",
)
MODELS = ("gradient-boosting-v12", "gradient-boosting-v13")


def six_streams() -> NewestMessages:
    return state_of(
        *(
            metrics(stream=stream, model=model, estimator=one, measures={"accuracy": accuracy, "kappa": 0.5})
            for i, stream in enumerate(STREAMS)
            for model, accuracy in zip(MODELS, (0.6 + i / 100, 0.9 - i / 100))
            for one in ("all", "window:1000")
        )
    )


class Terminal:
    """A screen of 80 × 24 and somebody before it."""

    def __init__(
        self, state: NewestMessages, *, width: int = 80, height: int = 24, choice: Choice | None = None
    ) -> None:
        self._size = width, height
        self.screen = Screen(state, "localhost:9092", choice)
        self.screen.refresh(LABELLED)
        self.lines = self.look()

    def press(self, *keys: str) -> list[str]:
        for key in keys:
            self.screen.press(key)
            self.screen.refresh(LABELLED)
            self.lines = self.look()
        return self.lines

    def look(self) -> list[str]:
        console = Console(width=self._size[0], height=self._size[1], force_terminal=True)
        found = console.render_lines(self.screen, console.options.update(height=self._size[1]))
        lines = ["".join(segment.text for segment in line) for line in found]
        assert len(lines) == self._size[1]
        assert all(cell_len(line) <= self._size[0] for line in lines), lines
        #: The lines that the cursor is on, and the title.
        self.reverse = [
            "".join(segment.text for segment in line) for line in found
            if any(segment.style is not None and segment.style.reverse for segment in line)
        ]  # fmt: skip
        return [line.rstrip() for line in lines]

    @property
    def chosen(self) -> str:
        """The line that the cursor is on."""
        [_, line] = self.reverse
        return line


def rows(lines: list[str]) -> list[str]:
    """The table's rows, as far as they are seen."""
    start = next(i for i, line in enumerate(lines) if line.startswith("stream ")) + 1
    return [line for line in lines[start:-1] if line.strip() and not line.startswith("  ")]


class TestOverview:
    def test_six_streams_with_long_names_can_all_be_told_apart(self) -> None:
        lines = Terminal(six_streams()).lines
        found = rows(lines)
        assert len(found) == 12
        names = {tuple(row.split()[:2]) for row in found}
        assert len(names) == 12
        for stream, model in names:
            assert len(stream) >= 12
            assert len(model) >= 12
            assert any(whole.endswith(stream.rpartition("…")[2]) for whole in STREAMS)
            assert any(whole.startswith(stream.partition("…")[0]) for whole in STREAMS)
        assert found[0].split()[2:4] == ["0.600", "0.500"]
        assert "accuracy" in lines[2]
        assert "12 models of 6 streams" in lines[0]
        assert lines[1] == "final, window:1000   worst first   1 of 12"

    def test_short_names_are_whole_and_leave_room_for_measures(self) -> None:
        measures = {"accuracy": 0.81, "kappa": 0.6, "kappa_per": 0.3, "kappa_plus": 0.25}
        state = state_of(metrics(measures=measures))
        for width, seen in ((60, ["0.810", "0.600"]), (80, ["0.810", "0.600", "0.300", "0.250"])):
            [row] = rows(Terminal(state, width=width).lines)
            assert row.split() == ["elec2", "nb", *seen, "45,312", "0s"]

    @pytest.mark.parametrize(("width", "height"), [(40, 10), (20, 5), (200, 60)])
    def test_other_sizes(self, width: int, height: int) -> None:
        terminal = Terminal(six_streams(), width=width, height=height)
        terminal.press("enter", "pagedown", "escape", "end", "/", "x", "escape", "enter", "end")

    def test_alarms_are_one_line_a_change(self) -> None:
        state, ago = six_streams(), LABELLED - 180_000
        for signal in ("error", "window:1000:kappa"):
            for stage in ("initial", "final"):
                for segment in (None, "arm=A", "arm=B"):
                    about = {"stream": STREAMS[0], "model": MODELS[1], "segment": segment}
                    state.update("drift-alarms", alarm(stage=stage, signal=signal, **about), ago)
        lines = Terminal(state).lines
        assert rows(lines)[0].endswith("3m")
        [line] = [line for line in lines if "12 alarms" in line]
        assert line.startswith("  3m  fraud-")
        assert "since 22:13:20" in line
        assert "error" in line

    def test_many_alarms_leave_room_for_the_table(self) -> None:
        state = six_streams()
        for i, (stream, model) in enumerate((stream, model) for stream in STREAMS for model in MODELS):
            state.update("drift-alarms", alarm(stream=stream, model=model), LABELLED - i * 1000)
        lines = Terminal(state).lines
        assert len(rows(lines)) == 12
        assert lines[-2].strip() == "and 9 more"

    def test_a_segment_alone_is_named(self) -> None:
        lines = Terminal(state_of(metrics(), alarm(segment="country=france"))).lines
        assert any("1 alarm since 22:13:20  country=france" in line for line in lines)

    def test_a_split_stream_is_several_rows_and_warned_about_above(self) -> None:
        terminal = Terminal(state_of(metrics(outcomes=800), metrics(partition=2, outcomes=2200)))
        warning = " ".join(" ".join(terminal.lines[2:4]).split())
        assert warning == (
            "records of 1 stream lie in several partitions, each evaluated apart: elec2 (0, 2); "
            "key records by stream with murmur2"
        )
        found = [row.split() for row in rows(terminal.lines)]
        assert [(row[0], row[5]) for row in found] == [("elec2[0]", "800"), ("elec2[2]", "2,200")]

    def test_trouble_and_unreadable_messages_stand_above(self) -> None:
        state = state_of(metrics(), b"?")
        terminal = Terminal(state)
        terminal.screen.trouble = "connection \x1b refused"
        assert terminal.look()[2:4] == ["connection \ufffd refused", "1 unreadable message"]

    def test_since_when_messages_were_read_is_said_where_it_is_not_from_the_beginning(self) -> None:
        state = state_of(metrics())
        state.since = LABELLED - 60_000
        assert Terminal(state).lines[1].endswith("1 of 1   messages since 22:12:20")

    def test_one_is_one(self) -> None:
        assert Terminal(state_of(metrics())).lines[0].endswith("1 model of 1 stream")

    def test_nothing_yet(self) -> None:
        terminal = Terminal(NewestMessages())
        assert "no metrics yet" in terminal.lines
        terminal.screen.reading = True
        assert terminal.look()[2] == "loading history: 0 messages"

    def test_no_alarm_is_raised_while_what_is_there_is_being_read(self) -> None:
        """What comes later may end an incident, merge partitions, or be what a model is silent about."""
        values = [metrics(ts=LABELLED - 9 * 86_400_000), metrics(partition=2), alarm(), alarm(model="tree")]
        state = state_of(*values)
        terminal = Terminal(state)
        alarmed = "\n".join(terminal.lines)
        assert "1 alarm since" in alarmed
        assert "each evaluated apart" in alarmed
        terminal.screen.reading = True
        calm = "\n".join([*terminal.press("x"), *terminal.press("enter")])
        assert not re.search("alarm since|evaluated apart|no new outcomes|incident", calm)
        terminal.screen.reading = False
        assert "1 alarm since" in "\n".join(terminal.press("escape"))

    def test_names_cannot_write_to_the_terminal(self) -> None:
        name = "\x1b[31m[red]a\nb"
        value = metrics(stream=name, model=name, ts=10**17, undefined={}, measures={})
        terminal = Terminal(state_of(value, alarm(stream=name, model=name, signal=name, segment=name)))
        terminal.press("enter")
        for lines in (terminal.lines, terminal.press("escape")):
            assert all(line.isprintable() for line in lines)
        assert "\ufffd[31m[red]a\ufffdb" in terminal.lines[3]

    def test_numbers_and_classes_side_by_side(self) -> None:
        numbers = {"mae": 104446.0, "rmse": 2e5, "r2": 0.9}
        state = state_of(metrics(model="classes"), metrics(model="numbers", measures=numbers, undefined={}))
        terminal = Terminal(state)
        assert terminal.lines[2].split()[2:5] == ["accuracy", "mae", "kappa"]
        assert rows(terminal.lines)[1].split()[:5] == ["elec2", "numbers", "-", "104.4k", "-"]
        assert "r2" in "".join(terminal.press("down", "enter"))
        assert "kappa" not in "".join(terminal.lines)

    def test_once_on_a_terminal_shows_all_rows(self) -> None:
        values = [metrics(stream=f"s{i}", measures={"accuracy": 0.81}) for i in range(100)]
        state = state_of(*values, alarm(stream="s7"))
        console = Console(width=80)
        with console.capture() as said:
            console.print(Group(*whole_table(state, LABELLED, 80, Ranking(state))))
        lines = said.get().splitlines()
        assert len(lines) == 103
        assert lines[1].startswith("s7 ")
        assert "1 alarm" in lines[-2]
        assert lines[-1] == "No model needs attention"

    def test_once_ends_with_what_matters(self) -> None:
        """The models that need attention are named in the last line, wherever they are in the table."""
        values = [metrics(stream=f"s{i}", measures={"accuracy": 0.81}) for i in range(50)]
        state = state_of(*values, incident(stream="s7"))
        console = Console(width=80)
        with console.capture() as said:
            console.print(Group(*whole_table(state, LABELLED, 80, Ranking(state))))
        assert said.get().splitlines()[-1] == "1 of 50 models needs attention: s7/nb is worse"

    @pytest.mark.parametrize(
        ("changed", "least", "words"),
        [
            ({"measures": {"accuracy": 0.81, "kappa_per": -0.3}}, 0.5, "is below a baseline"),
            ({"measures": {"accuracy": 0.81}}, 0.9, "misses its objective"),
            ({"outcomes": 0, "measures": {}, "ts": LABELLED - 86_400_000}, 0.5, "has no labels"),
        ],
    )
    def test_the_models_that_need_attention_are_those_of_the_dashboard(
        self, changed: dict[str, Any], least: float, words: str
    ) -> None:
        config = Config(defaults=StreamConfig(objective=Objective({"accuracy": least})))
        state, history = NewestMessages(config=config), History(config)
        for known in (state, history):
            known.update("metrics", metrics(**changed), LABELLED)
        now = LABELLED + 40_000_000 * (words == "has no labels")
        console = Console(width=100)
        with console.capture() as said:
            console.print(Group(*whole_table(state, now, 100, Ranking(state))))
        lines = said.get().splitlines()
        page = Overview(history, live=True).page(Choice(), now)
        [need] = page["needs"]
        assert lines[-1] == f"{page['heading']}: elec2/nb {words}"
        assert lines[1].rstrip().endswith(need["status"]["word"])

    def test_baselines_are_last(self) -> None:
        state = state_of(metrics(model="@persistent", measures={"accuracy": 0.1}), metrics())
        assert [row.split()[1] for row in rows(Terminal(state).lines)] == ["nb", "@persistent"]


class TestKeys:
    def test_scrolling_through_a_thousand_streams(self) -> None:
        values = [metrics(stream=f"stream-{i:04}", measures={"accuracy": i / 1000}) for i in range(1000)]
        terminal = Terminal(state_of(*values))
        assert terminal.chosen.startswith("stream-0000 ")
        terminal.press("down", "j", "j", "up", "k", "down")
        assert terminal.chosen.startswith("stream-0002 ")
        terminal.press("pagedown")
        assert terminal.chosen.startswith("stream-0021 ")
        assert rows(terminal.lines)[0].startswith("stream-0002 ")
        terminal.press("end")
        assert terminal.chosen.startswith("stream-0999 ")
        assert "1000 of 1,000" in terminal.lines[1]
        terminal.press("j", "pageup", "pageup", "home", "up")
        assert terminal.chosen.startswith("stream-0000 ")

    def test_the_cursor_stays_with_its_model_and_at_the_top_with_the_worst(self) -> None:
        state = six_streams()
        terminal = Terminal(state)
        terminal.press("down")
        chosen = terminal.chosen[:33]
        worst = metrics(stream="worst", measures={"accuracy": 0.1})
        state.update("metrics", worst, LABELLED)
        terminal.press("x")
        assert terminal.chosen[:33] == chosen
        terminal.press("home")
        state.update("metrics", metrics(stream="still-worse", measures={"accuracy": 0.05}), LABELLED)
        terminal.press("x")
        assert terminal.chosen.startswith("still-worse")

    def test_open_a_model_and_go_back(self) -> None:
        state = state_of(
            metrics(
                counts={"late": 3, "expired": 45},
                coverage={
                    "waiting": 12, "oldest_waiting_ms": 3000, "labelled": {"1s": 0.5, "horizon": 0.99},
                    "label_latency_ms": {"p50": 1234.5, "p99": 60000.0}, "prediction_psi": None,
                    "labelled_by_class": {"UP": 0.9},
                },
                model_version="12.3", version_since=40_001,
            ),
            metrics(stage="initial", estimator="all", outcomes=7),
            metrics(segment="arm=A", outcomes=300), alarm(stage="initial"),
            alarm(segment="arm=A", outcome=200),
            comparison(segment="arm=A", stage="initial"),
            comparison(model="lr", against="nb"), comparison(model="lr", against="tree"),
        )  # fmt: skip
        terminal = Terminal(state, width=130, height=60)
        text = "\n".join(re.sub(" +", " ", line) for line in terminal.press("enter"))
        for expected in (
            "model nb", "12.3 since outcome 40,001", "2 alarms since 22:13:20",
            "\nfinal: the best by error is among nb and tree (90% confidence); lr left at outcome 712 (nb ",
            "\nfinal: nb beats lr over the whole run: "
            "error lower by 0.031 (0.012 to 0.050), since outcome 712 of 4,000 at 95% confidence\n"
            "initial arm=A: tree beats nb over the whole run: error lower by 0.031 (",
            "initial all 1,000 7", "kappa_plus - p_per_one", "arm=A 1,000 300", "late 3 expired 45",
            "label latency p50 1.23 s, p99 1 m",
            "labelled by age 1s 50.0%, horizon 99.0%",
            "oldest waiting 3 s", "waiting 12", "labelled_by_class UP 0.900",
            "2023-11-14T22:13:20Z final arm=A page-hinkley error at outcome 200: 50.30 > 50",
        ):
            assert expected in text
        assert rows(terminal.press("escape"))
        terminal.press("enter")
        assert not terminal.screen.over
        terminal.press("q")
        assert terminal.screen.over

    def test_a_long_page_scrolls(self) -> None:
        values = [metrics(segment=f"arm={i:02}") for i in range(50)]
        terminal = Terminal(state_of(metrics(), *values))
        terminal.press("enter")
        assert not any("arm=49" in line for line in terminal.lines)
        terminal.press("end")
        assert any("arm=49" in line for line in terminal.lines)

    def test_sorted_by_what_is_asked_for(self) -> None:
        state = state_of(
            metrics(model="a", measures={"accuracy": 0.5, "kappa": 0.9}),
            metrics(model="b", measures={"accuracy": 0.9, "kappa": 0.5}),
        )
        assert Terminal(state).chosen.split()[1] == "a"
        terminal = Terminal(state, choice=Choice(by="kappa"))
        assert terminal.chosen.split()[1] == "b"
        assert terminal.lines[2].split()[2:4] == ["kappa", "accuracy"]
        assert "by kappa" in terminal.lines[1]

    def test_the_stage_and_estimator_that_are_asked_for(self) -> None:
        state = state_of(
            metrics(model="both", stage="initial", estimator="all", measures={"accuracy": 0.25}),
            metrics(model="both"), metrics(model="late"),
        )
        terminal = Terminal(state, choice=Choice("initial", "all"))
        assert "initial, all" in terminal.lines[1]
        found = [row.split()[:3] for row in rows(terminal.lines)]
        assert found == [["elec2", "both", "0.250"], ["elec2", "late*", "0.810"]]

    def test_search(self) -> None:
        terminal = Terminal(six_streams())
        terminal.press("/", *"q", "backspace", *"house")
        assert len(rows(terminal.lines)) == 2
        assert "/house_" in terminal.lines[1]
        terminal.press("enter")
        assert "/house " in terminal.lines[1]
        assert len(rows(terminal.press("escape"))) == 12
        assert not terminal.screen.over

    def test_a_terminal_that_is_gone_ends_it(self) -> None:
        terminal = Terminal(NewestMessages())
        terminal.press(CLOSED)
        assert terminal.screen.over


class TestKeyboard:
    @pytest.fixture
    def ends(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
        """A terminal's two ends: ours, and the one that is standard input."""
        ours, theirs = pty.openpty()
        with os.fdopen(theirs, "r") as stream:
            monkeypatch.setattr("sys.stdin", stream)
            yield ours, theirs
        os.close(ours)

    def test_keys_come_at_once_and_the_terminal_is_given_back(self, ends: tuple[int, int]) -> None:
        ours, theirs = ends
        before = termios.tcgetattr(theirs)
        with Keyboard() as keys:
            assert keys.there
            assert termios.tcgetattr(theirs) != before
            os.write(ours, "j\x1b[B\x1b[6~é".encode())
            assert keys.wait(10) == ["j", "down", "pagedown", "é"]
            assert keys.wait(0) == []
            os.write(ours, b"\x1b")
            assert keys.wait(10) == ["escape"]
        assert termios.tcgetattr(theirs) == before

    def test_a_sequence_that_comes_in_parts(
        self, ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Over a slow line: the rest is waited for."""
        parts = [b"\x1b", b"[", b"B"]
        monkeypatch.setattr(screen.os, "read", lambda *_: parts.pop(0))
        with Keyboard() as keys:
            os.write(ends[0], b"x")  # there is something to read
            assert keys.wait(10) == ["down"]

    def test_the_end_of_input_is_told(self, ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(screen.os, "read", lambda *_: b"")
        with Keyboard() as keys:
            os.write(ends[0], b"x")
            assert keys.wait(10) == [CLOSED]

    def test_no_terminal_no_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with open(os.devnull) as nothing:
            monkeypatch.setattr("sys.stdin", nothing)
            with Keyboard() as keys:
                assert not keys.there
                assert keys.wait(0) == []
