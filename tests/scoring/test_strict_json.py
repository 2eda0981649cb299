import json

from hypothesis import given
from hypothesis import strategies as st

from tests.make.refusals import refusal
from xmcap.errors import UsageError
from xmcap.files import strict_json

_ESCAPES = st.lists(
  st.sampled_from(
    ["\\ud83d", "\\uD83D", "\\ude00", "\\uDFFF", "\\\\", "\\u00e9", "\\n", "ud800", "d", "\\ud7ff"]
  ),
  max_size=6,
).map("".join)


@given(_ESCAPES)
def test_strict_json_refuses_lone_surrogates(escapes):
  raw = f'{{"a": "x{escapes}"}}'.encode()
  value = json.loads(raw)
  try:
    value["a"].encode("utf-8")
  except UnicodeEncodeError:
    assert "unpaired surrogate" in refusal(strict_json.parse, raw, "f")
    assert "line 1: unpaired surrogate" in refusal(list, strict_json.parse_lines(raw, "f", 0))
  else:
    assert strict_json.parse(raw, "f") == value
    assert list(strict_json.parse_lines(raw, "f", 0)) == [(1, value)]


_LINES = st.lists(
  st.sampled_from(
    [
      '{"a": 1}',
      '{"a": "é😀"}',
      "",
      " ",
      ' {"a": {"b": [1]}} \r',
      '{"a":',
      "1}",
      "[1]",
      '{"a": 1},{"a": 2}',
      "\x00",
    ]
    + ['{"a": [{}', "{}]}", '{"a": NaN}', '{"a": 1, "a": 1}', '{"a": "\\ud83d"}', "\ufeff{}", '{"a": "', '"}']
  ),
  max_size=5,
)


@given(_LINES)
def test_strict_json_parse_lines_equals_parse_per_line(lines):
  def together():
    return list(strict_json.parse_lines("\n".join(lines).encode(), "f", 7))

  def alone():
    rows = enumerate((line.encode() for line in lines), 8)
    return [
      (number, strict_json.parse_object(raw, f"f, line {number}")) for number, raw in rows if raw.strip()
    ]

  assert _outcome(together) == _outcome(alone)


def _outcome(read):
  try:
    return read()
  except UsageError as error:
    return str(error)
