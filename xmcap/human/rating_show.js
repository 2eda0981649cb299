// ---- Showing

function questionPart(item, card, number) {
  const criterion = criteria[number];
  const { heading, question, meanings, lang } = texts[number];
  const fieldset = copyOf("criterion");
  fieldset.classList.toggle("penalty", isPenalty(criterion));
  if (together) fieldset.setAttribute("aria-label", `${heading}: ${item.captions[0]}`);
  Object.assign(fieldset.querySelector("legend"), { textContent: heading, lang, dir: "auto" });
  Object.assign(fieldset.querySelector(".question"), { textContent: question, lang, dir: "auto" });
  const choices = criterion.choices.map(([value], step) => {
    const button = copyOf("choice");
    const key = criterion.first_key + step;
    Object.assign(button.dataset, { value, key });
    button.querySelector(".value").textContent = labelOf(criterion, step);
    Object.assign(button.querySelector(".meaning"), { textContent: meanings[step], lang, dir: "auto" });
    button.addEventListener("click", () => rate(card, number, value));
    return button;
  });
  fieldset.querySelector(".choices").append(...choices);
  fieldset.addEventListener("focusin", () => {
    current = [card, number];
    showMark();
  });
  return { fieldset, choices };
}

function cardPart(item, card, direction) {
  const section = copyOf("card");
  item.captions.forEach((text, side) => {
    const part = copyOf("caption");
    const several = together && screens[place].length > 1;
    const heading = protocol.captions[side] + (several ? ` ${card + 1}` : "");
    part.setAttribute("aria-label", heading);
    part.querySelector("h2").textContent = heading;
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
  const shown = data.languages[item.language];
  byId("place").textContent = `Item ${place + 1} of ${screens.length}`;
  byId("place").append(create("span", shown.name, { className: "language" }));
  showPicture(item);
  showReferences(item, shown.direction);
  byId("cards").replaceChildren();
  cards = screens[place].map((one, card) => cardPart(one, card, shown.direction));
  byId("back").disabled = place === 0;
  show();
}

// Shows the answers of the screen.
function show() {
  for (const { item, section, questions, total } of cards) {
    questions.forEach(({ choices }, number) => {
      const answer = shownOf(item, criteria[number]);
      const before = firstOf(item, criteria[number]);
      for (const choice of choices) {
        const value = Number(choice.dataset.value);
        choice.setAttribute("aria-pressed", String(value === answer));
        choice.classList.toggle("first", value === before);
        choice.title = value === before ? `${first.rater}'s answer` : "";
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
  byId("rated").textContent = `${count} of ${screens.length} rated`;
  byId("save").classList.toggle("due", unsaved);
  byId("save").title = unsaved ? "Some answers are not saved yet" : "All answers are saved";
  byId("rater-shown").textContent = rater;
  showMark();
  say(first && screens[place].some(({ id }) => !(id in answers) && first.answers[id])
    ? `The answers are ${first.rater}'s: change what is wrong, then press Enter.` : "");
}

function showMark() {
  cards.forEach(({ questions }, card) => questions.forEach(({ fieldset }, number) => {
    const isMarked = many && card === current[0] && number === current[1];
    fieldset.classList.toggle("current", isMarked);
  }));
  const { heading, question } = texts[current[1]];
  byId("asked").replaceChildren(create("strong", heading, { dir: "auto" }), create("span", question, { dir: "auto" }));
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
      throw new Error(`Line ${number + 1} is no rating of this page.`);
    }
    if (row.item in rows) throw new Error(`Line ${number + 1} rates an item again; keep one line of it.`);
    rows[row.item] = row;
    raters.add(name);
  });
  if (raters.size !== 1) throw new Error(`The file has the ratings of ${raters.size} people; choose one of one person.`);
  return { rater: [...raters][0], answers: accepted(rows) };
}

async function chooseFirst() {
  const [file] = byId("first").files;
  chosen = null;
  byId("first-read").textContent = "";
  if (!file) return;
  try {
    chosen = readRatings(await file.text());
    byId("first-read").textContent = `Ratings of ${chosen.rater}: ${Object.keys(chosen.answers).length}`;
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

const actions = bare({
  ArrowLeft: () => go(place - 1),
  ArrowRight: () => go(place + 1),
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
  say(texts[current[1]].heading);
}

function onKey(event) {
  if (byId("rating").hidden || byId("help-dialog").open || event.isComposing) return;
  if (event.altKey || ((event.ctrlKey || event.metaKey) && letterOf(event) !== "s")) return;
  const onControl = event.target.closest("button:not(.choice), summary");
  if (event.key === "Enter" && (onControl || event.repeat)) return;
  const digit = digitOf(event);
  const choice = digit && marked().choices.find(({ dataset }) => dataset.key === digit);
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

fillProtocol();
fillLanguages();
// A page in one language starts with the instructions in that language.
const only = Object.keys(data.languages);
chooseLanguage(only.length === 1 ? only[0] : readKept(lastLanguage) ?? "");
rater = readKept(lastRater) ?? "";
if (rater) start(rater);
else showStart();
