"""Order, rows, resuming and prefetching, which all streams share."""

import threading

import numpy as np
import pytest

from tests.data.streams import captions, dealt_out, equal, joined
from tests.make.images import encode
from tests.make.tiny_corpus import NUM_PICTURES, SIDE, tiny_record, write_corpus
from xmcap import processes as processes_lib
from xmcap.data import features, images, records
from xmcap.data.stream import CaptionStream, TagStream
from xmcap.errors import UsageError, XmcapError


def test_every_picture_comes_up_once_an_epoch(tiny):
  stream = captions(tiny)
  epochs = [np.concatenate([stream.batch(4 * epoch + i)["key"] for i in range(4)]) for epoch in range(3)]
  for keys in epochs:
    assert sorted(keys) == [f"{index:016x}" for index in range(NUM_PICTURES)]
  assert (epochs[0] != epochs[1]).any() and (epochs[1] != epochs[2]).any()


def test_batch_spans_the_end_of_an_epoch(tiny):
  stream = captions(tiny, batch_size=20)
  keys = np.concatenate([stream.batch(step)["key"] for step in range(12)])
  for epoch in keys.reshape(5, NUM_PICTURES):
    assert len(set(epoch)) == NUM_PICTURES


@pytest.mark.parametrize("pictures, multiple, sizes", [
  (8, 1, (8, 3)), (7, 1, (6, 4)), (10, 1, (8, 3)), (100, 1, (24, 1)), (7, 4, (8, 3)), (9, 16, (16, 2)), (1, 5, (5, 5)),
])  # fmt: skip
def test_first_yields_the_split_once_in_even_batches(tiny, pictures, multiple, sizes):
  stream = TagStream(tiny.name, batch_size=pictures, image_size=SIDE)
  once, steps = stream.first(NUM_PICTURES, multiple)
  assert (once.num_images, steps) == sizes
  batches = [once.batch(step) for step in range(steps)]
  weights = np.concatenate([batch["weights"] for batch in batches])
  keys = np.concatenate([batch["key"] for batch in batches])
  assert weights.tolist() == [1.0] * NUM_PICTURES + [0.0] * (len(keys) - NUM_PICTURES)
  assert len(set(keys[:NUM_PICTURES])) == NUM_PICTURES
  assert stream.batch(0)["weights"].tolist() == [1.0] * pictures


def test_first_gives_weight_0_beyond_the_end(tiny):
  """In drawn order, whatever the window; and a position's example is that of any batch size."""
  stream = captions(tiny, batch_size=14, target_length=24, target_lengths=(8, 24), bucket_window=2)
  once, steps = stream.first(10, multiple=4)
  assert (once.num_images, steps, once.target_lengths) == (8, 2, (8, 24))
  last = once.batch(1)
  assert (last["target_weights"].sum((1, 2)) > 0).tolist() == [True] * 2 + [False] * 6
  plain = captions(tiny, batch_size=20).batch(0)
  for name in ("key", "image", "prompt_tokens"):
    np.testing.assert_array_equal(last[name][:2], plain[name][8:])
  length = last["target_tokens"].shape[-1]
  np.testing.assert_array_equal(last["target_tokens"][:2], plain["target_tokens"][8:, :, :length])
  np.testing.assert_array_equal(last["target_weights"][:2], plain["target_weights"][8:, :, :length])


def test_resized_has_the_longest_targets_and_leaves_the_stream_alone(tiny):
  stream = CaptionStream(
    tiny.name, batch_size=8, target_length=16, target_lengths=(4, 16), bucket_window=2, image_size=8
  )
  small = stream.resized(2)
  assert small.batch(0)["target_tokens"].shape == (2, 1, 16) and small.batch(0)["image"].shape[0] == 2
  assert (stream.num_images, stream.target_lengths, stream.bucket_window) == (8, (4, 16), 2)


def test_batch_is_independent_of_earlier_reads(tiny):
  crop = images.Augment(min_area=0.5)
  stream, other = captions(tiny, augment=crop), captions(tiny, augment=crop)
  forward = [stream.batch(step) for step in range(5)]
  for step in reversed(range(5)):
    equal(other.batch(step), forward[step])
  equal(captions(tiny, augment=crop).batch(10**9), stream.batch(10**9))


