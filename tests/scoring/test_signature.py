import pytest

from xmcap.errors import UsageError
from xmcap.scoring.signature import Signature

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


def test_long_form_is_read_back():
  signature = Signature(_PARTS)
  assert str(signature).startswith("metric.cider:n=4|metric.cider_d:n=4,sigma=6|document_frequency:corpus#")
  assert Signature.parse(str(signature)) == signature


def test_short_form_keeps_what_is_short():
  short = Signature(_PARTS).short
  assert short.startswith("cider+cider_d#") and short.endswith("|miss:refuse|v:0.1.0")
  assert "|tok:default#" in short and "|lang:6#" in short and "|img:3600#" in short
  assert len(short) < 120


@pytest.mark.parametrize("name", ["metric.cider_d", "tokenizer", "languages", "images"])
def test_short_form_tells_every_part_apart(name):
  assert Signature({**_PARTS, name: f"{_PARTS[name]}x"}).short != Signature(_PARTS).short


def test_differences_name_the_part():
  other = Signature({**_PARTS, "tokenizer": "whitespace-1[all]"})
  assert Signature(_PARTS).differences(other, ("cider",)) == [
    "tokenizer: default-1.unicode-14.0.0[all] against whitespace-1[all]"
  ]


def test_a_part_that_one_lacks_is_a_difference():
  other = Signature({name: value for name, value in _PARTS.items() if name != "missing"})
  assert other.differences(Signature(_PARTS), ("cider",)) == ["missing: absent against refuse"]


def test_other_metrics_versions_and_intervals_do_not_matter():
  other = Signature({**_PARTS, "metric.cider": "n=3", "xmcap": "9", "bootstrap": "1000,seed=1"})
  assert Signature(_PARTS).differences(other, ("cider_d",)) == []


@pytest.mark.parametrize("text", ["", "nonsense", "a:1|a:2|tokenizer:x", "tokenizer:"])
def test_what_is_no_signature_is_refused(text):
  with pytest.raises(UsageError, match="is no signature of xmcap"):
    Signature.parse(text)
