"""Alerts hold through a gap in scraping and a shard's move, in every case in which they fire."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dashboard import DEPLOY
from promtool import promtool

from tests.nightly import NIGHTLY

pytestmark = pytest.mark.slow

_RULES = DEPLOY / "prometheus" / "alerts.yml"
#: As text, as promtool reads it: `0x120` is no number.
_ALL = yaml.load(_RULES.with_name("alerts_test.yml").read_text(encoding="utf-8"), yaml.CBaseLoader)["tests"]
#: Those with a value each minute.
_CASES = [test for test in _ALL if test["interval"] == "1m"]
_GROUPS = yaml.load(_RULES.read_text(encoding="utf-8"), yaml.CSafeLoader)["groups"]

#: Minutes without any series: a roll-out, or Prometheus' own restart. And minutes that are looked at after
#: it: longer than any alert is kept firing.
_GAP, _AFTER = 4, 20

#: Alerts about processes, which end when a process can't be asked any more.
_ABOUT_PROCESSES = {
    rule["alert"]
    for group in _GROUPS
    if group["name"]
    in (
        "prequential-processes", "prequential-workers", "prequential-ingest", "prequential-notify",
        "prequential-archive",
    )
    for rule in group["rules"]
}

_PART = re.compile(r"(stale|_|-?[\d.]+)(?:([+-][\d.]+))?(?:x(\d+))?")


def minutes(values: str, count: int) -> list[str]:
    """A series of promtool's, minute by minute; it goes on as it ends.

    >>> minutes("_x2 1+2x2 7", 7), minutes("3 stale", 3), minutes("0+5x1", 4)
    (['_', '_', '1', '3', '5', '7', '7'], ['3', 'stale', '_'], ['0', '5', '10', '15'])
    """
    found: list[str] = []
    for part in values.split():
        match = _PART.fullmatch(part)
        assert match is not None, part
        begin, step, times = match[1], float(match[2] or 0), int(match[3] or 0)
        if begin in ("stale", "_"):
            found += [begin] * max(1, times)
        else:
            found += [f"{float(begin) + i * step:g}" for i in range(times + 1)]
    if begin in ("stale", "_"):
        return (found + ["_"] * count)[:count]
    return (found + [f"{float(found[-1]) + i * step:g}" for i in range(1, count + 1)])[:count]


def with_gap(series: str, values: str, at: int) -> list[dict[str, str]]:
    """The series up to a minute, and after a gap at another worker, where it goes on as it would have."""
    found = minutes(values, at + _GAP + _AFTER)
    moved = re.sub(r'instance="([^"]*)"', r'instance="after \1"', series)
    return [
        {"series": series, "values": " ".join([*found[:at], "stale"])},
        {"series": moved, "values": " ".join(["_"] * (at + _GAP) + found[at + _GAP :])},
    ]


def needed(*alerts: str) -> list[dict[str, Any]]:
    """The groups of rules, with nothing but the alerts and what they ask of recorded series."""
    rules = {rule.get("alert") or rule["record"]: rule for group in _GROUPS for rule in group["rules"]}
    names, waiting = set(), [*alerts]
    while waiting:
        names.add(name := waiting.pop())
        waiting += {other for other in rules if other in rules[name]["expr"]} - names
    wanted = [rules[name] for name in rules if name in names]
    return [{**group, "rules": [rule for rule in group["rules"] if rule in wanted]} for group in _GROUPS]


def written(folder: Path, test: dict[str, Any], *alerts: str) -> Path:
    """A file for promtool with this test of these alerts; other rules would take most of the time."""
    rules, path = folder / f"rules-{test['name']}.yml", folder / f"test-{test['name']}.yml"
    rules.write_text(yaml.safe_dump({"groups": needed(*alerts)}), encoding="utf-8")
    if asked := test.get("promql_expr_test"):  # a quoted value is no number to promtool
        test = {**test, "promql_expr_test": [
            {**one, "exp_samples": [{**own, "value": float(own["value"])} for own in one["exp_samples"]]}
            for one in asked
        ]}  # fmt: skip
    content = {"rule_files": [rules.name], "evaluation_interval": "1m", "tests": [test]}
    path.write_text(yaml.safe_dump(content, width=10**6), encoding="utf-8")
    return path


def asked_for(test: dict[str, Any]) -> set[str]:
    """Alerts that a test's queries choose by a pattern of names."""
    queries = " ".join(one["expr"] for one in test.get("promql_expr_test", ()))
    patterns = re.findall(r'alertname=~"([^"]*)"', queries)
    names = [rule["alert"] for group in _GROUPS for rule in group["rules"] if "alert" in rule]
    return {name for name in names for pattern in patterns if re.fullmatch(pattern, name)}


