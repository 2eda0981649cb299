// The caption browser: the reader's choices, the cards, and the URL fragment that stores the choices.

const captions = byId("captions");
const cards = byId("cards");
const control = (name) => captions.querySelector(`[name="${name}"]`);
// The option selected in the HTML, not the one that the browser may have restored.
const first = (name) => [...control(name).options].find((option) => option.defaultSelected).value;
const START = {
  language: first("language"), order: first("order"), metric: first("metric"), region: "", fault: "", text: "", words: false, page: 1, also: "",
};
const state = { ...START };
let shownEntries = [];
let beside = []; // [language, image -> entry] of the other languages that are shown
let latest = 0; // number of the newest update; older ones that are still running show nothing

// The URL fragment holds the choices that differ from the defaults, such as #language=th&page=3.
function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  if (![...parameters.keys()].some((name) => name in START)) return false;
  for (const name of Object.keys(START)) {
    const value = parameters.get(name);
    if (name === "page") state.page = Math.max(1, Math.floor(Number(value)) || 1);
    else if (name === "words") state.words = value === "1" && Boolean(control("words"));
    else if (name === "text") state.text = value ?? "";
    else if (name === "also") state.also = known(value?.split(",") ?? []).join(",");
    else state[name] = value !== null && hasOption(control(name), value) ? value : START[name];
  }
  return true;
}

// The languages shown beside the chosen one.
function otherLanguages() {
  return state.also.split(",").filter((code) => code && code !== state.language);
}

function known(codes) {
  return codes.filter((code) => Object.hasOwn(reportData.languages, code));
}

function hasOption(select, value) {
  return Boolean(select) && [...select.options].some((option) => option.value === value);
}

function writeAddress() {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (value !== START[name]) parameters.set(name, name === "words" ? "1" : value);
  }
  parameters.set("language", state.language);
  try {
    history.replaceState(null, "", `#${parameters}`);
  } catch {
    // A browser may refuse this for a local file; then the URL stays as it is.
  }
}

function showControls() {
  for (const name of ["language", "order", "metric", "region", "fault", "text"]) {
    if (control(name)) control(name).value = state[name];
  }
  if (control("words")) control("words").checked = state.words;
  const others = otherLanguages();
  for (const box of captions.querySelectorAll('[name="also"]')) {
    box.checked = others.includes(box.value);
    box.disabled = box.value === state.language;
  }
  const count = others.length === 1 ? reportData.languages[others[0]].name : `${others.length} others`;
  captions.querySelector(".also .chosen").textContent = others.length ? count : "no other";
}

// Decompresses, filters, sorts and shows captions; the URL is updated once the reader has chosen something.
async function update(change = {}, keepAddress = true) {
  const number = ++latest;
  Object.assign(state, { page: 1 }, change);
  showControls();
  const late = setTimeout(() => cards.setAttribute("aria-busy", "true"), 150);
  try {
    const entries = await captionsOf(state.language);
    const others = await Promise.all(otherLanguages().map(async (code) =>
      [code, new Map((await captionsOf(code)).map((entry) => [entry.image, entry]))]));
    if (number !== latest) return;
    beside = others;
    const metric = Number(state.metric);
    shownEntries = ordered(matching(entries, state.text, state.region, state.fault), state.order, metric);
    await showPage(number, entries.length);
    if (number === latest && keepAddress) writeAddress();
  } catch (error) {
    if (number !== latest) return;
    const old = typeof DecompressionStream === "undefined";
    byId("shown").textContent = old
      ? "The captions are compressed: they need a browser of 2023 or later."
      : `The captions could not be decompressed (${error.message}): is the file complete?`;
    cards.replaceChildren();
    if (!old) throw error;
  } finally {
    clearTimeout(late);
    if (number === latest) cards.removeAttribute("aria-busy");
  }
}

async function showPage(number, total) {
  const { pageSize } = reportData;
  const pages = Math.max(1, Math.ceil(shownEntries.length / pageSize));
  state.page = Math.min(state.page, pages);
  const entries = shownEntries.slice((state.page - 1) * pageSize, state.page * pageSize);
  const pictures = await Promise.all(entries.map((entry) => pictureOf(entry.image)));
  if (number !== latest) return;
  cards.classList.toggle("wide", beside.length > 0);
  cards.replaceChildren(...entries.map((entry, i) => card(entry, pictures[i])));
  markText();
  byId("shown").textContent = summary(entries, total);
  for (const pager of captions.querySelectorAll(".pager")) {
    pager.hidden = pages < 2;
    pager.querySelector("input").max = pages;
    pager.querySelector("input").value = state.page;
    pager.querySelector(".pages").textContent = `of ${pages.toLocaleString("en")}`;
    pager.querySelector('[data-step="-1"]').disabled = state.page === 1;
    pager.querySelector('[data-step="1"]').disabled = state.page === pages;
  }
}

