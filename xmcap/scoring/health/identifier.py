"""Language identification with py3langid (naive Bayes over byte n-grams; Lui and Baldwin 2012).

Only languages of `xmcap.languages` are told apart, all but Maori, which py3langid does not know. Its other hundred
languages would only add confusions such as Slovak for Czech or Galician for Spanish.
"""

import functools
import importlib.metadata
import sys
import unicodedata
from collections.abc import Sequence
from concurrent import futures

import numpy as np

from xmcap import languages
from xmcap.errors import XmcapError

_UNKNOWN = frozenset({"mi"})
# py3langid's labels where they differ from our codes. It separates the two written forms of Norwegian.
_LABELS = {"fil": ("tl",), "no": ("no", "nn"), "quz": ("qu",)}


def supports(language: str) -> bool:
  """Returns whether the identifier knows a language, given by its code; UsageError if the code is unknown."""
  return languages.get(language).code in languages.LANGUAGES.keys() - _UNKNOWN


def version() -> str:
  """Returns the library and its version for signatures; XmcapError if it is not installed."""
  load()
  return f"py3langid-{importlib.metadata.version('py3langid')}"


def log_likelihoods(captions: Sequence[str], codes: Sequence[str]) -> np.ndarray:
  """Returns float32 [captions, codes], the log likelihood of each caption in each of these languages.

  The features overlap, so differences are larger than true log ratios. A caption without features has 0 everywhere.

  Raises:
    XmcapError: py3langid is not installed.
  """
  import scipy.sparse

  identifier, columns = load()
  caption, feature, count = _features(captions)
  log_counts = scipy.sparse.csr_array(
    (np.log1p(count.astype(np.float32)), (caption, feature)),
    shape=(len(captions), len(identifier.nb_ptc)),
  )
  labels = tuple(column for language in codes for column in columns[language])
  of_features, of_classes = _parameters(labels)
  logs = log_counts @ of_features + of_classes * (np.diff(log_counts.indptr) > 0)[:, None]
  # The likelihood of a language with several labels is that of the best one.
  first = np.cumsum([0, *(len(columns[language]) for language in codes)])[:-1]
  return np.maximum.reduceat(logs, first, axis=1) if len(captions) else np.zeros((0, len(codes)), np.float32)


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
  by_position = []
  for position in range(lengths.max(initial=0)):
    left = np.searchsorted(-lengths, -position)
    state = nextmove[row[state[:left]] * 256 + joined[starts[:left] + position]]
    reached = np.flatnonzero(output[state] >= 0)
    by_position.append(order[reached] * len(output) + output[state[reached]])
  pairs, count = np.unique(np.concatenate([np.empty(0, np.int64), *by_position]), return_counts=True)
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


@functools.lru_cache(maxsize=2)
def _parameters(columns: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
  """Returns float32 [features, columns] and [columns], the log probabilities of features and of classes."""
  identifier, _ = load()
  return np.ascontiguousarray(identifier.nb_ptc[:, columns]), np.asarray(
    identifier.nb_pc[list(columns)], np.float32
  )


@functools.cache
def begin() -> tuple[futures.Executor, futures.Future]:
  """Begins to load the identifier in another thread, which takes half a second."""
  thread = futures.ThreadPoolExecutor(1)
  return thread, thread.submit(_load)


def load():
  """Returns the identifier and {our code: its columns}; what `begin` began is over then, so that one may fork."""
  thread, loading = begin()
  thread.shutdown()
  return loading.result()


def _load():
  try:
    import py3langid.langid
  except ImportError as error:
    raise XmcapError(
      f"the language identifier does not load ({' '.join(str(error).split())}); pip install py3langid"
    ) from error
  labels = {
    language: _LABELS.get(language, (language,)) for language in languages.LANGUAGES if supports(language)
  }
  # A separate identifier, because `py3langid.set_languages` changes the global one.
  # It decompresses without the interpreter's lock, but in 700 pieces: each waits for the lock by this interval.
  interval = sys.getswitchinterval()
  sys.setswitchinterval(interval / 10)
  try:
    identifier = py3langid.langid.LanguageIdentifier.from_model_file(py3langid.langid.MODEL_FILE)
  finally:
    sys.setswitchinterval(interval)
  identifier.set_languages(sorted(label for of_language in labels.values() for label in of_language))
  identifier.nb_ptc = np.asarray(identifier.nb_ptc, np.float32)
  places = {label: place for place, label in enumerate(identifier.nb_classes)}
  return identifier, {
    language: [places[label] for label in of_language] for language, of_language in labels.items()
  }
