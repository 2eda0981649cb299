"""Streams with stabilizers: pairs of captions, and the targets."""

import json
from collections import Counter

import gin
import numpy as np
import pytest

from tests.corpora import release_folders as releases
from tests.data.streams import captions
from tests.make.images import encode
from tests.make.tiny_corpus import SIDE, colour, write_corpus
from xmcap import cli
from xmcap.corpora.checking import show
from xmcap.data import records, vocabulary
from xmcap.data.caption_choice import pivots_of
from xmcap.errors import UsageError
from xmcap.families.plugs.stabilizer import Stabilizer


def places(*captions, pivot="en"):
  """`captions` are codes of translations, or of people's captions with a star."""
  codes = [code.rstrip("*") for code in captions]
  return pivots_of(codes, ["human" if code.endswith("*") else "mt" for code in captions], pivot)


def test_single_pivot_caption_pairs_with_all_captions():
  assert places("ar", "de*", "en*", "th") == [2, 2, 2, 2]
  assert places("de", "th", pivot="de") == [0, 0]


def test_captions_pair_within_coco35l_groups():
  # By number, then in the order of languages; the second lacks Thai, the third German.
  assert places("de", "en*", "th", "de", "en*", "en*", "th") == [1, 1, 1, 4, 4, 5, 5]


@pytest.mark.parametrize(
  "captions, expected",
  [
    # All captions of a language in succession, a group without a pivot, no pivot: nobody says what translates what.
    (("de", "de", "en*", "en*"), [-1, -1, 2, 3]),
    (("en*", "en*", "en*", "th"), [0, 1, 2, -1]),
    (("de", "en*", "de", "de", "en*"), [-1, 1, -1, -1, 4]),
    (("de", "th"), [-1, -1]),
    # People's captions are no translations.
    (("de*", "en*", "th", "de*", "en*", "th"), [-1, 1, 1, -1, 4, 4]),
  ],
)
def test_captions_without_a_pair_are_left_out(captions, expected):
  assert places(*captions) == expected


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  def record(index):
    found = [
      records.Caption(code, f"{word} {number} {index}", source=source)
      for number in ("one", "two")
      for code, word, source in (("ar", "كلب", "mt"), ("de", "Hund", "mt"), ("en", "dog", "human"))
      if (index, number, code) != (1, "two", "ar")
    ]
    # Of picture 2, it is not known which caption translates which.
    return records.Record(
      f"{index:016x}", encode(colour(index)), sorted(found, key=lambda x: x.language) if index == 2 else found
    )

  return write_corpus(tmp_path_factory.mktemp("pairs"), [record(index) for index in range(4)])


@pytest.fixture
def paired(folder, register):
  return register(folder)


def parts(stream, row):
  """Text of the stabilizer, ids of the LangId, text of the caption, of the ids of a target."""
  row = row[row != 0].tolist()
  end = row.index(stream.vocabulary.separator)
  return stream.vocabulary.decode(row[:end]), row[end + 1], stream.vocabulary.decode(row[end + 2 :])


@pytest.mark.parametrize("form", ["plain", "consistent"])
def test_stabilizer_targets_hold_both_captions(paired, form):
  stream = captions(
    paired, batch_size=4 * 3, captions_per_image=3, stabilizer=Stabilizer(form, length=20), target_length=60
  )
  code_of = {stream.vocabulary.prompt(code)[0]: code for code in stream.languages}
  batch, seen = stream.batch(0), set()
  word = {"ar": "كلب", "de": "Hund"}
  for number, key in enumerate(batch["key"]):
    for row, weights in zip(batch["target_tokens"][number], batch["target_weights"][number], strict=True):
      index = int(key, 16)
      stabilizer, given, caption = parts(stream, row)
      code = code_of[given]
      count = stabilizer.split()[1]
      assert stabilizer == f"dog {count} {index}"
      assert caption == ("" if code == "en" else f"{word[code]} {count} {index}")
      assert index != 2 or code == "en"
      seen.add((index, count, code))
      at = row.tolist().index(given)
      assert weights[at] == (form == "plain")
      assert weights.sum() == (row != 0).sum() - (form == "consistent")
  assert {code for _, _, code in seen} == {"ar", "de", "en"} and {count for _, count, _ in seen} == {
    "one",
    "two",
  }
  shape = (4, 3, 2) if form == "plain" else (4, 1, 1)
  assert batch["prompt_tokens"].shape == shape and batch["prompt_tokens"].any() == (form == "plain")


