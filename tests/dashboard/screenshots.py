"""Makes the pictures of the docs anew: what the demo's page shows some half a minute behind its drift.

python tests/dashboard/screenshots.py    (from a checkout, in its test environment; takes two minutes)
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.browser import browser  # noqa: E402

IMAGES = ROOT / "docs" / "images"

#: Seconds of stream, and outcomes after which the pictures are taken: the drift is in the middle.
_DURATION, _OUTCOMES = 120, 15_000

#: Seconds for an answer, and milliseconds until a chart is drawn.
_ANSWER, _DRAWN = 10, 1500


def ask(address: str, view: str) -> dict[str, Any]:
    """An answer of the page's server."""
    with urlopen(f"{address}api/{view}", timeout=_ANSWER) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def outcomes(rows: list[dict[str, Any]]) -> int:
    """Of the worst model."""
    return rows[0]["outcomes"] or 0


def main() -> None:
    """Run the demo and take the pictures."""
    command = [sys.executable, "-m", "prequential.cli.main", "demo", "--duration", str(_DURATION)]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert demo.stdout is not None
        address = next(match[1] for line in demo.stdout if (match := re.match(r"the page: (\S+)", line)))
        while not (rows := ask(address, "overview?as=table")["rows"]) or outcomes(rows) < _OUTCOMES:
            time.sleep(1)
        incidents = ask(address, "overview")["incidents"]
        pair = "stream=demo&model=static-bayes&against=logistic&stage=final&loss=error"
        views = {
            "demo": ("#/model?stream=demo&model=static-bayes", False, 720),
            "model": (f"#/model?stream=demo&model={incidents[0]['model']}", False, 1900),
            "overview": ("#/", True, 640),
            "pair": (f"#/pair?{pair}", False, 1300),
            "incident": (f"#/incident?id={incidents[0]['id']}", False, 720),
        }
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
    finally:
        demo.terminate()
        demo.wait()


if __name__ == "__main__":
    main()
