"""The LSTM as a captioner's decoder against torch 2.13's, and its steps against all positions at once."""

import functools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from tests import drawn_params, lazily
from xmcap.errors import UsageError
from xmcap.families.plugs.stabilizer import Stabilizer
from xmcap.families.show_and_tell.model import LstmConfig
from xmcap.models.captioner import Captioner, variable_shapes
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.generator import Generator, generate
from xmcap.models.decoding.search import Greedy
from xmcap.models.stored_vectors import StoredVectorsConfig
from xmcap.training.objectives import CaptionObjective

torch = lazily.Module("torch")

WORDS, WIDTH, PICTURE = 20, 8, 5
VIT, LSTM = StoredVectorsConfig(PICTURE), LstmConfig(WORDS, WIDTH)
PROMPTS = np.array([[[7], [9]], [[7], [9]], [[9], [7]]], np.int32)  # two languages of three pictures


@pytest.fixture(scope="module")
def params():
  return drawn_params.like(variable_shapes(VIT, LSTM)["params"], scale=0.5)


def pictures(rows=3):
  return np.random.default_rng(1).normal(size=(rows, PICTURE)).astype(np.float32)


def targets(length=6):
  tokens = np.random.default_rng(2).integers(2, WORDS, (3, 2, length)).astype(np.int32)
  tokens[..., -1] = 1
  return tokens


def tensor(array):
  return torch.tensor(np.asarray(array))


def torch_logits(params, image, prompt, target):
  """The logits of one caption: torch's LSTM reads the picture, the LangId and all words but the last."""
  decoder = params["decoder"]
  lstm = torch.nn.LSTM(WIDTH, WIDTH, batch_first=True)
  lstm.weight_ih_l0.data = tensor(decoder["lstm"]["input"]["kernel"]).T.contiguous()
  lstm.weight_hh_l0.data = tensor(decoder["lstm"]["kernel"]).T.contiguous()
  lstm.bias_ih_l0.data = tensor(decoder["lstm"]["input"]["bias"])
  lstm.bias_hh_l0.data = torch.zeros(4 * WIDTH)
  project = params["projection"]
  first = tensor(image) @ tensor(project["kernel"]) + tensor(project["bias"])
  words = tensor(params["token_embedder"]["embedding"])[np.concatenate([prompt, target[:-1]])]
  outputs, _ = lstm(torch.cat([first[None], words])[None])
  logits = decoder["logits_dense"]
  return outputs[0, 1:] @ tensor(logits["kernel"]) + tensor(logits["bias"])


def test_logits_equal_torchs_lstm(params):
  ours = Captioner(VIT, LSTM).apply({"params": params}, pictures(), PROMPTS, targets())
  for row in range(3):
    for column in range(2):
      theirs = torch_logits(params, pictures()[row], PROMPTS[row, column], targets()[row, column])
      np.testing.assert_allclose(ours[row, column], theirs.detach(), atol=1e-5)


def test_padding_of_a_prompt_changes_nothing(params):
  module = Captioner(VIT, LSTM)
  padded = np.pad(PROMPTS, [(0, 0), (0, 0), (0, 2)])
  plain, wide = (
    module.apply({"params": params}, pictures(), prompt, targets()) for prompt in (PROMPTS, padded)
  )
  np.testing.assert_allclose(plain, wide, atol=1e-6)


def log_probability(params, tokens):
  """Of decoded tokens [B, K, T], by the logits of all positions at once."""
  logits = Captioner(VIT, LSTM).apply({"params": params}, pictures(), PROMPTS, tokens)
  each = np.take_along_axis(np.asarray(jax.nn.log_softmax(logits)), tokens[..., None], -1)[..., 0]
  return (each * (tokens != 0)).sum(-1)


@pytest.mark.parametrize("search", [Greedy(), Beam(beams=3, length_penalty=0.0)], ids=["greedy", "beam"])
def test_scores_of_a_search_are_those_of_all_positions_at_once(params, search):
  tokens, scores = map(np.asarray, Generator(Captioner(VIT, LSTM), search, 6)(params, pictures(), PROMPTS))
  np.testing.assert_allclose(scores, log_probability(params, tokens), atol=1e-5)
  assert len({tuple(row) for row in tokens.reshape(-1, 6)}) > 1  # pictures and languages matter


def test_greedy_takes_the_best_token_of_each_position(params):
  tokens = np.asarray(Generator(Captioner(VIT, LSTM), Greedy(), 6)(params, pictures(), PROMPTS)[0])
  logits = Captioner(VIT, LSTM).apply({"params": params}, pictures(), PROMPTS, tokens)
  best = np.asarray(jnp.argmax(logits, -1))
  np.testing.assert_array_equal(best[tokens != 0], tokens[tokens != 0])


def test_search_is_traced_for_any_number_of_pictures(params):
  """As `xmcap export` does."""
  (rows,) = jax.export.symbolic_shape("b")
  shapes = [((rows, PICTURE), np.float32), ((rows, 2, 1), np.int32)]
  image, prompts = (jax.ShapeDtypeStruct(*shape) for shape in shapes)
  static = Generator(Captioner(VIT, LSTM), Beam(beams=2), 4).static
  ids = jax.ShapeDtypeStruct((rows,), np.int32)
  traced = functools.partial(generate, *static, params)
  tokens, _ = jax.export.export(jax.jit(traced))(image, prompts, jax.random.key(0), ids).out_avals
  assert tokens.shape == (rows, 2, 4)


def test_objective_learns_a_caption_from_stored_vectors(params):
  objective = CaptionObjective(VIT, LSTM, z_loss=0.0)
  batch = {
    "features": pictures(), "prompt_tokens": PROMPTS, "target_tokens": targets(),
    "target_weights": np.ones(targets().shape, np.float32),
  }  # fmt: skip
  loss = jax.jit(jax.value_and_grad(lambda p: objective.loss(p, batch, jax.random.key(0), True)[0]))
  first, _ = loss(params)
  assert abs(first + log_probability(params, targets()).sum() / targets().size) < 1e-5
  for _ in range(30):
    value, grads = loss(params)
    params = jax.tree.map(lambda p, g: p - 0.5 * g, params, grads)
  assert value < 0.9 * first


def test_pixels_wide_vectors_and_consistent_stabilizers_are_refused(params):
  module = Captioner(VIT, LSTM)
  with pytest.raises(UsageError, match="stored vectors of pictures, not pixels"):
    module.apply({"params": params}, np.zeros((3, 4, 4, 3), np.uint8), PROMPTS, targets())
  batch = {
    "features": np.zeros((3, PICTURE + 1), np.float32),
    "prompt_tokens": PROMPTS,
    "target_tokens": targets(),
  }
  with pytest.raises(UsageError, match="vectors of 6 numbers, but the model's have 5"):
    CaptionObjective(VIT, LSTM).loss(params, batch, jax.random.key(0), True)
  with pytest.raises(UsageError, match="needs a T5, and the model's LstmConfig is none"):
    Generator(module, marks=Stabilizer(phases=1).marks(19, (7,)))