function summary(entries, total) {
  const { name } = reportData.languages[state.language];
  const count = (value) => value.toLocaleString("en");
  const images = `${count(total)} image${total === 1 ? "" : "s"}`;
  if (!shownEntries.length) return `None of ${images} in ${name}.`;
  const start = (state.page - 1) * reportData.pageSize;
  const metric = reportData.metrics[Number(state.metric)];
  const means = meanScores(shownEntries, Number(state.metric))
    .map((mean, i) => mean === null ? null
      : `${reportData.systems.length > 1 ? `${reportData.systems[i]} ` : ""}${formatScore(metric, mean)}`)
    .filter((text) => text !== null);
  const some = shownEntries.length < total ? `${count(shownEntries.length)} of ${images}` : images;
  return `${some} in ${name}. Mean ${metric.heading} per image: ${means.join(", ")}. ` +
    `Showing ${count(start + 1)} to ${count(start + entries.length)}.`;
}

function card(entry, picture) {
  const made = copyOf("card");
  const key = reportData.keys[entry.image];
  const region = reportData.regions[reportData.regionOf[entry.image]];
  fillPicture(made.querySelector(".picture"), entry.image, picture);
  made.querySelector(".image-key").textContent = key;
  made.querySelector(".region").textContent = region ? `region: ${region.name}` : "";
  made.setAttribute("aria-label", `Image ${key}`);
  made.querySelector(".spoken").append(inLanguage(state.language, entry));
  for (const [language, entries] of beside) {
    if (entries.has(entry.image)) made.querySelector(".spoken").append(inLanguage(language, entries.get(entry.image)));
  }
  return made;
}

// The captions and references of an image in a language.
function inLanguage(language, entry) {
  const made = copyOf("spoken");
  const name = made.querySelector(".language-name");
  name.hidden = !beside.length;
  name.textContent = reportData.languages[language].name;
  const shared = new Set(entry.referenceWords?.flatMap((words) => words.split(" ")) ?? []);
  made.querySelector(".systems").append(
    ...entry.systems.map((system, i) => systemPart(language, entry, system, i, shared)));
  made.querySelector(".references").append(...entry.references.map((text, i) => {
    const item = element("li");
    setText(language, item, state.words && entry.referenceWords ? words(entry.referenceWords[i]) : [text]);
    return item;
  }));
  return made;
}

function fillPicture(holder, image, picture) {
  const { kind, of } = reportData.pictures;
  if (kind === "none") return void holder.remove();
  const none = (text) => {
    holder.classList.add("none");
    holder.replaceChildren(element("span", "", text));
  };
  if (picture === null) return none(of[image] === -1 ? "picture not in this file" : "no picture");
  const img = element("img");
  img.alt = `Image ${reportData.keys[image]}`;
  img.decoding = "async";
  img.addEventListener("error", () => none("picture not found"));
  img.src = picture;
  if (kind !== "link") return void holder.append(img);
  const link = element("a");
  link.href = picture;
  link.target = "_blank";
  link.rel = "noreferrer";
  link.append(img);
  holder.append(link);
}

