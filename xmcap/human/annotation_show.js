// ---- Showing

let cards = []; // of the first screen: {number, card, choices, words}

function suggestion(text, keys, copy) {
  const button = create("button", "", { type: "button", className: "suggestion" });
  button.append(create("kbd", keys), create("span", text, { lang: language.code, dir: language.direction }));
  button.dataset.text = text;
  button.addEventListener("click", () => copy(text));
  return button;
}

function showSuggestions(id, texts, keys, copy) {
  byId(id).replaceChildren(byId(id).querySelector("h2"),
    ...texts.map((text, number) => suggestion(text, `${keys} ${number + 1}`, copy)));
}

// A picture of the first screen, its caption, and the levels.
function cardPart(number) {
  const card = create("section", "", { className: "sheet card" });
  const { code, direction } = data.rated_language;
  const levels = ui.levels.map(({ value, word, meaning }, i) => (
    { value, label: i + 1, meaning: word, title: meaning }));
  const parts = levelParts(levels, (value) => {
    mark(number);
    rate(value);
  });
  Object.assign(parts.choices, { role: "group", ariaLabel: items[number].rated });
  card.append(create("img", "", { src: items[number].picture, alt: phrase("picture") }),
    create("p", items[number].rated, { className: "rated", lang: code, dir: direction }), parts.words, parts.choices);
  card.dataset.number = number;
  card.addEventListener("focusin", () => mark(number));
  return { number, card, ...parts };
}

function scrollToMark() {
  cards.find(({ number }) => number === marked).card.scrollIntoView({ block: "nearest" });
}

function moveMark(by) {
  const { numbers } = steps[place];
  mark(numbers[Math.min(Math.max(numbers.indexOf(marked) + by, 0), numbers.length - 1)]);
  scrollToMark();
}

function chip(tag) {
  const part = create("span", "", { className: "chip" });
  const field = create("input", "", { value: tag, maxLength: limits.tag, size: Math.max(3, tag.length) });
  Object.assign(field, { lang: language.code, dir: language.direction, ariaLabel: phrase("tag") });
  const remove = create("button", "×", { type: "button", ariaLabel: phrase("remove", { tag }) });
  field.addEventListener("change", () => {
    const [before, text] = [tag, tidy(field.value)];
    tag = field.value = text;
    remove.ariaLabel = phrase("remove", { tag });
    editTag(before, text);
  });
  remove.addEventListener("click", () => {
    removeTag(tag);
    byId("new-tag").focus();
  });
  part.append(field, remove);
  return part;
}

// Chips that show what they should are left alone: one of them may have the focus.
function showTags(tags) {
  const shown = [...byId("tags").querySelectorAll("input")].map(({ value }) => value);
  if (JSON.stringify(shown) !== JSON.stringify(tags)) byId("tags").replaceChildren(...tags.map(chip));
}

function show() {
  const { screen, batch, numbers, place: within, size } = steps[place];
  const item = items[marked];
  const batches = steps.at(-1).batch + 1;
  const ofBatch = { batch: batch + 1, batches, place: within, all: size };
  byId("place").replaceChildren(
    RATINGS.length ? phrase(`place_${screen === "rate" ? "rate" : "describe"}`, ofBatch) :
      phrase("place", { place: marked + 1, all: items.length }),
    languageTag(screen === "rate" ? data.rated_language : language));
  byId("picture").src = item.picture;
  byId("sentence").value = now().caption;
  document.body.dataset.screen = screen;
  cards = screen === "rate" ? numbers.map(cardPart) : [];
  byId("cards").replaceChildren(...cards.map(({ card }) => card));
  showSuggestions("sentences", item.sentences, "Alt", copySentence);
  showSuggestions("suggested-tags", item.tags, "Shift Alt", toggleTag);
  byId("back").disabled = before() < 0;
  showMessage("");
  showState();
}

// All but the sentence, which a picture's annotator may be typing in.
function showState() {
  const { caption, tags, skipped } = now();
  byId("skipped").hidden = !skipped;
  const reason = [...document.querySelectorAll(".reasons button")].find(({ value }) => value === skipped);
  byId("skipped").textContent = phrase("skipped", { reason: reason?.textContent ?? skipped });
  showTags(tags);
  for (const part of cards) {
    part.card.classList.toggle("current", part.number === marked);
    showLevel(part, states[part.number].rating || null);
  }
  for (const button of document.querySelectorAll("#sentences .suggestion")) {
    button.setAttribute("aria-pressed", button.dataset.text === caption);
  }
  for (const button of document.querySelectorAll("#suggested-tags .suggestion")) {
    button.setAttribute("aria-pressed", tags.includes(button.dataset.text));
  }
  byId("progress").value = states.filter(isDescribed).length + (RATINGS.length && states.filter((one) => one.rating).length);
  byId("described").textContent = phrase("described", { count: states.filter(isDescribed).length, all: items.length });
  byId("save").classList.toggle("due", unsaved);
}

const showStart = () => askName("annotating", "annotator", data.annotator || annotator);

function start(name) {
  annotator = name;
  recall();
  showForm("annotating", false);
  byId("annotator-shown").textContent = annotator;
  byId("new-tag").value = "";
  go(place);
}

