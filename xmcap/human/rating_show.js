// ---- Showing

// In pixels, of a narrow page: the most between its parts, and the least height of its picture, as in the style sheet.
const GAP = 10;
const LEAST_PICTURE = 64;

function questionPart(item, card, number) {
  const criterion = criteria[number];
  const { heading, question } = shown.criteria[number];
  const fieldset = copyOf("criterion");
  fieldset.classList.toggle("penalty", isPenalty(criterion));
  if (together) fieldset.setAttribute("aria-label", `${heading}: ${item.captions[0]}`);
  Object.assign(fieldset.querySelector("legend"), { textContent: heading, ...inRubric() });
  Object.assign(fieldset.querySelector(".question"), { textContent: question, ...inRubric() });
  const parts = levelParts(levelsOf(shown.criteria[number]), (value) => rate(card, number, value));
  fieldset.append(parts.words, parts.choices);
  fieldset.addEventListener("focusin", () => {
    current = [card, number];
    showMark();
  });
  return { fieldset, ...parts };
}

function cardPart(item, card, direction) {
  const section = copyOf("card");
  fillPhrases(section);
  item.captions.forEach((text, side) => {
    const part = copyOf("caption");
    const several = together && screens[place].length > 1;
    const heading = shown.captions[side] + (several ? ` ${card + 1}` : "");
    part.setAttribute("aria-label", heading);
    Object.assign(part.querySelector("h2"), { textContent: heading, ...inRubric() });
    showCaption(part.querySelector("p"), text, item.language, direction);
    section.querySelector(".captions").append(part);
  });
  section.querySelector(".same").hidden = item.captions.length < 2 || tidy(item.captions[0]) !== tidy(item.captions[1]);
  const questions = criteria.map((_, number) => questionPart(item, card, number));
  section.querySelector(".criteria").append(...questions.map(({ fieldset }) => fieldset));
  section.querySelector(".total").hidden = !Object.keys(protocol.total).length;
  byId("cards").append(section);
  return { item, section, questions, total: section.querySelector("output") };
}

// Shows another screen.
function render() {
  const [item] = screens[place];
  const { direction, ...named } = data.languages[item.language];
  byId("place").replaceChildren(phrase("item", { place: place + 1, all: screens.length }), languageTag(named));
  showPicture(item);
  showReferences(item, direction);
  byId("cards").replaceChildren();
  cards = screens[place].map((one, card) => cardPart(one, card, direction));
  byId("back").disabled = place === 0;
  show();
  fitPicture();
}

// Shows the answers of the screen.
function show() {
  for (const { item, section, questions, total } of cards) {
    questions.forEach((question, number) => {
      showLevel(question, shownOf(item, criteria[number]));
      const before = firstOf(item, criteria[number]);
      for (const choice of question.choices.children) {
        const isFirst = Number(choice.dataset.value) === before;
        choice.classList.toggle("first", isFirst);
        choice.title = isFirst ? phrase("check_answer", { rater: first.rater }) : "";
      }
    });
    section.classList.toggle("rated", isRated(item));
    const weights = Object.entries(protocol.total);
    total.textContent = isRated(item) || first?.answers[item.id]
      ? weights.reduce((sum, [name, weight]) => sum + weight * shownOf(item, criteria.find((one) => one.name === name)), 0)
        .toFixed(2)
      : "–";
  }
  const count = screens.filter(isDone).length;
  byId("progress").value = count;
  byId("rated").textContent = phrase("rated", { count, all: screens.length });
  byId("save").classList.toggle("due", unsaved);
  byId("save").title = phrase(unsaved ? "save_due" : "save_done");
  byId("rater-shown").textContent = rater;
  showMark();
  showMessage(first && screens[place].some(({ id }) => !(id in answers) && first.answers[id])
    ? phrase("check_shown", { rater: first.rater }) : "");
}

function showMark() {
  cards.forEach(({ questions }, card) => questions.forEach(({ fieldset }, number) => {
    const isMarked = many && card === current[0] && number === current[1];
    fieldset.classList.toggle("current", isMarked);
  }));
  const { heading, question } = shown.criteria[current[1]];
  byId("asked").replaceChildren(create("strong", heading, inRubric()), create("span", question, inRubric()));
}

