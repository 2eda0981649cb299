// The page of `xmcap serve`: sends pictures, and shows captions as their lines arrive.
const $ = (id) => document.getElementById(id);
const FEW = 8; // languages that are all chosen at first
const FIRST = ["en", "es", "ar", "hi", "th", "zh"]; // chosen at first of more
const AT_ONCE = 4; // pictures that are sent at the same time
const OWN = ["localhost", "127.0.0.1", "[::1]", location.hostname];

const about = await (await fetch("v1/model")).json();
const languages = new Map(about.languages.map((language) => [language.code, language]));
const waiting = [];
let sending = 0;

function make(name, text, attributes = {}) {
  const element = document.createElement(name);
  element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// ---- what is asked for ----

const checked = () => [...document.querySelectorAll("[name=language]:checked")].map((box) => box.value);
const search = () => document.querySelector("[name=search]:checked").value;
const draws = () => about.drawing.includes(search());

function isComplete() {
  if (checked().length) return !draws() || $("temperature").reportValidity();
  problem("No language is chosen: choose at least one.");
}

function searchWords(name) {
  const [kind, number] = name.split(":");
  return { greedy: "Greedy", beam: `Beam of ${number}`, sample: "Sample", model: "The model’s own" }[kind];
}

function showChosen() {
  const codes = checked();
  const parts = codes.slice(0, 8).map((code) => {
    const { native, direction } = languages.get(code);
    return make("bdi", native, { lang: code, dir: direction });
  });
  const joined = parts.flatMap((part, place) => (place ? [", ", part] : [part]));
  const rest = codes.length - parts.length;
  $("chosen").replaceChildren(...joined, rest > 0 ? ` and ${rest} more` : codes.length ? "" : "none: choose one");
}

function problem(text) {
  $("problem").textContent = text;
  $("problem").hidden = !text;
}

function build() {
  $("model").textContent = about.name;
  const size = Math.round(about.limits.upload_bytes / 2 ** 20);
  const pixels = Math.round(about.limits.pixels / 1e6);
  $("formats").textContent = `JPEG, PNG, WebP, GIF or BMP, up to ${size} MiB and ${pixels} million pixels`;
  const codes = [...languages.keys()];
  const usual = codes.filter((code) => codes.length <= FEW || FIRST.includes(code));
  const first = usual.length ? usual : codes.slice(0, FEW);
  for (const { code, name, native, direction } of about.languages) {
    const label = make("label", "", { class: "check", title: name });
    const box = make("input", "", { type: "checkbox", name: "language", value: code });
    box.checked = first.includes(code);
    label.append(box, make("bdi", native, { lang: code, dir: direction }));
    $("codes").append(label);
  }
  for (const name of about.searches) {
    const label = make("label", "");
    const button = make("input", "", { type: "radio", name: "search", value: name });
    button.checked = name === about.searches[0];
    label.append(button, make("span", searchWords(name)));
    $("searches").append(label);
  }
  $("heat").hidden = !draws();
  showChosen();
}

// ---- the gallery ----

function add(blob, name) {
  problem("");
  if (!isComplete()) return;
  const card = $("card").content.cloneNode(true).firstElementChild;
  const image = card.querySelector("img");
  image.src = URL.createObjectURL(blob);
  image.addEventListener("error", () => (image.hidden = true));
  card.querySelector(".name").textContent = name;
  card.querySelector(".again").addEventListener("click", () => ask(card));
  Object.assign(card, { blob, name, found: new Map() });
  $("cards").prepend(card);
  $("gallery").hidden = false;
  ask(card);
}

function ask(card) {
  if (!isComplete()) return;
  const codes = checked();
  card.asked = { languages: codes, search: search(), stream: true };
  if (draws()) card.asked.temperature = $("temperature").valueAsNumber;
  card.found = new Map();
  card.rows = new Map(codes.map((code) => [code, make("dd", "", { lang: code, class: "waiting" })]));
  const { search: name, temperature } = card.asked;
  card.querySelector(".how").textContent = searchWords(name) + (temperature ? `, temperature ${temperature}` : "");
  card.querySelector(".notices").hidden = true;
  card.querySelector(".again").disabled = true;
  card.querySelector("dl").replaceChildren(...codes.map((code) => {
    const row = make("div", "", { class: "row" });
    const term = make("dt", "", { title: languages.get(code).name, dir: languages.get(code).direction });
    term.append(make("bdi", languages.get(code).native, { lang: code }));
    card.rows.get(code).dir = languages.get(code).direction;
    row.append(term, card.rows.get(code));
    return row;
  }));
  waiting.push(card);
  next();
}

async function next() {
  if (sending >= AT_ONCE || !waiting.length) return;
  const card = waiting.shift();
  sending += 1;
  try {
    await send(card);
  } catch (error) {
    failed(card, error instanceof TypeError ? "The server cannot be reached: is it running?" : error.message);
  }
  if (card.rows.size > card.found.size && card.querySelector(".notices").hidden) {
    failed(card, "The connection ended early: ask again.");
  }
  card.querySelector(".again").disabled = false;
  sending -= 1;
  next();
}

function failed(card, text) {
  const line = card.querySelector(".notices");
  line.textContent = text;
  line.hidden = false;
  for (const [code, row] of card.rows) if (!card.found.has(code)) row.parentElement.hidden = true;
}

async function send(card) {
  const response = await fetch(`v1/captions?${new URLSearchParams(card.asked)}`, { method: "POST", body: card.blob });
  if (!response.ok) throw new Error(await reason(response));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (text + value).split("\n");
    text = lines.pop();
    for (const line of lines) show(card, JSON.parse(line));
  }
}

