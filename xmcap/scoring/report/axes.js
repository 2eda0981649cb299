// Round numbers along an axis, and how they are written: the same as in axes.py.

function ticks(lowest, highest) {
  if (highest <= lowest) return [lowest, lowest + 1];
  const rough = (highest - lowest) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((one) => one >= rough * (1 - 1e-9));
  const first = Math.floor(lowest / step + 1e-9), last = Math.ceil(highest / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number((step * (first + i)).toPrecision(12)));
}

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

