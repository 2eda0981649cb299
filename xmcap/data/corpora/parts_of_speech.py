"""Chinese words with their parts of speech, by `jieba.posseg`, for sentences that a release does not segment."""

import functools
from typing import Any


def tag(text: str) -> list[tuple[str, str]]:
  """The words of a Chinese sentence and their parts in ICTCLAS's letters (`n`, `vn`, `a`, ...); no word is a space."""
  return [(pair.word, pair.flag) for pair in _tagger().cut(text) if not pair.word.isspace()]


@functools.cache
def _tagger() -> Any:
  import jieba
  from jieba import posseg

  tokenizer = jieba.Tokenizer()
  # Its `initialize` would unmarshal a cache from the shared temporary folder, where anybody can put one.
  with tokenizer.get_dict_file() as file:
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(file)
  tokenizer.initialized = True
  return posseg.POSTokenizer(tokenizer)
