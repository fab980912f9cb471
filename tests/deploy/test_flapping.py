"""Alerts hold through a gap in scraping and a shard's move, in every case in which they fire."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from dashboard import DEPLOY

pytestmark = pytest.mark.slow

_RULES = DEPLOY / "prometheus" / "alerts.yml"
_CASES = yaml.safe_load(_RULES.with_name("alerts_test.yml").read_text(encoding="utf-8"))["tests"]

#: Minutes without any series: a roll-out, or Prometheus' own restart.
_GAP = 4

#: Rules whose alert ends by itself, or is about what is away.
_PASSING = {"PrequentialNothingEvaluated", "PrequentialWorkerDown", "PrequentialIngestDown"}

_PART = re.compile(r"(stale|_|-?[\d.]+)(?:([+-][\d.]+))?(?:x(\d+))?")


def samples(values: str) -> list[float | str | None]:
    """A series of promtool's, minute by minute."""
    found: list[float | str | None] = []
    for part in values.split():
        begin, step, times = _PART.fullmatch(part).groups()  # type: ignore[union-attr]
        count = int(times or 0) + (begin != "_" or times is None)
        if begin in ("stale", "_"):
            found += ["stale" if begin == "stale" else None] * max(1, count)
        else:
            found += [float(begin) + i * float(step or 0) for i in range(count)]
    return found


def with_gap(series: str, values: str, at: int) -> list[dict[str, str]]:
    """The series up to a minute, and after a gap at another worker, where it goes on as it would have."""
    all_, moved = samples(values), re.sub(r'instance="[^"]*"', 'instance="elsewhere"', series)
    text = ["_" if one is None else str(one) for one in all_]
    before, after = text[:at], text[at + _GAP :]
    return [
        {"series": series, "values": " ".join([*before, "stale"])},
        {"series": moved, "values": " ".join(["_"] * (at + _GAP) + after)},
    ] if after and moved != series else [{"series": series, "values": " ".join(text)}]  # fmt: skip


def firing() -> list[Any]:
    return [
        pytest.param(test, case, id=f"{case['alertname']} at {case['eval_time']}")
        for test in _CASES
        for case in test["alert_rule_test"]
        if case.get("exp_alerts") and case["alertname"] not in _PASSING
    ]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize(("test", "case"), firing())
def test_an_alert_holds_through_a_gap_and_a_move(test: Any, case: Any, tmp_path: Path) -> None:
    """It fires at each minute of a gap that begins when it fires."""
    at = sum(int(n) * {"d": 1440, "h": 60, "m": 1}[u] for n, u in re.findall(r"(\d+)([dhm])", case["eval_time"]))
    series = [new for one in test["input_series"] for new in with_gap(one["series"], one["values"], at + 1)]
    holds = [
        {
            "expr": f'count(ALERTS{{alertname="{case["alertname"]}", alertstate="firing"}}) >= bool '
            f"{len(case['exp_alerts'])}",
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for minute in range(at, at + _GAP + 1)
    ]
    content = {
        "rule_files": [str(_RULES)],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": holds}],
    }
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump(content, width=10**6), encoding="utf-8")
    done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
