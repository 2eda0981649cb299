// Tables that the reader sorts by clicking a heading.

// A name with its mark in front.
function named(name, mark) {
  const made = element("span", "named");
  made.append(keyOf(mark), element("bdi", "", name));
  return made;
}

// A link to the explanation of a number, on the same page: a question mark, or a text.
function aboutLink(id, name, text = "") {
  const link = element("a", text ? "about" : "about short", text); // the style sheet draws the question mark
  link.href = `#${id}`;
  link.setAttribute("aria-label", `About ${name}`);
  return link;
}

// Numeric columns are right-aligned and sort from the highest first; `mark` is a number, or "bar"; `about` is the id of
// an explanation.
function makeHeading({ text, numeric = true, hint, sorted, mark, small, about }) {
  const heading = element("th", numeric ? "number" : "text");
  heading.scope = "col";
  if (sorted) heading.setAttribute("aria-sort", "ascending");
  const button = element("button");
  button.type = "button";
  if (hint) button.dataset.tip = hint;
  button.append(mark === undefined ? text : named(text, mark));
  if (small) button.append(" ", element("small", "", small));
  const arrow = element("span", "arrow");
  arrow.setAttribute("aria-hidden", true);
  button.append(arrow);
  button.addEventListener("click", () => sortTable(heading));
  heading.append(button, ...(about ? [aboutLink(about, small ?? text)] : []));
  return heading;
}

// `value` is the sort key of a cell, if not its text; "" is a missing number.
function makeCell({ text = "", value, classes = "", style, head, span, nodes = [] }, numeric) {
  const cell = element(head ? "th" : "td", `${numeric ? "number " : ""}${classes}`.trim());
  if (head) cell.scope = "row";
  if (span) cell.colSpan = span;
  if (value !== undefined) cell.dataset.value = value;
  if (style) cell.style.cssText = style;
  cell.append(text, ...nodes);
  return cell;
}

function makeTable(holder, { headings, rows, foot = [] }) {
  const table = element("table", "sortable");
  const head = element("tr");
  head.append(...headings.map(makeHeading));
  table.createTHead().append(head);
  const isNumeric = headings.map(({ numeric = true }) => numeric);
  for (const [cells, part] of [[rows, table.createTBody()], [foot, table.createTFoot()]]) {
    for (const row of cells) {
      let column = 0;
      const made = element("tr");
      for (const cell of row) {
        made.append(makeCell(cell, isNumeric[column] && !cell.head));
        column += cell.span ?? 1;
      }
      part.append(made);
    }
  }
  holder.replaceChildren(table);
  table.style.setProperty("--ems", emsOf(table));
}

// The width on paper below which numbers would be cut, in ems of scores.css: characters, or the heading, and padding.
function emsOf(table) {
  const columns = [...table.tHead.rows[0].cells].map((heading) => (heading.matches("#health .number") ? 3 : 6));
  for (const { cells } of table.rows) {
    if (cells.length < columns.length) continue; // the label of a mean spans two columns
    [...cells].forEach((cell, column) => {
      const texts = cell.tagName === "TD" ? [...cell.childNodes].map(({ textContent }) => textContent.length) : [];
      columns[column] = Math.max(columns[column], ...texts);
    });
  }
  return columns.reduce((sum, characters) => sum + 0.58 * characters + 0.5, 0);
}

// Sorts by a column; numbers start with the highest, and missing ones are last either way.
function sortTable(heading) {
  const table = heading.closest("table");
  const headings = [...heading.parentNode.children];
  const index = headings.indexOf(heading);
  const numeric = heading.classList.contains("number");
  const before = heading.getAttribute("aria-sort");
  const order = before ? (before === "ascending" ? "descending" : "ascending") : numeric ? "descending" : "ascending";
  for (const other of headings) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const text = (row) => row.children[index].dataset.value ?? row.children[index].textContent;
  const rows = [...table.tBodies[0].rows].map((row) => [text(row), row]);
  const compare = numeric
    ? (a, b) => (a === "") - (b === "") || sign * (a - b)
    : (a, b) => sign * a.localeCompare(b, "en", { numeric: true });
  rows.sort(([a], [b]) => compare(a, b));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

// A box whose content fits does not scroll, so the headings in it can stay at the top of the window; see scores.css.
const fitting = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    target.classList.remove("fits");
    target.classList.toggle("fits", target.scrollWidth <= target.clientWidth);
  }
});
document.querySelectorAll(".scroll").forEach((box) => fitting.observe(box));
