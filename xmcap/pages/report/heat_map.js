// The heat map: a table of regions and languages, coloured by this script so that metric and view can be chosen.

const heat = byId("heat");
const heatData = dataOf("heat-data");
const reportData = dataOf("report-data");

function metricNamed(name) {
  return reportData.metrics.find((metric) => metric.name === name);
}

function formatScore(metric, score, digits = metric.decimals) {
  return metric.percent ? `${(100 * score).toFixed(digits)}%` : score.toFixed(digits);
}

function formatDifference(metric, difference) {
  const text = formatScore(metric, Math.abs(difference));
  if (!/[1-9]/.test(text)) return text;
  return (difference < 0 ? "\u2212" : "+") + text;
}

// The values of the cells; rows[0] is all regions. Differences use a diverging scale around 0.
function heatValues(metric, view) {
  const scores = heatData.scores[0][metric];
  if (view === "own") return scores.map((row) => row.map((score, j) => minus(score, scores[0][j])));
  if (view.startsWith("pair-")) {
    const [ones, others] = heatPair(view).map((system) => heatData.scores[system][metric]);
    return ones && others ? ones.map((row, i) => row.map((score, j) => minus(score, others[i][j]))) : null;
  }
  return scores;
}

// The system numbers whose difference a view shows.
function heatPair(view) {
  return heatData.pairs[Number(view.slice(5))];
}

function minus(a, b) {
  return a === null || b === null ? null : a - b;
}

// The chosen order of rows (after "all") and columns (before the mean).
function heatOrder(metric, order) {
  const values = heatData.scores[0][metric];
  const rows = heatData.regions.map((_, i) => i + 1);
  const columns = heatData.columns.map((_, j) => j).filter((j) => heatData.columns[j].code !== "mean");
  const last = heatData.columns.length - 1;
  if (order === "score") {
    rows.sort((a, b) => (values[b][last] ?? -Infinity) - (values[a][last] ?? -Infinity));
    columns.sort((a, b) => (values[0][b] ?? -Infinity) - (values[0][a] ?? -Infinity));
  }
  return [[0, ...rows], [...columns, last]];
}

// The colour scale spans the 1st to 99th percentile, so that one outlier does not flatten all other cells.
function heatRange(values, diverging) {
  const found = values.slice(1).flat().filter((value) => value !== null).sort((a, b) => a - b);
  if (!found.length) return [0, 1];
  const at = (share) => found[Math.round(share * (found.length - 1))];
  let [low, high] = [at(0.01), at(0.99)];
  if (diverging) {
    high = Math.max(Math.abs(low), Math.abs(high)) || 1;
    return [-high, high];
  }
  if (high - low < 1e-9) [low, high] = [low - 0.5, high + 0.5];
  return [low, high];
}

function paint(cell, share, diverging) {
  const stops = diverging ? ["--less", "--same", "--more"] : ["--heat-0", "--heat-1", "--heat-2"];
  const place = 2 * Math.max(0, Math.min(1, share));
  const [from, to] = place < 1 ? [stops[0], stops[1]] : [stops[1], stops[2]];
  cell.style.background = `color-mix(in oklab, var(${from}), var(${to}) ${(100 * (place - (place >= 1))).toFixed(0)}%)`;
  cell.classList.toggle("strong", diverging ? Math.abs(share - 0.5) > 0.34 : share > 0.62);
}

function heatTip(metric, view, row, column, value) {
  const region = row ? heatData.regions[row - 1] : null;
  const place = heatData.columns[column];
  const score = heatData.scores[0][metric.name][row][column];
  const images = region ? `${heatData.row} ${region.name} (${region.code}), ${region.images} images` : heatData.all;
  const lines = [place.code === "mean" ? place.name : `${place.name} (${place.code}) ${heatData.column}`, images];
  if (score === null) return [...lines, "no score"].join("\n");
  const whose = reportData.systems.length > 1 ? ` of ${reportData.systems[0]}` : "";
  lines.push(`${metric.heading}${whose} ${formatScore(metric, score)}`);
  const own = minus(score, heatData.scores[0][metric.name][0][column]);
  if (region) lines.push(`${formatDifference(metric, own)} against ${heatData.all}`);
  if (view.startsWith("pair-") && value !== null) {
    lines.push(`${formatDifference(metric, value)} ${heatPair(view).map((system) => reportData.systems[system]).join(" against ")}`);
  }
  return lines.join("\n");
}