def test_lengths_of_batches_count_both_captions(paired):
  stream = captions(
    paired, batch_size=2, captions_per_image=1, stabilizer=Stabilizer(length=8), target_length=40,
    target_lengths=range(2, 40),
  )  # fmt: skip
  for step in range(6):
    batch = stream.batch(step)
    longest = (batch["target_tokens"] != 0).sum(-1).max()
    assert batch["target_tokens"].shape[-1] == longest
  assert stream.lost == {}


def test_pivot_language_may_be_absent_from_languages(paired):
  stream = captions(
    paired, batch_size=4, captions_per_image=1, languages=("de",), stabilizer=Stabilizer(length=8)
  )
  batch = stream.batch(0)
  drawn = {key: batch["target_weights"][number].any() for number, key in enumerate(batch["key"])}
  assert drawn == {f"{index:016x}": index != 2 for index in range(4)}
  assert stream.lost == {
    "pictures without a caption in these languages that is paired with one in the pivot language": 1
  }


def test_invalid_stabilizer_is_refused(paired, tmp_path):
  with pytest.raises(UsageError, match="Stabilizer.language is 'th', in which tiny.* has no captions"):
    captions(paired, stabilizer=Stabilizer(language="th", length=8))
  with pytest.raises(UsageError, match="a target of 24 tokens has no room after a stabilizer of 24"):
    captions(paired, stabilizer=Stabilizer(length=24))
  with pytest.raises(UsageError, match="unknown Stabilizer.form 'both': use one of plain, consistent"):
    Stabilizer("both")
  full = vocabulary.Vocabulary(paired.location().vocabulary)
  full.processor = type("Full", (), {"get_piece_size": lambda self: 512})()
  with pytest.raises(UsageError, match="its 512 pieces leave no row for the separator"):
    full.marks(Stabilizer())


def test_signature_names_the_stabilizer_form(paired):
  signatures = [
    captions(paired, stabilizer=stabilizer).signature()
    for stabilizer in (None, Stabilizer("plain", length=8), Stabilizer(length=8))
  ]
  assert [signature.get("stabilizer") for signature in signatures] == [
    None,
    ["plain", "en"],
    ["consistent", "en"],
  ]


def test_prefetched_batches_are_the_same(paired):
  stream = captions(paired, batch_size=4, captions_per_image=1, stabilizer=Stabilizer(length=8), workers=2)
  for step, batch in enumerate(stream.batches(num_steps=3)):
    for name, array in stream.batch(step).items():
      np.testing.assert_array_equal(batch[name], array)
  assert batch["image"].shape == (4, SIDE, SIDE, 3)


def test_a_vocabulary_sees_oversampled_languages_more_often(folder, tmp_path, monkeypatch):
  seen = []
  monkeypatch.setattr(vocabulary, "_train", lambda sentences, *rest, **options: seen.append(Counter(sentences)))
  for oversample in (None, {"en": 90}):
    vocabulary.train_on_records(folder, "", 340, oversample=oversample)
  once, often = seen
  assert once["dog one 1"] == often["Hund one 1"] == 1 and often["dog one 1"] == 90
  with pytest.raises(UsageError, match="no captions in th to oversample: leave it out"):
    vocabulary.train_on_records(folder, str(tmp_path / "no.model"), 340, oversample={"th": 2})
  assert cli.main(["data", "vocabulary", folder, f"--out={tmp_path / 'no'}", "--oversample=en"]) == 2


def test_example_sheet_refuses_a_stabilizer(paired):
  with gin.unlock_config():
    gin.bind_parameter("CaptionStream.mixture", paired.name)
    gin.bind_parameter("CaptionStream.stabilizer", Stabilizer(length=8))
  with pytest.raises(
    UsageError, match="a sheet shows captions without stabilizers: leave runs/plugs.gin out"
  ):
    show.configured_stream()
  with gin.unlock_config():
    gin.bind_parameter("CaptionStream.stabilizer", None)


def test_pairs_of_coco35l_are_those_of_its_lines(tmp_path):
  release = releases.write_coco35l(tmp_path, images=4, dev=2, order="shuffled", compress=False)
  english = {}
  for name in ("train_captions", "dev_captions"):
    for line in release.paths[name].read_text(encoding="utf-8").splitlines():
      row = json.loads(line)
      english.setdefault(row["translation_tokenized"], set()).add(row["caption_tokenized"])
  count = 0
  for expected in [record for split in release.expected.values() for record in split.values()]:
    codes, sources = zip(*((caption.language, caption.source) for caption in expected.captions), strict=True)
    for caption, place in zip(expected.captions, pivots_of(codes, sources, "en"), strict=True):
      pivot = expected.captions[place]
      assert pivot.language == "en"
      assert caption is pivot if caption.language == "en" else pivot.text in english[caption.text]
      count += caption.language != "en"
  assert count == 6 * 5 * 34 and max(map(len, english.values())) == 1
