import pytest

from xmcap.scoring import health


def copies(captions):
  marks = {code: health.marks(list(held), list(held.values())) for code, held in captions.items()}
  return {code: found.share for code, found in health.copies(marks).items()}


def test_copies_are_shares_of_captions_by_language():
  captions = {
    "da": {"k1": "en hund", "k2": "en kat på en sofa", "k3": ""},
    "en": {"k1": "a dog", "k2": "a cat on a sofa", "k3": ""},
    "fr": {"k1": "a dog", "k2": "un chat", "k3": "a dog"},
    "no": {"k1": "en hund", "k2": "en katt på en sofa"},
  }
  assert copies(captions) == {"da": 1 / 2, "en": 1 / 2, "fr": 1 / 3, "no": 1 / 2}


@pytest.mark.parametrize(
  ("caption", "other", "share"),
  [
    ("A  Dog.", "a dog", 1.0),
    ("狗。", "狗", 1.0),
    ("Ｄｏｇ！", "dog", 1.0),
    ("a dog", "a dog's", 0.0),
    ("...", "...", None),
  ],
)
def test_copies_ignore_case_width_and_punctuation(caption, other, share):
  assert copies({"en": {"k": caption}, "de": {"k": other}}) == {"en": share, "de": share}


def test_copies_without_another_language_are_none():
  assert copies({"en": {"k": "a dog"}}) == {"en": None}
  assert copies({"en": {"k": "a dog"}, "de": {}}) == {"en": 0.0, "de": None}
  assert copies({}) == {}
