"""The parts of Word2VisualVec and their gradients against torch 2.13's GRU and layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import drawn_params, lazily
from xmcap.errors import UsageError
from xmcap.families.word2visualvec.model import Gru, Word2VisualVec, Word2VisualVecConfig
from xmcap.models.layers import normalized

torch = lazily.Module("torch")

ROWS, LENGTH, READ, WIDTH, HIDDEN, WORDS, OUT = 4, 6, 5, 3, 7, 9, 8
LENGTHS = (3, 6, 1, 4)  # the second is longer than what the GRU reads


def texts():
  rng = np.random.default_rng(0)
  words = rng.integers(1, WORDS + 1, (ROWS, LENGTH)).astype(np.int32)
  words *= np.arange(LENGTH) < np.array(LENGTHS)[:, None]
  vectors = rng.normal(size=(ROWS, LENGTH, WIDTH)).astype(np.float32) * (words > 0)[..., None]
  return words, vectors


def tensor(array):
  return torch.tensor(np.asarray(array))


def torch_gru(params):
  """torch's GRU with our parameters. Its biases of the gates are the sums of two, of which one stays 0."""
  made = torch.nn.GRU(WIDTH, HIDDEN, batch_first=True)
  made.weight_ih_l0.data = tensor(params["input"]["kernel"]).T.contiguous()
  made.weight_hh_l0.data = tensor(params["kernel"]).T.contiguous()
  made.bias_ih_l0.data = tensor(params["input"]["bias"])
  made.bias_hh_l0.data = torch.cat([torch.zeros(2 * HIDDEN), tensor(params["bias"])])
  return made


def padded(states, lengths):
  """torch's states of packed sequences, with zeros behind them."""
  return torch.nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=max(lengths))[0]


def run_torch_gru(gru, vectors, lengths):
  packed = torch.nn.utils.rnn.pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
  states, last = gru(packed)
  return padded(states, lengths), last[0]


def check_gru_grads(ours, gru):
  theirs = gru.bias_hh_l0.grad
  for mine, grad in (
    (ours["input"]["kernel"].T, gru.weight_ih_l0.grad),
    (ours["kernel"].T, gru.weight_hh_l0.grad),
    (ours["input"]["bias"], gru.bias_ih_l0.grad),
    (ours["bias"], theirs[2 * HIDDEN :]),
  ):
    np.testing.assert_allclose(mine, grad, atol=1e-5)


def test_gru_equals_torch():
  words, vectors = texts()
  present = words > 0
  module = Gru(HIDDEN)
  params = drawn_params.of(module.init, vectors, present, scale=0.5)
  gru = torch_gru(params)
  states, last = run_torch_gru(gru, tensor(vectors), LENGTHS)
  weights = np.random.default_rng(2).normal(size=(ROWS, LENGTH, HIDDEN)).astype(np.float32)
  (torch.sum(states * tensor(weights)) + torch.sum(last**2)).backward()

  def loss(params):
    last, states = module.apply({"params": params}, vectors, present)
    return jnp.sum(states * weights * present[..., None]) + jnp.sum(last**2), (last, states)

  grads, (our_last, our_states) = jax.jit(jax.grad(loss, has_aux=True))(params)
  np.testing.assert_allclose(our_last, last.detach(), atol=1e-5)
  np.testing.assert_allclose(our_states * present[..., None], states.detach(), atol=1e-5)
  check_gru_grads(grads, gru)


