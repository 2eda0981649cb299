// The charts, drawn for what the reader chooses and for the width that there is.

const data = dataOf("runs-data");
const LEFT = 54, RIGHT = 16, TOP = 10, BOTTOM = 40, DOTS_UP_TO = 40;
const HEIGHT = 250, SMALL_HEIGHT = 190;
const charts = new Map(); // figure -> its entry in `data`
const drawn = new Map(); // figure -> what its pointer handlers need

// ---- runs ---------------------------------------------------------------------------------------

// Six colours of lines; further runs repeat them with dashes.
const lineClasses = (run) => `run line-${run % 6} dash-${Math.floor(run / 6) % 3}`;
const namedRun = (run) => named(data.runs[run], run, `line-key ${lineClasses(run)}`);

function runCell(cell) {
  if (cell.mark !== undefined) return { ...cell, markClasses: `line-key ${lineClasses(cell.mark)}` };
  if (cell.classes) return { ...cell, text: "", classes: "", nodes: [element("span", `state ${cell.classes}`, cell.text)] };
  return { ...cell, nodes: cell.under ? [element("small", "", cell.under)] : [] };
}

makeTable(document.getElementById("table"), { ...data.table, rows: data.table.rows.map((row) => row.map(runCell)) });
if (data.goodput) makeTable(document.getElementById("goodput-table"), data.goodput);

for (const run of data.runs.keys()) {
  const box = Object.assign(element("input"), { type: "checkbox", name: "run", value: run, checked: true });
  const label = element("label", "check");
  label.append(box, namedRun(run));
  document.querySelector("#switches .legend").append(label);
}

// ---- figures -------------------------------------------------------------------------------------

function addFigure(plots, chart, height, caption) {
  const figure = element("figure", "sheet plot");
  figure.dataset.height = height;
  const figcaption = element("figcaption");
  figcaption.append(...caption);
  figure.append(figcaption, element("div", "drawn"));
  plots.append(figure);
  charts.set(figure, chart);
  return figure;
}

function addCurves(plots, of, height) {
  plots.classList.toggle("three", of.length % 3 === 0);
  for (const chart of of) {
    const unit = chart.unit ? [" ", element("span", "unit", chart.unit)] : [];
    const figure = addFigure(plots, chart, height, [chart.title, ...unit]);
    figure.dataset.curve = chart.curve;
  }
}

function addShares(plots, shares) {
  const figure = addFigure(plots, shares, SMALL_HEIGHT, [namedRun(shares.run)]);
  figure.dataset.shares = shares.run;
  const list = element("ul", "means");
  const training = Math.max(0, 1 - Object.values(shares.means).reduce((sum, mean) => sum + mean, 0));
  for (const [kind, mean] of [...Object.entries(shares.means), ["training", training]]) {
    const item = element("li");
    item.append(element("i", `swatch share-${kind}`), `${data.kinds[kind] ?? kind} `, element("b", "", valueText(mean, true)));
    list.append(item);
  }
  figure.append(list);
}

for (const [name, of] of Object.entries(data.charts)) {
  const plots = document.querySelector(`#${name} .plots`);
  if (plots) addCurves(plots, of, HEIGHT);
}
for (const shares of data.shares) addShares(document.querySelector("#time .plots"), shares);
for (const [part, of] of Object.entries(data.norms)) {
  const last = document.querySelector("#norms .plots:last-of-type");
  const plots = last.hasChildNodes() ? element("div", "plots") : last;
  if (plots !== last) last.after(plots);
  plots.before(element("h3", "", part));
  addCurves(plots, of, SMALL_HEIGHT);
  plots.classList.add("three");
}

function valueText(value, percent) {
  if (percent) return `${(100 * value).toFixed(1)}%`;
  const size = Math.abs(value);
  if (size >= 1e5) return Math.round(value).toLocaleString("en");
  if (size && size < 1e-3) return value.toExponential(2);
  return size >= 0.1 && size < 100 ? value.toFixed(4) : digits(value, 4);
}

// ---- points --------------------------------------------------------------------------------------

const visible = () => new Set([...document.querySelectorAll("[name=run]:checked")].map((box) => Number(box.value)));

