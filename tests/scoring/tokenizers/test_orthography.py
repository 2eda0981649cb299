import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap import languages, scoring
from xmcap.pages.output import score_files
from xmcap.scoring import tokenizers
from xmcap.scoring.tokenizers import orthography


@pytest.mark.parametrize(
  "language, one, other",
  [
    ("ro", "şi ţară ŢARĂ", "și țară ȚARĂ"),
    ("ar", "أحمد إلى مُحَمَّد ســـلام", "احمد الي محمد سلام"),
    ("ar", "علی کتاب", "علي كتاب"),
    ("fa", "كتاب علي ۲۰", "کتاب علی 20"),
    ("he", "שָׁלוֹם צה״ל", 'שלום צה"ל'),
    ("hi", "हिन्दी सफ़ेद चाँद", "हिंदी सफेद चांद"),
    ("hi", "सफ\u093cेद \u095b", "स\u095eेद ज\u093c"),
    ("bn", "ড\u09bc ২", "\u09dc 2"),
    ("te", "క\u0c46\u0c56 ౩", "కై 3"),
    ("sw", "ng’ombe ng'ombe", "ngʼombe ngʻombe"),
    ("quz", "q’illu p'unchaw", "qʼillu p´unchaw"),
    ("mi", "Māori", "Maaori"),
    ("uk", "м’яч", "мʼяч"),
    ("vi", "hòa thủy khỏe", "hoà thuỷ khoẻ"),
    ("vi", "Ða\u0300", "Đà"),
    ("hr", "ǆep ǈubav", "džep Ljubav"),
    ("tr", "i̇stanbul", "istanbul"),
    ("el", "\u1f7d", "\u03ce"),  # oxia, tonos
    ("ru", "ещё", "еще"),
    ("de", "Straße", "Strasse"),
    ("fr", "œuf", "oeuf"),
    ("hu", "õr", "őr"),
    ("da", "ö ä", "ø æ"),
    ("sv", "ø æ", "ö ä"),
    ("th", "เเมว นํ้า", "แมว น้ำ"),
    ("ja", "ｶﾞﾗｽ ＡＢ", "ガラス AB"),
    ("ml", "അവന്\u200d", "അവൻ"),
    ("ro-MD", "şi", "și"),
  ],
)
def test_orthography_unifies_spellings(language, one, other):
  (a,), (b,) = orthography.unify(language, [one]), orthography.unify(language, [other])
  assert a == b
  assert orthography.unify(language, [a]) == [a]


@pytest.mark.parametrize(
  "language, text",
  [
    ("tr", "şaşı"),
    ("en", "'a' ‘b’ café"),
    ("ps", "ي ی ك"),
    ("es", "corazón ö"),
    ("fi", "öljy"),
    ("sw", "'ng'"),
  ],
)
def test_orthography_keeps_letters_of_other_languages_and_quotes(language, text):
  assert orthography.unify(language, [text]) == [text]


_CODES = ["ar", "de", "el", "hi", "ja", "quz", "ro", "vi", "zh"]  # of all scripts and kinds of rules


@pytest.mark.parametrize(
  "language",
  [
    *_CODES,
    *(pytest.param(code, marks=pytest.mark.full) for code in languages.LANGUAGES if code not in _CODES),
  ],
)
def test_may_differ_finds_letters_with_two_spellings(language):
  for rule in orthography.rules(language):
    for variant, standard in rule.pairs.items():
      one, other = f"d{variant}d", f"d{standard}d"
      if orthography.unify(language, [one]) == orthography.unify(language, [other]):
        assert orthography.may_differ(language, [one], [other])
        assert orthography.may_differ(language, [other], ["m", one])
  assert not orthography.may_differ(language, [], ["’"])
  assert not orthography.may_differ(language, ["日"], ["日 本"])


def test_orthography_rules_have_sources_and_known_languages():
  for rule in orthography.RULES:
    assert rule.name and rule.source and rule.pairs
    assert all(languages.is_known(code) for code in rule.languages)
    assert not rule.inside or all(len(spelling) == 1 for spelling in rule.pairs)
  # A replacement that is itself replaced would depend on the order.
  for code in {"en"}.union(*(rule.languages for rule in orthography.RULES)):
    for rule in orthography.rules(code):
      values = [value for key, value in rule.pairs.items() if key != value]
      assert orthography.unify(code, values) == orthography.unify(code, orthography.unify(code, values))


