// A screen is what is rated together: one item, or all captions or tags of a picture in a language.
const { protocol } = data.texts.en; // its texts are in every language of the page
for (const name of ["languages", "texts"]) data[name] = bare(data[name]);
const { criteria } = protocol;
const together = protocol.shows !== "pair";
const isLines = protocol.shows === "tags" && criteria.length === 1; // a line a tag
const many = together || criteria.length > 1; // questions of a screen: one is marked
const ids = new Set(data.items.map(({ id }) => id));
let screens = []; // in the language that the rater chose
let place = 0;
let cards = []; // of the screen: {item, section, questions, total}
let current = [0, 0]; // card and criterion that number keys answer
let shown = protocol; // the protocol in the language of the page
let rater = "";
let language = ""; // "": all
let answers = bare(); // item id -> {name of a criterion: value}, and `checks`: whose rating this replaces
let saved = new Set(); // ids of items whose ratings are in a file
let first = null; // the ratings that are checked: {rater, answers}
let unsaved = false;

// ---- Texts of the protocol

const isPenalty = ({ default: fallback }) => fallback !== null;

function fillProtocol() {
  const has = {
    together, many, several: criteria.length > 1, penalty: criteria.some(isPenalty), rules: protocol.rules.length > 0,
    lines: isLines,
  };
  document.body.classList.add(...Object.keys(has).filter((name) => has[name]).map((name) => `has-${name}`));
}

function pairPart(heading, text) {
  const part = create("div", "", inRubric());
  part.append(create("dt", heading), create("dd", text));
  return part;
}

// Fills in the texts of the protocol, which do not change from item to item.
function showProtocol() {
  shown = ui.protocol;
  fill(".brand, #start-title", shown.title, inRubric());
  fill(".task", shown.task, inRubric());
  document.title = shown.title;
  for (const list of document.querySelectorAll(".advice-list")) {
    list.replaceChildren(...shown.advice.map((text) => create("li", text, inRubric())));
  }
  for (const list of document.querySelectorAll(".rules")) {
    list.replaceChildren(...shown.rules.map(([heading, text]) => pairPart(heading, text)));
  }
  byId("rubric").replaceChildren(...shown.criteria.map(({ heading, question }) => pairPart(heading, question)));
  byId("levels").replaceChildren(...shown.criteria.map((criterion) => pairPart(criterion.heading,
    `${criterion.question} ${levelsOf(criterion).map(({ label, meaning }) => `${label} ${meaning}`.trim()).join(" · ")}`)));
  byId("order").textContent = phrase(`order_${protocol.shows}`);
  showKeys();
}

function showKeys() {
  const lastOf = ({ first_key: key, choices }) => key + choices.length - 1;
  byId("number-keys").replaceChildren(create("kbd", criteria[0].first_key), "–", create("kbd", lastOf(criteria[0])));
  byId("number-help").textContent = phrase(many ? "key_digits_many" : "key_digits");
  byId("last-penalty").textContent = Math.max(...criteria.filter(isPenalty).map(lastOf));
  fill(".backward", ui.direction === "rtl" ? "→" : "←");
  fill(".forward", ui.direction === "rtl" ? "←" : "→");
}

// ---- Browser storage: one entry per rater, and one for the last rater

const lastRater = `xmcap-rating-${data.page}`;
const lastLanguage = `${lastRater}/language`; // which is nobody's name
const kept = (name) => `${lastRater}-${name}`;

function keep() {
  keepAnswers({
    [lastRater]: rater,
    [lastLanguage]: language,
    [kept(rater)]: { answers, saved: [...saved], place, unsaved, language, first },
  });
}

// Returns what of some answers this page can take.
function accepted(entries) {
  const taken = bare();
  for (const [id, values] of Object.entries(entries ?? {})) {
    const answer = bare(values);
    const offered = criteria.filter(({ name, choices }) => choices.some(([value]) => value === answer[name]));
    if (!ids.has(id) || !offered.length) continue;
    taken[id] = bare(Object.fromEntries(offered.map(({ name }) => [name, answer[name]])));
    if (typeof answer.checks === "string") taken[id].checks = answer.checks;
  }
  return taken;
}

function recall(name) {
  const state = readKept(kept(name));
  answers = accepted(state?.answers);
  saved = new Set(Array.isArray(state?.saved) ? state.saved.filter((id) => ids.has(id)) : []);
  first = typeof state?.first?.rater === "string" ? { rater: state.first.rater, answers: accepted(state.first.answers) } : null;
  place = state?.language === language && Number.isInteger(state.place) && state.place in screens ? state.place : 0;
  unsaved = Boolean(state?.unsaved);
}

// ---- The language to rate, which is the page's too if it has all texts in it

function screensOf(items) {
  if (!together) return items.map((item) => [item]);
  const found = new Map();
  for (const item of items) {
    const name = `${item.picture} ${item.language}`;
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(item);
  }
  return [...found.values()];
}

function chooseLanguage(code) {
  language = code in data.languages ? code : "";
  screens = screensOf(data.items.filter((item) => !language || item.language === language));
  byId("progress").max = screens.length;
  speak(data.texts[data.languages[language]?.page] ?? data.texts.en);
  showProtocol();
  const tags = language ? [data.languages[language]] : Object.values(data.languages);
  byId("extent").replaceChildren(phrase("extent", { count: screens.length }), ...tags.flatMap((one) => [" ", languageTag(one)]));
  for (const option of byId("language").options) option.textContent = optionText(option.value);
  byId("language").value = language;
}

