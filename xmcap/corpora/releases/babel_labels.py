"""Makes the labels of Babel-ImageNet from a table of BabelNet's senses of each class.

The steps are those of Geigle et al. (ACL 2024), or of their code where the two differ: (1) take the senses
of each class in a language; (2) drop lemmas that equal an English lemma of any class, ignoring case; (3) drop
machine-translated ones; (4) of the rest take the first whose source is not a redirect or alias, else the first, with
spaces for `_`; (5) leave out classes without a label.
"""

import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from xmcap.errors import UsageError
from xmcap.reading import label_words
from xmcap.reading.inputs import Input

STEPS = ("senses", "not English", "not machine-translated")
"""The first three steps, after each of which the remaining classes of a language are counted."""

WNID = re.compile(r"n[0-9]{8}")
"""A class of ImageNet, such as n01440764."""

_ENGLISH = "EN"
# English names with added accents, which the authors found by hand in other languages.
_ACCENTED = frozenset({"tricerátops", "planetárium", "sombréro"})
_SECOND_CHOICE = frozenset({"WIKIRED", "WIKIDATA_ALIAS"})
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def read_wnids(path: pathlib.Path) -> list[str]:
  """Reads one wnid per line, in the order of the classes; UsageError names an invalid or repeated line."""
  line_of: dict[str, int] = {}
  with Input(path) as source:
    for number, line in source.lines():
      wnid = line.split()[0]
      if not WNID.fullmatch(wnid) or wnid in line_of:
        raise UsageError(f"{path}, line {number}: not a class such as n01440764, or a repeated one")
      line_of[wnid] = number
  return list(line_of)


class Sense(NamedTuple):
  """A lemma of a synset in a language; `synset` is WordNet's: n01440764, 01440764n or wn:01440764n."""

  language: str
  lemma: str
  source: str
  machine_translated: bool
  synset: str


COLUMNS = Sense._fields


class BabelLabels(NamedTuple):
  """Labels in Babel-ImageNet's layout, and for each language the number of classes left after each of `STEPS`."""

  labels: dict[str, list[list]]
  counts: dict[str, tuple[int, ...]]


def make(senses: Iterable[Sense], wnids: Sequence[str], least: int = 10) -> BabelLabels:
  """Makes the labels of classes; ignores senses of other synsets.

  Args:
    senses: in BabelNet's order, best first.
    wnids: the classes in the order of their indices.
    least: number of classes that a language needs to be kept.

  UsageError if there are no English senses of the classes.
  """
  place = {wnid[1:]: index for index, wnid in enumerate(wnids)}
  by_language: dict[str, dict[int, list[Sense]]] = {}  # languages of one class take little
  for sense in senses:
    index = place.get(_offset(sense.synset))
    if index is not None:
      by_language.setdefault(sense.language.upper(), {}).setdefault(index, []).append(sense)
  if _ENGLISH not in by_language:
    raise UsageError("there are no English senses of these classes, which are needed as the filter: add them")
  english = {
    _word(sense.lemma) for of_class in by_language[_ENGLISH].values() for sense in of_class
  } | _ACCENTED
  labels: dict[str, list[list]] = {}
  counts: dict[str, tuple[int, ...]] = {}
  for language, by_class in by_language.items():
    indices = sorted(by_class)
    classes = [by_class[index] for index in indices]
    own = classes
    if language != _ENGLISH:
      own = [[sense for sense in of_class if _word(sense.lemma) not in english] for of_class in classes]
    human = [[sense for sense in of_class if not sense.machine_translated] for of_class in own]
    counts[language] = tuple(sum(map(bool, step)) for step in (classes, own, human))
    if counts[language][-1] >= least:
      best = {index: _best(of_class) for index, of_class in zip(indices, human, strict=True) if of_class}
      labels[language] = [list(best), list(best.values())]
  return BabelLabels(labels, counts)


def read_senses(path: str | os.PathLike) -> Iterator[Sense]:
  """Reads tab-separated lines with the header `COLUMNS`; UsageError names a malformed line."""
  with Input(path) as source:
    for number, line in source.lines():
      fields = line.split("\t")
      if number == 1:
        if tuple(fields) != COLUMNS:
          raise UsageError(f"{path}, line 1: the header must be {', '.join(COLUMNS)}, separated by tabs")
        continue
      if len(fields) != len(COLUMNS) or fields[3].lower() not in _TRUTHS or not _offset(fields[4]):
        form = f"{', '.join(COLUMNS)}, with machine_translated true or false and a synset such as n01440764"
        raise UsageError(f"{path}, line {number}: must be {form}")
      if fields[1].replace("_", " ").strip():
        yield Sense(fields[0], fields[1], fields[2], _TRUTHS[fields[3].lower()], fields[4])


def captions(labels: Mapping[str, list[list]], wnids: Sequence[str]) -> list[dict[str, str]]:
  """Returns labels as captions of pictures named by wnid, `LABEL = ENGLISH NAME`, for people who check them.

  Args:
    labels: language code -> [indices, labels], with English.
    wnids: the classes in the order of their indices.

  UsageError if English is missing, or an index is beyond the classes.
  """
  if "en" not in labels:
    raise UsageError("--check shows English names beside the labels: add English, such as by --english")
  english = dict(zip(*labels["en"], strict=True))
  rows = []
  for language, (indices, names) in labels.items():
    if beyond := [index for index in indices if index >= len(wnids)]:
      raise UsageError(
        f"'{language}': class {beyond[0]}, but --wnids has only {len(wnids):,}; give all classes"
      )
    if language != "en":
      rows += [
        {
          "image/key": wnids[index],
          "language": language,
          "caption": f"{name} = {english.get(index, wnids[index])}",
        }
        for index, name in zip(indices, names, strict=True)
      ]
  return rows


def summary(counts: Mapping[str, Sequence[int]], kept: Iterable[str]) -> str:
  """Returns lines of text: for each language the number of classes after each step, and whether it is kept."""
  kept = set(kept)
  lines = [f"{'':8}{'  '.join(STEPS)}"]
  for language, steps in sorted(counts.items(), key=lambda item: (-item[1][-1], item[0])):
    numbers = "  ".join(f"{count:>{len(step)},}" for count, step in zip(steps, STEPS, strict=True))
    lines.append(f"{language:8}{numbers}{'' if language in kept else '  left out'}")
  return "\n".join(lines)


def _word(lemma: str) -> str:
  """Returns a lemma as it is compared, in which `_` stands for a space."""
  return label_words.word(lemma.replace("_", " ")).lower()


def _best(senses: Sequence[Sense]) -> str:
  chosen = next((sense for sense in senses if sense.source not in _SECOND_CHOICE), senses[0])
  return chosen.lemma.replace("_", " ").strip()


def _offset(synset: str) -> str:
  """Returns the eight digits of a noun's synset; "" for any other form."""
  digits = synset.removeprefix("wn:").removeprefix("n").removesuffix("n")
  return digits if len(digits) == 8 and digits.isascii() and digits.isdigit() else ""
