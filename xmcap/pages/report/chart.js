// The means and the chart of scores: one column per language in the chosen order, with other systems as marks.

const scoresData = dataOf("scores-data");
const CHART = { left: 46, top: 14, bottom: 26, height: 236, widest: 1180, pitch: 30 };

// Pairs of system numbers whose difference is shown.
function differencePairs() {
  const { systems, baseline } = scoresData;
  const others = systems.map((_, number) => number).filter((number) => number !== (baseline ?? 0));
  return others.map((number) => (baseline === null ? [0, number] : [number, baseline]));
}

function drawTile(metric) {
  const { primary, systems, means } = scoresData;
  const [score, low, high] = systems[0].scores[metric.name].at(-1);
  const isPrimary = metric.name === primary;
  const tile = element("div", isPrimary ? "sheet tile primary" : "sheet tile");
  const heading = element("p", "tile-name");
  const last = element("span", "named"); // the question mark does not stand in a line of its own
  last.append(systems.length > 1 ? named(systems[0].name, "bar") : metric.heading);
  if (metric.about) last.append(aboutLink(metric.about, metric.heading));
  heading.append(...(systems.length > 1 ? [metric.heading, " "] : []), last);
  tile.append(heading, element("p", "tile-score", formatScore(metric, score)));
  if (low !== null) {
    const interval = `${formatScore(metric, low)} \u2013 ${formatScore(metric, high)}`;
    const shown = element("p", isPrimary ? "tile-interval" : "tile-interval soft", interval);
    if (isPrimary) shown.append(" ", element("span", "soft", "95% interval"));
    tile.append(shown);
  }
  if (!isPrimary) return tile;
  const list = element("dl");
  const addEntry = (label, ...values) => {
    const [entry, dt, dd] = [element("div"), element("dt"), element("dd")];
    dt.append(label);
    dd.append(...values);
    entry.append(dt, dd);
    list.append(entry);
  };
  means.slice(0, -1).forEach((label, i) => {
    addEntry(label, formatScore(metric, systems[0].scores[primary][scoresData.languages.length + i][0]));
  });
  systems.slice(1).forEach(({ name, scores }, number) => {
    const other = scores[primary]?.at(-1)?.[0];
    if (other !== undefined) addEntry(named(name, number), formatScore(metric, other));
  });
  for (const [one, to] of differencePairs()) {
    const scores = [one, to].map((system) => systems[system].scores[primary]?.at(-1)?.[0]);
    if (scores.includes(undefined)) continue;
    const shown = element("span", "difference", formatDifference(metric, scores[0] - scores[1]));
    addEntry(`difference${one ? ` of ${systems[one].name}` : ""} to ${systems[to].name}`, shown);
  }
  tile.append(element("p", "note", `mean, ${means.at(-1)}`), list);
  return tile;
}

function drawTiles() {
  const first = metricNamed(scoresData.primary);
  const rest = reportData.metrics.filter((metric) => metric !== first);
  document.querySelector(".tiles").append(...[first, ...rest].map(drawTile));
}

function drawChartLegend() {
  const { systems, means } = scoresData;
  const line = (shape, text) => {
    const entry = element("span", "named");
    const key = svg("svg", { class: "key", viewBox: "0 0 14 14" });
    key.append(shape);
    entry.append(key, text);
    return entry;
  };
  const legend = document.querySelector("#languages .legend");
  legend.append(...systems.map(({ name }, i) => named(name, i ? i - 1 : "bar")));
  legend.append(line(svg("line", { class: "mean", x1: 0, x2: 14, y1: 7, y2: 7 }), `mean, ${means.at(-1)}`));
  const hasIntervals = Object.values(systems[0].scores).flat().some(([, low]) => low !== null);
  if (hasIntervals) legend.append(line(svg("path", { class: "whisker", d: "M4 2h6M7 2v10M4 12h6" }), "95% interval"));
}

// The position of each language from the left, in the chosen order.
function chartPlaces(scores, order) {
  const numbers = scoresData.languages.map((_, i) => i);
  const group = (i) => (order === "group" ? scoresData.languages[i].group : 0);
  if (order !== "code") numbers.sort((a, b) => group(a) - group(b) || scores[b][0] - scores[a][0]);
  return numbers.map((_, i) => numbers.indexOf(i));
}

function chartTip(metric, language, systems, number) {
  const lines = systems.filter(({ scores }) => scores[number]).map(({ name, scores }, i, all) => {
    const [score, low, high] = scores[number].map((value) => (value === null ? null : formatScore(metric, value)));
    return `${i ? name : metric.heading + (all.length > 1 ? ` of ${name}` : "")} ${score}${low === null ? "" : ` [${low}, ${high}]`}`;
  });
  return [reportData.languages[language.code].name, ...lines].join("\n");
}

