"""Mixtures of corpora: in the stream, in seqio, and bad ones."""

import collections
import itertools

import gin
import numpy as np
import pytest
import seqio

from tests.data.conftest import SIDE, colour, png, tiny_record, write_corpus
from tests.data.streams import dealt_out, equal, texts
from xmcap.data import mixtures, records, tasks
from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError

PEOPLE = 10
_names = (f"mixed{number}" for number in itertools.count())


def own_record(index: int) -> records.Record:
  """English and German by a machine, English by people, and Arabic that people translated."""
  captions = [
    records.Caption("en", f"a machine {index}", source="mt"),
    records.Caption("en", f"somebody {index}", source="human"),
    records.Caption("de", f"eine Maschine {index}", source="mt"),
    records.Caption("ar", f"كلب {index}", source="translated"),
  ]
  # The keys of the tiny corpus.
  return records.Record(f"{index:016x}", png(colour(100 + index)), captions)


@pytest.fixture(scope="module")
def people_dir(tmp_path_factory):
  return write_corpus(
    tmp_path_factory.mktemp("people"), [own_record(index) for index in range(PEOPLE)], False
  )


@pytest.fixture(scope="module")
def pair(tiny_dir, people_dir, register):
  """The names of two corpora with one vocabulary."""
  names = register(tiny_dir).name, register(people_dir).name
  with gin.unlock_config():
    gin.bind_parameter(f"{names[1]}.vocabulary", f"{tiny_dir}/vocabulary.model")
  return names


def mixed(pair, *others, **stream):
  """A stream over the pair at 3 : 1; `others` are further settings of each part."""
  name = next(_names)
  settings = others or ({}, {})
  mixtures.register_mixture(
    name,
    [{"corpus": of, "rate": rate, **more} for of, rate, more in zip(pair, (3, 1), settings, strict=True)],
  )
  options = dict(batch_size=40, captions_per_image=1, target_length=24, image_size=SIDE)
  return CaptionStream(name, **{**options, **stream})


def test_pictures_and_captions_are_those_of_their_corpus(pair):
  stream = mixed(pair)
  seen = collections.Counter()
  for step in range(3):
    batch = stream.batch(step)
    for key, image, row in zip(batch["key"], batch["image"], texts(stream, batch), strict=True):
      corpus, own = key.split("/")
      index = int(own, 16)
      record = tiny_record(index) if corpus == pair[0] else own_record(index)
      assert image[0, 0].tolist() == colour(index if corpus == pair[0] else 100 + index)[0, 0].tolist()
      assert set(row) <= {(caption.language, caption.text) for caption in record.captions}
      seen[corpus] += 1
  assert 75 <= seen[pair[0]] <= 105


def test_languages_and_sources_of_a_part(pair):
  stream = mixed(pair, {"languages": ("de",)}, {"sources": ("human", "translated")}, captions_per_image=2)
  batch = stream.batch(0)
  for key, row in zip(batch["key"], texts(stream, batch), strict=True):
    if key.startswith(f"{pair[0]}/"):
      assert {language for language, _ in row} == {"de"}
    else:
      assert {text.split()[0] for _, text in row} == {"somebody", "كلب"}
  assert stream.languages == ("ar", "de", "en")


def test_sources_of_one_corpus(pair):
  options = dict(batch_size=20, target_length=24, image_size=SIDE, captions_per_image=2)
  stream = CaptionStream(pair[1], sources=("mt",), **options)
  batch = stream.batch(0)
  found = {text.rstrip("0123456789 ") for row in texts(stream, batch) for _, text in row}
  assert found == {"a machine", "eine Maschine"}
  nothing = CaptionStream(f"{pair[1]}_ar", sources=("mt",), batch_size=10, target_length=24, image_size=SIDE)
  assert not nothing.batch(0)["target_weights"].any()
  assert nothing.lost == {"pictures without a caption in these languages": PEOPLE}


def test_lengths_of_batches_fit_the_sources_that_are_drawn(pair):
  stream = mixed(pair, {}, {"sources": ("human",)}, target_lengths=(8, 12, 24), bucket_window=2, batch_size=4)
  for step in range(6):
    lengths = stream.batch(step)["target_weights"].sum(-1)
    assert lengths.max() <= stream.batch(step)["target_tokens"].shape[-1]
  assert not stream.lost


def test_hosts_read_the_same_batches(pair):
  stream = mixed(pair, captions_per_image=2)
  for step in (0, 260):  # across a block
    equal(stream.batch(step), dealt_out(stream, step, 4))


def test_a_later_step_reads_no_more_records(pair, monkeypatch):
  stream = mixed(pair)
  read = []
  for part in stream.parts:
    of_part = part.source.iterate
    monkeypatch.setattr(
      part.source,
      "iterate",
      lambda indices, parse, of=of_part: read.append(len(indices)) or of(indices, parse),
    )
  counts = []
  for step in (0, 10**9):
    read.clear()
    stream.batch(step)
    counts.append(sum(read))
  assert counts == [stream.pictures, stream.pictures]


