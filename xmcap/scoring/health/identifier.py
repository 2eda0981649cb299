"""Language identification with py3langid (naive Bayes over byte n-grams; Lui and Baldwin 2012).

The candidates are the languages of `xmcap.languages` that it knows (all but Maori), and "no language". Its other
hundred languages would only add confusions such as Slovak for Czech or Galician for Spanish.
"""

import functools
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from xmcap import languages
from xmcap.errors import XmcapError

_UNKNOWN = frozenset({"mi"})
# py3langid's labels where they differ from our codes. It separates the two written forms of Norwegian.
_LABELS = {"fil": ("tl",), "no": ("no", "nn"), "quz": ("qu",)}
_NO_LANGUAGE = "zxx"


def supports(language: str) -> bool:
  """Returns whether the identifier knows a language, given by its code; UsageError if the code is unknown."""
  return languages.get(language).code in languages.LANGUAGES.keys() - _UNKNOWN


def identify(captions: Iterable[str]) -> list[str]:
  """Returns the code of the most likely language of each caption, "" for no language (numbers, markup, gibberish).

  Raises:
    XmcapError: py3langid is not installed.
  """
  captions = list(captions)
  distinct = list(dict.fromkeys(captions))
  guesses = dict(zip(distinct, _guesses(distinct), strict=True))
  return [guesses[caption] for caption in captions]


def _guesses(captions: Sequence[str]) -> list[str]:
  """Does the same as `LanguageIdentifier.classify` for all captions at once, ten times as fast."""
  identifier, codes = load()
  caption, feature, count = _features(captions)
  # A caption without features scores 0 for all languages.
  scores = np.zeros((len(captions), len(identifier.nb_classes)), np.float32)
  with_features, first = np.unique(caption, return_index=True)
  if len(first):
    log_likelihoods = np.log1p(count.astype(np.float32))[:, None] * identifier.nb_ptc[feature]
    scores[with_features] = np.add.reduceat(log_likelihoods, first) + identifier.nb_pc
  return [codes[identifier.nb_classes[column]] for column in scores.argmax(axis=1).tolist()]


def _features(captions: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns three int64 [P], sorted: indices of the caption and of the feature, and the count of that pair.

  Each step of the automaton reads one byte of every caption.
  """
  nextmove, row, output = _automaton()
  texts = [_encode(caption) for caption in captions]
  joined = np.frombuffer(b"".join(texts), np.uint8)
  lengths = np.array([len(text) for text in texts], np.int64)
  starts = np.cumsum(lengths) - lengths
  # Longest first, so that the captions with bytes left are always a prefix.
  order = np.argsort(-lengths, kind="stable")
  lengths, starts = lengths[order], starts[order]
  state = np.zeros(len(texts), np.int64)
  found = []
  for position in range(lengths.max(initial=0)):
    left = np.searchsorted(-lengths, -position)
    state = nextmove[row[state[:left]] * 256 + joined[starts[:left] + position]]
    reached = np.flatnonzero(output[state] >= 0)
    found.append(order[reached] * len(output) + output[state[reached]])
  pairs, count = np.unique(np.concatenate([np.empty(0, np.int64), *found]), return_counts=True)
  return pairs // len(output), pairs % len(output), count


def _encode(caption: str) -> bytes:
  caption = caption.lower() if caption.isupper() else caption
  return unicodedata.normalize("NFC", caption).encode("utf-8", "surrogatepass")


@functools.cache
def _automaton() -> tuple[np.ndarray, ...]:
  """Returns arrays: the next state by row and byte; the row of each state; its feature, or -1."""
  identifier, _ = load()
  row, output = np.array(identifier.tk_row, np.int64), np.array(identifier.tk_output, np.int64)
  return np.asarray(identifier.tk_nextmove), row, output


@functools.cache
def load():
  """Returns the identifier and {label: our code}; the first call takes half a second to load it."""
  try:
    import py3langid.langid
  except ImportError as error:
    raise XmcapError(
      f"the language identifier does not load ({' '.join(str(error).split())}); pip install py3langid"
    ) from error
  codes = {
    label: code for code in languages.LANGUAGES if supports(code) for label in _LABELS.get(code, (code,))
  }
  codes[_NO_LANGUAGE] = ""
  # A separate identifier, because `py3langid.set_languages` changes the global one.
  identifier = py3langid.langid.LanguageIdentifier.from_model_file(py3langid.langid.MODEL_FILE)
  identifier.set_languages(sorted(codes))
  # Row-major, which is how they are read.
  identifier.nb_ptc = np.ascontiguousarray(identifier.nb_ptc, dtype=np.float32)
  return identifier, codes
