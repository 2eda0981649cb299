"""Exported captioners give the captions of `xmcap caption`, by the programs in examples/ that docs/export.md shows."""

import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest
import sentencepiece
from flax import traverse_util
from PIL import Image

from tests.make import models
from tests.make.command import xmcap
from xmcap import languages
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import XmcapError
from xmcap.evaluation import model_dir
from xmcap.export import hf, program, stablehlo
from xmcap.models.vit import ViTConfig

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
BEAM = dict(search="Beam", beams=3, length_penalty=1.0, convention="transformers", early_stopping=False)
T5X_BEAM = dict(search="Beam", beams=3)
SEARCHES = {
  "greedy": dict(search="Greedy"), "t5x_beam": T5X_BEAM, "beam": BEAM,
  "sample": dict(search="Sample", temperature=0.5, top_k=40),
}  # fmt: skip


def readable_tensorflow():
  """TensorFlow; skips the test if it cannot read what this jax writes, which the command refuses."""
  tf = pytest.importorskip("tensorflow")
  from xmcap.export import saved_model

  try:
    saved_model.check_readable()
  except XmcapError as error:
    pytest.skip(str(error))
  return tf


def searches(*daily):
  """The names of SEARCHES; those that are not `daily` are for the full run."""
  return [pytest.param(name, marks=() if name in daily else pytest.mark.full) for name in SEARCHES]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  return models.captioner(tmp_path_factory.mktemp("model") / "run")


NAMES = [f"{each.native_name} {each.english_name}" for each in languages.LANGUAGES.values()]


def like_mt5s(folder):
  """A vocabulary that normalises as mT5's and has no LangId pieces."""
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(NAMES), model_prefix=str(folder / "mt5"), vocab_size=480, hard_vocab_limit=False,
    byte_fallback=True, normalization_rule_name="nmt_nfkc", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
  )  # fmt: skip
  return Vocabulary(str(folder / "mt5.model"))


def pixels(count):
  return np.random.RandomState(0).randint(0, 256, (count, 12, 12, 3)).astype(np.uint8)


def loaded(folder):
  model_dir.parse(str(folder))
  return program.load(str(folder))


def expected(made, pictures, codes, seed=0):
  """Tokens of the predictor's own generator."""
  prompts = np.array([made.prompts[code] for code in codes], np.int32)
  params = traverse_util.unflatten_dict(dict(made.params), sep="/")
  tokens, scores = made.generator(params, pictures, prompts, jax.random.key(seed))
  return prompts, np.asarray(tokens), np.asarray(scores)


def exported(folder, to, out, *more):
  return xmcap("export", f"--model_dir={folder}", f"--to={to}", f"--out={out}", *more)


def loader(library):
  """The program that captions with a library."""
  return (EXAMPLES / f"export_{library}.py").read_text(encoding="utf-8")


@pytest.fixture
def place(tmp_path, monkeypatch):
  """An empty folder with a picture, where the loaders are run."""
  monkeypatch.chdir(tmp_path)
  picture = np.random.RandomState(1).randint(0, 256, (30, 40, 3)).astype(np.uint8)
  Image.fromarray(picture).save(tmp_path / "photo.jpg", "PNG")  # losslessly the same pixels
  return tmp_path


def captions(folder):
  """Lines such as `en CAPTION` of `xmcap caption`."""
  result = xmcap("caption", f"--model_dir={folder}", "--languages=en,th", "--json", "photo.jpg").succeeded()
  return [f"{line['language']} {line['caption']}" for line in map(json.loads, result.out.splitlines())]


def test_stablehlo_loader_needs_no_xmcap_or_tensorflow(model, place):
  exported(model, "stablehlo", "captioner").succeeded()
  check = "import sys; assert not {'xmcap', 'tensorflow', 'flax'} & set(sys.modules)"
  run = subprocess.run(
    [sys.executable, "-c", loader("jax") + check], capture_output=True, text=True, cwd=place
  )
  assert run.returncode == 0, run.stderr
  assert run.stdout.splitlines() == captions(model)
  about = json.loads((place / "captioner/captioner.json").read_text())
  assert about["platforms"] == ["cpu", "cuda", "tpu"]
  assert about["made_with"]["jax"] == jax.__version__ and about["calling_convention_version"] >= 9
  assert set(about["prompts"]) == set(languages.LANGUAGES)


