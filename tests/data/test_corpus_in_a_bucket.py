"""A corpus in a bucket: the stream, seqio, the commands and evaluators read it as one of this machine."""

import collections
import contextlib
import json
import os
import shutil
import threading

import gin
import numpy as np
import pytest

from tests.data.streams import captions, dealt_out, equal
from tests.make import small_corpus
from tests.make.command import xmcap
from tests.make.tiny_corpus import NUM_PICTURES
from xmcap.data import length_index
from xmcap.data.array_records import remote as remote_lib
from xmcap.data.mixture import MixedSource
from xmcap.data.records import RecordSource
from xmcap.data.stream import CaptionStream
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError
from xmcap.evaluation import record_references
from xmcap.evaluation.evaluators import CaptionEvaluator

in_processes = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs Linux")


@pytest.fixture(scope="module")
def local(tmp_path_factory):
  return small_corpus.write(tmp_path_factory.mktemp("corpus") / "coco35l")


@pytest.fixture
def remote(store, local):
  shutil.copytree(local, store.folder / "coco35l")
  return "gs://bucket/coco35l"


def batches(corpus, steps=4) -> list[dict]:
  stream = CaptionStream(
    mixture=corpus.name, batch_size=8, captions_per_image=2, image_size=24, target_length=16, prompt_length=8
  )
  return [stream.batch(step) for step in range(steps)]


def test_caption_stream_of_a_bucket_equals_local(local, remote, register):
  languages = ("de", "en", "th")
  here, there = (batches(register(place, languages)) for place in (local, remote))
  for ours, theirs in zip(here, there, strict=True):
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_length_index_is_read_from_a_bucket(store, local, remote, register):
  model = Vocabulary(str(local / "vocabulary.model"))
  length_index.write(local, model, ["train"], processes=1)
  shutil.copytree(local / "lengths", store.folder / "coco35l" / "lengths")
  here, there = (length_index.index_of(RecordSource(place, "train"), model) for place in (str(local), remote))
  everything = np.arange(len(RecordSource(local, "train")))
  ((_, stored, *ours),), ((_, mirrored, *theirs),) = here.at(everything), there.at(everything)
  assert [layout.key for layout in mirrored.layouts] == [layout.key for layout in stored.layouts]
  for one, other in zip((*ours, stored.lengths), (*theirs, mirrored.lengths), strict=True):
    np.testing.assert_array_equal(one, other)
  shutil.rmtree(local / "lengths")
  with pytest.raises(UsageError, match="an index can only be written locally"):
    length_index.write(remote, model, ["train"])


def test_seqio_reads_a_corpus_in_a_bucket(local, remote, register):
  def examples(place):
    import seqio

    corpus = register(place, ("en",))
    dataset = seqio.get_mixture_or_task(f"{corpus.name}_en").get_dataset(
      {"image": 24, "targets": 16}, split="train", shuffle=False
    )
    return [(example["key"], example["targets"].tolist()) for example in dataset.as_numpy_iterator()]

  assert examples(remote) == examples(local) != []


def test_data_commands_read_a_corpus_in_a_bucket(local, remote, tmp_path):
  def checked(place):
    xmcap("data", "check", place, f"--out={tmp_path}", "--processes=1").succeeded()
    return {**json.loads((tmp_path / "check.json").read_text()), "directory": ""}

  assert xmcap("data", "stats", remote).succeeded().out == xmcap("data", "stats", local).succeeded().out
  assert checked(remote) == checked(local)
  xmcap("data", "show", remote, f"--out={tmp_path / 'sheet.html'}", "--count=2").succeeded()
  xmcap("data", "check", remote).refused("give a local folder for the report with --out=DIR")


def test_caption_evaluator_reads_a_corpus_in_a_bucket(local, remote):
  class Predictor:
    image_size = 24

  for suffix in ("captions.jsonl", ""):
    here, there = (
      CaptionEvaluator(Predictor(), f"{place}/{suffix}".rstrip("/"), split="validation")
      for place in (local, remote)
    )
    assert there.references == here.references
    keys = list(here.references)
    assert [there.read(key) for key in keys] == [here.read(key) for key in keys]
    assert there.small(2).references == here.small(2).references


