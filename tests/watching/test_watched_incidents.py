"""Incidents in `watch`: one line for each in place of its alarms, until it is over."""

from __future__ import annotations

import json

from prequential.views.state.ranking import Ranking, is_shown
from prequential.views.watching.table import (
    change_line,
    change_lines,
    line,
    newest_changes,
    newest_lines,
    table,
)
from rich.console import Console
from watched import INCIDENT_LINE, LABELLED, alarm, incident, metrics, state_of


def shown(*values: bytes, now: int = LABELLED) -> list[str]:
    state = state_of(metrics(), *values)
    return [change_line(change, now, 200).plain for change, _ in newest_changes(state.models.values(), state)]


def test_an_open_incident_stands_for_its_alarms() -> None:
    alarms = [alarm(id=str(i), stage=stage) for i in range(6) for stage in ("initial", "final")]
    assert shown(*alarms) == ["  0s  12 alarms since 22:13:20  error  initial, final"]
    [found] = shown(*alarms, incident())
    assert found == (
        "  mean loss 0.111 → 0.352 since 22:08:20  open (0a1b2c3d)  segment region=eu (97%)  12 alarms"
    )


def test_alarms_from_before_it_stay_by_themselves() -> None:
    early = alarm(ts=LABELLED - 86_400_000, outcome=100)
    first, second = shown(early, alarm(), incident())
    assert "open (0a1b2c3d)" in first
    assert "1 alarm since" in second


def test_when_it_is_over_its_alarms_are_there_again() -> None:
    over = incident(status="closed", revision=3)
    assert shown(alarm(), incident(), over) == shown(alarm())
    late = incident(status="open", revision=2)
    assert len(shown(incident(revision=3, status="recovered"), late)) == 1
    assert "recovered (0a1b2c3d)" in shown(incident(revision=3, status="recovered"), late)[0]


def test_it_stays_however_long_it_takes_and_puts_its_model_first() -> None:
    day = 86_400_000
    state = state_of(metrics(model="worse", measures={"accuracy": 0.1}), metrics(model="nb"), incident())
    ranking = Ranking(state)
    assert [row.model.key.model for row in ranking.rows(LABELLED + day)] == ["nb", "worse"]


def test_the_first_screen_has_the_finding_and_the_next_step() -> None:
    """At 80 columns: which model, worse than what, since when, and the id of the incident."""
    baselines = {"persistent": {"before": 0.5, "after": 0.5}}
    state = state_of(metrics(model="calm"), metrics(model="nb"), incident(baselines=baselines))
    rows = Ranking(state).rows(LABELLED)
    console = Console(width=80)
    with console.capture() as captured:
        console.print(table(rows, state, None, 80, LABELLED))
    assert next(line.split()[-1] for line in captured.get().splitlines()[1:]) == "worse"
    [found] = change_lines(newest_changes(state.models.values(), state), state, LABELLED, 80)
    assert found.plain.startswith("  elec2 nb  accuracy 88.9% → 64.8% since 22:08:20  open (0a1b2c3d)")


def test_an_incident_that_has_ended_leaves_the_first_screen_after_an_hour() -> None:
    state = state_of(metrics(), incident(status="recovered"))
    [(change, model)] = newest_changes(state.models.values(), state)
    assert is_shown(change, LABELLED + 60_000)
    assert not is_shown(change, LABELLED + 86_400_000)
    assert not state.incidents.is_open(*model.key)


def test_a_message_that_comes_late_opens_no_incident_again() -> None:
    state = state_of(metrics(), incident(revision=3, status="closed"), incident(revision=2))
    assert newest_changes(state.models.values(), state) == []
    assert [message.status for message in state.incidents] == ["closed"]


def test_plain_lines() -> None:
    assert line("incidents", incident()) == INCIDENT_LINE
    assert INCIDENT_LINE in list(newest_lines(state_of(metrics(), incident())))


def test_an_incident_that_cant_be_read_is_counted() -> None:
    state = state_of(metrics())
    message = json.loads(incident())
    del message["before"]
    assert not state.update("incidents", json.dumps(message).encode())
    assert state.unreadable == 1
