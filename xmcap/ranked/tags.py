"""Scores predicted tags against those that people gave: precision, recall and F at k, in each language.

Li et al., "COCO-CN for Cross-Lingual Image Tagging, Captioning and Retrieval" (2019), section IV-B.
"""

import itertools
import numbers
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from xmcap import languages as languages_lib
from xmcap import wording
from xmcap.arguments import checked
from xmcap.digests import of_images, of_texts
from xmcap.errors import UsageError
from xmcap.reading import captions, label_words
from xmcap.reading.tag_files import Scores
from xmcap.scoring.metrics.tags import DEPTHS
from xmcap.scoring.statistics.sufficient import Statistics, image_keys
from xmcap.scoring.system import System, make_table
from xmcap.terminal import shown


@checked
def score_tags(
  references: Mapping[str, Mapping[str, Collection[str]]],
  predictions: Scores,
  depths: Sequence[int] = (5,),
  *,
  vocabulary: Collection[str] | None = None,
  bootstrap: int = 0,
  seed: int = 0,
  title: str = "",
) -> System:
  """Scores predicted tags against the true ones.

  Images without a true tag are left out, as no tag can be right there; a note gives their number. Tags are compared
  as words, see `label_words.word`.

  Args:
    references: language code -> image key -> the true tags.
    predictions: language code -> image key -> tag -> score; languages without references are ignored.
    depths: values of k, from `DEPTHS`.
    vocabulary: the known tags; None: any tag.
    bootstrap, seed, title: as for `score_zero_shot`.

  Raises:
    UsageError: predictions are missing or have no references, an image has fewer than k of them, a tag is not in the
      vocabulary, or no image of a language has a true tag.
  """
  unknown = [k for k in depths if k not in DEPTHS]
  if unknown or not depths:
    raise UsageError(f"k={unknown}: choose of {', '.join(map(str, DEPTHS))}")
  form = "{language code: {image key: tags}}, such as {'en': {'7': ...}}"
  names = captions.plain_language, captions.plain_key
  references = captions.nested("references", references, form, *names, _tags)
  predictions = captions.nested("predictions", predictions, form, *names, _scored_tags)
  vocabulary = None if vocabulary is None else frozenset(map(label_words.word, vocabulary))
  statistics, left_out, alike = {}, {}, {}
  for language in languages_lib.ordered(references):
    truth = references[language]
    predicted = predictions.get(language, {})
    _check(language, truth, predicted, max(depths), vocabulary)
    own, theirs = (frozenset(itertools.chain.from_iterable(tags.values())) for tags in (truth, predicted))
    alike[language] = label_words.alike(theirs, own)
    keys = sorted(key for key in truth if truth[key])
    if not keys:
      raise UsageError(f"'{language}': no picture has a true tag; leave the language out")
    left_out[language] = len(truth) - len(keys)
    values: dict[str, np.ndarray] = {}
    for k in depths:
      hits = np.array([_hits(truth[key], predicted[key], k) for key in keys])
      true = np.array([len(set(truth[key])) for key in keys], np.float64)
      values |= {
        f"tags_p{k}": hits[:, None] / k,
        f"tags_r{k}": (hits / true)[:, None],
        f"tags_f{k}": (2 * hits / (k + true))[:, None],
      }
    statistics[language] = Statistics(tuple(keys), values, sum(len(set(truth[key])) for key in keys))
  described = sorted(
    "\t".join([language, key, *sorted(set(tags))])
    for language, of_language in references.items()
    for key, tags in of_language.items()
  )
  parts = {
    "tags": of_texts(described),
    "without_tags": "left_out",
    "vocabulary": "any" if vocabulary is None else of_texts(sorted(vocabulary)),
    "languages": " ".join(statistics),
    "images": of_images(image_keys(statistics)),
  }
  without = ", ".join(f"{language} {count:,}" for language, count in left_out.items() if count)
  notes = [f"pictures without a true tag are left out: {without}"] if without else []
  notes += label_words.note("predicted tags", "true ones", alike)
  table = make_table(statistics, parts, notes, title=title, bootstrap=bootstrap, seed=seed)
  return System(table, statistics)


def _tags(value: Any) -> list[str]:
  if not isinstance(value, Collection) or isinstance(value, str | bytes):
    raise captions.Wrong(f"{shown(repr(value))} must be a list of tags")
  if not all(isinstance(tag, str) for tag in value):
    raise captions.Wrong(f"{shown(repr(value))} must be a list of strings")
  return label_words.words(value)


def _scored_tags(value: Any) -> dict[str, float]:
  is_scored = isinstance(value, Mapping) and all(isinstance(score, numbers.Real) for score in value.values())
  if not is_scored or not all(isinstance(tag, str) for tag in value):
    raise captions.Wrong(f"{shown(repr(value))} must be {{tag: score}}")
  scores: dict[str, float] = {}
  for tag, score in value.items():
    name = label_words.word(tag)
    scores[name] = max(float(score), scores.get(name, float(score)))
  return scores


def _hits(truth: Collection[str], predicted: Mapping[str, float], k: int) -> float:
  """Returns the number of true tags among the first k, its expected value if tags tie at the k-th place."""
  last = sorted(predicted.values(), reverse=True)[k - 1]
  true = [predicted[tag] for tag in set(truth) if tag in predicted]
  above = sum(score > last for score in predicted.values())
  level = sum(score == last for score in predicted.values())
  return sum(score > last for score in true) + (k - above) * sum(score == last for score in true) / level


def _check(
  language: str,
  truth: Mapping[str, Collection[str]],
  predicted: Mapping[str, Mapping[str, float]],
  k: int,
  vocabulary: Collection[str] | None,
) -> None:
  missing = [key for key in truth if truth[key] and key not in predicted]
  if missing:
    raise UsageError(
      f"'{language}': {wording.count(len(missing), 'picture')} of {len(truth):,} without predicted tags "
      f"({wording.first_few(missing)}); predict them, or leave the language out"
    )
  extra = [key for key in predicted if key not in truth]
  if extra:
    raise UsageError(
      f"'{language}': {wording.count(len(extra), 'predicted picture')} without a line in the references "
      f"({wording.first_few(extra)}); remove them"
    )
  if vocabulary is not None and len(vocabulary) < k:
    raise UsageError(
      f"P@{k} needs {k} tags or more, and the vocabulary has {len(vocabulary)}; choose smaller --k"
    )
  for of, tags in (("predicted", predicted), ("true", truth)):
    for key, of_image in tags.items():
      if of == "predicted" and truth[key] and len(of_image) < k:
        raise UsageError(
          f"'{language}', image '{shown(key)}': {wording.count(len(of_image), 'predicted tag')}, and P@{k} needs "
          f"{k}; predict more, or choose fewer by --k"
        )
      unknown = [] if vocabulary is None else [tag for tag in of_image if tag not in vocabulary]
      if unknown:
        raise UsageError(
          f"'{language}', image '{shown(key)}': the {of} tag '{shown(unknown[0])}' is none of --labels; add or remove "
          f"it{wording.did_you_mean(unknown[0], vocabulary or ())}"
        )
