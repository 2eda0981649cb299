// The tables of scores, differences and health, and their controls.

function languageHeadings() {
  return [{ text: "Code", numeric: false, sorted: true }, { text: "Language", numeric: false }];
}

function languageCells(code, ...flags) {
  const { name, native, direction } = reportData.languages[code];
  const own = Object.assign(element("bdi", "native", native), { lang: code, dir: direction });
  return [{ nodes: [element("code", "", code)] }, { text: name, value: name, head: true, nodes: [own, ...flags] }];
}

function scoreCell(metric, entry, classes = "") {
  if (!entry) return { text: "\u2013", value: "", classes };
  const [score, low, high] = entry;
  const interval = low === null ? [] : [`${formatScore(metric, low)} \u2013 ${formatScore(metric, high)}`];
  return { text: formatScore(metric, score), value: score, classes, nodes: interval.map((text) => element("span", "interval", text)) };
}

function fidelityCell(share, ofReferences) {
  const shown = (value) => (value === null ? "\u2013" : `${(100 * value).toFixed(1)}%`);
  return { text: shown(share), value: share ?? "", nodes: ofReferences.map((one) => element("span", "of-references", shown(one))) };
}

// A difference with a bar from the middle of its cell; its length is relative to the largest difference.
function differenceCell(metric, difference, largest) {
  if (difference === null) return { text: "\u2013", value: "", classes: "beside" };
  const side = difference < 0 ? "less" : "more";
  const style = `--length:${largest ? (50 * Math.abs(difference)) / largest : 0}%`;
  return { text: formatDifference(metric, difference), value: difference, classes: `difference ${side}`, style };
}

function drawScores() {
  const { primary, languages, groups, columns: more, means, systems, beside, fidelity, baseline } = scoresData;
  const metric = metricNamed(primary);
  const scores = systems[0].scores;
  const rest = reportData.metrics.filter(({ name }) => name !== primary);
  const numberOf = (system, i) => systems[system].scores[primary]?.[i]?.[0] ?? null;
  // Columns: the systems with this metric, each followed by its difference; then the columns beside.
  const pairs = differencePairs();
  const columns = systems.flatMap(({ name, scores: held }, number) => {
    if (!(primary in held)) return [];
    const pair = pairs.find(([one, to]) => (baseline === null ? to : one) === number);
    return [
      {
        heading: systems.length > 1 ? { text: name, mark: number ? number - 1 : "bar", small: metric.heading, about: metric.about } : { text: metric.heading, about: metric.about },
        cell: (i) => scoreCell(metric, held[primary][i], number ? "beside" : ""),
      },
      ...(pair ? [{ heading: { text: "difference", small: `to ${systems[pair[1]].name}` }, difference: (i) => minus(...pair.map((one) => numberOf(one, i))) }] : []),
    ];
  });
  for (const [text, column] of Object.entries(beside)) {
    columns.push({ heading: { text }, cell: (i) => scoreCell(metric, column[i], "beside") });
    columns.push({ heading: { text: "difference", small: `to ${text}` }, difference: (i) => minus(numberOf(0, i), column[i]?.[0] ?? null) });
  }
  const isNarrow = columns.length < 5; // else the fidelity of references, which is in the health, has no room
  const differences = columns.flatMap(({ difference }) => (difference ? scores[primary].map((_, i) => difference(i) ?? 0) : []));
  const largest = Math.max(0, ...differences.map(Math.abs));
  const headings = [
    ...languageHeadings(),
    ...columns.map(({ heading }) => heading),
    ...rest.map(({ heading, about }) => ({ text: heading, about, ...(systems.length > 1 ? { small: `of ${systems[0].name}` } : {}) })),
    ...(fidelity ? [{ text: "fidelity", ...(isNarrow ? { small: "references" } : {}), hint: "Share of captions, and of references, in the right language" }] : []),
    ...more.map(({ heading, about }) => ({ text: heading, about })),
    { text: "Group", numeric: false, about: "about-groups" },
  ];
  const numbers = (i) => [
    ...columns.map(({ cell, difference }) => (cell ? cell(i) : differenceCell(metric, difference(i), largest))),
    ...rest.map((one) => scoreCell(one, scores[one.name][i])),
    ...(fidelity ? [fidelityCell(fidelity[i][0], isNarrow ? [fidelity[i][1]] : [])] : []),
  ];
  const rows = languages.map(({ code, group }, i) => [
    ...languageCells(code),
    ...numbers(i),
    ...more.map(({ cells }) => ({ value: cells[i][0], text: cells[i][1], classes: "soft" })),
    { text: groups[group], value: group, classes: "soft" },
  ]);
  const foot = means.map((label, i) => [
    { text: `Mean, ${label}`, head: true, span: 2 }, ...numbers(languages.length + i), ...more.map(() => ({ text: "" })), { text: "" },
  ]);
  makeTable(byId("scores"), { headings, rows, foot });
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
  const shownP = (value) => (value < 0.001 ? "<0.001" : value.toFixed(3)); // resamples never give 0
  const p = (value, classes) => ({ text: value === null ? "\u2013" : shownP(value), value: value ?? "", classes });
  const cells = rows.map((row) => [
    ...(row.code === null ? [{ text: row.label, head: true, span: 2 }]
      : languageCells(row.code, ...(row.few ? [" ", element("span", "flag", "few references")] : []))),
    { text: formatDifference(metric, row.difference), value: row.difference, classes: row.significant ? "strong" : "" },
    { nodes: [forest(row, low, high)], value: row.difference, classes: "drawn" },
    row.low === null ? { text: "\u2013", value: "" } : {
      text: `${formatDifference(metric, row.low)} to ${formatDifference(metric, row.high)}`, value: row.high - row.low, classes: "soft",
    },
    p(row.bootstrap, "soft"), p(row.randomisation, "soft"), p(row.holm, ""),
  ]);
  makeTable(byId(`differences-${number}`), {
    headings: [
      ...languageHeadings(), { text: "Difference" }, { text: "Drawn", numeric: false }, { text: "95% interval" },
      ...["bootstrap", "randomisation", "Holm"].map((small) => ({ text: "p", small })),
    ],
    rows: cells.filter((_, i) => rows[i].code !== null),
    foot: cells.filter((_, i) => rows[i].code === null),
  });
}

function drawHealth({ measures, rows }, number) {
  makeTable(byId(`health-${number}`), {
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
if (dataOf("papers-data")) makeTable(byId("papers"), dataOf("papers-data"));
if (dataOf("groups-data")) makeTable(byId("group-means"), dataOf("groups-data"));

function showPanel(section, attribute, value) {
  for (const panel of document.querySelectorAll(`#${section} .panel`)) {
    if (value !== null) panel.hidden = panel.dataset[attribute] !== value;
  }
}

function updateIntervals() {
  const box = document.querySelector('[name="intervals"]');
  if (box) byId("scores").classList.toggle("bare", !box.checked);
}

const updateHealth = () => showPanel("health", "system", chosen("health-system"));
const updateDifferences = () => showPanel("differences", "pair", chosen("difference-pair"));
onChoice(["health-system"], updateHealth);
onChoice(["difference-pair"], updateDifferences);
onChoice(["intervals"], updateIntervals);
// A browser may restore the reader's choices when the page is loaded again.
for (const update of [updateHealth, updateDifferences, updateIntervals]) update();
