"""Embeddings of images and captions by any model, in a folder, for metrics that compare them.

  vectors.json                what made them: {"model": ..., "weights": ..., "preprocessing": ..., "prefix": ...}
  pictures.npy, keys.txt      [N, D], and the N keys of the images, one per line
  predictions/CODE.npy        [M, D] in the language CODE, and beside it CODE.jsonl: M lines of {"caption": ...}
  references/CODE.npy         the same; `xmcap embed` calls this folder `captions`

`xmcap embed` writes it, or any script with `numpy.save`. A caption is found by its text. So the order of the rows does
not matter, equal captions need one row, and captions that were changed after they were embedded are missed.
"""

import os
import pathlib
from collections.abc import Collection, Iterable, Sequence

import msgspec
import numpy as np

from xmcap import languages, wording
from xmcap.errors import UsageError
from xmcap.reading import embedding_files, jsonl
from xmcap.scoring import metrics
from xmcap.scoring.tables.score_table import TablePart
from xmcap.scoring.tables.signature import METRIC
from xmcap.terminal import shown

CARD = "vectors.json"
PREDICTIONS, CAPTIONS = "predictions", "captions"
_FOLDERS = (PREDICTIONS, "references", CAPTIONS)
_CELLS = 1 << 21  # numbers that are compared at once: 16 MiB as float64
_COPIES = 1024  # rows of captions that the files have already, which are compared
_SAME = 0.99  # cosine of two embeddings of a caption; numbers of half the precision give above 0.999
_ALIKE = 1 - 1e-6  # cosine of two captions that the model does not tell apart
_FEW = 10  # distinct captions of a language that may all be alike
_WRITE = '{"model": "CLIP ViT-B/32", "weights": "sha256:...", "preprocessing": "224 px, ..."}'


class Card(msgspec.Struct):
  """What made the vectors of a folder.

  Attributes:
    model: its name, for readers.
    weights: a hash or version of the weights.
    preprocessing: how images and texts were prepared.
    prefix: what was put before every caption, such as CLIPScore's "A photo depicts ".
  """

  model: str
  weights: str
  preprocessing: str
  prefix: str = ""

  @property
  def signature(self) -> str:
    """What decides the vectors, for the signature of a metric."""
    prefix = f",prefix='{self.prefix}'" if self.prefix else ""
    return f"weights={self.weights},preprocessing={self.preprocessing}{prefix}"


class Vectors:
  """A folder of vectors, of which only `card` is read at once.

  Raises:
    UsageError: the folder has no valid `vectors.json`.
  """

  def __init__(self, folder: str | os.PathLike):
    self._folder = pathlib.Path(folder)
    path = self._folder / CARD
    if not path.is_file():
      raise UsageError(f"{path}: no such file; it says what made the vectors: write {_WRITE}")
    self.card = jsonl.read_document(path, Card, "not a description of vectors", f"write {_WRITE}")
    for name in Card.__struct_fields__:
      value = getattr(self.card, name)
      if not value.isprintable() or "|" in value or not (value.strip() or name == "prefix"):
        raise UsageError(f"{path}: '{name}' is '{shown(value)}'; write a short text on one line, without |")

  def cosines(
    self,
    language: str,
    keys: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    compared: Collection[str],
  ) -> metrics.Cosines:
    """Returns the cosines of the hypotheses of I images; empty references are left out.

    The files are mapped and read some rows at a time, so memory does not grow with their size, but for the captions.

    Args:
      language: the code of all captions.
      keys, hypotheses, references: of each image.
      compared: what the hypotheses are compared with, of `images` and `references`.

    Raises:
      UsageError: an image or caption has no vector, or a file is malformed; vectors differ in width, have no length or
        have NaN or infinity; or a caption has two different ones, or all captions have the same.
    """
    filled = [place for place, text in enumerate(hypotheses) if text.strip()]
    kept = [[text for text in references[place] if text.strip()] for place in filled]
    if "references" not in compared:
      kept = [[] for _ in filled]
    cosines = {name: np.zeros(len(keys)) for name in ("image", "largest", "mean")}
    if not filled:
      return metrics.Cosines(**cosines)
    distinct = {hypotheses[place] for place in filled}
    captions = _Captions(self._folder, language, distinct.union(*kept), self.card.model)
    images = _Images(self._folder, keys) if "pictures" in compared else None
    if images is not None:
      embedding_files.check_width(images.where, images.array, captions.where[0], captions.arrays[0])
    for part in _blocks([len(texts) + 2 for texts in kept], captions.width):
      places = np.array(filled[part])
      own = captions.take([hypotheses[place] for place in filled[part]])
      if images is not None:
        cosines["image"][places] = _products(own, images.take([keys[place] for place in filled[part]]))
      counts = np.array([len(texts) for texts in kept[part]])
      if counts.any():
        rows = np.repeat(np.arange(len(own)), counts)
        others = captions.take([text for texts in kept[part] for text in texts])
        of_references = _products(own[rows], others)
        some = np.flatnonzero(counts)
        starts = (np.cumsum(counts) - counts)[some]
        cosines["largest"][places[some]] = np.maximum.reduceat(of_references, starts)
        cosines["mean"][places[some]] = np.add.reduceat(of_references, starts) / counts[some]
    return metrics.Cosines(**cosines)

  def part(self, chosen: Sequence[str], *, zero: bool) -> TablePart:
    """The vectors behind those of the named metrics that compare them.

    `zero` is whether captions in another language score as empty ones; where they do not, a note warns.
    """
    compared = _comparing(chosen)
    notes = [f"vectors of {self.card.model}"]
    if not zero:
      notes.append(
        f"a caption in another language scores about as high in {', '.join(compared)}: read them beside "
        "language fidelity, or score with --wrong_language=zero"
      )
    signature = {
      f"{METRIC}{name}": f"{metrics.CAPTION_METRICS[name].signature},{self.card.signature}"
      for name in compared
    }
    return TablePart(notes, signature)


