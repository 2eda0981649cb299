"""The choice of emoji: names in every language, distinct images."""

import dataclasses

import pytest

from xmcap.corpora.emoji import choice as emoji_choice
from xmcap.errors import UsageError


def choose(source, count):
  return emoji_choice.choose(source.cldr.names, source.images, count, optional=("mi", "quz"))


def tags(source, count):
  return [emoji.tag for emoji in choose(source, count)]


def test_smaller_emoji_choice_is_a_prefix_of_a_larger(source):
  assert tags(source, 12)[:5] == tags(source, 5)


def test_chosen_emoji_have_names_except_in_maori_and_quechua(source):
  chosen = choose(source, 15)
  assert "\U0001f304" not in [emoji.character for emoji in chosen]
  assert all("de" in emoji.names for emoji in chosen)


def test_emoji_without_a_maori_name_are_kept_without_one(source, monkeypatch):
  monkeypatch.setattr(emoji_choice, "_MIN_DISTANCE", 0.0)
  chosen = {emoji.character: emoji for emoji in choose(source, 22)}
  assert "mi" not in chosen["\U0001f302"].names
  assert "quz" not in chosen["\U0001f303"].names


def test_emoji_without_an_image_are_left_out(source, monkeypatch):
  monkeypatch.setattr(emoji_choice, "_MIN_DISTANCE", 0.0)
  assert "en thing 21" not in tags(source, 22)


def test_emoji_names_are_distinct_in_every_language(source, monkeypatch):
  monkeypatch.setattr(emoji_choice, "_MIN_DISTANCE", 0.0)
  source.cldr.names["hu"]["\U0001f305"] = source.cldr.names["hu"]["\U0001f306"].upper()
  assert len({"en thing 5", "en thing 6"} & set(tags(source, 21))) == 1


def test_emoji_names_that_are_lists_are_left_out(source, monkeypatch):
  monkeypatch.setattr(emoji_choice, "_MIN_DISTANCE", 0.0)
  source.cldr.names["hi"]["\U0001f305"] = "एक, दो"
  assert "en thing 5" not in tags(source, 21)


def test_emoji_with_similar_images_are_left_out(source):
  class Same:
    def draw(self, emoji):
      return source.images.draw("\U0001f300")

  with pytest.raises(UsageError, match="only 1 distinguishable emoji"):
    choose(dataclasses.replace(source, images=Same()), 2)


@pytest.mark.parametrize("character", ["🏽", "🇨", "7", "a", "🕐", "👍🏽"])
def test_skin_tones_flags_and_letters_are_no_pictographs(character):
  assert not emoji_choice._PICTOGRAPH.fullmatch(character)


def test_num_emoji_over_the_available_is_refused(source):
  with pytest.raises(UsageError, match="num_emoji=1000: there are only"):
    choose(source, 1000)
