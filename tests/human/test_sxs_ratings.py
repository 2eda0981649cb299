"""Files of side-by-side ratings: CSV and JSONL, values and errors."""

import json

import pytest

from tests.make import files
from xmcap.errors import UsageError
from xmcap.human import sxs

_ROW = {"image/key": "k1", "language": "en", "rater": "r1", "left": "A", "right": "B", "rating": 2}


def _read(tmp_path, *rows, name="ratings.jsonl"):
  return sxs.read(
    files.lines(tmp_path / name, *(row if isinstance(row, str) else json.dumps(row) for row in rows))
  )


def test_sxs_ratings_in_csv_and_jsonl_are_equal(tmp_path):
  files.csv(tmp_path / "ratings.csv", [*_ROW, "comment"], [*_ROW.values(), "blurred, dark"])
  assert sxs.read(tmp_path / "ratings.csv") == _read(tmp_path, {**_ROW, "seconds": 12})
  assert sxs.read(tmp_path / "ratings.csv")[0] == sxs.SxsRating("k1", "en", "r1", "A", "B", 2)


def test_sxs_ratings_ties_of_equal_captions_are_read(tmp_path):
  row = {**_ROW, "rater": "", "rating": 0, "equal_captions": True}
  (tie,) = _read(tmp_path, row)
  assert tie == sxs.SxsRating("k1", "en", "", "A", "B", 0, equal=True)
  files.csv(tmp_path / "ratings.csv", row, row.values())
  assert sxs.read(tmp_path / "ratings.csv") == [tie]
  with pytest.raises(UsageError, match="line 1: 'rating' is 2, but the captions are equal; rate them 0"):
    _read(tmp_path, {**row, "rating": 2})


# What spreadsheets and scripts of raters save.
@pytest.mark.parametrize(
  "changed",
  [
    lambda text: b"\xef\xbb\xbf" + text,
    lambda text: text.replace(b"\n", b"\r\n"),
    lambda text: text.replace(b",", b";"),
    lambda text: b"\xef\xbb\xbf" + text.replace(b",", b";").replace(b"\n", b"\r\n"),
    lambda text: text.replace(b",-2", b",-2.0"),
    lambda text: text.replace(b",-2", b",Worse").replace(b",3", b",MUCH_BETTER"),
    lambda text: (
      text.replace(b"rating\n", b"rating,seconds\n").replace(b"2\n", b"2,5\n").replace(b"3\n", b"3,5\n")
    ),
  ],
  ids=["bom", "crlf", "semicolons", "excel", "floats", "words", "column"],
)
def test_sxs_ratings_csv_encodings_and_separators(tmp_path, changed):
  text = b"image/key,language,rater,left,right,rating\n1,en,anna,A,B,-2\n1,en,boris,B,A,3\n"
  (tmp_path / "ratings.csv").write_bytes(changed(text))
  expected = [sxs.SxsRating("1", "en", "anna", "A", "B", -2), sxs.SxsRating("1", "en", "boris", "B", "A", 3)]
  assert sxs.read(tmp_path / "ratings.csv") == expected


@pytest.mark.parametrize(
  "given, rating",
  [(-3, -3), (0, 0), (1.0, 1), ("2", 2), ("much better", 3), ("Slightly_worse", -1), ("similar", 0)],
)
def test_sxs_ratings_are_points_or_words(tmp_path, given, rating):
  assert _read(tmp_path, {**_ROW, "rating": given})[0].rating == rating


@pytest.mark.parametrize(
  "change, message",
  [
    ({"rating": 4}, "'rating' is 4; it must be a whole number from -3 to 3"),
    ({"rating": 1.5}, "'rating' is 1.5"),
    ({"rating": True}, "'rating' is true; it must be a number"),
    ({"rating": float("nan")}, "NaN is not valid JSON"),
    ({"rating": "nan"}, "'rating' is 'nan'"),
    ({"rating": 10**400}, "'rating' is not a finite number"),
    ({"rating": None}, "'rating' is null"),
    ({"rating": [1]}, "'rating' is [1]"),
    (
      {"rating": "good"},
      "'rating' is 'good'; it must be a whole number from -3 to 3, or one of much better, better",
    ),
    ({"rating": " "}, "'rating' is empty; rate the pair, or remove the line"),
    ({"language": "xx"}, "unknown language 'xx'"),
    ({"language": 7}, "'language' is 7"),
    ({"right": "A"}, "'A' is on both sides"),
    ({"right": " A"}, "'A' is on both sides"),
    ({"rater": ""}, "'rater' is empty"),
    ({"left": {"a": 1}}, "'left' is {\"a\": 1}"),
    ({"image/key": "k" * 20_000}, "'image/key' has 20,000 characters"),
  ],
)
def test_sxs_ratings_invalid_values_are_refused_by_line(tmp_path, change, message):
  with pytest.raises(UsageError) as caught:
    _read(tmp_path, {**_ROW, "rater": "r0"}, {**_ROW, **change})
  assert str(caught.value).startswith(f"{tmp_path}/ratings.jsonl, line 2: {message}")
  assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", _ROW)
def test_sxs_ratings_every_field_is_required(tmp_path, name):
  with pytest.raises(UsageError, match=f"line 1: no '{name}'"):
    _read(tmp_path, {key: value for key, value in _ROW.items() if key != name})


def test_sxs_ratings_refuse_a_repeated_pair_on_either_side(tmp_path):
  with pytest.raises(
    UsageError, match=r"line 3: 'r1' rated 'B' against 'A' in en on image 'k1' before \(.*line 1\)"
  ):
    _read(tmp_path, _ROW, {**_ROW, "language": "de"}, {**_ROW, "left": "B", "right": "A"})


@pytest.mark.parametrize("rows, message", [((), "no rating"), (('{"image/key": ',), "line 1: broken JSON")])
def test_sxs_ratings_empty_and_broken_files_are_refused(tmp_path, rows, message):
  with pytest.raises(UsageError, match=message):
    _read(tmp_path, *rows)