def test_batch_at_a_far_step_reads_only_its_own_records(tiny, monkeypatch):
  stream = captions(tiny)
  asked = []
  iterate = stream.source.iterate
  monkeypatch.setattr(
    stream.source, "iterate", lambda indices, parse: asked.append(len(indices)) or iterate(indices, parse)
  )
  stream.batch(0)
  first, asked[:] = list(asked), []
  stream.batch(10**9 // stream.num_images)
  assert sum(asked) == sum(first) == stream.num_images


@pytest.mark.parametrize("options", [{}, {"target_lengths": (12, 24), "bucket_window": 2}])
@pytest.mark.parametrize("processes", [2, 3, 6])
def test_processes_share_one_batch(tiny, processes, options):
  stream = captions(tiny, augment=images.Augment(min_area=0.5), **options)
  for step in (0, 3, 17):
    equal(dealt_out(stream, step, processes), stream.batch(step))


@pytest.mark.parametrize("processes", [2, 16])
def test_sixteen_processes_give_the_bits_of_one(tiny, processes):
  stream = captions(
    tiny, batch_size=64, augment=images.InceptionCrop(), language_weights={"en": 2.0, "de": 1.0}
  )
  for step in (0, 5, 10**9 // 32):
    equal(dealt_out(stream, step, processes), stream.batch(step))


def test_a_position_does_not_depend_on_the_batch_size(tiny):
  small, large = captions(tiny, batch_size=4), captions(tiny, batch_size=12)
  equal(joined([small.batch(step) for step in range(3, 6)]), large.batch(1))


def test_seed_changes_the_order_of_images(tiny):
  one, other = captions(tiny).batch(0), captions(tiny, seed=1).batch(0)
  assert (one["key"] != other["key"]).any()


def test_augmentation_changes_from_epoch_to_epoch(tmp_path, tiny_dir, register):
  pixels = np.random.default_rng(0).integers(0, 255, (SIDE, SIDE, 3), np.uint8)
  record = records.Record("noise", encode(pixels), [records.Caption("en", "noise")])
  name = register(write_corpus(tmp_path, [record]), languages=("en",))
  stream = captions(name, batch_size=2, captions_per_image=1, augment=images.Augment(min_area=0.3))
  first, second = stream.batch(0)["image"]
  assert (first != second).any()


def test_prefetched_batches_are_the_same(tiny):
  stream = captions(tiny, workers=3)
  for step, batch in zip(range(7, 12), stream.batches(7, num_steps=5), strict=True):
    equal(batch, stream.batch(step))
  endless = stream.batches(3, rows=[0, 1, 4])
  equal(next(endless), stream.batch(3, [0, 1, 4]))
  endless.close()
  assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@pytest.mark.parametrize("options", [{}, {"target_lengths": (12, 24), "bucket_window": 2}])
@pytest.mark.parametrize("workers, depth", [(1, 2), (2, 5), (3, 2), (4, 16)])
def test_any_number_of_workers_gives_the_same_bits(tiny, workers, depth, options):
  # 24 pictures are three parts at most.
  options |= dict(batch_size=48, augment=images.Augment(min_area=0.5))
  one = captions(tiny, **options)
  stream = captions(tiny, workers=workers, depth=depth, **options)
  for step, batch in enumerate(stream.batches(num_steps=6)):
    equal(batch, one.batch(step))
  rows = np.arange(1, 24, 2)
  for step, batch in enumerate(stream.batches(5, rows, num_steps=3), 5):
    equal(batch, one.batch(step, rows))
  assert stream.lost == {}


def test_workers_default_to_available_cores(tiny):
  assert captions(tiny).workers == captions(tiny, workers=0).workers == processes_lib.available_cores()
  assert captions(tiny, workers=5).workers == 5


@pytest.mark.parametrize(
  "batches, ahead",
  [(0, 2), (2.9, 2), (7, 7), (100, 16)],
)
def test_batches_ahead_fit_into_prefetch_bytes(tiny, batches, ahead):
  rows = [0, 2, 3]
  stream = captions(tiny, prefetch_bytes=int(batches * len(rows) * SIDE * SIDE * 3))
  assert stream.batches_ahead(len(rows)) == ahead
  assert captions(tiny, depth=4).batches_ahead(len(rows)) == 4


def test_prefetching_is_bounded_by_prefetch_bytes(tiny, monkeypatch):
  stream = captions(tiny, workers=2, prefetch_bytes=3 * 6 * SIDE * SIDE * 3)
  made = []
  job = stream._job
  monkeypatch.setattr(stream, "_job", lambda steps, *arguments: made.extend(steps) or job(steps, *arguments))
  batches = stream.batches()
  assert made == [0, 1, 2]
  next(batches)
  assert made == [0, 1, 2, 3]
  batches.close()


def test_a_bad_picture_is_named_when_its_batch_comes(tmp_path, register):
  pictures = [tiny_record(index) for index in range(4)]
  pictures[2].image = pictures[2].image[:40]
  stream = captions(register(write_corpus(tmp_path, pictures)), batch_size=4)
  with pytest.raises(XmcapError, match="picture '0000000000000002'"):
    list(stream.batches(num_steps=2))


def test_the_batches_before_a_bad_picture_are_whole(tmp_path, register):
  pictures = [tiny_record(index) for index in range(NUM_PICTURES)]
  pictures[7].image = pictures[7].image[:40]
  stream = captions(register(write_corpus(tmp_path, pictures)), batch_size=2, captions_per_image=1, workers=4)
  step = int(np.flatnonzero(stream.indices(np.arange(NUM_PICTURES)) == 7)[0]) // 2
  batches = stream.batches()
  for number in range(step):
    equal(next(batches), stream.batch(number))
  with pytest.raises(XmcapError, match="picture '0000000000000007'"):
    next(batches)
  assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@pytest.mark.parametrize(
  "arguments, message",
  [
    ((0, [4, 6]), "rows of a batch of 6 pictures"),
    ((0, [-1, 2]), "ascending rows from 0"),
    ((0, [2, 1]), "ascending"),
    ((0, [1, 1]), "ascending"),
    ((0, []), "ascending"),
    ((-1, None), "step -1"),
  ],
)
def test_invalid_rows_of_a_batch_are_refused(tiny, arguments, message):
  stream = captions(tiny)
  with pytest.raises(UsageError, match=message):
    stream.batch(*arguments)


def test_bad_rows_are_refused_before_any_thread_begins(tiny):
  with pytest.raises(UsageError, match="rows of a batch of 6 pictures"):
    captions(tiny).batches(0, [6])


@pytest.fixture
def stored(tmp_path):
  """A vector of each picture of the tiny corpus, [its number, 1], in another order than the records."""
  numbers = np.random.default_rng(0).permutation(NUM_PICTURES)
  vectors = np.stack([numbers, np.ones(NUM_PICTURES)], axis=1).astype(np.float32)
  path = tmp_path / "vectors.safetensors"
  features.write(path, features.Features(tuple(f"{number:016x}" for number in numbers), vectors))
  return str(path)


@pytest.mark.parametrize("options", [{}, {"target_lengths": (12, 24), "bucket_window": 2}])
def test_stored_vectors_take_the_place_of_the_pixels(tiny, stored, options):
  plain, stream = captions(tiny, **options).batch(3), captions(tiny, features=stored, **options).batch(3)
  vectors = stream.pop("features")
  assert vectors.dtype == np.float32
  assert vectors.tolist() == [[int(key, 16), 1] for key in stream["key"]]
  del plain["image"]
  equal(stream, plain)


def test_no_picture_is_decoded_with_stored_vectors(tiny, stored, monkeypatch):
  monkeypatch.setattr(images, "load", None)
  stream = TagStream(tiny.name, batch_size=4, image_size=10**6, features=stored, workers=2)
  for step, batch in enumerate(stream.batches(num_steps=3)):
    equal(batch, stream.batch(step))
  equal(dealt_out(stream, 1, 2), stream.batch(1))


def test_signature_changes_with_stored_vectors(tiny, stored, tmp_path):
  before = captions(tiny, features=stored).signature()
  found = features.read(stored)
  features.write(tmp_path / "f.safetensors", features.Features(found.keys, found.vectors + 1))
  after = captions(tiny, features=str(tmp_path / "f.safetensors")).signature()
  assert {name for name in before if before[name] != after[name]} == {"features"}
  assert "features" not in captions(tiny).signature()


def test_stored_vectors_cannot_be_augmented(tiny, stored):
  with pytest.raises(UsageError, match="cannot be augmented"):
    captions(tiny, features=stored, augment=images.Augment(min_area=0.5))
