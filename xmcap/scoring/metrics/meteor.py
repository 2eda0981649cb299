"""METEOR, computed by the Java program in pycocoevalcap."""

import pathlib
from collections.abc import Callable

import numpy as np

from xmcap.errors import XmcapError
from xmcap.scoring.metrics import base
from xmcap.scoring.tokenizers import java

_JAR = "meteor-1.5.jar"
# The program's defaults for English: alpha weighs precision and recall, beta and gamma shape the fragmentation penalty,
# delta weighs content words; one weight per matching stage (exact, stem, synonym, paraphrase).
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_STAGES = np.array([1.0, 0.6, 0.8, 0.6])
_CHUNKS = 20
_NUMBERS = 23


class Meteor(base.CaptionMetric):
  """METEOR 1.5 (Denkowski and Lavie, 2014) of English captions, in [0, 1], with the options of pycocoevalcap.

  The program counts matches; the score of a set of captions follows from their sums, as in the program's own `EVAL`. It
  equals pycocoevalcap's score on the same words (`--tokenizer=ptb`).
  """

  name = "meteor"
  heading = "METEOR (pycocoevalcap)"
  scaled = True
  languages = ("en",)
  is_extra = True
  width = _NUMBERS

  @property
  def signature(self) -> str:
    return f"{pathlib.PurePath(_JAR).stem},{java.version()},l=en,norm=yes"

  def statistics(self, corpus: base.Corpus) -> np.ndarray:
    """Returns float64 [images, 23], the program's counts, with 0 chunks if all words match in order.

    Raises XmcapError if Java or pycocoevalcap is not installed, or if Java fails.
    """
    return self.statistics_of(lambda: corpus)

  def statistics_of(self, corpus: Callable[[], base.Corpus]) -> np.ndarray:
    """Does what `statistics` does, but starts the program before it calls `corpus`: most of the time is the start."""
    lines: list[str] = []

    def text() -> str:
      tokens = corpus()
      for hypothesis, references in zip(tokens.hypotheses, tokens.references, strict=True):
        texts = [" ".join(words).replace("|||", "") for words in (*references, hypothesis)]
        lines.append(f"SCORE ||| {' ||| '.join(texts)}\n")
      return "".join(lines)

    jar = java.pycocoevalcap("metric 'meteor'") / "meteor" / _JAR
    options = ["-Xmx2G", "-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-norm"]
    rows = java.run("metric 'meteor'", jar, options, text).splitlines()
    counts = np.array([line.split() for line in rows], np.float64)
    if counts.shape != (len(lines), _NUMBERS):
      raise XmcapError(f"metric 'meteor': {_JAR} gave {len(rows)} lines for {len(lines)}; leave out meteor")
    chunks, matched, lengths = counts[:, _CHUNKS], counts[:, _CHUNKS + 1 :], counts[:, :2]
    chunks[(chunks == 1) & (matched == lengths).all(axis=1)] = 0
    return counts

  def aggregate(self, totals: np.ndarray, count: np.ndarray | np.float64) -> np.ndarray:
    lengths, function = totals[..., :2], totals[..., 2:4]
    # For each stage: content words and function words, each for the caption and the reference.
    stages = totals[..., 4:_CHUNKS].reshape(*totals.shape[:-1], len(_STAGES), 2, 2)
    content_matches, function_matches = np.moveaxis(np.einsum("s,...sij->...ij", _STAGES, stages), -2, 0)
    matches = _DELTA * content_matches + (1 - _DELTA) * function_matches
    words = _DELTA * (lengths - function) + (1 - _DELTA) * function
    share = np.divide(matches, words, out=np.zeros_like(matches), where=words > 0)
    precision, recall = share[..., 0], share[..., 1]
    weighted = (1 - _ALPHA) * recall + _ALPHA * precision
    mean = np.divide(precision * recall, weighted, out=np.zeros_like(weighted), where=weighted > 0)
    matched = totals[..., _CHUNKS + 1 :].sum(axis=-1) / 2
    fragments = np.divide(totals[..., _CHUNKS], matched, out=np.zeros_like(matched), where=matched > 0)
    return mean * (1 - _GAMMA * fragments**_BETA)
