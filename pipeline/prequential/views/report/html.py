"""A report: the dashboard's pages with their data, scripts and styles in one file of bounded size."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from prequential.configuration.settings.model import Config
from prequential.engine.measures.registry import LESS_IS_BETTER
from prequential.topics.errors import Fault, printable
from prequential.views.dashboard.courses import COVERAGE, Courses, by_stream, columns
from prequential.views.dashboard.gate import StatedCondition, gate_page
from prequential.views.dashboard.incident import incident_list, incident_page
from prequential.views.dashboard.overview import Overview
from prequential.views.dashboard.pages import model_page
from prequential.views.dashboard.pair import pair_page
from prequential.views.dashboard.server import static_files
from prequential.views.dashboard.verdict import verdict_of, worst_first
from prequential.views.state import ranking
from prequential.views.state.history import History
from prequential.views.state.newest import ModelKey
from prequential.views.state.series import Point, Series

#: Bytes of a report: what any mail server takes.
MOST_BYTES = 2_000_000

#: Shares of what scripts and styles leave: rows and plots of the overview, lines and pages of incidents,
#: pairs; models get the rest.
_ROWS_SHARE, _PLOTS_SHARE, _LINES_SHARE, _INCIDENTS_SHARE, _PAIRS_SHARE = 0.2, 0.15, 0.05, 0.1, 0.2

#: The share of the whole file for checks of the gate, and for its promotions.
_GATE_SHARE = 0.02

#: Bytes kept back for names, numbers and brackets around the parts.
_RESERVE = 20_000

#: Bytes by which escaping makes a character longer.
_ESCAPE = len(r"\u003c") - 1

#: Findings that are listed.
_FINDINGS = 100

#: Points of a course in an incident's and in a pair's page.
_POINTS = 100

#: The page's modules, each behind those that it imports from.
MODULES = (
    "dom", "format", "source", "chart", "small", "overview", "mistakes", "probabilities",
    "residuals", "model", "pair", "marking", "incident", "gate", "configurations", "main",
)  # fmt: skip

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


class Detail(NamedTuple):
    """How much of a model is shown."""

    points: int
    #: Measures whose courses are kept; None: all of them.
    measures: int | None
    #: Alarms in the list, and marks on the axis.
    alarms: int


#: From the most to the least: the first with which all models fit is taken, or else the last.
_DETAILS = (Detail(240, None, 100), Detail(120, None, 50), Detail(80, 8, 30), Detail(40, 6, 15))

#: Models that are tried to learn how large they are.
_TRIED = 5


class ThinCourses(Courses):
    """Courses of at most so many points and so many measures, in five digits."""

    def __init__(self, history: History, points: int, measures: int | None = None) -> None:
        super().__init__(history)
        self._points, self._measures = points, measures

    def course(self, name: str, series: Series | None, newest: Point | None = None) -> dict[str, Any]:
        """One sequence's course, thinned, up to its newest message."""
        if series is None:
            return super().course(name, series)
        names = [*dict.fromkeys((*series.names, *(() if newest is None else newest.values)))]
        if self._measures is not None:
            shown = {*ranking.measures_shown(frozenset(names), None)[: self._measures], "p_per", "p_maj"}
            names = [
                column_name
                for column_name in names
                if column_name.partition(".")[0] in shown or name == COVERAGE
            ]
        end = series.before(newest)
        indices = [index for index in series.at_most(self._points) if index < end]
        course_columns = columns(series, indices, newest, names)
        # The newest value is whole, because the page shows it next to the chart.
        kept = len(course_columns["t"]) - (newest is not None)
        course_columns["values"] = {
            column_name: [None if value is None else float(f"{value:.5g}") for value in values[:kept]]
            + values[kept:]
            for column_name, values in course_columns["values"].items()
        }
        return {"from": 0, **course_columns}


def page(
    history: History, title: str, findings: Iterable[str], most: int = MOST_BYTES,
    conditions: Sequence[StatedCondition] = (),
) -> bytes:  # fmt: skip
    """The file, of fewer than `most` bytes; its gate also has these conditions."""
    files = {name: body.decode() for name, body in static_files().items()}
    style = files["uPlot.min.css"] + files["style.css"]
    scripts = [files["uPlot.iife.min.js"], bundle(files)]
    shell = sum(len(text.encode()) for text in (style, *scripts))
    sentences = list(findings)
    if len(sentences) > _FINDINGS:
        sentences[_FINDINGS:] = [f"… and {len(sentences) - _FINDINGS:,} more of the kind"]
    fixed = _bytes_of({"title": title, "findings": sentences}) + len(html.escape(title).encode())
    gate = gate_page(history, None, conditions)
    gate["checks"] = fit(gate["checks"], most * _GATE_SHARE)
    gate["promotions"] = fit(gate["promotions"], most * _GATE_SHARE)
    data = _data(history, title, sentences, gate, most - shell - _RESERVE - fixed).decode()
    data = data.replace("<", "\\u003c")  # it can't end its element
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {_source(style)}; script-src {' '.join(map(_source, scripts))}"
    )
    text = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html.escape(printable(title or 'report'))} · prequential</title>\n"
        f"<style>{style}</style>\n</head>\n"
        "<body>\n"
        '<a class="skip" href="#main">Skip to the content</a>\n<header id="header"></header>\n'
        '<main id="main" tabindex="-1"></main>\n<noscript>This page needs JavaScript.</noscript>\n'
        f"<!-- uPlot: {html.escape(files['uPlot.LICENSE'])} -->\n"
        f'<script type="application/json" id="report">{data}</script>\n'
        + "".join(f"<script>{script}</script>\n" for script in scripts)
        + "</body>\n</html>\n"
    )
    written = text.encode()
    if len(written) >= most:
        raise Fault(f"the report has {len(written):,} bytes: expected fewer than {most:,}")
    return written


