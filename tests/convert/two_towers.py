"""Small two-tower checkpoints of big_vision with seeded weights: SigLIP's, and LiT's with heads on both sides."""

import numpy as np

WIDTH, HEADS, MLP, PATCH, SIZE, VOCAB, LENGTH, EMBED = 16, 2, 24, 4, 12, 30, 5, 12
TEXTS = np.array([[4, 7, 20, 9, 1], [5, 1, 1, 1, 1], [12, 29, 3, 1, 1]])


def images():
  return np.random.default_rng(1).integers(0, 256, (2, SIZE, SIZE, 3)).astype(np.uint8)


def weights(kind):
  """{name: array} of `siglip` (its text head as wide as the ViT, a bias) or `lit` (a class token, heads, no bias)."""
  random, found = np.random.RandomState(0), {}

  def add(name, *shape):
    values = 0.2 * random.standard_normal(shape) + name.endswith("scale")
    found[f"params/{name}"] = values.astype(np.float32)

  def norm(name):
    add(f"{name}/scale", WIDTH)
    add(f"{name}/bias", WIDTH)

  def attention(name):
    for part in ("query", "key", "value"):
      add(f"{name}/{part}/kernel", WIDTH, HEADS, WIDTH // HEADS)
      add(f"{name}/{part}/bias", HEADS, WIDTH // HEADS)
    add(f"{name}/out/kernel", HEADS, WIDTH // HEADS, WIDTH)
    add(f"{name}/out/bias", WIDTH)

  def dense(name, inputs, outputs):
    add(f"{name}/kernel", inputs, outputs)
    add(f"{name}/bias", outputs)

  def encoder(name):
    for n in range(2):
      block = f"{name}/encoderblock_{n}"
      norm(f"{block}/LayerNorm_0")
      attention(f"{block}/MultiHeadDotProductAttention_0")
      norm(f"{block}/LayerNorm_1")
      dense(f"{block}/MlpBlock_0/Dense_0", WIDTH, MLP)
      dense(f"{block}/MlpBlock_0/Dense_1", MLP, WIDTH)
    norm(f"{name}/encoder_norm")

  add("img/embedding/kernel", PATCH, PATCH, 3, WIDTH)
  add("img/embedding/bias", WIDTH)
  add("img/pos_embedding", 1, (SIZE // PATCH) ** 2, WIDTH)
  encoder("img/Transformer")
  add("txt/Embed_0/embedding", VOCAB, WIDTH)
  add("txt/pos_embedding", 1, LENGTH, WIDTH)
  encoder("txt/Encoder_0")
  add("t", 1)
  if kind == "siglip":
    add("b", 1)
    add("img/MAPHead_0/probe", 1, 1, WIDTH)
    attention("img/MAPHead_0/MultiHeadDotProductAttention_0")
    norm("img/MAPHead_0/LayerNorm_0")
    dense("img/MAPHead_0/MlpBlock_0/Dense_0", WIDTH, MLP)
    dense("img/MAPHead_0/MlpBlock_0/Dense_1", MLP, WIDTH)
    dense("txt/head", WIDTH, WIDTH)
  else:
    add("img/cls", 1, 1, WIDTH)
    dense("img/head", WIDTH, EMBED)
    dense("txt/head", WIDTH, EMBED)
  return found
