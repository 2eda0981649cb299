"""`familiar.json`: probabilities that an evaluation writes, and warnings about unfamiliar images."""

import json

import pytest

from tests.make import files, models
from tests.make.command import xmcap
from xmcap.errors import UsageError
from xmcap.evaluation import familiarity


@pytest.fixture
def known(tmp_path):
  found = {(str(number), code): number / 200 for number in range(200) for code in ("en", "th")}
  assert familiarity.write(tmp_path, found) == ""
  return tmp_path


def test_familiarity_names_an_image_below_98_percent(known):
  found = familiarity.read(known)
  assert set(found) == {"en", "th"} and len(found["en"]) == 200
  assert "98% of the pictures of its evaluation have 0.02 or more" in familiarity.unlike(found, {"en": 0.0})
  assert not familiarity.unlike(found, {"en": 0.5})
  assert not familiarity.unlike(found, {"de": 0.0}), "no language of the evaluation"
  assert not familiarity.unlike(found, {"en": None}), "not by greedy search"
  assert not familiarity.unlike({}, {"en": 0.0}), "no file"


def test_the_mean_over_languages_decides(tmp_path):
  # In each language some familiar pictures are unsure, and none is in both: so a picture that is, is not familiar.
  numbers = range(100)
  first = {(str(number), "en"): 0.2 if number < 10 else 0.9 for number in numbers}
  second = {(str(number), "th"): 0.2 if number >= 90 else 0.9 for number in numbers}
  familiarity.write(tmp_path, first | second)
  found = familiarity.read(tmp_path)
  assert familiarity.unlike(found, {"en": 0.25, "th": 0.25})
  assert not familiarity.unlike(found, {"en": 0.25})
  assert not familiarity.unlike(found, {"en": 0.25, "th": 0.9})


def test_familiar_json_keeps_500_images_of_a_large_evaluation(tmp_path):
  familiarity.write(tmp_path, {(str(number), "en"): number / 3599 for number in range(3600)})
  kept = familiarity.read(tmp_path)["en"]
  assert (len(kept), kept[0], kept[-1]) == (500, 0, 1)


def test_familiar_json_is_not_written_for_few_images(tmp_path):
  few = {(str(number), "en"): 0.5 for number in range(49)}
  said = (
    "familiar.json is not written for 49 pictures, it takes 50: xmcap caption and xmcap serve will not warn of unlike"
    " pictures"
  )
  assert familiarity.write(tmp_path, few) == said and familiarity.read(tmp_path) == {}
  assert familiarity.write(tmp_path, {}) == ""
  familiarity.write(tmp_path, few | {("49", "en"): 0.5})
  assert familiarity.write(tmp_path, few) == "" and len(familiarity.read(tmp_path)["en"]) == 50


def test_familiarity_limit_of_50_images(tmp_path):
  numbers = range(familiarity.FEWEST)
  familiarity.write(tmp_path, {(str(number), "en"): 0.3 + number / 100 for number in numbers})
  found = familiarity.read(tmp_path)
  assert [number for number in numbers if familiarity.unlike(found, {"en": 0.3 + number / 100})] == [0]


@pytest.mark.parametrize(
  "text",
  [
    "[",
    "{}",
    '{"format": "xmcap.familiar", "least": {"en": 1}}',
    *(
      json.dumps({"format": "xmcap.familiar", "probabilities": table})
      for table in ({"en": "x"}, {"en": ["x"]}, {"en": [0.1], "th": [0.1, 0.2]}, {"en": []}, {"en": [2]})
    ),
  ],
)
def test_malformed_familiar_json_is_refused_in_one_line(tmp_path, text):
  (tmp_path / familiarity.NAME).write_text(text)
  with pytest.raises(UsageError, match=r"familiar.json"):
    familiarity.read(tmp_path)


def test_caption_warns_of_unfamiliar_images(tmp_path):
  folder, picture = models.captioner(tmp_path / "model"), models.image(tmp_path)
  for least, warned in ((None, False), (0.0, False), (1.0, True)):
    if least is not None:
      values = {"format": "xmcap.familiar", "version": 2, "probabilities": {"en": [least] * 100}}
      files.json(folder / familiarity.NAME, values)
    result = xmcap("caption", f"--model_dir={folder}", "--languages=en", picture).succeeded()
    assert ("may be unlike" in result.err) == warned
