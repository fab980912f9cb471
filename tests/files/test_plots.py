"""Plots as SVG that is well-formed and safe; a `Result`'s have the numbers of its messages."""

from __future__ import annotations

import random
from operator import itemgetter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from prequential.evaluation import Plot, Result, evaluate
from prequential.evaluation.plots import course_plots, times_of
from prequential.topics.outputs import Metrics
from prequential.views.svg import Band, Line, lines_by_outcome, stacked

START = 1_700_000_000_000


@pytest.fixture(scope="module")
def result() -> Result:
    """Two models, one of which gets worse in the middle."""
    r = random.Random(1)
    rows, labels = [], []
    for i in range(3000):
        labels.append({"instance_id": i, "y_true": "UP", "ts": START + 1000 * i + 500})
        for model, wrong in (("a", 0.1 if i < 1500 else 0.5), ("b", 0.2)):
            guess = "DOWN" if r.random() < wrong else "UP"
            rows.append({"instance_id": i, "model": model, "y_pred": guess, "ts": START + 1000 * i})
    return evaluate(rows, labels, emit={"outcomes": 100, "every": None})


def tags(plot: Plot, name: str) -> list[Any]:
    root = ElementTree.fromstring(plot._repr_svg_())
    return root.findall(f".//{{http://www.w3.org/2000/svg}}{name}")


def test_lines_are_messages(result: Result) -> None:
    plot = result.plot("accuracy")
    assert plot.title == "accuracy, final, window:1000"
    for line in plot.lines[:2]:
        about = line.name, "window:1000"
        messages = [
            one for one in result.messages if isinstance(one, Metrics) and (one.model, one.estimator) == about
        ]
        newest = {one.ts: one.measures["accuracy"] for one in messages}  # the last one of a place counts
        assert list(line.x) == list(newest)
        assert list(line.y) == list(newest.values())
    assert [line.name for line in plot.lines if line.faint] == ["repeat latest", "most frequent"]
    assert len(tags(plot, "polyline")) == 4
    [incident] = result.summary.incidents
    assert [band.start for band in plot.bands] == [incident.change_point["ts"]]
    assert len(tags(plot, "rect")) == 1


def test_it_is_saved_and_shown(result: Result, tmp_path: Path) -> None:
    plot = result.plot("error", estimator="all")
    path = tmp_path / "error.svg"
    assert plot.save(path) == path.stat().st_size
    assert path.read_text() == plot._repr_svg_()
    assert plot._repr_svg_() in plot._repr_html_()
    assert ".save(path) writes SVG" in repr(plot)
    ElementTree.parse(path)


def test_what_nothing_has_is_refused(result: Result) -> None:
    for words, options in (
        ("unknown measure 'f7': expected one of error, accuracy", {"measure": "f7"}),
        ("no estimator 'window:7'", {"estimator": "window:7"}),
        ("no outcomes of stage 'bin:1'", {"stage": "bin:1"}),
        ("no message of segment 'arm=x': expected one of none", {"segment": "arm=x"}),
    ):
        with pytest.raises(ValueError, match=words):
            result.plot(**{"measure": "accuracy", **options})


def test_few_points_are_points_and_names_are_text() -> None:
    name = '<script>alert("1")</script>\u202e'
    line = Line(name, [1, 2, 3], [0.1, None, 0.3])
    plot = Plot(name, [line, Line("b", list(range(5000)), [0.5] * 5000)], [Band(1, None, name)])
    assert len(tags(plot, "circle")) == 2
    assert len(tags(plot, "polyline")) == 1
    assert "<script" not in plot._repr_svg_()
    assert "\u202e" not in plot._repr_svg_()


def test_of_many_points_the_extremes_are_drawn() -> None:
    values = np.sin(np.arange(5000.0) / 700)
    values[1234], values[4321] = 7.0, -7.0
    values[2000:2100] = np.nan
    [line] = lines_by_outcome({"sine": values})
    [drawn] = tags(Plot("t", [line]), "polyline")
    points = [tuple(map(float, one.split(","))) for one in drawn.get("points").split()]
    assert len(points) <= 402
    assert points == sorted(points)
    across = (points[-1][0] - points[0][0]) / 4999
    top, bottom = min(points, key=itemgetter(1)), max(points, key=itemgetter(1))
    assert round((top[0] - points[0][0]) / across) == pytest.approx(1234, abs=1)
    assert round((bottom[0] - points[0][0]) / across) == pytest.approx(4321, abs=1)


