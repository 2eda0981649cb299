"""A few images with their captions and references, to watch a run."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from xmcap import grid, markdown
from xmcap import languages as languages_lib
from xmcap.reading.predictions import Predictions
from xmcap.reading.references import ReferenceMapping

PICTURES = LANGUAGES = 8

# Languages of several families and scripts; others follow in the order of their codes.
_FIRST = ("en", "es", "zh", "hi", "ar", "sw", "th", "ru")


def of_predictions(
  predictions: Predictions,
  references: ReferenceMapping,
  languages: Sequence[str],
  pixels: Callable[[str], np.ndarray],
) -> dict[str, Any]:
  """Returns `images`, uint8 [N, H, W, 3], and `texts`, name -> Markdown, with a table of captions for each image.

  At most `PICTURES` images, spread evenly over the split and the same at every evaluation, in at most `LANGUAGES`.
  """
  keys = list(predictions)
  keys = [keys[i * len(keys) // PICTURES] for i in range(PICTURES)] if len(keys) > PICTURES else keys
  shown = chosen(languages, LANGUAGES)
  texts = {
    f"{number}": _table(key, predictions[key], references[key], shown) for number, key in enumerate(keys, 1)
  }
  return {"images": np.stack([pixels(key) for key in keys]), "texts": texts}


def chosen(languages: Collection[str], count: int) -> tuple[str, ...]:
  """Returns the codes of at most `count` languages, of different families and scripts first."""
  first = [language for language in _FIRST if language in languages]
  return (*first, *sorted(set(languages) - set(first)))[:count]


def _table(
  key: str, captions: Mapping[str, str], references: Mapping[str, Sequence[str]], languages: Sequence[str]
) -> str:
  rows = tuple(
    (languages_lib.get(language).english_name, captions[language], " / ".join(references[language]))
    for language in languages
    if language in captions
  )
  table = grid.Grid(("language", "caption", "references"), rows, num_labels=3)
  return f"Picture {markdown.code(key)}\n\n{table.markdown()}"
