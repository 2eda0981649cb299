"use strict";

// What all pages share: elements, the data of a page, what the browser keeps, and files that are saved.

const byId = (id) => document.getElementById(id);
const copyOf = (id) => byId(id).content.firstElementChild.cloneNode(true); // of a template
const create = (tag, text = "", properties = {}) =>
  Object.assign(document.createElement(tag), { textContent: text, ...properties });

// The data of a <script> by its id; undefined if there is none.
function dataOf(id) {
  const script = byId(id);
  return script ? JSON.parse(script.textContent) : undefined;
}

// What the browser keeps by a name; null if that is nothing, or nothing of this page.
function readKept(name) {
  try {
    return JSON.parse(localStorage.getItem(name));
  } catch {
    return null;
  }
}

// Lets the browser keep values by their names; returns whether it does.
function writeKept(values) {
  try {
    for (const [name, value] of Object.entries(values)) localStorage.setItem(name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

// Saves lines of JSONL as a file.
function download(name, lines) {
  const file = new Blob(lines.map((line) => `${line}\n`), { type: "application/jsonl" });
  const link = create("a", "", { href: URL.createObjectURL(file), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
