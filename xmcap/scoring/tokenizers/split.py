"""Captions that are split into words already, such as those of COCO-CN, and captions as they are."""

from collections.abc import Sequence

from xmcap.scoring.tokenizers import base, normalization

# Those that pycocoevalcap 1.2 leaves out. It writes brackets in another way than its list does, so they stay.
_LEFT_OUT = frozenset({"''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"})


class SplitTokenizer(base.Tokenizer):
  """Lower case, split at white space, and words that are punctuation marks of ASCII left out, but for brackets.

  On the segmented captions of COCO-CN these are the words that the COCO evaluation (pycocoevalcap) scores.
  """

  name = "split"
  normalization = "lower,no-punctuation-words"

  @property
  def version(self) -> str:
    return normalization.rules(self.rules, self.language)

  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    lowered = [normalization.lower(text, self.language).split() for text in texts]
    return [[word for word in words if word not in _LEFT_OUT] for words in lowered]


class Raw(base.Tokenizer):
  """Split at white space and nothing else, as pycocoevalcap's scorers do with captions that no tokeniser has seen.

  "River." and "river" are two words. Deviation: ROUGE-L of pycocoevalcap 1.2 splits at U+0020 alone and counts the
  empty words between two of them.
  """

  name = "raw"
  normalization = "none"

  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    return [text.split() for text in texts]
