"""Marks that come in pairs, such as `**` and `**`, found in time in proportion to the text.

`re` would look for the end of each mark that opens up to the end of the text, if none closes.
"""

import re
from typing import NamedTuple

_IN_EXAMPLES = 200  # characters between marks


class Kind(NamedTuple):
  """The two marks of a kind, as expressions.

  Attributes:
    opening: the mark that opens.
    closing: the mark that closes; where it matches must not depend on where the pair opened.
    least: the fewest characters between them.
  """

  opening: str
  closing: str
  least: int = 0


class Pairs:
  """What `re.compile` would make of `OPENING(.*?)CLOSING|...`, for `sub`.

  Attributes:
    pattern: an expression of the pairs that are not long.
  """

  def __init__(self, *kinds: Kind, flags: int = 0):
    self.pattern = "|".join(
      f"(?:{opening}).{{{least},{_IN_EXAMPLES}}}?(?:{closing})" for opening, closing, least in kinds
    )
    self._openings = re.compile("|".join(f"(?:{kind.opening})" for kind in kinds), flags)
    # Without DOTALL no pair goes beyond its line.
    beyond = "" if flags & re.DOTALL else r"|\n"
    self._kinds = [
      (re.compile(opening, flags), re.compile(f"(?P<mark>{closing}){beyond}", flags), least)
      for opening, closing, least in kinds
    ]

  def sub(self, kept: str, text: str) -> str:
    r"""Returns the text with `kept` in the place of each pair and what is between; `\1` is what is between."""
    parts, begun = [], 0
    unclosed = [0] * len(self._kinds)  # up to where no mark of a kind closes
    match = self._openings.search(text)
    while match is not None:
      start, goes_on = match.start(), match.start() + 1
      for number, (opening, closing, least) in enumerate(self._kinds):
        opened = opening.match(text, start) if start >= unclosed[number] else None
        if opened is None:
          continue
        closed = closing.search(text, opened.end() + least)
        if closed is not None and closed["mark"] is not None:
          between = text[opened.end() : closed.start()]
          parts += [text[begun:start], between if kept == r"\1" else kept]
          begun = goes_on = closed.end()
          break
        unclosed[number] = len(text) if closed is None else closed.start()
      match = self._openings.search(text, goes_on)
    return "".join([*parts, text[begun:]])
