"""Zero-shot classification from embeddings: top-1 accuracy in each language, among the classes with a name in it.

Source: Geigle, Timofte, Glavas, "Babel-ImageNet: Massively Multilingual Evaluation of Vision-and-Language
Representations" (ACL 2024). It needs no model: images and class names are given as embeddings.
"""

import dataclasses
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from xmcap import languages as languages_lib
from xmcap import spreadsheet, wording
from xmcap.arguments import checked
from xmcap.digests import of_images, of_texts
from xmcap.errors import UsageError
from xmcap.papers import babel_imagenet_languages
from xmcap.ranked import class_curve, openai_english, ranks, row_order
from xmcap.reading import embedding_files, embedding_rows, jsonl, label_words
from xmcap.reading.embedding_rows import Embeddings
from xmcap.reading.inputs import Input
from xmcap.scoring import metrics
from xmcap.scoring.statistics.sufficient import Statistics
from xmcap.scoring.system import System, make_table
from xmcap.scoring.tables.signature import METRIC
from xmcap.terminal import shown

_MAX_INDEX = 10**6
_FEWEST_CLASSES = 2


@dataclasses.dataclass(frozen=True)
class Labels:
  """The C classes with a name in a language: their ascending indices, int64 [C], and their names."""

  indices: np.ndarray
  names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class ClassScores:
  """Scores of one language by class, in the order of its labels.

  Attributes:
    images: int64 [C], number of images of each class.
    top1: float64 [C], share of correct predictions; NaN for a class without images.
    confused: int64 [C], index of the most frequent wrong prediction for the class; -1 if there is none.
  """

  labels: Labels
  images: np.ndarray
  top1: np.ndarray
  confused: np.ndarray


@dataclasses.dataclass(frozen=True)
class ZeroShot(System):
  """The scores of one model; the means of the table are those of Babel-ImageNet's groups.

  Attributes:
    classes: language code -> scores by class.
    keys: keys of all N images.
    predicted: language code -> int32 [N], index of the predicted class among the labels; -1 for an image whose class
      has no label in the language.
    curves: language code -> top-1 over the number of classes, if it was asked for.
  """

  classes: dict[str, ClassScores]
  keys: tuple[str, ...]
  predicted: dict[str, np.ndarray]
  curves: dict[str, class_curve.ClassCurve]

  def classes_csv(self) -> str:
    """Returns CSV with a row per language and class: index, name, images, top-1, most frequent wrong prediction."""
    rows = []
    for language, scored in self.classes.items():
      names = scored.labels.names
      for place, name in enumerate(names):
        other = names[scored.confused[place]] if scored.confused[place] >= 0 else ""
        top1 = None if np.isnan(scored.top1[place]) else float(scored.top1[place])
        rows.append(
          [language, int(scored.labels.indices[place]), name, int(scored.images[place]), top1, other]
        )
    return spreadsheet.table(["language", "class", "label", "images", "top1", "confused_with"], rows)


