"""Notices captions that are in another language than is said of them, in a sample of bounded size."""

import collections
from collections.abc import Iterable, Iterator

import numpy as np

from xmcap import languages
from xmcap.data.records import Caption
from xmcap.scoring.health import identifier

_SAMPLE = 200  # captions of a language that are looked at
_LEAST = 8  # captions that tell something
_SHARE = 0.8  # of the captions that must look more like the other language


class LanguageSample:
  """The first different captions of each language, as py3langid sees them."""

  def __init__(self):
    self._texts: dict[str, dict[str, None]] = collections.defaultdict(dict)

  def add(self, captions: Iterable[Caption]) -> None:
    """Adds captions, until there are enough of their languages."""
    for caption in captions:
      if len(texts := self._texts[caption.language]) < _SAMPLE:
        texts[caption.text] = None

  def mistaken(self) -> Iterator[str]:
    """Yields what the captions of a language look like, for each whose captions are, by most, in another one."""
    codes = list(filter(identifier.supports, languages.LANGUAGES))
    for language, texts in self._texts.items():
      own = language if language in codes else languages.variety_base(language)
      if own not in codes or len(texts) < _LEAST:
        continue
      logs = identifier.log_likelihoods(list(texts), codes)
      other = int(np.argmax(logs.sum(axis=0)))
      count = int(np.count_nonzero(logs[:, other] > logs[:, codes.index(own)]))
      if codes[other] != own and count >= _SHARE * len(texts):
        name = languages.get(codes[other]).english_name
        yield f"{count} of {len(texts)} captions in '{language}' look like {name} ({codes[other]})"