function drawHeat() {
  const metric = metricNamed(chosen("heat-metric") ?? reportData.metrics.find(
    (held) => heatData.scores[0][held.name]).name);
  const wanted = chosen("heat-view");
  // The other system may lack this metric.
  const view = heatValues(metric.name, wanted) ? wanted : "score";
  const values = heatValues(metric.name, view);
  const diverging = view !== "score";
  const [low, high] = heatRange(values, diverging);
  const [rows, columns] = heatOrder(metric.name, chosen("heat-order"));
  const head = element("thead");
  const headRow = element("tr");
  headRow.append(element("td"), ...columns.map((j) => {
    const th = element("th", "", heatData.columns[j].code);
    th.scope = "col";
    th.dataset.tip = heatData.columns[j].name;
    return th;
  }));
  head.append(headRow);
  const body = element("tbody");
  for (const i of rows) {
    const tr = element("tr");
    const region = i ? heatData.regions[i - 1] : { code: "all", name: heatData.all };
    const th = element("th", "", region.code);
    th.scope = "row";
    th.dataset.tip = region.name;
    tr.append(th);
    for (const j of columns) {
      const value = values[i][j];
      const td = element("td");
      td.tabIndex = -1;
      td.dataset.row = i;
      td.dataset.column = j;
      td.dataset.tip = heatTip(metric, view, i, j, value);
      // The row of all regions has no difference to itself.
      const shown = value !== null && !(view === "own" && !i);
      if (shown) paint(td, (value - low) / (high - low), diverging);
      else td.className = "absent";
      if (value !== null) td.setAttribute("aria-label", (diverging ? formatDifference : formatScore)(metric, value));
      td.append(element("span", "", value === null ? "\u2013" : shorter(metric, value, diverging)));
      tr.append(td);
    }
    body.append(tr);
  }
  heat.replaceChildren(head, body);
  heat.tBodies[0].rows[0].cells[1].tabIndex = 0;
  drawLegend(metric, low, high, diverging);
  heat.classList.toggle("numbers", document.querySelector('[name="heat-numbers"]').checked);
}

// At most four characters fit a cell.
function shorter(metric, value, signed) {
  const scaled = metric.percent ? 100 * value : value;
  const size = Math.abs(scaled);
  const digits = size < 0.9995 && !metric.percent ? 2 : size < 9.95 ? 1 : 0;
  const text = size.toFixed(digits).replace(/^0\./, ".");
  return (scaled < 0 && /[1-9]/.test(text) ? "\u2212" : signed && /[1-9]/.test(text) ? "+" : "") + text;
}

function drawLegend(metric, low, high, diverging) {
  const legend = byId("heat-legend");
  const format = diverging ? formatDifference : formatScore;
  legend.replaceChildren(
    element("span", "", format(metric, low)),
    element("i", diverging ? "diverging" : ""),
    element("span", "", format(metric, high)),
    element("span", "soft", `${metric.heading}; the scale spans the 1st to 99th percentile`),
  );
}

// Arrow keys move within the map, which is a single Tab stop; Enter or a click leads to the captions.
function moveInHeat(event) {
  const cell = event.target.closest("td[data-row]");
  if (!cell) return;
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  const [row, column] = [cell.parentNode.sectionRowIndex, cell.cellIndex];
  const { rows } = heat.tBodies[0];
  let target = null;
  if (step) target = rows[row + step[0]]?.cells[column + step[1]];
  else if (event.key === "Home") target = rows[event.ctrlKey ? 0 : row].cells[1];
  else if (event.key === "End") target = rows[event.ctrlKey ? rows.length - 1 : row].cells[rows[0].cells.length - 1];
  else if (event.key === "Enter" || event.key === " ") openCell(cell);
  else return;
  event.preventDefault();
  if (target?.dataset.row === undefined) return;
  cell.tabIndex = -1;
  target.tabIndex = 0;
  target.focus();
}

function openCell(cell) {
  if (typeof showCaptions === "undefined") return;  // a report without captions
  const column = heatData.columns[cell.dataset.column].code;
  const row = Number(cell.dataset.row);
  const region = row ? heatData.regions[row - 1].code : "";
  showCaptions({ ...(column === "mean" ? {} : { language: column }), region });
}

// Highlights the headings of the cell under the pointer or in focus.
function crosshair(event) {
  for (const marked of heat.querySelectorAll(".here")) marked.classList.remove("here");
  const cell = event.target.closest?.("td[data-row]");
  if (!cell || event.type === "pointerleave" || event.type === "focusout") return;
  cell.parentNode.cells[0].classList.add("here");
  heat.tHead.rows[0].cells[cell.cellIndex].classList.add("here");
}

if (heat) {
  onChoice(["heat-metric", "heat-view", "heat-order", "heat-numbers"], drawHeat);
  heat.addEventListener("keydown", moveInHeat);
  heat.addEventListener("click", (event) => {
    const cell = event.target.closest("td[data-row]");
    if (cell) openCell(cell);
  });
  for (const type of ["pointerover", "pointerleave", "focusin", "focusout"]) heat.addEventListener(type, crosshair);
  drawHeat();
}