def bundle(files: dict[str, str]) -> str:
    """The page's modules as one script: each is a function that returns what it exports."""
    parts = ['"use strict";']
    for name in MODULES:
        source = files[f"{name}.js"]
        exported = _EXPORT.findall(source)
        source = _IMPORT.sub(r"const {\1} = module_\2;", _EXPORT.sub("", source))
        returned = f"return {{ {', '.join(exported)} }};"
        parts.append(f"const module_{name} = (() => {{\n{source}\n{returned}\n}})();")
    return "\n".join(parts)


def _data(
    history: History, title: str, findings: list[str], gate: dict[str, Any], budget: int
) -> bytes:  # fmt: skip
    overview = Overview(history)
    now = history.newest_ts
    rows = overview.rows(ranking.Choice(), now)
    table = overview.page(ranking.Choice(), now, 0, 1)
    table["rows"] = fit((overview.row(row, table["measures"], now) for row in rows), budget * _ROWS_SHARE)
    streams = by_stream(rows)
    of_streams = (
        overview.plots({stream_partition: rows_of_stream}, None, now)[0]
        for stream_partition, rows_of_stream in streams.items()
    )
    table["plots"] = fit(of_streams, budget * _PLOTS_SHARE)
    table["less_is_better"] = list(LESS_IS_BETTER)
    table["verdict"] = list(verdict_of(history, rows))
    # Other ways to sort need data that is removed.
    sortable = {"newest alarm", "fewest outcomes", "name", *table["measures"]}
    table["options"] = {
        "by": [way for way in table["options"]["by"] if way in sortable], "stages": [], "estimators": [],
    }  # fmt: skip
    courses = ThinCourses(history, _POINTS)
    worst = [incident.id for incident in worst_first(history.incidents.all())]
    incidents = fit((incident_page(history, name, courses) for name in worst), budget * _INCIDENTS_SHARE)
    pairs = fit(_pair_pages(history, rows), budget * _PAIRS_SHARE)
    listed = incident_list(history)
    listed["incidents"] = fit(listed["incidents"], budget * _LINES_SHARE)
    spent = sum(map(_bytes_of, (table, listed, incidents, pairs, gate)))
    whole = _models(history, rows, budget - spent)
    spent += sum(map(_bytes_of, whole))
    # What is left has room for further incidents first, then for other estimators and segments of models.
    further = worst[len(incidents) :]
    more = fit((incident_page(history, name, courses) for name in further), budget - spent)
    incidents += more
    models = _further(history, rows, whole, budget - spent - sum(map(_bytes_of, more)))
    shown = len(
        {(model_data["stream"], model_data["model"], model_data["partition"]) for model_data in models}
    )
    left_out = None
    if shown < len(rows):
        left_out = f"the report has room for pages of the {shown:,} worst of {len(rows):,} models"
        if len(table["rows"]) < len(rows):
            left_out += f", and for lines of the {len(table['rows']):,} worst"
        if len(table["plots"]) < len(streams):
            left_out += f"; for plots of the {len(table['plots']):,} worst of {len(streams):,} streams"
    board = {
        "title": title, "now": now, "live": False, "catching_up": False, "read": history.messages,
        "to_read": 0, "since": None, "unreadable": history.unreadable, "messages": history.messages,
        "untimed": history.untimed, "trouble": None, "incidents_open": history.incidents.open_count(),
        "split": sorted(history.misplaced)[:5], "findings": findings, "left_out": left_out,
    }  # fmt: skip
    return msgspec.json.encode(
        {
            "board": board,
            "overview": table,
            "models": models,
            "pairs": pairs,
            "incident_list": listed,
            "incidents": incidents,
            "gate": gate,
        }
    )


def _bytes_of(part: Any) -> int:
    """Bytes that a part takes in the file, with a comma."""
    text: bytes = msgspec.json.encode(part)
    return len(text) + _ESCAPE * text.count(b"<") + 1


def fit(parts: Iterable[dict[str, Any]], budget: float) -> list[dict[str, Any]]:
    """As many, from the first on, as fit within so many bytes.

    >>> len(fit(({"n": n} for n in range(1000)), 100))
    12
    """
    fitting = []
    for part in parts:
        budget -= _bytes_of(part)
        if budget < 0:
            break
        fitting.append(part)
    return fitting


