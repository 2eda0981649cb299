"""The stream of images with labels (LabelStream)."""

import pytest

from tests.corpora import label_folders
from tests.data.streams import dealt_out, equal
from tests.make.tiny_corpus import NUM_PICTURES, SIDE
from xmcap.errors import UsageError
from xmcap.families.tagging.stream import LabelStream


def key(index):
  return f"{index:016x}"


@pytest.fixture
def folders(tmp_path):
  english = {key(index): ["dog", "cat"][: index % 3] for index in range(NUM_PICTURES)}
  chinese = {key(index): ["猫"] if index < 4 else ["船"] for index in range(8)}
  return {
    "en": label_folders.write(tmp_path / "en", "en", ["cat", "dog"], train=english),
    "zh": label_folders.write(tmp_path / "zh", "zh", ["狗", "猫"], train=chinese),
  }


def stream_of(tiny, folders, **options):
  return LabelStream(tiny.name, labels=folders, image_size=SIDE, **{"batch_size": NUM_PICTURES, **options})


def test_label_stream_concatenates_labels_of_languages(tiny, folders):
  batch = stream_of(tiny, folders).batch(0)
  assert batch["labels"].shape == (NUM_PICTURES, 4) and batch["image"].shape[1:] == (SIDE, SIDE, 3)
  for name, labels, weight in zip(batch["key"], batch["labels"].tolist(), batch["weights"], strict=True):
    index = int(name, 16)
    assert labels == [int(index % 3 == 2), int(index % 3 > 0), 0, int(index < 4)]
    assert weight == any(labels)


def test_label_stream_counts_unlabelled_images_and_unknown_tags(tiny, folders):
  stream = stream_of(tiny, folders)
  stream.batch(0)
  # Every third picture has no English label; those below 4 have a Chinese one.
  assert stream.lost == {"pictures without a label": 6, "tags that are not among the labels": 4}
  once, _ = stream_of(tiny, folders).first(NUM_PICTURES, multiple=2 * NUM_PICTURES)
  once.batch(0)
  assert once.lost == stream.lost


def test_label_stream_gives_any_rows_of_a_batch(tiny, folders):
  stream = stream_of(tiny, folders, batch_size=6)
  equal(dealt_out(stream, 5, 2), stream.batch(5))


def test_label_stream_keys_equal_those_of_batches(tiny, folders):
  stream = stream_of(tiny, folders, batch_size=6)
  assert stream.keys(12) == [*stream.batch(0)["key"], *stream.batch(1)["key"]]


def test_label_stream_signature_depends_on_labels(tiny, folders, tmp_path):
  before = stream_of(tiny, folders).signature()
  label_folders.write(tmp_path / "zh", "zh", ["狗", "猫"], train={key(0): ["狗"]})
  after = stream_of(tiny, folders).signature()
  assert {name for name in before if before[name] != after[name]} == {"labels_of_pictures"}


@pytest.mark.parametrize(
  ("language", "content", "message"),
  [
    ("zh", {"names": []}, "labels.txt: no tag in it"),
    ("zh", {"train": {key(0): ["船"]}}, "no picture of train has a label of labels.txt"),
    ("de", {"train": {key(0): ["猫"]}}, "train.jsonl: has tags in de, not in 'zh'"),
    (
      "zh",
      {"split": "other", "train": {key(0): ["猫"]}},
      "train.jsonl: no such file: `xmcap data tags` makes it",
    ),
  ],
)
def test_label_stream_refuses_malformed_label_folders(tiny, tmp_path, language, content, message):
  names = content.get("names", ["猫"])
  split = content.get("split", "train")
  folder = label_folders.write(tmp_path / "bad", language, names, **{split: content.get("train", {})})
  with pytest.raises(UsageError, match=message):
    stream_of(tiny, {"zh": folder})


def test_label_stream_without_folders_is_refused(tiny):
  with pytest.raises(UsageError, match="give a folder for each language"):
    stream_of(tiny, {})
