// The page of `xmcap serve`: sends pictures as soon as the server is ready, and shows captions as their lines arrive.
const FEW = 8; // languages that are all chosen at first
const FIRST = ["en", "es", "ar", "hi", "th", "zh"]; // chosen at first of more
const AT_ONCE = 4; // pictures that are sent at the same time
const OWN = ["localhost", "127.0.0.1", "[::1]", location.hostname];
const READ = /^(\xff\xd8\xff|\x89PNG\r\n|GIF8|RIFF....WEBP|BM)/s; // first bytes of the formats that the server reads
const SMALLER = { pixels: 4e6, side: 8192 }; // of a picture that is made smaller; models see less than a million pixels
const HEIC = /^....ftyp.{0,40}(hei[cxms]|hev[cx]|mif1|msf1)/s;
const HINTS = [ // for files that the browser cannot show, by name or first bytes
  [/^$/, "is empty"],
  [HEIC, "is a photo in HEIC, which this browser cannot show: save "
    + "it as JPEG. An iPhone takes JPEGs with Settings > Camera > Formats > Most Compatible."],
  [/\.(xlsx?|xlsm|ods|numbers|csv|tsv|jsonl?)$/i, "is a table, not a picture: drop the pictures themselves "
    + "(tables are for xmcap data build folder, which trains on them, and xmcap score)"],
  [/^(PK\x03\x04|\x1f\x8b|7z\xbc\xaf|Rar!)/, "is an archive, not a picture: unpack it and drop the pictures."],
  [/^%PDF/, "is a PDF, not a picture: save its pages or pictures as PNG."],
];

const about = await (await fetch("v1/model")).json();
const languages = new Map([...about.languages, ...about.untrained].map((language) => [language.code, language]));
const KEPT = `xmcap ${about.name}`; // the place of the choice in the browser's storage
const waiting = [];
let sending = 0;

class Unusable extends Error {} // a file of which no server makes captions

// ---- what is asked for ----

const boxes = () => [...document.querySelectorAll("[name=language]")];
const checked = () => boxes().filter((box) => box.checked).map((box) => box.value);
const search = () => document.querySelector("[name=search]:checked").value;
const draws = () => about.drawing.includes(search());

function isComplete() {
  if (checked().length) return !draws() || byId("temperature").reportValidity();
  problem("No language is chosen: choose at least one.");
}

function searchWords(name) {
  const [kind, number] = name.split(":");
  return { greedy: "Greedy", beam: `Beam of ${number}`, sample: "Sample", model: "The model’s own" }[kind];
}

function named(some, most = 8) {
  const parts = some.slice(0, most)
    .map(({ code, name, native, direction }) => create("bdi", native, { lang: code, dir: direction, title: name }));
  const rest = some.length - parts.length;
  return [...parts.flatMap((part, place) => (place ? [", ", part] : [part])), rest > 0 ? ` and ${rest} more` : ""];
}

const untrained = (chosen) => chosen.filter((language) => about.untrained.includes(language));

function warn(line, others) {
  line.hidden = !others.length;
  line.replaceChildren("The model was trained on ", ...named(about.own), ", not on ", ...named(others), ".");
}

function showChosen() {
  const chosen = checked().map((code) => languages.get(code));
  byId("chosen").replaceChildren(...(chosen.length ? named(chosen) : ["none: choose one"]));
  warn(byId("warning"), untrained(chosen));
  byId("heat").hidden = !draws();
}

// The choice is that of the last visit, as long as the server offers the same.
const offer = () => [...languages.keys(), ...about.searches].join();

function kept() {
  const { offered, ...choice } = readKept(KEPT) ?? {};
  return offered === offer() ? choice : {};
}

function keep() {
  const choice = { languages: checked(), search: search(), temperature: byId("temperature").value };
  writeKept({ [KEPT]: { offered: offer(), ...choice } });
}

function problem(text) {
  byId("problem").textContent = text;
  byId("problem").hidden = !text;
}

function build() {
  byId("model").textContent = about.name;
  const size = Math.round(about.limits.upload_bytes / 2 ** 20);
  const pixels = Math.round(about.limits.pixels / 1e6);
  byId("formats").textContent = `JPEG, PNG, WebP, GIF or BMP; made smaller if over ${size} MiB or ${pixels} million pixels`;
  const codes = about.languages.map(({ code }) => code);
  const usual = codes.filter((code) => codes.length <= FEW || FIRST.includes(code));
  const choice = { languages: usual.length ? usual : codes.slice(0, FEW), search: about.searches[0], ...kept() };
  for (const [place, some] of [["trained", about.languages], ["untrained", about.untrained]]) {
    for (const { code, name, native, direction } of some) {
      const label = create("label", "", { className: "check", title: name });
      const box = create("input", "", { type: "checkbox", name: "language", value: code });
      box.checked = choice.languages.includes(code);
      const names = create("span");
      names.append(create("bdi", native, { lang: code, dir: direction }));
      if (name !== native) names.append(" ", create("small", name, { className: "soft" }));
      label.append(box, names);
      byId(place).append(label);
    }
  }
  byId("others").hidden = !about.untrained.length;
  byId("count").textContent = about.untrained.length;
  for (const name of about.searches) {
    const label = create("label");
    const button = create("input", "", { type: "radio", name: "search", value: name });
    button.checked = name === choice.search;
    label.append(button, create("span", searchWords(name)));
    byId("searches").append(label);
  }
  if (choice.temperature) byId("temperature").value = choice.temperature;
  showChosen();
}

