"""Texts in Markdown: a renderer shows what they are, and makes no HTML, link or markup of them."""

import re

# HTML, and entities, are escaped as entities: Python-Markdown, as in TensorBoard, knows no backslash before them.
_HTML = re.compile(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)")
_ENTITIES = {"<": "&lt;", "&": "&amp;"}
_MARKUP = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#~$"})
_LINK = re.compile(r"(?<=\w):(?=//)|(?<=www)\.", re.IGNORECASE)  # GitHub makes links of bare addresses
_LIST = re.compile(r"(\d{0,9})([-+=](?=[-=\s]|\Z)|(?<=\d)[.)](?=\s|\Z))")
_BACKTICKS = re.compile("`+")


def cell(text: str) -> str:
  """Returns a text on one line, escaped, for a cell of a table or the middle of a line."""
  pieces, end = [], 0
  line = " ".join(text.split())
  for match in _HTML.finditer(line):
    pieces += [line[end : match.start()].translate(_MARKUP), _ENTITIES[match[0]]]
    end = match.end()
  return _LINK.sub(r"\\\g<0>", "".join([*pieces, line[end:].translate(_MARKUP)]))


def text(text: str) -> str:
  """Returns a text on one line, escaped, for the beginning of a line, a title or an item, where lists may begin."""
  line = cell(text)
  begin = _LIST.match(line)
  return f"{begin[1]}\\{line[begin.start(2) :]}" if begin else line


def code(text: str) -> str:
  """Returns a text as a span of code on one line, between more backticks than it has in a row; "" for none."""
  line = " ".join(text.splitlines())
  fence = "`" * (1 + max(map(len, _BACKTICKS.findall(line)), default=0))
  # A renderer takes away a space at both ends, unless there is nothing else.
  space = " " if line.strip() and (line[0] in "` " or line[-1] in "` ") else ""
  return f"{fence}{space}{line}{space}{fence}" if line else ""
