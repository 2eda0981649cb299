"""Retrieval scores of embeddings: R@k, MRR, nDCG@10 and median rank of text to image and image to text, by language.

As in Babel-ImageNet (Geigle et al., ACL 2024): text to image averages over all captions of a language. Image
to text averages over images; it is a hit if any caption of the image is among the first k. The candidates are the
images with a caption in the language, and their captions.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from xmcap import languages as languages_lib
from xmcap import wording
from xmcap.arguments import checked
from xmcap.digests import of_images, of_texts
from xmcap.errors import UsageError
from xmcap.ranked import ranks, row_order
from xmcap.reading import embedding_files, embedding_rows, jsonl, layouts
from xmcap.reading.embedding_rows import Embeddings
from xmcap.reading.inputs import Input
from xmcap.reading.references import read_references
from xmcap.scoring.metrics.ranked import DEPTHS
from xmcap.scoring.statistics.sufficient import Statistics
from xmcap.scoring.system import System, make_table

_Pairs = list[tuple[int, str]]  # index of the image, caption


class _PairsFile(msgspec.Struct):
  images: list[str | int]
  captions: dict[str, list[list[str]]]


@dataclasses.dataclass(frozen=True)
class CaptionRows:
  """The captions of a language, in the order of their embeddings.

  Attributes:
    images: int64 [T], the index of each caption's image among all images.
    texts: the captions.
    written: int64 [T], the place of each caption in the file, for one that does not go image by image.
  """

  images: np.ndarray
  texts: tuple[str, ...]
  written: np.ndarray | None = None


@checked
def score_retrieval(
  images: Embeddings,
  keys: Sequence[str],
  captions: Mapping[str, CaptionRows],
  texts: Mapping[str, embedding_files.Read],
  depths: Sequence[int] = DEPTHS,
  *,
  similarity: str = "cosine",
  per_image: str = "all",
  is_ordered: bool = False,
  bootstrap: int = 0,
  seed: int = 0,
  title: str = "",
) -> System:
  """Scores images and captions against each other.

  Args:
    images: [N, D]; a copy of those of a language is kept as float32.
    keys: keys of the images.
    captions: language code -> its captions.
    texts: language code -> function that returns their embeddings, [T, D], of which a copy is kept as float32.
    depths: values of k, from `DEPTHS`.
    per_image: the captions of an image that count, `all` or the `first` in each language; `texts` are of all.
    is_ordered: whether the rows are sure to be in order, so that R@1 near chance needs no note.
    similarity, bootstrap, seed, title: as for `score_zero_shot`.

  Raises:
    UsageError: the arguments do not match, there are fewer candidates than k, or as `embedding_rows.prepared` and
      `ranks.rank`.
  """
  if len(images.shape) != 2 or not depths:
    raise UsageError(
      f"pictures: shape {list(images.shape)}, depths: {depths}; give embeddings [N, D] and depths"
    )
  wording.check_counts(len(images), "embedding", len(keys), "picture")
  embedding_files.check_languages(captions, texts, "captions")
  images = embedding_rows.prepared(images, similarity, "pictures")
  statistics, tied = {}, 0
  counted: dict[str, CaptionRows] = {}
  doubts: dict[str, list[str]] = {}
  for language in languages_lib.ordered(captions):
    embedded = texts[language]()
    where = f"texts of {language}"
    embedding_files.check_width(where, embedded, "pictures", images)
    own = captions[language]
    if len(embedded.shape) != 2 or len(embedded) != len(own.texts):
      raise UsageError(
        f"{where}: shape {list(embedded.shape)} for {wording.count(len(own.texts), 'caption')}; embed the captions of "
        "the file, in its order"
      )
    whole = embedded = embedding_rows.prepared(embedded, similarity, where)
    if per_image == "first":
      chosen = np.unique(own.images, return_index=True)[1]
      embedded, own = (
        embedding_rows.taken(embedded, chosen),
        CaptionRows(own.images[chosen], tuple(own.texts[i] for i in chosen.tolist())),
      )
    counted[language] = own
    statistics[language], ranked = _of_language(language, images, keys, own.images, embedded, depths)
    shares = [float(of_direction.hits(1).mean()) for of_direction in ranked.values()]
    if not is_ordered and row_order.is_near_chance(shares, len(statistics[language].keys)):
      order, better = _better_order(images, captions[language], whole)
      said = (
        f"{shares[0]:.1%}, and {better:.1%} in that order" if order else f"{shares[0]:.1%}, {shares[1]:.1%}"
      )
      doubts.setdefault(order, []).append(f"{language} {said}")
    tied += sum(of_direction.undecided for of_direction in ranked.values())
  parts = {
    "similarity": similarity,
    "languages": " ".join(statistics),
    "images": of_images(keys),
    "captions": of_texts(
      sorted(
        f"{language}\t{keys[image]}\t{text}"
        for language in statistics
        for image, text in zip(counted[language].images.tolist(), counted[language].texts, strict=True)
      )
    ),
    "captions_per_image": per_image,
    "candidates": "language",
  }
  notes = row_order.notes(doubts) + ranks.ties_note(tied)
  if empty := [
    f"{language} {count:,}"
    for language, of_language in counted.items()
    if (count := sum(not text.strip() for text in of_language.texts))
  ]:
    notes.append(f"captions that are empty, and count as texts without words: {', '.join(empty)}")
  table = make_table(statistics, parts, notes, title=title, bootstrap=bootstrap, seed=seed)
  return System(table, statistics)


def read_captions(
  path: str | os.PathLike, languages: Sequence[str] | None = None, language: str | None = None
) -> tuple[tuple[str, ...], dict[str, CaptionRows]]:
  """Reads captions and the keys of their images, in the order of the file.

  Args:
    path: references as for `xmcap score`, or {"images": [...], "captions": {CODE: [[caption, ...], ...]}}.
    languages: codes to keep; None keeps all.
    language: code of captions that come without one.

  Returns:
    The keys of the images in the order of the file, which must be the order of their embeddings; and by language the
    captions, image after image.

  Raises:
    UsageError: the file cannot be read, is malformed, or lacks a language.
  """
  content = None
  if str(path).endswith(".json"):
    with Input(path) as source:
      content = source.document()
  is_pairs = isinstance(content, dict) and "captions" in content
  keys, by_language = _pairs(path, content) if is_pairs else _references(path, language)
  if not any(by_language.values()):
    raise UsageError(f"{path}: contains no captions")
  captions = {}
  for code, pairs in languages_lib.choose(by_language, languages, path, "captions").items():
    images = np.array([image for image, _ in pairs], np.int64)
    written = _written(content, keys, images) if not is_pairs else None
    captions[code] = CaptionRows(images, tuple(text for _, text in pairs), written)
  return keys, captions


def _written(content: Any, keys: Sequence[str], images: np.ndarray) -> np.ndarray | None:
  """Returns the place of each caption in COCO's annotations; None if that is its place here, or is not known."""
  if not isinstance(content, dict) or not isinstance(annotations := content.get("annotations"), list):
    return None
  place = {key: number for number, key in enumerate(keys)}
  of_rows = [place.get(layouts.id_of(row, "image_id", ""), -1) for row in annotations]
  order = np.argsort(of_rows, kind="stable")
  is_known = np.array_equal(np.take(of_rows, order), images)
  return order if is_known and (order != np.arange(len(order))).any() else None


