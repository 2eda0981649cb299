import dataclasses
import json

import numpy as np
import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap.scoring import read_system, score
from xmcap.scoring.result import read_table
from xmcap.scoring.statistics.statistics_file import read_statistics, write_statistics

_REFERENCES = {"b": {"en": ["a dog", "dogs"], "de": ["ein Hund"]}, "a": {"en": ["two cats"]}}
_PREDICTIONS = {"b": {"en": "a dog", "de": "Hund"}, "a": {"en": "a cat"}}


@pytest.fixture
def result():
  return score(_REFERENCES, _PREDICTIONS, metrics=("cider_d", "bleu"), bootstrap=10)


def test_scores_npz_round_trip(result, tmp_path):
  write_statistics(tmp_path / "scores.npz", result.statistics)
  scores = read_statistics(tmp_path / "scores.npz")
  assert scores.keys() == result.statistics.keys()
  for code, held in result.statistics.items():
    assert (scores[code].keys, scores[code].num_counted) == (held.keys, held.num_counted)
    for name, values in held.values.items():
      np.testing.assert_array_equal(scores[code].values[name], values)


def test_scores_npz_is_written_as_the_same_bytes(result, tmp_path):
  write_statistics(tmp_path / "1", result.statistics)
  write_statistics(tmp_path / "2", result.statistics)
  assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_table_json_round_trip(result, tmp_path):
  result.table.write(tmp_path)
  table = read_table(tmp_path / "table.json")
  assert table == result.table


def test_read_table_drops_notes_on_baselines(result, tmp_path):
  notes = ("1 missing prediction", "columns (paper): compare with care")
  dataclasses.replace(result.table, notes=notes, beside={"x": {"en": 1.0}}).write(tmp_path)
  table = read_table(tmp_path / "table.json")
  assert (table.notes, table.beside) == (notes[:1], {})


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"nonsense", b"\x93NUMPY"])
def test_invalid_scores_npz_is_refused(content, tmp_path):
  message = refusal(read_statistics, files.text(tmp_path / "scores.npz", content))
  assert "not a file of scores of xmcap" in message and "write it with xmcap score" in message


_BAD = "not a table of xmcap score"


def _table(languages, more=""):
  """The text of a table.json with a signature."""
  return f'{{"signature": "tokenizer:x", {more}"languages": {languages}}}'


@pytest.mark.parametrize(
  "content, message",
  [
    ("", "broken JSON"),
    ("[]", _BAD),
    ('{"languages": {}}', _BAD),
    ('{"languages": {"en": {"cider": 1}}}', "'' is not a signature"),
    ('{"signature": "s", "languages": {"en": {"cider": 1}}}', "table.json: 's' is not a signature"),
    ('{"signature": "s", "notes": [1], "languages": {"en": {"cider": 1}}}', _BAD),
    (_table('{"en": {"cider": 1}, "de": {"chrf": 1}}'), "languages differ in their metrics"),
    (_table('{"en": {"images": 1}}'), "languages differ in their metrics"),
    (_table('{"en": {"images": 1, "bertscore": 2}}'), "unknown to this version"),
    (_table('{"en": {"cider": 1}}', '"means": [], '), _BAD),
    (_table('{"en": {"cider": 1}}', '"means": {"35": 1}, '), _BAD),
    (_table('{"en": {"cider": {"score": 1}}}'), _BAD),
    (_table('{"en": {"cider": 1e999}}'), _BAD),
    (_table(f'{{"en": {{"cider": 1{"0" * 400}}}}}'), _BAD),
    (_table('{"en": {"cider": NaN}}'), "NaN"),
    (_table('{"en": {"images": 1.5, "cider": 1}}'), "en: images is not an integer"),
    (_table('{"en": {"cider": 1}, "en": {"cider": 1}}'), "names 'en' twice"),
    ("[" * 100_000, "nested too deeply"),
    (f'{{"signature": 1{"0" * 5000}}}', "a number too long"),
  ],
)
def test_invalid_table_json_is_refused(content, message, tmp_path):
  assert message in refusal(read_table, files.text(tmp_path / "table.json", content))


@pytest.mark.parametrize(
  "changes",
  [
    {"metrics": ("cider_d", "bleu"), "predictions": {"b": {"en": "a dog", "de": "Hunde"}, "a": {"en": "two cats"}}},
    {"predictions": _PREDICTIONS},  # in other metrics
  ],
)  # fmt: skip
def test_read_system_refuses_table_and_scores_of_different_runs(result, tmp_path, changes):
  result.table.write(tmp_path)
  write_statistics(tmp_path / "scores.npz", score(_REFERENCES, **changes).statistics)
  assert "are from different runs" in refusal(read_system, tmp_path)


def test_read_system_tolerates_rounding(result, tmp_path):
  rows = {code: {**row, "cider_d": row["cider_d"] * (1 + 1e-15)} for code, row in result.table.rows.items()}
  dataclasses.replace(result.table, rows=rows).write(tmp_path)
  write_statistics(tmp_path / "scores.npz", result.statistics)
  assert read_system(tmp_path).table.rows == rows


def test_read_system_of_only_tables_is_refused(result, tmp_path):
  result.table.write(tmp_path)
  assert "written with --only_tables; score again without that option" in refusal(read_system, tmp_path)


def test_table_json_has_no_nan(result):
  json.loads(result.table.as_json(), parse_constant=lambda name: pytest.fail(name))
