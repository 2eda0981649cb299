"""Output locks of every writing command: a second writer is refused, and no input is overwritten."""

import contextlib
import fcntl
import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

from tests.corpora import release_folders as releases
from tests.make import files, images, tiny_corpus
from tests.make.command import xmcap
from tests.training.reporting import synthetic
from xmcap import cli

_HOLDER = f"process 7 on {socket.gethostname()} (xmcap score, since 2020-01-01 12:01)"


@contextlib.contextmanager
def _locked(path):
  """As another process would lock it."""
  path.parent.mkdir(parents=True, exist_ok=True)
  with open(path, "w") as file:
    file.write(_HOLDER)
    file.flush()
    fcntl.flock(file, fcntl.LOCK_EX)
    yield


@pytest.fixture(scope="module")
def place(tmp_path_factory):
  """A folder with small inputs for all commands."""
  folder = tmp_path_factory.mktemp("place")
  for name in ("predictions.jsonl", "other.jsonl"):
    files.captions(folder / name, {key: {"en": f"a {key}"} for key in ("dog", "cat")})
  files.release(
    folder / "references.jsonl", {key: {"en": [f"a {key}"]} for key in ("dog", "cat")}, locale="en"
  )
  comparisons = ("A,B,en,1,2", "A,C,en,3,1", "B,C,en,-3,1")
  files.lines(folder / "core.csv", "m1,m2,lang,delta_sxs,delta_x", *comparisons)
  written = {"caption": "a dog", "tags": [], "suggested": {"sentences": [], "tags": []}, "events": []}
  row = {"image/key": "dog", "language": "en", "annotator": "anna", **written}
  files.jsonl(folder / "annotations.jsonl", row)
  images.files(folder, "photo.png")
  synthetic.captioner(folder / "run", 0, 400, 400, ends="finished")
  (folder / "corpus").mkdir()
  tiny_corpus.write_corpus(
    folder / "corpus", [tiny_corpus.tiny_record(index) for index in range(tiny_corpus.NUM_PICTURES)]
  )
  return folder


@pytest.fixture
def here(place, tmp_path, monkeypatch):
  """The inputs, in a folder of the test's own that is the working folder."""
  subprocess.run(["cp", "-r", f"{place}/.", str(tmp_path)], check=True)
  monkeypatch.chdir(tmp_path)
  return tmp_path


_SCORE = "score --references=references.jsonl --predictions=predictions.jsonl --only_tables"
_RATE = "human rate --protocol=sxs --predictions A=predictions.jsonl B=other.jsonl"
_SHOW = "data show corpus --image_size=16 --target_length=16 --count=2"


@pytest.mark.parametrize(
  ("command", "lock"),
  [
    ("data build emoji36 --out=new", "new/.xmcap.lock"),
    ("data build xm3600 --release=run --out=new", "new/.xmcap.lock"),
    ("data build coco35l --release=run --out=new", "new/.xmcap.lock"),
    ("data build cc3m35l --release=run --out=new", "new/.xmcap.lock"),
    ("data build xm3600 --release=fetched --download --out=new", "fetched/.xmcap.lock"),
    ("data index corpus", "corpus/.xmcap.lock"),
    ("data check corpus", "corpus/.xmcap.lock"),
    ("data check corpus --out=new", "new/.xmcap.lock"),
    (f"{_SHOW} --out=new.html", ".new.html.lock"),
    (f"{_SCORE} --out=new", "new/.xmcap.lock"),
    (f"{_SCORE} --out=new --save_df=new.df", ".new.df.lock"),
    ("compare scored A=scored --out=new", "new/.xmcap.lock"),
    ("human sxs --comparisons=core=core.csv --resamples=2 --out=new", "new/.xmcap.lock"),
    (f"{_RATE} --out=new.html", ".new.html.lock"),
    (f"{_RATE} --out=new.html", ".new.key.jsonl.lock"),
    ("human rate --join=key.jsonl ratings.jsonl --out=new.jsonl", ".new.jsonl.lock"),
    ("human annotate --images=photo.png --language=en --out=new", "new/.xmcap.lock"),
    ("human annotations annotations.jsonl --out=new", "new/.xmcap.lock"),
    ("convert --input=weights --out=new", "new/.xmcap.lock"),
  ],
)
def test_locked_output_refuses_a_second_writer(here, command, lock):
  if command.startswith("compare"):
    xmcap(*_SCORE.split(), "--out=scored").succeeded()
  with _locked(here / lock):
    before = sorted(path for path in here.rglob("*") if not path.name.endswith(".lock"))
    refused = xmcap(*command.split())
    refused.refused(f"is being written by {_HOLDER}: wait until it ends, or give another ", code=1)
    assert sorted(path for path in here.rglob("*") if not path.name.endswith(".lock")) == before


def test_locked_model_folder_refuses_a_second_run(here):
  train = ["train", "--gin_file=models/tiny.gin", "--gin_file=data/emoji36.gin", "--gin_file=runs/train.gin"]
  with _locked(here / "model" / ".xmcap.lock"):
    refused = xmcap(*train, "--gin.MODEL_DIR=model", "--gin.DATA_DIR=corpus")
    refused.refused(f"model: is being written by {_HOLDER}", "or give another MODEL_DIR", code=1)
    assert [path.name for path in (here / "model").iterdir()] == [".xmcap.lock"]


