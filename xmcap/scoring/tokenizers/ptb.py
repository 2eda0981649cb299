"""The tokeniser of the COCO evaluation, for comparison with scores of pycocoevalcap."""

import re
from collections.abc import Sequence

from xmcap.errors import XmcapError
from xmcap.scoring.tokenizers import base, java

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
  Java and the extra ptb. One run of Java handles a whole batch, and nothing is written to disk.

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
    lines = [line for text in texts for line in (one_line(text), _SEPARATOR)]
    split = self._run(lines)
    if set(split[1::2]) != {_SEPARATOR.lower()}:
      raise XmcapError(f"tokeniser '{self.name}': {JAR} moved words to other lines; use another tokeniser")
    return words_of(split[::2])

  def tokenize_together(self, texts: Sequence[str]) -> list[str]:
    """Returns the words of each caption, joined by spaces, exactly as pycocoevalcap's `PTBTokenizer` returns them.

    As there, the next caption can change how the final full stop of a caption is read, and a word may contain a
    no-break space. Deviation: any line end in a caption is a space; in pycocoevalcap, all but the line feed move the
    captions that follow to other images. Raises XmcapError as `tokenize`.
    """
    return [" ".join(_kept(line)) for line in self._run(list(map(one_line, texts)))] if texts else []

  def _run(self, lines: Sequence[str]) -> list[str]:
    """Returns the lines that the program makes of the given ones."""
    whose = f"tokeniser '{self.name}'"
    jar = java.pycocoevalcap(whose) / "tokenizer" / JAR
    split = java.run(whose, jar, ["-cp", str(jar), *PROGRAM], "\n".join(lines)).split("\n")
    if len(split) != len(lines):
      raise XmcapError(f"{whose}: {JAR} gave {len(split)} lines for {len(lines)}; use another tokeniser")
    return split


def one_line(text: str) -> str:
  """Returns the text with spaces instead of the characters that end a line for the Java program."""
  return _LINE_END.sub(" ", text)


def words_of(lines: Sequence[str]) -> list[list[str]]:
  """Returns the words of lines of the Java program's output, without the punctuation that pycocoevalcap leaves out."""
  return [[word for token in _kept(line) for word in token.split()] for line in lines]


def _kept(line: str) -> list[str]:
  """Returns the tokens of a line without those that pycocoevalcap drops as punctuation."""
  from pycocoevalcap.tokenizer.ptbtokenizer import PUNCTUATIONS

  return [token for token in line.rstrip().split(" ") if token not in PUNCTUATIONS]