def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    """Each by itself; `make nightly` has all of them see all tests."""
    files = [
        written(
            tmp_path, {**test, "name": str(number)}, *{case["alertname"] for case in cases}, *asked_for(test)
        )
        for number, test in enumerate(_CASES) if (cases := test["alert_rule_test"])
    ]  # fmt: skip
    assert len(files) == len(_CASES) >= 50
    promtool("test", "rules", *files)


def moved(series: dict[str, Any], at: int, until: int) -> list[dict[str, str]]:
    """Series of shards that move at a minute, and are at another worker two minutes later; others stay."""
    found = minutes(series["values"], until + 1)
    name = series["series"]
    if not re.search(r"\b(partition|stream)=", name) or name.startswith("prequential_ingest"):
        return [{"series": name, "values": " ".join(found)}]
    after = re.sub(r'instance="([^"]*)"', r'instance="after \1"', name)
    return [
        {"series": name, "values": " ".join([*found[:at], "stale"])},
        {"series": after, "values": " ".join(["_"] * (at + 1) + found[at + 1 :])},
    ]


def taken_over() -> Iterator[tuple[str, dict[str, Any]]]:
    """Alerts, each with a test: some minutes after a takeover as many fire as without one.

    By day the first case of each alert in which it fires, and the first in which it is silent. What changes
    during the takeover itself may be noticed a minute later.
    """
    seen = set()
    for test in _CASES:
        for case in test["alert_rule_test"]:
            name, expected = case["alertname"], case.get("exp_alerts") or []
            kind, until = (name, bool(expected)), int(case["eval_time"].removesuffix("m"))
            if kind in seen and not NIGHTLY:
                continue
            seen.add(kind)
            fires = f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)'
            asked = {"expr": fires, "eval_time": f"{until}m", "exp_samples": [
                {"labels": "{}", "value": len(expected)}
            ]}  # fmt: skip
            for at in (until - 4, until - 13):
                if at > 0:
                    split = [part for one in test["input_series"] for part in moved(one, at, until)]
                    yield name, {"interval": "1m", "input_series": split, "promql_expr_test": [asked]}


def test_a_takeover_neither_raises_nor_ends_an_alert(tmp_path: Path) -> None:
    files = [
        written(tmp_path, {**test, "name": f"move-{number}"}, name)
        for number, (name, test) in enumerate(taken_over())
    ]
    assert len(files) > 100
    promtool("test", "rules", *files)


def firing() -> Iterator[Any]:
    """Every case with an alert, and its series; by day the first of each alert."""
    seen = set()
    for test in _CASES:
        for case in test["alert_rule_test"]:
            name = case["alertname"]
            if case.get("exp_alerts") and name not in _ABOUT_PROCESSES:
                marks = [pytest.mark.nightly] if name in seen else []
                at = f"{name} at {case['eval_time']}"
                yield pytest.param(test["input_series"], case, id=at, marks=marks)
                seen.add(name)


@pytest.mark.parametrize(("series", "case"), list(firing()))
def test_an_alert_holds_through_a_gap_and_a_move(
    series: list[dict[str, Any]], case: dict[str, Any], tmp_path: Path
) -> None:
    """It fires at each minute of a gap that begins when it fires, and having ended doesn't begin again."""
    at = int(case["eval_time"].removesuffix("m"))
    checks = []
    for expected in case["exp_alerts"]:
        labels = {"alertname": case["alertname"], "alertstate": "firing", **expected["exp_labels"]}
        fires = f"count(ALERTS{{{', '.join(f'{name}={value!r}' for name, value in labels.items())}}})"
        turns = f"changes(({fires} or vector(0))[{_GAP + _AFTER}m:1m]) <= bool 1"
        checks += [(fires, minute) for minute in range(at, at + _GAP + 1)] + [(turns, at + _GAP + _AFTER)]
    split = [new for one in series for new in with_gap(one["series"], one["values"], at + 1)]
    yes = [{"labels": "{}", "value": 1}]
    asked = [{"expr": query, "eval_time": f"{minute}m", "exp_samples": yes} for query, minute in checks]
    test = {"name": "gap", "interval": "1m", "input_series": split, "promql_expr_test": asked}
    promtool("test", "rules", written(tmp_path, test, case["alertname"]))