// ---- the start of the server ----

function showStart({ stage, compiled, programs, seconds, searches }) {
  byId("start").hidden = stage === "ready";
  const can = searches.length
    ? `${searches.map(searchWords).join(", ")} can be used already.`
    : "Pictures wait until the first are compiled.";
  byId("stage").textContent = stage === "loading"
    ? "The model is being loaded. Pictures that you choose now wait for it."
    : `Compiling the model: ${compiled} of ${programs} programs in ${Math.round(seconds)} s. ${can}`;
  byId("compiled").max = programs;
  if (stage === "loading") byId("compiled").removeAttribute("value");
  else byId("compiled").value = compiled;
}

async function watch() {
  for (showStart(about.start); about.start.stage !== "ready"; showStart(about.start)) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    try {
      about.start = (await (await fetch("v1/model")).json()).start;
    } catch {
      byId("stage").textContent = "The server has ended: its terminal says why.";
      byId("compiled").hidden = true;
      return;
    }
    sendAll();
  }
}

// ---- the gallery ----

function add(blob, name) {
  problem("");
  if (!isComplete()) return;
  const card = copyOf("card");
  const image = card.querySelector("img");
  image.src = URL.createObjectURL(blob);
  image.addEventListener("error", () => (image.hidden = true));
  card.querySelector(".name").textContent = name;
  card.querySelector(".again").addEventListener("click", () => ask(card));
  card.querySelector(".remove").addEventListener("click", () => remove(card));
  card.querySelector(".remove").setAttribute("aria-label", `Remove ${name}`);
  Object.assign(card, { blob, name, found: new Map() });
  byId("cards").prepend(card);
  byId("gallery").hidden = false;
  ask(card);
}

function ask(card) {
  if (!isComplete()) return;
  const codes = checked();
  card.stop = new AbortController();
  card.asked = { languages: codes, search: search(), stream: true };
  if (draws()) card.asked.temperature = byId("temperature").valueAsNumber;
  card.found = new Map();
  card.rows = new Map(codes.map((code) => [code, create("dd", "", { lang: code, className: "waiting" })]));
  const { search: name, temperature } = card.asked;
  card.querySelector(".how").textContent = searchWords(name) + (temperature ? `, temperature ${temperature}` : "");
  for (const part of card.querySelectorAll(".notices, .unlike")) part.hidden = true;
  warn(card.querySelector(".warned"), untrained(codes.map((code) => languages.get(code))));
  card.querySelector(".again").disabled = true;
  card.querySelector("dl").replaceChildren(...codes.map((code) => {
    const { name, native, direction } = languages.get(code);
    const row = create("div", "", { className: "row", dir: direction });
    const term = create("dt", "", { title: name });
    term.append(create("bdi", native, { lang: code }));
    row.append(term, card.rows.get(code));
    return row;
  }));
  waiting.push(card);
  sendAll();
}

// Sends pictures of which the server can use the search already.
function sendAll() {
  while (sending < AT_ONCE) {
    const place = waiting.findIndex((card) => about.start.searches.includes(card.asked.search));
    if (place < 0) return;
    sendOne(waiting.splice(place, 1)[0]);
  }
}

async function sendOne(card) {
  sending += 1;
  try {
    await send(card);
    if (card.rows.size > card.found.size && card.querySelector(".notices").hidden) {
      failed(card, "the connection ended early: ask again");
    }
  } catch (error) {
    if (error instanceof Unusable) for (const part of card.querySelectorAll(".how, .again, .warned")) part.hidden = true;
    failed(card, error instanceof TypeError ? "the server cannot be reached: is it running?" : error.message);
  }
  card.querySelector(".again").disabled = false;
  sending -= 1;
  sendAll();
}

function failed(card, text) {
  const line = card.querySelector(".notices");
  line.replaceChildren(create("bdi", card.name), /^(is|cannot) /.test(text) ? ` ${text}` : `: ${text}`);
  line.hidden = false;
  for (const [code, row] of card.rows) if (!card.found.has(code)) row.parentElement.hidden = true;
}

