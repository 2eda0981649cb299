"""The predictor's batches."""

import functools
import threading

import numpy as np
import pytest

from tests import drawn_params
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import predictor as predictor_lib
from xmcap.evaluation.predictor import Predictor
from xmcap.models.captioner import Captioner
from xmcap.models.decoding.search import Sample
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig

LANGUAGES = ["en", "fil"]
"""Their prompts have 2 and 3 tokens; all tests share the programs for these."""


class _Vocabulary:
  def prompt(self, code):
    return [2 + len(code)] * len(code)

  def decode(self, tokens):
    return " ".join(map(str, tokens))

  def marks(self, stabilizer):
    assert stabilizer is None


@functools.cache
def _params(scan):
  model = Captioner(*_configs(scan))
  inputs = np.zeros((1, 8, 8, 3), np.uint8), np.ones((1, 1, 2), np.int32), np.ones((1, 1, 2), np.int32)
  return drawn_params.of(model.init, *inputs)


def _configs(scan):
  vit = ViTConfig(16, 2, 24, 2, 4, 8, scan=scan, dtype="float32")
  return vit, T5Config(31, 12, 2, 8, 1, 2, 20, scan=scan, dtype="float32")


@pytest.fixture
def make(monkeypatch):
  """scan, ... -> a predictor of a small model whose layers are stacked or not, and parameters for it."""

  def build(scan, batch_size=4, **options):
    vit, t5 = _configs(scan)
    monkeypatch.setattr(predictor_lib, "bound_image_config", lambda: lambda: vit)
    monkeypatch.setattr(predictor_lib, "bound_language_model", lambda: lambda: t5)
    registered = type("Registration", (), {"vocabulary": lambda self: _Vocabulary()})()
    monkeypatch.setattr(predictor_lib.registry, "registration", lambda name: registered)
    predictor = Predictor("some_mixture", max_length=5, batch_size=batch_size, **options)
    return predictor, _params(scan)

  return build


def _keys(count):
  return [f"picture{i}" for i in range(count)]


def _load(key):
  rng = np.random.RandomState(int(key.removeprefix("picture")))
  return rng.randint(0, 256, (8, 8, 3)).astype(np.uint8)


def test_every_picture_has_a_caption_in_every_language(make):
  predictor, params = make(scan=False)
  found = list(predictor(params, _keys(6), _load, LANGUAGES))
  assert [key for key, _ in found] == _keys(6)
  assert all(list(captions) == LANGUAGES for _, captions in found)
  (alone,) = predictor(params, _keys(6)[5:], _load, LANGUAGES[::-1])
  assert alone[1] == found[5][1]
  assert list(predictor(params, [], _load, LANGUAGES)) == []


def test_scanned_layers_give_the_same_captions(make):
  expected, actual = (
    list(predictor(params, _keys(2), _load, LANGUAGES))
    for predictor, params in (make(scan=False), make(scan=True))
  )
  assert actual == expected


def test_each_picture_is_loaded_once_and_a_batch_ahead(make):
  predictor, params = make(scan=False)
  loaded, last = [], threading.Event()

  def load(key):
    loaded.append(key)
    if key == "picture7":
      last.set()
    return _load(key)

  found = predictor(params, _keys(9), load, LANGUAGES)
  next(found)
  # Batches of 4: while the first is used, the second is decoded and all of it was loaded.
  assert last.wait(600)
  assert len(list(found)) == 8 and sorted(loaded) == _keys(9)


def test_predictor_raises_the_error_of_an_unreadable_image(make):
  predictor, params = make(scan=False)

  def load(key):
    if key == "picture5":
      raise XmcapError("picture5: cannot be decoded")
    return _load(key)

  with pytest.raises(XmcapError, match="picture5"):
    list(predictor(params, _keys(6), load, LANGUAGES))


@pytest.mark.parametrize("leaf", [np.zeros(12, np.int32), "text"])
def test_parameters_are_arrays_of_floats(make, leaf):
  predictor, params = make(scan=True)
  with pytest.raises(XmcapError, match="shared_embedding is not an array of floats"):
    list(predictor({**params, "shared_embedding": leaf}, _keys(1), _load, ("de",)))


def test_sampled_captions_depend_on_the_image_number(make):
  """A share of the split, as a host has it, gets the captions that the whole split gets."""
  predictor, params = make(scan=False, search=Sample(temperature=5.0))
  whole = dict(predictor(params, _keys(6), _load, LANGUAGES))
  share = dict(predictor(params, _keys(6)[1::2], _load, LANGUAGES, range(6)[1::2]))
  assert share == {key: whole[key] for key in _keys(6)[1::2]}
  assert share != dict(predictor(params, _keys(6)[1::2], _load, LANGUAGES))


def test_predictor_batch_size_of_0_is_refused(make):
  with pytest.raises(UsageError, match="Predictor.batch_size is 0"):
    make(scan=False, batch_size=0)
