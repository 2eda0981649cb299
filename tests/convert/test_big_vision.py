"""ViTs of big_vision as .npz: features of a forward of its own in numpy (float64), by the paper's definitions."""

import math

import ml_dtypes
import numpy as np
import pytest

from tests.convert.conftest import params_of, same_trees, vit_features

WIDTH, HEADS, DEPTH, MLP, PATCH, SIDE = 16, 2, 3, 24, 4, 3
IMAGES = np.random.RandomState(0).randint(0, 256, (2, 12, 12, 3)).astype(np.uint8)


def make(pool="map", seed=0):
  """{name: array} of a ViT as big_vision's saves it: layers one by one."""
  rng = np.random.RandomState(seed)
  weights = {}

  def add(name, *shape):
    weights[name] = (0.2 * rng.standard_normal(shape) + name.endswith("scale")).astype(np.float32)

  def norm(name):
    add(f"{name}/scale", WIDTH)
    add(f"{name}/bias", WIDTH)

  def attention(name):
    for part in ("query", "key", "value"):
      add(f"{name}/{part}/kernel", WIDTH, HEADS, WIDTH // HEADS)
      add(f"{name}/{part}/bias", HEADS, WIDTH // HEADS)
    add(f"{name}/out/kernel", HEADS, WIDTH // HEADS, WIDTH)
    add(f"{name}/out/bias", WIDTH)

  def mlp(name):
    add(f"{name}/Dense_0/kernel", WIDTH, MLP)
    add(f"{name}/Dense_0/bias", MLP)
    add(f"{name}/Dense_1/kernel", MLP, WIDTH)
    add(f"{name}/Dense_1/bias", WIDTH)

  add("embedding/kernel", PATCH, PATCH, 3, WIDTH)
  add("embedding/bias", WIDTH)
  add("pos_embedding", 1, SIDE * SIDE, WIDTH)
  if pool == "tok":
    add("cls", 1, 1, WIDTH)
  for n in range(DEPTH):
    block = f"Transformer/encoderblock_{n}"
    norm(f"{block}/LayerNorm_0")
    attention(f"{block}/MultiHeadDotProductAttention_0")
    norm(f"{block}/LayerNorm_1")
    mlp(f"{block}/MlpBlock_0")
  norm("Transformer/encoder_norm")
  if pool == "map":
    add("MAPHead_0/probe", 1, 1, WIDTH)
    attention("MAPHead_0/MultiHeadDotProductAttention_0")
    norm("MAPHead_0/LayerNorm_0")
    mlp("MAPHead_0/MlpBlock_0")
  return weights


def forward(w, pool):
  """The vector of each picture, in float64."""
  w = {name: array.astype(np.float64) for name, array in w.items()}
  gelu = lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))  # noqa: E731

  def norm(x, name):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x * w[f"{name}/scale"] + w[f"{name}/bias"]

  def attention(x, y, name):
    q = np.einsum("nle,ehd->nlhd", x, w[f"{name}/query/kernel"]) + w[f"{name}/query/bias"]
    k = np.einsum("nle,ehd->nlhd", y, w[f"{name}/key/kernel"]) + w[f"{name}/key/bias"]
    v = np.einsum("nle,ehd->nlhd", y, w[f"{name}/value/kernel"]) + w[f"{name}/value/bias"]
    a = np.exp(np.einsum("nqhd,nkhd->nhqk", q, k) / math.sqrt(WIDTH // HEADS))
    z = np.einsum("nhqk,nkhd->nqhd", a / a.sum(-1, keepdims=True), v)
    return np.einsum("nqhd,hde->nqe", z, w[f"{name}/out/kernel"]) + w[f"{name}/out/bias"]

  def mlp(x, name):
    x = gelu(x @ w[f"{name}/Dense_0/kernel"] + w[f"{name}/Dense_0/bias"])
    return x @ w[f"{name}/Dense_1/kernel"] + w[f"{name}/Dense_1/bias"]

  pixels = IMAGES / 127.5 - 1
  patches = pixels.reshape(2, SIDE, PATCH, SIDE, PATCH, 3).transpose(0, 1, 3, 2, 4, 5)
  x = np.einsum("nijxyc,xyce->nije", patches, w["embedding/kernel"]).reshape(2, SIDE * SIDE, WIDTH)
  x = x + w["embedding/bias"] + w["pos_embedding"]
  if pool == "tok":
    x = np.concatenate([np.tile(w["cls"], (2, 1, 1)), x], 1)
  for n in range(DEPTH):
    block = f"Transformer/encoderblock_{n}"
    y = norm(x, f"{block}/LayerNorm_0")
    x = x + attention(y, y, f"{block}/MultiHeadDotProductAttention_0")
    x = x + mlp(norm(x, f"{block}/LayerNorm_1"), f"{block}/MlpBlock_0")
  x = norm(x, "Transformer/encoder_norm")
  if pool == "gap":
    return x.mean(1)
  if pool == "map":
    probe = np.tile(w["MAPHead_0/probe"], (2, 1, 1))
    x = attention(probe, x, "MAPHead_0/MultiHeadDotProductAttention_0")
    x = x + mlp(norm(x, "MAPHead_0/LayerNorm_0"), "MAPHead_0/MlpBlock_0")
  return x[:, 0]


def write(path, weights):
  np.savez(path, **weights)
  return path


def our_features(folder):
  return vit_features(folder, IMAGES)[:, 0]


@pytest.mark.parametrize("pool", ["map", "gap", "tok"])
def test_big_vision_vit_features_by_definition(tmp_path, convert, pool):
  weights = make(pool)
  out = convert(write(tmp_path / "vit.npz", weights))
  np.testing.assert_allclose(our_features(out), forward(weights, pool), rtol=0, atol=1e-4)


@pytest.mark.parametrize("prefix", ["params/", "opt/target/", "params/img/"])
def test_big_vision_npz_with_prefixes_and_other_arrays(tmp_path, convert, prefix):
  expected = params_of(convert(write(tmp_path / "plain.npz", make())))
  weights = {prefix + name: array for name, array in make().items()}
  weights |= {
    f"{prefix}head/kernel": np.zeros((WIDTH, 5)),
    "opt/state/step": np.int32(3),
    "extra/t": np.float32(1),
  }
  same_trees(params_of(convert(write(tmp_path / "vit.npz", weights))), expected)
  assert "not taken: opt/state/step, extra/t: beside the ViT" in convert.printed
  assert "head/kernel: the classifier" in convert.printed


def test_big_vision_npz_with_stacked_layers(tmp_path, convert):
  weights = make()
  expected = params_of(convert(write(tmp_path / "plain.npz", weights)))
  stacked = {name: array for name, array in weights.items() if "encoderblock_" not in name}
  for name in [name for name in weights if "encoderblock_0/" in name]:
    layers = [weights[name.replace("encoderblock_0", f"encoderblock_{n}")] for n in range(DEPTH)]
    stacked[name.replace("encoderblock_0", "encoderblock")] = np.stack(layers)
  same_trees(params_of(convert(write(tmp_path / "stacked.npz", stacked))), expected)


def test_big_vision_npz_with_older_names(tmp_path, convert):
  """Parts of a block numbered all together; positions in a module of their own, the class token's among them."""
  weights = make("tok")
  old = {}
  for name, array in weights.items():
    if "encoderblock" in name:
      name = name.replace("MultiHeadDotProductAttention_0", "MultiHeadDotProductAttention_1")
      name = name.replace("LayerNorm_1", "LayerNorm_2").replace("MlpBlock_0", "MlpBlock_3")
    old[name] = array
  token_position = np.random.RandomState(5).standard_normal((1, 1, WIDTH)).astype(np.float32)
  positions = np.concatenate([token_position, old.pop("pos_embedding")], 1)
  old["Transformer/posembed_input/pos_embedding"] = positions
  weights["cls"] = weights["cls"] + token_position
  out = convert(write(tmp_path / "old.npz", old | {"pre_logits/kernel": np.zeros((WIDTH, 4))}))
  np.testing.assert_allclose(our_features(out), forward(weights, "tok"), rtol=0, atol=1e-4)


def test_big_vision_npz_with_inlined_map_head(tmp_path, convert):
  expected = params_of(convert(write(tmp_path / "plain.npz", make())))
  inlined = {name.removeprefix("MAPHead_0/"): array for name, array in make().items()}
  same_trees(params_of(convert(write(tmp_path / "vit.npz", inlined))), expected)


def test_big_vision_npz_in_bfloat16_and_compressed(tmp_path, convert):
  weights = {name: array.astype(ml_dtypes.bfloat16) for name, array in make().items()}
  np.savez_compressed(tmp_path / "vit.npz", **weights)
  params = params_of(convert(tmp_path / "vit.npz"))["vit"]
  np.testing.assert_array_equal(params["position_embedding"], weights["pos_embedding"][0].astype(np.float32))


def test_big_vision_npz_in_big_endian_byte_order(tmp_path, convert):
  expected = params_of(convert(write(tmp_path / "vit.npz", make())))
  np.savez(tmp_path / "swapped.npz", **{name: array.astype(">f4") for name, array in make().items()})
  same_trees(params_of(convert(tmp_path / "swapped.npz")), expected)


def test_big_vision_vit_with_another_pool(tmp_path, convert):
  weights = make()
  out = convert(write(tmp_path / "vit.npz", weights), "--pool=gap")
  assert "MAPHead_0/" in convert.printed and "pool 'gap' does without" in convert.printed
  np.testing.assert_allclose(our_features(out), forward(weights, "gap"), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
  "change, message",
  [
    (lambda w: w.pop("Transformer/encoderblock_1/MlpBlock_0/Dense_1/bias"),
     "no tensor Transformer/encoderblock_1/MlpBlock_0/Dense_1/bias, which its other shapes ask for with shape (16,)"),
    (lambda w: w.update({"Transformer/encoderblock_1/MlpBlock_0/Dense_1/bias": np.zeros(15)}),
     "Dense_1/bias has shape (15,), and its other shapes ask for (16,)"),
    (lambda w: w.update({"Transformer/more/scale": np.zeros(3)}), "Transformer/more/scale (3,) has no place"),
    (lambda w: w.pop("pos_embedding"), "no tensor pos_embedding: not a ViT of big_vision with learned positions"),
    (lambda w: w.update({"pos_embedding": np.zeros((1, 7, WIDTH))}), "has 7 positions: no square"),
    (lambda w: w.pop("embedding/kernel"), "0 tensors embedding/kernel"),
    (lambda w: w.update({"cls": np.array([{"a": 1}], object)}), "cls holds Python objects, a pickle, which can run"),
    (lambda w: w.update({"embedding/bias": np.zeros(WIDTH, np.int32)}), "embedding/bias (16,) is int32, not float32"),
  ],
  ids=["missing", "shape", "extra", "positions", "square", "anchor", "object", "dtype"],
)  # fmt: skip
def test_big_vision_npz_with_mismatched_arrays_is_refused(tmp_path, convert, change, message):
  weights = make()
  change(weights)
  assert message in convert(write(tmp_path / "vit.npz", weights), code=2)