@pytest.mark.parametrize(
  ("command", "words"),
  [
    ("data build xm3600 --release=corpus --out=corpus", "--out=corpus: would overwrite the input --release"),
    (
      "data build xm3600 --captions=x --images=corpus --out=link",
      "--out=link: would overwrite the input --images=corpus",
    ),
    (f"{_SHOW} --out=corpus/../corpus/old.html", "would overwrite the input DIR"),
    (f"{_SCORE} --out=new --save_df=predictions.jsonl", "--save_df=.* overwrite the input --predictions"),
    (f"{_SCORE} --out=new --save_df=references.jsonl", "--save_df=.* overwrite the input --references"),
    (
      f"{_SCORE} --out=new --save_df=new/table.csv",
      "--save_df=new/table.csv: --out=new/table.csv is the same file",
    ),
    (
      f"{_SCORE} --out=new --save_df=link/tags.txt --df=corpus/tags.txt",
      "--save_df=.* overwrite the input --df",
    ),
    (
      f"{_SCORE} --out=scored --baseline=scored",
      "--out=scored/table.json: .* overwrite the input --baseline",
    ),
    ("compare scored A=scored --out=new --references=new/report.html", "--out=new/report.html"),
    (
      "human sxs --comparisons=core=correlations.csv --out=.",
      "--out=.*csv: would overwrite the input --comparisons",
    ),
    (
      "human rate --join=a.key.jsonl predictions.jsonl --out=predictions.jsonl",
      "overwrite the input RATINGS",
    ),
    ("human rate --join=predictions.jsonl other.jsonl --out=predictions.jsonl", "overwrite the input --join"),
    ("convert --input=run --out=link/../run", "--out=link/../run: would overwrite the input --input=run"),
  ],
)
def test_output_equal_to_an_input_is_refused(here, command, words):
  (here / "link").symlink_to("corpus")
  os.makedirs("scored")
  (here / "corpus/old.html").write_text("a page\n")
  if command.startswith("human sxs"):
    os.rename("core.csv", "correlations.csv")
  before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
  error = xmcap(*command.split()).refused().err.rstrip()
  assert re.search(words, error) and error.endswith(": name another"), error
  assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
  ("command", "refusal"),
  [
    ("caption --model_dir=run --out=x.json corpus", "--out=x.json: is written as .jsonl, .csv or .html: give a name"),
    ("caption --model_dir=run --out=x.jsonl.gz corpus", "is written as .jsonl, .csv or .html"),
    ("caption --model_dir=run -o captions corpus", "--out=captions: is written as"),
    ("tag --model_dir=run --out=x.csv corpus", "--out=x.csv: is written as .jsonl: give"),
    (f"{_SHOW} --out=x.png", "--out=x.png: is written as .html"),
    ("data select candidates.csv --out=x.json", "--out=x.json: is written as .csv"),
    ("data vocabulary corpus --out=x.json", "--out=x.json: is written as .model"),
    ("data labels --labels=a --out=x.csv", "--out=x.csv: is written as .json"),
    ("retrieval top -q a -c b --sentences=c -l en --out=x.csv", "--out=x.csv: is written as .jsonl"),
    ("retrieval scores -q a -c b --out=x.npz", "--out=x.npz: is written as .npy"),
    ("human quality --references=references.jsonl --out=x.csv", "--out=x.csv: is written as .jsonl"),
    (f"{_RATE} --out=x.jsonl", "--out=x.jsonl: is written as .html"),
    ("human rate --join=a.key.jsonl predictions.jsonl --out=x.csv", "--out=x.csv: is written as .jsonl"),
    ("plan --json=x.csv", "--json=x.csv: is written as .json"),
    (f"{_SCORE} --out=scores.csv", "--out=scores.csv is the name of a file: give a folder"),
  ],
)  # fmt: skip
def test_name_of_another_format_is_refused_before_any_work(here, command, refusal):
  before = sorted(here.rglob("*"))
  xmcap(*command.split()).refused(refusal)
  assert sorted(here.rglob("*")) == before


def test_failed_report_keeps_the_older_comparison(here):
  score = "score --references=references.jsonl --processes=1 --pictures=none"
  for name in ("predictions", "other"):
    xmcap(*score.split(), f"--predictions={name}.jsonl", f"--out={name}").succeeded()
  compare = ["compare", "predictions", "other", "--out=both", "--resamples=9"]
  xmcap(*compare).succeeded()
  before = {path.name: path.read_bytes() for path in (here / "both").iterdir()}
  xmcap(*compare, "--seed=1", "--references=absent.jsonl").refused("absent.jsonl")
  assert {path.name: path.read_bytes() for path in (here / "both").iterdir()} == before


def test_human_rate_writes_no_key_without_its_page(here):
  (here / "new.html").mkdir()
  xmcap(*_RATE.split(), "--out=new.html").refused("cannot write new.html", code=1)
  assert not (here / "new.key.jsonl").exists()


def test_concurrent_builds_into_a_folder_are_refused(tmp_path):
  release = releases.write_xm3600(tmp_path / "release", images=30)
  command = [sys.executable, "-m", "xmcap.cli", "data", "build", "xm3600", f"--out={tmp_path / 'out'}"]
  command += [f"--{role}={path}" for role, path in release.paths.items()]
  root = pathlib.Path(cli.__file__).parents[1]
  both = [subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) for _ in range(2)]
  errors = [process.communicate()[1] for process in both]
  codes = [process.returncode for process in both]
  # The second may also come when the first is done already.
  assert sorted(codes) in ([0, 1], [0, 0]), errors
  for code, error in zip(codes, errors, strict=True):
    if code:
      assert "is being written by process" in error and "(xmcap data build xm3600, since" in error
  assert release.differences(tmp_path / "out") == []
  assert not list((tmp_path / "out").glob(".*"))
