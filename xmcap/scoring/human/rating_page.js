// Items in the language that the rater chose; all items before that.
let items = data.items;
const ids = new Set(items.map(({ id }) => id));
const { protocol } = data;

// ---- Texts and questions of the protocol

const copyOf = (id) => byId(id).content.firstElementChild.cloneNode(true);

function captionPart(heading) {
  const section = copyOf("caption");
  section.setAttribute("aria-label", heading);
  section.querySelector("h2").textContent = heading;
  byId("rating").querySelector(".captions").append(section);
  return section.querySelector("p");
}

function choicePart(criterion, [value, meaning], place) {
  const button = copyOf("choice");
  const key = criterion.first_key + place;
  Object.assign(button.dataset, { value, key });
  const shown = "default" in criterion ? String(value).replace("-", "\u2212") : key;
  button.querySelector(".value").textContent = shown;
  button.querySelector(".meaning").textContent = meaning;
  return button;
}

function criterionPart(criterion) {
  const fieldset = copyOf("criterion");
  if ("default" in criterion) fieldset.dataset.default = criterion.default;
  fieldset.querySelector("legend").textContent = criterion.heading;
  fieldset.querySelector(".question").textContent = criterion.question;
  const choices = criterion.choices.map((choice, place) => choicePart(criterion, choice, place));
  fieldset.querySelector(".choices").append(...choices);
  byId("criteria").append(fieldset);
  const rubric = document.createElement("div");
  rubric.append(create("dt", criterion.heading), create("dd", criterion.question));
  byId("rubric").append(rubric);
  return { fieldset, name: criterion.name, heading: criterion.heading, fallback: criterion.default ?? null, choices };
}

document.body.classList.add(protocol.name);
fill(".brand, #start-title", protocol.title);
fill(".task", protocol.task);
for (const list of document.querySelectorAll(".advice-list")) {
  list.append(...protocol.advice.map((text) => create("li", text)));
}
const captions = protocol.captions.map(captionPart);
const criteria = protocol.criteria.map(criterionPart);

// Answers: item id -> {name of the criterion: value}. Number keys answer the criterion `current`.
let rater = "";
let language = ""; // "": all
let answers = {};
let place = 0;
let current = 0;
let unsaved = false;

// ---- Browser storage: one entry per rater, and one for the last rater

const lastRater = `xmcap-rating-${data.page}`;
const kept = (name) => `${lastRater}-${name}`;

// ---- The language to rate, and the instructions in it

function chooseLanguage(code) {
  language = code in data.languages ? code : "";
  items = language ? data.items.filter((item) => item.language === language) : data.items;
  byId("progress").max = items.length;
  const [title, task, meanings] = data.instructions[language] ?? [protocol.title, protocol.task, undefined];
  const translated = language in data.instructions;
  fill(".brand, #start-title", title);
  fill(".task", task);
  for (const element of document.querySelectorAll(".brand, #start-title, .task")) {
    element.lang = translated ? language : "en";
    element.dir = translated ? data.languages[language].direction : "ltr";
  }
  criteria[0].choices.forEach((button, number) => {
    const meaning = button.querySelector(".meaning");
    meaning.textContent = meanings?.[number] ?? protocol.criteria[0].choices[number][1];
    meaning.lang = meanings ? language : "en";
    meaning.dir = "auto";
  });
  byId("extent").textContent = `${items.length} item${items.length === 1 ? "" : "s"}, ` +
    (language ? data.languages[language].name : Object.values(data.languages).map(({ name }) => name).join(", "));
  byId("language").value = language;
}

function fillLanguages() {
  const codes = Object.keys(data.languages);
  byId("language-choice").hidden = codes.length < 2;
  const option = (value, text) => create("option", text, { value });
  byId("language").append(option("", "all"), ...codes.map((code) => {
    const { name, native } = data.languages[code];
    return option(code, name === native ? name : `${native} (${name})`);
  }));
  byId("language").addEventListener("change", (event) => chooseLanguage(event.target.value));
}

function keep() {
  writeKept({
    [lastRater]: rater,
    [kept("language")]: language,
    [kept(rater)]: { answers, place, unsaved, language },
  });
}

function recall(name) {
  const state = readKept(kept(name));
  answers = {};
  for (const [id, answer] of Object.entries(state?.answers ?? {})) {
    const offered = criteria.filter(({ name, choices }) => choices.some((choice) => valueOf(choice) === answer?.[name]));
    if (ids.has(id) && offered.length) {
      answers[id] = Object.fromEntries(offered.map(({ name }) => [name, answer[name]]));
    }
  }
  place = state?.language === language && Number.isInteger(state.place) && state.place in items ? state.place : 0;
  unsaved = Boolean(state?.unsaved);
}

