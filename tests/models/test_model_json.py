"""`model.json`: round trips, gin bindings, and refusal of invalid fields in one line."""

import dataclasses
import json
import random

import gin
import jax
import pytest

from tests.make import files
from tests.make.command import forked
from xmcap import configuration
from xmcap.commands import base
from xmcap.data.tag_prompts import TagPrompts
from xmcap.errors import UsageError
from xmcap.families.plugs.stabilizer import Stabilizer
from xmcap.models import model_json, parts
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.search import Sample
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig

VIT = ViTConfig(16, 2, 24, 2, 4, 12, "tok", image_mean=(0.1, 0.2, 0.3), scan=True)
T5 = T5Config(384, 16, 2, 12, 2, 3, 20, dropout_rate=0.1, dtype="float32")
MODEL = model_json.Model(
  {
    "vit": model_json.of_config(VIT), "t5": model_json.of_config(T5),
    "tags": {"prompt_length": 12, "language": "zh", "most": 3},
    "stabilizer": {"form": "plain", "language": "en", "length": 24, "phases": 2},
  },
  "coco_35l", {"max_length": 24}, model_json.of_search(Beam(beams=2)),
)  # fmt: skip
TEXT = model_json.as_text(MODEL)


def changed(path, value):
  """The file with one field changed; `path` is such as `vit.width`, and a value of `...` takes the field out."""
  values = json.loads(TEXT)
  *parents, name = path.split(".")
  place = values
  for parent in parents:
    place = place[parent]
  if value is ...:
    del place[name]
  else:
    place[name] = value
  return json.dumps(values).encode()


def refused(raw, where="DIR/model.json"):
  with pytest.raises(UsageError) as error:
    model_json.parse(raw, where)
  text = str(error.value)
  assert text.startswith(where) and "\n" not in text and text.isprintable() and len(text) < 500, text
  return text


def test_model_json_round_trip():
  assert model_json.parse(TEXT.encode(), "x") == MODEL
  assert MODEL.config("vit") == VIT and MODEL.config("t5") == T5
  assert model_json.of_search(Sample(temperature=0.5))[1]["temperature"] == 0.5
  assert model_json.of_search(type("Greedy", (), {})()) is None


def test_model_json_sets_gin_and_later_files_win(tmp_path):
  (tmp_path / "model.json").write_text(TEXT)
  (tmp_path / "mine.gin").write_text("ViTConfig.depth = 5\n")
  names = [str(tmp_path / name) for name in ("model.json", "mine.gin")]
  configuration.parse(base.with_models(names), ["IMAGE_SIZE=24"])
  assert ViTConfig() == dataclasses.replace(VIT, depth=5, image_size=24) and T5Config() == T5
  assert configuration.macro("MIXTURE") == "coco_35l"
  bound = {
    "max_length": 24,
    "search": Beam(beams=2),
    "prompt_length": 12,
    "stabilizer": Stabilizer("plain", length=24),
  }
  assert configuration.resolve(gin.get_bindings("Predictor")) == bound
  assert TagPrompts("own") == TagPrompts("own", language="zh", most=3)


@pytest.mark.parametrize("first", [True, False])
def test_model_json_keeps_the_corpus_and_lengths_of_gin_files(tmp_path, first):
  (tmp_path / "model.json").write_text(TEXT)
  (tmp_path / "mine.gin").write_text(
    "import xmcap.data.registry\nimport xmcap.tasks.folder\nimport xmcap.evaluation.predictor\nMIXTURE = 'folder'\n"
    # Cannot be called before the folder of the corpus is known.
    "T5Config.vocab_size = @vocabulary_rows()\nvocabulary_rows.mixture = %MIXTURE\nPredictor.max_length = 64\n"
  )
  order = ["mine.gin", "model.json"] if first else ["model.json", "mine.gin"]
  configuration.parse(base.with_models([str(tmp_path / name) for name in order]), ["T5Config.emb_dim=16"])
  assert configuration.macro("MIXTURE") == "folder"
  assert configuration.resolve(gin.get_bindings("Predictor"))["max_length"] == 64
  if first:
    assert T5Config(dtype="auto").vocab_size == T5.vocab_size


