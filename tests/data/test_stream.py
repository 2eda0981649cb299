import io
import itertools
import threading

import gin
import numpy as np
import pytest
import sentencepiece
from scipy import stats

import tests.data.conftest as corpora
from tests.data.conftest import NUM_PICTURES, SIDE, colour, tiny_record, write_corpus
from tests.data.streams import captions, dealt_out, equal, joined, texts
from xmcap.data import images, records
from xmcap.data.checking import preflight as checks
from xmcap.data.stream import CaptionStream, TagStream
from xmcap.errors import UsageError, XmcapError
from xmcap.storage import files


def test_shapes_and_types(tiny):
  batch = captions(tiny).batch(0)
  assert {name: (array.shape, array.dtype) for name, array in batch.items() if name != "key"} == {
    "image": ((6, SIDE, SIDE, 3), np.uint8),
    "prompt_tokens": ((6, 2, 2), np.int32),
    "target_tokens": ((6, 2, 24), np.int32),
    "target_weights": ((6, 2, 24), np.float32),
  }
  assert batch["key"].shape == (6,) and batch["key"].dtype.kind == "U"


def test_pictures_and_captions_belong_to_the_key(tiny):
  stream = captions(tiny)
  for step in range(4):
    batch = stream.batch(step)
    for key, image, row in zip(batch["key"], batch["image"], texts(stream, batch), strict=True):
      record = tiny_record(int(key, 16))
      np.testing.assert_array_equal(image, colour(int(key, 16)))
      assert set(row) <= {(caption.language, caption.text) for caption in record.captions}


def test_targets_end_and_weights_cover_pieces_and_end(tiny):
  stream = captions(tiny)
  batch = stream.batch(0)
  for row, weights, line in zip(
    batch["target_tokens"].reshape(-1, 24),
    batch["target_weights"].reshape(-1, 24),
    itertools.chain(*texts(stream, batch)),
    strict=True,
  ):
    ids = [*stream.vocabulary.encode(line[1]), 1]
    assert row.tolist() == ids + [0] * (24 - len(ids))
    assert weights.tolist() == [1.0] * len(ids) + [0.0] * (24 - len(ids))
  assert stream.truncated == 0


def test_every_picture_comes_up_once_an_epoch(tiny):
  stream = captions(tiny)
  epochs = [np.concatenate([stream.batch(4 * epoch + i)["key"] for i in range(4)]) for epoch in range(3)]
  for keys in epochs:
    assert sorted(keys) == [f"{index:016x}" for index in range(NUM_PICTURES)]
  assert (epochs[0] != epochs[1]).any() and (epochs[1] != epochs[2]).any()
  assert stream.images_per_epoch == NUM_PICTURES
  assert stream.steps_per_epoch == 4


def test_a_batch_across_the_end_of_an_epoch(tiny):
  stream = captions(tiny, batch_size=20)
  keys = np.concatenate([stream.batch(step)["key"] for step in range(12)])
  for epoch in keys.reshape(5, NUM_PICTURES):
    assert len(set(epoch)) == NUM_PICTURES


@pytest.mark.parametrize("pictures, multiple, sizes", [
  (8, 1, (8, 3)), (7, 1, (6, 4)), (10, 1, (8, 3)), (100, 1, (24, 1)), (7, 4, (8, 3)), (9, 16, (16, 2)), (1, 5, (5, 5)),
])  # fmt: skip
def test_the_whole_split_once_in_batches_evenly_filled(tiny, pictures, multiple, sizes):
  stream = TagStream(tiny.name, batch_size=pictures, image_size=SIDE)
  once, steps = stream.first(stream.images_per_epoch, multiple)
  assert (once.pictures, steps) == sizes
  batches = [once.batch(step) for step in range(steps)]
  weights = np.concatenate([batch["weights"] for batch in batches])
  keys = np.concatenate([batch["key"] for batch in batches])
  assert weights.tolist() == [1.0] * NUM_PICTURES + [0.0] * (len(keys) - NUM_PICTURES)
  assert len(set(keys[:NUM_PICTURES])) == NUM_PICTURES
  assert stream.batch(0)["weights"].tolist() == [1.0] * pictures


