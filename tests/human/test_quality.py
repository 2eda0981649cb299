"""The quality protocol of XM3600: medians, shares, sampled captions."""

import json
import statistics

import pytest

from tests.make import files
from tests.make.command import xmcap
from xmcap.errors import UsageError
from xmcap.human import quality, rating_protocols


def _row(key, rater, level, language="en", **more):
  return {"image/key": key, "language": language, "rater": rater, "quality": level, **more}


@pytest.mark.parametrize(
  "levels, median",
  [
    ([4, 4, 1], 4),
    ([4, 2, 1], 2),
    ([0, 3, 1], 1),
    ([0, 0, 4], 0),
    ([0, 4], 4),
    ([3, 2], 2),
    ([0], 0),
    ([4, 3, 2, 2], 2),
  ],
)
def test_quality_median_is_low_and_no_info_needs_a_majority(levels, median):
  assert quality.median_level(levels) == median
  if 0 not in levels:
    assert median == statistics.median_low(levels)


def test_quality_shares_equal_xm3600_table_2(tmp_path):
  rows = []
  levels = [["EXCELLENT", "GOOD", "BAD"], ["MEDIUM", "GOOD", "MEDIUM"], ["BAD", "BAD", "BAD"],
            ["NOT-ENOUGH-INFO", "not enough info", "GOOD"]]  # fmt: skip
  for place, of_caption in enumerate(levels):
    rows += [_row(f"k{place}", f"r{number}", level) for number, level in enumerate(of_caption)]
  found = quality.evaluate(quality.read(files.jsonl(tmp_path / "r.jsonl", *rows)), resamples=0)
  (row,) = found.rows
  assert (row.captions, row.good_plus, row.med_plus, row.bad, row.unknown) == (4, 25, 50, 25, 25)
  assert "%GOOD+" in found.terminal() and "do not have" not in found.terminal()


def test_quality_is_separate_by_system_language_and_caption(tmp_path):
  rows = [
    _row("k", "a", 4, system="x", caption="1"), _row("k", "a", 1, system="x", caption="2"),
    _row("k", "a", 3, system="y", caption="1"), _row("k", "a", 2, "de", system="x", caption="1"),
  ]  # fmt: skip
  found = quality.evaluate(quality.read(files.jsonl(tmp_path / "r.jsonl", *rows)), resamples=50)
  assert [(row.system, row.language, row.captions, row.good_plus) for row in found.rows] == [
    ("x", "de", 1, 0), ("x", "en", 2, 50), ("y", "en", 1, 100),
  ]  # fmt: skip
  assert "4 of 4 captions do not have 3 ratings: 4 with 1" in found.terminal()


@pytest.mark.parametrize(
  "row, message",
  [
    (_row("k", "a", "fine"), "'quality' is \"fine\""),
    (_row("k", "a", 5), "'quality' is 5"),
    (_row("k", "a", True), "must be a number"),
    (_row("k", "a", 2.5), "'quality' is 2.5"),
    (_row("k", "a", 4, "xx"), "unknown language 'xx'"),
    ({"image/key": "k"}, "no 'language'"),
  ],
)
def test_quality_line_invalid_is_refused(tmp_path, row, message):
  with pytest.raises(UsageError, match="line 1") as error:
    quality.read(files.jsonl(tmp_path / "r.jsonl", row))
  assert message in str(error.value) and "\n" not in str(error.value)


def test_quality_refuses_a_repeated_rating_and_an_empty_file(tmp_path):
  with pytest.raises(UsageError, match="line 2: 'a' rated the caption"):
    quality.read(files.jsonl(tmp_path / "r.jsonl", _row("k", "a", 4), _row("k", "a", 4)))
  with pytest.raises(UsageError, match="contains no ratings"):
    quality.read(files.jsonl(tmp_path / "r.jsonl"))


def test_quality_sample_has_a_caption_per_image(tmp_path):
  release = {f"k{n}": {"en": [f"a{n}", f"b{n}"], "de": [f"c{n}"]} for n in range(20)}
  files.release(tmp_path / "captions.jsonl", release, locale="en")
  out = tmp_path / "drawn.jsonl"
  command = ["human", "quality", f"--references={tmp_path}/captions.jsonl", "--limit=8", f"--out={out}"]
  xmcap(*command).succeeded()
  rows = files.rows(out)
  pictures = {code: [row["image/key"] for row in rows if row["language"] == code] for code in ("en", "de")}
  assert len(set(pictures["en"])) == 8 and pictures["en"] == pictures["de"]
  assert {row["caption"][0] for row in rows if row["language"] == "en"} == {"a", "b"}
  first = out.read_bytes()
  files.release(tmp_path / "captions.jsonl", dict(reversed(release.items())), locale="en")
  xmcap(*command).succeeded()
  assert out.read_bytes() == first
  xmcap(*command[:3], "--limit=21", command[4]).refused("de: only 20 pictures with a caption")


def test_quality_command_writes_a_report(tmp_path):
  ratings = files.jsonl(tmp_path / "r.jsonl", _row("k", "a", 4), _row("k", "b", 1), _row("k", "c", "medium"))
  xmcap("human", "quality", f"--ratings={ratings}", f"--out={tmp_path}/out", "--resamples=10").succeeded()
  assert json.loads((tmp_path / "out/quality.json").read_text())["rows"][0]["med_plus"] == 100
  xmcap("human", "quality").refused("needs either")


def test_quality_ratings_of_a_rating_page_are_joined_and_read(tmp_path):
  drawn = files.jsonl(tmp_path / "drawn.jsonl", {"image/key": "k", "language": "en", "caption": "a dog"})
  page, key = tmp_path / "page.html", tmp_path / "page.key.jsonl"
  rate = ["human", "rate", "--protocol=xm3600_quality", f"--predictions=people={drawn}", f"--out={page}"]
  xmcap(*rate).succeeded()
  item = json.loads(key.read_text())["item"]
  saved = [files.jsonl(tmp_path / f"{rater}.jsonl", {"item": item, "rater": rater, "quality": level})
           for rater, level in (("a", 4), ("b", 0), ("c", 3))]  # fmt: skip
  joined = tmp_path / "joined.jsonl"
  join = xmcap("human", "rate", f"--join={key}", *saved, f"--out={joined}")
  join.succeeded("xmcap human quality --ratings=")
  (row,) = quality.evaluate(quality.read(joined)).rows
  assert (row.system, row.captions, row.good_plus, row.ratings) == ("people", 1, 100, 3)


def test_quality_levels_equal_the_choices_of_the_rating_page():
  (criterion,) = rating_protocols.PROTOCOLS["xm3600_quality"].criteria
  assert {value for value, _ in criterion.choices} == set(quality.LEVELS.values())
