"""Inputs that can be read once: named pipes and process substitution `<(...)`."""

import gzip
import json
import os
import shlex
import subprocess
import sys
import threading
import zipfile

import pytest

from tests.make import files
from tests.make.command import xmcap
from tests.scoring import release
from xmcap.errors import UsageError
from xmcap.reading import inputs
from xmcap.scoring import score_files

_REFERENCES, _PREDICTIONS = release.captions(400)


def _write(folder, layout):
  """Returns references, predictions and the options that they need."""
  references, predictions = folder / "r", folder / "p"
  if layout == "coco":
    files.coco(references, {key: captions["en"] for key, captions in _REFERENCES.items()})
    files.coco_results(predictions, {key: captions["en"] for key, captions in _PREDICTIONS.items()})
    return references, predictions, ["--language=en"]
  (files.release if layout == "release" else files.captions)(references, _REFERENCES)
  return references, files.captions(predictions, _PREDICTIONS), []


def _score(tmp_path, references, predictions, *options):
  out = tmp_path / "out"
  argv = [f"--out={out}", "--only_tables", "--no_health", "--tokenizer=char", *options]
  xmcap("score", f"--references={references}", f"--predictions={predictions}", *argv).succeeded()
  return json.loads((out / "table.json").read_text())


@pytest.fixture
def pipe(tmp_path):
  """Returns a function that makes a pipe with a name, into which a content is written once."""
  threads = []

  def make(name: str, content: bytes) -> str:
    path = tmp_path / name
    os.mkfifo(path)

    def write():
      try:
        with open(path, "wb") as file:
          file.write(content)
      except BrokenPipeError:
        pass

    threads.append(threading.Thread(target=write, daemon=True))
    threads[-1].start()
    return str(path)

  yield make
  for thread in threads:
    thread.join(120)
    assert not thread.is_alive(), "a pipe was never read"


@pytest.mark.parametrize("layout", ["release", "plain", "coco"])
def test_score_of_named_pipes_equals_files(tmp_path, pipe, layout):
  references, predictions, options = _write(tmp_path, layout)
  assert references.stat().st_size > 65536  # more than a pipe holds
  expected = _score(tmp_path, references, predictions, *options)
  assert next(iter(expected["languages"].values()))["images"] == 400
  pipes = pipe("r.pipe", references.read_bytes()), pipe("p.pipe", predictions.read_bytes())
  assert _score(tmp_path, *pipes, *options) == expected


def test_score_reads_process_substitution_and_standard_input(tmp_path):
  expected = _score(tmp_path, *_write(tmp_path, "plain")[:2])
  options = ["--out=out", "--only_tables", "--no_health", "--tokenizer=char"]
  words = [sys.executable, "-m", "xmcap.cli", "score", *options]
  command = f"{shlex.join(words)} --references=<(cat r) --predictions=/dev/stdin < p"
  subprocess.run(["bash", "-c", command], check=True, capture_output=True, cwd=tmp_path)
  assert json.loads((tmp_path / "out/table.json").read_text()) == expected


def test_pipes_for_subset_and_document_frequencies(tmp_path, pipe):
  references, predictions = release.write(tmp_path, 300)
  keys = list(release.captions(300)[0])[:100]
  saved = tmp_path / "df.gz"
  wanted = score_files(references, predictions, tmp_path / "1", save_document_frequencies=saved)
  packed = tmp_path / "r.zip"
  with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.write(references, "captions.jsonl")
  found = score_files(
    pipe("zip", packed.read_bytes()),
    predictions,
    tmp_path / "2",
    document_frequencies=pipe("df", saved.read_bytes()),
  )
  assert found.table.rows == wanted.table.rows
  assert gzip.decompress(saved.read_bytes())
  text = "".join(f"{key}\n" for key in keys).encode()
  (tmp_path / "keys").write_bytes(text)
  wanted = score_files(references, predictions, tmp_path / "3", subset=tmp_path / "keys")
  found = score_files(references, predictions, tmp_path / "4", subset=pipe("subset", text))
  assert found.table == wanted.table and found.table.rows["en"]["images"] == 100


def test_zip_archive_in_a_pipe_has_a_size_limit(tmp_path, pipe, monkeypatch):
  monkeypatch.setattr(inputs, "MAX_UNPACKED", 1 << 18)
  with pytest.raises(UsageError, match="over 0 MiB when decompressed; decompress it yourself"):
    inputs.Input(pipe("zip", b"PK\x03\x04" + bytes(1 << 19)))


@pytest.mark.parametrize("second", ["--predictions", "--df", "--subset"])
def test_same_pipe_for_two_inputs_is_refused(tmp_path, second):
  pipe = tmp_path / "pipe"
  os.mkfifo(pipe)
  (tmp_path / "link").symlink_to(pipe)
  options = {"document_frequencies": "", "subset": ""}
  predictions = tmp_path / "p"
  if second == "--predictions":
    predictions = tmp_path / "link"
  else:
    options[{"--df": "document_frequencies", "--subset": "subset"}[second]] = tmp_path / "link"
  with pytest.raises(
    UsageError, match=f"^--references and {second} are the same pipe, which can be read only once"
  ):
    score_files(pipe, predictions, tmp_path / "out", **options)
