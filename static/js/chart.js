// Small plots in SVG: linear or logarithmic axes with round ticks, points with intervals, lines.

const NAMESPACE = "http://www.w3.org/2000/svg";

export function svg(name, attributes = {}, text = "") {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) {
    element.setAttribute(key, value);
  }
  element.textContent = text;
  return element;
}

// Round numbers that cover [low, high], about `count` of them.
export function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
}

export function label(value) {
  return Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 4 });
}

// A frame with axes: `x` and `y` are {low, high, name, unit, whole}. Returns the svg element and
// scales `px(x)`, `py(y)` to draw with.
export function frame(host, x, y, title) {
  const width = Math.max(240, host.clientWidth - 16);
  const height = Math.max(140, host.clientHeight - 4);
  const box = { left: 44, right: 12, top: 12, bottom: 32 };
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  const px = (value) =>
    box.left + ((value - x.low) / (x.high - x.low)) * (width - box.left - box.right);
  const py = (value) =>
    height - box.bottom - ((value - y.low) / (y.high - y.low)) * (height - box.top - box.bottom);
  for (const value of ticks(y.low, y.high, Math.floor(height / 44))) {
    root.append(
      svg("line", { class: "grid", x1: box.left, x2: width - box.right, y1: py(value), y2: py(value) }),
      svg("text", { x: box.left - 8, y: py(value) + 4, "text-anchor": "end" }, label(value) + (y.unit ?? "")),
    );
  }
  const columns = ticks(x.low, x.high, Math.floor(width / 64)).filter(
    (value) => !x.whole || Number.isInteger(value),
  );
  for (const value of columns) {
    root.append(svg("text", { x: px(value), y: height - 14, "text-anchor": "middle" }, label(value)));
  }
  root.append(
    svg("text", { x: width - box.right, y: height - 1, "text-anchor": "end" }, x.name),
    svg("text", { x: 0, y: 8, "text-anchor": "start" }, y.name),
  );
  host.replaceChildren(root);
  return { root, px, py, width, height, box };
}

export function emptyFrame(host, note) {
  const width = Math.max(240, host.clientWidth - 16);
  const height = Math.max(140, host.clientHeight - 4);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": note });
  root.append(svg("text", { class: "empty-note", x: width / 2, y: height / 2 }, note));
  host.replaceChildren(root);
}

// Draw now and whenever the host's size changes.
export function keepDrawn(host, draw) {
  let drawnAt = "";
  const redraw = () => {
    const size = `${host.clientWidth}x${host.clientHeight}`;
    if (size !== drawnAt && host.clientWidth > 0) {
      drawnAt = size;
      draw();
    }
  };
  new ResizeObserver(redraw).observe(host);
  redraw();
}

// Speed-up per judged snapshot with its 95 % interval; `points` are {turn, speedup, low, high, failed}.
export function speedupPlot(host, points, compile) {
  const timed = points.filter((point) => point.speedup);
  if (timed.length === 0) {
    emptyFrame(host, "No measured speed-up yet");
    return;
  }
  const highs = timed.map((point) => point.high ?? point.speedup);
  const top = Math.max(1.2, compile?.high ?? 0, ...highs) * 1.08;
  const x = { low: 0.5, high: points.length + 0.5, name: "measurement", whole: true };
  const { root, px, py, width, box } = frame(host, x, { low: 0, high: top, name: "", unit: "×" },
    `Speed-up against eager over ${timed.length} measurements, ` +
    `the best is ${label(timed.filter(leaders()).at(-1).speedup)} times`);
  const right = width - box.right;
  const level = (value, name, at, anchor) => {
    root.append(
      svg("line", { class: "one", x1: box.left, x2: right, y1: py(value), y2: py(value) }),
      svg("text", { x: at, y: py(value) - 4, "text-anchor": anchor }, name),
    );
  };
  level(1, "eager", right, "end");
  if (compile?.median) {
    level(compile.median, "torch.compile", box.left + 4, "start"); // Its line may lie close to eager's.
  }
  root.append(svg("path", { class: "step series-best", d: stepPath(points, px, py) }));
  const leading = leaders();
  points.forEach((point, index) => {
    const at = px(index + 1);
    if (!point.speedup) {
      root.append(cross(at, py(0) - 8, point));
      return;
    }
    root.append(measured(at, point, py, leading(point)));
  });
}

function measured(at, point, py, leads) {
  const group = svg("g", { class: leads ? "series-best" : "series-turn" });
  const low = point.low ?? point.speedup;
  const high = point.high ?? point.speedup;
  group.append(
    svg("line", { class: "bar-line", x1: at, x2: at, y1: py(low), y2: py(high) }),
    svg("line", { class: "bar-line", x1: at - 4, x2: at + 4, y1: py(low), y2: py(low) }),
    svg("line", { class: "bar-line", x1: at - 4, x2: at + 4, y1: py(high), y2: py(high) }),
    svg("circle", { class: leads ? "mark" : "hollow", cx: at, cy: py(point.speedup), r: 3.5 }),
    svg("title", {}, `Turn ${point.turn}: ${label(point.speedup)}× (${label(low)} to ${label(high)})`),
  );
  return group;
}

function cross(at, y, point) {
  const group = svg("g");
  group.append(
    svg("path", { class: "failed", d: `M${at - 3} ${y - 3}l6 6m0-6l-6 6` }),
    svg("title", {}, `Turn ${point.turn}: ${point.status}`),
  );
  return group;
}

// Whether a point leads those before it: as for the best of a session, by the lower end of its interval.
function leaders() {
  let best = 0;
  return (point) => {
    const low = point.low ?? point.speedup;
    const leads = Boolean(point.speedup) && low > best;
    best = leads ? low : best;
    return leads;
  };
}

function stepPath(points, px, py) {
  const leading = leaders();
  let path = "";
  points.forEach((point, index) => {
    if (leading(point)) {
      path += path ? `H${px(index + 1)}V${py(point.speedup)}` : `M${px(index + 1)} ${py(point.speedup)}`;
    }
  });
  return path ? `${path}H${px(points.length + 0.5)}` : "";
}

// Raw blocks: calls against milliseconds, one series per arm with its slope line.
export function blocksPlot(host, series) {
  const blocks = series.flatMap((arm) => arm.blocks);
  if (blocks.length === 0) {
    emptyFrame(host, "No timed blocks");
    return;
  }
  const x = { low: 0, high: Math.max(...blocks.map((block) => block.calls)) * 1.06, name: "calls in a block", whole: true };
  const y = { low: 0, high: Math.max(...blocks.map((block) => block.total_ms)) * 1.06, name: "ms" };
  const { root, px, py } = frame(host, x, y, "Time of each block against its number of calls, per arm");
  for (const arm of series) {
    const group = svg("g", { class: `series-${arm.arm}` });
    if (arm.slope !== null) {
      const end = arm.slope > 0 ? Math.min(x.high, (y.high - arm.intercept) / arm.slope) : x.high;
      group.append(svg("line", {
        class: "path", x1: px(0), y1: py(Math.max(0, arm.intercept)), x2: px(end),
        y2: py(arm.intercept + arm.slope * end),
      }));
    }
    for (const block of arm.blocks) {
      const dot = svg("circle", { class: "mark", cx: px(block.calls), cy: py(block.total_ms), r: 3 });
      dot.append(svg("title", {}, `${arm.name}: ${block.calls} calls in ${label(block.total_ms)} ms (block ${block.order})`));
      group.append(dot);
    }
    root.append(group);
  }
}
