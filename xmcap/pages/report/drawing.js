// Shared by the charts of all pages: SVG elements, marks that distinguish lines and systems, and axes.

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") made.style.cssText = value; // the page's policy refuses the attribute
    else made.setAttribute(name, value);
  }
  if (text !== undefined) made.textContent = text;
  return made;
}

// The mark of a line or of a further system, by its number from 0; the four shapes and colours repeat.
function mark(number, x, y, s = 4.6) {
  const shape = [
    `M${x - s} ${y}L${x} ${y - s}L${x + s} ${y}L${x} ${y + s}Z`,
    `M${x - s} ${y}a${s} ${s} 0 1 0 ${2 * s} 0a${s} ${s} 0 1 0 ${-2 * s} 0Z`,
    `M${x - s} ${y + s * 0.8}L${x} ${y - s}L${x + s} ${y + s * 0.8}Z`,
    `M${x - s * 0.85} ${y - s * 0.85}h${1.7 * s}v${1.7 * s}h${-1.7 * s}Z`,
  ][number % 4];
  return svg("path", { class: `mark mark-${number % 4}`, d: shape });
}

// The symbol before a name in a legend: a mark by number, the bar of the first system, or a piece of a line.
function drawKey(key) {
  const number = key.dataset.mark;
  const isLine = key.classList.contains("line-key");
  const drawn = svg("svg", { viewBox: isLine ? "0 0 26 14" : "0 0 14 14", "aria-hidden": true });
  if (isLine) drawn.append(svg("path", { class: "line", d: "M1 7H25" }));
  if (number === "bar") drawn.append(svg("rect", { class: "bar", x: 2, y: 2, width: 10, height: 10, rx: 2 }));
  else drawn.append(mark(Number(number), isLine ? 13 : 7, 7));
  key.append(drawn);
}

document.querySelectorAll("[data-mark]").forEach(drawKey);

// Round numbers from at most `lowest` to at least `highest`, in about five steps.
function ticks(lowest, highest) {
  if (highest <= lowest) return [lowest, lowest + 1];
  const rough = (highest - lowest) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((one) => one >= rough * (1 - 1e-9));
  const first = Math.floor(lowest / step + 1e-9), last = Math.ceil(highest / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number((step * (first + i)).toPrecision(12)));
}

// At most eight powers of ten that enclose positive numbers; for less than two powers, also 2 and 5 times each.
function logTicks(lowest, highest) {
  const low = Math.floor(Math.log10(lowest) + 1e-9), high = Math.ceil(Math.log10(highest) - 1e-9);
  if (high - low > 1) {
    const step = Math.ceil((high - low) / 7), made = [];
    for (let power = low; power < high + step; power += step) made.push(10 ** power);
    return made;
  }
  const fine = [low, low + 1].flatMap((power) => [1, 2, 5].map((factor) => factor * 10 ** power)).concat(10 ** (low + 2));
  const first = fine.findLastIndex((tick) => tick <= lowest * (1 + 1e-9));
  const last = fine.findIndex((tick) => tick >= highest * (1 - 1e-9));
  return fine.slice(first, Math.max(last, first + 1) + 1);
}

const digits = (value, count) => String(Number(value.toPrecision(count)));

// The short label of a tick: 20k, 2.5M, 1e-4, 12.5%.
function tickText(value, percent) {
  if (percent) return `${digits(100 * value, 4)}%`;
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= size) return digits(value / size, 4) + letter;
  }
  if (value && Math.abs(value) < 1e-2) {
    const [mantissa, exponent] = value.toExponential(3).split("e");
    return `${Number(mantissa)}e${Number(exponent)}`;
  }
  return digits(value, 4);
}
