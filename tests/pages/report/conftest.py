"""A small corpus, scored for two systems, for the tests of the report."""

import copy
import types

import pytest

from xmcap.pages import report
from xmcap.reading.references import References
from xmcap.scoring.score import score

_NOUNS = {
  "ar": ["كلب", "قط", "بيت", "شجرة", "سيارة"],
  "de": ["Hund", "Katze", "Haus", "Baum", "Auto"],
  "en": ["dog", "cat", "house", "tree", "car"],
}
_BESIDE = {"ar": "بجانب", "de": "neben", "en": "beside"}
_HOSTILE = '</script><script>alert("x")</script><!-- <b>bold</b> & \' \u2028 \u202e'
_IMAGES = 30


def _caption(code: str, *places: int) -> str:
  return f" {_BESIDE[code]} ".join(_NOUNS[code][place % 5] for place in places)


@pytest.fixture(scope="session")
def corpus():
  """References and the predictions of two systems: 30 images, 3 languages (the last 3 images lack Arabic), 3 regions.

  System `ours` is right in image 7 and writes nothing in image 4; `theirs` is right in image 3.
  """
  references, locales, ours, theirs = {}, {}, {}, {}
  for i in range(_IMAGES):
    key = f"k{i:02}"
    codes = [code for code in _NOUNS if code != "ar" or i < _IMAGES - 3]
    references[key] = {code: [_caption(code, i, i + 1, i + 2), _caption(code, i, i + 3)] for code in codes}
    locales[key] = ("th", "de", "mi")[i % 3]
    ours[key] = {code: _caption(code, i, i + 1) for code in codes}
    theirs[key] = {code: _caption(code, i + 2, i + 3, i + 1) for code in codes}
  ours["k04"]["en"] = ""
  ours["k07"]["en"] = references["k07"]["en"][0]
  theirs["k03"]["en"] = references["k03"]["en"][0]
  references["k05"]["en"] = [_HOSTILE]
  ours["k05"]["en"] = f"{_HOSTILE} more"
  return types.SimpleNamespace(
    references=References(references, locales), ours=ours, theirs=theirs, hostile=_HOSTILE
  )


def _score(corpus, predictions, **options):
  return score(
    corpus.references, predictions, metrics=("cider", "cider_d", "exact"), keep=("words",), **options
  )


@pytest.fixture(scope="session")
def ours(corpus):
  """The first system's result, with intervals and health."""
  return _score(corpus, corpus.ours, title="Captions of ours", bootstrap=20, health=True)


@pytest.fixture(scope="session")
def theirs(corpus):
  """The second system's result, with intervals."""
  return _score(corpus, corpus.theirs, bootstrap=20)


@pytest.fixture
def bare(corpus):
  """A result without intervals, health, words and regions."""
  references = dict(copy.deepcopy(corpus.references))
  return score(references, corpus.ours, metrics=("cider_d",))


@pytest.fixture
def opened(page, tmp_path):
  """Writes a report and opens it, at an address; returns the page once its captions are shown."""

  def run(systems, address="", **options):
    report.write_report(tmp_path / "r.html", systems, **options)
    page.goto((tmp_path / "r.html").as_uri() + address)
    page.locator(".card").first.wait_for()
    return page

  return run
