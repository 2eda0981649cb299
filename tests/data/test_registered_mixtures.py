"""Mixtures of corpora: drawing by rates in a stream and in seqio, and refused mixtures."""

import itertools
import shutil

import gin
import numpy as np
import pytest

from tests import lazily
from tests.data.streams import captions, dealt_out, equal, texts
from tests.make.images import encode
from tests.make.tiny_corpus import NUM_PICTURES, SIDE, colour, write_corpus
from xmcap.corpora.checking import preflight, show
from xmcap.data import epochs, records, registry
from xmcap.data import order as order_lib
from xmcap.data.order import BLOCK
from xmcap.data.stream import TagStream
from xmcap.errors import UsageError

seqio = lazily.Module("seqio")

NUM_OTHERS = 10
_names = (f"mixed{number}" for number in itertools.count())


def other_record(index: int) -> records.Record:
  """Its key is that of a tiny picture; English by people and by a machine, German translated by people."""
  return records.Record(
    f"{index:016x}",
    encode(colour(100 + index)),
    [
      records.Caption("en", f"hound dog {index}", source="mt"),
      records.Caption("en", f"dog {index}", source="human"),
      records.Caption("de", f"Hund {index}", source="translated"),
    ],
  )


@pytest.fixture(scope="module")
def others_dir(tmp_path_factory, tiny_dir):
  out = tmp_path_factory.mktemp("others")
  write_corpus(out, [other_record(index) for index in range(NUM_OTHERS)], train_vocabulary=False)
  shutil.copy(f"{tiny_dir}/vocabulary.model", out)
  return out


@pytest.fixture
def corpora(tiny_dir, others_dir, register):
  return register(tiny_dir), register(others_dir, languages=("de", "en"))


def configure(parts) -> str:
  """The name of a mixture that is configured in gin."""
  name = next(_names)
  with gin.unlock_config():
    gin.bind_parameter(f"mixtures.{name}", parts)
  return name


@pytest.fixture
def mixed(corpora) -> registry.Registration:
  """Three pictures of the tiny corpus to two of the other, whose captions by a machine are left out."""
  one, other = corpora
  people = ("human", "translated")
  name = configure([{"corpus": one.name, "rate": 3}, {"corpus": other.name, "rate": 2, "sources": people}])
  return registry.registration(name)


def corpus_of(keys) -> list[str]:
  return [key.split("/")[0] for key in keys]


def chi_square(counts, expected) -> float:
  return float(((np.array(counts) - expected) ** 2 / np.array(expected)).sum())


def test_mixture_rates_count_images(mixed):
  stream = captions(mixed)
  found = stream.order.at(np.arange(5 * BLOCK) + 7)
  assert np.bincount(found.parts[BLOCK : 2 * BLOCK]).sum() == BLOCK
  assert np.bincount(stream.order.at(np.arange(BLOCK)).parts).tolist() == [6_000, 4_000]
  # 300 positions of each of 50 blocks: 1 degree of freedom, 10.83 at 0.1%.
  sample = (np.arange(50)[:, None] * BLOCK + 1_234 + np.arange(300)).ravel()
  counts = np.bincount(stream.order.at(sample).parts)
  assert chi_square(counts, [9_000, 6_000]) < 10.83
  # Neighbours are independent: of pairs, each of the four kinds has its share, with 3 degrees of freedom.
  parts = found.parts[: 4 * BLOCK].reshape(-1, 2)
  expected = np.outer([0.6, 0.4], [0.6, 0.4]).ravel() * len(parts)
  assert chi_square(np.bincount(parts[:, 0] * 2 + parts[:, 1], minlength=4), expected) < 16.27


def test_every_picture_of_a_corpus_once_per_epoch_of_the_corpus(mixed):
  stream = captions(mixed)
  found = stream.order.at(np.arange(BLOCK - 300, BLOCK + 300))
  for part, size in enumerate((NUM_PICTURES, NUM_OTHERS)):
    rows = found.parts == part
    indices, numbers = found.indices[rows] - stream.order.starts[part], found.epochs[rows]
    whole = np.unique(numbers)[1:-1]
    assert len(whole) > 5 and (np.diff(numbers) >= 0).all()
    orders = [indices[numbers == epoch].tolist() for epoch in whole]
    assert all(sorted(order) == list(range(size)) for order in orders)
    assert orders[0] != orders[1]


