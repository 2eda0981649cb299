"use strict";

// What the pages share on which people work: elements, what the browser keeps, and the file that is saved.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const say = (text) => { byId("message").textContent = text; };
const create = (tag, text, properties = {}) =>
  Object.assign(document.createElement(tag), { textContent: text, ...properties });

function fill(selector, text) {
  for (const element of document.querySelectorAll(selector)) element.textContent = text;
}

function writeKept(values) {
  try {
    for (const [name, value] of Object.entries(values)) localStorage.setItem(name, JSON.stringify(value));
    byId("trouble").hidden = true;
  } catch {
    byId("trouble").textContent =
      "This browser cannot store answers. Save them to a file before you close or reload the page.";
    byId("trouble").hidden = false;
  }
}

function readKept(name) {
  try {
    return JSON.parse(localStorage.getItem(name));
  } catch {
    return null; // not kept, or not by this page: start afresh
  }
}

// Saves lines of JSONL as a file, whose name it returns.
function download(kind, person, lines) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\n"), "\n"], { type: "application/jsonl" }));
  link.download = `${kind}-${data.page}-${person.replace(/[^\p{L}\p{M}\p{N}_-]+/gu, "-")}.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return link.download;
}

const tidy = (text) => text.normalize("NFC").replace(/\s+/gu, " ").trim();

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
