// The captions: one compressed block per language, decompressed when the language is chosen; see `block` in captions.py.

const KEPT = 4; // languages that stay decompressed, for readers who switch back and forth
const unpacked = new Map();

// Resolves when the whole file has been read, as the blocks are at its end.
const wholeFile = new Promise((resolve) => {
  if (document.readyState !== "loading") resolve();
  else document.addEventListener("DOMContentLoaded", () => resolve(), { once: true });
});

async function blockOf(name) {
  if (!byId(name)?.nextSibling) await wholeFile;
  return byId(name)?.textContent ?? "";
}

async function inflate(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function captionsOf(language) {
  let held = unpacked.get(language);
  if (!held) {
    held = unpack(language);
    held.catch(() => unpacked.delete(language));
  }
  unpacked.delete(language);
  unpacked.set(language, held);
  if (unpacked.size > KEPT + otherLanguages().length) unpacked.delete(unpacked.keys().next().value);
  return held;
}

async function unpack(language) {
  const { images, rows, scores, faults } = JSON.parse(await inflate(await blockOf(`captions-${language}`)));
  const faultsOf = faults.map((ofSystem) => {
    const names = rows.map(() => []);
    for (const [name, places] of Object.entries(ofSystem)) places.forEach((place) => names[place].push(name));
    return names;
  });
  return rows.map(([references, referenceWords, ...captions], i) => ({
    place: i,
    image: images ? images[i] : i,
    references,
    referenceWords,
    systems: reportData.systems.map((_, s) => ({
      caption: captions[2 * s],
      words: captions[2 * s + 1],
      scores: scores[s].map((ofMetric) => ofMetric?.[i] ?? null),
      faults: faultsOf[s][i],
    })),
  }));
}

// The searchable text of an entry, made on the first search.
function searched(entry) {
  entry.searched ??= [
    reportData.keys[entry.image],
    ...entry.references,
    ...entry.systems.map((system) => system.caption ?? ""),
  ].join("\n").normalize("NFC").toLowerCase();
  return entry.searched;
}

function matching(entries, text, region, fault) {
  const wanted = text.trim().normalize("NFC").toLowerCase();
  const place = reportData.regions.findIndex((held) => held.code === region);
  const has = (faults) => fault === "any" ? faults.length > 0 : faults.includes(fault);
  return entries.filter((entry) =>
    (!fault || entry.systems.some((system) => has(system.faults))) &&
    (place < 0 || reportData.regionOf[entry.image] === place) &&
    (!wanted || searched(entry).includes(wanted)));
}

// Orders: file, worst, best, and differ-N, ahead-N, behind-N relative to system N. Entries without a score are last.
function ordered(entries, order, metric) {
  const [kind, other] = order.split("-");
  const score = (entry, system = 0) => entry.systems[system].scores[metric];
  const value = {
    file: () => 0,
    worst: (entry) => score(entry),
    best: (entry) => negative(score(entry)),
    differ: (entry) => negative(absolute(minus(score(entry), score(entry, Number(other))))),
    ahead: (entry) => minus(score(entry, Number(other)), score(entry)),
    behind: (entry) => minus(score(entry), score(entry, Number(other))),
  }[kind];
  return entries
    .map((entry) => [value(entry) ?? Infinity, entry])
    .sort(([a, { place: i }], [b, { place: j }]) => (a === b ? i - j : a - b))
    .map(([, entry]) => entry);
}

function negative(value) {
  return value === null ? null : -value;
}

function absolute(value) {
  return value === null ? null : Math.abs(value);
}

// The mean score of the entries for each system; null if there are no scores.
function meanScores(entries, metric) {
  return reportData.systems.map((_, system) => {
    const scores = entries.map((entry) => entry.systems[system].scores[metric]).filter((score) => score !== null);
    return scores.length ? scores.reduce((sum, score) => sum + score, 0) / scores.length : null;
  });
}

// The embedded picture of an image, or the URL of a linked one; null if there is none.
async function pictureOf(image) {
  const { kind, of, perBlock, folder } = reportData.pictures;
  if (kind === "none" || of[image] < 0) return null;
  if (kind === "link") return `${folder}${of[image]}`;
  const block = Math.floor(of[image] / perBlock);
  pictureOf.blocks ??= new Map();
  if (!pictureOf.blocks.has(block)) {
    pictureOf.blocks.set(block, blockOf(`pictures-${block}`).then((text) => text.split("\n")));
  }
  const lines = await pictureOf.blocks.get(block);
  return `data:image/jpeg;base64,${lines[of[image] % perBlock]}`;
}
