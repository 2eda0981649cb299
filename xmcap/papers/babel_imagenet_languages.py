"""The 100 languages of the Babel-ImageNet paper and its four groups of them (Geigle et al., ACL 2024, Table 5)."""

import functools
from collections.abc import Collection, Mapping

from xmcap import languages, papers

GROUPS = {
  "v-low": "1 to 100 classes",
  "low": "101 to 333 classes",
  "mid": "334 to 666 classes",
  "high": "over 666 classes",
}
"""The paper's names of its groups of languages -> names of their means in a table."""

_DISTILLED = {
  "M-CLIP": "af sq am ar az bn bs bg ca zh hr cs da nl et fr de el hi hu is id it ja mk ml mr pl pt ro ru sr sl es sw "
  "sv tl te tr tk uk ur ug uz vi xh",
  "AltCLIP": "en zh es fr ru ar ja ko it",
}


def distilled(model: str) -> frozenset[str]:
  """Returns the printed codes of the languages that the text tower of M-CLIP or AltCLIP was distilled in.

  Source: for M-CLIP, translation/data/fine_tune_languages.csv of FreddeFrallan/Multilingual-CLIP, without English, into
  which nothing is translated, and with Chinese once, of its two scripts; for AltCLIP, the nine languages of its name.
  """
  return frozenset(_DISTILLED[model].split())


@functools.cache
def classes() -> dict[str, int]:
  """Returns code -> number of classes with a label, of the 100 languages; English is not among them."""
  return {language: count for language, (count, _) in _rows().items()}


@functools.cache
def groups() -> dict[str, tuple[str, ...]]:
  """Returns the paper's name of a group -> codes of its languages."""
  return {
    name: tuple(language for language, (_, group) in _rows().items() if group == name) for name in GROUPS
  }


def is_paper(counts: Mapping[str, float]) -> bool:
  """Whether code -> number of classes is that of the paper's labels, in those of its languages that are there."""
  own = {language: count for language, count in classes().items() if language in counts}
  return bool(own) and all(counts[language] == count for language, count in own.items())


def difference(codes: Collection[str]) -> str:
  """Returns which of the 100 languages a file of these lacks, and which it has beyond them and English; "" if none.

  Of a file that lacks most of them, those that it has are named.
  """
  has = [language for language in classes() if language in codes]
  missing = [language for language in classes() if language not in codes]
  beyond = [code for code in codes if code not in classes() and code != "en"]
  parts = []
  if len(missing) > len(has):
    parts.append(f"there are only {len(has)} ({', '.join(has)})" if has else "there is none")
  elif missing:
    parts.append(f"{len(missing)} are missing ({', '.join(missing)})")
  if beyond:
    parts.append(f"not among them: {', '.join(beyond)}")
  return f"of the paper's 100 languages {'; '.join(parts)}" if parts else ""


@functools.cache
def _rows() -> dict[str, tuple[int, str]]:
  return {
    languages.canonical(row["lang"]) or row["lang"]: (int(row["num_classes"]), row["group"])
    for row in papers.read("babel_imagenet_table5_languages")
  }
