"""Batches of several lengths: alike on all processes, and no example changed."""

import itertools

import numpy as np
import pytest

from tests.data.streams import captions, equal, texts
from tests.make.tiny_corpus import NUM_PICTURES
from xmcap.data import images
from xmcap.data import length_index as lengths
from xmcap.errors import UsageError


def test_batch_has_the_smallest_target_length_that_holds_it(tiny):
  plain = captions(tiny)
  lengths = [int(plain.batch(step)["target_weights"].sum(-1).max()) for step in range(8)]
  middle = sorted(lengths)[4]
  stream = captions(tiny, target_lengths=(middle, 24))
  for step, length in enumerate(lengths):
    batch = stream.batch(step)
    size = middle if length <= middle else 24
    assert batch["target_tokens"].shape == (6, 2, size)
    np.testing.assert_array_equal(batch["target_tokens"], plain.batch(step)["target_tokens"][..., :size])
    assert stream.batch(step, [0, 1, 4])["target_tokens"].shape[-1] == size
  assert stream.lost == {}


def test_bucket_window_sorts_images_by_length(tiny):
  every = tuple(range(2, 25))
  plain, stream = (captions(tiny, target_lengths=every, bucket_window=window) for window in (1, 4))

  def rows(one, batches):
    return sorted(
      (key, *row) for batch in batches for key, row in zip(batch["key"], texts(one, batch), strict=True)
    )

  widths = [0, 0]
  for window in range(3):
    steps = range(4 * window, 4 * window + 4)
    before, after = ([one.batch(step) for step in steps] for one in (plain, stream))
    assert rows(plain, before) == rows(stream, after)
    longest = [batch["target_weights"].sum(-1).max(-1) for batch in after]
    longest.sort(key=lambda lengths: (lengths.min(), lengths.max()))
    assert all(one.max() <= other.min() for one, other in itertools.pairwise(longest))
    for number, batches in enumerate((before, after)):
      widths[number] += sum(batch["target_tokens"].shape[-1] for batch in batches)
  assert widths[1] < widths[0]


def test_bucket_window_is_independent_of_earlier_reads(tiny):
  options = dict(target_lengths=(10, 24), bucket_window=3)
  stream, other = captions(tiny, **options), captions(tiny, **options)
  forward = [stream.batch(step) for step in range(9)]
  for step in (8, 0, 4, 3, 7, 1):
    equal(other.batch(step), forward[step])


@pytest.mark.parametrize(
  "options",
  [
    {},
    {"language_weights": "count", "temperature": 2.0},
    {"language_weights": {"en": 3.0, "ar": 1.0}},
    {"languages": ("ar",)},
  ],
)
@pytest.mark.parametrize("window", [1, 4])
def test_target_lengths_and_bucket_window_change_no_example(tiny, window, options):
  """Against batches of one length: the same pictures with the same captions, as short as the longest of them allows."""
  options = dict(options, batch_size=16, augment=images.Augment(min_area=0.5))
  sizes = (4, 8, 12, 16, 24)
  plain, stream = (
    captions(tiny, **options),
    captions(tiny, **options, target_lengths=sizes, bucket_window=window),
  )

  def examples(batches):
    rows = []
    for batch in batches:
      for key, image, prompt, target, weights in zip(*(batch[name] for name in (
        "key", "image", "prompt_tokens", "target_tokens", "target_weights")), strict=True):  # fmt: skip
        width = ((0, 0), (0, 24 - target.shape[-1]))
        rows.append(
          (
            key,
            image.tobytes(),
            prompt.tobytes(),
            np.pad(target, width).tobytes(),
            np.pad(weights, width).tobytes(),
          )
        )
    return rows

  for start in (0, 4, 32):
    before = [plain.batch(step) for step in range(start, start + 4)]
    after = [stream.batch(step) for step in range(start, start + 4)]
    if window == 1:
      assert examples(before) == examples(after)
    assert sorted(examples(before)) == sorted(examples(after))
    for batch in after:
      longest = batch["target_weights"].sum(-1).max()
      assert batch["target_tokens"].shape[-1] == next(size for size in sizes if size >= longest)
  assert plain.lost == stream.lost


def test_a_process_reads_only_its_own_pictures_of_a_window(tiny, monkeypatch):
  stream = captions(tiny, batch_size=64, target_lengths=(8, 16, 24), bucket_window=16)
  asked = []
  iterate = stream.source.iterate
  monkeypatch.setattr(
    stream.source, "iterate", lambda indices, parse: asked.append(len(indices)) or iterate(indices, parse)
  )
  shares = [np.arange(process, 32, 16) for process in range(16)]
  lengths_of_step = []
  for rows in shares:
    process = captions(tiny, batch_size=64, target_lengths=(8, 16, 24), bucket_window=16)
    asked.clear()
    batches = [process.batch(step, rows) for step in range(16)]
    lengths_of_step.append([batch["target_tokens"].shape[-1] for batch in batches])
    assert asked == [2] * 16
  assert len(set(lengths_of_step[0])) > 1 and all(found == lengths_of_step[0] for found in lengths_of_step)


def test_target_length_is_the_largest_of_target_lengths(tiny):
  for target_length, found in ((24, (8, 16, 24)), (16, (8, 16)), (12, (8, 12)), (6, (6,))):
    assert captions(tiny, target_length=target_length, target_lengths=(8, 16)).target_lengths == found


def test_target_lengths_of_a_large_split_need_a_length_index(tiny, tmp_path, monkeypatch):
  monkeypatch.setattr(lengths, "SMALL", NUM_PICTURES - 1)
  assert captions(tiny).mix_of_lengths(10) == {24: 1.0}
  with pytest.raises(
    UsageError, match="has no index of lengths for 'train' .*: make it with `xmcap data index .*`"
  ):
    captions(tiny, target_lengths=(12, 24))


def test_mix_of_lengths_is_the_share_of_batches(tiny):
  stream = captions(tiny, batch_size=8, target_lengths=(8, 12, 24), bucket_window=4)
  made = [stream.batch(step)["target_tokens"].shape[-1] for step in range(40)]
  mix = stream.mix_of_lengths(40)
  assert mix == {size: made.count(size) / 40 for size in (8, 12, 24)} and mix[8] > 0
  assert stream.mix_of_lengths(1) == {size: made[:4].count(size) / 4 for size in (8, 12, 24)}


def test_a_process_has_most_images_of_a_chunk_in_a_window(tiny):
  """A quarter of the rows of four batches: it has about a quarter of the chunks, not a part of each."""
  options = dict(batch_size=64, captions_per_image=1, target_lengths=(9, 24), bucket_window=4)
  stream, plain = (captions(tiny, neighbours=neighbours, **options) for neighbours in (8, 1))

  def share(one, rows) -> float:
    planned = np.concatenate([one._planned(step, np.asarray(rows) + 64 * step) for step in range(4, 8)])
    return len(np.unique(planned // 8)) / 32

  shares = [[share(one, range(start, start + 16)) for start in range(0, 64, 16)] for one in (stream, plain)]
  assert max(shares[0]) < 0.6 < min(shares[1])
  window = np.concatenate([stream._planned(step, np.arange(64) + 64 * step) for step in range(4, 8)])
  assert sorted(window.tolist()) == list(range(256, 512))
