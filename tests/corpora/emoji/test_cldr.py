"""CLDR: list patterns and names, from the XML and the JSON layouts."""

import json

import pytest

from xmcap import languages
from xmcap.corpora.emoji import cldr
from xmcap.errors import XmcapError

ROOT = """<ldml><listPatterns>
<listPattern><listPatternPart type="start">{0}, {1}</listPatternPart>
<listPatternPart type="middle">{0}, {1}</listPatternPart>
<listPatternPart type="end">{0}, {1}</listPatternPart>
<listPatternPart type="2">{0}, {1}</listPatternPart></listPattern>
<listPattern type="standard-narrow"><alias source="locale" path="../listPattern[@type='standard-short']"/>
</listPattern>
<listPattern type="standard-short"><alias source="locale" path="../listPattern"/></listPattern>
<listPattern type="unit"><alias source="locale" path="../listPattern[@type='unit-short']"/></listPattern>
<listPattern type="unit-narrow">
<alias source="locale" path="../listPattern[@type='unit-short']"/></listPattern>
<listPattern type="unit-short"><alias source="locale" path="../listPattern"/></listPattern>
</listPatterns></ldml>"""

ENGLISH = """<ldml><listPatterns><listPattern><listPatternPart type="end">{0}, and {1}</listPatternPart>
<listPatternPart type="2">{0} and {1}</listPatternPart></listPattern>
<listPattern type="unit-short"><listPatternPart type="2">{0}; {1}</listPatternPart>
<listPatternPart type="end">\u2191\u2191\u2191</listPatternPart></listPattern></listPatterns></ldml>"""

CHINESE = """<ldml><listPatterns>
<listPattern><listPatternPart type="2">{0}和{1}</listPatternPart></listPattern>
<listPattern type="unit"><listPatternPart type="2">{0}{1}</listPatternPart></listPattern>
<listPattern type="unit-short"><listPatternPart type="2">{0}{1}</listPatternPart></listPattern>
</listPatterns></ldml>"""


def xml_tree(folder):
  for name in ("main", "annotations"):
    (folder / name).mkdir(parents=True)
  (folder / "main" / "root.xml").write_text(ROOT)
  for language in languages.LANGUAGES:
    code = "qu" if language == "quz" else language
    text = {"en": ENGLISH, "zh": CHINESE}.get(code, "<ldml/>")
    (folder / "main" / f"{code}.xml").write_text(text, encoding="utf-8")
    (folder / "annotations" / f"{code}.xml").write_text(
      f"""<ldml><annotations><annotation cp="🍎">fruit | red</annotation>
      <annotation cp="🍎" type="tts">{code}\u200f apple\u200f</annotation>
      <annotation cp="🍏" type="tts">\u2191\u2191\u2191</annotation></annotations></ldml>""",
      encoding="utf-8",
    )
  return folder


@pytest.fixture
def read(tmp_path):
  return cldr.read_xml(xml_tree(tmp_path))


@pytest.mark.parametrize(
  ("items", "expected"),
  [
    (["a"], "a"),
    (["a", "b"], "a 2 b"),
    (["a", "b", "c"], "a start b end c"),
    (["a", "b", "c", "d", "e"], "a start b middle c middle d end e"),
  ],
)
def test_list_pattern_join_follows_uts35(items, expected):
  """UTS #35 part 2, 11.1: start and end are applied at the ends, middle between."""
  pattern = cldr.ListPattern("{0} 2 {1}", "{0} start {1}", "{0} middle {1}", "{0} end {1}")
  assert pattern.join(items) == expected


def test_list_pattern_join_follows_placeholder_order():
  assert cldr.ListPattern("{1} with {0}", "", "", "").join(["a", "b"]) == "b with a"


def test_cldr_names_lose_direction_marks_and_omit_inherited(read):
  assert read.names["fa"] == {"🍎": "fa apple"}


def test_cldr_keywords_keep_their_order(read):
  assert read.keywords["quz"] == {"🍎": ["fruit", "red"]}


def test_cldr_quechua_is_read_from_code_qu(read):
  assert read.names["quz"] == {"🍎": "qu apple"}


def test_cldr_clean_keeps_zero_width_joiners():
  assert cldr.clean("هشت\u200cپا") == "هشت\u200cپا"


def test_cldr_list_pattern_falls_back_to_root(read):
  assert read.standard["en"] == cldr.ListPattern("{0} and {1}", "{0}, {1}", "{0}, {1}", "{0}, and {1}")
  assert read.standard["mi"].pair == "{0}, {1}"


def test_cldr_alias_resolves_within_the_language(read):
  """unit -> unit-short (root's alias), then the language's own unit-short; its end from the standard list."""
  assert read.plain["en"].pair == "{0}; {1}"
  assert read.plain["en"].end == "{0}, and {1}"


def test_cldr_plain_pattern_is_omitted_without_a_difference(read):
  assert "mi" not in read.plain
  assert "zh" not in read.plain


def test_broken_cldr_xml_is_named(tmp_path):
  tree = xml_tree(tmp_path)
  (tree / "annotations" / "de.xml").write_text("<ldml>")
  with pytest.raises(XmcapError, match="de.xml"):
    cldr.read_xml(tree)


def test_cldr_json_equals_cldr_xml(tmp_path):
  expected = cldr.read_xml(xml_tree(tmp_path / "xml"))
  for language in languages.LANGUAGES:
    code = "qu" if language == "quz" else language
    annotations = {"🍎": {"default": ["fruit", "red"], "tts": [f"{code} apple"]}}
    folder = tmp_path / "cldr-annotations-full" / "annotations" / code
    folder.mkdir(parents=True)
    (folder / "annotations.json").write_text(json.dumps({"annotations": {"annotations": annotations}}))
    folder = tmp_path / "cldr-misc-full" / "main" / code
    folder.mkdir(parents=True)
    patterns = {}
    for kind in ("standard", "standard-narrow", "unit", "unit-short", "unit-narrow"):
      pattern = expected.standard[language]
      if kind.startswith("unit"):
        pattern = {"en": expected.plain["en"], "zh": cldr.ListPattern("{0}{1}", "", "", "")}.get(
          language, pattern
        )
      patterns[f"listPattern-type-{kind}"] = {
        "2": pattern.pair,
        "start": pattern.start,
        "middle": pattern.middle,
        "end": pattern.end,
      }
    (folder / "listPatterns.json").write_text(json.dumps({"main": {code: {"listPatterns": patterns}}}))
  assert cldr.read_json(tmp_path) == expected