def test_marks_have_a_row_for_each_name_and_places_a_dashed_line() -> None:
    marks = {"adwin": [10, 20, 30], "kswin": [], "page-hinkley": [90]}
    plot = Plot("t", lines_by_outcome({"": np.linspace(0.1, 0.3, 100)}), marks=marks, dashed=[50])
    paths = [path.get("d") for path in tags(plot, "path")]
    assert [path.count("M") for path in paths] == [3, 0, 1]
    coloured = [*tags(plot, "path"), *tags(plot, "polyline")]
    assert len({one.get("stroke") for one in coloured}) == 4
    [dashed] = [line for line in tags(plot, "line") if line.get("stroke-dasharray")]
    assert dashed.get("x1") == dashed.get("x2")
    assert [text.text for text in tags(plot, "text") if text.text in marks] == list(marks)


@pytest.mark.parametrize("letters", [20, 60])
def test_plots_one_below_the_other(letters: int) -> None:
    """Names have as much room as they need."""
    name = "a detector of a long name, with all of its parameters"
    plots = [Plot(title, [Line(name, [1, 2], [0.5, None])]) for title in ("one", "two")]
    root = ElementTree.fromstring(stacked(plots, letters))
    assert [one.text for one in root.iter() if one.get("font-weight") == "bold"] == ["one", "two"]
    moved = [one.get("transform") for one in root if one.get("transform")]
    assert moved == ["translate(0 0)", "translate(0 260)"]
    names = [one.text for one in root.iter() if "a detector" in (one.text or "")]
    assert names == 2 * [f"0.500 {name if letters == 60 else f'{name[:19]}…'}"]


@pytest.mark.parametrize(
    "lines", [[], [Line("a", [], [])], [Line("a", [5], [None])], [Line("a", [5], [0.0])]]
)
def test_next_to_nothing_is_a_plot_too(lines: list[Line]) -> None:
    assert Plot("t", lines)._repr_svg_().endswith("</svg>")


def test_an_incident_is_explained(result: Result) -> None:
    [incident] = result.summary.incidents
    lines = result.explain()
    assert lines[0] == f"incident {incident.id}: {incident.stream}/a, final, {incident.status}"
    assert lines == result.explain(-1) == result.explain(incident.id[:8]) == result.explain(incident)
    assert any("baselines" in line for line in lines)
    with pytest.raises(ValueError, match="no incident number 1: there is 1"):
        result.explain(1)
    with pytest.raises(ValueError, match="there is no such incident"):
        result.explain("ffffffff")


def test_a_result_shows_its_plots(result: Result) -> None:
    html = result._repr_html_()
    assert html.count("<svg") == 1
    assert ": accuracy, means of" in html
    assert html.index("<svg") < html.index("<table")


def test_the_label_at_a_lines_end_is_a_value_with_a_name() -> None:
    """`1.000 model`: behind the name the value would read as the model's number."""
    root = ElementTree.fromstring(Plot("t", [Line("model", [1, 2], [0.5, 1.0])])._repr_svg_())
    assert "1.000 model" in [one.text for one in root.iter()]


def test_a_notebooks_axis_has_dates(result: Result) -> None:
    [plot] = course_plots(result.summary.sequences, [], times_of(result._metrics))
    assert plot.timed
    assert plot.axis == "label time (UTC)"
    # Labels come each second: the last block ends with the last label.
    for line in plot.lines:
        assert line.x[-1] == START + 1000 * 2999 + 500
        assert list(line.x) == sorted(line.x)
    assert "2023-11-14" in result._repr_html_()
    [without] = course_plots(result.summary.sequences, [])
    assert without.lines[0].x[-1] == 3000
    assert not without.timed


def test_a_model_has_one_colour_whatever_comes_first(result: Result) -> None:
    looks = {line.name: line.look for line in result.plot("accuracy").lines if not line.faint}
    assert looks == {"a": 0, "b": 1}
    [plot] = course_plots(reversed(result.summary.sequences), [])
    assert {line.name: line.look for line in plot.lines} == looks
    strokes = [one.get("stroke") for one in tags(plot, "polyline")]
    assert strokes == ["#d2691e", "#3b7dd8"]  # those of the page's second and first line


def test_each_outcome_is_no_mean_of_one() -> None:
    table = {"y_pred": ["UP", "UP"], "y_true": ["UP", "DOWN"]}
    html = evaluate(table, table)._repr_html_()
    assert ": accuracy, each outcome" in html
    assert "means of 1 " not in html
