"""Labels stopped, predictions stopped, idle, no worker, no connection: five states have five texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from boards import START, history_of, live, metrics
from prequential.views.dashboard.overview import Overview
from prequential.views.state.output_records import OutputRecord
from prequential.views.state.ranking import Choice
from prequential.views.wording.status import NEXT_OF_STATUS

from tests.browser import ready

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOUR = 3_600_000

#: 6,000 outcomes, one a second, then eight hours.
LATER = START + 6_000_000 + 8 * HOUR


def evaluated(waiting: int = 5, **changed: Any) -> Iterator[OutputRecord]:
    """A model with an outcome each second, and a few predictions that wait for labels."""
    for outcomes in range(100, 6001, 100):
        yield metrics(outcomes, 0.88, counts={"waiting": waiting}, **changed)


def unlabelled(hours: int = 8, outcomes: int = 6000, **changed: Any) -> Iterator[OutputRecord]:
    """Messages of a model whose predictions go on without labels: 300 more of them wait each hour."""
    for hour in range(hours + 1):
        time = START + 6_000_000 + hour * HOUR
        record = metrics(
            outcomes, 0.88, counts={"waiting": 5 + 300 * hour}, ts=time,
            **({} if outcomes else {"measures": {}, "n": 0}), **changed,
        )  # fmt: skip
        yield record._replace(time=time)


def statuses(
    *records: Any, now: int | None = LATER, workers: int | None = 2
) -> dict[str, tuple[str, str]]:
    history = history_of(*records)
    history.workers = workers
    told = Overview(history, now is not None).page(Choice(), now or history.newest_ts)
    return {one["model"]: (one["status"]["word"], one["status"]["sentence"]) for one in told["needs"]}


class TestTexts:
    @pytest.mark.parametrize("now", [LATER, None])
    def test_labels_stopped(self, now: int | None) -> None:
        assert statuses(evaluated(), unlabelled(), now=now) == {
            "nb": ("no labels", "2,405 predictions wait, no label for 8 h: "
                                "its labels stopped, its predictions go on."),
        }  # fmt: skip

    @pytest.mark.parametrize("now", [LATER, None])
    def test_a_model_without_any_label(self, now: int | None) -> None:
        others = [record._replace(time=record.time + 8 * HOUR) for record in evaluated(model="other")]
        told = statuses(unlabelled(outcomes=0), others, now=now)
        assert told["nb"] == ("no labels", "2,405 predictions, no label for 8 h.")

    def test_a_new_model_waits_for_its_first_label(self) -> None:
        history = history_of(unlabelled(hours=1, outcomes=0))
        [row] = Overview(history, True).page(Choice(), START + 6_000_000 + HOUR, as_table=True)["rows"]
        assert row["status"]["kind"] == "waiting"
        assert row["status"]["sentence"] == "305 predictions, no label for 1 h."

    def test_predictions_stopped(self) -> None:
        others = [metrics(n, 0.9, model="other") for n in range(6000, 9001, 100)]
        told = statuses(evaluated(), others, now=START + 9_000_000)
        assert told == {
            "nb": ("silent", "No labelled prediction for 50 min: "
                             "its predictions stopped, its stream goes on."),
        }  # fmt: skip

    @pytest.mark.parametrize(("workers", "why"), [
        (2, "no record of its stream arrives"), (None, "no record of its stream arrives"),
        (0, "no worker runs"),
    ])  # fmt: skip
    def test_idle_and_without_a_worker(self, workers: int | None, why: str) -> None:
        told = statuses(evaluated(), workers=workers)
        assert told == {"nb": ("silent", f"No labelled prediction for 8 h: {why}.")}

    def test_old_messages_leave_it_undecided(self) -> None:
        told = statuses(metrics(n) for n in range(100, 6001, 100))
        why = "either the labels of its stream stopped, or all its predictions"
        assert told == {"nb": ("silent", f"No labelled prediction for 8 h: {why}.")}


@pytest.mark.slow
def test_five_states_have_five_texts(page: Page) -> None:
    with live(evaluated(), unlabelled(outcomes=0, model="never")) as (server, board, now):
        board.take(list(unlabelled()))
        now[0], board.history.workers = LATER, 2
        ready(page, server.address)
        assert page.inner_text("h1") == "2 of 2 models need attention"
        assert "its labels stopped" in page.inner_text(".needs")
        assert "2,405 predictions, no label for 8 h." in page.inner_text(".needs")
        assert not page.is_visible(".notice")
        ready(page, server.address + "?m#/model?stream=elec2&model=nb&partition=0")
        assert "its labels stopped" in page.inner_text(".story")
        assert "No problem" not in page.inner_text("main")
        now[0] += 40 * HOUR
        for workers, trouble, text in (
            (2, None, "Idle. 2 workers run, and no record has arrived since"),
            (0, None, "Not live. No worker runs"), (2, "no broker", "Not live. The dashboard is cut off"),
        ):  # fmt: skip
            board.history.workers, board.trouble = workers, trouble
            ready(page, f"{server.address}?{text[:9]}{workers}{trouble}")
            assert page.inner_text(".notice").startswith(text)


def test_each_status_that_needs_attention_has_a_next_step() -> None:
    cases = {
        "unlabelled": (evaluated(), unlabelled()), "below": [metrics(6000, 0.6)], "silent": (evaluated(),),
    }  # fmt: skip
    for kind, records in cases.items():
        history = history_of(*records)
        history.workers = 2
        [one] = Overview(history, kind != "below").page(Choice(), LATER)["needs"]
        assert (one["status"]["kind"], one["status"]["next"]) == (kind, NEXT_OF_STATUS[kind])
        history.workers = 0
        if kind == "silent":
            [one] = Overview(history, True).page(Choice(), LATER)["needs"]
            assert one["status"]["next"] == "start a worker: prequential worker --config FILE"
