"""Values in a cell or a caption: JSON or Python, of a bounded depth and length."""

import pytest

from xmcap.files import strict_json
from xmcap.reading import literals


@pytest.mark.parametrize(
  "text, value",
  [
    ('["a dog", "the dog"]', ["a dog", "the dog"]),
    ("['a dog', 'the dog']", ["a dog", "the dog"]),
    ('{"a": {"b": null}}', {"a": {"b": None}}),
    (f'["{"[" * 300}"]', ["[" * 300]),  # in a text
    ("[" * strict_json.MOST_NESTED + "]" * strict_json.MOST_NESTED, None),
  ],
)
def test_value_of_json_or_python_is_parsed(text, value):
  parsed = literals.parse(text)
  assert value is None or parsed == value


@pytest.mark.parametrize(
  "text",
  [
    "[" * 101 + "]" * 101,
    '{"a":' * 101 + "1" + "}" * 101,
    "[" * 100_000,
    "-" * 100_000 + "1",
    "[" + "1" * 5_000 + "]",
    "[" + "'a'," * (literals.MOST_PYTHON // 4 + 1) + "]",
    "a dog",
    "{[]: 1}",
    "[b'a' + 1]",
  ],
)
def test_other_text_is_no_value(text):
  with pytest.raises(ValueError):
    literals.parse(text)
