"""A corpus in a bucket: the stream, seqio, the commands and evaluators read it as one of this machine."""

import json
import shutil

import numpy as np
import pytest

from tests.make import small_corpus
from xmcap import cli
from xmcap.data import length_batches
from xmcap.data.records import RecordSource
from xmcap.data.stream import CaptionStream
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError
from xmcap.evaluation import record_references
from xmcap.evaluation.evaluators import CaptionEvaluator


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
  length_batches.write(local, model, ["train"], processes=1)
  shutil.copytree(local / "lengths", store.folder / "coco35l" / "lengths")
  here, there = (
    length_batches.index_of(RecordSource(place, "train"), model) for place in (str(local), remote)
  )
  shutil.rmtree(local / "lengths")
  assert there.layouts == here.layouts
  np.testing.assert_array_equal(there.lengths, here.lengths)
  with pytest.raises(UsageError, match="an index can only be written locally"):
    length_batches.write(remote, model, ["train"])


def test_seqio_reads_a_corpus_in_a_bucket(local, remote, register):
  def examples(place):
    import seqio

    corpus = register(place, ("en",))
    dataset = seqio.get_mixture_or_task(f"{corpus.name}_en").get_dataset(
      {"image": 24, "targets": 16}, split="train", shuffle=False
    )
    return [(example["key"], example["targets"].tolist()) for example in dataset.as_numpy_iterator()]

  assert examples(remote) == examples(local) != []


def test_data_commands_read_a_corpus_in_a_bucket(local, remote, tmp_path, capsys):
  def printed(place):
    assert cli.main(["data", "stats", str(place)]) == 0
    return capsys.readouterr().out

  assert printed(remote) == printed(local)
  assert cli.main(["data", "check", remote, f"--out={tmp_path}", "--processes=1"]) == 0
  report = json.loads((tmp_path / "check.json").read_text())
  assert cli.main(["data", "check", str(local), f"--out={tmp_path}", "--processes=1"]) == 0
  ours = json.loads((tmp_path / "check.json").read_text())
  assert {**report, "directory": ""} == {**ours, "directory": ""}
  assert cli.main(["data", "show", remote, f"--out={tmp_path / 'sheet.html'}", "--count=2"]) == 0
  capsys.readouterr()
  assert cli.main(["data", "check", remote]) == 2
  assert "give a local folder for the report with --out=DIR" in capsys.readouterr().err


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
    assert [there._bytes(key) for key in keys] == [here._bytes(key) for key in keys]
    assert there.small(2).references == here.small(2).references


def test_record_references_are_read_from_a_bucket(local, remote):
  here, there = (record_references.RecordReferences(str(place), "validation") for place in (local, remote))
  assert there.references == here.references
