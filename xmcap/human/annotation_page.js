const { items, language, limits, procedure } = data;
const NOTHING = { rating: "", caption: "", tags: [], skipped: "", events: [] };
const RATINGS = data.texts.levels.map(({ value }) => value);
const TAG_ENDS = /[,，、،;；]/;

// The first screen rates the captions of a batch, all together; the second describes a picture. A batch is rated before
// it is described, so that no caption is in view, or was a moment ago, while one writes.
const steps = [];
for (let first = 0, batch = 0; first < items.length; batch++) {
  const numbers = items.slice(first, first + (procedure.batch || items.length)).map((_, i) => first + i);
  if (RATINGS.length) steps.push({ screen: "rate", batch, numbers });
  numbers.forEach((number, i) => {
    steps.push({ screen: "write", batch, numbers: [number], place: i + 1, size: numbers.length });
  });
  first += numbers.length;
}

let annotator = "";
let place = 0; // of the step
let marked = 0; // the picture of the step that keys act on
let unsaved = false;
let copying = false; // a suggestion, which is no typing
let states = []; // what was written of each item: its rating, caption, tags, reason to skip, and log

// ---- What the browser keeps: who was here last, and for each annotator one entry a picture and one for the rest.

const lastAnnotator = `xmcap-annotation-${data.page}`;
const kept = (what) => `${lastAnnotator}-${what}-${annotator}`;

function checked(state) {
  const isText = (value) => typeof value === "string";
  const good = isText(state?.caption) && isText(state.rating) && isText(state.skipped) &&
    Array.isArray(state.tags) && state.tags.every(isText) && Array.isArray(state.events) &&
    state.events.every((one) => Number.isSafeInteger(one?.time) && isText(one.event) && isText(one.text));
  return good ? state : structuredClone(NOTHING);
}

function keep() {
  keepAnswers({ [lastAnnotator]: annotator, [kept(marked)]: now(), [kept("place")]: { place, unsaved } });
}

function recall() {
  states = items.map((_, number) => checked(readKept(kept(number))));
  const rest = readKept(kept("place"));
  place = Number.isInteger(rest?.place) && rest.place in steps ? rest.place : 0;
  if (isShut(steps[place])) place = steps.findIndex((step) => !isShut(step));
  unsaved = Boolean(rest?.unsaved);
}

// ---- What is written

const now = () => states[marked];
const isRating = () => steps[place].screen === "rate";
const isDescribed = (state) => Boolean(state.skipped || tidy(state.caption));
// Also what was taken back, which an earlier file may still have.
const isBegun = (state) => isDescribed(state) || state.tags.length > 0 || state.rating !== "" ||
  state.events.some(({ event }) => !["open", "open_rating", "done"].includes(event));
const isRated = (number) => states[number].rating !== "";
const isDone = ({ screen, numbers }) => numbers.every((number) => (
  screen === "rate" ? isRated(number) : isDescribed(states[number])));

// Nobody writes before the batch is rated, nor sees a rated caption again once they write.
function isShut(step) {
  const batch = steps.filter((one) => one.batch === step.batch);
  if (step.screen === "write") return !batch.every((one) => one.screen === "write" || isDone(one));
  return isDone(step) && step.numbers.some((number) => states[number].events.some(({ event }) => event === "open"));
}

function log(event, text = "", more = {}) {
  const { events } = now();
  const last = events.at(-1);
  // The latest event has the latest time, even if the clock was put back: of two files the later one counts.
  const entry = { time: Math.max(Date.now(), last ? last.time + 1 : 0), event, text: wellFormed(text), ...more };
  const isTyping = event === "edit_sentence" && last?.event === event && last.text && text; // a run of it is one edit
  const size = events.reduce((sum, one) => sum + one.text.length + (one.before ?? "").length, 0);
  const isFull = events.length >= limits.events || size >= limits.log;
  events.splice(isTyping || isFull ? -1 : events.length, 1, entry);
}

// Logs a change that was made, and keeps it. Whoever writes about a picture does not skip it.
function changed(event, text, more) {
  if (event !== "skip") now().skipped = "";
  log(event, text, more);
  unsaved = true;
  keep();
  showState();
}

