"""Word segmenters for the languages that write no spaces, loaded when they are first needed."""

import contextlib
import dataclasses
import importlib.metadata
import operator
import os
import sys
import warnings
from collections.abc import Callable, Iterator

from xmcap.errors import XmcapError

Segment = Callable[[str], list[str]]


@dataclasses.dataclass(frozen=True)
class Segmenter:
  """How the words of a language are found.

  Attributes:
    load: returns the function that splits a normalised text.
    packages: the packages whose versions decide about the words.
    mode: the algorithm, where a package has several.
  """

  load: Callable[[], Segment]
  packages: tuple[str, ...]
  mode: str = ""


def load(language: str) -> Segment:
  """Returns the function that finds the words of a language (a second or less; keep it).

  Raises:
    XmcapError: a package of the segmenter is not installed, or does not load.
  """
  segmenter = SEGMENTERS[language]
  try:
    return segmenter.load()
  except (ImportError, OSError, RuntimeError) as error:
    raise XmcapError(
      f"the word segmenter for '{language}' does not load ({' '.join(str(error).split())}); "
      f"pip install {' '.join(segmenter.packages)}"
    ) from error


def version(language: str) -> str:
  """Returns a language's segmenter with the versions of its packages, such as `pythainlp-5.4.0-newmm`.

  Raises:
    XmcapError: one of the packages is not installed.
  """
  segmenter = SEGMENTERS[language]
  try:
    packages = "+".join(f"{package}-{importlib.metadata.version(package)}" for package in segmenter.packages)
  except importlib.metadata.PackageNotFoundError as error:
    raise XmcapError(
      f"the word segmenter for '{language}' is not installed; pip install {' '.join(segmenter.packages)}"
    ) from error
  return f"{packages}-{segmenter.mode}" if segmenter.mode else packages


def _chinese() -> Segment:
  """jieba in its default (accurate) mode with its own dictionary and HMM."""
  with warnings.catch_warnings(), _without("pkg_resources"):
    warnings.simplefilter("ignore")
    import jieba

  tokenizer = jieba.Tokenizer()
  # Its `initialize` would unmarshal a cache from the shared temporary folder, where anybody can put one.
  with tokenizer.get_dict_file() as file:
    dictionary = _Dictionary(file.read().decode("utf-8"))
  tokenizer.FREQ, tokenizer.total = dictionary.frequencies, dictionary.total
  tokenizer.initialized = True

  def segment(text: str) -> list[str]:
    dictionary.meet(text)
    return [word for word in tokenizer.cut(text) if not word.isspace()]

  return segment


@contextlib.contextmanager
def _without(module: str) -> Iterator[None]:
  """Hides a module that has not been imported: jieba does without this one, which takes longer to import than it."""
  hidden = module not in sys.modules
  if hidden:
    sys.modules[module] = None
  try:
    yield
  finally:
    if hidden:
      del sys.modules[module]


class _Dictionary:
  """What jieba's `gen_pfdict` makes, but of those words only that can stand in a text that was met.

  A word can only stand where its first two characters do, and most never do: that saves half of the loading.

  Attributes:
    frequencies: prefix of a word -> its frequency; 0 if it is no word itself.
    total: sum of the frequencies of all words, met or not.
  """

  def __init__(self, text: str):
    """Reads lines `word frequency tag`."""
    fields = text.split()
    words, frequencies = fields[::3], list(map(int, fields[1::3]))
    self.total = sum(frequencies)
    self.frequencies: dict[str, int] = {}
    self._unmet: dict[str, list[tuple[str, int]]] = {}
    heads = map(operator.itemgetter(slice(2)), words)
    for head, entry in zip(heads, zip(words, frequencies, strict=True), strict=True):
      self._unmet.setdefault(head, []).append(entry)

  def meet(self, text: str) -> None:
    """Adds the words that may stand in a text."""
    for head in {*text, *map(operator.add, text, text[1:])}:
      for word, frequency in self._unmet.pop(head, ()):
        for length in range(1, len(word)):
          self.frequencies.setdefault(word[:length], 0)
        self.frequencies[word] = frequency


def _japanese() -> Segment:
  """MeCab through fugashi; the dictionary is named, since fugashi would take another if it found one."""
  import fugashi
  import unidic_lite

  tagger = fugashi.Tagger(f'-r "{unidic_lite.DICDIR}/mecabrc" -d "{unidic_lite.DICDIR}" -Owakati')
  return lambda text: tagger.parse(text).split()


def _thai() -> Segment:
  """pythainlp's newmm: dictionary-based maximal matching along Thai character clusters."""
  # Else it makes a folder in the user's home, which a worker may not have. The two names exclude each other.
  if "PYTHAINLP_READ_MODE" not in os.environ:
    os.environ.setdefault("PYTHAINLP_READ_ONLY", "1")
  from pythainlp.tokenize import newmm, word_dict_trie

  words = word_dict_trie()
  # Piece by piece: its search space grows with the length of an ambiguous text.
  return lambda text: [word for piece in text.split() for word in newmm.segment(piece, words)]


SEGMENTERS: dict[str, Segmenter] = {
  "ja": Segmenter(_japanese, ("fugashi", "unidic-lite")),
  "th": Segmenter(_thai, ("pythainlp",), "newmm"),
  "zh": Segmenter(_chinese, ("jieba",)),
}
"""By language code: those of `xmcap.languages` that write no spaces."""
