// Predicted numbers against what came, by decile of the prediction.

import { h, section, select, svg, table } from "./dom.js";
import { count, number } from "./format.js";
import { plot } from "./probabilities.js";

// A decile as it is sent.
const [N, PREDICTED, ACTUAL, BIAS, MAE] = [0, 1, 2, 3, 4];

export function residuals(data, chosen, choose) {
  const memories = Object.keys(data.residuals);
  if (!memories.length) return null;
  const memory = memories.includes(chosen) ? chosen : memories.includes(data.estimator) ? data.estimator : memories[0];
  const deciles = data.residuals[memory];
  const n = deciles[0][N];
  return section("Predicted against actual",
    h("div", { class: "controls" },
      memories.length > 1 ? select("Memory", memories, memory, null, choose) : h("span", {}, `Memory ${memory}`),
      h("span", { class: "quiet" }, `tenths of the outcomes by their prediction, ${Number.isInteger(n) ? count(n) : number(n)} each`)),
    h("div", { class: "curves" }, against(deciles)),
    table(["decile", "#mean predicted", "#mean actual", "#bias", "#MAE"],
      deciles.map((one, i) => [i + 1, number(one[PREDICTED]), number(one[ACTUAL]), number(one[BIAS]), number(one[MAE])]),
      { "aria-label": "residuals by decile", class: "cards" }));
}

// Mean label by mean prediction: on the diagonal a model is right on average.
function against(deciles) {
  const values = deciles.flatMap((one) => [one[PREDICTED], one[ACTUAL]]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
  const ends = [low - room, high + room];
  const worst = deciles.reduce((most, one) => (Math.abs(one[BIAS]) > Math.abs(most[BIAS]) ? one : most));
  return plot("predicted against actual", "mean predicted", "mean actual", ends, ends, (x, y) => [
    svg("line", { class: "objective", x1: x(ends[0]), x2: x(ends[1]), y1: y(ends[0]), y2: y(ends[1]) }),
    svg("g", { class: "line-1", "data-points": deciles.length }, deciles.map((one, i) =>
      svg("circle", { cx: x(one[PREDICTED]).toFixed(1), cy: y(one[ACTUAL]).toFixed(1), r: 4, "fill-opacity": 0.7 },
        svg("title", {}, `decile ${i + 1}: predicted ${number(one[PREDICTED])}, actual ${number(one[ACTUAL])}`))))],
  `largest bias ${number(worst[BIAS])}, where ${number(worst[PREDICTED])} is predicted`);
}
