import contextlib
import io
import random
import shutil
import unicodedata

import pytest

from tests.make.refusals import refusal
from xmcap.errors import XmcapError
from xmcap.scoring import score, tokenizers
from xmcap.scoring.tokenizers import spacy_words

_ENDS = [
  "",
  ".",
  "!",
  " B.",
  " etc.",
  " U.S.",
  " p.m.",
  "\u3002",
  "\u0964",
  ")",
  '"',
  " 3.5",
  "\n",
  " St.",
  " A",
]
_WORDS = {
  "en": ["a", "dog", "The", "group", "don't", "(half)", "$5"],
  "ru": ["собака", "Дом", "на", "г.", "Л."],
  "th": ["สุนัข", "วิ่ง", "บน", "น้ำ"],
  "zh": ["狗", "两只猫", "红色", "LED"],
}


@pytest.fixture
def java():
  pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer", reason="pip install pycocoevalcap")
  if not shutil.which("java"):
    pytest.skip("no Java")


def _captions(images=25):
  draw = random.Random(3)

  def caption(code):
    text = " ".join(draw.choices(_WORDS[code], k=draw.randint(1, 5)))
    return (text.capitalize() if draw.random() < 0.3 else text) + draw.choice(_ENDS)

  keys = [f"{draw.getrandbits(64):016x}" for _ in range(images)]
  references = {
    key: {code: [caption(code) for _ in range(draw.randint(1, 4))] for code in _WORDS} for key in keys
  }
  return references, {key: {code: caption(code) for code in _WORDS} for key in keys}


def test_temporary_folder_with_a_space_and_foreign_letters(java, tmp_path, monkeypatch):
  folder = tmp_path / "tmp \u00fc \u5b57 'x"
  folder.mkdir()
  monkeypatch.setattr("tempfile.tempdir", str(folder))
  monkeypatch.setenv("LC_ALL", "C")
  assert tokenizers.get("coco", "en").tokenize(["A dog.", "Two Cats"]) == [["a", "dog"], ["two", "cats"]]


def test_temporary_folder_that_cannot_be_written_is_one_line(java, tmp_path, monkeypatch):
  (tmp_path / "file").touch()
  monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
  message = refusal(tokenizers.get("coco", "en").tokenize, ["A dog."], error=XmcapError)
  assert message.startswith("tokeniser 'coco': no temporary file can be written ")


@pytest.mark.parametrize(
  "code", ["en", *(pytest.param(code, marks=pytest.mark.full) for code in ("ru", "th", "zh"))]
)
def test_the_protocol_of_paligemma_equals_pycocoevalcap(java, code):
  """pycocoevalcap 1.2: `PTBTokenizer` on references and predictions in the order of the file, then `Cider`."""
  from pycocoevalcap.cider.cider import Cider
  from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

  references, predictions = _captions()
  result = score(references, predictions, [code], protocol="paligemma", keep="words")
  held = {key: [{"caption": text} for text in of_image[code]] for key, of_image in references.items()}
  predicted = {key: [{"caption": of_image[code]}] for key, of_image in predictions.items()}
  try:
    with contextlib.redirect_stdout(io.StringIO()):
      held, predicted = PTBTokenizer().tokenize(held), PTBTokenizer().tokenize(predicted)
  except PermissionError:
    pytest.skip("pycocoevalcap's folder cannot be written")
  words = result.words[code]
  for key, hypothesis, of_image in zip(
    result.statistics[code].keys, words.hypotheses, words.references, strict=True
  ):
    assert hypothesis.split() == predicted[key][0].split()
    assert [text.split() for text in of_image] == [text.split() for text in held[key]]
  assert result.table.rows[code]["cider_d"] == pytest.approx(
    Cider().compute_score(held, predicted)[0], abs=1e-9
  )


def test_coco_tokenizer_words_depend_on_the_order_of_captions(java):
  references = {"a": {"en": ["in group B."]}, "b": {"en": ["The dog"]}, "c": {"en": ["two dogs"]}}
  predictions = {key: {"en": held["en"][0]} for key, held in references.items()}
  first = score(references, predictions, tokenizer="coco", keep="words")
  swapped = score({key: references[key] for key in "acb"}, predictions, tokenizer="coco", keep="words")
  assert first.words["en"].references[0] == ("in group b",)
  assert swapped.words["en"].references[0] == ("in group b.",)
  order = [
    next(part for part in r.table.signature.split("|") if part.startswith("order:")) for r in (first, swapped)
  ]
  assert order[0] != order[1]


def test_batches_and_empty_captions(java):
  words = tokenizers.get("coco", "en")
  assert words.together(["", "A dog.", "", ""], [["x"], ["y", ""], [""], [""]]) == (
    [[], ["a", "dog"], [], []],
    [[["x"]], [["y"], []], [[]], [[]]],
  )
  assert words.tokenize([""]) == [[]] and words.tokenize([]) == []


# spaCy 3.8.18, with sudachipy 0.7.0, SudachiDict-core 20261015 and pythainlp 5.4.0; spaces of its Thai left out.
_SPACY = {
  "zh": ("一只 LED狗,在跑。3.5米", "一 只 L E D 狗 , 在 跑 。 3 . 5 米"),
  "ja": (
    "砂浜を走る 犬。国家公務員が LEDライトを見る",
    "砂浜 を 走る 犬 。 国家 公務 員 が LED ライト を 見る",
  ),
  "th": ("สุนัข 2 ตัว วิ่งบนหาดทราย 1,234.5 บาท", "สุนัข 2 ตัว วิ่ง บน หาดทราย 1,234.5 บาท"),
}


@pytest.mark.parametrize("code", _SPACY)
def test_words_are_those_of_spacy(code):
  if code == "ja":
    pytest.importorskip("sudachipy")
  text, expected = _SPACY[code]
  assert " ".join(spacy_words.load(code)(text)).split() == expected.split()


def test_mblip_splits_then_composes_then_calls_ptb(java):
  words = tokenizers.get("coco_spacy", "zh")
  assert words("两只猫，在 A点。") == ["两", "只", "猫", "，", "在", "a", "点", "。"]
  assert tokenizers.get("coco_spacy", "fr")(unicodedata.normalize("NFD", "Un café.")) == ["un", "caf\u00e9"]


def test_xm100_drops_spaces_of_chinese_predictions_only(java):
  words = tokenizers.get("coco_xm100", "zh")
  assert words.together(["两 只  猫"], [["两 只 猫"]]) == ([["两只", "猫"]], [[["两", "只", "猫"]]])


def test_versions_name_the_word_splitter(monkeypatch):
  assert tokenizers.get("coco_spacy", "th").version.endswith(".spacy-th.pythainlp-5.4.0")
  assert tokenizers.get("coco_spacy", "zh").version.endswith(".spacy-zh.characters")
  assert tokenizers.get("coco_spacy", "de").version == tokenizers.get("coco", "de").version


def test_missing_sudachi_says_what_to_install(monkeypatch):
  monkeypatch.setitem(__import__("sys").modules, "sudachipy", None)
  with pytest.raises(
    XmcapError, match=r"spaCy's words for 'ja' need sudachipy.*pip install '\.\[protocols\]'"
  ):
    spacy_words.load("ja")
