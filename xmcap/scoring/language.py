"""One language's captions: words, then each metric's statistics, then health. Runs in a process of its own."""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from xmcap.errors import UsageError
from xmcap.scoring import health as health_lib
from xmcap.scoring import metrics, tokenizers
from xmcap.scoring.metrics import document_frequency as document_frequency_lib
from xmcap.scoring.scores import Scores
from xmcap.scoring.workers import Workers
from xmcap.terminal import shown

MAX_CAPTION = 100_000
"""Characters of a caption; each tokeniser finds the words of such a one in seconds, whatever it is made of."""


@dataclasses.dataclass(frozen=True)
class Job:
  """What is to be scored.

  Attributes:
    language: its code.
    keys: the keys of I images.
    hypotheses: the predicted caption of each.
    references: the reference captions of each.
    tokenized: the references as the release tokenises them; None unless the tokeniser asks for it.
    metrics: their names.
    tokenizer: its name.
    document_frequency: of another corpus; None: that of the references.
    health: whether to look at the captions' health.
    keep: names of what is to be returned beside the scores: `words`, `document_frequency`.
  """

  language: str
  keys: Sequence[str]
  hypotheses: Sequence[str]
  references: Sequence[Sequence[str]]
  tokenized: Sequence[Sequence[str]] | None
  metrics: tuple[str, ...]
  tokenizer: str
  document_frequency: document_frequency_lib.DocumentFrequency | None = None
  health: bool = False
  keep: frozenset[str] = frozenset()

  def __getstate__(self) -> dict[str, Any]:
    # On their way to another process the captions go as MessagePack: a third of the time that pickle takes.
    try:
      captions = msgspec.msgpack.encode((self.keys, self.hypotheses, self.references))
    except UnicodeEncodeError:  # half a surrogate pair, which no file holds, but a caller may
      return self.__dict__
    return {**self.__dict__, "keys": (), "hypotheses": (), "references": (), "captions": captions}

  def __setstate__(self, state: dict[str, Any]) -> None:
    captions = state.pop("captions", None)
    self.__dict__.update(state)
    if captions is not None:
      keys, hypotheses, references = msgspec.msgpack.decode(captions)
      self.__dict__.update(keys=keys, hypotheses=hypotheses, references=references)


@dataclasses.dataclass(frozen=True)
class Tokenized:
  """The words that the metrics saw, joined by spaces: of each hypothesis, and of each image's references."""

  hypotheses: tuple[str, ...]
  references: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Scored:
  """What came out.

  Attributes:
    scores: of the images; their keys are those of the job, and stay behind when sent to another process.
    tokenizer: version of the tokeniser that found the words.
    fingerprint: of the document frequencies that weighed them.
    references: fingerprint of the keys and references, whatever their order.
    health: None unless asked for.
    words: None unless kept.
    document_frequency: None unless kept.
  """

  scores: Scores
  tokenizer: str
  fingerprint: str
  references: str
  health: health_lib.Health | None
  words: Tokenized | None
  document_frequency: document_frequency_lib.DocumentFrequency | None

  def __getstate__(self) -> dict[str, Any]:
    # Whoever sent the job has its keys.
    return {**self.__dict__, "scores": dataclasses.replace(self.scores, keys=())}


_COSTS = {"th": 27.0, "zh": 14.0, "ja": 7.0}
"""How many times as long as words between spaces it takes to find words by a dictionary; the costliest first."""


def cost(language: str, tokenizer: str) -> float:
  """Returns about how long a job takes, in a unit of its own."""
  return _COSTS.get(language, 1.0) if tokenizer in ("default", "given") else 1.0


def prepare(workers: Workers, tokenizer: str, present: Sequence[str]) -> None:
  """Has each worker load the word segmenter that it will need first, while captions are still being read.

  Args:
    workers: that will share the jobs.
    tokenizer: its name.
    present: the codes of the languages there will be, as far as is known.
  """
  if tokenizer in ("default", "given"):
    for place, code in enumerate(code for code in _COSTS if code in present):
      workers.tell(place, _load, tokenizer, code)


def _load(tokenizer: str, code: str) -> None:
  tokenizers.get(tokenizer, code).tokenize([""])


