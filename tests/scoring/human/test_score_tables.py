"""Scores read back from table.json."""

import json

import pytest

from xmcap.errors import UsageError
from xmcap.scoring.human import score_tables

_SIGNATURE = "metric.cider:n=4|metric.chrf:n=3|tokenizer:x|subset:all"


def _read(tmp_path, content):
  text = content if isinstance(content, bytes) else json.dumps(content).encode()
  (tmp_path / "table.json").write_bytes(text)
  return score_tables.read({"a": tmp_path}, "cider")["a"]


def test_scores_are_read_with_and_without_intervals(tmp_path):
  rows = {"en": {"images": 2, "cider": 1}, "de": {"cider": {"score": 0.5, "low": 0.4, "high": 0.6}}}
  assert _read(tmp_path, {"signature": _SIGNATURE, "languages": rows}) == {"en": 1.0, "de": 0.5}


@pytest.mark.parametrize(
  "content, message",
  [
    (b"{", "broken JSON"),
    (b"\xff", "not UTF-8"),
    (b"[" * 100_000, "nested too deeply"),
    ([], "no object 'languages'"),
    ({"languages": {}}, "no object 'languages'"),
    ({"languages": {"xx": {}}}, "unknown language 'xx'"),
    ({"languages": {"en": {"bleu_4": 1.0}}}, "'en' has no 'cider'; name another --metric"),
    ({"languages": {"en": 1.0}}, "'en': not an object of scores"),
    ({"languages": {"en": {"cider": True}}}, "'cider' is no number"),
    ({"languages": {"en": {"cider": float("nan")}}}, "NaN at"),
    ({"languages": {"en": {"cider": {"low": 1}}}}, "'cider' is no number"),
    ({"languages": {"en": {"cider": 1}}}, "is no signature of xmcap"),
    ({"languages": {"en": {"cider": 1}}, "signature": "x"}, "'x' is no signature of xmcap"),
  ],
)
def test_bad_tables_are_one_line(tmp_path, content, message):
  with pytest.raises(UsageError) as caught:
    _read(tmp_path, content)
  assert message in str(caught.value) and str(tmp_path / "table.json") in str(caught.value)
  assert str(caught.value).isprintable()


def test_missing_folder_is_named(tmp_path):
  with pytest.raises(UsageError, match="absent/table.json: cannot be read"):
    score_tables.read({"a": tmp_path / "absent"}, "cider")


@pytest.mark.parametrize(
  "signature, message",
  [
    (_SIGNATURE, None),
    (_SIGNATURE.replace("n=3", "n=5"), None),  # of another metric
    (_SIGNATURE.replace("n=4", "n=5"), "signatures differ in metric.cider: n=4 against n=5: score both"),
    (_SIGNATURE.replace("all", "xm600:1"), "signatures differ in subset: all against xm600:1"),
  ],
)
def test_systems_must_be_scored_in_the_same_way(tmp_path, signature, message):
  folders = {}
  for name, of_system in (("a", _SIGNATURE), ("b", _SIGNATURE), ("c", signature)):
    folders[name] = tmp_path / name
    folders[name].mkdir()
    table = {"languages": {"en": {"cider": 1.0}}, "signature": of_system}
    (folders[name] / "table.json").write_text(json.dumps(table))
  if message is None:
    assert score_tables.read(folders, "cider") == dict.fromkeys("abc", {"en": 1.0})
  else:
    with pytest.raises(UsageError, match=message):
      score_tables.read(folders, "cider")
