"""`load_captioner`: a model folder as an object."""

import concurrent.futures
import dataclasses
import json
import shutil
import threading

import numpy as np
import pytest
from PIL import Image

import xmcap as xmcap_lib
from tests.make import files, models
from tests.make.command import xmcap
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import captioning, model_dir
from xmcap.evaluation.predictor import Predictor
from xmcap.models import model_json
from xmcap.models.decoding import generator
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.search import Greedy, Sample
from xmcap.training import compilation_cache


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return models.captioner(tmp_path_factory.mktemp("captioning") / "model")


@pytest.fixture(scope="module")
def captioner(folder):
  return xmcap_lib.load_captioner(folder, batch_size=4)


def _pixels(count):
  return list(np.random.RandomState(0).randint(0, 256, (count, 20, 30, 3), np.uint8))


def caption(folder, *arguments):
  return xmcap("caption", f"--model_dir={folder}", *arguments)


def printed(result):
  return [json.loads(line) for line in result.out.splitlines()]


def test_captions_are_those_of_the_command(folder, captioner, tmp_path):
  picture = models.image(tmp_path)
  (ours,) = captioner.caption([picture], ["en", "th"])
  lines = printed(caption(folder, "--languages=en,th", "--json", picture).succeeded())
  assert {line["language"]: line["caption"] for line in lines} == ours


def test_probabilities_are_those_of_the_command(folder, captioner):
  pixels = [captioner.load(picture) for picture in _pixels(3)]
  model_dir.parse(str(folder))
  predictor = Predictor()
  list(predictor(model_dir.load_params(str(folder)), range(3), pixels.__getitem__, ["en", "th"]))
  found = captioner.candidates(pixels, ["en", "th"])
  ours = {(key, code): one.probability for key, codes in enumerate(found) for code, (one,) in codes.items()}
  assert ours == pytest.approx(predictor.probabilities, abs=1e-5)
  assert len(set(ours.values())) > 1 and all(0 < mean < 1 for mean in ours.values())
  (beams,) = captioner.best(pixels[:1], ["en"], search="beam")
  assert beams["en"].probability is None


