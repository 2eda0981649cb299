import numpy as np
import pytest

from tests.make import files
from tests.make.tiny_corpus import NUM_PICTURES, SIDE, colour, tiny_record, write_corpus
from xmcap.data.skipped_images import SkippedImages
from xmcap.data.stream import CaptionStream, TagStream
from xmcap.errors import UsageError, XmcapError

BAD = (3, 8)


@pytest.fixture(scope="module")
def damaged_dir(tmp_path_factory):
  """The tiny corpus, in which two pictures break off."""
  records = [tiny_record(index) for index in range(NUM_PICTURES)]
  for index in BAD:
    records[index].image = records[index].image[:60]
  return write_corpus(tmp_path_factory.mktemp("damaged"), records)


@pytest.fixture
def damaged(damaged_dir, register):
  return register(damaged_dir)


def captions(corpus, **options):
  return CaptionStream(corpus.name, batch_size=12, target_length=24, image_size=SIDE, **options)


def tags(corpus, **options):
  return TagStream(corpus.name, batch_size=12, image_size=SIDE, **options)


def weights_of(batch):
  return batch["weights"] if "weights" in batch else batch["target_weights"].max((1, 2))


@pytest.mark.parametrize("kind", [captions, tags])
def test_on_bad_stop_names_the_undecodable_image(damaged, kind):
  with pytest.raises(XmcapError, match=r"picture '0{15}[38]': .*, or skip such pictures .* on_bad = 'skip'"):
    list(kind(damaged).batches(0, num_steps=2))


@pytest.mark.parametrize("kind", [captions, tags])
def test_a_skipped_picture_is_black_and_has_weight_0(damaged, tiny, kind):
  stream, whole = kind(damaged, on_bad="skip"), kind(tiny)
  found = set()
  for step in range(4):
    batch = stream.batch(step)
    for name, array in whole.batch(step).items():
      if name not in ("image", "weights", "target_weights"):
        np.testing.assert_array_equal(batch[name], array)
    for key, image, weight in zip(batch["key"], batch["image"], weights_of(batch), strict=True):
      index = int(key, 16)
      bad = index in BAD
      np.testing.assert_array_equal(image, np.zeros_like(image) if bad else colour(index))
      assert weight == (0 if bad else 1)
      found.add(index)
  assert found >= set(BAD) and stream.lost["pictures that cannot be decoded"] == 2 * len(BAD)


def test_batches_with_skipped_images_are_independent_of_earlier_reads(damaged):
  stream = captions(damaged, on_bad="skip")
  batches = [stream.batch(step) for step in range(4)]
  for step in (3, 1):
    for name, array in captions(damaged, on_bad="skip").batch(step).items():
      np.testing.assert_array_equal(batches[step][name], array)


def test_skipped_images_are_listed_once_across_restarts(damaged, tmp_path):
  file = tmp_path / "skipped-pictures-0.jsonl"
  for _ in range(2):
    stream = captions(damaged, on_bad="skip")
    stream.skipped.list_in(file)
    for step in range(4):
      stream.batch(step)
  lines = files.rows(file)
  assert sorted(int(line["key"], 16) for line in lines) == list(BAD)
  assert all("cannot be decoded" in line["reason"] for line in lines)


def test_exceeding_bad_limit_ends_the_run(damaged, tmp_path):
  file = tmp_path / "list"
  stream = captions(damaged, on_bad="skip", bad_limit=1)
  stream.skipped.list_in(file)
  with pytest.raises(
    XmcapError, match=f"2 pictures cannot be decoded, and bad_limit is 1: .*listed in {file}"
  ):
    list(stream.batches(0, num_steps=4))
  assert len(file.read_text().splitlines()) == 2


def test_images_listed_by_an_earlier_start_count_towards_the_limit(tmp_path):
  file = tmp_path / "list"
  skipped = SkippedImages("skip")
  skipped.list_in(file)
  skipped.add("a", XmcapError("picture 'a': cannot be decoded"))
  later = SkippedImages("skip", limit=1)
  later.list_in(file)
  with pytest.raises(XmcapError, match="2 pictures cannot be decoded"):
    later.add("b", XmcapError("picture 'b': cannot be decoded"))


def test_repaired_image_regains_its_weight(tiny, tmp_path):
  file = tmp_path / "list"
  before = SkippedImages("skip")
  before.list_in(file)
  before.add(f"{BAD[0]:016x}", XmcapError("cannot be decoded"))
  stream = tags(tiny, on_bad="skip")
  stream.skipped.list_in(file)
  assert all(weights_of(stream.batch(step)).all() for step in range(4))


@pytest.mark.parametrize("text", ["[1]", "{", "[" * 100_000, '{"key": "a"}'])
def test_invalid_list_of_skipped_images_is_refused(tmp_path, text):
  (tmp_path / "list").write_text(f"{text}\n")
  with pytest.raises(XmcapError, match="not a list of skipped pictures"):
    SkippedImages("skip").list_in(tmp_path / "list")


def test_resized_stream_counts_skipped_images_separately(damaged):
  stream = captions(damaged, on_bad="skip", bad_limit=5)
  small = stream.resized(NUM_PICTURES)
  small.batch(0)
  assert len(small.lost) and not stream.lost


def test_invalid_on_bad_and_bad_limit_are_refused(damaged):
  with pytest.raises(UsageError, match="on_bad=ignore, .*choose skip or stop"):
    captions(damaged, on_bad="ignore")
  with pytest.raises(UsageError, match="bad_limit=-1"):
    tags(damaged, bad_limit=-1)
