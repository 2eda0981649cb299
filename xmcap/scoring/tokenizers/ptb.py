"""The tokeniser of the COCO evaluation, for comparison with scores of pycocoevalcap."""

import re
from collections.abc import Sequence

from xmcap.errors import XmcapError
from xmcap.scoring import java
from xmcap.scoring.tokenizers import base

JAR = "stanford-corenlp-3.4.1.jar"
PROGRAM = ("edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase")
# All characters that the Java program treats as the end of a line.
_LINE_END = re.compile("[\n\v\f\r\u2028\u2029]")
# A line between captions, because the program looks ahead to the next line. Before this word it recognises a full stop
# at the end of a caption, as it does before most captions.
_SEPARATOR = "The"


class Ptb(base.Tokenizer):
  """Stanford CoreNLP's Penn Treebank tokeniser, with the jar, options and punctuation list of pycocoevalcap.

  It was made for English; in other languages it gives the words of those who score these with pycocoevalcap. It needs
  Java and `pip install 'xmcap[ptb]'`. One run of Java handles a whole batch, and nothing is written to disk.

  Deviations from pycocoevalcap's `PTBTokenizer`: there, the treatment of the final full stop of a caption that ends in
  a single letter or an abbreviation ("in group B.") depends on the next caption; here it does not (`Coco` is exact). A
  word with a no-break space ("1 1/2") is two words, as in pycocoevalcap's own n-grams. A caption may contain any line
  end, whereas pycocoevalcap only handles the line feed.
  """

  name = "ptb"
  normalization = "lower,no-punctuation"

  @property
  def version(self) -> str:
    return f"{self.rules}.{JAR.removesuffix('.jar')}.{java.version()}"

  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    """Raises XmcapError if Java or pycocoevalcap is not installed, or if Java fails."""
    if not texts:
      return []
    jar = java.pycocoevalcap(f"tokeniser '{self.name}'") / "tokenizer" / JAR
    lines = "".join(f"{one_line(text)}\n{_SEPARATOR}\n" for text in texts)
    split = java.run(f"tokeniser '{self.name}'", jar, ["-cp", str(jar), *PROGRAM], lines).split("\n")
    if len(split) != 2 * len(texts) + 1 or set(split[1::2]) != {_SEPARATOR.lower()}:
      raise XmcapError(
        f"tokeniser 'ptb': {JAR} gave {len(split) - 1} lines for {2 * len(texts)}; use another tokeniser"
      )
    return words_of(split[:-1:2])


def one_line(text: str) -> str:
  """Returns the text with spaces instead of the characters that end a line for the Java program."""
  return _LINE_END.sub(" ", text)


def words_of(lines: Sequence[str]) -> list[list[str]]:
  """Returns the words of lines of the Java program's output, without the punctuation that pycocoevalcap leaves out."""
  from pycocoevalcap.tokenizer.ptbtokenizer import PUNCTUATIONS

  dropped = frozenset(PUNCTUATIONS)
  return [
    [word for token in line.rstrip().split(" ") if token not in dropped for word in token.split()]
    for line in lines
  ]
