import json
import pathlib
import shutil

import numpy as np
import pytest

import tests.make.tiny_corpus as corpora
from tests.make.images import encode
from tests.make.tiny_corpus import NUM_PICTURES, tiny_record, write_corpus
from xmcap.data import length_index, record_writer, records
from xmcap.data.records import RecordSource
from xmcap.data.vocabulary import Vocabulary, train_vocabulary
from xmcap.errors import UsageError, XmcapError
from xmcap.files import files


@pytest.fixture
def corpus(tmp_path, tiny_dir) -> str:
  """A copy of the tiny corpus, to write beside."""
  return shutil.copytree(tiny_dir, tmp_path / "corpus")


@pytest.fixture
def model(corpus) -> Vocabulary:
  return Vocabulary(f"{corpus}/vocabulary.model")


@pytest.fixture
def never_small(monkeypatch):
  monkeypatch.setattr(length_index, "SMALL", 0)


def folder_of(directory, split, vocabulary) -> pathlib.Path:
  return pathlib.Path(length_index.folder_of(directory, split, vocabulary))


def by_hand(source, vocabulary) -> list[tuple[str, list[int]]]:
  return [
    (
      " ".join(f"{caption.language}/{caption.source}" for caption in record.captions),
      [len(vocabulary.encode(caption.text)) + 1 for caption in record.captions],
    )
    for record in source
  ]


def listed(index) -> list[tuple[str, list[int]]]:
  records = np.arange(index._ends[-1] if index._chosen is None else len(index._chosen))
  lines = {}
  for rows, split, layouts, starts in index.at(records):
    for row, number, start in zip(rows.tolist(), layouts, starts, strict=True):
      layout = split.layouts[number]
      pieces = split.lengths[start : start + len(layout.languages)]
      lines[row] = layout.key.decode(), pieces.tolist()
  return [lines[row] for row in records.tolist()]


def test_length_index_holds_languages_and_pieces_of_every_caption(corpus, model):
  assert length_index.write(corpus, model, ["train"]) == {"train": 84}
  source = RecordSource(corpus)
  index = length_index.index_of(source, model)
  assert listed(index) == by_hand(source, model)
  (split,) = index._splits
  assert isinstance(split.lengths, np.memmap) and split.lengths.dtype == np.uint8
  assert len(split.layouts) == 2
  shutil.rmtree(f"{corpus}/lengths")
  assert listed(length_index.index_of(source, model)) == listed(index)


def test_a_part_of_a_split_uses_the_index_of_the_whole(corpus, model, never_small):
  length_index.write(corpus, model, ["train"])
  for split in ("train[5:9]", "train[:3]+train[20:]"):
    source = RecordSource(corpus, split)
    assert listed(length_index.index_of(source, model)) == by_hand(source, model)
  part = RecordSource(corpus).subset(np.array([17, 2, 3]), "three")
  assert listed(length_index.index_of(part, model)) == by_hand(part, model)


def test_length_index_of_several_splits_and_shards(tmp_path, model, never_small, monkeypatch):
  out = tmp_path / "splits"
  pictures = [tiny_record(index) for index in range(NUM_PICTURES)]
  shards = {"train": [pictures[:7], pictures[7:15]], "validation": [pictures[15:]]}
  written = [
    record_writer.write_split(out, split, parts, list, dataset="tiny", processes=1)
    for split, parts in shards.items()
  ]
  record_writer.write_metadata(out, written, dataset="tiny")
  length_index.write(out, model, list(shards))
  opened, read = [], length_index.read
  monkeypatch.setattr(
    length_index, "read", lambda *arguments: opened.append(arguments[1]) or read(*arguments)
  )
  length_index.index_of(RecordSource(out, "train"), model)
  assert opened == ["train"]
  for split in ("train", "validation", "validation[3:]+train[5:9]", "train[0:]+validation"):
    source = RecordSource(out, split)
    assert listed(length_index.index_of(source, model)) == by_hand(source, model)


def test_length_index_is_the_same_for_any_number_of_processes(corpus, model, monkeypatch):
  folder = folder_of(corpus, "train", model)
  contents = []
  for processes, chunk in ((1, 1_024), (1, 5), (2, 5)):
    monkeypatch.setattr(length_index, "_CHUNK", chunk)
    monkeypatch.setattr(length_index, "_ENCODED", chunk)
    said = []
    length_index.write(corpus, model, ["train"], processes=processes, say=said.append)
    assert said[-1] == f"train: records counted for the index: {NUM_PICTURES:,} of {NUM_PICTURES:,}"
    contents.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
  assert contents[0] == contents[1] == contents[2]
  assert sorted(contents[0]) == ["blocks.npy", "index.json", "layouts.npy", "lengths.npy", "offsets.npy"]


def test_length_index_stores_long_captions_as_uint16(tmp_path):
  record = records.Record(
    "long",
    encode(corpora.colour(0)),
    [records.Caption("en", "a dog " * 200), records.Caption("en", "a")],
  )
  out = write_corpus(tmp_path / "long", [record])
  model = Vocabulary(f"{out}/vocabulary.model")
  length_index.write(out, model, ["train"])
  index = length_index.index_of(RecordSource(out), model)
  (split,) = index._splits
  assert split.lengths.dtype == np.uint16 and listed(index) == by_hand(RecordSource(out), model)
  assert split.lengths.max() > 255


