"""The short cut gives what the careful reading gives, or nothing."""

import json

import hypothesis
import hypothesis.strategies as st
import pytest

from xmcap.errors import UsageError
from xmcap.scoring import layouts
from xmcap.storage import strict_json

_LINE = b'{"image/key": "a", "language": "en", "caption": "a \\"dog\\": it runs"}'
_RELEASED = (
  b'{"image/key": "a", "image/locale": "de", "en": {"caption": ["A dog.", "it"], "caption/tokenized": ["A dog ."]}, '
  b'"th": {"caption": []}}'
)


def _is_utf8(raw):
  try:
    return bool(raw.decode("utf-8"))
  except UnicodeDecodeError:
    return False


def _careful(raw):
  try:
    return strict_json.parse_object(raw, "file, line 1")
  except UsageError:
    return None


def test_a_line_of_predictions():
  (row,) = layouts.predictions(_LINE.replace(b'\\"dog\\":', b"dog"))
  assert (row.key, row.language, row.caption) == ("a", "en", "a dog it runs")


def test_a_line_of_the_release():
  assert layouts.released(_RELEASED) == [("a", "de", {"en": ["A dog.", "it"]})]


def test_as_many_rows_as_lines():
  assert len(layouts.released(_RELEASED + b"\n" + _RELEASED + b"\n")) == 2
  line = _LINE.replace(b'\\"dog\\":', b"dog")
  assert len(layouts.predictions(line + b"\n" + line)) == 2
  assert layouts.predictions(line + b"\n\n" + line) is None


@pytest.mark.parametrize(
  "raw",
  [
    b'{"image/key": "a", "language": "en", "caption": "b", "caption": "c"}',
    b'{"image/key": "a", "language": "en", "caption": "b", "extra": 1}',
    b'{"image/key": "a", "language": "en", "caption": "\\ud800"}',
    b'{"image/key": "a", "language": "en", "caption": "\xff"}',
    b'{"image/key": "a", "language": "en"}',
    b'{"image/key": 1, "language": "en", "caption": "b"}',
    b'{"image/key": "a"',
    b"[" * 100_000,
    b"",
  ],
)
def test_other_predictions_are_left_to_the_careful_reading(raw):
  assert layouts.predictions(raw) is None


@pytest.mark.parametrize(
  "old, new",
  [
    (b'"th": {', b'"en": {'),
    (b'"caption": []', b'"caption": [], "caption": []'),
    (b'"caption": []', b'"caption/tokenized": [], "caption/tokenized": [], "caption": []'),
    (b'"caption": []', b'"caption": [1]'),
    (b'"th": {"caption": []}', b'"th": 1'),
    (b'"th": {"caption": []}', b'"image/source": "x"'),
    (b'"th": {', b'"xx": {'),
    (b'"image/key": "a"', b'"image/key": ""'),
    (b'"image/key": "a", ', b""),
    (b'"image/locale": "de"', b'"image/locale": {"caption": []}'),
  ],
)
def test_other_lines_of_a_release_are_left_to_the_careful_reading(old, new):
  assert old in _RELEASED and layouts.released(_RELEASED.replace(old, new)) is None


@hypothesis.settings(max_examples=300, deadline=None, database=None)
@hypothesis.given(
  st.sampled_from([_LINE, _RELEASED]), st.integers(0, 200), st.integers(0, 3), st.binary(max_size=3)
)
def test_changed_lines_mean_the_same_both_ways(line, place, removed, added):
  raw = line[:place] + added + line[place + removed :]
  careful = _careful(raw)
  found_predictions, found_released = layouts.predictions(raw), layouts.released(raw)
  if found_predictions is not None:
    (prediction,) = found_predictions
    assert careful == {
      "image/key": prediction.key,
      "language": prediction.language,
      "caption": prediction.caption,
    }
  if found_released is not None and (careful is not None or _is_utf8(raw)):
    (released,) = found_released
    assert (released.key, released.locale) == (careful["image/key"], careful.get("image/locale", ""))
    captions = {name: value["caption"] for name, value in careful.items() if not name.startswith("image/")}
    assert released.captions == {name: texts for name, texts in captions.items() if texts}


def test_what_json_writes_is_known():
  line = json.dumps(
    {"image/key": "a", "language": "th", "caption": "แมว: 12:30"}, ensure_ascii=False
  ).encode()
  assert layouts.predictions(line)[0].caption == "แมว: 12:30"
