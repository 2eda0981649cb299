import collections

import pytest

from xmcap.errors import UsageError
from xmcap.human import rating_items
from xmcap.human.rating_protocols import PROTOCOLS

_KEYS = [f"k{i}" for i in range(40)]


def draw_items(protocol, *arguments, **options):
  return rating_items.draw_items(PROTOCOLS[protocol], *arguments, **options)


def _system(name, languages=("en", "th")):
  return {key: {code: f"{name} {key} {code}" for code in languages} for key in _KEYS}


_SYSTEMS = {name: _system(name) for name in ("A", "B", "C")}


def test_side_by_side_has_each_pair_of_systems_once():
  items = draw_items("sxs", _SYSTEMS)
  pairs = collections.Counter((item.key, item.language, *sorted(item.systems)) for item in items)
  assert len(pairs) == len(items) == 40 * 2 * 3


def test_captions_are_those_of_the_systems_on_their_sides():
  for item in draw_items("sxs", _SYSTEMS):
    assert item.captions == tuple(f"{name} {item.key} {item.language}" for name in item.systems)


def test_both_systems_stand_on_both_sides():
  left = collections.Counter(item.systems[0] for item in draw_items("sxs", {n: _SYSTEMS[n] for n in "AB"}))
  assert 25 <= left["A"] <= 55  # of 80: within 3.4 standard deviations of a fair coin


def test_order_says_nothing_of_the_systems():
  items = draw_items("thumb", _SYSTEMS)
  first = collections.Counter(item.systems[0] for item in items[:120])
  assert all(25 <= first[name] <= 55 for name in "ABC")
  assert [item.key for item in items[:10]] != _KEYS[:10]


def test_ids_are_opaque_and_distinct():
  items = draw_items("thumb", _SYSTEMS)
  assert len({item.id for item in items}) == len(items) == 240
  assert all(len(item.id) == 24 and int(item.id, 16) >= 0 for item in items)


def test_the_order_in_which_systems_are_named_changes_nothing():
  turned = {name: dict(reversed(_SYSTEMS[name].items())) for name in ("C", "A", "B")}
  for protocol in ("sxs", "thumb"):
    assert draw_items(protocol, turned) == draw_items(protocol, _SYSTEMS)


def test_a_seed_changes_order_and_sides():
  def sides(seed):
    return {(item.key, item.language): item.systems[0] for item in draw_items("sxs", systems, seed=seed)}

  systems = {name: _SYSTEMS[name] for name in "AB"}
  assert sides(0) != sides(1)
  assert [item.key for item in draw_items("sxs", systems, seed=0)] != [
    item.key for item in draw_items("sxs", systems, seed=1)
  ]


def test_raters_see_the_same_pictures_in_other_orders_and_on_other_sides():
  def drawn(rater):
    return draw_items("sxs", {name: _SYSTEMS[name] for name in "AB"}, limit=9, seed=3, rater=rater)

  def sides(items):
    return {(item.key, item.language): item.systems[0] for item in items}

  anna, bo = drawn("anna"), drawn("bo")
  assert {item.key for item in anna} == {item.key for item in bo}
  assert [(item.key, item.language) for item in anna] != [(item.key, item.language) for item in bo]
  assert sides(anna) != sides(bo)
  assert not {item.id for item in anna} & {item.id for item in bo}


def test_ids_of_other_captions_differ():
  other = {"A": _SYSTEMS["A"], "B": _SYSTEMS["C"]}
  systems = {"A": _SYSTEMS["A"], "B": _SYSTEMS["B"]}
  assert not {item.id for item in draw_items("sxs", systems)} & {item.id for item in draw_items("sxs", other)}


def test_a_limit_draws_pictures_with_all_their_captions():
  items = draw_items("thumb", _SYSTEMS, limit=7)
  assert len(items) == 7 * 2 * 3
  assert len({item.key for item in items}) == 7
  assert {item.key for item in items} != set(_KEYS[:7])


def test_a_seed_draws_the_same_pictures_whatever_the_systems():
  def keys(systems):
    return {item.key for item in draw_items("thumb", systems, limit=7, seed=3)}

  assert keys({"A": _SYSTEMS["A"]}) == keys({"B": _SYSTEMS["B"], "C": _SYSTEMS["C"]})


def test_languages_are_chosen():
  assert {item.language for item in draw_items("thumb", _SYSTEMS, languages=["th"])} == {"th"}


def test_equal_captions_are_rated_once_in_thumb():
  systems = {"B": {"k": {"en": "a dog", "th": "x"}}, "A": {"k": {"en": "a dog", "th": "y"}}}
  items = draw_items("thumb", systems, languages=["en"])
  assert [(item.captions, item.systems) for item in items] == [(("a dog",), ("A", "B"))]


def test_all_captions_of_a_picture_follow_each_other():
  items = draw_items("thumb", _SYSTEMS)
  pictures = [(item.key, item.language) for item in items]
  assert len(set(pictures)) == 80
  assert all(len(set(pictures[start : start + 3])) == 1 for start in range(0, 240, 3))


def test_tags_of_several_systems_are_judged_once():
  scores = {"zh": {"k": {"猫": 0.9, "狗": 0.2, "眼": 0.2, "船": 0.5}}}
  best = rating_items.best_tags(scores, 3, "A")
  assert best == {"k": {"zh": ["猫", "船", "狗"]}}  # of equal tags the first of the file
  systems = {"A": best, "B": {"k": {"zh": ["海", "猫", "船"]}}}
  items = draw_items("coco_cn_tags", systems)
  assert {(item.captions, item.systems) for item in items} == {
    (("猫",), ("A", "B")), (("船",), ("A", "B")), (("狗",), ("A",)), (("海",), ("B",)),
  }  # fmt: skip
  with pytest.raises(UsageError, match="system 'A' has 4 tags of 'k' in 'zh'; predict 5 or more"):
    rating_items.best_tags(scores, 5, "A")


def test_equal_captions_are_compared_all_the_same():
  systems = {name: {"k": {"en": "a dog"}} for name in "AB"}
  assert [item.captions for item in draw_items("sxs", systems)] == [("a dog", "a dog")]


@pytest.mark.parametrize(
  "protocol, systems, options, message",
  [
    ("sxs", {"A": _SYSTEMS["A"]}, {}, "needs two or more systems"),
    ("thumb", _SYSTEMS, {"languages": ["th", "ar"]}, "no prediction in ar"),
    (
      "sxs",
      {"A": _SYSTEMS["A"], "B": _system("B", ["en"])},
      {},
      r"system 'B' lacks 40 of 80 captions or lists of tags that others have \(th k0, th k1, th k10, \.\.\.\)",
    ),
  ],
)
def test_what_cannot_be_rated_is_refused(protocol, systems, options, message):
  with pytest.raises(UsageError, match=message):
    draw_items(protocol, systems, **options)


def test_languages_that_are_not_asked_for_need_not_be_complete():
  systems = {"A": _SYSTEMS["A"], "B": _system("B", ["en"])}
  assert len(draw_items("sxs", systems, languages=["en"])) == 40