function systemPart(language, entry, system, number, shared) {
  const made = copyOf("system");
  const metric = reportData.metrics[Number(state.metric)];
  const score = system.scores[Number(state.metric)];
  const name = made.querySelector(".system-name");
  if (reportData.systems.length > 1) {
    const key = document.querySelector(`#languages .legend .named:nth-child(${number + 1}) .key`);
    name.append(...(key ? [key.cloneNode(true)] : []), element("bdi", "", reportData.systems[number]));
  } else {
    name.textContent = metric.heading;
  }
  const shown = made.querySelector(".score");
  shown.textContent = score === null ? "\u2013" : formatScore(metric, score);
  const all = reportData.metrics.map((held, m) => `${held.heading} ${
    system.scores[m] === null ? "\u2013" : formatScore(held, system.scores[m])}`);
  shown.dataset.tip = ["Scores of this caption", ...all].join("\n");
  const { baseline } = reportData;
  const difference = minus(score, entry.systems[baseline].scores[Number(state.metric)]);
  if (number !== baseline && difference !== null) {
    shown.append(element("span", "difference", `difference ${formatDifference(metric, difference)}`));
  }
  const plain = (text) => text.trim().toLowerCase();
  if (score < metric.highest && entry.references.some((reference) => plain(reference) === plain(system.caption ?? ""))) {
    shown.after(aboutLink("about-equal", "equal captions", `why not ${metric.highest}?`));
  }
  const caption = made.querySelector(".caption");
  if (system.caption === null) {
    caption.append(element("em", "", "no caption"));
  } else if (!system.caption.trim()) {
    caption.append(element("em", "", "empty caption"));
  } else if (state.words && system.words === null) {
    caption.append(element("em", "", "words not available"));
  } else {
    setText(language, caption, state.words ? words(system.words, shared) : [system.caption]);
  }
  const badges = made.querySelector(".faults");
  badges.hidden = !system.faults.length;
  badges.append(...system.faults.map(badge));
  return made;
}

// A fault of a caption; a click shows all captions with it.
function badge(fault) {
  const { heading, about } = reportData.faults[fault];
  const button = element("button", "", heading);
  button.type = "button";
  button.dataset.tip = about;
  button.addEventListener("click", () => {
    update({ fault });
    control("fault").focus();
  });
  const item = element("li");
  item.append(button);
  return item;
}

// Sets text in a language; the parts are strings or elements.
function setText(language, holder, parts) {
  holder.lang = language;
  holder.dir = reportData.languages[language].direction;
  holder.replaceChildren(...parts);
}

// The words that the metrics saw; words that also occur in a reference are marked.
function words(text, shared) {
  if (!text) return [element("em", "", "no words")];
  return text.split(" ").flatMap((word, i) => [
    ...(i ? [" "] : []), element("span", shared?.has(word) ? "word shared" : "word", word),
  ]);
}

// Highlights the search text, if the browser supports the CSS Custom Highlight API.
function markText() {
  if (typeof Highlight === "undefined") return;
  CSS.highlights.delete("found");
  const wanted = state.text.trim().toLowerCase();
  if (!wanted) return;
  const ranges = [];
  const walker = document.createTreeWalker(cards, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.closest(".caption, .references, .image-key")) continue;
    const text = node.data.toLowerCase();
    if (text.length !== node.data.length) continue;
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      ranges.push(range);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}

// Shows the captions of a cell of the heat map.
function showCaptions(change) {
  update({ text: "", ...change });
  captions.scrollIntoView();
  control("language").focus({ preventScroll: true });
}

for (const name of ["language", "order", "metric", "region", "fault"]) {
  control(name)?.addEventListener("change", (event) => update({ [name]: event.target.value }));
}
control("words")?.addEventListener("change", (event) => update({ words: event.target.checked, page: state.page }));
const showAlso = (codes) => update({ also: codes.join(","), page: state.page });
for (const box of captions.querySelectorAll('[name="also"]')) {
  box.addEventListener("change", () => {
    showAlso([...captions.querySelectorAll('[name="also"]:checked')].map((checked) => checked.value));
  });
}
for (const button of captions.querySelectorAll("[data-also]")) {
  const codes = [...captions.querySelectorAll('[name="also"]')].map((box) => box.value);
  button.addEventListener("click", () => showAlso(button.dataset.also ? codes : []));
}
let typing = 0;
control("text").addEventListener("input", (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => update({ text: event.target.value }), 120);
});
for (const pager of captions.querySelectorAll(".pager")) {
  const turn = async (page) => {
    await update({ page: Math.max(1, page || 1) });
    if (captions.querySelector(".end").contains(pager)) {
      captions.scrollIntoView();
      cards.focus({ preventScroll: true });
    }
  };
  for (const button of pager.querySelectorAll("button")) {
    button.addEventListener("click", () => turn(state.page + Number(button.dataset.step)));
  }
  pager.querySelector("input").addEventListener("change", (event) => turn(Math.floor(Number(event.target.value))));
}
window.addEventListener("hashchange", () => {
  if (readAddress()) update({ page: state.page });
});
const linked = readAddress();
update({ page: state.page }, linked).then(() => {
  if (linked) captions.scrollIntoView();
});
