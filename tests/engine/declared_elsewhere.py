"""A process with measures that are declared here and nowhere else: what all parts of the product say of them.

`python tests/engine/declared_elsewhere.py FOLDER` writes JSON. The registry is made at its first import, so
the declarations stand before all others that need it.
"""

# ruff: noqa: E402

from __future__ import annotations

import json
import sys
from pathlib import Path

from prequential.engine.compiled.kernel import Floats, inner
from prequential.engine.measures import declaration
from prequential.engine.measures.agreement import Totals
from prequential.engine.measures.declaration import Loss, Result, measure
from prequential.engine.tables.outcomes import Log
from prequential.engine.tables.scores import SCORED, SQUARED_ERRORS


@measure(declaration.MATRIX, "(c - c_per)/n", "the test", low=-1, high=1, reference=declaration.PERSISTENT)
def advantage(t: Totals) -> Result:
    """Share of outcomes right, less that of the persistent baseline."""
    return (t.right - t.persistent) / t.n, declaration.DEFINED


@inner
def own_half_square(log: Log, row: int) -> tuple[float, bool]:
    """e²/2 of an outcome."""
    return 0.5 * log.error[row] * log.error[row], True


@measure(
    declaration.NUMBERS, "mean of e²/2", "the test", low=0, better=declaration.LESS,
    loss=Loss("half_mse", function=own_half_square),
)  # fmt: skip
def half_mse(sums: Floats) -> Result:
    """Half of the mean squared error."""
    return 0.5 * sums[SQUARED_ERRORS] / sums[SCORED], declaration.DEFINED


from helpers import Feed, advance, alarms_of, metrics_of
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import ConfigError
from prequential.engine.shard import Shard
from prequential.topics.encoding import encode
from prequential.topics.specs import METRICS
from prequential.views.dashboard.overview import Overview
from prequential.views.dashboard.pages import model_page
from prequential.views.state.history import History
from prequential.views.state.newest import ModelKey
from prequential.views.state.ranking import Choice
from test_exporter import at_once, exporter

from tests import reference

CONFIG = """
defaults:
  measures: [accuracy, advantage]
  estimators: [all]
  stages: [final]
  detectors: [{signal: "window:4:advantage", lambda: 0.5, min_outcomes: 2, delta: 0}]
  objective: {advantage: 0.75}
streams:
  n:
    task: regression
    measures: [half_mse]
    detectors: [{signal: half_mse, lambda: 0.5, min_outcomes: 2, delta: 0}]
    objective: {half_mse: 0.5, level: 0.01}
http: {measures: [advantage, half_mse]}
"""


def main(folder: Path) -> None:
    """Configure, evaluate, export and show."""
    file = folder / "c.yaml"
    file.write_text(CONFIG)
    config = load_config(str(file))
    file.write_text("defaults: {measures: [half]}")
    try:
        load_config(str(file))
        complaint = ""
    except ConfigError as error:
        complaint = str(error)
    predictions, labels = [], []
    for i in range(40):
        wrong = i >= 20 and i % 4 != 0
        about = {"instance_id": i, "model": "m", "ts": 2 * i}
        label = {"instance_id": i, "ts": 2 * i + 1}
        predictions.append((2 * i, {**about, "stream": "c", "y_pred": "ab"[(i + wrong) % 2]}))
        predictions.append((2 * i, {**about, "stream": "n", "y_pred": float(i + 2 * wrong)}))
        labels.append((2 * i + 1, {**label, "stream": "c", "y_true": "ab"[i % 2]}))
        labels.append((2 * i + 1, {**label, "stream": "n", "y_true": float(i)}))
    shard = Shard(config)
    feed = Feed(shard, ([], predictions, labels))
    feed.give(1, len(predictions))
    feed.give(2, len(labels))
    advance(shard, 1 << 30)
    shard.last_set()
    outputs = shard.flush()[0]
    said = {one.stream: one for one in metrics_of(outputs)}
    history = History(config)
    for one in said.values():
        history.update(METRICS, encode(one))
    page = model_page(history, ModelKey("c", "m", 0))
    overview = Overview(history).page(Choice(by="advantage"), now=0)
    text = exporter(config, shard).text(at_once)
    json.dump({
        "messages": {name: one.measures for name, one in said.items()},
        "alarms": sorted({(one.stream, one.detector, one.signal) for one in alarms_of(outputs)}),
        "complaint": complaint,
        "exported": [line for line in text.splitlines() if "advantage" in line or "half_mse" in line],
        "page": {key: page[key] for key in ("measures", "less_is_better", "not_quality", "references")},
        "columns": overview["measures"],
        "missed": [one["measure"] for row in overview["rows"] for one in row["missed"]],
        "docs": reference.measures("agreement") + reference.measures("numbers"),
    }, sys.stdout)  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
