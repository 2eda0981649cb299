"""`xmcap human rate --join`: ratings joined with the key of a rating page."""

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.make import files
from xmcap.errors import UsageError
from xmcap.human import rating_join, rating_protocols, sxs, thumb_ratings
from xmcap.human.rating_items import RatingItem
from xmcap.human.rating_protocols import PROTOCOLS

_SXS = [
  RatingItem("a1", "k1", "en", ("x", "y"), ("base", "large")),
  RatingItem("a2", "k2", "th", ("u", "v"), ("large", "base")),
]
_THUMB = [
  RatingItem("b1", "k1", "en", ("a dog",), ("base", "large")),
  RatingItem("b2", "k2", "en", ("",), ("base",)),
  RatingItem("b3", "k2", "en", ("a cat",), ("large",)),
]
_POOR = {"P": 2, "R": 1, "Fl": -0.1, "Con": -0.5, "Inc": -2}


@pytest.fixture
def join(tmp_path):
  """Joins the lines of each ratings file with the key of a page."""

  def run(protocol, *ratings):
    key = tmp_path / "key.jsonl"
    rating_join.write_rows(
      key, rating_join.key_rows(PROTOCOLS[protocol], _SXS if protocol.startswith("sxs") else _THUMB)
    )
    paths = [tmp_path / f"ratings{number}.jsonl" for number in range(len(ratings))]
    for path, lines in zip(paths, ratings, strict=True):
      files.jsonl(path, *lines)
    return rating_join.join(key, paths)

  return run


def _sxs(item, rating, rater="anna"):
  return {"item": item, "protocol": "sxs", "rater": rater, "rating": rating}


def _thumb(item, rater="anna", **scores):
  line = {"item": item, "protocol": "thumb", "rater": rater}
  return {**line, "P": 4, "R": 3, "Fl": 0, "Con": 0, "Inc": 0, **scores}


def test_rating_join_adds_systems_to_sxs_ratings(join):
  joined = join("sxs", [_sxs("a2", -3), _sxs("a1", 1)], [_sxs("a1", 0, "bo")])
  assert joined.rows == [
    {"image/key": "k2", "language": "th", "rater": "anna", "left": "large", "right": "base", "rating": -3},
    {"image/key": "k1", "language": "en", "rater": "anna", "left": "base", "right": "large", "rating": 1},
    {"image/key": "k1", "language": "en", "rater": "bo", "left": "base", "right": "large", "rating": 0},
  ]
  assert (joined.rated, joined.items, joined.unrated) == ({"anna": 2, "bo": 1}, 2, 0)


def test_rating_join_counts_unrated_items(join):
  assert join("thumb", [_thumb("b2")]).unrated == 2


def test_rating_join_counts_a_shared_caption_for_both_systems(join):
  rows = join("thumb", [_thumb("b1", **_POOR)]).rows
  assert [row["SYS"] for row in rows] == ["base", "large"]
  assert {key: value for key, value in rows[1].items() if key != "SYS"} == {
    "seg_id": "k1", "hyp": "a dog", "image": "k1", "language": "en", "annotator": "anna",
    "P": 2.0, "R": 1.0, "Fl": -0.1, "Inc": -2.0, "Con": -0.5, "human_score": -1.1,
  }  # fmt: skip


def test_five_points_make_wins_and_losses_by_the_majority_of_three(join, tmp_path):
  # Two of three prefer large, on the right, on k1; on k2, where it is on the left, nobody has a majority.
  of_raters = {"anna": (2, 3), "bo": (3, -2), "chen": (-3, 0)}
  lines = [
    [
      {**_sxs(item, rating, name), "protocol": "sxs5"}
      for item, rating in zip(("a1", "a2"), ratings, strict=True)
    ]
    for name, ratings in of_raters.items()
  ]
  rating_join.write_rows(tmp_path / "joined.jsonl", join("sxs5", *lines).rows)
  tallies = sxs.evaluate(sxs.read(tmp_path / "joined.jsonl"), "base", resamples=0).tallies
  shares = {one.language: (one.system, one.wins, one.losses, one.ties) for one in tallies}
  assert shares["en"] == ("large", 100, 0, 0) and shares["th"] == ("large", 0, 0, 100)
  with pytest.raises(UsageError, match="'rating' is 1, not one of -3, -2, 0, 2, 3"):
    join("sxs5", [{**_sxs("a1", 1), "protocol": "sxs5"}])


