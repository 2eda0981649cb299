import dataclasses
import json

import numpy as np
import pytest

from xmcap.errors import UsageError
from xmcap.scoring import read_system, score
from xmcap.scoring.result import read_table
from xmcap.scoring.statistics.statistics_file import read_statistics, write_statistics

_REFERENCES = {"b": {"en": ["a dog", "dogs"], "de": ["ein Hund"]}, "a": {"en": ["two cats"]}}
_SIGNED = '"signature": "tokenizer:x"'
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
  (tmp_path / "scores.npz").write_bytes(content)
  with pytest.raises(UsageError, match="not a file of scores of xmcap.*write it with xmcap score"):
    read_statistics(tmp_path / "scores.npz")


def test_objects_in_an_archive_are_never_unpickled(tmp_path):
  np.savez(tmp_path / "scores.npz", keys=np.array([{}], object))
  with pytest.raises(UsageError, match="not a file of scores of xmcap"):
    read_statistics(tmp_path / "scores.npz")


def test_scores_npz_with_inconsistent_arrays_is_refused(result, tmp_path):
  write_statistics(tmp_path / "scores.npz", result.statistics)
  arrays = dict(np.load(tmp_path / "scores.npz"))
  arrays["en/cider_d"] = arrays["en/cider_d"][:1]
  np.savez(tmp_path / "scores.npz", **arrays)
  with pytest.raises(UsageError, match="inconsistent arrays"):
    read_statistics(tmp_path / "scores.npz")


@pytest.mark.parametrize(
  "content, message",
  [
    ("", "broken JSON"),
    ("[]", "not a table of xmcap score"),
    ('{"languages": {}}', "not a table of xmcap score"),
    ('{"signature": "s", "languages": {"en": {"cider": 1}, "de": {"chrf": 1}}}', "'s' is not a signature"),
    (
      f'{{{_SIGNED}, "languages": {{"en": {{"cider": 1}}, "de": {{"chrf": 1}}}}}}',
      "languages differ in their metrics",
    ),
    ('{"languages": {"en": {"cider": 1}}}', "'' is not a signature"),
    (f'{{{_SIGNED}, "languages": {{"en": {{"images": 1}}}}}}', "languages differ in their metrics"),
    (f'{{{_SIGNED}, "languages": {{"en": {{"images": 1, "bertscore": 2}}}}}}', "unknown to this version"),
    ('{"signature": "s", "languages": {"en": {"cider": 1}}}', "table.json: 's' is not a signature"),
    ('{"signature": "s", "notes": [1], "languages": {"en": {"cider": 1}}}', "not a table of xmcap score"),
    (f'{{{_SIGNED}, "means": [], "languages": {{"en": {{"cider": 1}}}}}}', "not a table of xmcap score"),
    (
      f'{{{_SIGNED}, "means": {{"35": 1}}, "languages": {{"en": {{"cider": 1}}}}}}',
      "not a table of xmcap score",
    ),
    (f'{{{_SIGNED}, "languages": {{"en": {{"cider": {{"score": 1}}}}}}}}', "not a table of xmcap score"),
    (f'{{{_SIGNED}, "languages": {{"en": {{"cider": 1e999}}}}}}', "not a table of xmcap score"),
    (f'{{{_SIGNED}, "languages": {{"en": {{"cider": 1{"0" * 400}}}}}}}', "not a table of xmcap score"),
    (f'{{{_SIGNED}, "languages": {{"en": {{"cider": NaN}}}}}}', "NaN"),
    (f'{{{_SIGNED}, "languages": {{"en": {{"images": 1.5, "cider": 1}}}}}}', "en: images is not an integer"),
    (f'{{{_SIGNED}, "languages": {{"en": {{"cider": 1}}, "en": {{"cider": 1}}}}}}', "names 'en' twice"),
    ("[" * 100_000, "nested too deeply"),
    (f'{{"signature": 1{"0" * 5000}}}', "a number too long"),
  ],
)
def test_invalid_table_json_is_refused(content, message, tmp_path):
  (tmp_path / "table.json").write_text(content)
  with pytest.raises(UsageError, match=message):
    read_table(tmp_path / "table.json")


def test_read_system_refuses_table_and_scores_of_different_runs(result, tmp_path):
  result.table.write(tmp_path)
  write_statistics(tmp_path / "scores.npz", score(_REFERENCES, _PREDICTIONS).statistics)
  with pytest.raises(UsageError, match="are from different runs"):
    read_system(tmp_path)


def test_read_system_refuses_scores_of_other_captions(result, tmp_path):
  other = {"b": {"en": "a dog", "de": "Hunde"}, "a": {"en": "two cats"}}
  result.table.write(tmp_path)
  write_statistics(tmp_path / "scores.npz", score(_REFERENCES, other, metrics=("cider_d", "bleu")).statistics)
  with pytest.raises(UsageError, match="are from different runs"):
    read_system(tmp_path)


def test_read_system_tolerates_rounding(result, tmp_path):
  rows = {code: {**row, "cider_d": row["cider_d"] * (1 + 1e-15)} for code, row in result.table.rows.items()}
  dataclasses.replace(result.table, rows=rows).write(tmp_path)
  write_statistics(tmp_path / "scores.npz", result.statistics)
  assert read_system(tmp_path).table.rows == rows


def test_read_system_of_only_tables_is_refused(result, tmp_path):
  result.table.write(tmp_path)
  with pytest.raises(UsageError, match="written with --only_tables; score again without that option"):
    read_system(tmp_path)


def test_table_json_has_no_nan(result):
  json.loads(result.table.as_json(), parse_constant=lambda name: pytest.fail(name))
