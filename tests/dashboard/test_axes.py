"""Ticks of extreme axes: each text is shown whole, no text twice, years on long axes, one form of times."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from boards import START, metrics, served

from tests.browser import opened, ready

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

#: Notes each text that is drawn on a canvas, with its place and the canvas.
_NOTED = """
window.drawn = [];
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const move = this.getTransform();
  const at = move.transformPoint({ x, y });
  const width = this.measureText(text).width * move.a;
  const left = this.textAlign === "right" || this.textAlign === "end" ? at.x - width
    : this.textAlign === "center" ? at.x - width / 2 : at.x;
  window.drawn.push({ text, left, right: left + width, width: this.canvas.width, axis: this.textAlign });
  return draw.apply(this, arguments);
};
"""

_LATENCY = {"waiting": 3, "label_latency_ms": {"p50": 894_000.0, "p90": 901_000.0},
            "recent_label_latency_ms": {"p50": 894_000.0, "p90": 901_000.0}}  # fmt: skip

YEAR = 365 * 86_400_000


@pytest.mark.parametrize("width", [1440, 390])
def test_ticks_are_whole_and_different(chromium: Browser, width: int) -> None:
    records = [
        metrics(
            outcomes, ts=START + (outcomes // 100) * YEAR // 20, model=model, stream=model, coverage=_LATENCY,
            measures={"mae": value + outcomes * change, "rmse": -1234.5678 * value},
        )
        for model, value, change in (
            ("large", 123_456.7, 0.0), ("small", 1e-7, 1e-12), ("near", 0.99999, 1e-9),
            ("wide", -98_765_432.0, 1e4),
        )
        for outcomes in range(100, 6001, 100)
    ]  # fmt: skip
    with opened(chromium, width=width) as page, served(records) as (address, _):
        page.add_init_script(_NOTED)
        for model in ("large", "small", "near", "wide"):
            page.goto("about:blank")
            ready(page, f"{address}#/model?stream={model}&model={model}&partition=0")
            page.wait_for_timeout(200)
            drawn = page.evaluate("drawn")
            ticks = [one for one in drawn if one["axis"] in ("right", "end")]
            assert ticks
            cut = [one for one in ticks if one["left"] < 0 or one["right"] > one["width"] + 1]
            # A chart that was too narrow at first is drawn again: its last texts count.
            shown = {(one["text"], one["width"]) for one in ticks if one not in cut}
            assert [one for one in cut if (one["text"], one["width"]) not in shown] == [], model
            years = page.locator(".lanes text.tick").all_text_contents()
            assert any(re.search(r"20\d\d", text) for text in years), years
        page.goto("about:blank")
        ready(page, address)
        outside = page.evaluate(
            "[...document.querySelectorAll('.stream svg text')].filter((one) => {"
            " const box = one.getBoundingClientRect(), all = one.ownerSVGElement.getBoundingClientRect();"
            " return box.left < all.left - 1 || box.right > all.right + 1; }).map((one) => one.textContent)"
        )
        assert outside == []
        for plot in page.locator(".stream svg[role=img]").all():
            ticks = plot.locator("text[text-anchor=end].tick").all_text_contents()
            assert len(ticks) == len(set(ticks)), ticks
