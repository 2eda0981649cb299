"""Captions of one character, over and over: words are found in seconds, and those of ordinary text stay what they were.

The limits of time are ten times what it takes on two busy cores; without the bounds each takes minutes.
"""

import json
import os
import pathlib
import random
import time
import unicodedata

import pytest

from xmcap.scoring import tokenizers
from xmcap.scoring.tokenizers import normalization, segmenters

_LENGTH = 100_000
_SECONDS = 60
_SHARED = pathlib.Path(os.environ.get("XMCAP_SHARED", "../shared"))


@pytest.mark.parametrize("language, unit", [
  ("zh", "龘"), ("zh", "的是"), ("zh", "a哈"), ("ja", "ー"), ("ja", "ア"), ("ja", "ก"), ("th", "ー"),
  ("th", "\u0301\u0316"), ("en", "\u0301\u0316"), ("en", " "), ("en", "a."),
])  # fmt: skip
def test_a_run_of_100_000_characters_takes_seconds(language, unit):
  tokenizer = tokenizers.get("default", language)
  tokenizer.tokenize(["x"])  # loads what it needs
  start = time.monotonic()
  words = tokenizer.tokenize([(unit * _LENGTH)[:_LENGTH]])[0]
  assert time.monotonic() - start < _SECONDS
  given = normalization.Normalizer(language)([(unit * _LENGTH)[:_LENGTH]])[0]
  assert "".join(words) == "".join(given.split())


def test_combining_marks_are_normalised_in_seconds():
  start = time.monotonic()
  assert len(tokenizers.get("char", "en")("\u0301\u0316" * (_LENGTH // 2))) == _LENGTH
  assert time.monotonic() - start < _SECONDS


@pytest.mark.parametrize("count", [1, 999, 1000])
def test_marks_up_to_the_limit_are_as_unicode_has_them(count):
  text = ("a" + "\u0301\u0316" * count)[: count + 1] + "e\u0301 ﬁ" * 900
  assert normalization.nfkc(text) == unicodedata.normalize("NFKC", text)


def test_a_run_up_to_the_limit_is_not_split():
  for length in (999, 1000):
    text = f"{'a' * length} {'b' * length}"
    assert segmenters._bounded(text) == text
  assert segmenters._bounded("a" * 2001) == f"{'a' * 1000} {'a' * 1000} a"


def _texts() -> list[str]:
  """Real captions where there are any, and random text of the characters of their languages."""
  texts = [
    "一只狗在红色的房子旁边跑",
    "龘靐齉齾 我来到北京清华大学",
    "他来到了网易杭研大厦",
    "a哈b哈1%2.5哈哈哈哈",
  ]
  release = _SHARED / "xm3600_sample" / "captions.jsonl"
  if release.exists():
    for line in release.read_text(encoding="utf-8").splitlines():
      texts += [text for code in ("zh", "ja") for text in json.loads(line)[code]["caption"]]
  coco = _SHARED / "coco_cn"
  if coco.exists():
    for name in ("merged_captions_coco-cn_test.json", "result_coco-cn.txt", "result_coco-mt.txt"):
      texts.append((coco / name).read_text(encoding="utf-8"))
  draw = random.Random(0)
  for _ in range(300):
    pool = [chr(draw.randrange(0x4E00, 0x9FA6)) for _ in range(draw.randint(1, 30))] + list("的一是了a1. ")
    texts.append("".join(draw.choices(pool, k=draw.randint(1, 300))))
  return texts


def test_the_words_of_jieba_are_those_of_its_own_search(monkeypatch):
  # jieba 0.42.1; its own search is read from a second copy of the module.
  import importlib.util

  import jieba.finalseg

  spec = importlib.util.spec_from_file_location(
    "jieba.finalseg", jieba.finalseg.__file__, submodule_search_locations=[]
  )
  own = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(own)
  texts = _texts()
  tokenizer = tokenizers.get("default", "zh")
  found = tokenizer.tokenize(texts)
  assert jieba.finalseg.viterbi is not own.viterbi
  monkeypatch.setattr(jieba.finalseg, "viterbi", own.viterbi)
  assert found == tokenizer.tokenize(texts)
