"""The tags, the text and the scripts of a page."""

import html.parser
import pathlib


class Markup(html.parser.HTMLParser):
  """`tags`: (name, attributes) of all; `open`: those without an end; `text`: what is shown; `scripts`: their texts."""

  _VOID = {"meta", "img", "input", "wbr"}

  def __init__(self, path: pathlib.Path):
    super().__init__()
    self.tags, self.open, self.text, self.scripts = [], [], "", []
    self.feed(path.read_text(encoding="utf-8"))
    self.close()

  def handle_starttag(self, tag, attrs):
    self.tags.append((tag, dict(attrs)))
    if tag not in self._VOID:
      self.open.append(tag)
    if tag == "script":
      self.scripts.append("")

  def handle_startendtag(self, tag, attrs):
    self.tags.append((tag, dict(attrs)))

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_data(self, data):
    if self.open and self.open[-1] == "script":
      self.scripts[-1] += data
    elif self.open and self.open[-1] != "style":
      self.text += data
