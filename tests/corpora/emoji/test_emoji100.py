"""emoji100: the folder that `build` writes."""

import dataclasses
import json

import pytest
from PIL import ImageOps

from tests.make import drawn_emoji
from xmcap import languages
from xmcap.corpora.emoji import choice as emoji_choice
from xmcap.corpora.emoji import cldr, emoji100, sources
from xmcap.corpora.emoji import corpus as emoji_corpus
from xmcap.corpora.emoji.presets import EMOJI100
from xmcap.data import records
from xmcap.ranked import zero_shot

SMALL = dataclasses.replace(
  EMOJI100, num_emoji=8, num_held_out=3, num_train=40, num_validation=6, num_test=10, num_each=2, image_size=32,
  shard_records=7,
)  # fmt: skip


class _Other:
  """The same emoji with other colours; 1F316 is missing."""

  def __init__(self, pictures):
    self._pictures = pictures

  def draw(self, emoji):
    picture = None if emoji == "\U0001f316" else self._pictures.draw(emoji)
    return picture and ImageOps.invert(picture.convert("RGB")).convert("RGBA")


@pytest.fixture(autouse=True, scope="module")
def drawn():
  source = drawn_emoji.source.__wrapped__()
  names = {
    code: {chr(0x1F300 + number): f"{code} thing {number}" for number in range(24)} for code in languages.WIDE
  }
  names["de"]["\U0001f305"] = "EN Thing 5"  # as in English, but for case
  pattern = source.cldr.standard["en"]
  other = _Other(source.images)
  artists = {"noto": source.images, "twemoji": other, "openmoji": other}
  of_artists = sources.EmojiSource(
    "npm", cldr.Cldr(names, {}, dict.fromkeys(names, pattern), {}), sources.Common(artists.values()), artists
  )
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(sources, "find_artists", lambda: of_artists)
    patch.setattr(emoji_choice, "_MIN_DISTANCE", 0.0)
    yield


def build(folder, processes=1, **changes):
  return emoji_corpus.build(dataclasses.replace(SMALL, **changes), folder, processes=processes)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  return build(tmp_path_factory.mktemp("emoji100") / "corpus")


def test_emoji100_split_sizes_and_languages(corpus):
  sizes = {"train": 40, "validation": 6, "test": 10, "noto": 16, "twemoji": 16, "openmoji": 16, "held_out": 6}
  assert set(records.splits(corpus)) == set(sizes) == set(emoji100.SPLITS)
  for split, size in sizes.items():
    source = records.RecordSource(corpus, split)
    assert len(source) == size
    for record in source:
      records.check(record)
      assert [caption.language for caption in record.captions] == list(languages.WIDE)


def test_emoji100_held_out_classes_are_in_no_other_split(corpus):
  tags = records.read_tags(corpus)
  assert len(tags) == 11
  of_split = {
    split: [record.tags for record in records.RecordSource(corpus, split)] for split in emoji100.SPLITS
  }
  for artist in sources.ARTISTS:
    assert sorted(of_split[artist]) == sorted([[tag] for tag in tags[:8]] * 2)
  assert sorted(of_split["held_out"]) == sorted([[tag] for tag in tags[8:]] * 2)
  shown = {tag for split in ("train", "validation", "test") for found in of_split[split] for tag in found}
  assert shown <= set(tags[:8])


def test_emoji100_images_and_scenes_of_artists_differ(corpus):
  images = [
    record.image
    for split in (*sources.ARTISTS, "held_out", "train")
    for record in records.RecordSource(corpus, split)
  ]
  assert len(set(images)) == len(images)


def test_emoji100_omits_emoji_that_an_artist_lacks(tmp_path):
  corpus = build(tmp_path / "corpus", num_emoji=18, num_held_out=4)
  tags = records.read_tags(corpus)
  assert len(tags) == 22 and not {"en thing 21", "en thing 22"} & set(tags)


def test_emoji100_labels_omit_english_names_by_the_papers_rule(corpus):
  tags = records.read_tags(corpus)
  files = {"labels": range(8), "labels_held_out": range(8, 11)}
  place = tags.index("en thing 5") if "en thing 5" in tags else None
  for name, classes in files.items():
    found = zero_shot.read_labels(corpus / f"{name}.json")
    assert set(found) == set(languages.WIDE)
    assert found["en"].names == tuple(tags[index] for index in classes)
    wanted = [index for index in classes if index != place]
    assert found["de"].indices.tolist() == wanted
    assert found["th"].indices.tolist() == list(classes)
  assert list(json.loads((corpus / "labels.json").read_text("utf-8")))[0] == "EN"


def test_emoji100_labels_omit_languages_with_fewer_than_2_names():
  names = {"en": ["dog", "cat", "owl"], "nl": ["Dog", "kat", "Owl"], "de": ["Hund", "cat", "Eule"]}
  found = emoji100.labels(names, range(3))
  assert found == {"EN": [[0, 1, 2], ["dog", "cat", "owl"]], "DE": [[0, 2], ["Hund", "Eule"]]}


@pytest.mark.full
def test_emoji100_is_the_same_with_any_number_of_processes(corpus, tmp_path):
  def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

  assert contents(corpus) == contents(build(tmp_path / "two", processes=2))
