"""Word segmenters for languages without spaces, loaded on first use."""

import dataclasses
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from xmcap.errors import XmcapError

Segment = Callable[[Sequence[str]], list[list[str]]]
"""Splits normalised texts into words; pass all texts at once, because the first call loads only the words it needs."""

MAX_RUN = 1000
"""Longest run of characters without a space or punctuation in Japanese and Thai; longer runs are split."""

_LONG_RUN = re.compile(rf"\S{{{MAX_RUN}}}(?=\S)")


@dataclasses.dataclass(frozen=True)
class Segmenter:
  """The segmenter of a language.

  Attributes:
    load: returns the function that splits texts.
    packages: the packages whose versions determine the words.
    mode: the algorithm, if a package has several, and the limit of a run.
  """

  load: Callable[[], Segment]
  packages: tuple[str, ...]
  mode: str = ""


def load(language: str) -> Segment:
  """Returns the function that splits texts of a language; it takes up to a second, so keep the result.

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
  import importlib.metadata  # slow to import, and few languages need it

  segmenter = SEGMENTERS[language]
  try:
    packages = "+".join(f"{package}-{importlib.metadata.version(package)}" for package in segmenter.packages)
  except importlib.metadata.PackageNotFoundError as error:
    raise XmcapError(
      f"the word segmenter for '{language}' is not installed; pip install {' '.join(segmenter.packages)}"
    ) from error
  return f"{packages}-{segmenter.mode}" if segmenter.mode else packages


class _Lexicon:
  """The words of a dictionary, loaded as texts need them, which saves most of the loading time.

  The first call gives the words whose first characters occur in its texts, the second call all words.
  """

  _BITS = 22

  def __init__(self, words: Sequence[str], head: int):
    """Takes the words, and the number of leading characters to compare; shorter words always count as needed."""
    self._words, self._head = words, head
    self._is_first = True

  def needed(self, texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yields (index, word) for words that may occur in the texts; a word may be yielded twice."""
    if not any(texts):
      return
    if not self._is_first:
      yield from enumerate(self._words)
      self._words = ()
      return
    self._is_first = False
    code_points = np.frombuffer("\n".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    count = max(0, len(code_points) - self._head + 1)
    found = np.zeros(1 << self._BITS, np.bool_)
    found[self._hashes([code_points[start : start + count] for start in range(self._head)])] = True
    heads = np.array(self._words, f"U{self._head}").view(np.uint32).reshape(-1, self._head)
    is_short = heads[:, -1] == 0
    for index in np.flatnonzero(found[self._hashes(heads.T)] | is_short).tolist():
      yield index, self._words[index]

  def _hashes(self, characters: Iterable[np.ndarray]) -> np.ndarray:
    hashes = np.zeros((), np.uint32)
    for code_points in characters:
      hashes = (hashes + code_points) * np.uint32(0x9E3779B1)
    return hashes >> np.uint32(32 - self._BITS)


def _chinese() -> Segment:
  """Jieba in its default (accurate) mode with its own dictionary and HMM."""
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jieba

  tokenizer = jieba.Tokenizer()
  # jieba's `initialize` would unmarshal a cache from the shared temporary folder, where anyone can put one.
  with tokenizer.get_dict_file() as file:
    fields = file.read().decode("utf-8").split()  # lines `word frequency tag`
  frequencies = fields[1::3]
  lexicon = _Lexicon(fields[::3], 2)
  tokenizer.FREQ, tokenizer.total = {}, sum(map(int, frequencies))
  tokenizer.initialized = True

  def segment(texts: Sequence[str]) -> list[list[str]]:
    for index, word in lexicon.needed(texts):
      for length in range(1, len(word)):
        tokenizer.FREQ.setdefault(word[:length], 0)  # a prefix that is not itself a word
      tokenizer.FREQ[word] = int(frequencies[index])
    return [[word for word in tokenizer.cut(text) if not word.isspace()] for text in texts]

  return segment


def _japanese() -> Segment:
  """MeCab through fugashi; the dictionary is explicit, because fugashi would prefer another if installed."""
  import unidic_lite
  from fugashi import Tagger  # pyright: ignore[reportAttributeAccessIssue]  # compiled, without type hints

  tagger = Tagger(f'-r "{unidic_lite.DICDIR}/mecabrc" -d "{unidic_lite.DICDIR}" -Owakati')
  return lambda texts: [tagger.parse(_bounded(text)).split() for text in texts]


def _thai() -> Segment:
  """Pythainlp's newmm: dictionary-based maximal matching along Thai character clusters."""
  # Otherwise pythainlp makes a folder in the user's home, which a worker may not have. The two names are exclusive.
  if "PYTHAINLP_READ_MODE" not in os.environ:
    os.environ.setdefault("PYTHAINLP_READ_ONLY", "1")
  from pythainlp.corpus import thai_words
  from pythainlp.tokenize import newmm
  from pythainlp.util import Trie

  lexicon, trie = _Lexicon(sorted(thai_words()), 4), Trie([])

  def segment(texts: Sequence[str]) -> list[list[str]]:
    for _, word in lexicon.needed(texts):
      trie.add(word)
    # Piece by piece, because newmm's search space grows with the length of an ambiguous text.
    return [
      [word for piece in _bounded(text).split() for word in newmm.segment(piece, trie)] for text in texts
    ]

  return segment


def _bounded(text: str) -> str:
  """Inserts a space into runs of more than `MAX_RUN` characters, because MeCab and newmm can take quadratic time."""
  return text if len(text) <= MAX_RUN else _LONG_RUN.sub(r"\g<0> ", text)


SEGMENTERS: dict[str, Segmenter] = {
  "ja": Segmenter(_japanese, ("fugashi", "unidic-lite"), f"run{MAX_RUN}"),
  "th": Segmenter(_thai, ("pythainlp",), f"newmm-run{MAX_RUN}"),
  "zh": Segmenter(_chinese, ("jieba",)),
}
"""Segmenters by language code, for the languages of `xmcap.languages` without spaces."""
