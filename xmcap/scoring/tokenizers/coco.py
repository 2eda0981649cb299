"""The words of the COCO evaluation to the letter, as published protocols have them.

pycocoevalcap gives all captions of a language to its Java program as the lines of one file, references and predictions
apart. The program looks beyond the end of a line, so that a word may depend on the next caption ("in group B."), and on
the order of the captions. These tokenisers keep to the order of the references' file, for predictions too.
"""

import functools
import re
import unicodedata
from collections.abc import Sequence

from xmcap.errors import XmcapError
from xmcap.scoring.tokenizers import base, java, ptb, spacy_words


class Coco(ptb.Ptb):
  """`PTBTokenizer` of pycocoevalcap 1.2 in every language, for captions in the order of the references' file.

  Deviation: a caption may contain any line end; in pycocoevalcap one that is not a line feed moves all captions behind
  it to other images.
  """

  name = "coco"
  in_order = True

  def together(
    self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
  ) -> tuple[list[list[str]], list[list[list[str]]]]:
    flat = [text for of_image in references for text in of_image]
    predicted, tokenized = self._run([self._hypotheses(hypotheses), self._references(flat)])
    words = iter(tokenized)
    return predicted, [[next(words) for _ in of_image] for of_image in references]

  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    return self._run([self._references(texts)])[0]

  def _hypotheses(self, texts: Sequence[str]) -> list[str]:
    """Returns predictions as the Java program gets them."""
    return self._references(texts)

  def _references(self, texts: Sequence[str]) -> list[str]:
    return list(texts)

  def _run(self, batches: Sequence[Sequence[str]]) -> list[list[list[str]]]:
    """Returns the words of each batch, all by one run of Java, which reads and writes a file for each."""
    if not any(batches):
      return [[] for _ in batches]
    whose = f"tokeniser '{self.name}'"
    jar = java.pycocoevalcap(whose) / "tokenizer" / ptb.JAR
    with java.scratch(whose) as folder:
      for number, texts in enumerate(batches):
        lines = "\n".join(map(ptb.one_line, texts))
        (folder / f"{number}.in").write_bytes(lines.encode("utf-8", "replace"))
      pairs = "".join(f"{number}.in {number}.out\n" for number in range(len(batches)))
      (folder / "pairs").write_text(pairs, encoding="utf-8")
      java.run(whose, jar, ["-cp", str(jar), *ptb.PROGRAM, "-ioFileList", "pairs"], folder=folder)
      outputs = [(folder / f"{number}.out").read_bytes().decode("utf-8") for number in range(len(batches))]
    return [self._words(texts, output) for texts, output in zip(batches, outputs, strict=True)]

  def _words(self, texts: Sequence[str], output: str) -> list[list[str]]:
    lines = output.split("\n")
    lines += [""] * (len(texts) - len(lines))  # the program may leave out the last lines if they are empty
    if len(lines) > len(texts) + 1 or any(lines[len(texts) :]):
      raise XmcapError(
        f"tokeniser '{self.name}': {ptb.JAR} gave {len(lines)} lines for {len(texts)} captions"
      )
    return ptb.words_of(lines[: len(texts)])


class CocoSpacy(Coco):
  """Words of spaCy 3's default tokenisers in zh, ja and th, joined by spaces; then NFC, then `Coco`."""

  name = "coco_spacy"
  normalization = "nfc,lower,no-punctuation"

  @property
  def version(self) -> str:
    words = spacy_words.version(self.language)
    return f"{super().version}.{words}" if words else super().version

  @functools.cached_property
  def _segment(self) -> spacy_words.Segment:
    return spacy_words.load(self.language)

  def _references(self, texts: Sequence[str]) -> list[str]:
    if self.language in spacy_words.LANGUAGES:
      texts = [" ".join(self._segment(text)) for text in texts]
    return [unicodedata.normalize("NFC", text) for text in texts]


# spaCy keeps a space as an attribute of the character before it, which joining the characters with nothing drops.
_SPACE_AFTER_CHARACTER = re.compile(r"(?<=\S) ")


class CocoXm100(Coco):
  """The words of Pangea's XM100: predictions in NFC, and in zh without the space after a character; then `Coco`."""

  name = "coco_xm100"
  normalization = "nfc-predictions,lower,no-punctuation"

  def _hypotheses(self, texts: Sequence[str]) -> list[str]:
    if self.language == "zh":
      texts = [_SPACE_AFTER_CHARACTER.sub("", text) for text in texts]
    return [unicodedata.normalize("NFC", text) for text in texts]


TOKENIZERS: tuple[type[base.Tokenizer], ...] = (Coco, CocoSpacy, CocoXm100)
"""The tokenisers of published protocols."""
