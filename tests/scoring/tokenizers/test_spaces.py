import pytest

from xmcap.scoring import tokenizers
from xmcap.scoring.tokenizers import spaces


@pytest.mark.parametrize(
  "text, wanted",
  [
    ("女 人 坐 在 沙滩", "女人坐在沙滩"),
    ("一台 iPhone 13 手机 。", "一台 iPhone 13 手机。"),
    ("red car  2 0", "red car  2 0"),
    ("展示場\n に\t並ぶ", "展示場に並ぶ"),
    ("大きな犬\u3000白い猫", "大きな犬\u3000白い猫"),  # written on purpose, as a comma is
    ("ร ถ แ ข ่ ง", "รถแข่ง"),
    ("๑ ๒ ตัว", "๑ ๒ ตัว"),
    ("고양이 가", "고양이 가"),
    (" 猫 ", " 猫 "),
  ],
)
def test_joined_removes_spaces_between_characters(text, wanted):
  assert spaces.joined(text) == wanted


@pytest.mark.parametrize(
  "language, text",
  [
    ("zh", "女人坐在沙滩的椅子上"),
    ("ja", "展示場に並ぶ、銀色の古い車。"),
    ("th", "รถแข่งโบราณสีดำจอดอยู่ในน้ำ"),
    ("lo", "ໝາສີດຳນັ່ງຢູ່"),
    ("km", "ឆ្កែពណ៌ខ្មៅ"),
    ("my", "ခွေးအနက်"),
    ("yue", "一隻狗喺度"),
  ],
)
def test_spaces_between_characters_decide_nothing(language, text):
  tokenizer = tokenizers.get("default", language)
  words = tokenizer(text)
  assert len(words) > 2
  assert tokenizer(" ".join(text)) == tokenizer(" ".join(words)) == words


def test_thai_spaces_between_phrases_stay():
  # newmm of pythainlp 5.4.0 on each phrase; without the space it finds one word, ตาแดง.
  tokenizer = tokenizers.get("default", "th")
  assert tokenizer("แมวมีตา แดงและขาว") == ["แมว", "มี", "ตา", "แดง", "และ", "ขาว"]
  assert "ตาแดง" in tokenizer("แมวมีตาแดงและขาว")
  assert tokenizer("เด็กเล่นของเล่นต่าง ๆ") == ["เด็ก", "เล่น", "ของเล่น", "ต่าง", "ๆ"]


def test_words_of_scripts_without_a_segmenter_are_characters():
  assert tokenizers.get("default", "yue")("一隻 dog, 喺度") == ["一", "隻", "dog", "喺", "度"]
  assert tokenizers.get("default", "km").version.endswith("-graphemes")


def test_split_and_whitespace_tokenizers_keep_spaces():
  for name in ("split", "whitespace"):
    assert tokenizers.get(name, "zh")("沙滩 的 椅子") == ["沙滩", "的", "椅子"]
  assert tokenizers.get("given", "zh").tokenize_references(["沙滩的"], ["沙滩 的"]) == [["沙滩", "的"]]
  assert tokenizers.get("char", "zh")("沙滩 的") == tokenizers.get("char", "zh")("沙滩的")