// ---- Answers

const valueOf = (choice) => Number(choice.dataset.value);
const answerOf = (item, criterion) => answers[item.id]?.[criterion.name] ?? null;
const isRated = (item) => criteria.every((one) => one.fallback !== null || answerOf(item, one) !== null);
const isBegun = (item) => item.id in answers && !isRated(item);

function rate(criterion, choice) {
  const item = items[place];
  answers[item.id] = { ...answers[item.id], [criterion.name]: valueOf(choice) };
  unsaved = true;
  current = Math.min(criteria.indexOf(criterion) + 1, criteria.length - 1);
  keep();
  show();
  say(`${criterion.heading}: ${choice.textContent.trim()}`);
  if (criteria.length > 1) criteria[current].fieldset.scrollIntoView({ block: "nearest" });
}

function takeBack() {
  if (!(items[place].id in answers)) return;
  delete answers[items[place].id];
  unsaved = true;
  current = 0;
  keep();
  show();
  say("Rating deleted");
}

// ---- Going through the items

function go(to) {
  if (to < 0 || to >= items.length) {
    say(to < 0 ? "This is the first item." : "This is the last item.");
    return;
  }
  place = to;
  current = 0;
  keep();
  show();
  window.scrollTo(0, 0);
  // So that Enter does not press a button of the previous item, and a screen reader starts at the new item.
  byId("place").focus({ preventScroll: true });
}

function goOn() {
  const item = items[place];
  if (!isRated(item)) {
    const open = criteria.findIndex((one) => one.fallback === null && answerOf(item, one) === null);
    const { fieldset, heading, choices } = criteria[open];
    current = open;
    show();
    fieldset.scrollIntoView({ block: "nearest" });
    say(`${heading} is not rated: press ${choices[0].dataset.key} to ${choices.at(-1).dataset.key}, ` +
      "or → to leave the item for later.");
  } else if (place + 1 < items.length) {
    go(place + 1);
  } else {
    goToUnrated();
  }
}

function goToUnrated() {
  for (let step = 1; step <= items.length; step++) {
    const to = (place + step) % items.length;
    if (!isRated(items[to])) {
      go(to);
      return;
    }
  }
  say(unsaved ? "All items are rated. Press S to save them." : "All items are rated and saved.");
}

// ---- Saving

function save() {
  const rated = data.items.filter(isRated); // in all languages, whichever is chosen now
  if (!rated.length) {
    say("Nothing is rated yet.");
    return;
  }
  const lines = rated.map((item) => JSON.stringify({
    item: item.id,
    protocol: protocol.name,
    rater,
    ...Object.fromEntries(criteria.map((one) => [one.name, answerOf(item, one) ?? one.fallback])),
  }));
  const file = download("ratings", rater, lines);
  unsaved = false;
  keep();
  show();
  const begun = data.items.filter(isBegun).length;
  say(`Saved ${rated.length} of ${data.items.length} items to ${file}.` +
    (begun ? ` Left out: ${begun} begun but not finished.` : ""));
}

// ---- Showing

function show() {
  const item = items[place];
  const shown = data.languages[item.language];
  byId("place").textContent = `Item ${place + 1} of ${items.length}`;
  byId("place").append(create("span", shown.name, { className: "language" }));
  showPicture(item);
  captions.forEach((paragraph, side) => showCaption(paragraph, item.captions[side], item.language, shown.direction));
  byId("same").hidden = item.captions.length < 2 || item.captions[0] !== item.captions[1];
  showReferences(item, shown.direction);
  criteria.forEach((criterion, number) => {
    const given = answerOf(item, criterion) ?? criterion.fallback;
    for (const choice of criterion.choices) choice.setAttribute("aria-pressed", String(valueOf(choice) === given));
    criterion.fieldset.classList.toggle("current", criteria.length > 1 && number === current);
  });
  showTotal(item);
  const count = items.filter(isRated).length;
  byId("progress").value = count;
  byId("rated").textContent = `${count} of ${items.length} rated`;
  byId("save").classList.toggle("due", unsaved);
  byId("save").title = unsaved ? "Some answers are not saved yet" : "All answers are saved";
  byId("rater-shown").textContent = rater;
  byId("back").disabled = place === 0;
  say("");
}

function showPicture(item) {
  const source = data.pictures[item.picture];
  byId("picture").hidden = !source;
  byId("no-picture").hidden = Boolean(source);
  if (!source) {
    byId("picture-key").textContent = data.keys[item.picture];
  } else if (byId("picture").getAttribute("src") !== source) {
    byId("picture").src = source;
  }
}