def test_record_references_are_read_from_a_bucket(local, remote):
  here, there = (record_references.RecordReferences(str(place), "validation") for place in (local, remote))
  assert there.references == here.references


def answered_together(store, file: str, together: threading.Barrier) -> None:
  """The store answers the first records of a file when as many are asked for as `together` says."""

  def held(handler, data: bytes) -> bytes:
    together.wait(timeout=30)
    return data

  # The first read is of the file's end.
  store.faults[file].extend([lambda handler, data: data, *[held] * together.parties])


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=in_processes)])
def test_a_worker_reads_several_parts_ahead(store, tiny_dir, register, processes):
  shutil.copytree(tiny_dir, store.folder / "tiny")
  options = dict(batch_size=8, captions_per_image=1, workers=1)
  here = captions(register(tiny_dir), **options)
  there = captions(register("gs://bucket/tiny"), **options, processes=processes)
  two_parts = threading.Barrier(2)  # the records of a part lie side by side
  answered_together(store, "tiny/tiny-train.array_record-00000-of-00001", two_parts)
  with contextlib.closing(there), contextlib.closing(there.batches()) as batches:
    for step, batch in zip(range(5), batches, strict=False):
      equal(batch, here.batch(step))
  assert not two_parts.broken and two_parts.n_waiting == 0


NEIGHBOURS = dict(
  batch_size=16, captions_per_image=1, neighbours=8, target_lengths=(6, 9, 24), bucket_window=4
)


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=in_processes)])
def test_batches_that_are_read_together_equal_batches_read_alone(store, tiny_dir, register, processes):
  """Resumed inside a window, and on one host or on three."""
  shutil.copytree(tiny_dir, store.folder / "tiny")
  here, plain = (
    captions(register(tiny_dir), **{**NEIGHBOURS, **options}) for options in ({}, {"neighbours": 1})
  )
  there = captions(register("gs://bucket/tiny"), **NEIGHBOURS, workers=2, processes=processes)
  assert there.batches_together(16) == 4 and here.batches_together(16) == 1
  for start, rows in ((0, None), (5, None), (6, np.arange(0, 16, 3))):
    with contextlib.closing(there.batches(start, rows)) as batches:
      for step, batch in zip(range(start, start + 7), batches, strict=False):
        equal(batch, here.batch(step, rows))
  there.close()
  equal(dealt_out(there, 6, 3), here.batch(6))
  assert {here.batch(step)["target_tokens"].shape[-1] for step in range(16)} == {9, 24}
  assert any(np.any(here.batch(0)["key"] != plain.batch(step)["key"]) for step in range(4))
  assert here.signature() != plain.signature()


@pytest.mark.parametrize("window, most", [(1, 0.2), (4, 0.3)])
def test_neighbours_of_a_chunk_are_read_by_one_request(store, tiny_dir, register, monkeypatch, window, most):
  """Also if their captions are of different lengths."""
  monkeypatch.setattr(remote_lib, "GAP", 2_000)
  shutil.copytree(tiny_dir, store.folder / "tiny")
  stream = captions(register("gs://bucket/tiny"), **{**NEIGHBOURS, "bucket_window": window})
  with gin.unlock_config():
    gin.bind_parameter("RecordCache.bytes", 0)
  stream.source.read([0])
  store.requests.clear()
  with contextlib.closing(stream.batches(num_steps=8)) as batches:
    assert len(list(batches)) == 8
  assert most / 2 < len(store.requests) / (8 * 16) < most


def test_all_corpora_of_a_mixture_are_read_ahead_at_once(store, tiny_dir):
  both = threading.Barrier(2)
  for name in ("one", "other"):
    shutil.copytree(tiny_dir, store.folder / name)
  answered_together(store, "one/tiny-train.array_record-00000-of-00001", both)
  store.faults["other/tiny-train.array_record-00000-of-00001"] = collections.deque(
    store.faults["one/tiny-train.array_record-00000-of-00001"]
  )
  source = MixedSource({name: RecordSource(f"gs://bucket/{name}") for name in ("one", "other")}, "train")
  keys = [record.key for record in source.read([0, NUM_PICTURES + 5, 1, NUM_PICTURES + 7])]
  assert [int(key, 16) for key in keys] == [0, 5, 1, 7] and not both.broken
