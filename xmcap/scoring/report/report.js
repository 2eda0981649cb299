"use strict";

// Chart: show the chosen metric's panel, and move each column to its place in the chosen order.
function updateChart() {
  const metric = document.querySelector("input[name=metric]:checked").value;
  const sort = document.querySelector("input[name=sort]:checked").value;
  for (const panel of document.querySelectorAll(".panel")) {
    panel.hidden = panel.dataset.metric !== metric;
    for (const column of panel.querySelectorAll(".column")) {
      column.style.transform = `translateX(${column.getAttribute(`data-by-${sort}`)}px)`;
    }
  }
}

// Table: a heading sorts by its column; numbers start with the highest.
function sortTable(table, heading) {
  const index = [...heading.parentNode.children].indexOf(heading);
  const numeric = heading.classList.contains("number");
  const before = heading.getAttribute("aria-sort");
  const order = before ? (before === "ascending" ? "descending" : "ascending") : numeric ? "descending" : "ascending";
  for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);
  const value = (row) => row.children[index].dataset.value ?? row.children[index].textContent;
  const compare = numeric ? (a, b) => value(a) - value(b) : (a, b) => value(a).localeCompare(value(b), "en");
  const sign = order === "ascending" ? 1 : -1;
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
}

// Gallery: fill the cards in the chosen language, then filter and order them.
function updateGallery(data, cards) {
  const code = document.getElementById("language").value;
  const order = document.getElementById("order").value;
  const onlyWrong = document.getElementById("wrong").checked;
  const language = data.languages[code];
  let shown = 0;
  for (const card of cards) {
    const caption = data.pictures[card.dataset.key][code];
    card.querySelector(".captions").hidden = !caption;
    card.querySelector(".absent").hidden = Boolean(caption);
    const badge = card.querySelector(".badge");
    badge.hidden = !caption;
    card.hidden = onlyWrong && (!caption || caption.exact);
    shown += card.hidden ? 0 : 1;
    if (!caption) continue;
    badge.classList.toggle("exact", caption.exact);
    badge.textContent = caption.exact ? "exact" : caption.score.toFixed(2);
    badge.title = `CIDEr-D ${caption.score.toFixed(3)}`;
    const prediction = card.querySelector(".prediction");
    if (caption.prediction.trim()) {
      prediction.textContent = caption.prediction;
    } else {
      prediction.replaceChildren(Object.assign(document.createElement("em"),
        { className: "empty", textContent: "empty caption" }));
    }
    const references = card.querySelector(".references");
    references.replaceChildren(...caption.references.map((text) =>
      Object.assign(document.createElement("li"), { textContent: text })));
    for (const element of [prediction, references]) {
      element.lang = code;
      element.dir = language.dir;
    }
  }
  const score = (card) => data.pictures[card.dataset.key][code]?.score ?? Infinity;
  const sorted = order === "file" ? cards
    : [...cards].sort((a, b) => (order === "worst" ? score(a) - score(b) : score(b) - score(a)) || 0);
  document.getElementById("cards").append(...sorted);
  document.getElementById("shown").textContent = onlyWrong
    ? `${shown} of ${cards.length} captions in ${language.name} are not exact.` : "";
}

for (const input of document.querySelectorAll("input[name=metric], input[name=sort]")) {
  input.addEventListener("change", updateChart);
}
const table = document.getElementById("scores");
for (const heading of table.tHead.rows[0].cells) {
  heading.querySelector("button").addEventListener("click", () => sortTable(table, heading));
}
const data = JSON.parse(document.getElementById("gallery-data").textContent);
const cards = [...document.querySelectorAll(".card")];
for (const id of ["language", "order", "wrong"]) {
  document.getElementById(id).addEventListener("change", () => updateGallery(data, cards));
}
// A browser may restore the reader's choices when the page is loaded again.
updateChart();
updateGallery(data, cards);
