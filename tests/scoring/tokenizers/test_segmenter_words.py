"""Words of segmenters, which load the entries of dictionaries that texts need, are those of the packages with all."""

import itertools
import random
import re

import pytest

from xmcap.scoring import tokenizers
from xmcap.scoring.tokenizers import segmenters
from xmcap.scoring.tokenizers.segmenters import MAX_RUN

_FAST, _FULL = 300, 34_000  # captions in each of the three languages


def _alone(language, texts):
  """Calls jieba 0.42.1, fugashi 1.5.2 with unidic-lite 1.0.8 or pythainlp 5.4.0 on texts in lower case."""
  if language == "zh":
    import jieba

    return [[word for word in jieba.cut(text) if word.strip()] for text in texts]
  if language == "ja":
    import fugashi
    import unidic_lite

    tagger = fugashi.Tagger(f'-r "{unidic_lite.DICDIR}/mecabrc" -d "{unidic_lite.DICDIR}"')
    return [[word.surface for word in tagger(text)] for text in texts]
  from pythainlp.tokenize import word_tokenize

  pieces = [text.split() for text in texts]
  return [
    list(itertools.chain.from_iterable(word_tokenize(p, engine="newmm") for p in parts)) for parts in pieces
  ]


def _dictionary(language):
  """Returns words of the language in their usual form, from what the packages hold."""
  if language == "zh":
    import jieba

    words = [line.split()[0] for line in jieba.get_dict_file().read().decode().splitlines()]
    pattern = r"[\u4e00-\u9fa5]+"
  elif language == "ja":
    words = _JAPANESE.split()
    pattern = r"[\u3041-\u30ff\u3400-\u9fff々]+"
  else:
    from pythainlp import corpus

    words = [*corpus.thai_words(), *corpus.countries(), *corpus.thai_family_names()]
    pattern = r"[ก-ฺเ-๎]+"
  # Dictionaries hold a few words with marks in an order that Unicode changes; those are not in the usual form.
  import unicodedata

  usual = [word for word in words if re.fullmatch(pattern, word) and unicodedata.is_normalized("NFC", word)]
  return sorted(
    {word for word in usual if language != "th" or not re.search("[\u0e31-\u0e3a\u0e47-\u0e4e]{3}", word)}
  )


_JAPANESE = """
展示 場 に 並ぶ 銀色 の 古い 車 犬 が 走っ て いる 白い 猫 ソファー テーブル 上 置か れ た 皿 料理 人 々 通り を 歩い
青い 空 海 岸 子供 たち 公園 遊ん で 女性 傘 持っ 立っ 男性 自転車 乗っ 赤い 花 瓶 電車 駅 ホーム 停まっ 山 雪 覆わ
スキー を する ガラス パソコン キーボード ベッド 眠っ ピザ ケーキ ろうそく サーフィン 波 飛行機 滑走路 鳥 枝 止まっ
は も と から まで へ です ます だ 時計 塔 建物 前 後ろ 隣 大きな 小さな 二 三 匹 頭 人 本 枚 台
"""


def _captions(language, count):
  rng, words = random.Random(7), _dictionary(language)
  ends = {"zh": "，。", "ja": "、。", "th": " "}[language]
  for _ in range(count):
    phrases = ["".join(rng.choices(words, k=rng.randint(2, 7))) for _ in range(rng.randint(1, 3))]
    text = rng.choice(ends).join(phrases)
    yield text if rng.random() < 0.9 else f"{text} Porsche 911"


def _pieces(language, count):
  """Words and single characters in any order, some of which end in the middle of a word."""
  rng, words = random.Random(0), _dictionary(language)
  characters = sorted({character for word in words[::50] for character in word})
  for _ in range(count):
    parts = rng.choices(words, k=rng.randint(0, 6)) + rng.choices(characters, k=rng.randint(0, 6))
    rng.shuffle(parts)
    yield "".join(parts)[: rng.randint(0, 30)]


def _check(language, count):
  texts = list(_captions(language, count))
  plain = [re.sub("[，。、]", " ", text).lower() for text in texts]
  assert max(map(len, texts)) < MAX_RUN
  found, wanted = tokenizers.get("default", language).tokenize(texts), _alone(language, plain)
  differing = [(text, a, b) for text, a, b in zip(texts, found, wanted, strict=True) if a != b]
  assert differing == []


@pytest.mark.parametrize("language", ["zh", "ja", "th"])
def test_default_tokenizer_words_equal_the_segmenter(language):
  _check(language, _FAST)


@pytest.mark.parametrize("language", ["zh", "th"])
def test_segmenter_words_equal_the_package_with_its_whole_dictionary(language):
  texts = list(_pieces(language, 400))
  segment = segmenters.load(language)
  # The first texts bring the words that they need, the next bring all the others.
  assert segment(texts[:0]) + segment(texts[:50]) + segment(texts[50:]) == _alone(language, texts)


@pytest.mark.full
@pytest.mark.parametrize("language", ["zh", "ja", "th"])
def test_default_tokenizer_words_equal_the_segmenter_on_102_000_captions(language):
  _check(language, _FULL)


def test_thai_words_are_the_same_after_nfkc():
  import unicodedata

  texts = list(_captions("th", 300))
  tokenize = tokenizers.get("default", "th").tokenize
  assert sum("ำ" in text for text in texts) > 30
  assert tokenize([unicodedata.normalize("NFKC", text) for text in texts]) == tokenize(texts)
