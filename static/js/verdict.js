// The verdict page: draws the raw blocks of the timing.

import { blocksPlot, keepDrawn } from "./chart.js";

const host = document.querySelector("[data-blocks-plot]");

if (host) {
  const series = JSON.parse(document.getElementById("blocks-data").textContent);
  keepDrawn(host, () => blocksPlot(host, series));
}