def test_broken_pictures_of_several_are_named_and_left_out(folder, tmp_path):
  good = models.image(tmp_path).read_bytes()
  files.text(tmp_path / "page.jpg", "<html>")
  files.text(tmp_path / "half.png", good[: len(good) // 2])
  out = f"--out={tmp_path / 'out.jsonl'}"
  result = caption(folder, out, tmp_path).refused(
    "2 of 3 pictures left out, see above: replace or remove them", code=1
  )
  left_out = [line for line in result.err.splitlines() if line.startswith("left out: ")]
  assert len(left_out) == 2 and "half.png" in "".join(left_out) and "page.jpg" in "".join(left_out)
  rows = files.rows(tmp_path / "out.jsonl")
  assert [row["image/key"] for row in rows] == ["picture"]
  caption(folder, out, tmp_path / "half.png").refused("half.png", code=1)


def test_languages_of_the_model_are_the_default_and_others_are_named(folder, tmp_path):
  learned = shutil.copytree(folder, tmp_path / "model")
  model = dataclasses.replace(model_json.read(learned / model_json.NAME), languages=("fr", "th"))
  files.text(learned / model_json.NAME, model_json.as_text(model))
  picture = models.image(tmp_path)
  for languages in (["--languages=trained"], []):
    result = caption(learned, "--json", *languages, picture).succeeded()
    assert [line["language"] for line in printed(result)] == ["fr", "th"]
    assert result.err == f"{compilation_cache.described()}\n"
  loaded = xmcap_lib.load_captioner(learned)
  assert loaded.languages == ("fr", "th")
  assert list(loaded.caption([picture])[0]) == ["fr", "th"]
  assert caption(folder, "--languages=en,th", picture).succeeded().err == f"{compilation_cache.described()}\n"
  told = caption(learned, "--languages=en,th", picture).succeeded().err
  warning = "warning: the model was trained on fr, th, not on en\n"
  assert told == f"{compilation_cache.described()}\n{warning}"


def test_a_picture_in_any_form_has_the_same_caption(captioner, tmp_path):
  path = models.image(tmp_path)
  image = Image.open(path)
  forms = [path, str(path), path.read_bytes(), image, np.array(image), captioner.load(path)]
  assert len({str(of_picture) for of_picture in captioner.caption(forms, ["en", "fr"])}) == 1


def test_captioner_takes_batches_with_languages_per_image(captioner):
  pixels = _pixels(6)
  codes = [["en"], ["th", "ar", "en"], ["de"], ["zh", "ja"], ["en"], ["sw", "mi"]]
  together = captioner.caption(pixels, codes)
  assert [list(of_picture) for of_picture in together] == codes
  assert together == [captioner.caption([one], of_one)[0] for one, of_one in zip(pixels, codes, strict=True)]
  assert captioner.caption([], ["en"]) == []


def test_encoded_pictures_have_the_captions_of_the_pictures(captioner):
  pixels = _pixels(5)
  encoded = captioner.encode(pixels)
  assert len(encoded) == 5
  for codes in (["en"], ["ar", "th", "zh"]):
    of_pixels = captioner.caption(pixels, codes)
    assert captioner.caption(encoded, codes) == of_pixels
    assert captioner.caption([pixels[0], *encoded[1:3], *pixels[3:]], codes) == of_pixels
  assert len(set(map(str, of_pixels))) > 1


def test_candidates_of_beam_search_are_sorted_by_score(captioner):
  search = Beam(4, early_stopping="never")
  pixels = _pixels(3)
  best = captioner.candidates(pixels, ["en", "th"], search=search)
  three = captioner.candidates(pixels, ["en", "th"], search=search, n=3)
  for of_one, of_three in zip(best, three, strict=True):
    for code, candidates in of_three.items():
      assert candidates[0].text == of_one[code][0].text
      assert candidates[0].score == pytest.approx(of_one[code][0].score)
      scores = [candidate.score for candidate in candidates]
      assert len(scores) == 3 and scores == sorted(scores, reverse=True)


def test_beam_search_finds_the_likeliest_of_all_captions(captioner):
  # One piece long: the n best are the n likeliest first pieces, whatever the search.
  (found,) = captioner.candidates(_pixels(1), ["en"], search=Beam(8, 0.0), n=8, max_length=1)
  (greedy,) = captioner.candidates(_pixels(1), ["en"], search=Greedy(), max_length=1)
  assert found["en"][0].score == pytest.approx(greedy["en"][0].score, abs=1e-5)
  assert len({candidate.score for candidate in found["en"]}) == 8


def test_sampled_candidates_depend_on_the_seed(captioner):
  hot = Sample(temperature=50.0)
  first = captioner.candidates(_pixels(2), ["en", "th"], search=hot, n=3, seed=5)
  assert captioner.candidates(_pixels(2), ["en", "th"], search=hot, n=3, seed=5) == first
  assert captioner.candidates(_pixels(2), ["en", "th"], search=hot, n=3, seed=6) != first
  for of_picture in first:
    for candidates in of_picture.values():
      assert len({candidate.text for candidate in candidates}) == 3
  # The first draw of one is among those of three, and no other language changes it.
  (alone, _) = captioner.candidates(_pixels(2), ["th"], search=hot, n=1, seed=5)
  assert alone["th"][0].text in {candidate.text for candidate in first[0]["th"]}


def test_languages_with_longer_prompts_need_no_other_program(folder, monkeypatch):
  monkeypatch.setattr(Vocabulary, "prompt", lambda self, code: [5] * (1 + (code == "zh")))
  captioner = captioning.load_captioner(folder)
  captioner.caption(_pixels(1), ["en"])
  programs = generator.generate._cache_size()
  captioner.caption(_pixels(1), ["zh"])
  assert generator.generate._cache_size() == programs


def test_widened_captioner_does_not_recompile(folder, monkeypatch):
  monkeypatch.setattr(Vocabulary, "prompt", lambda self, code: [5] * (1 + 6 * (code == "ca")))
  captioner = captioning.load_captioner(folder)
  captioner.widen(["ca"])
  captioner.caption(_pixels(1), ["en"])
  programs = generator.generate._cache_size()
  captioner.caption(_pixels(1), ["ca"])
  assert generator.generate._cache_size() == programs


def test_captioner_is_thread_safe(captioner):
  pixels = _pixels(8)
  alone = [captioner.caption([one], ["en"]) for one in pixels]
  barrier = threading.Barrier(8)

  def call(one):
    barrier.wait()
    return captioner.caption([one], ["en"])

  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert list(pool.map(call, pixels)) == alone


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ({"pictures": "a.jpg"}, "give a list of pictures"),
    ({"pictures": ["nowhere.jpg"]}, "nowhere.jpg: cannot be read"),
    ({"pictures": [3]}, "int: give a path, bytes"),
    ({"languages": "en"}, "give a list of codes"),
    ({"languages": ["xx"]}, "xx"),
    ({"languages": []}, "at least one code"),
    ({"languages": ["en", "en"]}, "each once"),
    ({"languages": [["en"], ["th"]]}, "languages for 2 pictures, but 1 pictures"),
    ({"search": "bean"}, "give one of greedy, beam, sample"),
    ({"n": 0}, "at least 1"),
    ({"n": 2, "search": "greedy"}, "use beam search or sampling"),
    ({"n": 5, "search": "beam"}, "5 best of 4 beams"),
    ({"max_length": 0}, "at least 1"),
  ],
)
def test_captioner_refuses_invalid_arguments(captioner, arguments, message):
  given = {"pictures": _pixels(1), "languages": ["en"], **arguments}
  with pytest.raises(UsageError, match=message):
    captioner.caption(**given)


@pytest.mark.parametrize(
  ("picture", "message"),
  [
    (b"no picture", "number 0.*not a picture"),
    (np.zeros((4, 4, 3)), "array float64"),
    (np.zeros((4, 4, 4), np.uint8), "give uint8"),
    (np.zeros((0, 4, 3), np.uint8), "no pixels"),
  ],
)
def test_captioner_refuses_invalid_images(captioner, picture, message):
  with pytest.raises(XmcapError, match=message):
    captioner.caption([picture], ["en"])


def test_load_captioner_refuses_invalid_folders(folder, tmp_path):
  with pytest.raises(UsageError, match=r"model\.json is missing"):
    xmcap_lib.load_captioner(tmp_path)
  with pytest.raises(UsageError, match="no checkpoint of step 7"):
    xmcap_lib.load_captioner(folder, step=7)
  with pytest.raises(UsageError, match="batch_size is 0"):
    xmcap_lib.load_captioner(folder, batch_size=0)


def test_parameters_of_another_model_are_refused(folder, captioner):
  model = captioning.model_json.read(folder / "model.json")
  vocabulary = Vocabulary(str(folder / "vocabulary.model"))
  with pytest.raises(XmcapError, match="the parameters: .* is missing"):
    captioning.ImageCaptioner(model, {"vit": {}}, vocabulary)
