"""Compressed captions of a report: words, scores, faults, order of images and missing values."""

import base64
import dataclasses
import gzip
import json

import pytest

from xmcap.pages.report import captions
from xmcap.reading.references import References
from xmcap.scoring.language import Tokenized
from xmcap.scoring.score import score
from xmcap.scoring.statistics.sufficient import Statistics
from xmcap.scoring.tokenizers.words import CaptionWords


def _unpacked(code, places, systems):
  return json.loads(
    gzip.decompress(base64.b64decode(captions.block(code, captions.column(code, places, systems), systems)))
  )


@pytest.fixture
def places(ours):
  """Image key -> its place."""
  return {key: place for place, key in enumerate(captions.keys_of(ours))}


def test_captions_block_holds_captions_words_and_scores(corpus, ours, theirs, places):
  held = _unpacked("de", places, [ours, theirs])
  assert held["images"] is None and len(held["rows"]) == 30
  assert held["rows"][1] == [
    ["Katze neben Haus neben Baum", "Katze neben Auto"],
    ["katze neben haus neben baum", "katze neben auto"],
    "Katze neben Haus", "katze neben haus", "Baum neben Auto neben Haus", "baum neben auto neben haus",
  ]  # fmt: skip
  scores = ours.statistics["de"].image_scores("cider_d")
  assert held["scores"][0][1] == pytest.approx(scores, abs=5e-4)


def test_captions_block_holds_faults(corpus, ours, theirs, places):
  backwards = {key: len(places) - 1 - place for key, place in places.items()}
  (of_ours, of_theirs) = _unpacked("en", backwards, [ours, theirs])["faults"]
  assert of_ours["empty"] == [len(places) - 1 - 4] and of_theirs == {}  # whose health was not measured


def test_captions_block_follows_the_order_of_references(corpus, ours):
  mixed = sorted(corpus.references, key=lambda key: (int(key[1:]) * 7) % 30)
  references = References({key: corpus.references[key] for key in mixed}, corpus.references.locales)
  held = score(references, corpus.ours, metrics=("cider_d",), keep=("words",))
  places = {key: place for place, key in enumerate(captions.keys_of(held))}
  assert list(places) == mixed
  block = _unpacked("de", places, [held])
  assert block["images"] is None
  plain = [caption.lower() for caption in (corpus.ours[key]["de"] for key in mixed)]
  assert [row[2].lower() for row in block["rows"]] == [row[3] for row in block["rows"]] == plain
  assert [row[1] for row in block["rows"]] == [[text.lower() for text in row[0]] for row in block["rows"]]
  of_image = dict(zip(held.statistics["de"].keys, held.statistics["de"].image_scores("cider_d"), strict=True))
  assert block["scores"][0][0] == pytest.approx([of_image[key] for key in mixed], abs=5e-4)
  ar = _unpacked("ar", places, [held])
  assert ar["images"] == [places[key] for key in mixed if "ar" in corpus.references[key]]


def test_captions_block_lists_images_of_an_incomplete_language(ours, places):
  assert _unpacked("ar", places, [ours])["images"] == list(range(27))


def test_captions_block_missing_captions_of_a_second_system_are_null(ours, theirs, places):
  keep = [i for i, key in enumerate(theirs.statistics["de"].keys) if key != "k01"][::-1]
  keys = theirs.statistics["de"].keys
  fewer = Statistics(
    tuple(keys[i] for i in keep), {n: v[keep] for n, v in theirs.statistics["de"].values.items() if n != "exact"},
    theirs.statistics["de"].num_counted,
  )  # fmt: skip
  words = Tokenized(
    CaptionWords.of([theirs.words["de"].hypotheses[i].split() for i in keep]), ((),) * len(keep)
  )
  other = dataclasses.replace(theirs, statistics={"de": fewer}, words={"de": words})
  held = _unpacked("de", places, [ours, other])
  assert held["rows"][1][4:] == [None, None] and held["scores"][1][1][1] is None
  assert held["rows"][2][4:] == ["Auto neben Hund neben Baum", "auto neben hund neben baum"]
  assert held["scores"][1][2] is None  # the metric that only the first was scored in
  assert _unpacked("en", places, [ours, other])["rows"][0][4:] == [None, None]


def test_captions_block_words_not_kept_are_null(bare):
  places = {key: place for place, key in enumerate(captions.keys_of(bare))}
  assert _unpacked("en", places, [bare])["rows"][0][1::2] == [None, None]
