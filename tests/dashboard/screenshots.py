"""Makes the pictures of the docs anew: of a report of made-up streams, and of the demo behind its drift.

python tests/dashboard/screenshots.py [demo]    (from a checkout, in its test environment)
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from prequential.evaluation import evaluate  # noqa: E402

from tests.browser import browser  # noqa: E402

IMAGES = ROOT / "docs" / "images"

#: Seconds of stream, and outcomes after which the picture is taken: the drift is in the middle.
_DURATION, _OUTCOMES = 120, 15_000

#: Seconds for an answer, and milliseconds until a chart is drawn.
_ANSWER, _DRAWN = 10, 1500

#: When the made-up streams begin (epoch ms), and their instances, one in 20 s.
_START, _APART, _INSTANCES = 1_767_225_600_000, 20_000, 12_000


def ask(address: str, view: str) -> dict[str, Any]:
    """An answer of the page's server."""
    with urlopen(f"{address}api/{view}", timeout=_ANSWER) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def outcomes(rows: list[dict[str, Any]]) -> int:
    """Of the worst model."""
    return rows[0]["outcomes"] or 0


def of_demo() -> None:
    """The picture of the demo."""
    command = [sys.executable, "-m", "prequential.cli.main", "demo", "--duration", str(_DURATION)]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert demo.stdout is not None
        address = next(match[1] for line in demo.stdout if (match := re.match(r"the page: (\S+)", line)))
        while not (rows := ask(address, "overview?as=table")["rows"]) or outcomes(rows) < _OUTCOMES:
            time.sleep(1)
        take(address, {"demo": ("#/model?stream=demo&model=static-bayes", False, 720)})
    finally:
        demo.terminate()
        demo.wait()


def streams() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Predictions and labels: `card` has a champion that gets worse and a challenger, `lending` two alike."""
    r = random.Random(7)
    predictions, labels = [], []
    for stream, models in (
        ("card", {"forest": (1.9, 0.9), "boosted": (1.8, 1.7), "linear": (1.2, 1.2)}),
        ("lending", {"forest": (1.5, 1.5), "network": (1.6, 1.6)}),
    ):
        for i in range(_INSTANCES):
            bad, ts = r.random() < 0.3, _START + _APART * i
            late = int(r.lognormvariate(7, 0.6) * 1000)
            about = {"stream": stream, "instance_id": f"{stream}-{i}"}
            labels.append({**about, "y_true": "fraud" if bad else "ok", "ts": ts + late})
            for model, apart in models.items():
                z = r.gauss(apart[i > 0.7 * _INSTANCES] * (1 if bad else -1) / 2, 1)
                p = round(1 / (1 + 2.718281828 ** -(1.8 * z - 0.4)), 4)
                guess = {"y_pred": "fraud" if p >= 0.5 else "ok", "y_proba": {"fraud": p, "ok": 1 - p}}
                where = {"segments": {"region": "eu" if i % 3 else "us"}}
                predictions.append({**about, **guess, **where, "model": model, "ts": ts})
    return predictions, labels


def of_report() -> None:
    """The pictures of a report."""

    result = evaluate(
        *streams(), positive_class="fraud", segments=["region"], period="6h", label_horizon="2h",
        champion="forest", details=["confusion", "scores", "intervals"],
        emit={"outcomes": 100, "every": "1h"},
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        result.report(path, "card and lending")
        [incident] = [one for one in result.summary.incidents if one.model == "forest"][:1]
        pair = "stream=card&model=forest&against=boosted&stage=final&loss=error"
        take(path.as_uri(), {
            "model": ("#/model?stream=card&model=forest", False, 1500),
            "overview": ("#/", True, 640),
            "pair": (f"#/pair?{pair}", False, 1040),
            "incident": (f"#/incident?id={incident.id}", False, 720),
        })  # fmt: skip


def take(address: str, views: dict[str, tuple[str, bool, int]]) -> None:
    """Pictures by name: the view, whether it is dark, and how high it is."""
    with browser() as launched:
        for name, (view, dark, height) in views.items():
            page = launched.new_page(
                viewport={"width": 1280, "height": height}, color_scheme="dark" if dark else "light"
            )
            page.goto(address + view)
            page.wait_for_selector("main[data-ready]")
            page.wait_for_timeout(_DRAWN)
            page.screenshot(path=IMAGES / f"{name}.png")
            page.close()


if __name__ == "__main__":
    of_report()
    if sys.argv[1:] == ["demo"]:
        of_demo()
