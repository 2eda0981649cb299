"""Prefixes and suffixes that captions share, around the human captions of Multi30K and COCO-CN."""

import html
import itertools

import pytest

from tests.scoring import human_captions
from xmcap.scoring import residue
from xmcap.scoring.residue import affixes

_CAPTIONS = [
  f"{who} {verb} {how}."
  for who, verb, how in itertools.product(
    ("A dog", "Two men", "The girl"), ("sits", "runs"), ("here", "fast")
  )
]
_VERBS = ("sits", "runs", "jumps", "waits")
_REFERENCES = [f"{who} {verb}" for who in ("a dog", "two men", "a girl", "the girl") for verb in _VERBS]


def _clean(captions, references, kind="prefix"):
  return residue.clean(captions, references, [kind])


def _lower(text):
  return text[0].lower() + text[1:]


@pytest.mark.parametrize(
  "beginning", ["Sure! Here is a caption:", "Caption:", "arafed", "caption en\n", "In this image we see"]
)
def test_clean_removes_a_shared_prefix(beginning):
  found = _clean([f"{beginning} {_lower(text)}" for text in _CAPTIONS], _REFERENCES)
  assert found.captions == list(map(_lower, _CAPTIONS))
  assert found.examples == {"prefix": (beginning.strip(),)}


def test_clean_removes_a_shared_suffix():
  found = _clean([f"{text} The mood is calm." for text in _CAPTIONS], _REFERENCES, "suffix")
  assert [text.rstrip(".") for text in found.captions] == [text.rstrip(".") for text in _CAPTIONS]


def test_quotation_marks_go_together():
  found = _clean([f'Here it is: "{text}"' for text in _CAPTIONS], _REFERENCES)
  assert found.captions == _CAPTIONS


def test_clean_removes_nested_prefixes():
  captions = [begun + text for begun in ("Sure! Caption: ", "Caption: ") for text in _CAPTIONS]
  assert _clean(captions, _REFERENCES * 10).captions == _CAPTIONS * 2


@pytest.mark.parametrize(
  ("captions", "references"),
  [
    ([f"a photo of {_lower(text)}" for text in _CAPTIONS], [f"a photo of {text}" for text in _REFERENCES]),
    (["a man riding a wave"] * 50 + ["a man riding a horse"] * 50, _REFERENCES * 10),
    ([f"Caption: {text}" for text in _CAPTIONS], []),
  ],
  ids=["references share it", "repeated captions", "no references"],
)
def test_clean_keeps_a_shared_prefix(captions, references):
  cleaned = _clean(captions, references)
  assert cleaned.captions == captions and cleaned.rows == {}


_WORDS = {
  "en": ("a dog", "two men", "the girl", "some children", "one cat"),
  "de": ("ein Hund", "zwei Leute", "das Kind", "eine Katze", "der Zug"),
  "ja": ("\u72ac\u304c", "\u732b\u304c", "\u7537\u304c", "\u5973\u304c", "\u5b50\u304c"),
}
_TABLE = {code: [f"{word} {row}" for row in range(20) for word in words] for code, words in _WORDS.items()}
_TABLE_REFERENCES = {code: texts * 3 for code, texts in _TABLE.items()}


def _clean_table(make, counts, kind="prefix", references=_TABLE_REFERENCES):
  """Returns 100 captions a language, of which `make` has changed the first ones, and them cleaned."""
  captions = {
    code: [make(code, text) for text in texts[: counts[code]]] + texts[counts[code] :]
    for code, texts in _TABLE.items()
  }
  found = residue.clean_languages(captions, references, [kind])
  return captions, {code: held.captions for code, held in found.items()}


@pytest.mark.parametrize(
  ("kind", "make"),
  [
    ("prefix", "Sure! Here is a caption: {}".format),
    ("prefix", "Certainly. In this picture we see {}".format),
    ("suffix", "{} I hope this helps!".format),
  ],
)
def test_prefix_evidence_is_pooled_over_languages(kind, make):
  assert _clean_table(lambda _, text: make(text), dict.fromkeys(_TABLE, 4), kind)[1] == _TABLE


def test_pooled_prefix_evidence_needs_references_without_it():
  references = {**_TABLE_REFERENCES, "de": [*_TABLE_REFERENCES["de"], "certainly. we see one"]}
  captions, found = _clean_table(
    lambda _, text: f"Certainly. We see {text}", dict.fromkeys(_TABLE, 4), references=references
  )
  assert found == captions


def test_prefix_of_one_language_is_removed_in_the_others():
  counts = {"en": 50, "de": 2, "ja": 2}
  assert _clean_table(lambda _, text: f"We see {text}", counts)[1] == _TABLE
  references = {**_TABLE_REFERENCES, "de": [*_TABLE_REFERENCES["de"], "we see one"]}
  captions, found = _clean_table(lambda _, text: f"We see {text}", counts, references=references)
  assert found == {**_TABLE, "de": captions["de"]}


