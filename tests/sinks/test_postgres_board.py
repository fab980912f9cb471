"""Grafana's dashboard over PostgreSQL's tables: it is whole, and says what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana import GRAFANA, load, queries
from test_sinks_page import blocks

PAGE = Path(__file__).parents[2] / "docs" / "do" / "sink-postgresql.md"
TYPE = "grafana-postgresql-datasource"


def test_the_page_has_the_panels_query() -> None:
    [shown] = [one for one in blocks("sql", PAGE) if one.startswith("SELECT")]
    asked = queries()["$measure over time"].replace("$measure", "accuracy")
    assert shown.splitlines()[0] == asked.splitlines()[0]
    assert shown.split()[shown.split().index("FROM") + 1] == asked.split()[asked.split().index("FROM") + 1]


def test_variables_are_those_that_it_uses() -> None:
    names = [one["name"] for one in load()["templating"]["list"]]
    assert names == ["datasource", "stream", "partition", "model", "stage", "estimator", "segment", "measure"]
    used = set(re.findall(r"\$(\w+)", " ".join(queries().values())))
    assert used == {*names[1:], "__timeFilter"}
    # A macro's brackets end at the first one that closes.
    assert not re.search(r"\$__timeFilter\((?!ts\))", " ".join(queries().values()))


def test_all_ask_the_chosen_source() -> None:
    board = load()
    asking = [*board["panels"], *board["annotations"]["list"], *board["templating"]["list"][1:]]
    asking += [panel["targets"][0] for panel in board["panels"]]
    assert {(one["datasource"]["type"], one["datasource"]["uid"]) for one in asking} == {
        (TYPE, "${datasource}")
    }
    assert board["templating"]["list"][0]["query"] == TYPE


@pytest.mark.parametrize("panel", load()["panels"], ids=lambda panel: panel["title"])
def test_panel_can_be_read(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    [target] = panel["targets"]
    assert target["rawQuery"]
    assert target["format"] == {"timeseries": "time_series", "table": "table"}[panel["type"]]
    if panel["type"] == "timeseries":  # columns by which Grafana tells series
        assert re.match(r"SELECT (ts AS )?time, (model AS )?metric, (\S+ AS )?value\n", target["rawSql"])


def test_panels_fill_the_grid_without_overlap() -> None:
    places = [panel["gridPos"] for panel in load()["panels"]]
    cells = [
        (x, y)
        for one in places
        for x in range(one["x"], one["x"] + one["w"]) for y in range(one["y"], one["y"] + one["h"])
    ]  # fmt: skip
    assert len(set(cells)) == len(cells)
    assert set(cells) == {(x, y) for x in range(24) for y in range(max(y for _, y in cells) + 1)}
    assert len({panel["id"] for panel in load()["panels"]}) == len(places)


def test_there_is_no_source_until_somebody_fills_one_in() -> None:
    text = (GRAFANA / "provisioning" / "datasources" / "postgres.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["datasources"] == []
    example = "".join(re.findall(r"^# ((?:datasources:|  ).*\n)", text, re.MULTILINE))
    [source] = yaml.safe_load(example)["datasources"]
    assert (source["type"], source["access"], source["editable"]) == (TYPE, "proxy", False)
    assert source["secureJsonData"]["password"].startswith("$")
