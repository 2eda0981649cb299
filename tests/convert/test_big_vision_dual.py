"""Both towers of big_vision's .npz: numbers of big_vision at 0127fb6 itself (two_towers, vit, text_transformer)."""

import numpy as np
import pytest

from tests.convert import two_towers
from tests.convert.conftest import embedded, params_of, same_trees
from xmcap.models import model_json

# Of the weights, pictures and texts of two_towers: the first three numbers of each embedding, and the logits of each
# text (row) with each picture.
GOLDEN = {
  "siglip": (
    [[0.31763, 0.06883, -0.04908], [0.38748, 0.1375, -0.08299]],
    [[-0.43238, 0.04612, 0.12466], [-0.44471, -0.04467, 0.00045], [-0.36818, -0.01473, 0.10378]],
    [[-0.20607, -0.22593], [-0.21257, -0.3677], [-0.17099, -0.30947]],
  ),
  "lit": (
    [[-0.43741, 0.3297, -0.2927], [-0.26687, 0.37934, 0.09362]],
    [[0.21011, -0.10884, 0.09329], [0.30147, -0.19552, -0.22194], [0.36099, -0.08166, -0.30366]],
    [[-0.16796, -0.12624], [-0.23242, -0.38476], [0.00919, -0.14807]],
  ),
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_dual_embeddings_and_logits_equal_big_vision(tmp_path, convert, kind):
  np.savez(tmp_path / "theirs.npz", **two_towers.weights(kind))
  folder = convert(tmp_path / "theirs.npz", "--part=dual")
  image, text, logits = embedded(folder, two_towers.images(), two_towers.TEXTS)
  of_images, of_texts, of_both = GOLDEN[kind]
  np.testing.assert_allclose(image[:, :3], of_images, atol=1e-4)
  np.testing.assert_allclose(text[:, :3], of_texts, atol=1e-4)
  np.testing.assert_allclose(logits, of_both, atol=1e-4)
  assert model_json.read(folder / "model.json").config("dual").resize == "bicubic"
  assert "or its SentencePiece model as spiece.model, into --out" in convert.printed


def test_siglip_npz_with_stacked_layers_and_two_position_tables(tmp_path, convert):
  """SigLIP's files have stacked layers, and older ones a second table of positions in the encoder."""
  weights = two_towers.weights("siglip")
  np.savez(tmp_path / "plain.npz", **weights)
  wanted = params_of(convert(tmp_path / "plain.npz", "--part=dual"))
  stacked = {name: array for name, array in weights.items() if "encoderblock_" not in name}
  for name in (name for name in weights if "encoderblock_0/" in name):
    layers = [weights[name.replace("encoderblock_0", f"encoderblock_{n}")] for n in range(2)]
    stacked[name.replace("encoderblock_0", "encoderblock")] = np.stack(layers)
  half = weights["params/txt/pos_embedding"] / 2
  stacked |= {"params/txt/pos_embedding": half, "params/txt/Encoder_0/pos_embedding": half}
  stacked["opt/count"] = np.int32(1)
  np.savez(tmp_path / "stacked.npz", **stacked)
  same_trees(params_of(convert(tmp_path / "stacked.npz", "--part=dual")), wanted)
  assert "not taken: opt/count: beside the towers" in convert.printed


@pytest.mark.parametrize(
  "change, message",
  [
    (lambda w: w.pop("params/txt/Embed_0/embedding"), "no tensor Embed_0/embedding: not a text_transformer"),
    (lambda w: w.update({"params/txt/MAPHead_0/probe": np.zeros((1, 1, 16))}), "is pooled by attention"),
    (lambda w: w.update({"params/txt/more": np.zeros(3)}), "txt/more (3,) has no place"),
    (lambda w: w.pop("params/txt/head/bias"), "no tensor txt/head/bias"),
    (
      lambda w: w.update({"params/txt/head/kernel": np.zeros((16, 9))}),
      "images end in 16 numbers, and texts in 9",
    ),
  ],
  ids=["other text tower", "map", "extra", "missing", "spaces"],
)
def test_siglip_npz_with_mismatched_arrays_is_refused(tmp_path, convert, change, message):
  weights = two_towers.weights("siglip")
  change(weights)
  np.savez(tmp_path / "theirs.npz", **weights)
  assert message in convert(tmp_path / "theirs.npz", "--part=dual", code=2)
