"""Scores parallel lists of captions, as in other packages' scorers."""

from collections.abc import Mapping, Sequence
from typing import Any

from xmcap import languages
from xmcap.arguments import checked
from xmcap.errors import UsageError
from xmcap.scoring.result import Result
from xmcap.scoring.score import score as score_by_key
from xmcap.terminal import shown


@checked
def score(
  references: Mapping[str, Sequence[Sequence[str] | str]], predictions: Mapping[str, Sequence[str]], **options: Any
) -> Result:  # fmt: skip
  """Scores lists of captions: `score({"en": [["a dog", "the dog"]]}, {"en": ["a dog"]}).table.rows["en"]["cider"]`.

  Args:
    references: language code -> for each image its reference captions; a string stands for one reference.
    predictions: language code -> for each image its caption, in the same order.
    options: options of `xmcap.scoring.score`, which scores captions by image key.

  Raises:
    UsageError: the languages or the lengths differ, or a caption is not a string; the message says where.
  """
  for name, lists in (("references", references), ("predictions", predictions)):
    if not isinstance(lists, Mapping) or not lists:
      raise UsageError(f"{name}: {shown(repr(lists))} must be a dictionary, language code -> captions")
    for language, captions in lists.items():
      if not isinstance(language, str):
        raise UsageError(
          f"{name}: {shown(repr(language))} is no language code: give {{'en': [...]}}, one item per picture; of "
          "pycocoevalcap's {id: [captions]} that is {'en': list(gts.values())}"
        )
      languages.check(language, name)
      if not isinstance(captions, Sequence) or isinstance(captions, str):
        raise UsageError(
          f"{name}[{language!r}]: {shown(repr(captions))} must be a list, one item per picture"
        )
  for language in [*references, *predictions]:
    if language not in references or language not in predictions:
      raise UsageError(
        f"only the {'references' if language in references else 'predictions'} have '{language}': give both"
      )
    if len(references[language]) != len(predictions[language]):
      raise UsageError(
        f"'{language}': references for {len(references[language]):,} pictures, but {len(predictions[language]):,} "
        "predictions: give one prediction for each picture, in the same order"
      )
  keyed_references = _by_key(references)
  for of_image in keyed_references.values():
    of_image.update({language: [texts] for language, texts in of_image.items() if isinstance(texts, str)})
  return score_by_key(keyed_references, _by_key(predictions), **options)


def _by_key(lists: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
  """Returns image key -> language code -> item; the keys sort by index, so statistics keep the given order."""
  by_key: dict[str, dict[str, Any]] = {}
  for language, items in lists.items():
    for place, item in enumerate(items):
      by_key.setdefault(f"{place:09}", {})[language] = item
  return by_key
