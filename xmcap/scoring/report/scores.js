// Sections of scores: what the reader chooses of chart, health and differences.

// Chart: show the chosen metric's panel, and move each column to its place in the chosen order.
function updateChart() {
  const sort = chosen("chart-sort") ?? "code";
  const metric = chosen("chart-metric");
  for (const panel of document.querySelectorAll("#languages .panel")) {
    if (metric) panel.hidden = panel.dataset.metric !== metric;
    for (const column of panel.querySelectorAll(".column")) {
      column.style.transform = `translateX(${column.getAttribute(`data-by-${sort}`)}px)`;
    }
  }
}

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
onChoice(["chart-metric", "chart-sort"], updateChart);
onChoice(["health-system"], updateHealth);
onChoice(["difference-pair"], updateDifferences);
onChoice(["intervals"], updateIntervals);
// A browser may restore the reader's choices when the page is loaded again.
for (const update of [updateChart, updateHealth, updateDifferences, updateIntervals]) update();
