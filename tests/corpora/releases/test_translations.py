"""Machine-translated caption lines of COCO-35L and CC3M-35L: parsed, with faulty lines counted."""

import json
import pickle

import pytest

from tests.corpora import release_lines
from xmcap.corpora.building import line_check
from xmcap.corpora.building.problems import KINDS, Problems
from xmcap.corpora.releases.translations import HUMAN, MT, Cc3mParser, CocoParser, TranslationParser
from xmcap.languages import LANGUAGES

CODES = tuple(LANGUAGES)
COCO = CocoParser("file", {9: 0, 7: 1, 581921: 2})
CC3M = Cc3mParser("file", 3)


def line(id="7_1", language="th", english="a cat", translated="แมว", field="image_id", **more) -> bytes:
  return json.dumps(release_lines.line({field: id}, language, english, translated, **more)).encode() + b"\n"


def parsed(batch: bytes, parser: TranslationParser = COCO, first: int = 1):
  """(picture, number, language, source, line, text) of each caption, and the problems."""
  problems = Problems()
  captions, count = parser(batch, first, problems)
  assert count == len(batch.splitlines())
  return [tuple(row) for row in captions], problems


def kinds(batch: bytes, parser: TranslationParser = COCO, **arguments) -> dict[str, list[str]]:
  """Kind -> lines."""
  _, problems = parsed(batch, parser, **arguments)
  return {kind: [where for where, _ in places] for kind, places in problems.examples.items()}


def test_translation_lines_give_english_captions_once():
  batch = line() + line(language="de", translated="eine katze") + line("9_2", "de", "a dog", "ein hund")
  captions, problems = parsed(batch)
  assert captions == [
    (1, 1, "th", MT, 1, "แมว"),
    (1, 1, "de", MT, 2, "eine katze"),
    (0, 2, "de", MT, 3, "ein hund"),
    (1, 1, "en", HUMAN, 1, "a cat"),
    (0, 2, "en", HUMAN, 3, "a dog"),
  ]
  assert problems.counts == {}


def test_cc3m_rec_num_is_an_integer_or_text():
  captions, problems = parsed(line(1, field="rec_num") + line("3", field="rec_num"), CC3M)
  assert [caption[:4] for caption in captions] == [
    (0, 1, "th", MT),
    (2, 1, "th", MT),
    (0, 1, "en", HUMAN),
    (2, 1, "en", HUMAN),
  ]
  assert problems.counts == {}


@pytest.mark.parametrize("id", [0, 4, -1, 1 << 70, "0", "4", "x", "", "1_1", "1.0", "１", "9" * 30])
def test_unknown_cc3m_rec_num_is_counted(id):
  assert kinds(line(1, field="rec_num") + line(id, field="rec_num"), CC3M) in (
    {"unknown_id": ["file, line 2"]},
    {"missing_field": ["file, line 2"]},  # numbers that no machine word holds
  )


@pytest.mark.parametrize(
  "id", ["8_1", "7", "7_", "_1", "7_1_1", "7-1", "x_1", "7_x", "", "-7_1", "7_999", "9" * 30 + "_1"]
)
def test_unknown_coco_image_id_is_counted(id):
  captions, problems = parsed(line() + line(id) + line("9_1"))
  assert problems.examples["unknown_id"][0][0] == "file, line 2"
  assert [caption[0] for caption in captions] == [1, 0, 1, 0]


@pytest.mark.parametrize(
  ("kind", "bad"),
  [
    ("cut_line", line()[:40] + b"\n"),
    ("cut_line", line()[:-3] + b"\n"),
    ("cut_line", b"{\n"),
    ("not_json", b"<html>\n"),
    ("not_json", b"[1, 2]\n"),
    ("not_json", b'"text"\n'),
    ("not_json", b"null\n"),
    ("not_json", line()[:-1] + line()),
    ("not_json", b'{"a":' + b"[" * 100_000 + b"\n"),
    ("not_json", line(translated="|").replace(b"|", b"\x07")),
    ("bad_utf8", line(translated="|").replace(b"|", b"\xff")),
    ("bad_utf8", b"\xff\xfe\n"),
    ("missing_field", line().replace(b"trg_lang", b"lang")),
    ("missing_field", line().replace(b"caption_tokenized", b"caption")),
    ("missing_field", line(translated=None)),
    ("missing_field", line(id=7)),
    ("unknown_language", line(language="xx")),
    ("unknown_language", line(language="iw")),
    ("unknown_language", line(language="")),
    ("unknown_id", line("8_1")),
    ("empty_caption", line(translated="")),
    ("empty_caption", line(translated=" \u00a0\u3000")),
    ("empty_caption", line(translated="\u200b")),
    ("empty_caption", line(translated="\x07")),
    ("long_caption", line(translated="x" * 10_001)),
    ("long_caption", line(translated="ก" * 3_334)),
  ],
)
def test_bad_translation_line_is_skipped_alone(kind, bad):
  others = [line("9_1"), line("9_2"), line("9_3")]
  captions, problems = parsed(others[0] + bad + others[1] + others[2])
  assert problems.counts == {kind: 1}
  assert problems.examples[kind][0][0] == "file, line 2"
  assert [caption[4] for caption in captions if caption[0] == 0 and caption[3] == MT] == [1, 3, 4]
  assert not [caption for caption in captions if caption[4] == 2 and caption[3] == MT]


