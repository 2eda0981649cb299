"""A family can be deleted: the captioner trains, evaluates and captions without it."""

import pathlib
import shutil

import pytest

import xmcap
from tests.make import small_corpus
from tests.make.command import xmcap_without

ROOT = pathlib.Path(xmcap.__file__).parents[1]
FAMILIES = sorted(
  path.name for path in (ROOT / "xmcap/families").iterdir() if (path / "__init__.py").exists()
)
ALL = pytest.param("*", marks=pytest.mark.slow)
EACH = [pytest.param(name, marks=[pytest.mark.slow, pytest.mark.full]) for name in FAMILIES]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  folder = small_corpus.write(
    tmp_path_factory.mktemp("corpus"), "folder", languages=("fa", "quz", "sw"), pieces=700
  )
  (folder / "languages.txt").write_text("fa\nquz\nsw\n")
  return folder


@pytest.mark.parametrize("family", [ALL, *EACH])
def test_captioner_trains_and_captions_without_a_family(tmp_path, corpus, family):
  for name in ("xmcap", "gin", "tasks"):
    shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
  for name in FAMILIES if family == "*" else [family]:
    shutil.rmtree(tmp_path / "xmcap/families" / name)
  model = tmp_path / "model"
  train = [
    "train", "--gin_file=models/tiny.gin", "--gin_file=data/folder.gin", "--gin_file=runs/folder.gin",
    f"--gin.DATA_DIR={corpus}", f"--gin.MODEL_DIR={model}", "--gin.TOTAL_STEPS=2", "--gin.BATCH_SIZE=4",
    *small_corpus.SMALLER, *small_corpus.ONE_LENGTH,
  ]  # fmt: skip
  caption = ["caption", f"--model_dir={model}", "--languages=sw", str(corpus / "images/000000000013.png")]
  trained, captioned = xmcap_without((), train, caption, folder=tmp_path)
  trained.succeeded()
  captioned.succeeded("sw")