@pytest.mark.parametrize(
  "path, value, says",
  [
    ("vit.width", "768", "vit.width is '768': give int, got str"),
    ("vit.width", 16.0, "vit.width is 16.0"),
    ("vit.width", True, "vit.width is True"),
    ("vit.width", None, "vit.width is None"),
    ("vit.width", [16], "vit.width is [16]"),
    ("vit.width", ..., "vit.width is missing"),
    ("vit.width", 2**16 + 1, "vit.width is 65537: give int <= 65536"),
    ("vit.depth", 1025, "vit.depth is 1025: give int <= 1024"),
    ("vit.depth", 10**60, "vit.depth is 1000000000"),
    ("vit.image_size", -1, "vit.image_size is -1"),
    ("vit.image_size", 2**14 + 1, "vit.image_size is 16385: give int <= 16384"),
    ("vit.image_size", 2**14 - 4, "patches: at most 1,048,576"),
    ("vit.patch_size", 0, "vit.patch_size is 0"),
    ("vit.num_heads", 0, "vit.num_heads is 0"),
    ("vit.num_heads", 4097, "vit.num_heads is 4097: give int <= 4096"),
    ("vit.num_heads", 3, "width 16 is not divisible by num_heads 3"),
    ("vit.norm_epsilon", "1e-6", "vit.norm_epsilon is '1e-6'"),
    ("vit.norm_epsilon", float("nan"), "NaN"),
    ("vit.norm_epsilon", 0, "vit.norm_epsilon is 0"),
    ("vit.image_mean", [0, 0], "vit.image_mean is [0, 0]: give array of length 3"),
    ("vit.image_std", [1, 1, 0], "vit.image_std is [1, 1, 0]"),
    ("vit.image_std", "abc", "vit.image_std is 'abc'"),
    ("vit.scan", 1, "vit.scan is 1: give bool"),
    ("vit.pool", {}, "vit.pool is {}: give str"),
    ("vit.pool", "mean\nxmcap: \x1b[31m", "unknown ViTConfig.pool 'mean\\nxmcap: \\x1b[31m'"),
    ("vit.remat", "all", "unknown ViTConfig.remat 'all': use one of no, dots, full"),
    ("t5.remat", 1, "t5.remat is 1: give str"),
    ("vit.dtype", "x" * 1000, "unknown dtype 'xxx"),
    ("vit.__class__", 1, "vit.__class__ is not a field"),
    ("vit", [], "vit is not an object"),
    ("vit", None, "vit is not an object"),
    ("t5.vocab_size", 2**24 + 1, "t5.vocab_size is 16777217: give int <= 16777216"),
    ("t5.emb_dim", 2**16 + 1, "t5.emb_dim is 65537: give int <= 65536"),
    ("t5.num_heads", 4097, "t5.num_heads is 4097: give int <= 4096"),
    ("t5.num_encoder_layers", 1025, "t5.num_encoder_layers is 1025: give int <= 1024"),
    ("t5.num_decoder_layers", 1025, "t5.num_decoder_layers is 1025: give int <= 1024"),
    ("t5.relpos_buckets", 1, "t5.relpos_buckets is 1"),
    ("t5.relpos_max_distance", 16, "relpos_max_distance is 16: give more than the 16"),
    ("t5.num_decoder_layers", 0, "t5.num_decoder_layers is 0"),
    ("t5.vocab_size", 0, "t5.vocab_size is 0"),
    ("t5.head_dim", 0, "t5.head_dim is 0"),
    ("mixture", "../../etc/passwd", "mixture is ../../etc/passwd: give the name"),
    ("mixture", "os;import", "mixture is os;import"),
    ("mixture", "", "mixture is : give"),
    ("mixture", ["a"], "mixture is ['a']"),
    ("module", "hostile", "module is not a field of a model.json"),
    ("gin\x1b[31m", "import os", "is not a field of a model.json"),
    ("decoding.max_length", 10**6, "decoding.max_length is 1000000"),
    ("decoding.cache_dtype", "int8", "unknown dtype 'int8'"),
    ("decoding.search.name", "subprocess.Popen", "decoding.search.name is subprocess.Popen: give one of Greedy"),
    ("decoding.search.name", ["Greedy"], "decoding.search.name is ['Greedy']"),
    ("decoding.search.beams", 10**9, "decoding.search.beams is 1000000000"),
    ("decoding.search.length_penalty", "0.6", "decoding.search.length_penalty is '0.6'"),
    ("decoding.search.convention", "mine", "unknown Beam.convention 'mine'"),
    ("decoding.search.early_stopping", [1], "early_stopping is [1]: give bool | str"),
    ("decoding.search", "Beam", "decoding.search is not an object"),
    ("languages", ["en", "../x"], "languages is ['en', '../x']: give a list of language codes"),
    ("languages", "en", "languages is en: give a list of language codes"),
    ("tags.prompt_length", 0, "tags.prompt_length is 0"),
    ("tags.prompt_length", ..., "tags.prompt_length is missing"),
    ("tags.language", "../x", "tags.language is ../x: give a language code"),
    ("tags.tags", "FILE", "tags.tags is not a field"),
    ("stabilizer.form", "both", "unknown Stabilizer.form 'both': use one of plain, consistent"),
    ("stabilizer.language", "../x", "stabilizer.language is ../x: give a language code"),
    ("stabilizer.phases", 3, "stabilizer.phases is 3"),
    ("stabilizer.length", 10**9, "stabilizer.length is 1000000000"),
    ("version", 2, "version 2, but this xmcap reads 1"),
    ("version", True, "version True"),
    ("format", "other", "not a model.json of xmcap"),
  ],
)  # fmt: skip
def test_model_json_names_an_invalid_field(path, value, says):
  assert says in refused(changed(path, value))