def _page_of_model(
    history: History, detail: Detail, key: ModelKey, estimator: str | None = None, segment: str | None = None
) -> dict[str, Any]:
    """Return the page of a model with this much detail."""
    page_data = model_page(
        history, key, estimator, segment, ThinCourses(history, detail.points, detail.measures)
    )
    page_data["alarms"] = page_data["alarms"][: detail.alarms]
    for name in ("marks", "bands"):
        page_data[name] = page_data[name][-detail.alarms :]
    room = detail.alarms  # of all incidents, the newest first
    for incident in page_data["incidents"]:
        incident["alarms"] = incident["alarms"][:room]
        room -= len(incident["alarms"])
    return page_data


def _detail(history: History, keys: list[ModelKey], budget: float) -> Detail:
    """Return the most detail with which the pages of all models fit."""

    def size(detail: Detail) -> int:
        """About how many bytes all models would take."""
        tried = keys[:: max(1, len(keys) // _TRIED)][:_TRIED]
        return len(keys) * max((_bytes_of(_page_of_model(history, detail, key)) for key in tried), default=0)

    return next((candidate for candidate in _DETAILS if size(candidate) <= budget), _DETAILS[-1])


def _models(history: History, rows: list[ranking.RankedModel], budget: float) -> list[dict[str, Any]]:
    """Return the pages of models as they are shown, the worst first."""
    keys = [row.model.key for row in rows]
    detail = _detail(history, keys, budget)
    return fit((_page_of_model(history, detail, key) for key in keys), budget)


def _further(
    history: History, rows: list[ranking.RankedModel], pages: list[dict[str, Any]], budget: float
) -> list[dict[str, Any]]:
    """Return the pages of models, with pages in other estimators and then in segments, if there is room."""
    keys = [row.model.key for row in rows]
    if len(pages) == len(rows):
        detail = _detail(history, keys, budget + sum(map(_bytes_of, pages)))
        further = [
            (key, name, None)
            for key, page_data in zip(keys, pages)
            for name in page_data["estimators"]
            if name != page_data["estimator"]
        ]
        of_segments = [
            (key, page_data["estimator"], name)
            for key, page_data in zip(keys, pages)
            for name in page_data["segments"]
        ]
        pages = pages + fit(
            (_page_of_model(history, detail, *page_choice) for page_choice in (*further, *of_segments)),
            budget,
        )
    for page_data in pages:
        alike = [
            alike_page
            for alike_page in pages
            if all(alike_page[name] == page_data[name] for name in ModelKey._fields)
        ]
        page_data["estimators"] = sorted(
            {alike_page["estimator"] for alike_page in alike if alike_page["segment"] is None}
        )
        page_data["segments"] = sorted(
            {alike_page["segment"] for alike_page in alike if alike_page["segment"] is not None}
        )
    return pages


def _pair_pages(history: History, rows: list[ranking.RankedModel]) -> Iterator[dict[str, Any]]:
    """Of streams in the order of their worst models; sure ones first."""
    seen = set()
    streams = dict.fromkeys((row.model.key.stream, row.model.key.partition) for row in rows)
    for stream, partition in streams:
        pairs = history.pairs(stream, partition)
        for pair in sorted(pairs, key=lambda pair: (pair.segment is not None, not pair.is_decided)):
            if pair.key not in seen:
                seen.add(pair.key)
                yield pair_page(history, pair.key, ThinCourses(history, _POINTS))


def _source(text: str) -> str:
    """What allows an inline script or style by its digest."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


class Report:
    """Takes messages, and keeps what a report shows of them: memory is bounded as in `History`.

    `config` has the objectives of the models, and `title` is the title of the report.
    """

    def __init__(self, title: str = "", config: Config | None = None) -> None:
        self.title = title
        self.history = History(config)
        #: Sentences about what looks wrong, such as a replay's findings.
        self.findings: list[str] = []
        #: Conditions of `--fail-if`, which the page of the gate lists with their answers.
        self.conditions: Sequence[StatedCondition] = ()

    def put(self, output: object) -> None:
        """Take an output of a shard; ignore dead letters, which are not shown."""
        self.history.put(output)

    def html(self, most: int = MOST_BYTES) -> bytes:
        """The report as one HTML file of fewer bytes than `most`, which needs nothing else."""
        return page(self.history, self.title, self.findings, most, self.conditions)

    def values(self) -> dict[str, Any]:
        """Return what the report's first screen shows, as plain values for JSON."""
        overview, now = Overview(self.history), self.history.newest_ts
        rows = overview.rows(ranking.Choice(), now)
        measure_names = frozenset(
            name for row in rows if row.reading is not None for name in row.reading.measures
        )
        names = ranking.measures_shown(measure_names, None)
        return {
            "verdict": list(verdict_of(self.history, rows)),
            "models": [overview.row(row, names, now) for row in rows],
            "incidents": incident_list(self.history)["incidents"],
            "gate": gate_page(self.history, None, self.conditions),
            "findings": list(self.findings),
        }  # fmt: skip