def test_examples_are_those_of_their_corpus(mixed, corpora):
  stream = captions(mixed, batch_size=60)
  one, other = mixed.named
  seen = set()
  for step in range(4):
    batch = stream.batch(step)
    for key, image, row in zip(batch["key"], batch["image"], texts(stream, batch), strict=True):
      corpus, _, own = key.partition("/")
      index = int(own, 16)
      seen |= {(corpus, *caption) for caption in row}
      np.testing.assert_array_equal(image, colour(index + 100 * (corpus == other)))
  assert {corpus for corpus, _, _ in seen} == {one, other}
  assert {text for corpus, _, text in seen if corpus == other} == {
    text for index in range(NUM_OTHERS) for text in (f"dog {index}", f"Hund {index}")
  }
  assert {code for corpus, code, _ in seen if corpus == one} == {"ar", "de", "en"}
  assert stream.lost == {}


@pytest.mark.parametrize("options", [{}, {"target_lengths": (6, 12, 24), "bucket_window": 4}])
def test_mixture_is_the_same_for_any_step_and_processes(mixed, options):
  options = {"batch_size": 24, **options}
  stream = captions(mixed, **options)
  forward = [stream.batch(step) for step in range(8)]
  again = captions(mixed, **options)
  for step in (7, 2):
    equal(again.batch(step), forward[step])
    equal(dealt_out(again, step, 3), forward[step])
  with_window = sorted(key for batch in forward for key in batch["key"])
  plain = captions(mixed, batch_size=24)
  assert with_window == sorted(key for step in range(8) for key in plain.batch(step)["key"])


