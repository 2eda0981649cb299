// What the pages share on which people work, besides shared.js: texts, levels, and that what they wrote is kept, saved,
// and asked for.

const data = dataOf("data");

// ---- Texts, in the language of the page

let ui = null; // the language of the page: {code, direction, words}, and what is particular to a page
const inRubric = () => (data.is_own ? { dir: ui.direction } : { lang: "", dir: "auto" }); // for a protocol's words

// Returns a text by its key. Braces stand for a value, or else for another text; values may be in another script.
function phrase(key, values = {}) {
  const isolate = (value) => (ui.direction === "rtl" ? `\u2068${value}\u2069` : value);
  return ui.words[key].replace(/\{(\w+)\}/g, (_, name) => isolate(values[name] ?? ui.words[name]));
}

const showMessage = (text) => { byId("message").textContent = text; };
const say = (key, values) => showMessage(phrase(key, values));

const PROPERTIES = { text: "textContent", title: "title", label: "ariaLabel", alt: "alt", placeholder: "placeholder" };

// Fills in what `data-text`, `data-title` and so on name in a part of the page.
function fillPhrases(part) {
  for (const [name, property] of Object.entries(PROPERTIES)) {
    for (const element of part.querySelectorAll(`[data-${name}]`)) element[property] = phrase(element.dataset[name]);
  }
}

// Shows the page in a language; parts that are made later fill in their own texts.
function speak(texts) {
  ui = texts;
  Object.assign(document.documentElement, { lang: ui.code, dir: ui.direction });
  fillPhrases(document);
}

// In its own words, but in English on a page in English.
const languageTag = ({ code, name, native }) => (ui.code === "en" ?
  create("span", name, { className: "language" }) : create("span", native, { className: "language", lang: code, dir: "auto" }));

function fill(selector, text, properties = {}) {
  for (const element of document.querySelectorAll(selector)) Object.assign(element, properties, { textContent: text });
}

// ---- Levels: a row of buttons, and below it, where they are too narrow for it, the meaning of the chosen one

function levelParts(levels, pick) {
  const choices = create("div", "", { className: "choices" });
  choices.append(...levels.map(({ value, label, meaning, key = "", title = "" }) => {
    const button = create("button", "", { type: "button", className: "choice", title });
    Object.assign(button.dataset, { value, key });
    button.append(create("span", label, { className: "value" }), " ",
      create("span", meaning, { className: "meaning", ...inRubric() }));
    button.addEventListener("click", () => pick(value));
    return button;
  }));
  // For the eyes alone: the buttons are named by their meanings.
  return { choices, words: create("p", "", { className: "words", ariaHidden: "true", ...inRubric() }) };
}

// Shows which level is chosen; as long as none is, what the first and the last of them mean.
function showLevel({ choices, words }, value) {
  const buttons = [...choices.children];
  const isChosen = (button) => value !== null && button.dataset.value === String(value);
  for (const button of buttons) button.setAttribute("aria-pressed", String(isChosen(button)));
  const chosen = buttons.find(isChosen);
  const textOf = (button) => button.textContent.trim();
  words.textContent = chosen ? textOf(chosen) : [buttons[0], buttons.at(-1)].map(textOf).join(" … ");
  words.classList.toggle("chosen", Boolean(chosen));
}

// ---- What is kept and saved

function keepAnswers(values) {
  byId("trouble").hidden = writeKept(values);
}

// Saves answers as a file, whose name it returns.
function saveAnswers(kind, person, lines) {
  const name = `${kind}-${data.page}-${person.replace(/[^\p{L}\p{M}\p{N}_-]+/gu, "-")}.jsonl`;
  download(name, lines);
  return name;
}

// Without halves of characters, which no file in UTF-8 can hold.
const wellFormed = (text) => text.replace(/\p{Cs}/gu, "");
const tidy = (text) => wellFormed(text).normalize("NFC").replace(/\s+/gu, " ").trim();

// Names and values without what every object inherits: a criterion may be called `constructor`.
const bare = (...parts) => Object.assign(Object.create(null), ...parts);

// Shows the form that asks for a name, or else the work: the element `work` and the bar below it.
function showForm(work, isShown) {
  for (const id of [work, "nav"]) byId(id).hidden = isShown;
  byId("start").hidden = !isShown;
  document.body.classList.toggle("starting", isShown);
}

function askName(work, field, name) {
  showForm(work, true);
  byId(field).value = name;
  byId(field).focus();
  byId(field).select();
}

// Calls `start` with the name in the field once the form is sent.
function onName(field, start) {
  byId("start-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = tidy(byId(field).value);
    if (name) start(name);
  });
}

// Asks before the page is closed while there is unsaved work.
function guardUnsaved(isUnsaved) {
  window.addEventListener("beforeunload", (event) => {
    if (!isUnsaved()) return;
    event.preventDefault();
    event.returnValue = true; // for older browsers
  });
}
