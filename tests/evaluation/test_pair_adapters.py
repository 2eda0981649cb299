"""Adapters on the XLM-R towers of OpenCLIP and M-CLIP, taught from pairs of texts; small towers with random weights.

The layer with an adapter is compared with AdapterHub's rule, written with transformers 5.23.0 and torch 2.13.0.
"""

import json

import jax
import numpy as np
import pytest

from tests.convert import open_clip_models, test_m_clip
from tests.convert.test_hf_dual import write_dual
from tests.make import files
from tests.make.command import xmcap
from xmcap.errors import UsageError
from xmcap.families.dual.adapting import AdapterObjective
from xmcap.families.dual.taught_stream import PairStream
from xmcap.families.dual.text_tower import TextConfig, TextTower
from xmcap.models import model_json, stacking
from xmcap.training.checkpoints import weights
from xmcap.training.checkpoints.read import load_params

WORDS = ("a", "dog", "cat", "of", "photo", "mbwa", "paka", "picha", "ya")
PAIRS = [
  ("a photo of a dog", "picha ya mbwa"), ("a photo of a cat", "picha ya paka"), ("a dog", "mbwa"), ("a cat", "paka"),
  ("dog of a cat", "mbwa ya paka"), ("cat of a dog", "paka ya mbwa"),
]  # fmt: skip