def test_rating_join_output_is_read_by_human_sxs(join, tmp_path):
  rating_join.write_rows(tmp_path / "joined.jsonl", join("sxs", [_sxs("a1", 2), _sxs("a2", 2)]).rows)
  ratings = sxs.read(tmp_path / "joined.jsonl")
  assert [(rating.left, rating.right, rating.rating) for rating in ratings] == [
    ("base", "large", 2),
    ("large", "base", 2),
  ]


def test_rating_join_output_is_read_by_human_thumb(join, tmp_path):
  rows = join("thumb", [_thumb("b1"), _thumb("b2", **_POOR), _thumb("b3")]).rows
  rating_join.write_rows(tmp_path / "joined.jsonl", rows)
  ratings = thumb_ratings.read(tmp_path / "joined.jsonl")
  assert ratings.systems == ("base", "large") and ratings.keys == ("k1", "k2")
  assert ratings.measures["total"].tolist() == [[3.5, pytest.approx(-1.1)], [3.5, 3.5]]


def test_rating_join_missing_thumb_penalties_are_zero(join):
  line = _thumb("b2")
  for name in ("Fl", "Con", "Inc"):
    del line[name]
  assert join("thumb", [line]).rows[0]["human_score"] == 3.5


@pytest.mark.parametrize(
  "protocol, lines, message",
  [
    (
      "sxs",
      [[_sxs("zz", 1)]],
      r"ratings0\.jsonl, line 1: item 'zz' is not in .*key\.jsonl; join ratings with",
    ),
    ("sxs", [[_sxs("b1", 1)]], "item 'b1' is not in"),
    ("sxs", [[_sxs("a1", 1), _sxs("a2", 4)]], "line 2: 'rating' is 4, not one of -3, -2, -1, 0, 1, 2, 3"),
    ("sxs", [[_sxs("a1", 0.5)]], "'rating' is 0.5, not one of"),
    ("sxs", [[_sxs("a1", True)]], "'rating' is true, not one of"),
    ("sxs", [[_sxs("a1", "1")]], "'rating' is \"1\", not one of"),
    ("sxs", [[_sxs("a1", None)]], "'rating' is missing"),
    ("sxs", [[_sxs("a1", [1])]], r"'rating' is \[1\], not one of"),
    ("sxs", [[_sxs("a1", 1, "")]], "line 1: 'rater' is empty"),
    ("sxs", [[{"rater": "anna", "rating": 1}]], "line 1: no 'item'"),
    (
      "sxs",
      [[_sxs("a1", 1)], [_sxs("a2", 1), _sxs("a1", 1)]],
      r"ratings1\.jsonl, line 2: item 'a1' was rated by 'anna' before \(.*ratings0\.jsonl, line 1\); keep one",
    ),
    ("sxs", [[], []], "contains no ratings"),
    ("thumb", [[_thumb("b1", P=0)]], "'P' is 0, not one of 1, 2, 3, 4, 5"),
    ("thumb", [[_thumb("b1", R=6)]], "'R' is 6, not one of"),
    ("thumb", [[_thumb("b1", Fl=0.1)]], r"'Fl' is 0\.1, not one of 0, -0\.1, -0\.2, -0\.3, -0\.4, -0\.5, -1"),
    ("thumb", [[_thumb("b1", Con=-0.1)]], r"'Con' is -0\.1, not one of 0, -0\.5"),
    ("thumb", [[_sxs("b1", 1)]], "'P' is missing, not one of"),
  ],
)
def test_rating_join_malformed_ratings_are_refused(join, protocol, lines, message):
  with pytest.raises(UsageError, match=message) as error:
    join(protocol, *lines)
  assert "\n" not in str(error.value)


