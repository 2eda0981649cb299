import difflib

import gin
import numpy as np
import pytest

from tests import lazily
from tests.make.images import encode
from tests.make.tiny_corpus import NUM_PICTURES, SIDE, colour, tiny_record, write_corpus
from xmcap.data import records, registry
from xmcap.errors import UsageError, XmcapError
from xmcap.languages import LANGUAGES, TRAINED
from xmcap.reading import subsets

seqio = lazily.Module("seqio")


def examples(name, **options) -> list[dict]:
  options = {"split": "train", "shuffle": False, "num_epochs": 1, **options}
  return list(seqio.get_mixture_or_task(name).get_dataset(**options).as_numpy_iterator())


def test_a_task_has_an_example_for_each_caption_of_its_language(tiny):
  found = examples(f"{tiny.name}_en")
  vocabulary = tiny.vocabulary()
  expected = [
    (index, caption.text)
    for index in range(NUM_PICTURES)
    for caption in tiny_record(index).captions
    if caption.language == "en"
  ]
  assert len(found) == len(expected) == 2 * NUM_PICTURES
  for example, (index, text) in zip(found, expected, strict=True):
    np.testing.assert_array_equal(example["image"], colour(index))
    assert example["image"].dtype == np.uint8
    assert example["inputs"].tolist() == vocabulary.prompt("en")
    assert example["targets"].tolist() == [*vocabulary.encode(text), 1]
    assert example["inputs"].dtype == example["targets"].dtype == np.int32
    assert example["targets_pretokenized"].decode() == text
    assert example["key"].decode() == f"{index:016x}"


def test_pictures_without_a_caption_have_no_example(tiny):
  assert len(examples(f"{tiny.name}_ar")) == NUM_PICTURES // 2


def test_sequence_lengths_resize_and_trim(tiny):
  (first, *_) = examples(f"{tiny.name}_de", sequence_length={"image": 8, "inputs": 4, "targets": 3})
  assert first["image"].shape == (8, 8, 3)
  np.testing.assert_array_equal(first["image"][0, 0], colour(0)[0, 0])
  assert first["targets"].tolist() == tiny.vocabulary().encode(tiny_record(0).captions[1].text)[:3]


def test_seqio_images_keep_their_sizes(tmp_path, register):
  pictures = [
    records.Record(
      f"k{side}", encode(np.zeros((side, 2 * side, 3), np.uint8)), [records.Caption("en", "black")]
    )
    for side in (8, 11)
  ]
  corpus = register(write_corpus(tmp_path, pictures), languages=("en",))
  assert [example["image"].shape for example in examples(f"{corpus.name}_en")] == [(8, 16, 3), (11, 22, 3)]


def test_shuffling_is_a_seeded_permutation(tiny):
  def keys(**options):
    return [example["key"] for example in examples(f"{tiny.name}_de", **options)]

  plain, one, again, other = (
    keys(),
    keys(shuffle=True, seed=1),
    keys(shuffle=True, seed=1),
    keys(shuffle=True, seed=2),
  )
  assert sorted(plain) == sorted(one) == sorted(other)
  assert plain != one == again != other
  assert sorted(keys(shuffle=True)) == sorted(plain)


@pytest.mark.parametrize("shuffle", [False, True])
def test_shards_part_the_records(tiny, shuffle):
  keys = [
    example["key"]
    for index in range(3)
    for example in examples(f"{tiny.name}_de", shuffle=shuffle, seed=0, shard_info=seqio.ShardInfo(index, 3))
  ]
  assert sorted(keys) == [f"{index:016x}".encode() for index in range(NUM_PICTURES)]


def test_seqio_mixture_draws_by_its_rates(tiny_dir, register):
  corpus = register(tiny_dir, languages=("de", "en"), rates={"de": 1.0, "en": 3.0})
  dataset = seqio.get_mixture_or_task(corpus.name).get_dataset(
    sequence_length={"image": SIDE, "targets": 32}, split="train", shuffle=True, seed=0, num_epochs=None
  )
  prompts = [int(example["inputs"][0]) for example in dataset.take(400).as_numpy_iterator()]
  english = prompts.count(corpus.vocabulary().prompt("en")[0])
  assert english / 400 == pytest.approx(0.75, abs=0.06)