// Hours that a run had been running when it was at a step.
function hoursAt(run, step) {
  const [steps, hours] = data.clocks[run];
  let i = steps.findIndex((one) => one >= step);
  if (i < 0) i = steps.length - 1;
  if (i === 0 || steps[i] === step) return hours[i];
  return hours[i - 1] + (hours[i] - hours[i - 1]) * (step - steps[i - 1]) / (steps[i] - steps[i - 1]);
}

const along = new Map();
function places(run, steps) {
  if (chosen("along") !== "hours") return data.steps[steps];
  const key = `${run} ${steps}`;
  if (!along.has(key)) along.set(key, data.steps[steps].map((step) => hoursAt(run, step)));
  return along.get(key);
}

// The exponential moving average, corrected for its start as Adam's moments are.
function smooth(values, weight) {
  if (!weight) return values;
  let mean = 0, seen = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = weight * mean + (1 - weight) * value;
    seen = weight * seen + (1 - weight);
    return mean / seen;
  });
}

// ---- drawing -------------------------------------------------------------------------------------

function frame(figure, label) {
  const box = figure.querySelector(".drawn");
  const width = Math.max(240, Math.round(box.clientWidth)), height = Number(figure.dataset.height);
  const chart = svg("svg", { class: "lines", viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img", "aria-label": label });
  return { chart, width, height, right: width - RIGHT, depth: height - TOP - BOTTOM, box };
}

function drawAxes(f, yTicks, y, text, xTicks, x) {
  for (const tick of yTicks) {
    f.chart.append(svg("line", { class: "grid", x1: LEFT, x2: f.right, y1: y(tick), y2: y(tick) }));
    f.chart.append(svg("text", { class: "tick", x: LEFT - 8, y: y(tick) + 3.5 }, text(tick)));
  }
  // As many labels as have room.
  const every = Math.ceil(xTicks.length * 46 / (f.right - LEFT));
  xTicks.forEach((tick, i) => {
    if (i % every === 0) f.chart.append(svg("text", { class: "step-tick", x: x(tick), y: f.height - BOTTOM + 17 }, tickText(tick)));
  });
  const axis = chosen("along") === "hours" ? "hours of running" : "step";
  f.chart.append(svg("text", { class: "axis", x: f.right, y: f.height - 6 }, axis));
}

function path(xs, ys, x, y) {
  let text = "", pen = "M";
  ys.forEach((value, i) => {
    if (value === null) { pen = "M"; return; }
    text += `${pen}${x(xs[i]).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  });
  return text;
}

function drawLines(figure) {
  const { axis, percent, from_zero: fromZero, languages, ...chart } = charts.get(figure);
  const language = figure.closest("#evaluation") ? chosen("language") : "";
  const curve = language ? languages[language] : chart.curve;
  const log = axis !== "linear" && chosen(`${axis}-axis`) === "log";
  const weight = Number(chosen("smoothing") ?? 0);
  const shown = visible();
  const above = (value) => (value !== null && (!log || value > 0) ? value : null);
  const lines = (data.curves[curve] ?? []).filter(([run]) => shown.has(run)).map(([run, steps, values]) => {
    const raw = values.map(above);
    return { run, steps: data.steps[steps], xs: places(run, steps), raw, ys: smooth(raw, weight) };
  });
  const title = figure.querySelector("figcaption").textContent;
  const f = frame(figure, title);
  const finite = lines.flatMap((line) => line.raw).filter((value) => value !== null);
  if (finite.length) {
    const low = finite.reduce((a, b) => Math.min(a, b)), high = finite.reduce((a, b) => Math.max(a, b));
    const yTicks = log ? logTicks(low, high) : ticks(fromZero ? Math.min(0, low) : low, high);
    const place = log ? Math.log10 : (value) => value;
    const bottom = place(yTicks[0]), top = place(yTicks.at(-1));
    const y = (value) => TOP + f.depth * (1 - (place(value) - bottom) / (top - bottom));
    const xTicks = ticks(0, Math.max(...lines.map((line) => line.xs.at(-1))));
    const x = (value) => LEFT + (f.right - LEFT) * value / xTicks.at(-1);
    drawAxes(f, yTicks, y, (tick) => tickText(tick, percent), xTicks, x);
    for (const line of lines) {
      const group = svg("g", { class: lineClasses(line.run) });
      if (weight) group.append(svg("path", { class: "raw", d: path(line.xs, line.raw, x, y) }));
      group.append(svg("path", { class: "line", d: path(line.xs, line.ys, x, y) }));
      const known = line.ys.flatMap((value, i) => (value === null ? [] : [i]));
      if (known.length <= DOTS_UP_TO) {
        for (const i of known) group.append(svg("circle", { class: "dot", cx: x(line.xs[i]), cy: y(line.ys[i]), r: 2.4 }));
      }
      if (known.length) group.append(mark(line.run, x(line.xs[known.at(-1)]), y(line.ys[known.at(-1)])));
      f.chart.append(group);
    }
    const last = lines.map((line) => [data.runs[line.run], line.raw.findLast((value) => value !== null)]);
    const said = last.filter(([, value]) => value !== undefined).map(([name, value]) => `${name} ${valueText(value, percent)}`);
    f.chart.setAttribute("aria-label", `${title}. Last values: ${said.join("; ")}.`);
    drawn.set(figure, { f, lines, x, y, percent, weight, width: xTicks.at(-1) });
  } else {
    f.chart.append(svg("text", { class: "empty", x: f.width / 2, y: f.height / 2 }, "no values of these runs"));
    drawn.delete(figure);
  }
  f.box.replaceChildren(f.chart);
}

function drawShares(figure) {
  const { run, steps, kinds } = charts.get(figure);
  figure.hidden = !visible().has(run);
  if (figure.hidden) return;
  const f = frame(figure, `Shares of the time of ${data.runs[run]} by step; the numbers are below.`);
  const xs = places(run, steps), xTicks = ticks(0, xs.at(-1));
  const x = (value) => LEFT + (f.right - LEFT) * value / xTicks.at(-1);
  const y = (value) => TOP + f.depth * (1 - value);
  drawAxes(f, [0, 0.25, 0.5, 0.75, 1], y, (tick) => tickText(tick, true), xTicks, x);
  f.chart.append(svg("rect", { class: "share", x: LEFT, y: TOP, width: x(xs.at(-1)) - LEFT, height: f.depth }));
  let below = xs.map(() => 0);
  for (const [kind, values] of Object.entries(kinds)) {
    const above = below.map((value, i) => Math.min(1, value + values[i]));
    const edges = xs.map((_, i) => [x(i ? xs[i - 1] : 0).toFixed(1), x(xs[i]).toFixed(1)]);
    const upper = edges.map(([from, to], i) => `${from} ${y(above[i]).toFixed(1)}H${to}`);
    const lower = edges.map(([from, to], i) => `${to} ${y(below[i]).toFixed(1)}H${from}`).reverse();
    f.chart.append(svg("path", { class: `share share-${kind}`, d: `M${[...upper, ...lower].join("L")}Z` }));
    below = above;
  }
  f.box.replaceChildren(f.chart);
  drawn.set(figure, { f, xs, x, kinds, steps: data.steps[steps], width: xTicks.at(-1) });
}

function drawAll() {
  for (const figure of document.querySelectorAll(".plot[data-shares]")) drawShares(figure);
  for (const figure of document.querySelectorAll(".plot[data-curve]")) drawLines(figure);
  hideTip();
}

// ---- values under the pointer --------------------------------------------------------------------

function nearest(xs, at) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] < at) low = middle; else high = middle;
  }
  return at - xs[low] <= xs[high] - at ? low : high;
}

function rowOf(classes, name, text) {
  const row = element("span", `of-run ${classes}`);
  row.append(element("span", "", name), element("b", "", text));
  return row;
}

function showAt(figure, at) {
  const state = drawn.get(figure);
  if (!state) return;
  const { f } = state;
  state.at = at;
  f.chart.querySelectorAll(".cross, .of-pointer").forEach((one) => one.remove());
  const rows = [];
  let head, cross = at;
  if (state.kinds) {
    const i = Math.max(0, state.xs.findIndex((end) => end >= at));
    head = `up to step ${state.steps[i].toLocaleString("en")}`;
    const shares = Object.entries(state.kinds).map(([kind, values]) => [kind, values[i]]);
    for (const [kind, share] of shares) rows.push(rowOf("", data.kinds[kind], valueText(share, true)));
    rows.push(rowOf("", "training", valueText(1 - shares.reduce((sum, [, share]) => sum + share, 0), true)));
    cross = state.xs[i];
  } else {
    const found = state.lines.map((line) => [line, nearest(line.xs, at)]);
    const closest = found.reduce((a, b) => (Math.abs(b[0].xs[b[1]] - at) < Math.abs(a[0].xs[a[1]] - at) ? b : a));
    cross = closest[0].xs[closest[1]];
    head = `step ${closest[0].steps[closest[1]].toLocaleString("en")}`;
    if (chosen("along") === "hours") head += `, ${cross.toFixed(2)} h`;
    for (const [line, i] of found) {
      // A run that ended long before says nothing here.
      if (Math.abs(line.xs[i] - cross) > state.width / 25 || line.raw[i] === null) continue;
      const smoothed = state.weight ? ` (${valueText(line.ys[i], state.percent)} smoothed)` : "";
      rows.push(rowOf(lineClasses(line.run), data.runs[line.run], valueText(line.raw[i], state.percent) + smoothed));
      const group = svg("g", { class: `${lineClasses(line.run)} of-pointer` });
      group.append(svg("circle", { class: "at", cx: state.x(line.xs[i]), cy: state.y(line.ys[i]), r: 4.2 }));
      f.chart.append(group);
    }
  }
  f.chart.prepend(svg("line", { class: "cross", x1: state.x(cross), x2: state.x(cross), y1: TOP, y2: TOP + f.depth }));
  tip.replaceChildren(element("b", "", head), ...rows);
  tip.hidden = false;
  const of = f.chart.getBoundingClientRect(), size = tip.getBoundingClientRect();
  const left = of.left + state.x(cross) * of.width / f.width;
  const beside = left + 16 + size.width > document.documentElement.clientWidth ? left - size.width - 16 : left + 16;
  tip.style.left = `${Math.max(8, beside)}px`;
  tip.style.top = `${Math.max(8, Math.min(of.top + 8, innerHeight - size.height - 8))}px`;
}

function leave(figure) {
  drawn.get(figure)?.f.chart.querySelectorAll(".cross, .of-pointer").forEach((one) => one.remove());
  hideTip();
}

for (const figure of document.querySelectorAll(".plot")) {
  const box = figure.querySelector(".drawn");
  box.addEventListener("pointermove", (event) => {
    const state = drawn.get(figure);
    if (!state) return;
    const of = state.f.chart.getBoundingClientRect();
    const at = ((event.clientX - of.left) * state.f.width / of.width - LEFT) / (state.f.right - LEFT) * state.width;
    showAt(figure, Math.max(0, Math.min(at, state.width)));
  });
  box.addEventListener("pointerleave", () => leave(figure));
  box.addEventListener("focusout", () => leave(figure));
  box.addEventListener("keydown", (event) => {
    const state = drawn.get(figure);
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!state || !by) return;
    event.preventDefault();
    const xs = state.xs ?? state.lines.reduce((a, b) => (b.xs.length > a.xs.length ? b : a)).xs;
    const i = state.at === undefined ? (by > 0 ? 0 : xs.length - 1) : nearest(xs, state.at) + by;
    showAt(figure, xs[Math.max(0, Math.min(i, xs.length - 1))]);
  });
}

onChoice(["run", "along", "smoothing", "loss-axis", "norms-axis", "language"], drawAll);
let before = 0;
new ResizeObserver(([entry]) => {
  if (Math.abs(entry.contentRect.width - before) < 1) return;
  before = entry.contentRect.width;
  // Not here: what is drawn changes sizes, of which the observer would have to tell in the same frame.
  requestAnimationFrame(drawAll);
}).observe(document.getElementById("top"));