function showCaption(element, text, code, direction) {
  const empty = !text.trim();
  element.textContent = empty ? "The caption is empty." : text;
  element.classList.toggle("empty", empty);
  element.lang = empty ? "en" : code;
  element.dir = empty ? "ltr" : direction;
}

function showReferences(item, direction) {
  byId("references").hidden = !item.references.length;
  byId("references").querySelector("ul").replaceChildren(...item.references.map((text) =>
    create("li", text, { lang: item.language, dir: direction })));
}

function showTotal(item) {
  if (protocol.name !== "thumb") return;
  const [precision, recall, ...penalties] = criteria.map((one) => answerOf(item, one) ?? one.fallback);
  byId("total").textContent = isRated(item)
    ? penalties.reduce((sum, penalty) => sum + penalty, (precision + recall) / 2).toFixed(2) : "–";
}

const showStart = () => askName("rating", "rater", rater || data.rater);

function start(name) {
  rater = name;
  recall(rater);
  showForm("rating", false);
  go(place);
}

// ---- Keys

// Digit keys are recognised by position too: some layouts need shift for digits, or type other digits.
function digitOf(event) {
  if (/^[0-9]$/.test(event.key)) return event.key;
  const row = /^Digit([0-9])$/.exec(event.code);
  return row && !event.shiftKey ? row[1] : null;
}

// Letter keys likewise, for other scripts such as Greek.
function letterOf(event) {
  if (/^[a-z?]$/i.test(event.key)) return event.key.toLowerCase();
  if (event.key === "؟") return "?";
  return /^Key[A-Z]$/.test(event.code) ? event.code[3].toLowerCase() : null;
}

const actions = {
  ArrowLeft: () => go(place - 1),
  ArrowRight: () => go(place + 1),
  Home: () => go(0),
  End: () => go(items.length - 1),
  Enter: goOn,
  Delete: takeBack,
  Backspace: takeBack,
  r: () => { byId("references").open = !byId("references").open; },
  s: save,
  u: goToUnrated,
  "?": () => byId("help-dialog").showModal(),
};

function moveMark(by) {
  current = Math.min(Math.max(current + by, 0), criteria.length - 1);
  show();
  criteria[current].fieldset.scrollIntoView({ block: "nearest" });
  say(criteria[current].heading);
}

function onKey(event) {
  if (byId("rating").hidden || byId("help-dialog").open || event.isComposing) return;
  if (event.altKey || ((event.ctrlKey || event.metaKey) && letterOf(event) !== "s")) return;
  const onControl = event.target.closest("button:not(.choice), summary");
  if (event.key === "Enter" && (onControl || event.repeat)) return;
  const digit = digitOf(event);
  const choice = digit && criteria[current].choices.find(({ dataset }) => dataset.key === digit);
  const action = actions[event.key] ?? actions[letterOf(event)];
  if (choice) {
    rate(criteria[current], choice);
  } else if (criteria.length > 1 && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
    moveMark(event.key === "ArrowUp" ? -1 : 1);
  } else if (action) {
    action();
  } else {
    return;
  }
  event.preventDefault();
}

document.addEventListener("keydown", onKey);
for (const criterion of criteria) {
  for (const choice of criterion.choices) choice.addEventListener("click", () => rate(criterion, choice));
  criterion.fieldset.addEventListener("focusin", () => {
    current = criteria.indexOf(criterion);
    for (const other of criteria) other.fieldset.classList.toggle("current", criteria.length > 1 && other === criterion);
  });
}
for (const [id, action] of [
  ["back", () => go(place - 1)], ["next", goOn], ["unrated", goToUnrated], ["save", save],
  ["help", actions["?"]], ["rater-shown", showStart],
]) {
  byId(id).addEventListener("click", (event) => {
    action();
    // After a mouse click, Enter acts on the item again, not on the button.
    if (event.detail && !["help", "rater-shown"].includes(id)) byId("place").focus({ preventScroll: true });
  });
}
onName("rater", start);
guardUnsaved(() => unsaved);
// The same page in another tab: take over its answers, so that neither tab overwrites the other's.
window.addEventListener("storage", (event) => {
  if (!rater || event.key !== kept(rater) || !event.newValue) return;
  const here = place;
  recall(rater);
  place = here;
  show();
});

fillLanguages();
// A page in one language starts with the instructions in that language.
const only = Object.keys(data.languages);
chooseLanguage(only.length === 1 ? only[0] : readKept(kept("language")) ?? "");
rater = readKept(lastRater) ?? "";
if (rater) start(rater);
else showStart();
