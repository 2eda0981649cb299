// The tables of scores, differences and health, and what the reader chooses of them.

const GROUPS = ["English", "web", "low-resource"];

function languageHeadings() {
  return [{ text: "Code", numeric: false, sorted: true }, { text: "Language", numeric: false }];
}

function languageCells(code, ...flags) {
  const { name, native, direction } = reportData.languages[code];
  const own = Object.assign(element("bdi", "native", native), { lang: code, dir: direction });
  return [{ nodes: [element("code", "", code)], classes: "first" }, { text: name, value: name, head: true, nodes: [own, ...flags] }];
}

function scoreCell(metric, entry, classes = "") {
  if (!entry) return { text: "\u2013", value: "", classes };
  const [score, low, high] = entry;
  const interval = low === null ? [] : [`${formatScore(metric, low)} \u2013 ${formatScore(metric, high)}`];
  return { text: formatScore(metric, score), value: score, classes, nodes: interval.map((text) => element("span", "interval", text)) };
}

// A difference with a bar from the middle of its cell, whose length is relative to the largest.
function differenceCell(metric, difference, largest) {
  const side = difference < 0 ? "less" : "more";
  const style = `--length:${largest ? (50 * Math.abs(difference)) / largest : 0}%`;
  return { text: formatDifference(metric, difference), value: difference, classes: `difference ${side}`, style };
}

function drawScores() {
  const { primary, languages, means, systems, beside, reference, baseline } = scoresData;
  const metric = metricNamed(primary);
  const scores = systems[0].scores;
  const shown = systems.slice(1).map((system, number) => ({ ...system, number, differs: baseline || number === reference }))
    .filter((system) => primary in system.scores);
  const rest = reportData.metrics.filter(({ name }) => name !== primary);
  const difference = (other, i) => {
    const [own, its] = [scores[primary][i][0], other.scores[primary][i]?.[0]];
    return its === undefined ? null : baseline ? its - own : own - its;
  };
  const differences = shown.filter(({ differs }) => differs).flatMap((other) => scores[primary].map((_, i) => difference(other, i)));
  const largest = Math.max(0, ...differences.map(Math.abs));
  const headings = [
    ...languageHeadings(),
    baseline ? { text: systems[0].name, mark: "bar", small: metric.heading } : { text: metric.heading },
    ...shown.flatMap(({ name, number, differs }) => [
      { text: name, mark: number, small: metric.heading },
      ...(differs ? [{ text: "difference", small: `${baseline ? "of" : "to"} ${name}` }] : []),
    ]),
    ...Object.keys(beside).map((text) => ({ text })),
    ...rest.map(({ heading }) => ({ text: heading })),
    { text: "Images" },
    { text: "Group", numeric: false, hint: "English, the 30 languages most used on the web, or low-resource" },
  ];
  const numbers = (i) => [
    scoreCell(metric, scores[primary][i]),
    ...shown.flatMap((other) => {
      const value = difference(other, i);
      const missing = { text: "\u2013", value: "", classes: "beside" };
      return [
        scoreCell(metric, other.scores[primary][i], "beside"),
        ...(other.differs ? [value === null ? missing : differenceCell(metric, value, largest)] : []),
      ];
    }),
    ...Object.values(beside).map((column) => ({ text: column[i]?.toFixed(3) ?? "\u2013", value: column[i] ?? "", classes: "beside" })),
    ...rest.map((one) => scoreCell(one, scores[one.name][i])),
  ];
  const rows = languages.map(({ code, group, trained, images }, i) => [
    ...languageCells(code),
    ...numbers(i),
    { text: images.toLocaleString("en"), value: images, classes: "soft" },
    { text: GROUPS[group] + (trained ? "" : ", not trained"), classes: "soft" },
  ]);
  const foot = means.map((label, i) => [
    { text: `Mean, ${label}`, head: true, span: 2, classes: "first" }, ...numbers(languages.length + i), { text: "" }, { text: "" },
  ]);
  makeTable(document.getElementById("scores"), { headings, rows, foot });
}

