import shutil

import pytest

from tests.scoring import human_captions
from xmcap.errors import XmcapError
from xmcap.scoring import tokenizers

_ODD = [
  "",
  " ",
  "\n",
  "A dog\non two\n\nlines.",
  'She said "Don\'t!" and left…',
  "It’s a ‘quoted’ “word”",
  "cost: $5.50 (50%) -- half; [half] {half}",
  "1\u00a01/2 cups\u00a0of milk",
  "at 5 p.m. in the U.S.",
  "caf\u00e9 \u00df \u4e2d\u6587 \U0001f600",
  "soft\u00adhyphen zero\u200bwidth \ufefffirst",
  "NUL \x00 and \x1a and \x85",
  "AT&T &amp; http://example.com/a?b=c a@b.com",
  "the dogs' o'clock gonna can't 'tis",
  "last",
]


@pytest.fixture
def ptb():
  pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer", reason="pip install pycocoevalcap")
  if not shutil.which("java"):
    pytest.skip("no Java")
  return tokenizers.get("ptb", "en")


def _expected(texts):
  """pycocoevalcap 1.2: `PTBTokenizer`, which writes into its package's folder."""
  from pycocoevalcap.tokenizer import ptbtokenizer

  try:
    words = ptbtokenizer.PTBTokenizer().tokenize({0: [{"caption": text} for text in [*texts, "end"]]})[0]
  except PermissionError:
    pytest.skip("pycocoevalcap's folder cannot be written")
  return [caption.split() for caption in words[:-1]]


def test_odd_captions_equal_pycocoevalcap(ptb):
  assert ptb.tokenize(_ODD) == _expected(_ODD)


@pytest.mark.full  # the odd captions have all that these have
@human_captions.needs_captions
def test_real_captions_equal_pycocoevalcap(ptb):
  texts = [text for n in range(1, 6) for text in human_captions.multi30k(f"task2_test_2016.{n}.en")]
  assert ptb.tokenize(texts) == _expected(texts)


def test_ptb_tokenizer_keeps_captions_apart_for_every_character(ptb):
  texts = [f"a{chr(code)}b" for code in (*range(0xD800), *range(0xE000, 0x10000), 0x1F600, 0x10FFFF)]
  words = ptb.tokenize(texts)
  assert len(words) == len(texts)
  assert words[ord(",")] == words[ord("\r")] == words[0x2028] == ["a", "b"]


def test_ptb_tokenizer_words_are_independent_of_the_next_caption(ptb):
  first, _, second, _ = ptb.tokenize(["in group B.", "The dog", "in group B.", "two dogs"])
  assert first == second == ["in", "group", "b"]


def test_no_captions_need_no_java(monkeypatch):
  monkeypatch.setenv("PATH", "")
  assert tokenizers.get("ptb", "en").tokenize([]) == []


def test_the_version_names_jar_and_package(ptb):
  assert ptb.version == "1.stanford-corenlp-3.4.1.pycocoevalcap-1.2"


def test_ptb_tokenizer_ignores_the_language(ptb):
  texts = ["Ein Hund.", "สุนัขวิ่ง", "狗 B."]
  assert tokenizers.get("ptb", "th").tokenize(texts) == ptb.tokenize(texts)


def test_missing_java_says_what_to_install(ptb, monkeypatch):
  monkeypatch.setenv("PATH", "")
  with pytest.raises(XmcapError, match="needs Java.*install a Java runtime"):
    ptb.tokenize(["a"])


def test_missing_package_says_what_to_install(monkeypatch):
  monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
  with pytest.raises(XmcapError, match=r"pip install '\.\[ptb\]'"):
    tokenizers.get("ptb", "en").tokenize(["a"])


def test_java_that_fails_is_one_line(ptb, monkeypatch, tmp_path):
  (tmp_path / "java").write_text("#!/bin/sh\nprintf 'Error: no main class\\nCaused by: x\\n' >&2\nexit 1\n")
  (tmp_path / "java").chmod(0o755)
  monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
  with pytest.raises(XmcapError, match=r"^[^\n]*status 1 \(Error: no main class Caused by: x\)[^\n]*$"):
    ptb.tokenize(["a"])