def score_language(job: Job) -> Scored:
  """Scores the captions of one language.

  Sums of floats depend on their order; here that of the images and of their references decides about no bit.

  Raises:
    XmcapError: a word segmenter or another package is not installed.
  """
  _check_lengths(job)
  tokenizer = tokenizers.get(job.tokenizer, job.language)
  given, job, order = job, *_sorted(job)
  corpus = _corpus(job, tokenizer)
  scores = Scores(
    given.keys,
    {name: _placed(metrics.METRICS[name].statistics(corpus), order) for name in job.metrics},
    sum(map(len, job.references)),
  )
  if job.document_frequency is not None:
    fingerprint = job.document_frequency.fingerprint
  else:
    fingerprint = document_frequency_lib.fingerprint(corpus.ngrams)
  health = None
  if job.health:
    health = health_lib.measure(
      job.language, job.hypotheses, corpus.hypotheses, corpus.references, job.references
    )
  return Scored(
    scores,
    tokenizer.version,
    fingerprint,
    _fingerprint(job.keys, job.references),
    health,
    _joined(corpus, given, order) if "words" in job.keep else None,
    document_frequency_lib.DocumentFrequency.of(corpus.ngrams) if "document_frequency" in job.keep else None,
  )


def _corpus(job: Job, tokenizer: tokenizers.Tokenizer) -> metrics.Corpus:
  num_references = np.fromiter(map(len, job.references), np.int64, len(job.references))
  if job.tokenized is None:
    words = tokenizer.words(metrics.interleave(job.hypotheses, job.references))
    return metrics.Corpus.of_words(words, num_references, job.document_frequency)
  flat, given = (list(itertools.chain.from_iterable(texts)) for texts in (job.references, job.tokenized))
  found = iter(tokenizer.tokenize_references(flat, given))
  references = [list(itertools.islice(found, count)) for count in num_references.tolist()]
  return metrics.Corpus(tokenizer.tokenize(job.hypotheses), references, job.document_frequency)


def _check_lengths(job: Job) -> None:
  for key, hypothesis, texts in zip(job.keys, job.hypotheses, job.references, strict=True):
    longest = max(len(hypothesis), *map(len, texts))
    if longest > MAX_CAPTION:
      raise UsageError(
        f"{job.language}, image '{shown(key)}': a caption of {longest:,} characters; at most {MAX_CAPTION:,} are "
        "scored: shorten or remove it"
      )
  if job.tokenized is not None and list(map(len, job.tokenized)) != list(map(len, job.references)):
    raise UsageError(
      f"{job.language}: tokeniser 'given' needs as many texts in caption/tokenized as an image has references"
    )


def _sorted(job: Job) -> tuple[Job, list[int]]:
  """Returns the job with its images, and the references of each, in alphabetical order; and where each image stood."""
  order = sorted(range(len(job.keys)), key=job.keys.__getitem__)
  texts = [job.references[place] for place in order]
  tokenized = None
  if job.tokenized is not None:
    # Of two equal captions the words may differ.
    pairs = [
      sorted(zip(of_image, job.tokenized[place], strict=True))
      for place, of_image in zip(order, texts, strict=True)
    ]
    tokenized = [[words for _, words in of_image] for of_image in pairs]
  return dataclasses.replace(
    job,
    keys=[job.keys[place] for place in order],
    hypotheses=[job.hypotheses[place] for place in order],
    references=list(map(sorted, texts)),
    tokenized=tokenized,
  ), order


def _placed(values: np.ndarray, order: Sequence[int]) -> np.ndarray:
  """Returns rows [images, k] where the images of a job stood, given those of the sorted one."""
  placed = np.empty_like(values)
  placed[order] = values
  return placed


def _fingerprint(keys: Sequence[str], references: Sequence[Sequence[str]]) -> str:
  """Returns 16 hex digits of sorted keys and references."""
  held = list(keys), list(references)
  try:
    # Told apart whatever is in them: MessagePack says how many texts there are and how long each is.
    encoded = msgspec.msgpack.encode(held)
  except UnicodeEncodeError:  # as in Job
    encoded = json.dumps(held).encode()
  return hashlib.sha256(encoded).hexdigest()[:16]


def _joined(corpus: metrics.Corpus, given: Job, order: Sequence[int]) -> Tokenized:
  """Returns the words of the sorted captions in the order of those that were given."""
  hypotheses, references = [""] * len(order), [()] * len(order)
  for place, hypothesis, words in zip(order, corpus.hypotheses, corpus.references, strict=True):
    texts = given.references[place]
    keys = texts if given.tokenized is None else list(zip(texts, given.tokenized[place], strict=True))
    placed = [""] * len(texts)
    for number, of_text in zip(sorted(range(len(texts)), key=keys.__getitem__), words, strict=True):
      placed[number] = " ".join(of_text)
    hypotheses[place], references[place] = " ".join(hypothesis), tuple(placed)
  return Tokenized(tuple(hypotheses), tuple(references))
