"""Preflight of a run: languages in a sample of the corpus, and the vocabulary against the model."""

import pytest

from tests.make import small_corpus
from xmcap.corpora.checking import preflight
from xmcap.data import records
from xmcap.data.vocabulary import Vocabulary, check_prompts, check_rows
from xmcap.errors import UsageError, XmcapError


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  return small_corpus.write(tmp_path_factory.mktemp("corpus"))


class Source:
  """10,000 pictures; the last caption of the sample's first round is English, Thai comes in between."""

  def __init__(self, thai=range(0)):
    self.thai, self.reads = thai, []

  def __len__(self):
    return 10_000

  def iterate(self, indices):
    self.reads += list(indices)
    return [small_corpus.record(i, ("th",) if i in self.thai else ("en",), captions=1) for i in indices]


class Stream:
  def __init__(self, source, languages=("en",), image_size=8):
    self.source, self.languages, self.image_size = source, languages, image_size


def test_preflight_sample_stops_when_all_languages_are_seen():
  source = Source()
  split = preflight.read_split(Stream(source))
  assert split.looked_at == len(source.reads) == 256 and not split.missing
  assert source.reads[0] == 0 and source.reads[-1] == 9_999


def test_preflight_reads_more_for_a_missing_language():
  split = preflight.read_split(Stream(Source(thai=range(20, 39)), ("en", "th")))
  assert not split.missing and 256 < split.looked_at <= 256 + 4096
  assert preflight.read_split(Stream(Source(), ("en", "th"))).missing == ("th",)


def test_preflight_reports_an_undecodable_image():
  source = Source()
  source.iterate = lambda indices: [
    records.Record(f"{i:04d}", b"\x89PNG\r\n\x1a\nno picture", [records.Caption("en", "a dog")])
    for i in indices
  ]
  with pytest.raises(XmcapError, match="0000"):
    preflight.read_split(Stream(source))


def test_preflight_counts_truncated_captions(corpus):
  vocabulary = Vocabulary(str(corpus / "vocabulary.model"))
  captions = {"en": ["English 1 1", "English " * 40]}
  assert preflight.cut_share(vocabulary, captions, 32) == 0.5


def test_preflight_ignores_normalized_invisible_characters(corpus):
  class Normalising:
    path, size, reads_words = "spiece.model", 250_100, False
    has_language_piece = staticmethod(lambda language: False)
    prompt = staticmethod(lambda language: [7 + len(language)])
    encode = staticmethod(lambda text: text)
    decode = staticmethod(lambda text: text.replace("\u200c", "").replace("\uff01", "!"))

  preflight.check_vocabulary(
    Normalising, ["fa"], {"fa": ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645\uff01"]}
  )
  Normalising.decode = staticmethod(lambda text: text[:-1])
  with pytest.raises(UsageError, match=r"spiece.model: 'caf\u00e9' \(fr\) decodes to 'caf'"):
    preflight.check_vocabulary(Normalising, ["fr"], {"fr": ["caf\u00e9"]})


def test_preflight_refuses_equal_prompts_of_two_languages():
  class Same:
    path, size = "spiece.model", 250_100
    has_language_piece = staticmethod(lambda language: False)
    prompt = staticmethod(lambda language: [5])

  with pytest.raises(UsageError, match="the prompt of 'de' is unknown, or the same as another language's"):
    preflight.check_vocabulary(Same, ["de", "en"], {})


class Pieces:
  """A vocabulary of so many pieces, with the LangId pieces of some languages."""

  path = "own.model"

  def __init__(self, size, languages=()):
    self.size, self.rows, self.languages = size, -(-size // 128) * 128, languages

  def has_language_piece(self, language):
    return language in self.languages

  def prompt(self, language):
    return [ord(language[0]), ord(language[1])]


@pytest.mark.parametrize("size, rows", [(250_100, 250_112), (32_100, 32_128), (256, 256)])
def test_check_rows_accepts_a_vocabulary_of_the_model_size(size, rows):
  check_rows(Pieces(size), rows)


@pytest.mark.parametrize(
  "size, message",
  [
    (32_100, "own.model: 32,100 pieces do not fit the model's 250,112 rows .*mT5's has 250,100 pieces"),
    (256_300, "own.model: 256,300 pieces do not fit the model's 250,112 rows"),
  ],
)
def test_check_rows_refuses_a_vocabulary_of_another_size(size, message):
  with pytest.raises(UsageError, match=message):
    check_rows(Pieces(size), 250_112)


def test_check_prompts_needs_langid_pieces_or_mt5():
  check_prompts(Pieces(700, ("de", "en")), ["de", "en"])
  check_prompts(Pieces(250_100), ["de", "en"])
  with pytest.raises(
    UsageError, match="own.model: no LangId piece such as <de> for de en among its 700 pieces"
  ):
    check_prompts(Pieces(700), ["de", "en"])
  with pytest.raises(UsageError, match="no LangId piece such as <th> for th among its 250,100 pieces"):
    check_prompts(Pieces(250_100, ("en",)), ["en", "th"])