@pytest.mark.parametrize(
  "change, message",
  [
    ({"item": None}, "line 1: 'item' is null"),
    ({"language": "xx"}, "line 1: unknown language 'xx'"),
    ({"protocol": "stars"}, "line 1: protocol 'stars'"),
    ({"protocol": "thumb"}, "line 1: no 'caption'"),
    (
      {"protocol": "thumb", "caption": "", "systems": []},
      "line 1: 'systems' must be a list of one or more strings",
    ),
    ({"left": 3}, "line 1: 'left' is 3"),
    ({"item": "a2"}, "line 2: item 'a2' was in the key before"),
  ],
)
def test_rating_join_malformed_key_is_refused(tmp_path, change, message):
  rows = list(rating_join.key_rows(PROTOCOLS["sxs"], _SXS))
  rows[0].update(change)
  files.jsonl(tmp_path / "key.jsonl", *rows)
  with pytest.raises(UsageError, match=message):
    rating_join.join(tmp_path / "key.jsonl", [])


def test_rating_join_key_of_two_protocols_or_none_is_refused(tmp_path):
  rows = [*rating_join.key_rows(PROTOCOLS["sxs"], _SXS), *rating_join.key_rows(PROTOCOLS["thumb"], _THUMB)]
  files.jsonl(tmp_path / "key.jsonl", *rows)
  with pytest.raises(UsageError, match="line 3: protocol 'thumb'; all lines must be of one"):
    rating_join.join(tmp_path / "key.jsonl", [])
  files.lines(tmp_path / "key.jsonl", "")
  with pytest.raises(UsageError, match="contains no items"):
    rating_join.join(tmp_path / "key.jsonl", [])


def test_rating_join_checked_ratings_are_replaced(join):
  first = [_thumb("b1", P=3), _thumb("b2"), _thumb("b3")]
  second = [_thumb("b1", "bo", P=5, checks="anna"), _thumb("b2", "bo", checks="anna")]
  joined = join("thumb", first, second)
  assert [(row["SYS"], row["seg_id"], row["annotator"], row["P"]) for row in joined.rows] == [
    ("large", "k2", "anna", 4.0),
    ("base", "k1", "bo", 5.0),
    ("large", "k1", "bo", 5.0),
    ("base", "k2", "bo", 4.0),
  ]
  assert joined.checked == {("bo", "anna"): (2, 1, 0)} and joined.rated == {"anna": 3, "bo": 2}
  # Without the first's file, or a part of it, nobody knows what was changed.
  assert join("thumb", second).checked == {("bo", "anna"): (2, 0, 2)}
  assert join("thumb", first[:1], second).checked == {("bo", "anna"): (2, 1, 1)}


@pytest.mark.parametrize(
  "checks, names",
  [
    ({"anna": "anna"}, "line 1: item 'b1': anna checked their own rating"),
    ({"anna": "bo", "bo": "anna"}, "line 1: item 'b1': anna, bo checked each other"),
    # Beside others who rate, or check one of the ring.
    ({"chen": "", "anna": "bo", "bo": "anna"}, "line 2: item 'b1': anna, bo checked each other"),
    ({"chen": "anna", "anna": "bo", "bo": "anna"}, "line 2: item 'b1': anna, bo checked each other"),
    ({"a": "b", "b": "c", "c": "d", "d": "b"}, "line 2: item 'b1': b, c, d checked each other"),
    ({"Jose\u0301": "bo", "bo": "Jos\u00e9"}, "item 'b1': Jos\u00e9, bo checked each other"),
  ],
)
def test_rating_join_refuses_rings_of_checks_by_their_names(join, checks, names):
  lines = [_thumb("b1", rater, **({"checks": first} if first else {})) for rater, first in checks.items()]
  with pytest.raises(UsageError, match=names):
    join("thumb", lines)


