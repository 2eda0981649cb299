// What the pages share on which people work, besides shared.js: what they wrote is kept, saved, and asked for.

const data = dataOf("data");
const say = (text) => { byId("message").textContent = text; };

function fill(selector, text) {
  for (const element of document.querySelectorAll(selector)) element.textContent = text;
}

function keepAnswers(values) {
  byId("trouble").textContent =
    "This browser cannot store answers. Save them to a file before you close or reload the page.";
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