@checked
def score_zero_shot(
  images: Embeddings,
  targets: np.ndarray,
  labels: Mapping[str, Labels],
  texts: Mapping[str, embedding_files.Read],
  *,
  similarity: str = "cosine",
  prompts: str = "label",
  fixed_classes: int = 100,
  fixed_draws: int = 10,
  curve_sizes: Sequence[int] = (),
  bootstrap: int = 0,
  seed: int = 0,
  keys: Sequence[str] | None = None,
  title: str = "",
) -> ZeroShot:
  """Classifies images by the names of classes, in each language among the classes with a name in it.

  Args:
    images: [N, D], which may be larger than memory.
    targets: integers [N], the class index of each image.
    labels: language code -> its classes.
    texts: language code -> function that returns the embeddings of the names, [C, D] in the order of the labels, or
      [prompts, C, D], which are averaged.
    similarity: `cosine`, or `dot` for the plain product.
    prompts: description of the prompts, for the signature.
    fixed_classes, fixed_draws: number of classes of the fixed-size variant, and number of draws; 0 classes: without it.
    curve_sizes: ascending numbers of classes for curves, of which a language has those up to its own; (): none.
    bootstrap: number of resamples of the images for 95% intervals.
    seed: seed of the draws and the resamples.
    keys: keys of the images; None: their indices.
    title: title of the table.

  Raises:
    UsageError: the arguments do not match, or as `embedding_rows.prepared` and `ranks.rank`.
  """
  unnamed = keys is None
  keys = [str(number) for number in range(len(images))] if keys is None else list(keys)
  _check(images, targets, keys, labels, texts)
  images = embedding_rows.prepared(images, similarity, "pictures")
  statistics, classes, predicted, curves, tied, doubts = {}, {}, {}, {}, 0, []
  for language in languages_lib.ordered(labels):
    names, where = texts[language](), f"texts of {language}"
    embedding_files.check_width(where, names, "pictures", images)
    of_language = labels[language]
    if names.shape[-2] != len(of_language.names):
      raise UsageError(
        f"{where}: {names.shape[-2]:,} embeddings for {wording.count(len(of_language.names), 'label')}; "
        "embed the labels of this file, in its order"
      )
    names = embedding_rows.prepared(names, similarity, where)
    chosen = np.flatnonzero(np.isin(targets, of_language.indices))
    if not len(chosen):
      raise UsageError(f"'{language}': no picture is of a class with a label; leave out the language")
    place = np.searchsorted(of_language.indices, targets[chosen])
    of_language_rows = embedding_rows.taken(images, chosen)
    ranked = ranks.rank(of_language_rows, names, place, np.ones(len(chosen), np.int64))
    tied += ranked.undecided
    if row_order.is_near_chance([top1 := float(ranked.hits(1).mean())], len(names)):
      doubts.append(f"{language} {top1:.1%} of {len(names):,} classes")
    values = {"top1": ranked.hits(1)[:, None]}
    if fixed_classes:
      draws = _draws(language, len(names), fixed_classes, fixed_draws, seed)
      values["top1_fixed"] = np.zeros((len(chosen), 2))
      for drawn, hits in _drawn_hits(of_language_rows, names, place, draws):
        values["top1_fixed"][drawn] += np.stack([hits, np.ones(len(drawn))], axis=1)
    sizes = tuple(size for size in curve_sizes if size <= len(names))
    if len(sizes) > 1:
      curves[language] = _curve(language, of_language_rows, names, place, sizes, seed)
    of_pictures: list[str] = [keys[number] for number in chosen.tolist()]
    statistics[language] = Statistics.of(of_pictures, values, len(names))
    classes[language] = _by_class(of_language, place, values["top1"][:, 0], ranked.first)
    predicted[language] = np.full(len(keys), -1, np.int32)
    predicted[language][chosen] = ranked.first
  parts = {
    "similarity": similarity,
    "prompts": prompts,
    "languages": " ".join(statistics),
    "images": of_images(keys),
    "targets": of_texts(
      sorted(f"{key}\t{target}" for key, target in zip(keys, targets.tolist(), strict=True))
    ),
    "labels": of_texts(
      f"{language}\t{index}\t{name}"
      for language in statistics
      for index, name in zip(labels[language].indices.tolist(), labels[language].names, strict=True)
    ),
  }
  if fixed_classes:
    signature = metrics.METRICS["top1_fixed"].signature
    parts[f"{METRIC}top1_fixed"] = f"{signature},classes={fixed_classes},draws={fixed_draws},seed={seed}"
  english = labels["en"].names if "en" in labels else ()
  notes = (
    [
      f"top-1 is near chance ({wording.first_few(doubts)}): rows are in another order than the labels, or the "
      "model does "
      "not read the language"
    ]
    if doubts
    else []
  )
  if curve_sizes and not curves:
    raise UsageError("--class_curve: no language has two of these numbers of classes; give smaller ones")
  notes += [
    *class_curve.notes(curves),
    *_shared_names(labels),
    *_alike_names(labels),
    *ranks.ties_note(tied),
    *openai_english.note(english),
    *([ranks.no_keys_note("pictures")] if unnamed else []),
  ]
  table = make_table(statistics, parts, notes, title=title, bootstrap=bootstrap, seed=seed)
  return ZeroShot(table, statistics, classes, tuple(keys), predicted, curves)