// A difference as a dot on a line of all differences, with its interval.
function forest(row, low, high) {
  const width = 220, height = 22, pad = 8;
  const x = (value) => pad + (width - 2 * pad) * (high > low ? (value - low) / (high - low) : 0.5);
  const side = row.difference > 0 ? "more" : "less";
  const made = svg("svg", {
    class: `forest ${side}${row.significant ? " significant" : ""}`, viewBox: `0 0 ${width} ${height}`, "aria-hidden": true,
  });
  made.append(svg("line", { x1: x(0), x2: x(0), y1: 0, y2: height }));
  if (row.low !== null) made.append(svg("path", { d: `M${x(row.low)} ${height / 2}H${x(row.high)}` }));
  made.append(svg("circle", { cx: x(row.difference), cy: height / 2, r: 4 }));
  return made;
}

function drawDifferences({ metric: name, rows }, number) {
  const metric = metricNamed(name);
  const ends = rows.flatMap(({ low, high, difference }) => [low, high, difference]).filter((end) => end !== null);
  const low = Math.min(0, ...ends), high = Math.max(0, ...ends);
  const p = (value, classes) => ({ text: value === null ? "\u2013" : value.toFixed(3), value: value ?? "", classes });
  const cells = rows.map((row) => [
    ...(row.code === null ? [{ text: row.label, head: true, span: 2, classes: "first" }]
      : languageCells(row.code, ...(row.few ? [" ", element("span", "flag", "few references")] : []))),
    { text: formatDifference(metric, row.difference), value: row.difference, classes: row.significant ? "strong" : "" },
    { nodes: [forest(row, low, high)], value: row.difference, classes: "drawn" },
    row.low === null ? { text: "\u2013", value: "" } : {
      text: `${formatDifference(metric, row.low)} to ${formatDifference(metric, row.high)}`, value: row.high - row.low, classes: "soft",
    },
    p(row.bootstrap, "soft"), p(row.randomisation, "soft"), p(row.holm, ""),
  ]);
  makeTable(document.getElementById(`differences-${number}`), {
    headings: [
      ...languageHeadings(), { text: "Difference" }, { text: "Drawn", numeric: false }, { text: "95% interval" },
      ...["bootstrap", "randomisation", "Holm"].map((small) => ({ text: "p", small })),
    ],
    rows: cells.filter((_, i) => rows[i].code !== null),
    foot: cells.filter((_, i) => rows[i].code === null),
  });
}

function drawHealth({ measures, rows }, number) {
  makeTable(document.getElementById(`health-${number}`), {
    headings: [...languageHeadings(), ...measures],
    rows: Object.entries(rows).map(([code, cells]) => [
      ...languageCells(code),
      ...cells.map(([value, text, tint]) => ({
        text, value: value ?? "", classes: tint ? "tinted" : "soft", style: tint ? `--strength:${tint}%` : "",
      })),
    ]),
  });
}

drawScores();
dataOf("differences-data")?.forEach(drawDifferences);
dataOf("health-data")?.forEach(drawHealth);
makeTable(document.getElementById("groups"), dataOf("groups-data"));

function showPanel(section, attribute, value) {
  for (const panel of document.querySelectorAll(`#${section} .panel`)) {
    if (value !== null) panel.hidden = panel.dataset[attribute] !== value;
  }
}

function updateIntervals() {
  const box = document.querySelector('[name="intervals"]');
  if (box) document.getElementById("scores").classList.toggle("bare", !box.checked);
}

const updateHealth = () => showPanel("health", "system", chosen("health-system"));
const updateDifferences = () => showPanel("differences", "pair", chosen("difference-pair"));
onChoice(["health-system"], updateHealth);
onChoice(["difference-pair"], updateDifferences);
onChoice(["intervals"], updateIntervals);
// A browser may restore the reader's choices when the page is loaded again.
for (const update of [updateHealth, updateDifferences, updateIntervals]) update();
