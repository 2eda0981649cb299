"""`xmcap data vocabulary`, on a small corpus."""

import pytest

from tests.make import small_corpus
from xmcap import cli
from xmcap.data.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  folder = tmp_path_factory.mktemp("corpus")
  small_corpus.write(folder)
  return folder


def test_data_vocabulary_of_a_corpus(corpus, tmp_path):
  out = tmp_path / "own.model"
  assert cli.main(["data", "vocabulary", str(corpus), f"--out={out}", "--size=600"]) == 0
  vocabulary = Vocabulary(str(out))
  assert 292 < vocabulary.size <= 600
  assert vocabulary.has_language_piece("quz")
  assert not vocabulary.has_language_piece("pt-BR")


def test_data_vocabulary_of_selected_languages(corpus, tmp_path):
  out = tmp_path / "thai.model"
  arguments = [str(corpus), f"--out={out}", "--size=400", "--languages=th"]
  assert cli.main(["data", "vocabulary", *arguments]) == 0
  vocabulary = Vocabulary(str(out))
  thai, german = len(vocabulary.encode("ไทย")), len(vocabulary.encode("Deutsch"))
  assert thai < len("ไทย".encode()) and german >= len("Deutsch")  # German is spelt in bytes


@pytest.mark.parametrize(
  ("arguments", "said"),
  [
    (["--size=110"], "split 'train': cannot train a vocabulary of 110 pieces"),
    (["--split=no"], "no split 'no'"),
    (["--languages=quz"], "split 'train' in quz: no text to train a vocabulary on"),
    (["--languages=xx"], "unknown language 'xx'"),
  ],
)
def test_data_vocabulary_errors_are_one_line(corpus, tmp_path, arguments, said, capsys):
  assert cli.main(["data", "vocabulary", str(corpus), f"--out={tmp_path / 'own.model'}", *arguments]) == 2
  assert said in capsys.readouterr().err