def read_labels(
  path: str | os.PathLike,
  languages: Sequence[str] | None = None,
  say: Callable[[str], None] = lambda line: None,
) -> dict[str, Labels]:
  """Reads labels in Babel-ImageNet's layout: {"DE": [[index, ...], [label, ...]], ...}.

  Args:
    path: the file. Languages that are not kept are not checked.
    languages: codes to keep, or `languages.EVERY`. None keeps English and the paper's 100 languages of a file that has
      all of these, such as `babel_imagenet-298.json`, and every language of another file.
    say: takes the line about languages that None leaves out.

  Raises:
    UsageError: the layout is wrong, a language is unknown or repeated, indices are negative, repeated or do not match
      the labels in number, or a label is empty.
  """
  hint = 'write {"DE": [[index, ...], [label, ...]]}'
  lists = jsonl.read_document(path, dict[str, tuple[list[int], list[str]]], "not a file of labels", hint)
  if not lists:
    raise UsageError(f"{path}: has no labels; {hint}")
  codes = {name: languages_lib.of_wikipedia(name) for name in lists}
  paper = babel_imagenet_languages.classes()
  kept = None if languages is None or tuple(languages) == languages_lib.EVERY else set(languages)
  if languages is None and paper.keys() <= set(codes.values()):
    kept = {*paper, "en"}
    if left_out := len(lists) - sum(language in kept for language in codes.values()):
      say(
        f"{path}: {left_out:,} of its {len(lists):,} languages are left out, which are not the paper's 100; name them "
        f"by --languages, or --languages={languages_lib.EVERY[0]}"
      )
  named = {name: classes for name, classes in lists.items() if kept is None or codes[name] in kept}
  labels = languages_lib.by_language(named.items(), path, languages_lib.of_wikipedia)
  labels = {language: _labels(*classes, f"{path}, '{language}'") for language, classes in labels.items()}
  return (
    labels if languages is None or kept is None else languages_lib.choose(labels, languages, path, "labels")
  )


def read_targets(path: str | os.PathLike, of: str = "class") -> np.ndarray:
  """Reads the class of each image, int64 [N], from `.npy` with integers, or text with one index per line.

  Args:
    of: what an index stands for, in messages.

  Raises:
    UsageError: the file cannot be read, or is malformed.
  """
  if str(path).endswith(".npy"):
    values = embedding_files.map_npy(path)
    if values.ndim != 1 or values.dtype.kind not in "iu":
      raise UsageError(
        f"{path}: holds {values.dtype} {list(values.shape)}; targets must be integers, each the index of a {of}"
      )
    if len(values) and not 0 <= int(values.min()) <= int(values.max()) < _MAX_INDEX:
      raise UsageError(f"{path}: an index is out of range; count from 0")
    return values.astype(np.int64)
  indices = []
  with Input(path) as source:
    for number, line in source.lines():
      if not (line.isascii() and line.isdecimal() and len(line) < 7):
        raise UsageError(f"{path}, line {number}: '{shown(line)}' is not a {of} index; write one per line")
      indices.append(int(line))
  return np.array(indices, np.int64)


def _labels(indices: Sequence[int], names: Sequence[str], where: str) -> Labels:
  if len(indices) != len(names):
    raise UsageError(
      f"{where}: {len(indices):,} indices and {wording.count(len(names), 'label')}; give one for each"
    )
  if len(indices) < _FEWEST_CLASSES:
    raise UsageError(
      f"{where}: classification needs at least {_FEWEST_CLASSES} classes, but there are {len(indices)}"
    )
  for index, name in zip(indices, names, strict=True):
    if not 0 <= index < _MAX_INDEX:
      raise UsageError(f"{where}: index {index} is out of range; classes are counted from 0")
    if not name.strip():
      raise UsageError(f"{where}: the label of class {index} is empty; leave the class out")
  if repeated := wording.repeated(indices):
    raise UsageError(f"{where}: index {repeated[0]} is repeated; give each class once")
  if list(indices) != sorted(indices):
    raise UsageError(f"{where}: indices are not ascending; sort them and their embeddings")
  return Labels(np.array(indices, np.int64), tuple(names))