def _comparing(chosen: Iterable[str]) -> list[str]:
  """Returns those of the named metrics that compare vectors."""
  return [name for name in chosen if metrics.CAPTION_METRICS[name].compares]


def read(
  chosen: Iterable[str], vectors: str | os.PathLike | Vectors | None, *, health: bool, zero: bool
) -> Vectors | None:
  """Returns the vectors that metrics ask for; None if they ask for none.

  Args:
    chosen: names of caption metrics.
    vectors: the folder, or what was made of it; "" or None: there is none.
    health, zero: whether language fidelity is measured, and whether captions in another language score as empty ones.

  Raises:
    UsageError: as `Vectors`; a metric needs vectors and there are none, or the other way round; or a metric that does
      not see the language would stand alone.
  """
  named = _comparing(chosen)
  if named and not vectors:
    raise UsageError(
      f"{named[0]} compares embeddings: give their folder with --vectors=DIR (docs/metrics.md)"
    )
  if vectors and not named:
    names = ", ".join(name for name, metric in metrics.CAPTION_METRICS.items() if metric.compares)
    raise UsageError(f"--vectors: no metric of --metrics compares embeddings; add one of {names}")
  if named and not health and not zero:
    raise UsageError(
      f"{named[0]} does not see the language, so language fidelity must stand beside it: leave --no_health out "
      "(Python: health=True), or give --wrong_language=zero"
    )
  if not vectors:
    return None
  return vectors if isinstance(vectors, Vectors) else Vectors(vectors)


class _Images:
  """The vectors of images."""

  def __init__(self, folder: pathlib.Path, scored_keys: Sequence[str]):
    self.where = str(folder / embedding_files.PICTURES)
    if not (folder / embedding_files.PICTURES).is_file():
      raise UsageError(
        f"{self.where}: no such file, but a metric compares captions with pictures: embed them too"
      )
    keys, self.array = embedding_files.map_images(folder)
    self._place = {key: row for row, key in enumerate(keys)}
    missing = [key for key in scored_keys if key not in self._place]
    if missing:
      raise UsageError(
        f"{self.where}: no vectors of {wording.count(len(missing), 'picture')} ({wording.first_few(missing)}); "
        "embed them"
      )

  def take(self, keys: Sequence[str]) -> np.ndarray:
    """Returns float64 [len(keys), D], of length 1."""
    return _take(self.array, np.array([self._place[key] for key in keys]), self.where)


