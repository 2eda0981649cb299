"""Reads references and their images from records that `xmcap data build` wrote."""

from collections.abc import Sequence

from xmcap.data.records import MACHINE, RecordSource
from xmcap.errors import XmcapError
from xmcap.reading.references import References


class RecordReferences:
  """The captions of a split as `references`, and the `tags` of its images by language; () means all.

  All records are read once; images are read again on request. The order is that of the records.

  Raises:
    UsageError: there is no such split.
    XmcapError: a record is damaged, or two have the same key.
  """

  def __init__(self, directory: str, split: str, languages: Sequence[str] = (), sources: Sequence[str] = ()):
    self._source = RecordSource(directory, split)
    self._positions: dict[str, int] = {}
    captions: dict[str, dict[str, list[str]]] = {}
    locales = {}
    total, machine = 0, 0
    self.tags: dict[str, dict[str, list[str]]] = {}
    for position, record in enumerate(self._source):
      if record.key in self._positions:
        raise XmcapError(
          f"{directory}, split '{split}': two records have the key {record.key}: build the corpus again"
        )
      self._positions[record.key] = position
      by_language: dict[str, list[str]] = {}
      for caption in record.captions:
        if (not languages or caption.language in languages) and (not sources or caption.source in sources):
          by_language.setdefault(caption.language, []).append(caption.text)
          total, machine = total + 1, machine + (caption.source == MACHINE)
      if by_language:
        captions[record.key], locales[record.key] = by_language, record.locale
        self.tags[record.key] = record.tags_by_language
    note = f"{machine:,} of {total:,} references are machine translations"
    self.references = References(captions, locales, notes=[note] if machine else [])

  def read(self, key: str) -> bytes:
    """The bytes of an image."""
    return self._source.read([self._positions[key]])[0].image
