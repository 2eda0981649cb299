"""CC-CEDICT: which Chinese word translates an English one."""

import pytest

from tests.corpora.emoji import cedict_text
from xmcap.corpora.emoji import cedict
from xmcap.errors import UsageError, XmcapError


@pytest.fixture
def read(tmp_path, monkeypatch):
  monkeypatch.setattr(
    cedict, "_frequencies", lambda: {"狗": 100, "犬": 20, "向": 5_000, "脸": 300, "史": 10**6}
  )
  return cedict.read(cedict_text.write(tmp_path))


@pytest.mark.parametrize(
  ("gloss", "word"),
  [
    ("dog", "狗"),  # the more frequent
    ("thing", "东西"),  # the first in the file among equals
    ("object", "物"),  # the second sense of both, though one is the second gloss of a sense
    ("face", "脸"),  # a noun before a far more frequent verb, and no surname
    ("warm up", "热"),
    ("look", "脸"),
    ("hot dog", "热狗"),  # by its second sense, as the first is marked as a loanword
  ],
)
def test_cedict_word_of_a_gloss(read, gloss, word):
  assert read[gloss] == word


def test_cedict_omits_measure_words_variants_and_remarks(read):
  assert not [gloss for gloss in read if "variant" in gloss or "(" in gloss or "cl:" in gloss]


def test_cedict_without_entries_is_refused(tmp_path, monkeypatch):
  monkeypatch.setattr(cedict_text, "LINES", "# nothing\n")
  with pytest.raises(XmcapError, match=r"cedict\.txt\.gz has no entries"):
    cedict.read(cedict_text.write(tmp_path))


def test_damaged_cedict_is_refused(tmp_path):
  (tmp_path / "cedict.txt.gz").write_bytes(b"not gzip")
  with pytest.raises(XmcapError, match=r"cannot read .*cedict\.txt\.gz"):
    cedict.read(tmp_path / "cedict.txt.gz")


def test_missing_cedict_package_names_the_extra(monkeypatch):
  monkeypatch.setattr(cedict, "_PACKAGE", "no_such_package")
  with pytest.raises(UsageError, match=r"pip install '\.\[emoji\]'"):
    cedict.find()


def test_jieba_word_frequencies_are_read():
  assert cedict._frequencies()["狗"] > 0