@pytest.mark.parametrize(
  "search", searches("sample")
)  # beam search daily as a saved model, which is made of this
def test_stablehlo_program_takes_any_number_of_images(tmp_path, search):
  made = loaded(models.captioner(tmp_path / "run", **SEARCHES[search]))
  call = jax.export.deserialize(stablehlo.exported(made).serialize()).call
  # 72 rows are decoded in two stages by us, and in one by the program.
  images, codes = pixels(2), list(made.prompts)
  prompts, tokens, scores = expected(made, images, codes)
  seed = [np.int32(0)] if made.seeded else []
  for count, asked in ((2, len(codes)), (1, 1)):
    found, found_scores = call(made.params, images[:count], prompts[:asked], *seed)
    np.testing.assert_array_equal(found, tokens[:count, :asked])
    np.testing.assert_allclose(found_scores, scores[:count, :asked], rtol=1e-4)
  assert len(np.unique(tokens.reshape(-1, tokens.shape[-1]), axis=0)) > 8  # not one caption for all
  if made.seeded:
    found, _ = call(made.params, images, prompts, np.int32(7))
    assert not np.array_equal(found, tokens)
    np.testing.assert_array_equal(found, expected(made, images, codes, seed=7)[1])


@pytest.mark.parametrize("search", searches("t5x_beam"))
def test_saved_model_captions_equal_captioner(tmp_path, search):
  tf = readable_tensorflow()
  folder = models.captioner(tmp_path / "run", **SEARCHES[search])
  exported(folder, "savedmodel", tmp_path / "out").succeeded()
  made = loaded(folder)
  module = tf.saved_model.load(str(tmp_path / "out"))
  codes = ["ar", "en", "th", "zh"]
  _, tokens, scores = expected(made, pixels(3), codes)
  seed = [tf.constant(0)] if made.seeded else []
  found = module.caption(pixels(3), tf.constant(codes), *seed)
  np.testing.assert_array_equal(found["tokens"], tokens)
  np.testing.assert_allclose(found["scores"], scores, rtol=1e-4)
  assert [caption.decode() for caption in found["captions"].numpy().flat] == [
    made.vocabulary.decode(row) for row in tokens.reshape(-1, tokens.shape[-1])
  ]
  one = module.signatures["serving_default"](
    image=tf.constant(pixels(1)), languages=tf.constant(["th"]), **({"seed": seed[0]} if seed else {})
  )
  np.testing.assert_array_equal(one["tokens"][0, 0], tokens[0, codes.index("th")])
  with pytest.raises(tf.errors.InvalidArgumentError, match="unknown language; give one of ar, bn"):
    module.caption(pixels(1), tf.constant(["xx"]), *seed)


def test_saved_model_loader_equals_caption_command(model, place, capsys):
  readable_tensorflow()
  # Of the model's own size, so that nothing is resized, which TensorFlow rounds otherwise.
  Image.fromarray(pixels(1)[0]).save(place / "photo.jpg", "PNG")
  exported(model, "savedmodel", "captioner").succeeded()
  want = captions(model)
  exec(loader("tensorflow"), {})
  assert capsys.readouterr().out.splitlines() == want


TOWERS = {
  "first": dict(pool="tok", activation="gelu"),
  "pooled": dict(pool="map"),
  "mean": dict(pool="gap"),
  "all": dict(pool="none"),
  "pooled by CLIP": dict(pool="tok", pre_norm=True, patch_bias=False, activation="quick_gelu"),
}
DAILY = {("first", "greedy"), ("all", "beam")}


@pytest.mark.parametrize(
  ("tower", "search"),
  [
    pytest.param(tower, search, marks=() if (tower, search) in DAILY else pytest.mark.full)
    for tower in TOWERS
    for search in ("greedy", "beam")
  ],
)
def test_hugging_face_loader_equals_caption_command(place, capsys, tower, search):
  pytest.importorskip("transformers")
  folder = models.captioner(
    place / "run", ViTConfig(16, 1, 24, 2, 4, 12, **TOWERS[tower]), **SEARCHES[search]
  )
  exported(folder, "hf", "captioner").succeeded()
  about = json.loads((place / "captioner/captioner.json").read_text())
  assert about["image_features"] == tower.split()[0]
  want = captions(folder)
  assert len(set(want)) > 1
  exec(loader("transformers"), {})
  assert capsys.readouterr().out.splitlines() == want


