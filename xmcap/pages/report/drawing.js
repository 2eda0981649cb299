// What charts are drawn with: SVG elements, marks that distinguish systems, and axes.

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

// The mark of a further system, by its number from 0; the four shapes and colours repeat.
function mark(number, x, y, s = 4.6) {
  const shape = [
    `M${x - s} ${y}L${x} ${y - s}L${x + s} ${y}L${x} ${y + s}Z`,
    `M${x - s} ${y}a${s} ${s} 0 1 0 ${2 * s} 0a${s} ${s} 0 1 0 ${-2 * s} 0Z`,
    `M${x - s} ${y + s * 0.8}L${x} ${y - s}L${x + s} ${y + s * 0.8}Z`,
    `M${x - s * 0.85} ${y - s * 0.85}h${1.7 * s}v${1.7 * s}h${-1.7 * s}Z`,
  ][number % 4];
  return svg("path", { class: `mark mark-${number % 4}`, d: shape });
}

// The symbol before a name in a legend: a mark by number, or the "bar" of the first system.
function keyOf(number) {
  const key = element("span", "key");
  const drawn = svg("svg", { viewBox: "0 0 14 14", "aria-hidden": true });
  drawn.append(number === "bar" ? svg("rect", { class: "bar", x: 2, y: 2, width: 10, height: 10, rx: 2 }) : mark(number, 7, 7));
  key.append(drawn);
  return key;
}

// Round numbers from at most `lowest` to at least `highest`, in about five steps.
function ticks(lowest, highest) {
  if (highest <= lowest) return [lowest, lowest + 1];
  const rough = (highest - lowest) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((one) => one >= rough * (1 - 1e-9));
  const first = Math.floor(lowest / step + 1e-9), last = Math.ceil(highest / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number((step * (first + i)).toPrecision(12)));
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
