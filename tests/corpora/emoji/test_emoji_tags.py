"""emoji_tags: captions by people and by machine, tags and labels in the folder that `build` writes."""

import dataclasses
import json

import pytest

from tests.corpora.emoji import cedict_text
from xmcap.corpora.emoji import cedict
from xmcap.corpora.emoji import choice as emoji_choice
from xmcap.corpora.emoji import corpus as emoji_corpus
from xmcap.corpora.emoji import sources as emoji_sources
from xmcap.corpora.emoji.presets import EMOJI_TAGS
from xmcap.data import records


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  from tests.make import drawn_emoji

  folder = tmp_path_factory.mktemp("emoji_tags")
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(emoji_sources, "find", lambda *_: drawn_emoji.source.__wrapped__())
    patch.setattr(emoji_choice, "_MIN_DISTANCE", 0.0)
    patch.setattr(cedict, "find", lambda: cedict_text.write(folder))
    patch.setattr(cedict, "_frequencies", dict)
    preset = dataclasses.replace(
      EMOJI_TAGS, num_emoji=8, num_mt=30, num_train=20, num_validation=6, num_test=8, least=2, image_size=32
    )
    return emoji_corpus.build(preset, folder / "corpus", processes=1)


def _scenes(corpus, split):
  return [frozenset(record.tags) for record in records.RecordSource(corpus, split)]


def test_emoji_tags_split_sizes_and_caption_sources(corpus):
  for split, size in {"train_mt": 30, "train": 20, "val": 6, "test": 8}.items():
    found = list(records.RecordSource(corpus, split))
    assert len(found) == size
    sources = {(caption.language == "en", caption.source) for record in found for caption in record.captions}
    by_machine = split == "train_mt"
    assert sources == {(True, "human"), (False, "mt" if by_machine else "human")}
    languages = {code for record in found for code in record.tags_by_language}
    assert languages == {"en"} if by_machine else {"en", "zh", "sw"} <= languages


def test_emoji_tags_machine_translated_chinese_uses_cedict(corpus):
  texts = [
    caption.text
    for record in records.RecordSource(corpus, "train_mt")
    for caption in record.captions
    if caption.language == "zh"
  ]
  assert len(texts) == 30 and all("东西" in text for text in texts)


def test_emoji_tags_are_cldr_keywords(corpus):
  for record in records.RecordSource(corpus, "test"):
    own = [tag for tag in record.tags_by_language["sw"] if " own " in tag]
    assert len(own) == len(set(record.tags))


def test_emoji_tags_val_and_test_have_unseen_combinations(corpus):
  seen = {*_scenes(corpus, "train"), *_scenes(corpus, "train_mt")}
  several = [scene for split in ("val", "test") for scene in _scenes(corpus, split) if len(scene) > 1]
  assert several and not seen & set(several)


def test_emoji_tags_labels_are_frequent_train_tags(corpus):
  labels = (corpus / "labels/zh/labels.txt").read_text(encoding="utf-8").splitlines()
  pictures = [record.tags_by_language.get("zh", []) for record in records.RecordSource(corpus, "train")]
  assert set(labels) == {tag for tags in pictures for tag in tags if sum(tag in of for of in pictures) >= 2}
  lines = (corpus / "labels/zh/test.jsonl").read_text(encoding="utf-8").splitlines()
  assert len(lines) == 8 and {json.loads(line)["language"] for line in lines} == {"zh"}


def test_emoji_tags_released_images_have_references(corpus):
  lines = (corpus / "test/captions.jsonl").read_text(encoding="utf-8").splitlines()
  keys = [json.loads(line)["image/key"] for line in lines]
  assert len(keys) == 8 and all((corpus / f"test/images/{key}.png").is_file() for key in keys)