def _check(images, targets, keys, labels, texts) -> None:
  wording.check_counts(len(targets), "target", len(images), "picture")
  wording.check_counts(len(keys), "key", len(images), "picture")
  if len(set(keys)) < len(keys):
    raise UsageError("two pictures have the same key; give each its own")
  embedding_files.check_languages(labels, texts, "labels")
  highest = max(int(classes.indices[-1]) for classes in labels.values())
  if int(targets.max()) > highest:
    raise UsageError(
      f"picture {int(targets.argmax())}: class {int(targets.max())} is out of range; the labels end at {highest}"
    )


def _draws(language: str, count: int, size: int, draws: int, seed: int) -> list[np.ndarray]:
  """Returns draws of random classes, the same on every machine; a single draw of all if there are too few."""
  if count <= size:
    return [np.arange(count)]
  rng = np.random.default_rng((seed, zlib.crc32(language.encode())))
  return [np.sort(rng.choice(count, size, replace=False)) for _ in range(draws)]


def _drawn_hits(
  images: Embeddings, names: Embeddings, place: np.ndarray, draws: Sequence[np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
  """Yields for each draw of classes with images: the images of these classes, and whether each is a hit, both [n]."""
  for drawn in draws:
    chosen = np.flatnonzero(np.isin(place, drawn))
    if len(chosen):
      right = np.searchsorted(drawn, place[chosen])
      images_drawn = embedding_rows.taken(images, chosen)
      ranked = ranks.rank(images_drawn, names[drawn], right, np.ones(len(chosen), np.int64))
      yield chosen, ranked.hits(1)


def _curve(
  language: str, images: Embeddings, names: Embeddings, place: np.ndarray, sizes: tuple[int, ...], seed: int
) -> class_curve.ClassCurve:
  top1 = np.full((len(sizes), class_curve.DRAWS), np.nan)
  for row, size in zip(top1, sizes, strict=True):
    draws = _draws(language, len(names), size, class_curve.DRAWS, seed)
    hits = [float(of_draw.mean()) for _, of_draw in _drawn_hits(images, names, place, draws)]
    if len(hits) < len(draws):
      raise UsageError(
        f"'{language}': {size} random classes have no picture; give pictures of every class, or larger numbers"
      )
    row[:] = hits  # one draw of all classes is that of each
  return class_curve.ClassCurve(sizes, top1)


def _by_class(labels: Labels, place: np.ndarray, hits: np.ndarray, first: np.ndarray) -> ClassScores:
  count = len(labels.names)
  images = np.bincount(place, minlength=count)
  sums = np.bincount(place, hits, minlength=count)
  top1 = np.divide(sums, images, out=np.full(count, np.nan), where=images > 0)
  confused = np.full(count, -1)
  wrong = np.flatnonzero(first != place)
  pairs, counts = np.unique(place[wrong] * count + first[wrong], return_counts=True)
  for pair in pairs[np.argsort(counts, kind="stable")]:  # ascending, so that the most frequent wins
    confused[pair // count] = pair % count
  return ClassScores(labels, images, top1, confused)


def _shared_names(labels: Mapping[str, Labels]) -> list[str]:
  counts = [len(classes.names) - len(set(classes.names)) for classes in labels.values()]
  if not any(counts):
    return []
  num_languages = sum(count > 0 for count in counts)
  return [
    f"{wording.count(sum(counts), 'label')} in {wording.count(num_languages, 'language')} equal that of another "
    "class, so "
    "these classes tie"
  ]


def _alike_names(labels: Mapping[str, Labels]) -> list[str]:
  """Returns the note about names that differ from another class's, but are the same word or differ in case alone."""
  counts = {}
  for language, classes in labels.items():
    forms: dict[str, set[str]] = {}
    for name in classes.names:
      forms.setdefault(label_words.letters(name), set()).add(name)
    if several := sum(len(of_word) for of_word in forms.values() if len(of_word) > 1):
      counts[language] = several
  if not counts:
    return []
  named = ", ".join(f"{language} {count:,}" for language, count in counts.items())
  return [
    f"labels that differ from another class's in case or form alone, so that a model may not tell them: {named}"
  ]
