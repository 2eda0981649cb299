"""Selection of images from regions where languages are spoken (XM3600, section 2.2)."""

import collections
import csv

import pytest

from tests.make.command import xmcap
from xmcap import languages
from xmcap.corpora.building import selection
from xmcap.errors import UsageError


def _write(path, lines, header="image/key,languages,country"):
  path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
  return path


def _levels(found):
  levels = collections.defaultdict(collections.Counter)
  for picture in found.pictures:
    levels[picture.language][picture.level] += 1
  return {code: dict(counts) for code, counts in levels.items()}


def _candidates(tmp_path):
  lines = [f"fa{n},fa,IR" for n in range(3)]  # the smallest pool
  lines += [f"te{n},te hi,IN" for n in range(6)]
  lines += [f"in{n},,IN" for n in range(2)]
  lines += [f"jp{n},ja,JP" for n in range(8)]
  lines += [f"br{n},pt,BR" for n in range(20)]
  return _write(tmp_path / "candidates.csv", lines)


def test_image_selection_serves_the_smallest_pool_first(tmp_path):
  found = selection.select(
    selection.read_candidates(_candidates(tmp_path)), ["pt", "hi", "te", "fa", "ja"], 5
  )
  assert list(dict.fromkeys(picture.language for picture in found.pictures)) == ["fa", "hi", "te", "ja", "pt"]
  assert found.pools == {"pt": 20, "hi": 6, "te": 6, "fa": 3, "ja": 8}
  levels = _levels(found)
  assert levels["fa"] == {"area": 3, "continent": 2}  # nothing else is in Iran or Afghanistan, but in Asia
  assert sum(levels["hi"].values()) == 5 and "world" not in levels["hi"]
  assert levels["pt"] == {"area": 5}
  keys = [picture.key for picture in found.pictures]
  assert len(set(keys)) == len(keys) == 25


def test_image_selection_falls_back_to_the_world(tmp_path):
  lines = [f"in{n},te hi,IN" for n in range(2)] + [f"br{n},pt,BR" for n in range(9)]
  found = selection.select(selection.read_candidates(_write(tmp_path / "c.csv", lines)), ["hi", "te"], 2)
  assert _levels(found) == {"hi": {"area": 2}, "te": {"world": 2}}


def test_image_selection_without_areas_uses_countries(tmp_path):
  path = _write(
    tmp_path / "c.csv", [f"a{n},de" for n in range(3)] + [f"b{n},jp" for n in range(5)], "ImageID,country"
  )
  found = selection.select(selection.read_candidates(path), ["ja", "de"], 2)
  assert found.pools == {"ja": 5, "de": 3} and _levels(found) == {"de": {"country": 2}, "ja": {"country": 2}}


def test_image_selection_is_independent_of_input_order(tmp_path):
  lines = [f"k{n},,{country}" for n, country in enumerate(["DE", "JP", "FR"] * 30)]
  one = selection.select(selection.read_candidates(_write(tmp_path / "a.csv", lines)), ["ja", "de", "fr"], 10)
  two = selection.select(
    selection.read_candidates(_write(tmp_path / "b.csv", lines[::-1])), ["fr", "ja", "de"], 10
  )
  assert one.pictures == two.pictures
  other = selection.select(selection.read_candidates(tmp_path / "a.csv"), ["ja", "de", "fr"], 10, seed=1)
  assert other.pictures != one.pictures


def test_all_36_languages_have_countries_on_continents():
  found = selection.countries_of_languages()
  assert set(found) == set(languages.LANGUAGES)
  on_continents = {code for held in selection._places()["continents"].values() for code in held.split()}
  assert set().union(*found.values()) <= on_continents


def test_image_selection_command_writes_locales(tmp_path):
  places = _write(tmp_path / "places.csv", ["sr,RS", "pt,BR"], "language,country")
  lines = [f"a{n},,RS" for n in range(2)] + [f"b{n},,BR" for n in range(3)]
  candidates = _write(tmp_path / "c.csv", lines)
  out = tmp_path / "out.csv"
  command = ("data", "select", candidates, f"--out={out}", f"--places={places}")
  xmcap(*command, "--count=2").succeeded("pool")
  with open(out, encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
  assert [(row["image/locale"], row["level"], row["continent"]) for row in rows] == [
    ("sr", "country", "Europe"), ("sr", "country", "Europe"),
    ("pt", "country", "South America"), ("pt", "country", "South America"),
  ]  # fmt: skip
  _write(tmp_path / "places.csv", [], "language,country")
  xmcap(*command).refused("has no place")
  _write(tmp_path / "places.csv", ["sr,RS", "pt,BR"], "language,country")
  xmcap(*command, "--count=3").refused("5 pictures for 2 languages of 3 each: 6 are needed")


@pytest.mark.parametrize(
  "header, line, message",
  [
    ("image/key,languages", "a,xx", "line 2: unknown language 'xx'"),
    ("image/key,country", "a,DEU", "line 2: country 'DEU' must be a code of two letters"),
    ("image/key,country", "a,AQ", "line 2: country 'AQ' is on no known continent"),
    ("image/key,country,continent", "a,,Atlantis", "line 2: continent 'Atlantis'"),
    ("image/key,country", ",DE", "line 2: no key"),
    ("image/key,country", "a,DE\na,DE", "line 3: picture a was there before"),
    ("image/key,place", "a,DE", "the header needs image/key"),
    ("name,country", "a,DE", "the header needs image/key"),
    ("image/key,country", "a", "line 2: 1 cells under 2 headings"),
    ("image/key,country", '"a', "line 2: broken CSV"),
    ("image/key,country", "", "contains no picture"),
  ],
)
def test_malformed_candidates_table_is_refused(tmp_path, header, line, message):
  with pytest.raises(UsageError) as error:
    selection.read_candidates(_write(tmp_path / "c.csv", [line], header))
  assert message in str(error.value) and "\n" not in str(error.value)


def test_image_selection_refuses_a_language_without_countries(tmp_path):
  candidates = selection.read_candidates(_write(tmp_path / "c.csv", ["a,,DE"]))
  with pytest.raises(UsageError, match="no country is known for sr"):
    selection.select(candidates, ["sr"], 1)


def test_candidates_table_with_a_long_cell_is_read(tmp_path):
  path = tmp_path / "candidates.csv"
  _write(path, ["a,de,DE", f"{'b' * 200_000},de,DE"])
  assert len(selection.read_candidates(path).keys[1]) == 200_000
