import os
import subprocess
import sys

import hypothesis
import hypothesis.strategies as st
import pytest

from tests.make.refusals import refusal
from xmcap.errors import XmcapError
from xmcap.scoring import tokenizers
from xmcap.scoring.tokenizers import Default, normalization, segmenters


def _words(language, text):
  return tokenizers.get("default", language)(text)


@pytest.mark.parametrize(
  "language, text, words",
  [
    ("en", "A ski-doo, “RED”; the dog's (old)…", ["a", "ski", "doo", "red", "the", "dog", "s", "old"]),
    ("en", "ＡＢＣ ﬁne ½ x²", ["abc", "fine", "1", "2", "x2"]),  # NFKC; the fraction slash is a symbol
    ("en", "red heart ❤️ + $5 © 😀", ["red", "heart", "5"]),
    ("en", "a\tb\nc\u00a0d\u3000e\x00f", ["a", "b", "c", "d", "e", "f"]),
    ("fr", "L'auto d’époque", ["l", "auto", "d", "époque"]),
    ("uk", "М'яч і м’яч", ["мяч", "і", "мяч"]),
    ("quz", "q'illu", ["qillu"]),
    ("he", 'צה״ל \u200fצה"ל', ["צהל", "צהל"]),
    ("fa", "\u200fمی\u200cشود", ["میشود"]),
    ("hi", "सफ़ेद फर्श।", ["सफ़ेद", "फर्श"]),  # marks stay, the danda goes
    ("tr", "IŞIK İyi", ["ışık", "iyi"]),
    ("es", "IÑIGO", ["iñigo"]),
    ("el", "ΟΔΟΣ", ["οδος"]),
    ("te", "", []),
    ("ko", " ... ", []),
  ],
)
def test_default_tokenizer_words(language, text, words):
  assert _words(language, text) == words


@pytest.mark.parametrize(
  "language, text, words",
  [
    # jieba 0.42.1, default mode; fugashi 1.5.2 with unidic-lite 1.0.8; pythainlp 5.4.0, newmm
    ("zh", "一辆银色的老式跑车，停在展厅里。", "一辆 银色 的 老式 跑车 停 在 展厅 里"),
    ("ja", "展示場に並ぶ、銀色の古い車。", "展示 場 に 並ぶ 銀色 の 古い 車"),
    ("th", "รถแข่งโบราณ สีเงินจอดอยู่ใน Porsche", "รถแข่ง โบราณ สี เงิน จอด อยู่ ใน porsche"),
  ],
)
def test_default_tokenizer_words_of_segmenters(language, text, words):
  assert _words(language, text) == words.split()


@pytest.mark.parametrize("language, packages", [("zh", "jieba-"), ("ja", "fugashi-"), ("th", "pythainlp-")])
def test_version_names_the_segmenter(language, packages):
  assert packages in tokenizers.get("default", language).version
  assert packages not in tokenizers.get("default", "en").version


def test_segmenters_need_no_home(tmp_path):
  (tmp_path / "file").write_text("")
  script = (
    "from xmcap.scoring.tokenizers import segmenters\n"
    "for code in segmenters.SEGMENTERS: segmenters.load(code)(['a'])"
  )
  environment = {**os.environ, "HOME": str(tmp_path / "file")}
  subprocess.run([sys.executable, "-c", script], env=environment, check=True)


def test_missing_segmenter_says_what_to_install(monkeypatch):
  monkeypatch.setitem(sys.modules, "jieba", None)
  assert "pip install jieba" in refusal(segmenters.load, "zh", error=XmcapError)


@hypothesis.settings(max_examples=100, database=None)
@hypothesis.given(
  st.sampled_from(["en", "tr", "el", "uk", "ar", "hi"]),
  st.lists(
    st.text(st.one_of(st.characters(), st.sampled_from("aIİΣσ '\u0301\u00a0\ufdfa\u200d\0\n-")), max_size=12)
  ),
)
def test_default_tokenizer_words_equal_the_normalized_caption(language, texts):
  expected = [normalization.Normalizer(language)([text])[0].split() for text in texts]
  tokenizer = Default(language)
  assert tokenizer.tokenize(texts) == expected
  assert tokenizer.words(texts).captions() == expected
