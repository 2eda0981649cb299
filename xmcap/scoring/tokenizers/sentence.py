"""Captions as sentences: the text processing of THumB, for scores that do not depend on how a system writes its output.

Source: Kasai et al., "Transparent Human Evaluation for Image Captioning" (NAACL 2022), section 2.2.3: no spaces around
a caption, a capital first, a full stop last. The paper applies it to the captions of people and of models alike, before
people rate and metrics score them. Only words of tokenisers that keep case or punctuation change, such as `13a`.
"""

import re
from collections.abc import Sequence

VERSION = "sentence-1"
"""Version of the rules, for signatures; raise it with each change of a rule."""

LANGUAGES = frozenset({"en"})
"""The paper's captions are English; other languages have other full stops, or none."""

_SPACED_STOP = re.compile(r"\s+\.$")


def finish(language: str, texts: Sequence[str]) -> list[str]:
  """Returns the texts as sentences; an empty caption stays empty, as it is no sentence."""
  return [_finished(text.strip()) for text in texts]


def _finished(text: str) -> str:
  text = _SPACED_STOP.sub(".", text[:1].upper() + text[1:])
  return text if not text or text.endswith(".") else f"{text}."
