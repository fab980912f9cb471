"""Write the table of features in `docs/features.md`: who needs each, its page, and its lines.

`python tests/features.py` writes it; `tests/test_features.py` tests that each file belongs to a feature.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "features.md"

#: The folders of the product.
PRODUCT = ROOT / "pipeline" / "prequential"
TOPICS = ROOT / "topics" / "prequential"

_TABLE = re.compile(r"(<!-- features -->\n).*?(<!-- end -->)", re.DOTALL)


class Feature(NamedTuple):
    """A feature, who needs it, its page below `docs`, and its files and folders."""

    name: str
    needed_by: str
    page: str
    paths: tuple[str, ...]


FEATURES = (
    Feature(
        "join of records with late labels, in stages", "everyone", "reference/semantics-outcomes.md",
        ("engine",),
    ),
    Feature(
        "compiled loops over tables", "everyone", "architecture.md",
        ("engine/tables", "engine/compiled", "engine/stepping.py", "engine/warmup.py",
         "runtime/compilation.py", "runtime/compiling_once.py", "cli/compile.py"),
    ),
    Feature(
        "estimators with forgetting", "everyone", "reference/semantics-estimators.md", ("engine/estimators",)
    ),
    Feature("measures", "everyone", "reference/measures.md", ("engine/measures", "engine/details")),
    Feature(
        "comparisons of models", "a data scientist who asks whether a challenger is better",
        "understand/repeated-looks.md", ("engine/comparisons",),
    ),
    Feature(
        "comparisons of segments", "teams that must show equal quality for groups", "do/compare-segments.md",
        ("engine/disparity.py", "topics/disparities.py"),
    ),
    Feature(
        "drift detectors", "users of the papers, and of River's detectors", "reference/detectors.md",
        ("engine/detectors",),
    ),
    Feature(
        "incidents with causes", "an engineer on call", "reference/semantics-incidents.md",
        ("engine/incidents",),
    ),
    Feature(
        "label latency, periods, expected values", "teams whose labels take days to months",
        "reference/semantics-periods.md", ("engine/delay", "engine/expectations.py"),
    ),
    Feature(
        "messages about all of these", "everyone", "reference/output-messages.md",
        ("engine/output", "topics/outputs.py", "topics/schemas.py", "topics/avro.py"),
    ),
    Feature("snapshots", "everyone who restarts a worker", "understand/reliability.md", ("engine/snapshot",)),
    Feature(
        "one evaluation of several partitions", "streams that are too large for one partition",
        "do/key-by-instance.md", ("engine/merging", "runtime/worker/merging.py", "topics/parts.py"),
    ),
    Feature(
        "worker on Kafka, exactly once", "everyone who runs it live", "do/run-workers.md",
        ("runtime/worker", "runtime/kafka", "runtime/program.py", "cli/worker.py", "cli/topics.py",
         "cli/common.py", "cli/main.py", "web", "topics"),
    ),
    Feature(
        "growing partitions of live topics", "an operator whose streams outgrow their topics",
        "do/add-partitions.md", ("runtime/worker/growing.py",),
    ),
    Feature(
        "Prometheus, OpenTelemetry", "platforms with monitoring", "do/prometheus-grafana.md",
        ("runtime/telemetry", "runtime/worker/exporter.py", "runtime/worker/scrape.py",
         "runtime/worker/series.py"),
    ),
    Feature(
        "notices of incidents", "teams that are reached by webhook or chat", "do/notify-webhook.md",
        ("runtime/notifying",),
    ),
    Feature(
        "topics of any shape", "platforms whose topics exist already", "do/ingest-topics.md",
        ("runtime/ingest",),
    ),
    Feature("mapping of columns and fields", "files, frames and topics with other names", "do/map-columns.md",
            ("mapping",)),
    Feature(
        "configuration", "everyone", "do/configure-streams.md", ("configuration", "configfile", "__init__.py")
    ),
    Feature(
        "effect of a change of configuration", "an operator before a roll-out", "do/change-configuration.md",
        ("configfile/changes", "cli/config.py"),
    ),
    Feature(
        "producers of records", "model servers in Python, and tests", "do/produce-records.md",
        ("cli/produce.py", "topics/producer.py"),
    ),
    Feature(
        "dead letters", "engineers who search for the cause of invalid records", "do/dead-letters.md",
        ("cli/dead_letters.py", "topics/dead_letters.py"),
    ),
    Feature(
        "state and texts from messages", "all pages, terminals and answers", "understand/which-number.md",
        ("views/state", "views/wording", "views/__init__.py"),
    ),
    Feature(
        "dashboard", "data scientists and engineers on call", "do/dashboard.md",
        ("views/dashboard", "views/svg.py", "cli/dashboard.py"),
    ),
    Feature(
        "table of models in a terminal", "engineers with a shell on the cluster and no browser",
        "do/dashboard.md", ("views/watching", "cli/watch.py"),
    ),
    Feature(
        "status of an installation", "scripts and engineers on call", "do/check-status.md",
        ("views/answers/cluster.py", "views/watching/group.py", "cli/status.py"),
    ),
    Feature(
        "explanations and marks of incidents", "an engineer on call", "do/respond-to-incident.md",
        ("views/answers/explanation.py", "views/watching/marks.py", "cli/mark.py", "topics/marks.py",
         "topics/marking.py"),
    ),
    Feature(
        "answers for agents", "users of assistants by the Model Context Protocol", "do/connect-agent.md",
        ("views/answers", "runtime/agents", "cli/mcp.py"),
    ),
    Feature(
        "report and gate", "pipelines that release models", "do/gate-deployment.md",
        ("views/report", "cli/report.py"),
    ),
    Feature(
        "findings about wrong input", "everyone in the first hour", "do/troubleshooting.md",
        ("views/diagnosis",),
    ),
    Feature(
        "replay of files and topics", "everyone who checks a number", "do/replay.md",
        ("offline/replay", "offline/__init__.py", "cli/replay.py"),
    ),
    Feature(
        "verification of what was published", "audits, and upgrades", "do/verify-messages.md",
        ("offline/replay/verification.py", "cli/verify.py"),
    ),
    Feature(
        "files as tables: CSV, Parquet, Arrow, frames", "users without Kafka", "do/evaluate-files.md",
        ("offline/tables",),
    ),
    Feature(
        "evaluation in Python", "notebooks and tests", "reference/python.md", ("evaluation",)
    ),
    Feature(
        "thresholds from a budget, on a past", "users of detectors who have a past",
        "do/calibrate-detectors.md", ("offline/calibration",),
    ),
    Feature(
        "detectors compared on a past", "users who choose a detector", "do/backtest-detectors.md",
        ("offline/backtesting", "cli/detectors.py"),
    ),
    Feature(
        "archive of messages", "reports on months and years, deletion of a person's records",
        "do/archive-history.md", ("archive", "cli/archive.py", "runtime/archiving"),
    ),
    Feature(
        "corrections and waiting records in a model server", "Python model servers with serial labels",
        "do/serve-models.md", ("serving",),
    ),
    Feature(
        "demo, data for trying out", "everyone in the first five minutes", "learn/flights.md",
        ("demo", "datasets", "cli/demo.py", "cli/__init__.py", "runtime/__init__.py"),
    ),
)  # fmt: skip


def files() -> list[Path]:
    """Return the product's files of code, with the scripts of its pages."""
    found = [*PRODUCT.rglob("*.py"), *TOPICS.rglob("*.py"), *PRODUCT.rglob("static/*.js")]
    return sorted(path for path in found if ".iife." not in path.name)


def feature_of(path: Path) -> Feature | None:
    """Return the feature that names a file, or else the nearest folder around it; None: none does."""
    name = path.relative_to(PRODUCT if path.is_relative_to(PRODUCT) else TOPICS)
    for part in (name, *name.parents):
        for feature in FEATURES:
            if part.as_posix() in feature.paths:
                return feature
    return None


def written(page: str) -> str:
    """Return the page with the table of features as they are now; lines are rounded to hundreds."""
    lines: dict[str, int] = {}
    for path in files():
        feature = feature_of(path)
        if feature is not None:
            count = len(path.read_text(encoding="utf-8").splitlines())
            lines[feature.name] = lines.get(feature.name, 0) + count
    rows = [
        f"|[{feature.name}]({feature.page})|{feature.needed_by}|{round(lines[feature.name], -2):,}|"
        for feature in FEATURES
    ]
    table = "\n".join(["|feature|needed by|lines|", "|-|-|-:|", *rows])
    return _TABLE.sub(lambda match: f"{match[1]}{table}\n{match[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