// Title, guidelines and levels, which are the same for all pictures.
function showTexts() {
  const { title, guidelines, levels } = ui;
  fill(".brand, #start-title", title);
  for (const part of document.querySelectorAll(".guidelines")) {
    const properties = ui.own_guidelines ? {} : { lang: "", dir: "auto" };
    part.append(...guidelines.map((line) => (
      create(line.startsWith("# ") ? "h3" : "p", line.replace(/^# /, ""), properties))));
  }
  for (const { word, meaning } of levels) {
    const level = create("div");
    level.append(create("dt", word), create("dd", meaning));
    byId("levels").append(level);
  }
  const extent = RATINGS.length && procedure.batch ? "extent_batches" : "extent";
  byId("extent").replaceChildren(phrase(extent, { count: items.length, size: procedure.batch }), " ", languageTag(language));
}

// ---- Keys

function onKey(event) {
  if (byId("annotating").hidden || document.querySelector("dialog[open]") || event.isComposing) return;
  const command = event.ctrlKey || event.metaKey;
  // By its place on the keyboard, since Alt and Shift change what a digit types.
  const digit = /^(?:Digit|Numpad)([1-5])$/.exec(event.code)?.[1];
  const onButton = event.target.closest("button, summary") && !event.target.matches('.choice[aria-pressed="true"]');
  const isTag = event.target.id === "new-tag";
  if (isRating() && digit && !command && !event.altKey && !event.shiftKey) {
    if (digit <= RATINGS.length) rate(RATINGS[digit - 1]);
    scrollToMark();
  } else if (isRating() && /^Arrow/.test(event.key) && !command && !event.altKey) {
    moveMark(["ArrowDown", ui.direction === "rtl" ? "ArrowLeft" : "ArrowRight"].includes(event.key) ? 1 : -1);
  } else if (isRating() && event.key === "Enter" && !command && !onButton) {
    goOn();
  } else if (event.altKey && digit && !command && !isRating()) {
    document.querySelectorAll(`${event.shiftKey ? "#suggested-tags" : "#sentences"} .suggestion`)[digit - 1]?.click();
  } else if (command && event.key === "Enter") {
    if (document.activeElement.closest(".chip")) document.activeElement.blur();
    if (event.shiftKey) goBack();
    else goOn();
  } else if (command && (event.code === "KeyS" || event.key === "s")) {
    const field = document.activeElement;
    field.blur(); // a tag that is being edited counts
    save();
    field.focus();
  } else if (event.key === "Enter" && event.target.id === "sentence") {
    if (procedure.tags) byId("new-tag").focus();
    else goOn();
  } else if (event.key === "Enter" && (isTag || event.target.closest(".chip input"))) {
    if (isTag && !event.target.value.trim()) goOn();
    else if (isTag) addTyped();
    else byId("new-tag").focus();
  } else if (event.key === "Backspace" && isTag && !event.target.value && now().tags.length) {
    event.target.value = now().tags.at(-1);
    removeTag(now().tags.at(-1));
  } else {
    return;
  }
  event.preventDefault();
}

document.addEventListener("keydown", onKey);
byId("sentence").addEventListener("input", (event) => {
  if (copying) return;
  now().caption = event.target.value;
  changed("edit_sentence", event.target.value);
});
byId("new-tag").addEventListener("input", (event) => {
  if (!event.isComposing && TAG_ENDS.test(event.target.value)) addTyped();
});
byId("new-tag").addEventListener("change", addTyped);
for (const [id, action] of [
  ["back", goBack], ["next", goOn], ["save", save], ["annotator-shown", showStart],
  ["help", () => byId("help-dialog").showModal()],
  ["skip", () => { byId("skip-dialog").returnValue = ""; byId("reason").value = ""; byId("skip-dialog").showModal(); }],
]) byId(id).addEventListener("click", action);
byId("reason").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault(); // or the form's first button would count
  byId("skip-own").click();
});
byId("skip-dialog").addEventListener("close", () => {
  const { returnValue } = byId("skip-dialog");
  const reason = returnValue === "own" ? tidy(byId("reason").value) : returnValue;
  if (!reason) return;
  addTyped();
  now().skipped = reason;
  changed("skip", reason);
  goOn();
});
onName("annotator", start);
guardUnsaved(() => unsaved);
// The same page in another tab: what is written there counts here too.
window.addEventListener("storage", (event) => {
  const number = annotator ? items.findIndex((_, index) => event.key === kept(index)) : -1;
  if (number < 0) return;
  states[number] = checked(readKept(event.key));
  if (number === marked && !isRating()) show();
  else showState();
});

speak(data.texts);
showTexts();
for (const [id, { code, direction }] of [["sentence", language], ["new-tag", language]]) {
  Object.assign(byId(id), { lang: code, dir: direction });
}
for (const [id, most] of [["sentence", limits.sentence], ["new-tag", limits.tag], ["reason", limits.reason]]) {
  byId(id).maxLength = most;
}
byId("annotator").readOnly = Boolean(data.annotator);
for (const [name, is] of [["ratings", RATINGS.length], ["tags", procedure.tags], ["suggestions", procedure.suggestions]]) {
  document.body.classList.toggle(`no-${name}`, !is);
}
byId("progress").max = items.length * (RATINGS.length ? 2 : 1);
const last = readKept(lastAnnotator);
if (typeof last === "string" && last) start(last);
else showStart();