def test_caption_length_limit_is_in_bytes():
  captions, problems = parsed(line(translated="x" * 10_000) + line("7_2", translated="ก" * 3_333))
  assert problems.counts == {} and len(captions) == 4


def test_captions_lose_control_characters_and_line_breaks():
  captions, problems = parsed(line(translated="a\x00b\x85c\nd\te\x7f"))
  assert captions[0][5] == "ab c d e"
  assert problems.counts == {"control_characters": 1}


def test_captions_keep_zero_width_joiners():
  text = "می\u200cخواهم\u00a0คน"
  captions, problems = parsed(line(translated=text))
  assert captions[0][5] == text and problems.counts == {}


def test_byte_order_mark_is_accepted_at_the_start_only():
  assert kinds(b"\xef\xbb\xbf" + line(), first=1) == {"bom": ["file, line 1"]}
  assert kinds(b"\xef\xbb\xbf" + line(), first=2) == {"not_json": ["file, line 2"]}


@pytest.mark.parametrize("language", ["quz", "yo", "pt-BR"])
def test_translations_may_be_in_other_languages(language):
  captions, problems = parsed(line(language=language))
  assert captions[0][2] == language and problems.counts == {}


@pytest.mark.parametrize(("language", "why"), [("en", "caption_tokenized"), ("iw", "did you mean 'he'")])
def test_language_that_is_left_out_is_explained(language, why):
  _, problems = parsed(line(language=language))
  assert why in problems.examples["unknown_language"][0][1]


def test_crlf_translation_lines_are_read_and_counted():
  captions, problems = parsed(line() + line("9_1")[:-1] + b"\r\n" + line("9_2"))
  assert problems.examples["crlf"][0][0] == "file, line 2" and problems.counts == {"crlf": 1}
  assert len(captions) == 6


def test_empty_translation_lines_are_skipped_but_numbered():
  captions, problems = parsed(b"\n" + line() + b"\n" + line("9_1")[:-1])
  assert [caption[4] for caption in captions] == [2, 4, 2, 4] and problems.counts == {}


def test_english_caption_is_taken_from_the_next_translation():
  captions, problems = parsed(line(english=" ") + line(language="de", english="a cat"))
  assert captions[-1] == (1, 1, "en", HUMAN, 2, "a cat")
  assert problems.examples["empty_caption"][0][0] == "file, line 1"


def test_translation_parsing_is_independent_of_batches():
  lines = [
    line(f"{(7, 9)[number % 2]}_{number // 2 % 5}", CODES[number % 36], "x", str(number))
    for number in range(60)
  ]
  whole = {caption for caption in parsed(b"".join(lines))[0] if caption[3] == MT}
  problems, parts = Problems(), []
  for start in range(0, 60, 7):
    captions, _ = COCO(b"".join(lines[start : start + 7]), start + 1, problems)
    parts += [(caption.line, caption.text) for caption in captions if caption.source == MT]
  assert sorted(parts) == sorted((caption[4], caption[5]) for caption in whole)


def test_translation_parser_can_be_pickled():
  again = pickle.loads(pickle.dumps(COCO))
  assert parsed(line(), again)[0] == parsed(line())[0]


def test_cut_or_changed_translation_line_is_counted_or_used():
  whole = line(translated="ein „kleiner“ hund")
  for place in range(len(whole) - 1):
    for bad in (whole[:place] + b"\n", whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]):
      captions, problems = parsed(line("9_1") + bad)
      used = [caption for caption in captions if caption[4] == 2 and caption[3] == MT]
      left_out = sum(count for kind, count in problems.counts.items() if KINDS[kind].rule == "skip")
      assert len(used) + left_out == len(bad.strip().splitlines()), bad


def test_line_check_usable_equals_the_parser():
  problems = Problems()
  assert line_check.usable("a\x00b", "here", problems) == "ab"
  assert problems.examples == {"control_characters": [("here", "'\\x00'")]}