def test_a_large_split_without_an_index_names_the_command(corpus, model, never_small):
  with pytest.raises(
    UsageError,
    match=r"has no index of lengths for 'train\[:9\]' and .*vocabulary.model, which target_lengths needs: "
    r"make it with `xmcap data index .*corpus --vocabulary=.*vocabulary.model --splits=train`",
  ):
    length_index.index_of(RecordSource(corpus, "train[:9]"), model)


def test_length_index_depends_on_the_vocabulary(corpus, model, never_small, tmp_path):
  length_index.write(corpus, model, ["train"])
  other = train_vocabulary(f"{corpus}/text.txt", str(tmp_path / "other.model"), size=420, span_words=True)
  with pytest.raises(UsageError, match=r"index of lengths for 'train' and .*other\.model"):
    length_index.index_of(RecordSource(corpus), other)
  # Two hashes that begin alike.
  folder_of(corpus, "train", model).rename(folder_of(corpus, "train", other))
  with pytest.raises(
    UsageError, match="the vocabulary changed after the index was made: make it again: `xmcap"
  ):
    length_index.index_of(RecordSource(corpus), other)


def test_length_index_notices_changed_records(corpus, model):
  length_index.write(corpus, model, ["train"])
  for path in corpus.glob("*.array_record-*-of-?????"):
    path.unlink()
  write_corpus(corpus, [tiny_record(index + 1) for index in range(NUM_PICTURES)], train_vocabulary=False)
  with pytest.raises(UsageError, match="the records changed after the index was made"):
    length_index.index_of(RecordSource(corpus), model)
  length_index.write(corpus, model, ["train"])
  assert listed(length_index.index_of(RecordSource(corpus), model)) == by_hand(RecordSource(corpus), model)


@pytest.mark.parametrize(
  "name, change",
  [
    ("index.json", lambda data: data[:30]),
    ("index.json", lambda data: b"[]"),
    ("index.json", lambda data: b"[" * 100_000),
    ("index.json", lambda data: data.replace(b'"layouts": [', b'"layouts": {}, "other": [')),
    ("index.json", lambda data: data.replace(b"en/human de/human en/human", b"en/human de/human")),
    ("index.json", lambda data: data.replace(b"de/human", b"de")),
    ("lengths.npy", lambda data: data[:90]),
    ("lengths.npy", lambda data: b"nothing"),
    ("lengths.npy", lambda data: data[:-1] + b"\x09"),
    ("layouts.npy", lambda data: data[:-1]),
    ("layouts.npy", lambda data: data[:-1] + b"\x09"),
    ("offsets.npy", lambda data: data[:-1] + b"\x09"),
    ("blocks.npy", lambda data: data[:-1]),
    ("blocks.npy", lambda data: data[:-1] + b"\x09"),
    ("index.json", lambda data: data.replace(b'"lengths.npy": "|u1"', b'"lengths.npy": "|u2"')),
    ("index.json", lambda data: data.replace(b'"crc32c": ', b'"crc32c": 1')),
  ],
)
def test_damaged_length_index_is_one_line(corpus, model, name, change):
  length_index.write(corpus, model, ["train"])
  path = folder_of(corpus, "train", model) / name
  path.write_bytes(change(path.read_bytes()))
  with pytest.raises(UsageError, match="is damaged .*: make it again: `xmcap data index") as raised:
    listed(length_index.index_of(RecordSource(corpus), model))
  assert "\n" not in str(raised.value)


def test_failed_write_of_a_length_index_keeps_the_old_one(corpus, model, monkeypatch):
  length_index.write(corpus, model, ["train"])
  folder = folder_of(corpus, "train", model)
  before = {path.name: path.read_bytes() for path in folder.iterdir()}

  def full(path, text):
    raise files.cannot_write(path, OSError(28, "No space left on device"))

  monkeypatch.setattr(files, "write_text", full)
  with pytest.raises(XmcapError, match="cannot write .*/lengths/.*: No space left on device"):
    length_index.write(corpus, model, ["train"])
  assert [path.name for path in folder.parent.iterdir()] == [folder.name]
  assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_write_absent_makes_only_missing_length_indexes(corpus, model):
  length_index.write_absent(corpus, model, ["train"])
  about = folder_of(corpus, "train", model) / "index.json"
  made = about.stat().st_mtime_ns
  length_index.write_absent(corpus, model, ["train"])
  assert about.stat().st_mtime_ns == made
  assert json.loads(about.read_text())["vocabulary"] == model.sha256


def test_length_index_of_a_split_slice_is_refused(corpus, model):
  with pytest.raises(UsageError, match=r"'train\[:3\]' is a part of a split"):
    length_index.write(corpus, model, ["train[:3]"])


def test_tfds_ignores_the_folder_of_length_indexes(corpus, model):
  length_index.write(corpus, model, ["train"])
  assert len(RecordSource(corpus)) == NUM_PICTURES and records.splits(corpus) == ["train"]