// On a narrow page the picture shrinks until a caption and all its levels fit below it, or all tags; if these are too
// many, one scrolls to them below a picture of full height.
function fitPicture() {
  if (byId("rating").hidden) return;
  const heightOf = (part) => part.getBoundingClientRect().height;
  const bars = [document.querySelector(".bar"), byId("place"), byId("nav")].reduce((sum, part) => sum + heightOf(part), 0);
  const heights = cards.map(({ section }) => heightOf(section) + GAP);
  const below = isLines ? heights.reduce((sum, height) => sum + height, heightOf(byId("asked")) + GAP) : Math.max(...heights);
  const room = Math.floor(window.innerHeight - bars - below - 4 * GAP);
  document.documentElement.style.setProperty("--picture", isLines && room < LEAST_PICTURE ? "30vh" : `${room}px`);
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
  element.textContent = empty ? phrase("empty") : text;
  element.classList.toggle("empty", empty);
  element.lang = empty ? ui.code : code;
  element.dir = empty ? ui.direction : direction;
}

function showReferences(item, direction) {
  byId("references").hidden = !item.references.length;
  byId("references").querySelector("ul").replaceChildren(...item.references.map((text) =>
    create("li", text, { lang: item.language, dir: direction })));
}

// ---- Starting, perhaps with the ratings of somebody else

let chosen = null; // ratings that were read from a file
const MOST_OF_NAME = 1_000; // characters; one that is typed has at most 100

function readRatings(text) {
  const rows = bare();
  const raters = new Set();
  text.split("\n").forEach((line, number) => {
    if (!line.trim()) return;
    let row = null;
    try {
      row = JSON.parse(line);
    } catch {
      // not JSON: as wrong as an unknown item
    }
    if (row?.taken_back === true && ids.has(row.item)) return;
    const name = typeof row?.rater === "string" ? tidy(row.rater) : "";
    if (!ids.has(row?.item) || !name || name.length > MOST_OF_NAME || !(row.item in accepted({ [row.item]: row }))) {
      throw new Error(phrase("check_no_rating", { line: number + 1 }));
    }
    if (row.item in rows) throw new Error(phrase("check_twice", { line: number + 1 }));
    rows[row.item] = row;
    raters.add(name);
  });
  if (raters.size !== 1) throw new Error(phrase("check_people", { count: raters.size }));
  return { rater: [...raters][0], answers: accepted(rows) };
}

async function chooseFirst() {
  const [file] = byId("first").files;
  chosen = null;
  byId("first-read").textContent = "";
  if (!file) return;
  try {
    chosen = readRatings(await file.text());
    byId("first-read").textContent = phrase("check_read", { rater: chosen.rater, count: Object.keys(chosen.answers).length });
  } catch (error) {
    byId("first").value = "";
    byId("first-read").textContent = error.message;
  }
}

const showStart = () => askName("rating", "rater", rater || data.rater);

function start(name) {
  rater = name;
  recall(rater);
  if (chosen?.rater === rater) {
    answers = bare(chosen.answers, answers);
    Object.keys(chosen.answers).forEach((id) => saved.add(id));
  } else if (chosen) {
    first = chosen;
  }
  chosen = null;
  byId("first").value = "";
  byId("first-read").textContent = "";
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

// The arrow in the direction of reading leads to the next item.
const goAside = (by) => go(place + (ui.direction === "rtl" ? -by : by));

const actions = bare({
  ArrowLeft: () => goAside(-1),
  ArrowRight: () => goAside(1),
  Home: () => go(0),
  End: () => go(screens.length - 1),
  Enter: goOn,
  Delete: takeBack,
  Backspace: takeBack,
  r: () => { byId("references").open = !byId("references").open; },
  s: save,
  u: goToUnrated,
  "?": () => byId("help-dialog").showModal(),
});

function moveMark(by) {
  mark(current[0] * criteria.length + current[1] + by);
  show();
  scrollToMark();
  showMessage(shown.criteria[current[1]].heading);
}

function onKey(event) {
  if (byId("rating").hidden || byId("help-dialog").open || event.isComposing) return;
  if (event.altKey || ((event.ctrlKey || event.metaKey) && letterOf(event) !== "s")) return;
  const onControl = event.target.closest("button:not(.choice), summary");
  if (event.key === "Enter" && (onControl || event.repeat)) return;
  const digit = digitOf(event);
  const choice = digit && [...marked().choices.children].find(({ dataset }) => dataset.key === digit);
  const action = actions[event.key] ?? actions[letterOf(event)];
  if (choice) {
    rate(...current, Number(choice.dataset.value));
  } else if (many && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
    moveMark(event.key === "ArrowUp" ? -1 : 1);
  } else if (action) {
    action();
  } else {
    return;
  }
  event.preventDefault();
}

document.addEventListener("keydown", onKey);
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
byId("first").addEventListener("change", chooseFirst);
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

window.addEventListener("resize", fitPicture);
fillProtocol();
fillLanguages();
// A page in one language starts in that language.
const only = Object.keys(data.languages);
chooseLanguage(only.length === 1 ? only[0] : readKept(lastLanguage) ?? "");
rater = readKept(lastRater) ?? "";
if (rater) start(rater);
else showStart();