def test_output_features_name_the_vocabulary(tiny):
  features = seqio.get_mixture_or_task(tiny.name).output_features
  assert sorted(features) == ["image", "inputs", "targets"]
  vocabulary = features["targets"].vocabulary
  assert vocabulary.vocab_size == tiny.vocabulary().size
  assert list(vocabulary.encode("a dog")) == tiny.vocabulary().encode("a dog")
  assert vocabulary.sentencepiece_model_file == tiny.location().vocabulary


def test_corpus_registers_without_a_data_dir(register):
  corpus = register(None, build_hint="`make it`")
  with pytest.raises(UsageError, match=rf"set --gin.{corpus.name}.data_dir=DIR \(`make it` makes one\)"):
    corpus.source("train")
  with pytest.raises(UsageError, match="data_dir"):
    corpus.vocabulary()


def test_changed_data_dir_reopens_the_corpus(tiny_dir, tmp_path, register):
  corpus = register(tiny_dir)
  assert len(corpus.source("train")) == NUM_PICTURES
  assert corpus.source("train") is corpus.source("train")
  with gin.unlock_config():
    gin.bind_parameter(f"{corpus.name}.data_dir", write_corpus(tmp_path, [tiny_record(0)]))
  assert len(corpus.source("train")) == 1
  assert corpus.vocabulary().path == str(tmp_path / "vocabulary.model")


def test_missing_vocabulary_model_is_refused(tmp_path, register):
  corpus = register(write_corpus(tmp_path, [tiny_record(0)], train_vocabulary=False))
  with pytest.raises(UsageError, match="vocabulary.model.*No such file"):
    corpus.vocabulary()


@pytest.mark.parametrize("rates", [{"en": 1.0}, {"en": 1.0, "de": -1.0}, {"en": 0.0, "de": 0.0}])
def test_register_corpus_refuses_bad_rates(rates):
  with pytest.raises(UsageError, match="for exactly its languages"):
    registry.register_corpus("never", languages=("en", "de"), rates=rates)


def test_register_corpus_refuses_an_unknown_language():
  with pytest.raises(UsageError, match="unknown language 'iw'"):
    registry.register_corpus("never", languages=("en", "iw"))


def test_registration_by_name(tiny_dir, register):
  corpus = register(tiny_dir, rates={"ar": 0.0, "de": 1.0, "en": 2.0})
  part = registry.CorpusPart(corpus, {"de": 1.0, "en": 2.0})
  assert registry.registration(corpus.name) == registry.Registration(corpus.name, (part,))
  assert registry.registration(f"{corpus.name}_ar").rates == {"ar": 1.0}


def test_an_unknown_mixture_suggests_the_nearest(tiny):
  with pytest.raises(UsageError, match="did you mean '(.*)'") as error:
    registry.registration(f"{tiny.name}_dee")
  (nearest,) = difflib.get_close_matches(f"{tiny.name}_dee", [f"{tiny.name}_de"], n=1)
  assert nearest in str(error.value)


def test_registration_refuses_rate_0_and_text_mixtures(tiny_dir, register):
  one = register(tiny_dir)
  silent = f"{one.name}_silent"
  seqio.MixtureRegistry.add(silent, [(f"{one.name}_en", 0)])
  with pytest.raises(XmcapError, match="rate 0"):
    registry.registration(silent)
  text = f"{one.name}_text"
  seqio.TaskRegistry.add(
    text,
    source=seqio.FunctionDataSource(lambda split, shuffle_files: None, ["train"]),
    output_features={},
  )
  with pytest.raises(UsageError, match="does not consist of image records"):
    registry.registration(text)