function optionText(code) {
  if (!code) return phrase("all_languages");
  const { name, native } = data.languages[code];
  return name === native || ui.code !== "en" ? native : `${native} (${name})`;
}

function fillLanguages() {
  const codes = Object.keys(data.languages);
  byId("language-choice").hidden = codes.length < 2;
  byId("language").append(...["", ...codes].map((value) => create("option", "", { value })));
  byId("language").addEventListener("change", (event) => chooseLanguage(event.target.value));
}

// ---- Answers

const answerOf = (item, { name }) => answers[item.id]?.[name] ?? null;
const firstOf = (item, { name }) => first?.answers[item.id]?.[name] ?? null;
const shownOf = (item, one) => answerOf(item, one) ?? firstOf(item, one) ?? one.default;
const isOpen = (item, one) => !isPenalty(one) && answerOf(item, one) === null;
const isRated = (item) => item.id in answers && !criteria.some((one) => isOpen(item, one));
const isDone = (screen) => screen.every(isRated);
const isBegun = (screen) => !isDone(screen) && screen.some(({ id }) => id in answers);

// Takes over what the first rater gave, so that the rest of a changed rating is not lost.
function takeOver({ id }) {
  if (id in answers || !first?.answers[id]) return;
  answers[id] = bare(first.answers[id], { checks: first.rater });
  unsaved = true;
}

function rate(card, number, value) {
  const { item } = cards[card];
  const criterion = criteria[number];
  takeOver(item);
  answers[item.id] = bare(answers[item.id], { [criterion.name]: value });
  unsaved = true;
  const step = criterion.choices.findIndex(([one]) => one === value);
  mark(card * criteria.length + number + 1);
  keep();
  show();
  const { heading, choices } = shown.criteria[number];
  showMessage(`${heading}: ${labelOf(criterion, step)} ${choices[step][1]}`.trim());
  scrollToMark();
}

function takeBack() {
  const { id } = cards[current[0]].item;
  if (!(id in answers)) return;
  delete answers[id];
  unsaved = true;
  current = [current[0], 0];
  keep();
  show();
  say("deleted");
}

// What the button of a choice shows: the key that chooses it, or how much is subtracted.
function labelOf(criterion, step) {
  return isPenalty(criterion) ? String(criterion.choices[step][0]).replace("-", "\u2212") : criterion.first_key + step;
}

const levelsOf = (criterion) => criterion.choices.map(([value, meaning], step) => (
  { value, meaning, label: labelOf(criterion, step), key: criterion.first_key + step }));

// ---- Going through the items

function mark(position) {
  const last = cards.length * criteria.length - 1;
  const to = Math.min(Math.max(position, 0), last);
  current = [Math.floor(to / criteria.length), to % criteria.length];
}

const marked = () => cards[current[0]].questions[current[1]];

// The whole card if it fits, and in any case the question.
function scrollToMark() {
  if (!many) return;
  for (const part of [cards[current[0]].section, marked().fieldset]) part.scrollIntoView({ block: "nearest" });
}

function go(to) {
  if (to < 0 || to >= screens.length) {
    say(to < 0 ? "first_item" : "last_item");
    return;
  }
  place = to;
  current = [0, 0];
  keep();
  render();
  window.scrollTo(0, 0);
  // So that Enter does not press a button of the previous item, and a screen reader starts at the new item.
  byId("place").focus({ preventScroll: true });
}

function goOn() {
  const screen = screens[place];
  screen.forEach(takeOver);
  keep();
  if (isDone(screen)) {
    if (place + 1 < screens.length) go(place + 1);
    else goToUnrated();
    return;
  }
  const order = screen.map((_, step) => (current[0] + step) % screen.length);
  const card = order.find((number) => !isRated(screen[number]));
  const wasHere = card === current[0];
  const open = criteria.findIndex((one) => isOpen(screen[card], one));
  current = [card, open];
  show();
  scrollToMark();
  const [low, high] = [0, criteria[open].choices.length - 1].map((step) => labelOf(criteria[open], step));
  if (wasHere) say("not_rated", { heading: shown.criteria[open].heading, low, high });
}

function goToUnrated() {
  for (let step = 1; step <= screens.length; step++) {
    const to = (place + step) % screens.length;
    if (!isDone(screens[to])) {
      go(to);
      return;
    }
  }
  show();
  say(unsaved ? "all_rated" : "all_saved");
}

// ---- Saving

function save() {
  const all = screensOf(data.items); // in all languages, whichever is chosen now
  const done = all.filter(isDone);
  const items = done.flat();
  const rated = new Set(items.map(({ id }) => id));
  const back = [...saved].filter((id) => !rated.has(id)); // taken back since
  if (!done.length && !back.length) {
    say("none_rated");
    return;
  }
  const shared = (item) => ({ item, protocol: protocol.name, rater });
  const lines = items.map((item) => JSON.stringify({
    ...shared(item.id),
    ...(answers[item.id].checks && { checks: answers[item.id].checks }),
    ...Object.fromEntries(criteria.map((one) => [one.name, answerOf(item, one) ?? one.default])),
  }));
  lines.push(...back.map((id) => JSON.stringify({ ...shared(id), taken_back: true })));
  const file = saveAnswers("ratings", rater, lines);
  rated.forEach((id) => saved.add(id));
  const begun = all.filter(isBegun).length;
  unsaved = begun > 0;
  keep();
  show();
  showMessage([phrase("saved", { file, done: done.length, all: all.length }),
    ...(begun ? [phrase("left_out", { count: begun })] : [])].join(" "));
}
