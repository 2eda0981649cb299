"""What the policy of a page has to say about its style sheets and scripts, from the page's text."""

import base64
import hashlib
import html.parser


class _Inline(html.parser.HTMLParser):
  def __init__(self, text):
    super().__init__()
    self.found, self._name = {"style": [], "script": []}, None
    self.feed(text)
    self.close()

  def handle_starttag(self, tag, attrs):
    assert not [name for name, _ in attrs if name == "style" or name.startswith("on")]
    # A script with such a type is data, which the browser does not run.
    self._name = tag if tag in self.found and "type" not in dict(attrs) else None

  def handle_data(self, data):
    if self._name:
      self.found[self._name].append(data)

  def handle_endtag(self, tag):
    self._name = None


def by_hash(text: str) -> str:
  """The directives that allow what a page holds, and nothing else."""
  parts = []
  for name, found in _Inline(text).found.items():
    hashes = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in found]
    if hashes:
      parts.append(f"{name}-src " + " ".join(f"'sha256-{one}'" for one in hashes))
  return "; ".join(parts)
