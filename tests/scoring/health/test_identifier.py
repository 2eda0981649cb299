import numpy as np
import pytest

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.scoring.health import identifier

_CODES = [code for code in languages.LANGUAGES if code != "mi"]


@pytest.mark.parametrize(
  ("language", "caption"),
  [
    ("en", "A small dog runs along the beach."),
    ("fil", "mga klasikong sasakyan na nakadisplay sa tindahan"),
    ("he", "כלב קטן רץ לאורך החוף"),
    ("no", "En liten hund løper langs stranda, og ei jente ser på"),
    ("no", "Ein liten hund spring langs stranda, og ei jente ser ikkje på"),
    ("quz", "Huk uchuy alqu mayu patapi phawashan"),
    ("zh", "一只小狗在沙滩上奔跑"),
    ("cs", "Malý pes beží po pláži vedľa mora"),  # Slovak; without the restriction py3langid 0.4.0 says so
  ],
)
def test_identifier_most_likely_language(language, caption):
  assert _CODES[identifier.log_likelihoods([caption], _CODES).argmax()] == language


def test_identifier_of_no_captions_and_of_empty_captions():
  assert identifier.log_likelihoods([], ["en", "no"]).shape == (0, 2)
  assert identifier.log_likelihoods([""], ["en", "no"]).tolist() == [[0, 0]]


def test_identifier_supports_all_languages_but_maori():
  assert [code for code in languages.LANGUAGES if not identifier.supports(code)] == ["mi"]


def test_identifier_refuses_an_unknown_language():
  with pytest.raises(UsageError, match="unknown language 'xx'"):
    identifier.supports("xx")


def test_log_likelihoods_equal_py3langid():
  # py3langid 0.4.0, `LanguageIdentifier.rank` with the same languages.
  from py3langid.langid import MODEL_FILE, LanguageIdentifier

  library = LanguageIdentifier.from_model_file(MODEL_FILE)
  library.set_languages(sorted({*_CODES, "tl", "nn", "qu"} - {"fil", "quz"}))
  captions = [f"{language.native_name} {language.english_name}" for language in languages.LANGUAGES.values()]
  captions += ["HELLO WORLD", "e\u0301tude", "\ud800x", "two cats " * 200]
  for caption, found in zip(captions, identifier.log_likelihoods(captions, _CODES), strict=True):
    expected = dict(library.rank(caption))
    expected |= {"fil": expected["tl"], "quz": expected["qu"], "no": max(expected["no"], expected["nn"])}
    np.testing.assert_allclose(found, [expected[code] for code in _CODES], rtol=1e-4, atol=1e-3)
