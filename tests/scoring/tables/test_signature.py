import pytest

from tests.make.refusals import refusal
from xmcap.scoring import residue
from xmcap.scoring.tables.signature import Signature, shortened

_PARTS = {
  "metric.cider": "n=4",
  "metric.cider_d": "n=4,sigma=6",
  "document_frequency": "corpus#0123456789abcdef",
  "tokenizer": "default-1.unicode-14.0.0[all]",
  "languages": "ar de en es fr hi",
  "images": "3600#0123456789abcdef",
  "missing": "refuse",
  "xmcap": "0.1.0",
}


def test_signature_round_trip():
  signature = Signature(_PARTS)
  assert str(signature).startswith("metric.cider:n=4|metric.cider_d:n=4,sigma=6|document_frequency:corpus#")
  assert Signature.parse(str(signature)) == signature


def test_short_signature_keeps_short_parts():
  short = Signature(_PARTS).short
  assert short.startswith("cider+cider_d#") and short.endswith("|miss:refuse|v:0.1.0")
  assert "|tok:default#" in short and "|lang:6#" in short and "|img:3600#" in short
  assert len(short) < 120


def test_short_signature_names_cleaned_kinds():
  def short(kinds):
    return Signature({"clean": residue.signature(residue.parse(kinds))}).short.partition("|cl:")[2]

  assert short("all") == "all-3" and short("think") == "think-3"
  assert short("markdown,prefix,suffix").startswith("markdown+prefix+suffix-3#")


@pytest.mark.parametrize("name", ["metric.cider_d", "tokenizer", "languages", "images"])
def test_short_signature_differs_for_every_part(name):
  assert Signature({**_PARTS, name: f"{_PARTS[name]}x"}).short != Signature(_PARTS).short


def test_signature_differences_name_the_part():
  other = Signature({**_PARTS, "tokenizer": "whitespace-1[all]"})
  assert Signature(_PARTS).differences(other, ("cider",)) == [
    "tokenizer: default-1.unicode-14.0.0[all] against whitespace-1[all]"
  ]


def test_signature_differences_include_absent_parts():
  other = Signature({name: value for name, value in _PARTS.items() if name != "languages"})
  assert other.differences(Signature(_PARTS), ("cider",)) == [
    f"languages: absent against {_PARTS['languages']}"
  ]


def test_signature_differences_ignore_versions_and_intervals():
  other = {"metric.cider": "n=3", "xmcap": "9", "bootstrap": "1000,seed=1", "missing": "empty"}
  assert Signature(_PARTS).differences(Signature({**_PARTS, **other}), ("cider_d",)) == []


@pytest.mark.parametrize(
  "value, same",
  [("file#0123456789abcdef", True), ("file#0123456789abcde0", False), ("corpus#0123456789abcde0", False)],
)
def test_signature_compares_document_frequencies_by_hash(value, same):
  other = Signature({**_PARTS, "document_frequency": value})
  assert (Signature(_PARTS).differences(other, ("cider",)) == []) == same


def test_long_signature_differences_are_shortened():
  assert shortened(["missing: a against b", f"tokenizer: {'x' * 200} against y"]) == [
    "missing: a against b",
    "tokenizer",
  ]


@pytest.mark.parametrize("text", ["", "nonsense", "a:1|a:2|tokenizer:x", "tokenizer:", "a\nb"])
def test_invalid_signature_is_refused(text):
  assert "is not a signature of xmcap" in refusal(Signature.parse, text)