def test_captions_beyond_the_end_weigh_nothing(tiny):
  """In drawn order, whatever the window; and a position's example is that of any batch size."""
  stream = captions(tiny, batch_size=14, target_length=24, target_lengths=(8, 24), bucket_window=2)
  once, steps = stream.first(10, multiple=4)
  assert (once.pictures, steps, once.target_lengths) == (8, 2, (8, 24))
  last = once.batch(1)
  assert (last["target_weights"].sum((1, 2)) > 0).tolist() == [True] * 2 + [False] * 6
  plain = captions(tiny, batch_size=20).batch(0)
  for name in ("key", "image", "prompt_tokens"):
    np.testing.assert_array_equal(last[name][:2], plain[name][8:])
  length = last["target_tokens"].shape[-1]
  np.testing.assert_array_equal(last["target_tokens"][:2], plain["target_tokens"][8:, :, :length])
  np.testing.assert_array_equal(last["target_weights"][:2], plain["target_weights"][8:, :, :length])


def test_what_is_beyond_the_end_is_not_counted_as_lost(tiny):
  stream = TagStream(tiny.name, batch_size=NUM_PICTURES, num_slots=2, image_size=SIDE)
  once, _ = stream.first(NUM_PICTURES, multiple=2 * NUM_PICTURES)
  assert len(once.batch(0)["key"]) == 2 * NUM_PICTURES
  assert stream.lost == once.lost == {"tags beyond the last slot": NUM_PICTURES // 4}


def test_a_step_does_not_depend_on_what_was_read_before(tiny):
  crop = images.Augment(min_area=0.5)
  stream, other = captions(tiny, augment=crop), captions(tiny, augment=crop)
  forward = [stream.batch(step) for step in range(5)]
  for step in reversed(range(5)):
    equal(other.batch(step), forward[step])
  equal(captions(tiny, augment=crop).batch(10**9), stream.batch(10**9))


@pytest.mark.parametrize("options", [{}, {"target_lengths": (12, 24), "bucket_window": 2}])
@pytest.mark.parametrize("processes", [2, 3, 6])
def test_processes_share_one_batch(tiny, processes, options):
  stream = captions(tiny, augment=images.Augment(min_area=0.5), **options)
  for step in (0, 3, 17):
    equal(dealt_out(stream, step, processes), stream.batch(step))


def test_a_position_does_not_depend_on_the_batch_size(tiny):
  small, large = captions(tiny, batch_size=4), captions(tiny, batch_size=12)
  equal(joined([small.batch(step) for step in range(3, 6)]), large.batch(1))


def test_the_seed_changes_everything(tiny):
  one, other = captions(tiny).batch(0), captions(tiny, seed=1).batch(0)
  assert (one["key"] != other["key"]).any()


def test_augmentation_changes_from_epoch_to_epoch(tmp_path, tiny_dir, register):
  pixels = np.random.default_rng(0).integers(0, 255, (SIDE, SIDE, 3), np.uint8)
  record = records.Record("noise", corpora.png(pixels), [records.Caption("en", "noise")])
  name = register(write_corpus(tmp_path, [record]), languages=("en",))
  stream = captions(name, batch_size=2, captions_per_image=1, augment=images.Augment(min_area=0.3))
  first, second = stream.batch(0)["image"]
  assert (first != second).any()


def test_the_captions_of_a_picture_are_in_different_languages(tiny):
  stream = captions(tiny, batch_size=24)
  for step in range(4):
    for row in texts(stream, stream.batch(step)):
      assert len({language for language, _ in row}) == 2


def test_languages_are_drawn_by_the_rates_of_the_mixture(tiny_dir, register):
  corpus = register(tiny_dir, rates={"en": 6.0, "de": 3.0, "ar": 1.0})
  stream = captions(corpus, batch_size=NUM_PICTURES, captions_per_image=1)
  counts = dict.fromkeys(stream.languages, 0)
  for step in range(100):
    batch = stream.batch(step)
    for key, row in zip(batch["key"], texts(stream, batch), strict=True):
      if int(key, 16) % 2 == 0:  # these have all three
        counts[row[0][0]] += 1
  shares = np.array([counts[code] for code in ("en", "de", "ar")]) / sum(counts.values())
  np.testing.assert_allclose(shares, [0.6, 0.3, 0.1], atol=0.04)


def test_a_language_of_rate_zero_is_never_drawn(tiny_dir, register):
  stream = captions(register(tiny_dir, rates={"en": 0.0, "de": 3.0, "ar": 1.0}), captions_per_image=1)
  assert stream.languages == ("ar", "de")
  drawn = {row[0][0] for step in range(20) for row in texts(stream, stream.batch(step))}
  assert drawn == {"ar", "de"}


def test_one_language_by_the_name_of_its_task(tiny):
  stream = CaptionStream(f"{tiny.name}_de", batch_size=4, target_length=24, image_size=SIDE)
  assert stream.languages == ("de",)
  assert {row[0][0] for row in texts(stream, stream.batch(0))} == {"de"}


def test_captions_of_a_language_take_turns(tiny):
  stream = captions(tiny, batch_size=2 * NUM_PICTURES)
  seen = {}
  for step in range(2):
    batch = stream.batch(step)
    for key, row in zip(batch["key"], texts(stream, batch), strict=True):
      if int(key, 16) % 2:  # these have two languages, so that English is always drawn
        seen.setdefault(key, []).append(dict(row)["en"])
  assert all(len(set(english)) == 2 for english in seen.values())
  begun = {english[0] == tiny_record(int(key, 16)).captions[0].text for key, english in seen.items()}
  assert begun == {True, False}  # not all pictures begin with their first caption


def test_few_languages_go_on_with_further_captions_then_repeat(tiny):
  stream = captions(tiny, batch_size=24 * 5, captions_per_image=5)
  batch = stream.batch(0)
  for key, row in zip(batch["key"], texts(stream, batch), strict=True):
    all_captions = {(caption.language, caption.text) for caption in tiny_record(int(key, 16)).captions}
    count = len(all_captions)
    num_languages = count - 1  # English has two captions
    assert len({language for language, _ in row[:num_languages]}) == num_languages
    assert set(row[:count]) == all_captions
    assert row[count:] == row[: 5 - count]


def test_pictures_without_a_caption_weigh_nothing_and_are_counted(tiny):
  stream = CaptionStream(f"{tiny.name}_ar", batch_size=NUM_PICTURES, target_length=24, image_size=SIDE)
  batch = stream.batch(0)
  even = np.array([int(key, 16) % 2 == 0 for key in batch["key"]])
  weights = batch["target_weights"].sum((1, 2))
  assert (weights[even] > 1).all() and (weights[~even] == 0).all()
  assert (batch["target_tokens"][~even] == 0).all() and (batch["prompt_tokens"][~even] == 0).all()
  assert stream.lost == {"pictures without a caption in these languages": NUM_PICTURES // 2}


def test_long_captions_are_cut_without_an_end_and_counted(tiny):
  whole, stream = captions(tiny), captions(tiny, target_length=5)
  expected, batch = whole.batch(0), stream.batch(0)
  np.testing.assert_array_equal(batch["target_tokens"], expected["target_tokens"][..., :5])
  lengths = expected["target_weights"].sum(-1)
  assert (lengths > 5).any()
  assert stream.truncated == (lengths > 5).sum()
  assert (batch["target_tokens"][lengths > 5] != 1).all()


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


def test_tags_of_any_number_of_workers_are_the_same(tiny):
  stream = TagStream(tiny.name, batch_size=NUM_PICTURES, num_slots=2, image_size=SIDE, workers=3)
  for step, batch in enumerate(stream.batches(num_steps=3)):
    equal(batch, stream.batch(step))
  assert stream.lost == {"tags beyond the last slot": 6 * NUM_PICTURES // 4}  # three batches, made twice


def test_workers_are_the_cores_of_the_process_unless_given(tiny):
  assert captions(tiny).workers == captions(tiny, workers=0).workers == files.available_cores()
  assert captions(tiny, workers=5).workers == 5


@pytest.mark.parametrize(
  "batches, ahead",
  [(0, 2), (2.9, 2), (7, 7), (100, 16)],
)
def test_batches_ahead_fit_into_the_memory(tiny, batches, ahead):
  rows = [0, 2, 3]
  stream = captions(tiny, prefetch_bytes=int(batches * len(rows) * SIDE * SIDE * 3))
  assert stream.batches_ahead(len(rows)) == ahead
  assert captions(tiny, depth=4).batches_ahead(len(rows)) == 4


def test_no_more_pixels_are_held_than_fit_into_the_memory(tiny, monkeypatch):
  stream = captions(tiny, workers=2, prefetch_bytes=3 * 6 * SIDE * SIDE * 3)
  made = []
  new_pixels = stream._new_pixels
  monkeypatch.setattr(stream, "_new_pixels", lambda count: made.append(count) or new_pixels(count))
  batches = stream.batches()
  assert made == [6] * 3
  next(batches)
  assert made == [6] * 4
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
  step = int(np.flatnonzero(stream._indices(np.arange(NUM_PICTURES)) == 7)[0]) // 2
  batches = stream.batches()
  for number in range(step):
    equal(next(batches), stream.batch(number))
  with pytest.raises(XmcapError, match="picture '0000000000000007'"):
    next(batches)
  assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@pytest.mark.parametrize(
  "options, message",
  [
    (dict(batch_size=13), "13 captions cannot hold 2 an image"),
    (dict(captions_per_image=0), "cannot hold 0"),
    (dict(image_size=0), "0 pixels is empty"),
    (dict(prompt_length=0), "raise prompt_length, now 0"),
    (dict(target_lengths=(24, 12)), "rising lengths"),
    (dict(target_lengths=(12, 12)), "rising lengths"),
    (dict(target_length=1), "one piece and its end"),
    (dict(target_lengths=(12, 24), bucket_window=0), "at least one batch"),
    (dict(split="nothing"), "nothing"),
    (dict(workers=-1), "-1 workers"),
    (dict(depth=1), "at least 2 batches"),
    (dict(prefetch_bytes=-1), "-1 bytes ahead"),
  ],
)
def test_bad_configurations(tiny, options, message):
  with pytest.raises(UsageError, match=message):
    captions(tiny, **options)


@pytest.mark.parametrize(
  "arguments, message",
  [
    ((0, [4, 6]), "rows of a batch of 6 pictures"),
    ((0, [-1, 2]), "ascending from 0"),
    ((0, [2, 1]), "ascending"),
    ((0, [1, 1]), "ascending"),
    ((0, []), "some of them"),
    ((-1, None), "step -1"),
  ],
)
def test_bad_rows(tiny, arguments, message):
  stream = captions(tiny)
  with pytest.raises(UsageError, match=message):
    stream.batch(*arguments)


def test_bad_rows_are_refused_before_any_thread_begins(tiny):
  with pytest.raises(UsageError, match="rows of a batch of 6 pictures"):
    captions(tiny).batches(0, [6])


def test_gin_sets_it_up(tiny):
  with gin.config_scope("test_stream"), gin.unlock_config():
    gin.parse_config(f"""
      test_stream/CaptionStream.mixture = "{tiny.name}"
      test_stream/CaptionStream.image_size = 8
      test_stream/CaptionStream.augment = @test_stream/Augment()
      test_stream/Augment.min_area = 0.5
    """)
    stream = CaptionStream(batch_size=4)
  assert stream.image_size == 8 and stream.augment == images.Augment(min_area=0.5)


def test_an_mt5_like_model_by_path(tiny_dir, tmp_path, register, monkeypatch):
  model = io.BytesIO()
  with open(f"{tiny_dir}/text.txt", encoding="utf-8") as file:
    sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter([*file, *["en de ar"] * 20]), model_writer=model, vocab_size=90,
      hard_vocab_limit=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
    )  # fmt: skip
  (tmp_path / "other.model").write_bytes(model.getvalue())
  corpus = register(tiny_dir)
  with gin.unlock_config():
    gin.bind_parameter(f"{corpus.name}.vocabulary", str(tmp_path / "other.model"))
  with pytest.raises(UsageError, match="other.model: no LangId piece such as <ar> for ar de en among its"):
    captions(corpus, prompt_length=4, target_length=64)
  monkeypatch.setattr(checks, "MT5_SIZE", corpus.vocabulary().size)
  stream = captions(corpus, prompt_length=4, target_length=64)
  assert stream.vocabulary.prompt("en") == stream.vocabulary.encode("en")
  batch = stream.batch(0)
  for key, row in zip(batch["key"], texts(stream, batch), strict=True):
    assert {text for _, text in row} <= {caption.text for caption in tiny_record(int(key, 16)).captions}


def test_tags_in_reading_order(tiny):
  stream = TagStream(tiny.name, batch_size=NUM_PICTURES, num_slots=3, image_size=SIDE)
  batch = stream.batch(0)
  assert stream.num_classes == 3 and stream.tags == ("dog", "cat", "owl")
  assert batch["tags"].shape == (NUM_PICTURES, 3) and batch["tags"].dtype == np.int32
  assert batch["weights"].tolist() == [1.0] * NUM_PICTURES
  for key, image, tags in zip(batch["key"], batch["image"], batch["tags"], strict=True):
    index = int(key, 16)
    assert tags.tolist() == ([1, 2, 3][: index % 4] + [0, 0, 0])[:3]
    np.testing.assert_array_equal(image, colour(index))
  assert stream.lost == {}


def test_tags_and_captions_see_pictures_in_the_same_order(tiny):
  tags = TagStream(tiny.name, batch_size=6, image_size=SIDE)
  np.testing.assert_array_equal(tags.batch(5)["key"], captions(tiny).batch(5)["key"])
  equal(dealt_out(tags, 5, 2), tags.batch(5))


def test_tags_beyond_the_last_slot_are_counted(tiny):
  stream = TagStream(tiny.name, batch_size=NUM_PICTURES, num_slots=2, image_size=SIDE)
  assert set(stream.batch(0)["tags"].ravel()) == {0, 1, 2}
  assert stream.lost == {"tags beyond the last slot": NUM_PICTURES // 4}


def test_an_unknown_tag_is_named(tmp_path, register):
  record = tiny_record(0)
  record.tags = ["unicorn"]
  stream = TagStream(register(write_corpus(tmp_path, [record])).name, batch_size=1, image_size=SIDE)
  with pytest.raises(XmcapError, match="picture '0000000000000000': tag 'unicorn' is not in .*tags.txt"):
    stream.batch(0)


def test_no_slots(tiny):
  with pytest.raises(UsageError, match="num_slots is 0"):
    TagStream(tiny.name, num_slots=0)


def test_resized_has_the_longest_targets_and_leaves_the_stream_alone(tiny):
  stream = CaptionStream(
    tiny.name, batch_size=8, target_length=16, target_lengths=(4, 16), bucket_window=2, image_size=8
  )
  small = stream.resized(2)
  assert small.batch(0)["target_tokens"].shape == (2, 1, 16) and small.batch(0)["image"].shape[0] == 2
  assert (stream.pictures, stream.target_lengths, stream.bucket_window) == (8, (4, 16), 2)


@pytest.mark.parametrize("processes", [2, 16])
def test_sixteen_processes_give_the_bits_of_one(tiny, processes):
  stream = captions(
    tiny, batch_size=64, augment=images.InceptionCrop(), language_weights={"en": 2.0, "de": 1.0}
  )
  for step in (0, 5, 10**9 // 32):
    equal(dealt_out(stream, step, processes), stream.batch(step))


def test_a_far_position_reads_no_more_than_the_first(tiny, monkeypatch):
  stream = captions(tiny)
  asked = []
  iterate = stream.source.iterate
  monkeypatch.setattr(
    stream.source, "iterate", lambda indices, parse: asked.append(len(indices)) or iterate(indices, parse)
  )
  stream.batch(0)
  first, asked[:] = list(asked), []
  stream.batch(10**9 // stream.pictures)
  assert sum(asked) == sum(first) == stream.pictures


@pytest.mark.parametrize(
  "options, expected",
  [
    ({}, {"ar": 1, "de": 1, "en": 1}),
    ({"language_weights": "uniform"}, {"ar": 1, "de": 1, "en": 1}),
    ({"language_weights": "count"}, {"ar": 1, "de": 1, "en": 2}),
    ({"language_weights": "count", "temperature": 2.0}, {"ar": 1, "de": 1, "en": 2**0.5}),
    ({"language_weights": {"en": 6, "de": 3.0, "ar": 1}}, {"ar": 1, "de": 3, "en": 6}),
    ({"language_weights": {"en": 9, "de": 4}, "temperature": 2.0}, {"de": 2, "en": 3}),
    ({"languages": ("en", "ar")}, {"ar": 1, "en": 1}),
    ({"languages": ("en", "ar"), "language_weights": "count"}, {"ar": 1, "en": 2}),
  ],
)
def test_the_mix_of_languages_is_as_asked_for(tiny, options, expected):
  stream = captions(tiny, batch_size=NUM_PICTURES, captions_per_image=1, image_size=1, **options)
  assert set(stream.languages) == set(expected)
  counts = dict.fromkeys(stream.languages, 0)
  for step in range(120):
    positions = np.arange(NUM_PICTURES) + step * NUM_PICTURES
    for record, (column,), _ in stream._drawn(positions):
      if int(record.key, 16) % 2 == 0:  # these have all three
        counts[stream.languages[column]] += 1
  shares = np.array([expected[code] for code in counts]) / sum(expected.values())
  assert stats.chisquare(list(counts.values()), shares * sum(counts.values())).pvalue > 1e-3


@pytest.mark.parametrize(
  "options, message",
  [
    (
      dict(languages=("en", "th")),
      "CaptionStream.languages: 'th' is none of the languages to draw from: ar de en",
    ),
    (dict(language_weights="most"), "language_weights is 'most': give rates, uniform, count, or weights"),
    (dict(language_weights={"th": 1}), "language_weights: 'th' is none"),
    (dict(languages=("en",), language_weights={"de": 1}), "language_weights: 'de' is none .*: en"),
    (dict(language_weights={"en": -1}), "'en' has -1"),
    (dict(language_weights={"en": float("nan")}), "'en' has nan"),
    (dict(language_weights={"en": 0}), "are all 0"),
    (dict(temperature=0), "temperature is 0"),
  ],
)
def test_bad_weights(tiny, options, message):
  with pytest.raises(UsageError, match=message):
    captions(tiny, **options)


def test_gin_sets_the_weights(tiny):
  with gin.config_scope("weighted"), gin.unlock_config():
    gin.parse_config(f"""
      weighted/CaptionStream.mixture = "{tiny.name}"
      weighted/CaptionStream.languages = ("de", "en")
      weighted/CaptionStream.language_weights = {{"en": 3.0, "de": 1.0}}
      weighted/CaptionStream.temperature = 1.5
    """)
    stream = CaptionStream(batch_size=4, image_size=8)
  assert stream.languages == ("de", "en")
  np.testing.assert_allclose(stream._drawing.weights, [1, 3 ** (1 / 1.5)])
