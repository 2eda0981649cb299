import numpy as np

from xmcap.scoring import score
from xmcap.scoring.statistics.sufficient import Statistics
from xmcap.scoring.tables import slices

_SCORES = {
  "en": Statistics(("a", "b", "c"), {"cider": np.array([[1.0], [2.0], [6.0]])}, 3),
  "th": Statistics(("a",), {"cider": np.array([[4.0]])}, 1),
}


def test_regions_hold_the_images_of_a_locale():
  found = slices.make(_SCORES, {"a": "th", "b": "de", "c": "de"})
  assert found.regions["de"] == {"en": {"images": 2, "cider": 4.0}}
  assert found.regions["th"] == {
    "en": {"images": 1, "cider": 1.0},
    "th": {"images": 1, "cider": 4.0},
    "2 languages": {"cider": 2.5},
  }


def test_images_of_a_region_are_counted_whatever_the_metrics():
  references = {"a": {"en": ["a"], "th": ["a"]}, "b": {"en": ["b"], "de": ["b"], "th": ["b"]}}
  predictions = {key: dict.fromkeys(of_image, "a") for key, of_image in references.items()}
  scores = score(references, predictions, metrics="cider,bleu").statistics
  found = slices.make(scores, {"a": "x", "b": "x"}).regions["x"]
  assert {code: found[code]["images"] for code in scores} == {"de": 1, "en": 2, "th": 2}


def test_groups_and_scripts_average_languages():
  found = slices.make(_SCORES, {})
  assert found.regions == {}
  assert found.groups == {
    "group:english": {"languages": 1, "cider": 3.0},
    "group:web": {"languages": 1, "cider": 4.0},
    "script:Latn": {"languages": 1, "cider": 3.0},
    "script:Thai": {"languages": 1, "cider": 4.0},
  }


def test_csv_has_a_row_a_slice_and_language():
  text = slices.make(_SCORES, {"a": "th"}).as_csv().splitlines()
  assert text[0] == "slice,language,languages,images,cider"
  assert text[1] == "group:english,,1,,3.0"
  assert text[-2:] == ["locale:th,th,,1,4.0", "locale:th,mean_2_languages,,,2.5"]