def test_clean_keeps_a_prefix_within_a_longer_word():
  captions, found = _clean_table(
    lambda code, text: f"We see{'' if code == 'de' else ' '}{text}", {"en": 50, "de": 2, "ja": 0}
  )
  assert found == {**_TABLE, "de": captions["de"]}


def test_clean_keeps_a_part_of_a_prefix():
  captions, found = _clean_table(
    lambda code, text: f"Here is one in {code} - {text}", dict.fromkeys(_TABLE, 9)
  )
  assert found == captions


def test_clean_keeps_a_frequent_beginning_of_close_languages():
  captions = [f"En hund {37 * row}" if row < 18 else f"Mand {row}" for row in range(200)]
  references = [f"{who} {row}" for who in ("En mand", "Min hund") for row in range(400)]
  found = residue.clean_languages({"da": captions, "no": captions}, {"da": references, "no": references})
  assert found["da"].captions == found["no"].captions == captions


def test_prefix_with_a_colon_needs_one_caption_in_a_hundred():
  captions = _TABLE["en"] + [f"{text} and more" for text in _TABLE["en"]]
  for count, cleaned in ((9, True), (7, False)):
    begun = [f"Caption in English: {text}" for text in captions[:count]] + captions[count:]
    assert (_clean(begun, captions * 2).captions == captions) == cleaned


def test_clean_removes_a_prefix_behind_another():
  start = {9: "Caption: ", 19: "Sure! Here it is: ", 20: "Caption: Sure! Here it is: "}
  captions = _TABLE["en"] * 2 + _TABLE["de"]
  begun = [
    next((text for end, text in start.items() if row < end), "") + text for row, text in enumerate(captions)
  ]
  assert _clean(begun, captions * 3).captions == captions


@pytest.fixture(scope="module")
def human():
  """Name -> captions by people."""
  if not human_captions.MULTI30K.exists():
    pytest.skip("Multi30K and COCO-CN are not on this machine")
  sets = {
    # A translator's page left two zero-width spaces in two of its captions, and entities are in seven of Flickr's.
    path.name: [html.unescape(text.replace("\u200b", "")) for text in human_captions.multi30k(path.name)]
    for path in sorted(human_captions.MULTI30K.glob("task*_test_*.??"))
  }
  return sets | {"coco_cn": human_captions.coco_cn()} | human_captions.xm3600_sample()


def test_cleaning_leaves_human_captions_as_they_are(human):
  assert sum(map(len, human.values())) > 25_000
  for name, captions in human.items():
    for half in (captions[::2], captions[: len(captions) // 2]):
      found = residue.clean(half, captions[1::2], residue.KINDS)
      assert found.captions == half and not found.rows, name


def test_clean_removes_prefixes_around_human_captions(human):
  around = {
    "task1_test_2016_flickr.en": ("task2_test_2016.1.en", "The image shows", " "),
    "task1_test_2017_flickr.de": ("task2_test_2016.2.de", "Das Bild zeigt", " "),
    "task1_test_2016_flickr.fr": ("task1_test_2017_flickr.fr", "Sur l'image, on voit", " "),
    "task1_test_2016_flickr.cs": ("task1_test_2018_flickr.cs", "Na obr\u00e1zku je", " "),
  }
  for name, (references, beginning, space) in around.items():
    captions = list(map(_lower, human[name]))
    found = _clean([f"{beginning}{space}{text}" for text in captions], human[references])
    assert found.captions == [text.strip() for text in captions], name
  shown = human["coco_cn"][::2]
  begun = [f"\u8fd9\u5f20\u56fe\u7247\u663e\u793a\u4e86{text}" for text in shown]
  assert _clean(begun, human["coco_cn"][1::2]).captions == shown


def test_clean_removes_three_prefixes_among_captions_without(human):
  captions = list(map(_lower, human["task1_test_2016_flickr.en"]))
  verbs = ("The image shows ", "The image features ", "This is a photo of ", "")
  found = _clean([verbs[row % 4] + text for row, text in enumerate(captions)], human["task2_test_2016.1.en"])
  assert found.captions == [text.strip() if row % 4 < 3 else text for row, text in enumerate(captions)]
  assert len(found.examples["prefix"]) == 3


def test_affixes_exceeds_is_a_significance_test():
  assert affixes.exceeds(100, 100, 0, 200) and affixes.exceeds(12, 12, 0, 24)
  assert not affixes.exceeds(1, 2, 0, 4) and not affixes.exceeds(30, 1000, 50, 2000)