class _Captions:
  """The vectors of the wanted captions of a language, mapped from one or several files."""

  def __init__(self, folder: pathlib.Path, language: str, texts: Collection[str], model: str):
    self.where: list[str] = []
    self.arrays: list[np.ndarray] = []
    self._place: dict[str, tuple[int, int]] = {}
    for file in filter(None, (_find(folder / name, language) for name in _FOLDERS)):
      self._add(file, texts)
    missing = [text for text in texts if text not in self._place]
    if missing:
      first = wording.first_few([f"'{text}'" for text in sorted(missing)])
      raise UsageError(
        f"{folder}: no vectors of {len(missing):,} of {wording.count(len(texts), 'caption')} in '{language}' "
        f"({first}); "
        f"embed the captions that are scored, with {shown(model)}"
      )
    self._check_unlike(sorted(texts)[:_COPIES], language, model)

  @property
  def width(self) -> int:
    """The numbers of a vector."""
    return self.arrays[0].shape[1]

  def take(self, texts: Sequence[str]) -> np.ndarray:
    """Returns float64 [len(texts), D], of length 1."""
    vectors = np.empty((len(texts), self.width))
    file, row = np.array([self._place[text] for text in texts]).T
    for number, array in enumerate(self.arrays):
      own = np.flatnonzero(file == number)
      if len(own):
        vectors[own] = _take(array, row[own], self.where[number])
    return vectors

  def _add(self, path: pathlib.Path, texts: Collection[str]) -> None:
    array, number, copies, count = embedding_files.map_rows(path), len(self.arrays), [], 0
    lines = path.with_suffix(".jsonl")
    if not lines.is_file():
      raise UsageError(f'{lines}: no such file; write a line {{"caption": ...}} for each row of {path.name}')
    if self.arrays:
      embedding_files.check_width(str(path), array, self.where[0], self.arrays[0])
    self.arrays.append(array)
    self.where.append(str(path))
    for line, row in jsonl.read(lines):
      text = row.get("caption")
      if not isinstance(text, str):
        raise UsageError(f'{lines}, line {line}: must have "caption", the text that the row is of')
      if text in texts:
        if text in self._place:
          copies.append((text, count))
        else:
          self._place[text] = number, count
      count += 1
    if count != len(array):
      rows = wording.count(len(array), "row")
      raise UsageError(
        f"{lines}: {wording.count(count, 'caption')} for {rows} of {path.name}; write one for each"
      )
    self._check_copies(copies[:_COPIES])

  def _check_unlike(self, texts: Sequence[str], language: str, model: str) -> None:
    """Raises UsageError if all captions have the same vector, because the model cannot read them."""
    if len({text.casefold() for text in texts}) > _FEW:
      vectors = self.take(texts)
      if (vectors @ vectors[0]).min() > _ALIKE:
        raise UsageError(
          f"{self.where[0]}: {wording.count(len(texts), 'caption')} in '{language}' have the same vector, so "
          f"{shown(model)} cannot read them; take another model, or leave the language out"
        )

  def _check_copies(self, copies: Sequence[tuple[str, int]]) -> None:
    """Raises UsageError if a caption has two different vectors, because the rows are not those of the lines."""
    if not copies:
      return
    texts, rows = zip(*copies, strict=True)
    cosines = _products(self.take(texts), _take(self.arrays[-1], np.array(rows), self.where[-1]))
    worst = int(cosines.argmin())
    if cosines[worst] < _SAME:
      file, row = self._place[texts[worst]]
      raise UsageError(
        f"{self.where[-1]}, row {rows[worst]}: the vector of '{shown(texts[worst])}' is another one than in "
        f"{self.where[file]}, row {row} (cosine {cosines[worst]:.2f}); write rows and lines in the same order, of one "
        "model"
      )


def _find(folder: pathlib.Path, language: str) -> pathlib.Path | None:
  """Returns the file of a language, by its code or an alias, if there is one; UsageError if there are two."""
  if not folder.is_dir():
    return None
  named = ((file.stem, file) for file in sorted(folder.iterdir()) if file.suffix == ".npy")
  return languages.by_language(named, folder).get(language)


def _take(array: np.ndarray, rows: np.ndarray, where: str) -> np.ndarray:
  """Reads rows in their order in the file, each once."""
  distinct, place = np.unique(rows, return_inverse=True)
  return embedding_files.unit_rows(array, distinct, where)[place.reshape(-1)]


def _products(embeddings: np.ndarray, others: np.ndarray) -> np.ndarray:
  return np.clip(np.einsum("nd,nd->n", embeddings, others), -1, 1)


def _blocks(counts: Sequence[int], width: int) -> Iterable[slice]:
  """Yields slices of images whose `counts` vectors have about `_CELLS` numbers; at least one image each."""
  start = total = 0
  for stop, count in enumerate(counts):
    if total and (total + count) * width > _CELLS:
      yield slice(start, stop)
      start, total = stop, 0
    total += count
  yield slice(start, len(counts))