def write_tokenizer(folder):
  """An XLM-R's tokenizer of whole words."""
  from tokenizers import Tokenizer, models, pre_tokenizers, processors

  vocabulary = {name: number for number, name in enumerate(("<s>", "<pad>", "</s>", "<unk>", *WORDS))}
  made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
  made.pre_tokenizer = pre_tokenizers.Whitespace()
  made.post_processor = processors.TemplateProcessing(
    single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
  )
  made.save(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
  """Kind -> the folder of a converted tower."""
  work = tmp_path_factory.mktemp("towers")
  open_clip_models.write(work / "openclip", "xlm_roberta")
  test_m_clip.write_m_clip(work / "mclip", "XLMRoberta")
  write_dual(work / "clip", "CLIP")
  for kind, more in (("openclip", []), ("mclip", [f"--image_tower={work / 'clip'}"])):
    write_tokenizer(work / kind)
    out = f"--out={work / 'base' / kind}"
    xmcap("convert", "--part=dual", f"--input={work / kind}", out, *more).succeeded()
  return {kind: work / "base" / kind for kind in ("openclip", "mclip")}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
  path = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
  return files.release(path, {f"k{n}": {"en": [en], "sw": [sw]} for n, (en, sw) in enumerate(PAIRS)})


def embed(base, captions, out, *more):
  return xmcap("embed", f"--model_dir={base}", f"--captions={captions}", f"--out={out}", *more)


@pytest.fixture(scope="module")
def teacher(bases, pairs):
  """The folder of OpenCLIP's embeddings of the English texts."""
  out = bases["openclip"].parent / "teacher"
  embed(bases["openclip"], pairs, out, "--languages=en").succeeded()
  return out


def test_an_empty_caption_is_embedded_and_counted(bases, tmp_path):
  captions = {"images": [1, 2, 3], "captions": {"de": [["a dog"], [""], ["cat"]]}}
  path = files.json(tmp_path / "captions.json", captions)
  result = embed(bases["openclip"], path, tmp_path / "out")
  result.succeeded("1 of 3 captions are empty or have no known word")
  found = np.load(tmp_path / "out/captions/de.npy")
  assert len(found) == 3 and np.linalg.norm(found[1]) == pytest.approx(1, abs=1e-3)


def train(base, teacher, pairs, out, *more, steps=60):
  settings = dict(BASE=base, TEACHER=teacher, PAIRS=pairs, LANGUAGE="sw", MODEL_DIR=out, BATCH_SIZE=8,
                  TOTAL_STEPS=steps, WARMUP_STEPS=steps // 6, COOLDOWN_STEPS=steps - steps // 6,
                  ADAPTER_DIM=4)  # fmt: skip
  options = [
    f"--gin.{name}={value}" if isinstance(value, int) else f"--gin.{name}='{value}'"
    for name, value in settings.items()
  ]
  return xmcap("train", "--gin_file=runs/adapter_pairs.gin", *options, *more)


def test_adapter_trained_from_pairs_lowers_the_distance(bases, teacher, pairs, tmp_path):
  base, run = bases["openclip"], tmp_path / "run"
  options = "--gin.ConstantThenRsqrt.learning_rate=0.03", "--gin.hooks.log_every=1"
  train(base, teacher, pairs, run, *options).succeeded()
  before, after = stacking.flatten(weights.read_all(base)), stacking.flatten(load_params(run))
  fresh = set(after) - set(before) - {"logit_bias"}  # of no use, and not in the weights of OpenCLIP
  assert fresh and all("adapter" in path for path in fresh)
  for path, leaf in before.items():
    np.testing.assert_array_equal(after[path], leaf, err_msg=path)
  lines = files.rows(run / "metrics.jsonl")
  losses = [line["train/loss"] for line in lines if "train/loss" in line]
  assert losses[-1] < 0.7 * losses[0]
  xmcap("convert", "--part=adapter", f"--input={run}", f"--out={tmp_path / 'adapters' / 'sw'}").succeeded()
  english = np.load(teacher / "captions" / "en.npy")
  distance = {}
  for name, more in (("plain", []), ("adapted", [f"--adapters={tmp_path / 'adapters'}"])):
    out = tmp_path / name
    embed(base, pairs, out, *more).succeeded()
    np.testing.assert_array_equal(np.load(out / "captions/en.npy"), english)
    distance[name] = np.square(np.load(out / "captions/sw.npy") - english).sum(axis=1).mean()
  assert distance["adapted"] < 0.7 * distance["plain"]
  assert distance["adapted"] == pytest.approx(losses[-1], abs=0.1)


def test_adapter_trained_by_simcse_needs_no_english(bases, tmp_path):
  texts = files.release(tmp_path / "texts.jsonl", {f"k{n}": {"sw": [sw]} for n, (_, sw) in enumerate(PAIRS)})
  options = (
    "--gin.AdapterObjective.kind='simcse'",
    "--gin.hooks.log_every=1",
    "--gin.TextConfig.dropout_rate=0.1",
  )
  train(bases["openclip"], "", texts, tmp_path / "run", *options, steps=6).succeeded()
  lines = files.rows(tmp_path / "run/metrics.jsonl")
  similarities = [line["train/similarity"] for line in lines if "train/similarity" in line]
  assert len(similarities) == 6 and all(0.5 < similarity < 1 for similarity in similarities)


def test_adapter_objective_mse_needs_english_embeddings(bases, pairs):
  refuse_without_embeddings(
    bases, stream(bases, "", pairs), "mse", "'mse' needs the embeddings of the English captions"
  )


def refuse_without_embeddings(bases, made_stream, kind, message):
  model = model_json.read(bases["openclip"] / "model.json")
  text = TextConfig(**{**model.parts["text"], "adapter": "bottleneck", "adapter_dim": 4})
  made = AdapterObjective(model.config("vit"), text, model.config("dual"), kind)
  batch = {name: value for name, value in made_stream.batch(0).items() if name != "key"}
  params = jax.eval_shape(lambda: made.init(jax.random.key(0), batch)["params"])
  with pytest.raises(UsageError, match=message):
    jax.eval_shape(lambda params: made.loss(params, batch, jax.random.key(0), True), params)


def test_lora_is_an_update_of_queries_and_values(bases):
  """The tower with alpha 8 and rank 4 equals one whose kernels have 2 x A B added (Hu et al., 2022)."""
  model = model_json.read(bases["mclip"] / "model.json")
  plain = TextConfig(**{**model.parts["text"], "dtype": "float32"})
  lora = TextConfig(
    **{**model.parts["text"], "dtype": "float32", "adapter": "lora", "adapter_dim": 4, "adapter_alpha": 8}
  )
  tokens = np.random.default_rng(0).integers(4, 50, (3, 7))
  params = stacking.flatten(weights.read_all(bases["mclip"])["text_tower"])
  shapes = jax.eval_shape(lambda: TextTower(lora).init(jax.random.key(0), tokens)["params"])
  fresh = {path: leaf for path, leaf in stacking.flatten(shapes).items() if "adapter" in path}
  rng = np.random.default_rng(1)
  drawn = {path: rng.normal(size=leaf.shape).astype(np.float32) * 0.1 for path, leaf in fresh.items()}
  assert {path.split("/")[-2] for path in drawn} == {"query", "value"}
  merged = dict(params)
  for path, inner in drawn.items():
    if path.endswith("adapter_in"):
      kernel = path.replace("adapter_in", "kernel")
      merged[kernel] = params[kernel] + 2 * inner @ drawn[path.replace("adapter_in", "adapter_out")]
  outputs = [
    TextTower(config).apply({"params": stacking.nested(held)}, tokens)
    for config, held in ((plain, merged), (lora, params | drawn), (plain, params))
  ]
  np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-5)
  assert np.abs(outputs[1] - outputs[2]).max() > 0.01


def stream(bases, teacher, pairs, **changes):
  options = dict(language="sw", teacher=str(teacher), tower=str(bases["openclip"]), batch_size=4)
  return PairStream(**{"pairs": str(pairs)} | options | changes)


