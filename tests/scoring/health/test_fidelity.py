import itertools

import numpy as np
import pytest

from tests.scoring import human_captions
from xmcap.scoring import score
from xmcap.scoring.health import Vocabularies, fidelity
from xmcap.scoring.health.fidelity import Verdict

_NO_REFERENCES = Vocabularies.of({})
# Made up; no identifier knows it.
_MAORI = ["he kuri pango kei te oma i te tahatai", "e rua nga ngeru e moe ana i runga i te hopa whero"] * 40
_ENGLISH = ["a black dog is running on the beach", "two cats are asleep on the red sofa"] * 40


def _judge(language, *captions, known=_NO_REFERENCES):
  return [Verdict(verdict).name.lower() for verdict in fidelity.judge(language, captions, known)]


def test_fidelity_by_the_identifier_without_references():
  captions = ["A black dog runs on the beach", "Ein schwarzer Hund läuft am Strand entlang", "42!", ""]
  assert _judge("de", *captions) == ["wrong", "right", "no_letters", "no_letters"]
  assert _judge("en", *captions) == ["right", "wrong", "no_letters", "no_letters"]


def test_fidelity_of_another_script():
  assert _judge("ru", "a dog", "пёс") == ["wrong", "right"]
  assert _judge("el", "a dog", "σκύλος") == ["wrong", "right"]


def test_fidelity_of_latin_names_among_few_own_letters():
  assert _judge("th", "Coca-Cola บนโต๊ะ", "Coca-Cola Company and friends บน") == ["undecided", "wrong"]


@pytest.mark.parametrize(
  "caption", ["一只棕色的狗在沙滩上奔跑", "sunahama o hashiru inu", "fruit on a table"]
)
def test_fidelity_of_chinese_english_and_romaji_for_japanese(caption):
  assert _judge("ja", caption, "木のテーブルの上の果物") == ["wrong", "right"]


def test_fidelity_of_japanese_for_chinese():
  assert _judge("zh", "赤いソファで眠る二匹の猫たち") == ["wrong"]


def test_fidelity_by_words_of_references():
  captions = ["he ngeru pango kei runga i te hopa", "two black cats on the beach", "xylofon"]
  assert _judge("mi", *captions, known=Vocabularies.of({"mi": _MAORI})) == ["right", "wrong", "undecided"]
  known = Vocabularies.of({"mi": _MAORI, "en": _ENGLISH})
  assert _judge("mi", *captions, known=known)[:2] == ["right", "wrong"]
  assert _judge("en", *captions, known=known)[:2] == ["wrong", "right"]


def test_fidelity_of_an_unsupported_language_is_undecided():
  assert _judge("mi", _MAORI[0], _ENGLISH[0]) == ["undecided", "undecided"]


def test_fidelity_of_short_captions_by_references():
  danish = ["pilen peger ned og hunden løber", "en bil og en pil ned", "to æbler og en hund"] * 30
  norwegian = ["pilen peker ned og hunden løper", "en bil og en pil ned", "to epler og en hund"] * 30
  known = Vocabularies.of({"da": danish, "no": norwegian})
  assert _judge("da", "to æbler", "to epler", known=known) == ["right", "wrong"]
  assert _judge("no", "to epler", "to æbler", known=known) == ["right", "wrong"]


def test_fidelity_does_not_tell_variants_of_a_language_apart():
  brazilian = ["um trem e um ônibus na cidade"] * 100
  portuguese = ["um comboio e um autocarro na cidade"] * 100
  known = Vocabularies.of({"pt": portuguese, "pt-BR": brazilian})
  assert _judge("pt", "um trem e um ônibus", known=known) == ["right"]


def test_fidelity_of_a_reference_leaves_it_out():
  odd = "qwrt zxcv plmk hgfd"
  known = Vocabularies.of({"mi": [*_MAORI, odd]})
  assert fidelity.judge("mi", known.samples["mi"], known, are_references=True)[-1] == Verdict.WRONG
  assert fidelity.judge("mi", known.samples["mi"], known)[-1] == Verdict.RIGHT


def test_fidelity_share_wrong_and_undecided():
  verdicts = np.array([Verdict.WRONG, Verdict.RIGHT, Verdict.RIGHT, Verdict.UNDECIDED, Verdict.NO_LETTERS])
  assert fidelity.share_wrong(verdicts) == 1 / 3
  assert fidelity.share_undecided(verdicts) == 1 / 4
  assert fidelity.share_wrong(verdicts[3:]) is fidelity.share_undecided(verdicts[4:]) is None


@human_captions.needs_captions
def test_fidelity_of_multi30k_captions():
  texts = {
    code: human_captions.multi30k(f"task1_test_2016_flickr.{code}") for code in ("cs", "de", "en", "fr")
  }
  known = Vocabularies.of({code: captions[::4] for code, captions in texts.items()})
  for code, other in itertools.product(texts, texts):
    wrong = fidelity.share_wrong(fidelity.judge(code, texts[other][1::10], known))
    assert wrong == (code != other), (code, other)


@human_captions.needs_captions
def test_fidelity_of_xm3600_captions_in_36_languages():
  texts = human_captions.xm3600_sample()
  known = Vocabularies.of(texts)
  wrong = [code for code in texts if (fidelity.judge(code, texts[code], known, True) == Verdict.WRONG).any()]
  assert (len(texts), wrong) == (36, [])


def test_references_in_another_language_are_noted():
  """A column of English captions that was read as Korean."""
  references = {str(n): {"ko": [f"a man rides bicycle number {n} down the street"]} for n in range(4)}
  predictions = {key: {"ko": "남자가 자전거를 탄다"} for key in references}
  note = "ko: most references are in another language; check --language and the file"
  assert note in score(references, predictions, metrics="exact", health=True).table.notes
  korean = {key: {"ko": ["남자가 거리에서 자전거를 탄다"]} for key in references}
  assert note not in score(korean, predictions, metrics="exact", health=True).table.notes
