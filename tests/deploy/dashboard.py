"""The Grafana dashboard as Prometheus sees it: its queries, with all variables filled in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "prequential.json"

#: What Grafana itself fills in; here for a short dashboard: four scrapes, a step, an hour.
_BUILT_IN = {"__rate_interval": "40s", "__interval": "15s", "__range": "1h"}

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::\w+)?\})")
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), *(?P<label>\w+)\)")


def load() -> dict[str, Any]:
    """The dashboard's JSON."""
    content: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return content


def panels() -> list[dict[str, Any]]:
    """All panels that show something, in order (rows don't)."""
    return [panel for panel in load()["panels"] if panel["type"] != "row"]


def dashboard_queries(
    stream: str = "elec2",
    model: str = ".+",
    stage: str = "final",
    estimator: str = "window:1000",
    segment: str = "^$",
    group: str = ".*",
    **built_in: str,
) -> list[str]:
    """Every PromQL query of the dashboard, once: panels, annotations and variables.

    `group`, `model` and `segment` are regular expressions, the others are names; `built_in` are variables of
    Grafana's own. Grafana's `label_values` isn't PromQL: `count by` asks for the same series and labels.

    >>> expand("up{job='$stream'}[$__range]", {"stream": "elec2"})
    "up{job='elec2'}[1h]"
    """
    values = {
        "stream": stream, "model": model, "stage": stage, "estimator": estimator, "segment": segment,
        "group": group,
    }  # fmt: skip
    values |= built_in
    return list(dict.fromkeys(expand(query, values) for query in templates().values()))


def expand(query: str, values: dict[str, str]) -> str:
    """The query with `$name` and `${name}` replaced; KeyError names an unknown variable."""
    known = _BUILT_IN | values
    return _VARIABLE.sub(lambda match: known[match[1] or match[2]], query)


def templates() -> dict[str, str]:
    """All queries as they are written, by where: `variable stream`, `annotation Restoring`, `2 Input A`."""
    dashboard, found = load(), {}
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            match = _LABEL_VALUES.fullmatch(variable["query"]["query"])
            if match is None:
                raise ValueError(f"{variable['query']['query']!r}: expected label_values(…, …)")
            found[f"variable {variable['name']}"] = f"count by ({match['label']}) ({match['series']})"
    for annotation in dashboard["annotations"]["list"]:
        found[f"annotation {annotation['name']}"] = annotation["expr"]
    for panel in panels():
        for target in panel["targets"]:
            found[f"{panel['id']} {panel['title']} {target['refId']}"] = target["expr"]
    return found