def test_pair_stream_yields_pairs_and_teachers_once_an_epoch(bases, teacher, pairs):
  made = stream(bases, teacher, pairs, target_length=5)
  english = np.load(teacher / "captions/en.npy")
  seen = []
  for step in range(3):
    batch = made.batch(step)
    numbers = [int(key[1:]) for key in batch["key"]]
    np.testing.assert_array_equal(batch["teacher_text"], english[numbers])
    assert batch["target_tokens"].shape == (4, 1, 5) and "teacher_image" not in batch and "image" not in batch
    for tokens, number in zip(batch["target_tokens"][:, 0], numbers, strict=True):
      ids = [4 + WORDS.index(word) for word in PAIRS[number][1].split()]
      assert tokens.tolist() == [0, *ids[:3], 2, *[1] * (3 - len(ids))]
    seen += numbers
  assert sorted(seen[:6]) == sorted(seen[6:]) == list(range(6)) and seen[:6] != seen[6:]
  part = made.batch(1, [1, 3])
  np.testing.assert_array_equal(part["target_tokens"], made.batch(1)["target_tokens"][[1, 3]])
  np.testing.assert_array_equal(next(made.batches(2))["key"], made.batch(2)["key"])


def test_pair_stream_refuses_other_texts_and_unpaired_texts(bases, teacher, pairs, tmp_path):
  rows = files.rows(pairs)
  rows[2]["en"]["caption"] = ["a photo"]
  (tmp_path / "other.jsonl").write_text("\n".join(map(json.dumps, rows)))
  with pytest.raises(UsageError, match="embeddings of other texts than the English ones"):
    stream(bases, teacher, tmp_path / "other.jsonl")
  rows[3]["sw"]["caption"] = ["mbwa", "paka"]
  (tmp_path / "uneven.jsonl").write_text("\n".join(map(json.dumps, rows)))
  with pytest.raises(UsageError, match="not as many of each key as those in 'en'"):
    stream(bases, teacher, tmp_path / "uneven.jsonl")
  with pytest.raises(UsageError, match="no/embeddings.json"):
    stream(bases, tmp_path / "no", pairs)


def test_adapter_objective_lit_needs_image_embeddings(bases, teacher, pairs):
  made_stream = stream(bases, teacher, pairs)
  refuse_without_embeddings(bases, made_stream, "lit", "'lit' needs the embeddings of pictures")


def test_adapter_layer_equals_adapterhub(bases):
  torch = pytest.importorskip("torch")
  theirs, pad = test_m_clip.make_encoder("XLMRoberta")
  model = model_json.read(bases["mclip"] / "model.json")
  config = TextConfig(
    **{**model.parts["text"], "adapter": "bottleneck", "adapter_dim": 4, "dtype": "float32"}
  )
  rng = np.random.default_rng(0)
  shapes = {"down/kernel": (64, 4), "down/bias": 4, "up/kernel": (4, 64), "up/bias": 64}
  drawn = [{name: rng.normal(size=shape) * 0.3 for name, shape in shapes.items()} for _ in range(2)]

  def with_adapter(module, held):
    down, bias, up, end = (torch.tensor(part, dtype=torch.float32) for part in held.values())

    def forward(states, inputs):
      states = module.dense(states)
      normed = module.LayerNorm(
        states + inputs
      )  # Pfeiffer's: residual_before_ln, original_ln_before and _after
      return module.LayerNorm(torch.relu(normed @ down + bias) @ up + end + states + inputs)

    return forward

  for layer, held in zip(theirs.encoder.layer, drawn, strict=True):
    layer.output.forward = with_adapter(layer.output, held)
  tokens = rng.integers(4, 50, (3, 7))
  tokens[1, 4:] = pad
  present = torch.tensor(tokens != pad)
  with torch.no_grad():
    states = theirs(input_ids=torch.tensor(tokens), attention_mask=present.long()).last_hidden_state
    wanted = (states * present[..., None]).sum(1) / present.sum(1, keepdim=True)
  params = stacking.flatten(weights.read_all(bases["mclip"])["text_tower"])
  params |= {f"layers/adapter/{name}": np.stack([held[name] for held in drawn]) for name in shapes}
  found = TextTower(config).apply({"params": stacking.nested(params)}, tokens)
  np.testing.assert_allclose(np.asarray(found), wanted.numpy(), atol=2e-4)


def test_adapter_parameter_counts_of_the_paper():
  """894,528 parameters for XLM-R-base, 3,171,840 for XLM-R-large (Geigle et al., 2024)."""
  for width, depth, wanted in ((768, 12, 894_528), (1024, 24, 3_171_840)):
    config = TextConfig(
      vocab_size=64, width=width, depth=depth, mlp_dim=32, num_heads=1, max_length=8, pre_norm=False, final_norm=False,
      adapter="bottleneck", adapter_dim=width // 16, scan=True,
    )  # fmt: skip
    shapes = jax.eval_shape(
      lambda config=config: TextTower(config).init(jax.random.key(0), np.ones((1, 8), np.int32))
    )
    sizes = [leaf.size for path, leaf in stacking.flatten(shapes["params"]).items() if "adapter" in path]
    assert sum(sizes) == wanted