@pytest.mark.parametrize("name", ["default", "char", "whitespace", "split"])
def test_orthography_applies_to_all_tokenizers(name):
  tokenizer = tokenizers.get(name, "ro", "orthography")
  assert tokenizer("roşie") == tokenizer("roșie") == tokenizers.get(name, "ro")("roșie")
  assert tokenizer.words(["roşie"]).captions() == [tokenizer("roșie")]
  assert tokenizer.version != tokenizers.get(name, "ro").version
  assert tokenizer.normalization.startswith("orthography-1,")


_REFERENCES = {"1": {"ro": ["pisici și mașini"]}, "2": {"ro": ["o piață roșie"]}, "3": {"ro": ["un câine"]}}


def _predictions(change=str):
  return {key: {"ro": change(captions["ro"][0])} for key, captions in _REFERENCES.items()}


def _cedilla(text):
  return text.replace("ș", "ş").replace("ț", "ţ")


def _notes(references, predictions, **options):
  return [
    note for note in scoring.score(references, predictions, **options).table.notes if "spelling" in note
  ]


def test_orthography_note_counts_captions():
  (note,) = _notes(_REFERENCES, _predictions(_cedilla))
  assert note == (
    "letters with two spellings: ro: 2 of 3 captions write ş ţ where the references write ș ț; "
    "--normalize=orthography unifies them"
  )
  # The other way round too.
  old = {key: {"ro": [_cedilla(captions["ro"][0])]} for key, captions in _REFERENCES.items()}
  assert "2 of 3 captions write ș ț where the references write ş ţ" in _notes(old, _predictions())[0]


def test_no_orthography_note_without_more_matches():
  assert _notes(_REFERENCES, _predictions()) == []
  assert _notes(_REFERENCES, _predictions(lambda text: "şşş")) == []
  old = {key: {"ro": [_cedilla(captions["ro"][0])]} for key, captions in _REFERENCES.items()}
  assert _notes(old, _predictions(_cedilla)) == []
  assert _notes(_REFERENCES, _predictions(_cedilla), normalize="orthography") == []
  # NFKC composes them already.
  half = {"1": {"ja": ["ガラス"]}, "2": {"ja": ["犬"]}}
  assert _notes(half, {"1": {"ja": "ｶﾞﾗｽ"}, "2": {"ja": "犬"}}) == []
  assert len(_notes(half, {"1": {"ja": "ｶﾞﾗｽ"}, "2": {"ja": "犬"}}, tokenizer="whitespace")) == 1


def test_orthography_note_names_omitted_letters():
  references = {"1": {"ar": ["قطة سوداء"]}, "2": {"ar": ["كلب أبيض"]}}
  (note,) = _notes(references, {"1": {"ar": "قطـــة"}, "2": {"ar": "كلب"}})
  assert "ar: 1 of 2 captions write ـ where the references write nothing" in note


def test_score_with_orthography_equals_equal_letters():
  plain = scoring.score(_REFERENCES, _predictions())
  unified = scoring.score(_REFERENCES, _predictions(_cedilla), normalize="orthography")
  assert unified.table.rows == plain.table.rows
  assert "|normalization:orthography-1,nfkc,lower,words|" in unified.table.signature
  assert scoring.score(_REFERENCES, _predictions(_cedilla)).table.rows != plain.table.rows


def test_document_frequencies_are_for_one_normalization(tmp_path):
  references = files.captions(tmp_path / "r.jsonl", _REFERENCES)
  predictions = files.captions(tmp_path / "p.jsonl", _predictions())
  paths, saved = (references, predictions, tmp_path / "out"), tmp_path / "df.gz"
  options = {"only_tables": True, "normalize": "orthography"}
  wanted = score_files(*paths, save_document_frequencies=saved, **options)
  assert score_files(*paths, document_frequencies=saved, **options).table.rows == wanted.table.rows
  message = refusal(score_files, *paths, document_frequencies=saved, only_tables=True)
  assert "+orthography-1, but default-2." in message
