"""The dashboard over PostgreSQL as the database sees it: its queries, with all variables filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GRAFANA = Path(__file__).parents[2] / "deploy" / "grafana"

#: What Grafana makes of its own words: a time column within the chosen time.
_FILTER = re.compile(r"\$__timeFilter\((\w+)\)")

_VARIABLE = re.compile(r"\$(\w+)")


def load() -> dict[str, Any]:
    """The dashboard's JSON."""
    path = GRAFANA / "dashboards" / "prequential-postgres.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def queries() -> dict[str, str]:
    """All SQL as it is written, by where: a variable's, a panel's or an annotation's name."""
    board = load()
    variables = (one for one in board["templating"]["list"] if one["type"] == "query")
    return {
        **{one["name"]: one["query"] for one in variables},
        **{one["title"]: one["targets"][0]["rawSql"] for one in board["panels"]},
        **{one["name"] + " (annotation)": one["target"]["rawSql"] for one in board["annotations"]["list"]},
    }


def expanded(sql: str, values: Mapping[str, str | list[str]], since: str, until: str) -> str:
    """The query as Grafana sends it; KeyError names an unknown variable.

    A variable with several values is a list of texts in quotes, another one stands there as it is.

    >>> expanded("$__timeFilter(ts) AND m IN ($m) AND '$s' = s", {"m": ["a", "b"], "s": "x"}, "1", "2")
    "ts BETWEEN '1' AND '2' AND m IN ('a','b') AND 'x' = s"
    """

    def value(match: re.Match[str]) -> str:
        found = values[match[1]]
        return found if isinstance(found, str) else ",".join(f"'{one}'" for one in found)

    return _VARIABLE.sub(value, _FILTER.sub(rf"\1 BETWEEN '{since}' AND '{until}'", sql))