def _better_order(images: Embeddings, captions: CaptionRows, texts: Embeddings) -> tuple[str, float]:
  """Returns the order in which R@1 text to image is not near chance, and it; "" if no usual one is."""
  used, place = np.unique(captions.images, return_inverse=True)
  candidates, one = embedding_rows.taken(images, used), np.ones(len(captions.images), np.int64)
  for name, rows in row_order.others(captions.images, captions.written):
    ranked = ranks.rank(embedding_rows.taken(texts, rows), candidates, place.reshape(-1), one)
    share = float(ranked.hits(1).mean())
    if not row_order.is_near_chance([share / 2], len(used)):
      return name, share
  return "", 0.0


def _of_language(
  language: str,
  pictures: Embeddings,
  keys: Sequence[str],
  images: np.ndarray,
  texts: Embeddings,
  depths: Sequence[int],
) -> tuple[Statistics, dict[str, ranks.Ranks]]:
  """Returns the statistics of a language, and the ranks of its queries in both directions."""
  used, place, counts = np.unique(images, return_inverse=True, return_counts=True)
  place = place.reshape(-1)
  if len(used) < max(depths):
    raise UsageError(
      f"'{language}': R@{max(depths)} needs at least {max(depths)} candidates, but there are only "
      f"{wording.count(len(used), 'picture')}; choose smaller --k"
    )
  pictures = embedding_rows.taken(pictures, used)
  to_picture = ranks.rank(texts, pictures, place, np.ones(len(texts), np.int64))
  to_text = ranks.rank(pictures, texts, np.argsort(place, kind="stable"), counts)
  of_pictures = [str(keys[number]) for number in used.tolist()]

  def of_captions(scores: np.ndarray) -> np.ndarray:
    return np.stack([np.bincount(place, scores, minlength=len(used)), counts], axis=1)

  values = {f"t2i_r{k}": of_captions(to_picture.hits(k)) for k in depths}
  values["t2i_mrr"] = of_captions(to_picture.reciprocals())
  values["t2i_ndcg"] = of_captions(to_picture.ndcg)
  values |= {f"i2t_r{k}": to_text.hits(k)[:, None] for k in depths}
  values["i2t_mrr"] = to_text.reciprocals()[:, None]
  values["i2t_ndcg"] = to_text.ndcg[:, None]
  ranked = {"t2i": to_picture, "i2t": to_text}
  medians = {
    f"{direction}_median_rank": float(np.median(of_direction.expected()))
    for direction, of_direction in ranked.items()
  }
  return Statistics.of(of_pictures, values, len(texts), medians), ranked


def _references(path: str | os.PathLike, language: str | None) -> tuple[tuple[str, ...], dict[str, _Pairs]]:
  references = read_references(path, None, language)
  by_language: dict[str, _Pairs] = {}
  for image, of_image in enumerate(references.values()):
    for code, texts in of_image.items():
      by_language.setdefault(code, []).extend((image, text) for text in texts)
  return tuple(references), by_language


def _pairs(path: str | os.PathLike, content: object) -> tuple[tuple[str, ...], dict[str, _Pairs]]:
  hint = 'write {"images": [...], "captions": {"de": [[...], ...]}}'
  file = jsonl.convert(content, _PairsFile, path, "not a file of captions", hint)
  keys = tuple(map(str, file.images))
  if len(set(keys)) < len(keys):
    raise UsageError(f"{path}: an image key occurs twice; give each image its own key")
  for name, lists in file.captions.items():
    if len(lists) != len(keys):
      raise UsageError(
        f"{path}, '{name}': {len(lists):,} lists of captions for {wording.count(len(keys), 'image')}; give one for each"
      )
  by_language = languages_lib.by_language(file.captions.items(), path)
  return keys, {
    language: [(image, text) for image, texts in enumerate(lists) for text in texts]
    for language, lists in by_language.items()
  }
