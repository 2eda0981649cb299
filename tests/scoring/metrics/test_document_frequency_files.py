import gzip
import json

import numpy as np
import pytest

from tests.make.refusals import refusal
from xmcap.errors import UsageError
from xmcap.scoring import score
from xmcap.scoring.metrics import document_frequency_files

_REFERENCES = {"1": {"en": ["a dog runs", "the dog"], "th": ["แมวสองตัว"]}, "2": {"en": ["a cat"]}}
_PREDICTIONS = {"1": {"en": "a dog", "th": "แมว"}, "2": {"en": "cat"}}


@pytest.fixture
def frequencies():
  return score(_REFERENCES, _PREDICTIONS, keep=["document_frequency"]).document_frequencies


@pytest.fixture
def path(tmp_path, frequencies):
  document_frequency_files.write(tmp_path / "df.gz", frequencies, "default")
  return tmp_path / "df.gz"


def _lines(path):
  return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def _write(path, *lines):
  path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))


def test_document_frequencies_round_trip(path, frequencies):
  held = document_frequency_files.read(path, "default")
  assert held.keys() == frequencies.keys()
  for code, of_language in frequencies.items():
    assert held[code].fingerprint == of_language.fingerprint
    np.testing.assert_array_equal(held[code].frequency[1], of_language.frequency[1])


def test_document_frequencies_are_written_as_the_same_bytes(path, tmp_path, frequencies):
  document_frequency_files.write(tmp_path / "again.gz", frequencies, "default")
  assert (tmp_path / "again.gz").read_bytes() == path.read_bytes()


def test_words_of_another_tokenizer_are_refused(path):
  message = refusal(document_frequency_files.read, path, "whitespace")
  assert "line 1: en was tokenised with default-" in message and "but whitespace-" in message


@pytest.mark.parametrize(
  "content",
  [b"", b"no gzip", gzip.compress(b"{}")[:-6], gzip.compress(b"")],
  ids=["nothing", "no gzip", "cut", "empty gzip"],
)
def test_damaged_document_frequencies_are_one_line(path, content):
  path.write_bytes(content)
  assert str(path) in refusal(document_frequency_files.read, path, "default")


@pytest.mark.parametrize(
  "change",
  [
    {"images": 0},
    {"images": "2"},
    {"vocabulary": ["b", "a"]},
    {"vocabulary": 3},
    {"orders": []},
    {"orders": [{"prefix": [0], "word": [0], "frequency": [1]}] * 3},
    {"images": 10**400},
    {"orders": [{"prefix": [0], "word": [99], "frequency": [1]}]},
    {"orders": [{"prefix": [0], "word": [0], "frequency": [0]}]},
    {"orders": [{"prefix": [0, 0], "word": [0], "frequency": [1]}]},
    {"orders": [{"prefix": [0], "word": [1e99], "frequency": [1]}]},
  ],
)
def test_invalid_counts_of_document_frequencies_are_refused(path, change):
  _write(path, {**_lines(path)[0], **change})
  assert "line 1: damaged; make the file again" in refusal(document_frequency_files.read, path, "default")


@pytest.mark.parametrize("change", [{"language": 3}, {"tokenizer": None}])
def test_malformed_lines_of_document_frequencies_are_refused(path, change):
  _write(path, {**_lines(path)[0], **change})
  with pytest.raises(UsageError, match="line 1: .* is missing or not a string"):
    document_frequency_files.read(path, "default")