def test_other_rates_are_another_stream(pair):
  one, other = mixed(pair), mixed(pair, {"rate": 5}, {})
  assert one.signature() != other.signature()
  assert mixed(pair, {}, {"sources": ("mt",)}).signature() != one.signature()


def test_evaluation_takes_every_picture_once(pair):
  stream, steps = mixed(pair).first(34)
  keys = np.concatenate(
    [stream.batch(step)["key"][stream.batch(step)["target_weights"].any((1, 2))] for step in range(steps)]
  )
  assert len(keys) == len(set(keys)) == 34


def test_a_split_may_have_another_name_in_a_corpus(pair):
  stream = mixed(
    pair, {"splits": {"validation": "train"}}, {"splits": {"validation": "train[:4]"}}, split="validation"
  )
  assert [len(part.source) for part in stream.parts] == [24, 4]


def test_gin_makes_a_mixture(pair):
  with gin.unlock_config():
    gin.parse_config(
      f"mixtures.from_gin = [{{'corpus': '{pair[0]}'}}, {{'corpus': '{pair[1]}', 'sources': ('mt',)}}]"
    )
  stream = CaptionStream("from_gin", batch_size=8, target_length=24, image_size=SIDE)
  assert [part.name for part in stream.parts] == list(pair) and stream.parts[1].sources == ("mt",)


def test_seqio_has_the_mixture_with_the_same_rates(pair):
  name = next(_names)
  mixtures.register_mixture(
    name, [{"corpus": pair[0], "rate": 3}, {"corpus": pair[1], "languages": ("en",), "sources": ("human",)}]
  )
  mixture = seqio.get_mixture_or_task(name)
  rates = {task.name: mixture.get_rate(task) for task in seqio.get_subtasks(mixture)}
  own = f"{name}_2_en"
  assert rates == pytest.approx({**{f"{pair[0]}_{code}": 1.0 for code in ("ar", "de", "en")}, own: 1.0})
  found = list(seqio.get_mixture_or_task(own).get_dataset(split="train", shuffle=False).as_numpy_iterator())
  assert [example["targets_pretokenized"].decode() for example in found] == [
    f"somebody {index}" for index in range(PEOPLE)
  ]


def test_a_mixture_that_other_code_made_in_seqio(pair):
  name = next(_names)
  seqio.MixtureRegistry.add(name, [(f"{pair[0]}_en", 2), (f"{pair[0]}_de", 4), (f"{pair[1]}_en", 2)])
  registered = tasks.registration(name)
  assert {of: (part.rate, dict(part.rates)) for of, part in registered.named.items()} == {
    pair[0]: (6.0, {"de": 4.0, "en": 2.0}),
    pair[1]: (2.0, {"en": 2.0}),
  }
  assert registered.places() == [7500, 2500]


@pytest.mark.parametrize(
  "parts, message",
  [
    ([], "is empty: give at least one corpus"),
    ("no list", "give a list of dictionaries as in docs/data.md"),
    ([{"corpus": "ONE", "rates": 2}], "unknown field `rates`"),
    ([{"corpus": "ONE", "rate": -1}], "the rate is -1: give a number above 0"),
    (
      [{"corpus": "ONE", "rate": 1}, {"corpus": "TWO", "rate": 20000}],
      "less than 1 / 10,000 of the mixture: raise it",
    ),
    ([{"corpus": "nowhere"}], "no seqio mixture or task is named 'nowhere'"),
    ([{"corpus": "ONE", "languages": ["sw"]}], "it has no language 'sw': give some of ar de en"),
    (
      [{"corpus": "ONE", "sources": ["people"]}],
      "'people' is no source of captions: give some of human, mt, transl",
    ),
  ],
)
def test_bad_mixtures(pair, parts, message):
  names = dict(zip(("ONE", "TWO"), pair, strict=True))
  if isinstance(parts, list):
    parts = [{**part, "corpus": names.get(part["corpus"], part["corpus"])} for part in parts]
  with pytest.raises(UsageError, match=message) as error:
    mixtures.register_mixture(next(_names), parts)
  assert "\n" not in str(error.value)


def test_corpora_with_different_vocabularies(tiny_dir, tmp_path, register):
  corpora = [register(tiny_dir), register(write_corpus(tmp_path, [own_record(index) for index in range(20)]))]
  name = next(_names)
  mixtures.register_mixture(name, [{"corpus": corpus.name} for corpus in corpora])
  with pytest.raises(
    UsageError, match=f"different vocabularies, .* give them one, such as --gin.{corpora[1].name}.voc"
  ):
    CaptionStream(name, batch_size=4, image_size=SIDE)


def test_what_needs_one_corpus_says_so(pair):
  stream = mixed(pair)
  with pytest.raises(UsageError, match="mixes .*: give one corpus here"):
    _ = tasks.registration(stream.mixture).corpus
