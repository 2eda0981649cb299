"""The captions of a batch: targets, prompts, weights, and their choice."""

import collections
import io
import itertools

import gin
import numpy as np
import pytest
import sentencepiece

from tests import lazily
from tests.data.streams import captions, texts
from tests.make.tiny_corpus import NUM_PICTURES, SIDE, colour, tiny_record
from xmcap.data import images, vocabulary
from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError

seqio = lazily.Module("seqio")

CUT = "captions truncated at the target length"


def test_caption_batch_shapes_and_dtypes(tiny):
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
  assert stream.lost == {}


def test_the_captions_of_a_picture_are_in_different_languages(tiny):
  stream = captions(tiny, batch_size=24)
  for step in range(4):
    for row in texts(stream, stream.batch(step)):
      assert len({language for language, _ in row}) == 2


def test_caption_stream_of_a_task_has_one_language(tiny):
  stream = CaptionStream(f"{tiny.name}_de", batch_size=4, target_length=24, image_size=SIDE)
  assert stream.languages == ("de",)
  assert {row[0][0] for row in texts(stream, stream.batch(0))} == {"de"}


def test_captions_of_a_language_are_drawn_alike(tiny):
  stream = captions(tiny, batch_size=2 * NUM_PICTURES)
  seen = collections.defaultdict(list)
  for step in range(8):
    batch = stream.batch(step)
    for key, row in zip(batch["key"], texts(stream, batch), strict=True):
      if int(key, 16) % 2:  # these have two languages, so that English is always drawn
        seen[key].append(dict(row)["en"])
  assert all(sorted(collections.Counter(english).values()) in ([4, 4], [3, 5]) for english in seen.values())
  begun = {english[0] == tiny_record(int(key, 16)).captions[0].text for key, english in seen.items()}
  assert begun == {True, False}  # not all pictures begin with their first caption


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_epoch_shows_what_an_epoch_of_seqio_does(tiny, count):
  """Each caption once. Pictures have three or four captions, so 12 passes of K are 4 K or 3 K epochs of theirs."""
  stream = captions(tiny, captions_per_image=count, batch_size=NUM_PICTURES * count, language_weights="count")
  shown = collections.Counter()
  for step in range(12):
    batch = stream.batch(step)
    for key, row in zip(batch["key"], texts(stream, batch), strict=True):
      shown.update((key, language, text) for language, text in row)
  dataset = seqio.get_mixture_or_task(tiny.name)
  once = [
    (
      example["key"].decode(),
      task.name.removeprefix(f"{tiny.name}_"),
      example["targets_pretokenized"].decode(),
    )
    for task in dataset.tasks
    for example in task.get_dataset(split="train", shuffle=False, num_epochs=1).as_numpy_iterator()
  ]
  of_picture = collections.Counter(key for key, _, _ in once)
  assert shown == {caption: 12 * count // of_picture[caption[0]] for caption in once}


def test_captions_per_image_beyond_the_languages_repeats_captions(tiny):
  stream = captions(tiny, batch_size=24 * 5, captions_per_image=5)
  batch = stream.batch(0)
  for key, row in zip(batch["key"], texts(stream, batch), strict=True):
    all_captions = {(caption.language, caption.text) for caption in tiny_record(int(key, 16)).captions}
    assert set(row) == all_captions
    assert max(row.count(caption) for caption in row) == -(-5 // len(all_captions))


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
  assert stream.lost == {CUT: (lengths > 5).sum()}
  assert (batch["target_tokens"][lengths > 5] != 1).all()


@pytest.mark.parametrize(
  "options, message",
  [
    (dict(batch_size=13), "13 captions with 2 per image"),
    (dict(captions_per_image=0), "with 0 per image"),
    (dict(image_size=0), "0 pixels is empty"),
    (dict(prompt_length=0), "raise prompt_length, which is 0"),
    (dict(target_lengths=(24, 12)), "ascending lengths"),
    (dict(target_lengths=(12, 12)), "ascending lengths"),
    (dict(target_length=1), "a piece and EOS"),
    (dict(target_lengths=(12, 24), bucket_window=0), "bucket_window at least 1"),
    (dict(split="nothing"), "nothing"),
    (dict(workers=-1), "workers=-1"),
    (dict(depth=1), "depth must be at least 2"),
    (dict(prefetch_bytes=-1), "prefetch_bytes=-1"),
  ],
)
def test_invalid_caption_stream_options_are_refused(tiny, options, message):
  with pytest.raises(UsageError, match=message):
    captions(tiny, **options)


def test_gin_configures_caption_stream(tiny):
  with gin.config_scope("test_stream"), gin.unlock_config():
    gin.parse_config(f"""
      test_stream/CaptionStream.mixture = "{tiny.name}"
      test_stream/CaptionStream.image_size = 8
      test_stream/CaptionStream.augment = @test_stream/Augment()
      test_stream/Augment.min_area = 0.5
    """)
    stream = CaptionStream(batch_size=4)
  assert stream.image_size == 8 and stream.augment == images.Augment(min_area=0.5)


def test_caption_stream_with_an_mt5_vocabulary_by_path(tiny_dir, tmp_path, register, monkeypatch):
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
  monkeypatch.setattr(vocabulary, "MT5_SIZE", corpus.vocabulary().size)
  stream = captions(corpus, prompt_length=4, target_length=64)
  assert stream.vocabulary.prompt("en") == stream.vocabulary.encode("en")
  batch = stream.batch(0)
  for key, row in zip(batch["key"], texts(stream, batch), strict=True):
    assert {text for _, text in row} <= {caption.text for caption in tiny_record(int(key, 16)).captions}