// Marks a picture of the first screen: its caption is being rated from now on.
function mark(number) {
  if (number === marked && now().events.at(-1)?.event === "open_rating") return;
  marked = number;
  log("open_rating");
  keep();
  showState();
}

// Rates the marked caption, and marks the next one that is not rated.
function rate(value) {
  now().rating = value;
  changed("rate", value);
  log("done");
  keep();
  const { numbers } = steps[place];
  const next = numbers.find((number) => number > marked && !isRated(number)) ?? numbers.find((one) => !isRated(one));
  if (next !== undefined) mark(next);
}

function copySentence(text) {
  const field = byId("sentence");
  field.focus();
  field.select();
  copying = true;
  // The browser's own command, so that Ctrl Z takes the copy back.
  if (!document.execCommand("insertText", false, text)) field.value = text;
  copying = false;
  now().caption = field.value;
  changed("copy_sentence", text);
}

function addTag(text, event = "add_tag") {
  if (!text || now().tags.includes(text)) return;
  if (now().tags.length >= limits.tags) {
    say("most_tags", { count: limits.tags });
    return;
  }
  now().tags.push(text);
  changed(event, text);
}

function addTyped() {
  const texts = byId("new-tag").value.split(TAG_ENDS).map(tidy);
  byId("new-tag").value = "";
  for (const text of texts) addTag(text);
}

function removeTag(text) {
  now().tags = now().tags.filter((tag) => tag !== text);
  changed("remove_tag", text);
}

function editTag(before, typed) {
  if (typed === before) return;
  const [text, ...more] = typed.split(TAG_ENDS).map(tidy).filter(Boolean);
  if (text !== before && (!text || now().tags.includes(text))) {
    removeTag(before);
  } else if (text !== before) {
    now().tags = now().tags.map((tag) => (tag === before ? text : tag));
    changed("edit_tag", text, { before });
  }
  for (const tag of more) addTag(tag);
  showState();
}

function toggleTag(text) {
  if (now().tags.includes(text)) removeTag(text);
  else addTag(text, "copy_tag");
}

// ---- Going through the pictures

function go(to) {
  addTyped();
  place = to;
  const { numbers } = steps[place];
  marked = numbers.find((number) => !isRated(number)) ?? numbers[0];
  log(isRating() ? "open_rating" : "open");
  keep();
  show();
  window.scrollTo(0, 0);
  byId(isRating() ? "place" : "sentence").focus({ preventScroll: true });
}

const before = () => steps.findLastIndex((step, at) => at < place && !isShut(step));

function goBack() {
  const to = before();
  if (to >= 0) go(to);
  else say("no_back");
}

function goOn() {
  addTyped();
  if (!isDone(steps[place]) && isRating()) {
    mark(steps[place].numbers.find((number) => !isRated(number)));
    scrollToMark();
    say("rate_first");
    return;
  }
  if (!isDone(steps[place])) {
    say("write_first");
    byId("sentence").focus();
    return;
  }
  if (!isRating()) log("done");
  keep();
  const next = steps.findIndex((step, at) => at > place && !isShut(step));
  const open = steps.findIndex((step) => !isDone(step) && !isShut(step));
  if (next >= 0) go(next);
  else if (open >= 0) go(open);
  else say(unsaved ? "all_described" : "all_saved");
}

function save() {
  addTyped();
  const lines = items.flatMap((item, number) => {
    const { rating, caption, tags, skipped, events } = states[number];
    return isBegun(states[number]) ? [JSON.stringify({
      "image/key": item.key, image: item.image, language: language.code, annotator,
      ...(RATINGS.length ? { rated: { language: data.rated_language.code, caption: item.rated, rating } } : {}), caption: tidy(caption), tags, skipped, suggested: { sentences: item.sentences, tags: item.tags }, events,
    })] : [];
  });
  if (!lines.length) {
    say("nothing_written");
    return;
  }
  const file = saveAnswers("annotations", annotator, lines);
  unsaved = false;
  keep();
  showState();
  say("saved", { file, done: lines.length, all: items.length });
}