def test_export_of_a_model_in_a_bucket_equals_a_local_model(model, tmp_path):
  made = loaded(model)
  found = []
  for name, where in (("here", str(model)), ("bucket", "gs://bucket/run")):
    folder = tmp_path / name
    folder.mkdir()
    hf.write(made, where, folder, lambda line: None)
    found.append(
      {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    )
  here, there = found
  assert here == there and pathlib.Path("projection.safetensors") in here


@pytest.mark.parametrize("like_mt5", [False, True])
def test_exported_tokenizer_equals_the_vocabulary(model, tmp_path, like_mt5):
  tokenizers = pytest.importorskip("tokenizers")
  vocabulary = like_mt5s(tmp_path) if like_mt5 else Vocabulary(str(model / "vocabulary.model"))
  made = tokenizers.Tokenizer.from_str(json.dumps(hf.tokenizer_files(vocabulary)["tokenizer.json"]))
  texts = [
    *NAMES,
    " ".join(NAMES),
    "  two  spaces ",
    "\u1e9e \U0001f600 \u200c bytes",
    "\ufb01 \uff21\u0e33",
    "a",
  ]
  for text in texts:
    ids = vocabulary.encode(text)
    assert made.encode(text).ids == ids, text
    assert made.decode(ids) == vocabulary.decode(ids), text


def test_exported_prompts_of_an_mt5_vocabulary_are_padded(tmp_path):
  vocabulary = like_mt5s(tmp_path)
  folder = models.captioner(tmp_path / "run")
  (folder / "vocabulary.model").write_bytes(vocabulary.model)
  made = loaded(folder)
  assert set(made.prompts) == set(languages.LANGUAGES)
  assert len(set(map(len, made.prompts.values()))) == 1
  for code, prompt in made.prompts.items():
    assert [token for token in prompt if token] == vocabulary.encode(code)
  assert any(0 in prompt for prompt in made.prompts.values())


def test_hugging_face_export_refuses_t5x_beam_search(tmp_path):
  folder = models.captioner(tmp_path / "run", **T5X_BEAM)
  exported(folder, "hf", tmp_path / "out").refused("add --gin.Beam.convention=\"'transformers'\"")
  assert not (tmp_path / "out").exists()
  exported(folder, "hf", tmp_path / "out", "--gin.Beam.convention='transformers'").succeeded()


@pytest.mark.parametrize("to", ["stablehlo", "savedmodel", "hf"])
def test_export_does_not_overwrite_files(model, tmp_path, to):
  (tmp_path / "captioner.json").write_text("mine")
  exported(model, to, tmp_path).refused("is there already: remove it")
  assert [path.name for path in tmp_path.iterdir()] == ["captioner.json"]


@pytest.mark.parametrize(
  ("options", "message"),
  [
    (["--to=onnx", "--out=out"], "argument --to: invalid choice: 'onnx'"),
    (["--to=hf", "--out={model}"], "would overwrite the input --model_dir"),
    (["--to=hf", "--out=out", "--step=8"], "no checkpoint of step 8: choose one of [3]"),
  ],
)
def test_export_usage_errors_are_one_line(model, place, options, message):
  xmcap("export", f"--model_dir={model}", *(option.format(model=model) for option in options)).refused(
    message
  )
  assert not (place / "out").exists()


def test_saved_model_export_refuses_a_program_unknown_to_tensorflow(tmp_path, monkeypatch):
  tf = pytest.importorskip("tensorflow")
  from xmcap.export import saved_model

  def failing(*arguments, **named):
    raise tf.errors.InvalidArgumentError(
      None, None, "error: unregistered operation 'vhlo.custom_call_v9' found"
    )

  monkeypatch.setattr(tf, "function", lambda *arguments, **named: failing)
  with pytest.raises(
    XmcapError, match="cannot read what jax .* writes .unregistered operation 'vhlo.custom_call_v9'"
  ):
    saved_model.check_readable()
