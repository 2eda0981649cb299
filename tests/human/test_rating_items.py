"""Items of a rating page: pairs, order, sides, seeds, limits and languages."""

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


def test_sxs_items_have_each_pair_of_systems_once():
  items = draw_items("sxs", _SYSTEMS)
  pairs = collections.Counter((item.key, item.language, *sorted(item.systems)) for item in items)
  assert len(pairs) == len(items) == 40 * 2 * 3


def test_sxs_items_captions_are_of_the_systems_on_their_sides():
  for item in draw_items("sxs", _SYSTEMS):
    assert item.captions == tuple(f"{name} {item.key} {item.language}" for name in item.systems)


def test_sxs_items_randomize_sides():
  left = collections.Counter(item.systems[0] for item in draw_items("sxs", {n: _SYSTEMS[n] for n in "AB"}))
  assert 25 <= left["A"] <= 55  # of 80: within 3.4 standard deviations of a fair coin


def test_thumb_items_randomize_the_order_of_systems():
  items = draw_items("thumb", _SYSTEMS)
  first = collections.Counter(item.systems[0] for item in items[:120])
  assert all(25 <= first[name] <= 55 for name in "ABC")
  assert [item.key for item in items[:10]] != _KEYS[:10]


def test_item_ids_are_opaque_and_distinct():
  items = draw_items("thumb", _SYSTEMS)
  assert len({item.id for item in items}) == len(items) == 240
  assert all(len(item.id) == 24 and int(item.id, 16) >= 0 for item in items)


def test_items_are_independent_of_the_order_of_systems():
  turned = {name: dict(reversed(_SYSTEMS[name].items())) for name in ("C", "A", "B")}
  for protocol in ("sxs", "thumb"):
    assert draw_items(protocol, turned) == draw_items(protocol, _SYSTEMS)


def test_items_seed_changes_order_and_sides():
  def sides(seed):
    return {(item.key, item.language): item.systems[0] for item in draw_items("sxs", systems, seed=seed)}

  systems = {name: _SYSTEMS[name] for name in "AB"}
  assert sides(0) != sides(1)
  assert [item.key for item in draw_items("sxs", systems, seed=0)] != [
    item.key for item in draw_items("sxs", systems, seed=1)
  ]


def test_items_of_other_raters_have_the_same_images_in_another_order():
  def drawn(rater):
    return draw_items("sxs", {name: _SYSTEMS[name] for name in "AB"}, limit=9, seed=3, rater=rater)

  def sides(items):
    return {(item.key, item.language): item.systems[0] for item in items}

  anna, bo = drawn("anna"), drawn("bo")
  assert {item.key for item in anna} == {item.key for item in bo}
  assert [(item.key, item.language) for item in anna] != [(item.key, item.language) for item in bo]
  assert sides(anna) != sides(bo)
  assert not {item.id for item in anna} & {item.id for item in bo}


def test_item_ids_depend_on_captions():
  other = {"A": _SYSTEMS["A"], "B": _SYSTEMS["C"]}
  systems = {"A": _SYSTEMS["A"], "B": _SYSTEMS["B"]}
  assert not {item.id for item in draw_items("sxs", systems)} & {item.id for item in draw_items("sxs", other)}


def test_items_limit_draws_images_with_all_their_captions():
  items = draw_items("thumb", _SYSTEMS, limit=7)
  assert len(items) == 7 * 2 * 3
  assert len({item.key for item in items}) == 7
  assert {item.key for item in items} != set(_KEYS[:7])


def test_items_seed_draws_the_same_images_for_any_systems():
  def keys(systems):
    return {item.key for item in draw_items("thumb", systems, limit=7, seed=3)}

  assert keys({"A": _SYSTEMS["A"]}) == keys({"B": _SYSTEMS["B"], "C": _SYSTEMS["C"]})


def test_items_languages_are_selected():
  assert {item.language for item in draw_items("thumb", _SYSTEMS, languages=["th"])} == {"th"}


def test_thumb_items_rate_equal_captions_once():
  # Section 2.2.3: after text processing a caption tells nothing of how a system writes.
  systems = {"B": {"k": {"en": " a dog .", "th": "x"}}, "A": {"k": {"en": "A dog", "th": "y"}}}
  items = draw_items("thumb", systems, languages=["en"])
  assert [(item.captions, item.systems) for item in items] == [(("A dog.",), ("A", "B"))]
  assert len(draw_items("coco_cn_captions", systems, languages=["en"])) == 2
  assert {item.captions for item in draw_items("thumb", systems, languages=["th"])} == {("x",), ("y",)}


def test_thumb_items_captions_of_an_image_are_adjacent():
  items = draw_items("thumb", _SYSTEMS)
  pictures = [(item.key, item.language) for item in items]
  assert len(set(pictures)) == 80
  assert all(len(set(pictures[start : start + 3])) == 1 for start in range(0, 240, 3))


def test_tag_items_rate_tags_of_several_systems_once():
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


def test_sxs_items_include_equal_captions():
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
def test_items_refuse_unratable_predictions(protocol, systems, options, message):
  with pytest.raises(UsageError, match=message):
    draw_items(protocol, systems, **options)


def test_items_need_no_captions_in_unselected_languages():
  systems = {"A": _SYSTEMS["A"], "B": _system("B", ["en"])}
  assert len(draw_items("sxs", systems, languages=["en"])) == 40