@pytest.mark.parametrize("stored, policy", [(False, "no"), (True, "full"), ("dots", "dots")])
def test_model_json_with_a_remat_of_true_or_false_is_read(stored, policy):
  model = model_json.parse(changed("vit.remat", stored), "x")
  assert model.config("vit").remat == model.parts["vit"]["remat"] == policy


@pytest.mark.parametrize(
  "part, sizes",
  [
    ("vit", {"width": 2**16, "mlp_dim": 2**20, "depth": 1024}),
    ("t5", {"emb_dim": 2**16, "mlp_dim": 2**20, "num_decoder_layers": 1024}),
  ],
)
def test_model_json_limits_the_number_of_parameters(part, sizes):
  values = json.loads(TEXT)
  values[part] |= sizes
  assert "parameters; xmcap supports at most 100,000,000,000" in refused(json.dumps(values).encode())


def test_model_json_file_has_a_size_limit(tmp_path):
  (tmp_path / "model.json").write_text(TEXT + " " * 2**16)
  with pytest.raises(UsageError, match="model.json: more than 65,536 bytes"):
    model_json.of_folder(tmp_path)


@pytest.mark.parametrize(
  "raw",
  [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b"[" * 60_000, b'{"a":' * 10_000, b" " * 10**7, b"null",
   b'{"format": "xmcap.model", "format": "xmcap.model", "version": 1}', b"9" * 10_000],
)  # fmt: skip
def test_malformed_model_json_is_refused(raw):
  refused(raw)


def test_randomly_changed_model_json_is_read_or_refused():
  """Structure-aware: any value in the place of any other, and bytes changed here and there."""
  draw = random.Random(0)
  numbers = (0, -1, 1, 2**31, 2**63, 10**300, 0.5, -0.0, 1e308)
  odd = (*numbers, True, None, "", "x", "\x00", [], [1] * 3, {}, {"a": []})
  paths = ["format", "version", "mixture", "vit", "t5", "decoding", "decoding.max_length", "decoding.search"]
  for part in ("vit", "t5", "decoding.search"):
    place = json.loads(TEXT)
    for name in part.split("."):
      place = place[name]
    paths += [f"{part}.{name}" for name in place]
  refusals = 0
  for _ in range(1500):
    raw = changed(draw.choice(paths), draw.choice((*odd, ...)))
    if draw.random() < 0.3:
      data = bytearray(raw)
      for _ in range(draw.randint(1, 3)):
        data[draw.randrange(len(data))] = draw.choice(b'{}[]",:0919eE.-\\n\x00\xff')
      raw = bytes(data)
    try:
      model = model_json.parse(raw, "x")
      for part in ("vit", "t5"):
        assert (model.config(part) is None) == (part not in model.parts)
    except UsageError as error:
      refusals += 1
      assert "\n" not in str(error)
  assert refusals > 1000


def _read(path):
  model = model_json.read(path)
  print(model.config("vit"), model.config("t5"))
  jax.config.update("jax_num_cpu_devices", 2)  # refused once jax has asked for devices
  return jax.device_count() != 2


def test_reading_model_json_initializes_no_device(tmp_path):
  """The hosts of an evaluation read it before they find each other, and jax allows nothing else before that."""
  forked(_read, files.text(tmp_path / "model.json", TEXT)).succeeded("ViTConfig", "T5Config")


def test_a_part_whose_family_is_deleted_is_named():
  with pytest.raises(UsageError, match="the model needs xmcap.families.gone, which this xmcap is without"):
    parts.load("xmcap.families.gone.model:GoneConfig")