async function send(card) {
  const body = await prepared(card);
  const asked = `v1/captions?${new URLSearchParams(card.asked)}`;
  const response = await fetch(asked, { method: "POST", body, signal: card.stop.signal });
  if (!response.ok) throw new ([413, 422].includes(response.status) ? Unusable : Error)(await reason(response));
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

// The bytes to send: the file, or a smaller JPEG of a picture that is too large, or in a format that only the browser reads.
async function prepared(card) {
  const { upload_bytes: bytes, pixels } = about.limits;
  let first;
  try {
    first = String.fromCharCode(...new Uint8Array(await card.blob.slice(0, 64).arrayBuffer()));
  } catch {
    throw new Unusable("cannot be read: it is a folder, or has been moved");
  }
  const image = card.querySelector("img");
  const shown = await image.decode().then(() => true, () => false);
  const [width, height] = [image.naturalWidth, image.naturalHeight];
  const fits = card.blob.size <= bytes && width * height <= pixels;
  if (shown && !(fits && READ.test(first))) {
    let smaller;
    let most = Math.min(SMALLER.pixels, pixels);
    do {
      smaller = await redrawn(image, Math.min(1, Math.sqrt(most / (width * height)), SMALLER.side / Math.max(width, height)));
      most /= 2;
    } while (smaller.blob.size > bytes && most > 1e4);
    card.querySelector(".change").textContent = `Sent as a JPEG of ${smaller.width} × ${smaller.height} pixels`
      + (fits ? "" : `, because ${width} × ${height} are too large`);
    return smaller.blob;
  }
  const hint = HINTS.find(([pattern]) => pattern.test(first) || pattern.test(card.name));
  const onServer = HEIC.test(first) && about.formats.includes("HEIF");
  if (!shown && hint && !onServer) throw new Unusable(hint[1]);
  return card.blob;
}

async function redrawn(image, scale) {
  const [width, height] = [image.naturalWidth, image.naturalHeight].map((side) => Math.max(1, Math.floor(side * scale)));
  const canvas = create("canvas", "", { width, height });
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.fillStyle = "white"; // behind what is transparent, as on the server
  context.fillRect(0, 0, width, height);
  context.drawImage(image, 0, 0, width, height);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.92));
  if (!blob) throw new Unusable("is too large, and this browser cannot make it smaller");
  return { blob, width, height };
}

async function reason(response) {
  try {
    return (await response.clone().json()).error;
  } catch {
    return `${response.status}: ${(await response.text()).slice(0, 200)}`;
  }
}

function show(card, { language, caption, warning, error }) {
  if (error) return failed(card, error);
  // A warning before the captions is of the languages, which the card names already; one after them is of the picture.
  if (warning) return card.querySelector(".unlike").hidden = !card.found.size;
  const row = card.rows.get(language);
  row.textContent = caption;
  row.classList.remove("waiting");
  card.found.set(language, caption);
}

function save() {
  const rows = [...document.querySelectorAll(".card")].reverse().flatMap((card) =>
    [...card.found].map(([language, caption]) =>
      JSON.stringify({ "image/key": card.name.replace(/\.[^.]+$/, ""), language, caption })));
  download("captions.jsonl", rows);
}

function remove(card) {
  const next = (card.nextElementSibling ?? card.previousElementSibling)?.querySelector(".remove");
  if (waiting.includes(card)) waiting.splice(waiting.indexOf(card), 1);
  card.stop.abort();
  URL.revokeObjectURL(card.querySelector("img").src);
  card.remove();
  byId("gallery").hidden = !next;
  (next ?? byId("files")).focus();
}

// ---- where pictures come from ----

async function addFrom(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return problem("That is no link: write http://localhost:PORT/PICTURE, or drop the file.");
  }
  if (url.protocol !== "data:" && !(["http:", "https:"].includes(url.protocol) && OWN.includes(url.hostname))) {
    return problem("Only links to this computer (http://localhost): save the picture and drop its file.");
  }
  try {
    const response = await fetch(url, { credentials: "omit" });
    if (!response.ok) return problem(`${url.host} answers ${response.status}: check the link.`);
    add(await response.blob(), decodeURIComponent(url.pathname.split("/").pop()).slice(0, 80) || "picture");
  } catch {
    problem("The browser may not read that link (no such server, or it forbids it): drop the file.");
  }
}

function addAll(files) {
  for (const file of files) add(file, file.name || "pasted");
}

build();
watch();
document.querySelector(".settings").addEventListener("change", () => {
  showChosen();
  keep();
});
byId("languages").addEventListener("click", ({ target }) => {
  if (!target.dataset.choose) return;
  const codes = target.dataset.choose === "all" ? about.languages.map(({ code }) => code) : [];
  for (const box of boxes()) box.checked = codes.includes(box.value);
  showChosen();
  keep();
});
byId("files").addEventListener("change", () => {
  addAll(byId("files").files);
  byId("files").value = "";
});
byId("address-form").addEventListener("submit", (event) => {
  event.preventDefault();
  addFrom(byId("address").value.trim());
});
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  byId("drop").classList.add("over");
});
document.addEventListener("dragleave", (event) => event.relatedTarget || byId("drop").classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  byId("drop").classList.remove("over");
  const { files } = event.dataTransfer;
  if (files.length) addAll(files);
  else addFrom(event.dataTransfer.getData("text/uri-list").split("\n")[0].trim());
});
document.addEventListener("paste", (event) => {
  const { files } = event.clipboardData;
  if (files.length) addAll(files);
  else if (event.target.id !== "address") addFrom(event.clipboardData.getData("text").trim());
});
byId("save").addEventListener("click", save);
byId("clear").addEventListener("click", () => document.querySelectorAll(".card").forEach(remove));
document.body.dataset.ready = "true";
