"""The procedures by which people describe pictures: what a page of `xmcap human annotate` shows, in which order.

A procedure is data, in `annotation_procedures.json`; its words are in the catalogue of `page_texts`. `coco-cn` is that
of Li et al., "COCO-CN for Cross-Lingual Image Tagging, Captioning and Retrieval" (IEEE Transactions on Multimedia
2019): suggested sentences and tags beside the picture. `xm3600` is that of Thapliyal et al., "Crossmodal-3600" (EMNLP
2022), section 2.3: people who also read English first rate the English machine captions of a batch of pictures, all on
one screen, which shows them the kind of sentence that is wanted, the same in every language; then they describe these
pictures in their language, one at a time and without a caption in view. The guidelines are those of its Appendices B
and C, in this project's words and examples.
"""

import json
import os
from typing import Annotated

import msgspec
from msgspec import Meta

from xmcap import wording
from xmcap.errors import UsageError
from xmcap.human import page_texts, rating_protocols
from xmcap.human.quality import LEVELS
from xmcap.human.rating_protocols import PROTOCOLS
from xmcap.pages.report import elements
from xmcap.reading.inputs import Input

_MOST_LINES = 200


class Procedure(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
  """What a page shows, in which order.

  Attributes:
    guidelines: lines of a user's own, in any language; one that begins with `# ` is a heading. Empty: the catalogue's.
    ratings: the protocol by whose levels machine captions are rated; "": there is no first screen.
    rated_language: of the machine captions; "" if none are rated.
    batch: pictures that are rated before the first of them is described; 0: all, or there is no first screen.
    suggestions: whether sentences can be copied while one writes.
    tags: whether people write tags too.
    replication: sentences of a picture, each by another annotator, where pictures are assigned.
  """

  name: str
  ratings: str
  rated_language: str
  batch: Annotated[int, Meta(ge=0)]
  suggestions: bool
  tags: bool
  replication: Annotated[int, Meta(ge=1)]
  guidelines: list[str] = []

  def levels(self, language: str) -> dict[str, tuple[str, str]]:
    """Returns the values of `ratings` in files, the worst first, each with its name and meaning in a language."""
    if not self.ratings:
      return {}
    protocol = rating_protocols.translated(PROTOCOLS[self.ratings], language)
    names = {value: name for name, value in LEVELS.items()}
    (criterion,) = protocol.criteria
    return {
      names[int(value)]: (word, meaning)
      for (value, word), (_, meaning) in zip(criterion.choices, protocol.rules, strict=True)
    }

  def texts(self, language: str) -> tuple[str, list[str]]:
    """Returns the title and the guidelines in a language, with levels and advice in the place of `{levels}`."""
    texts = page_texts.catalogue(language)["procedures"][self.name]
    if self.guidelines:
      return texts["title"], self.guidelines
    lines = []
    for line in texts["guidelines"]:
      if line != "{levels}":
        lines.append(line)
        continue
      lines += [f"{word}: {meaning}" for word, meaning in self.levels(language).values()]
      lines += rating_protocols.translated(PROTOCOLS[self.ratings], language).advice
    return texts["title"], lines


def _own() -> dict[str, Procedure]:
  contents = json.loads(elements.resource("annotation_procedures.json", "xmcap.human"))
  return {name: msgspec.convert({"name": name, **content}, Procedure) for name, content in contents.items()}


PROCEDURES = _own()
"""Name -> procedure."""


def read_guidelines(path: str | os.PathLike) -> list[str]:
  """Reads guidelines from a text file: a paragraph a line, `# ` before a heading.

  UsageError for a file without text, with more than 200 lines, or as `Input`.
  """
  with Input(path) as source:
    lines = [" ".join(line.split()) for _, line in source.lines()]
  if not lines or len(lines) > _MOST_LINES:
    raise UsageError(
      f"{path}: {wording.count(len(lines), 'line')} of guidelines; give 1 to {_MOST_LINES}, a paragraph a line"
    )
  return lines