function chartBar(x, width, top) {
  const bottom = CHART.top + CHART.height, r = Math.min(3, Math.max(0, bottom - top));
  return `M${x} ${bottom}V${top + r}q0 ${-r} ${r} ${-r}h${width - 2 * r}q${r} 0 ${r} ${r}V${bottom}Z`;
}

// One column per language; the marks of other systems are beside the middle of the bar.
function drawChart() {
  const metric = metricNamed(chosen("chart-metric") ?? scoresData.primary);
  const systems = scoresData.systems.map(({ name, scores }, number) => ({ number, name, scores: scores[metric.name]?.slice(0, scoresData.languages.length) }))
    .filter(({ scores }) => scores?.some(Boolean));
  const [first, ...others] = systems;
  const values = systems.flatMap(({ scores }) => scores.flat()).filter((value) => value !== null);
  const highest = Math.max(0, ...values); // a mean cosine may be below 0, which is drawn as 0
  const yTicks = ticks(0, metric.name === "exact" && highest > 0.4 ? 1 : highest);
  const { left, top, bottom, height } = CHART;
  const count = scoresData.languages.length;
  const pitch = Math.min(72, Math.max(CHART.pitch, (CHART.widest - left) / count));
  const width = left + pitch * count;
  const y = (score) => top + height * (1 - Math.min(Math.max(score, 0), yTicks.at(-1)) / yTicks.at(-1));
  const order = [...first.scores.keys()].sort((a, b) => first.scores[b][0] - first.scores[a][0]);
  const told = ([i, word]) => `${word} ${reportData.languages[scoresData.languages[i].code].name}, ${formatScore(metric, first.scores[i][0])}`;
  const extremes = [[order[0], "highest"], [order.at(-1), "lowest"]].map(told).join("; ");
  const chart = svg("svg", {
    class: "chart", viewBox: `0 0 ${width} ${top + height + bottom}`, role: "img",
    style: `min-width:${Math.min(width, Math.max(840, 0.75 * width))}px;max-width:${width}px`, "data-metric": metric.name,
    "aria-label": `${metric.heading} of each language; ${extremes}. The table has all numbers.`,
  });
  for (const tick of yTicks) {
    chart.append(svg("line", { class: "grid", x1: left, x2: width, y1: y(tick), y2: y(tick) }));
    chart.append(svg("text", { class: "tick", x: left - 8, y: y(tick) + 3.5 }, tickText(tick, metric.percent)));
  }
  const bar = Math.min(30, pitch * (others.length ? 0.5 : 0.62));
  const middle = pitch / 2 - (others.length ? 4 : 0);
  scoresData.languages.forEach((language, i) => {
    const [score, low, high] = first.scores[i];
    const column = svg("g", { class: "column", "data-tip": chartTip(metric, language, systems, i), "data-pitch": pitch });
    column.append(svg("rect", { class: "hit", width: pitch, y: top, height: height + bottom }));
    column.append(svg("path", { class: "bar", d: chartBar(middle - bar / 2, bar, y(score)) }));
    if (low !== null) {
      const ends = `M${middle - 3} ${y(high)}h6M${middle} ${y(high)}V${y(low)}M${middle - 3} ${y(low)}h6`;
      column.append(svg("path", { class: "whisker", d: ends }));
    }
    for (const { number, scores } of others.filter((other) => other.scores[i])) {
      const x = middle + bar / 2 + 3.2;
      const line = `whisker mark-line-${(number - 1) % 4}`;
      if (scores[i][1] !== null) column.append(svg("path", { class: line, d: `M${x} ${y(scores[i][2])}V${y(scores[i][1])}` }));
      column.append(mark(number - 1, x, y(scores[i][0]), 4.2));
    }
    column.append(svg("text", { class: "code", x: pitch / 2, y: top + height + 17 }, language.code));
    chart.append(column);
  });
  const mean = y(scoresData.systems[0].scores[metric.name].at(-1)[0]);
  chart.append(svg("line", { class: "mean", x1: left, x2: width, y1: mean, y2: mean }));
  byId("chart").replaceChildren(chart);
  orderChart();
}

function orderChart() {
  const chart = document.querySelector("#chart svg");
  const scores = scoresData.systems[0].scores[chart.dataset.metric].slice(0, scoresData.languages.length);
  const places = chartPlaces(scores, chosen("chart-sort") ?? "code");
  chart.querySelectorAll(".column").forEach((column, i) => {
    column.style.transform = `translateX(${CHART.left + places[i] * column.dataset.pitch}px)`;
  });
}

onChoice(["chart-metric"], drawChart);
onChoice(["chart-sort"], orderChart);
drawTiles();
drawChartLegend();
drawChart();