def test_emoji36_comes_with_the_package():
  from xmcap.tasks import emoji36

  registered = registry.registration("emoji36")
  assert registered.corpus is emoji36.CORPUS
  assert tuple(registered.rates) == tuple(LANGUAGES)
  assert set(registered.rates.values()) == {1.0}
  assert set(TRAINED) < set(registered.corpus.languages)
  assert "emoji36_quz" in seqio.TaskRegistry.names()


def keyed(number: int) -> records.Record:
  return records.Record(
    f"{number:016x}", encode(colour(number % 250)), [records.Caption("en", f"dog {number}")]
  )


@pytest.fixture(scope="module")
def whole_dir(tmp_path_factory):
  return write_corpus(tmp_path_factory.mktemp("whole"), [keyed(number) for number in range(640)])


@pytest.fixture
def whole(whole_dir, register):
  return register(whole_dir, languages=("en",))


def test_register_part_draws_the_subset_that_scores_use(whole):
  part = registry.register_part(f"{whole.name}_600", whole, subset="xm600:3")
  source = part.source("train")
  keys = [record.key for record in source]
  assert keys == list(subsets.choose("xm600:3", dict.fromkeys(f"{n:016x}" for n in range(640)))[0])
  assert len(source) == 600 and source[5].key == keys[5]
  assert [record.key for record in source.read([599, 0])] == [keys[599], keys[0]]
  with pytest.raises(IndexError):
    source.read([600])
  with gin.unlock_config():
    gin.bind_parameter(f"{part.name}.subset", "xm600:4")
  assert [record.key for record in part.source("train")] != keys
  assert len(examples(f"{part.name}_en")) == 600


def test_register_part_by_a_file_of_keys_feeds_a_stream(whole, tmp_path):
  from xmcap.data.stream import CaptionStream

  (tmp_path / "keys.txt").write_text(f"{7:016x}\n{3:016x}\n")
  part = registry.register_part(f"{whole.name}_two", whole, subset=str(tmp_path / "keys.txt"))
  batch = CaptionStream(part.name, batch_size=4, target_length=24, image_size=8).batch(0)
  assert set(batch["key"]) == {f"{7:016x}", f"{3:016x}"}


def test_register_part_limits_the_splits(tiny):
  part = registry.register_part(f"{tiny.name}_dev", tiny, splits=("validation",))
  assert part.location() == tiny.location()
  assert part.languages == tiny.languages
  with pytest.raises(UsageError, match=f"{part.name} has no split 'train', only validation"):
    part.source("train[:4]")


@pytest.mark.parametrize(
  "name, languages, splits",
  [
    ("coco_35l", TRAINED, ["train", "validation"]),
    ("coco_35l_dev", TRAINED, ["validation"]),
    ("cc3m_35l", TRAINED, ["train", "validation"]),
    ("xm3600", tuple(LANGUAGES), ["test"]),
    ("xm600", tuple(LANGUAGES), ["test"]),
  ],
)
def test_languages_and_splits_of_the_registered_corpora(name, languages, splits):
  import xmcap.tasks  # noqa: F401

  assert tuple(registry.registration(name).rates) == languages
  for language in languages:
    assert list(seqio.get_mixture_or_task(f"{name}_{language}").splits) == splits
  with pytest.raises(UsageError, match="data_dir"):
    registry.registration(name).corpus.location()


def test_corpora_with_one_vocabulary_mix(tiny_dir, register):
  one, other = register(tiny_dir, languages=("de",)), register(tiny_dir, languages=("en",))
  both = f"{one.name}_with_{other.name}"
  seqio.MixtureRegistry.add(both, [(one.name, 1), (other.name, 1)])
  found = seqio.get_mixture_or_task(both).get_dataset(
    sequence_length={"image": SIDE, "targets": 32}, split="train", shuffle=False, num_epochs=1
  )
  assert len({int(example["inputs"][0]) for example in found.as_numpy_iterator()}) == 2