@pytest.mark.parametrize(
  "checks, kept",
  [
    ({"anna": "", "bo": "anna", "chen": "bo"}, {"chen"}),
    ({"anna": "", "bo": "anna", "chen": "anna"}, {"bo", "chen"}),
    ({"anna": "dora"}, {"anna"}),
    ({"anna": "dora", "bo": "anna", "chen": ""}, {"bo", "chen"}),
  ],
)
def test_rating_join_keeps_the_last_of_a_chain_of_checks(join, checks, kept):
  lines = [_thumb("b2", rater, **({"checks": first} if first else {})) for rater, first in checks.items()]
  # On another item they check the other way round, which is no ring.
  lines += [_thumb("b3", first, checks=rater) for rater, first in list(checks.items())[1:2] if first]
  rows = join("thumb", lines).rows
  assert {row["annotator"] for row in rows if row["SYS"] == "base"} == kept


@hypothesis.given(st.lists(st.sampled_from(["", *"abcdef"]), min_size=5, max_size=5))
def test_rating_join_finds_every_ring_of_checks(checks):
  ratings = {
    rater: rating_join._Rating(rater, first, {}) for rater, first in zip("abcde", checks, strict=True)
  }
  ring = rating_join._ring(ratings)
  assert [ratings[rater].checks for rater in ring] == ring[1:] + ring[:1]

  def walk(rater, steps):
    return walk(ratings[rater].checks, steps - 1) if steps and rater in ratings else rater

  # Whoever is still among the raters after more steps than there are raters walks in a ring.
  assert bool(ring) == any(walk(rater, len(ratings) + 1) in ratings for rater in ratings)


def test_rating_join_refuses_a_rating_that_a_later_file_takes_back(join):
  back = {"item": "b1", "rater": "anna", "taken_back": True}
  joined = join("thumb", [back, _thumb("b2")])
  assert (joined.taken_back, joined.unrated, joined.rated) == (1, 2, {"anna": 1})
  for order in (1, -1):
    with pytest.raises(UsageError, match="item 'b1' was rated by 'anna' before"):
      join("thumb", *[[_thumb("b1")], [back]][::order])


def test_rating_join_notes_raters_whose_names_differ_in_case(join):
  joined = join("thumb", [_thumb("b1", "Anna"), _thumb("b2", "anna"), _thumb("b3", "bo", checks="ANNA")])
  assert joined.notes == ["counted as different people: ANNA and Anna and anna"]


_RUBRIC = {
  "name": "style", "title": "Style", "task": "Rate.",
  "criteria": [{"name": "tone", "heading": "Tone", "question": "Friendly?", "choices": [[1, "no"], [2, "yes"]]}],
}  # fmt: skip


def test_rating_join_key_holds_a_custom_rubric(tmp_path):
  rubric = rating_protocols.parse(_RUBRIC, "style.json")
  key, saved = tmp_path / "key.jsonl", tmp_path / "saved.jsonl"
  rating_join.write_rows(key, rating_join.key_rows(rubric, _THUMB))
  files.jsonl(saved, {"item": "b1", "rater": "anna", "tone": 2})
  joined = rating_join.join(key, [saved])
  shared = {"protocol": "style", "image/key": "k1", "language": "en", "rater": "anna"}
  assert joined.rows == [
    {**shared, "system": system, "caption": "a dog", "tone": 2} for system in ("base", "large")
  ]
  files.jsonl(saved, {"item": "b1", "rater": "anna", "tone": 3})
  with pytest.raises(UsageError, match="'tone' is 3, not one of 1, 2"):
    rating_join.join(key, [saved])