def test_mixture_batch_at_a_far_step_reads_only_its_own_records(mixed, monkeypatch):
  read, permuted = [], []
  stream = captions(mixed)
  iterate = records.RecordSource.iterate

  def counted(self, indices, *arguments):
    read.extend(indices)
    return iterate(self, indices, *arguments)

  block = order_lib._block
  monkeypatch.setattr(records.RecordSource, "iterate", counted)
  monkeypatch.setattr(order_lib, "_block", lambda *key: permuted.append(key) or block(*key))
  for position in (0, 10**9):
    read.clear()
    permuted.clear()
    stream.batch(position // stream.num_images)
    assert len(read) == stream.num_images and len(permuted) <= 2


def test_caption_sources_of_a_corpus_are_selected(corpora):
  _, other = corpora
  stream = captions(other, batch_size=2 * NUM_OTHERS, sources=("human",))
  found = {caption for row in texts(stream, stream.batch(0)) for caption in row}
  assert found == {("en", f"dog {index}") for index in range(NUM_OTHERS)}
  assert stream.lost == {} and stream.signature()["sources"] == [("human",)]
  translated = captions(other, batch_size=2 * NUM_OTHERS, sources=("translated",), languages=("en",))
  assert not translated.batch(0)["target_weights"].any()
  assert translated.lost == {"pictures without a caption in these languages": NUM_OTHERS}


@pytest.mark.parametrize("weights", ["rates", "count"])
def test_target_lengths_follow_caption_sources(corpora, weights):
  _, other = corpora
  options = dict(sources=("human", "translated"), language_weights=weights)
  plain = captions(other, **options)
  stream = captions(other, **options, target_lengths=(4, 5, 6, 8, 12))
  for step in range(6):
    longest = int(plain.batch(step)["target_weights"].sum(-1).max())
    assert stream.batch(step)["target_tokens"].shape[-1] == min(
      t for t in stream.target_lengths if t >= longest
    )


def test_mixture_languages_are_set_per_corpus(corpora):
  one, other = corpora
  name = configure(
    [{"corpus": one.name, "languages": ["ar", "en"]}, {"corpus": f"{other.name}_de", "rate": 2}]
  )
  found = registry.registration(name)
  assert found.rates == {"ar": 0.25 / 1.5, "de": 1 / 1.5, "en": 0.25 / 1.5}
  stream = captions(found, batch_size=24, captions_per_image=1)
  drawn = {
    (key.split("/")[0], row[0][0])
    for step in range(4)
    for batch in [stream.batch(step)]
    for key, row in zip(batch["key"], texts(stream, batch), strict=True)
  }
  assert drawn == {(one.name, "ar"), (one.name, "en"), (other.name, "de")}
  with pytest.raises(UsageError, match=rf"languages: {other.name}, a part of {name}, has none of ar"):
    captions(found, languages=("ar",))


def test_mixture_part_maps_its_splits(corpora):
  one, other = corpora
  splits = {"train": "train[:4]"}
  name = configure([{"corpus": one.name, "splits": splits}, {"corpus": other.name}, {"corpus": one.name}])
  stream = captions(registry.registration(name))
  assert [len(part.source) for part in stream.parts] == [4, NUM_OTHERS, NUM_PICTURES]
  assert [part.name for part in stream.parts] == [one.name, other.name, f"{one.name}.2"]
  with pytest.raises(UsageError, match="'train' is 'train.:4.' of .*, of which no part can be taken"):
    captions(registry.registration(name), split="train[:2]")


def test_mixture_first_yields_every_image_once(mixed):
  stream = captions(mixed, batch_size=24)
  once, steps = stream.first(len(stream.source))
  keys = [
    key
    for step in range(steps)
    for batch in [once.batch(step)]
    for key, weights in zip(batch["key"], batch["target_weights"], strict=True)
    if weights.any()
  ]
  assert len(keys) == len(set(keys)) == NUM_PICTURES + NUM_OTHERS
  assert epochs.examples(stream) == NUM_PICTURES * 3 + NUM_PICTURES // 2 + NUM_OTHERS * 2


def test_preflight_and_show_read_a_mixture(mixed):
  stream = captions(mixed, batch_size=24)
  sample = preflight.read_split(stream)
  assert (sample.images, sample.looked_at, sample.missing) == (len(stream.source), len(stream.source), ())
  assert f"hound dog {NUM_OTHERS - 1}" not in sample.captions["en"]
  assert len(show.examples(stream, 3)) == 12


def test_signature_names_rates_and_splits_of_a_mixture(corpora, mixed):
  one, other = corpora
  signature = captions(mixed).signature()
  assert signature["places"] == {one.name: 6_000, other.name: 4_000}
  splits = {"train": "train[4:8]"}
  name = configure([{"corpus": one.name, "rate": 1}, {"corpus": other.name, "rate": 2, "splits": splits}])
  changed = captions(registry.registration(name)).signature()
  assert changed["places"] == {one.name: 3_333, other.name: 6_667}
  assert changed["splits"] == {one.name: "train", other.name: "train[4:8]"}


def test_seqio_draws_by_the_same_rates(corpora, mixed):
  one, other = corpora
  mixture = seqio.get_mixture_or_task(mixed.name)
  rates = {task.name: mixture.get_rate(task) for task in mixture.tasks}
  assert sum(rates[f"{one.name}_{code}"] for code in ("ar", "de", "en")) == pytest.approx(3)
  assert sum(rates[f"{mixed.name}_2_{code}"] for code in ("de", "en")) == pytest.approx(2)
  dataset = mixture.get_dataset(
    sequence_length={"image": SIDE, "targets": 32},
    split="train",
    shuffle=True,
    seed=0,
    num_epochs=None,
    passthrough_features=["targets_pretokenized"],
  )
  found = [
    (int(example["image"][0, 0, 0]) >= 100, example["targets_pretokenized"].decode())
    for example in dataset.take(400).as_numpy_iterator()
  ]
  of_other = [text for is_other, text in found if is_other]
  assert chi_square([400 - len(of_other), len(of_other)], [240, 160]) < 10.83
  assert not any(text.startswith("hound") for text in of_other)


def test_a_mixture_of_seqio_makes_a_stream(corpora):
  one, other = corpora
  name = next(_names)
  seqio.MixtureRegistry.add(name, [(f"{one.name}_en", 1), (f"{one.name}_de", 3), (f"{other.name}_de", 4)])
  first, second = registry.registration(name).parts
  assert (first.corpus, first.rate, first.rates) == (one, 4.0, {"de": 3.0, "en": 1.0})
  assert (second.corpus, second.rate, second.rates) == (other, 4.0, {"de": 4.0})
  assert captions(registry.registration(name)).order.counts.tolist() == [5_000, 5_000]


def test_register_mixture_from_python(corpora):
  one, other = corpora
  name = next(_names)
  registry.register_mixture(name, [registry.Part(one.name), registry.Part(other.name, rate=3)])
  assert [part.rate for part in registry.registration(name).parts] == [1.0, 3.0]
  assert name in seqio.MixtureRegistry.names()
  with pytest.raises(UsageError, match=f"mixture '{one.name}': a corpus or mixture has this name"):
    registry.register_mixture(one.name, [registry.Part(other.name)])


def test_mixture_refuses_different_vocabularies(corpora, tmp_path, register):
  one, _ = corpora
  write_corpus(tmp_path, [other_record(index) for index in range(4)])
  different = register(tmp_path, languages=("de", "en"))
  name = configure([{"corpus": one.name}, {"corpus": different.name}])
  with pytest.raises(
    UsageError, match=f"different vocabularies, .* such as --gin.{different.name}.vocabulary="
  ):
    captions(registry.registration(name))


@pytest.mark.parametrize(
  "change, message",
  [
    ({"corpus": "nowhere"}, "no seqio mixture or task is named 'nowhere'"),
    ({"rate": -1}, "the rate is -1: give a number above 0"),
    ({"rate": 0}, "the rate is 0: give a number above 0"),
    ({"rate": float("nan")}, "the rate is nan"),
    ({"rate": 1e-5}, "a rate of 1e-05 of 1.00001 is less than 1 / 10,000"),
    ({"rate": "much"}, r"Expected `float`, got `str` - at `\$.rate`"),
    ({"languages": ("fr",)}, "it has no language 'fr': give some of de en"),
    ({"sources": ("people",)}, "'people' is no source of captions: give some of human, mt, translated"),
    ({"source": ("human",)}, "unknown field `source`"),
  ],
)
def test_invalid_mixture_parts_are_refused_in_one_line(corpora, change, message):
  one, other = corpora
  name = configure([{"corpus": one.name}, {"corpus": other.name, **change}])
  with pytest.raises(UsageError, match=message) as raised:
    registry.registration(name)
  assert "\n" not in str(raised.value)


def test_empty_and_malformed_mixtures_are_refused(corpora, mixed):
  one, _ = corpora
  with pytest.raises(UsageError, match="is empty: give at least one corpus"):
    registry.registration(configure([]))
  with pytest.raises(UsageError, match="Expected `array`, got `object`"):
    registry.registration(configure({"corpus": one.name}))
  with pytest.raises(UsageError, match="it is a mixture too: give the names of corpora"):
    registry.registration(configure([{"corpus": mixed.name}, {"corpus": one.name}]))
  with pytest.raises(UsageError, match=f"'{mixed.name}' mixes .*: give one corpus here"):
    TagStream(mixed.name)
  with pytest.raises(UsageError, match="CaptionStream.sources: 'machine' is no source"):
    captions(one, sources=("machine",))
  with pytest.raises(UsageError, match="CaptionStream.sources: .* has only human, translated"):
    captions(mixed, sources=("mt",))
  with pytest.raises(UsageError, match="did you mean"):
    registry.registration(f"{mixed.name}0")
  of_seqio = next(_names)
  seqio.MixtureRegistry.add(of_seqio, [(corpus.name, 1) for corpus in corpora])
  with pytest.raises(UsageError, match=f"'{of_seqio}' mixes .*: give one corpus here"):
    registry.registration(configure([{"corpus": of_seqio}]))


def test_a_relative_folder_is_that_of_the_working_folder(
  corpora, tiny_dir, others_dir, register, tmp_path, monkeypatch
):
  corpus = register("data")
  counts = []
  for name, folder in (("first", tiny_dir), ("second", others_dir)):
    (tmp_path / name).mkdir()
    (tmp_path / name / "data").symlink_to(folder)
    monkeypatch.chdir(tmp_path / name)
    counts.append(len(corpus.source("train")))
    assert corpus.vocabulary().path == "data/vocabulary.model"
  assert counts == [NUM_PICTURES, NUM_OTHERS]