async function reason(response) {
  try {
    return (await response.clone().json()).error;
  } catch {
    return `${response.status}: ${(await response.text()).slice(0, 200)}`;
  }
}

function show(card, { language, caption, error }) {
  if (error) return failed(card, error);
  const row = card.rows.get(language);
  row.textContent = caption;
  row.classList.remove("waiting");
  card.found.set(language, caption);
}

function save() {
  const rows = [...document.querySelectorAll(".card")].reverse().flatMap((card) =>
    [...card.found].map(([language, caption]) =>
      JSON.stringify({ "image/key": card.name.replace(/\.[^.]+$/, ""), language, caption })));
  const link = make("a", "", { download: "captions.jsonl" });
  link.href = URL.createObjectURL(new Blob(rows.map((row) => `${row}\n`), { type: "application/x-ndjson" }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function clear() {
  for (const card of document.querySelectorAll(".card")) URL.revokeObjectURL(card.querySelector("img").src);
  waiting.length = 0;
  $("cards").replaceChildren();
  $("gallery").hidden = true;
}

// ---- where pictures come from ----

async function addFrom(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return problem("That is no address: write http://localhost:PORT/PICTURE, or drop the file.");
  }
  if (url.protocol !== "data:" && !(["http:", "https:"].includes(url.protocol) && OWN.includes(url.hostname))) {
    return problem("Only addresses of this machine: save the picture and drop its file.");
  }
  try {
    const response = await fetch(url, { credentials: "omit" });
    if (!response.ok) return problem(`${url.host} answers ${response.status}: check the address.`);
    add(await response.blob(), decodeURIComponent(url.pathname.split("/").pop()).slice(0, 80) || "picture");
  } catch {
    problem("The browser may not read that address (no such server, or it forbids it): drop the file.");
  }
}

function addAll(files) {
  for (const file of files) add(file, file.name || "pasted");
}

build();
$("codes").addEventListener("change", showChosen);
$("searches").addEventListener("change", () => ($("heat").hidden = !draws()));
$("languages").addEventListener("click", ({ target }) => {
  if (!target.dataset.choose) return;
  for (const box of document.querySelectorAll("[name=language]")) box.checked = target.dataset.choose === "all";
  showChosen();
});
$("files").addEventListener("change", () => {
  addAll($("files").files);
  $("files").value = "";
});
$("address-form").addEventListener("submit", (event) => {
  event.preventDefault();
  addFrom($("address").value.trim());
});
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  $("drop").classList.add("over");
});
document.addEventListener("dragleave", (event) => event.relatedTarget || $("drop").classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  $("drop").classList.remove("over");
  const { files } = event.dataTransfer;
  if (files.length) addAll(files);
  else addFrom(event.dataTransfer.getData("text/uri-list").split("\n")[0].trim());
});
document.addEventListener("paste", (event) => {
  const { files } = event.clipboardData;
  if (files.length) addAll(files);
  else if (event.target.id !== "address") addFrom(event.clipboardData.getData("text").trim());
});
$("save").addEventListener("click", save);
$("clear").addEventListener("click", clear);
document.body.dataset.ready = "true";
