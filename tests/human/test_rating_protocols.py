"""Rubrics of rating pages: built-in protocols, and a user's file."""

import json

import pytest

from xmcap.errors import UsageError
from xmcap.human import page_texts, rating_protocols
from xmcap.human.annotation_procedures import PROCEDURES
from xmcap.human.quality import LEVELS
from xmcap.human.rating_protocols import PROTOCOLS

_CRITERION = {"name": "tone", "heading": "Tone", "question": "Friendly?", "choices": [[1, "no"], [2, "yes"]]}
_RUBRIC = {"name": "style", "title": "Style", "task": "Rate.", "criteria": [_CRITERION]}


def test_thumb_protocol_has_the_values_of_the_paper():
  # Kasai et al. (2022), section 2.2: 1 to 5; penalties of 0.1, and 0.5 or more; 0.5; 0.5 and 2.
  values = {one.name: [value for value, _ in one.choices] for one in PROTOCOLS["thumb"].criteria}
  assert values == {
    "P": [1, 2, 3, 4, 5], "R": [1, 2, 3, 4, 5], "Fl": [0, -0.1, -0.2, -0.3, -0.4, -0.5, -1], "Con": [0, -0.5],
    "Inc": [0, -0.5, -2],
  }  # fmt: skip
  assert PROTOCOLS["thumb"].total["P"] == 0.5
  # Table 6: eleven kinds of error by their penalties.
  kinds = {
    "Fluency, 0.1": "misspelling one grammar capitals hyphen odd", "Fluency, 0.2": "punctuation",
    "Fluency, 0.5": "misleads twice ambiguity", "Fluency, 0.1 to 0.5": "awkward", "Fluency, 0.5 or more": "broken",
  }  # fmt: skip
  rules = dict(PROTOCOLS["thumb"].rules)
  assert [name for name in rules if name.startswith("Fluency")] == list(kinds)
  assert all(word in rules[name].lower() for name, words in kinds.items() for word in words.split())


def test_sxs5_is_sxs_without_slightly():
  (seven,), (five,) = PROTOCOLS["sxs"].criteria, PROTOCOLS["sxs5"].criteria
  assert [value for value, _ in seven.choices] == [-3, -2, -1, 0, 1, 2, 3]
  assert five.choices == tuple(choice for choice in seven.choices if "slightly" not in choice[1])
  assert PROTOCOLS["sxs5"].task == PROTOCOLS["sxs"].task
  for language in page_texts.LANGUAGES:
    seven, five = (
      rating_protocols.translated(PROTOCOLS[name], language).criteria[0].choices for name in ("sxs", "sxs5")
    )
    assert five == (*seven[:2], seven[3], *seven[5:])


def test_levels_of_the_first_screen_are_those_of_the_quality_page():
  quality, procedure = PROTOCOLS["xm3600_quality"], PROCEDURES["xm3600"]
  levels = procedure.levels("en")
  assert list(levels.values()) == list(quality.rules)
  assert {": ".join(levels["BAD"]), *quality.advice} <= set(procedure.texts("en")[1])


def test_rating_protocols_key_1_is_the_lowest_level():
  of_pages = {
    (name, one.name): [value for value, _ in one.choices]
    for name, protocol in PROTOCOLS.items()
    for one in protocol.criteria
    if one.default is None
  }
  of_pages["annotate", "xm3600"] = [LEVELS[name] for name in PROCEDURES["xm3600"].levels("en")]
  assert of_pages["annotate", "xm3600"] == of_pages["xm3600_quality", "quality"] == [1, 2, 3, 4, 0]
  levels = {
    page: [value for value in values if page[1] != "quality" or value] for page, values in of_pages.items()
  }
  levels["annotate", "xm3600"].remove(LEVELS["NOT-ENOUGH-INFO"])
  assert all(values == sorted(values) for values in levels.values())


def test_rubric_is_read_from_a_file(tmp_path):
  (tmp_path / "style.json").write_text(json.dumps(_RUBRIC))
  rubric = rating_protocols.get(str(tmp_path / "style.json"))
  assert (rubric.name, rubric.shows, rubric.names) == ("style", "captions", ("tone",))
  assert rating_protocols.get("thumb") is PROTOCOLS["thumb"]


@pytest.mark.parametrize(
  "change, message",
  [
    ({"title": 3}, "not a rubric.*title"),
    ({"colour": "red"}, "not a rubric.*colour"),
    ({"criteria": []}, "one criterion or more"),
    ({"name": "my style"}, "the name 'my style' must be letters"),
    ({"name": "sxs"}, "'sxs' is a protocol of xmcap's own"),
    ({"shows": "pair", "captions": ["a", "b"]}, "to compare pairs there is --protocol=sxs"),
    ({"captions": ["a", "b"]}, "'captions' has 2 headings; 'captions' needs 1"),
    ({"total": {"tones": 1}}, "'total' has 'tones', which is no criterion"),
    ({"criteria": [_CRITERION, _CRITERION]}, "criterion 'tone': its name clashes with criterion 'tone'"),
    *(
      (
        {"criteria": [_CRITERION, {**_CRITERION, "name": name}]},
        f"criterion '{name}': its name clashes with {other}",
      )
      for name, other in (
        ("ratings", "the column 'ratings'"),
        ("Pictures", "the column 'pictures'"),
        ("tone_sd", "criterion 'tone'"),
        ("Tone", "criterion 'tone'"),
      )
    ),
    ({"criteria": [{**_CRITERION, "name": "rater"}]}, "criterion 'rater': the name must be"),
    ({"criteria": [{**_CRITERION, "choices": [[1, "no"]]}]}, "two or more choices"),
    (
      {"criteria": [{**_CRITERION, "choices": [[1, "no"], [1, "yes"]]}]},
      "two or more choices with different",
    ),
    ({"criteria": [{**_CRITERION, "choices": [[1, "no"], [10**400, "yes"]]}]}, "two or more choices with"),
    ({"total": {"tone": 1e9}}, "its weight is above"),
    ({"criteria": [{**_CRITERION, "first_key": 9}]}, "2 choices from key 9 on do not fit"),
    ({"criteria": [{**_CRITERION, "default": 3}]}, "the default 3 is none of its choices"),
    ({"criteria": [{**_CRITERION, "default": 1}]}, "must have no default"),
  ],
)
def test_rubric_malformed_file_is_refused(tmp_path, change, message):
  (tmp_path / "style.json").write_text(json.dumps({**_RUBRIC, **change}))
  with pytest.raises(UsageError, match=f"style.json: .*{message}") as error:
    rating_protocols.get(str(tmp_path / "style.json"))
  assert "\n" not in str(error.value)


def test_rating_protocol_unknown_lists_the_choices():
  with pytest.raises(
    UsageError,
    match="protocol 'stars': there are sxs, sxs5, thumb, coco_cn_captions, coco_cn_tags, xm3600_quality, or",
  ):
    rating_protocols.get("stars")