@pytest.mark.parametrize("attention", [False, True], ids=["last_state", "attention"])
def test_word2visualvec_network_equals_torch(attention):
  words, vectors = texts()
  config = Word2VisualVecConfig(OUT, HIDDEN, READ, 10, attention=attention)
  module = Word2VisualVec(config, WORDS)
  params = drawn_params.of(module.init, words, vectors, scale=0.5)
  target = np.random.default_rng(3).normal(size=(ROWS, OUT)).astype(np.float32)

  gru = torch_gru(params["gru"])
  lengths = [min(READ, length) for length in LENGTHS]
  states, state = run_torch_gru(gru, tensor(vectors[:, :READ]), lengths)
  linears = {}
  for name in {"hidden", "output", *(["attention"] if attention else [])}:
    kernel = params[name]["kernel"]
    linears[name] = torch.nn.Linear(*kernel.shape)
    linears[name].weight.data = tensor(kernel).T.contiguous()
    linears[name].bias.data = tensor(params[name]["bias"])
  if attention:
    scores = linears["attention"](states)[..., 0]
    behind = torch.arange(READ) >= torch.tensor(lengths)[:, None]
    weights = torch.softmax(scores.masked_fill(behind, -torch.inf), dim=1)
    state = torch.sum(weights[..., None] * states, dim=1)
  counts = torch.zeros(ROWS, WORDS)
  for row, of_text in enumerate(words):
    for word in of_text[of_text > 0]:
      counts[row, word - 1] += 1
  mean = torch.stack([tensor(vectors[row, :length]).mean(0) for row, length in enumerate(LENGTHS)])
  s = torch.cat([state, counts, mean], dim=1)
  out = torch.relu(linears["output"](torch.relu(linears["hidden"](s))))
  torch.nn.functional.mse_loss(out, tensor(target)).backward()

  def loss(params):
    out = module.apply({"params": params}, words, vectors)
    return jnp.mean((out - target) ** 2), out

  grads, ours = jax.jit(jax.grad(loss, has_aux=True))(params)
  np.testing.assert_allclose(ours, out.detach(), atol=1e-5)
  check_gru_grads(grads["gru"], gru)
  for name, linear in linears.items():
    np.testing.assert_allclose(grads[name]["kernel"].T, linear.weight.grad, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(grads[name]["bias"], linear.bias.grad, atol=1e-5, err_msg=name)


def test_word2visualvec_of_counts_alone_is_a_perceptron_of_the_bag():
  words, vectors = texts()
  module = Word2VisualVec(Word2VisualVecConfig(OUT, hidden=10, only_counts=True), WORDS)
  params = drawn_params.of(module.init, words, vectors, scale=0.5)
  assert params.keys() == {"hidden", "output"}
  bag = np.stack([np.bincount(of_text[of_text > 0] - 1, minlength=WORDS) for of_text in words])
  x = np.maximum(bag @ params["hidden"]["kernel"] + params["hidden"]["bias"], 0)
  expected = np.maximum(x @ params["output"]["kernel"] + params["output"]["bias"], 0)
  np.testing.assert_allclose(module.apply({"params": params}, words, vectors), expected, atol=1e-5)
  with pytest.raises(UsageError, match="only_counts has no states"):
    Word2VisualVecConfig(OUT, attention=True, only_counts=True)


@pytest.mark.parametrize("attention", [False, True])
def test_word2visualvec_ignores_padding_and_empty_text_is_finite(attention):
  words, vectors = texts()
  words[2], vectors[2] = 0, 0
  module = Word2VisualVec(Word2VisualVecConfig(OUT, HIDDEN, 10, 10, attention, relu_output=False), WORDS)
  params = drawn_params.of(module.init, words, vectors, scale=0.5)
  longer = np.pad(words, ((0, 0), (0, 3))), np.pad(vectors, ((0, 0), (0, 3), (0, 0)))
  embed = jax.jit(lambda *texts: module.apply({"params": params}, *texts, method="embed"))
  once, again = embed(words, vectors), embed(*longer)
  np.testing.assert_allclose(once, again, atol=1e-6)
  assert np.isfinite(once).all()
  np.testing.assert_allclose(np.linalg.norm(once, axis=1), 1, atol=1e-5)
  assert np.asarray(once).min() < 0  # without a ReLU


def test_normalized_zero_vector_has_a_finite_gradient():
  np.testing.assert_array_equal(normalized(jnp.zeros((1, 3))), np.zeros((1, 3)))
  gradient = jax.grad(lambda x: jnp.sum(normalized(x)))(jnp.zeros(3))
  assert np.isfinite(gradient).all()


def test_word2visualvec_config_refuses_sizes_below_1():
  with pytest.raises(UsageError, match="Word2VisualVecConfig.rnn_width is 0"):
    Word2VisualVecConfig(8, rnn_width=0)
