"""`xmcap data index` and `data build --vocabulary`: the same files; wrong use is one line."""

import os
import shutil

import pytest

from tests.data import conftest, releases
from xmcap import cli
from xmcap.data import lengths
from xmcap.data.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def tiny_dir(tmp_path_factory) -> str:
  pictures = [conftest.tiny_record(index) for index in range(conftest.NUM_PICTURES)]
  return conftest.write_corpus(tmp_path_factory.mktemp("tiny"), pictures)


def contents(folder):
  return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_corpus_with_its_own_vocabulary(tmp_path, tiny_dir, capsys):
  corpus = shutil.copytree(tiny_dir, tmp_path / "corpus")
  assert cli.main(["data", "index", str(corpus)]) == 0
  printed = capsys.readouterr()
  assert "lengths of captions, 84 in train (" in printed.out
  assert "train: records counted for the index: 24 of 24" in printed.err
  assert os.path.isdir(lengths.folder_of(corpus, "train", Vocabulary(f"{corpus}/vocabulary.model")))


@pytest.mark.parametrize(
  "arguments, words",
  [
    (["{empty}"], "empty has no vocabulary.model: give one with --vocabulary=PATH"),
    (["{empty}", "--vocabulary={tiny}/vocabulary.model"], "empty: not a corpus"),
    (["{tiny}", "--vocabulary={tiny}/tags.txt"], "tags.txt: not a SentencePiece model"),
    (["{tiny}", "--splits=test"], "has no split 'test'"),
    (["{tiny}", "--processes=0"], "--processes=0: give a number from 1"),
  ],
)
def test_wrong_use_is_one_line(tmp_path, tiny_dir, capsys, arguments, words):
  (tmp_path / "empty").mkdir()
  places = {"empty": tmp_path / "empty", "tiny": tiny_dir}
  assert cli.main(["data", "index", *(argument.format(**places) for argument in arguments)]) == 2
  assert words in capsys.readouterr().err


def test_a_build_with_a_vocabulary_writes_what_the_command_writes(tmp_path, tiny_dir):
  release = releases.write_coco35l(tmp_path / "release", images=5, dev=2, languages=("de", "th"))
  model = f"{tiny_dir}/vocabulary.model"
  build = ["data", "build", "coco35l", f"--release={release.folder}", "--processes=1"]
  for name, options in {"first": [f"--vocabulary={model}"], "later": [], "command": []}.items():
    assert cli.main([*build, f"--out={tmp_path / name}", *options]) == 0
  assert cli.main([*build, f"--out={tmp_path / 'later'}", f"--vocabulary={model}"]) == 0
  assert cli.main(["data", "index", str(tmp_path / "command"), f"--vocabulary={model}"]) == 0
  made = [contents(tmp_path / name / "lengths") for name in ("first", "later", "command")]
  assert len(made[0]) == 6 and made[0] == made[1] == made[2]
