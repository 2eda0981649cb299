"""Contrastive losses and their gradients against open_clip's losses, and with several captions against loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.families.dual.test_objective import LOSSES, mean_loss, rows_of, value_and_grads
from xmcap.families.dual import objective as contrastive

# SigLipLoss and ClipLoss of open_clip_torch 3.3.0 (torch 2.13.0, float64) for the rows of `few_rows`, logit_scale 7 and
# logit_bias -4 (ClipLoss: none): the loss, and its gradients for image_features, text_features, scale and bias.
OPEN_CLIP = {
  "sigmoid": (
    5.0903894,
    [
      [-0.6112719, -2.1827759, -1.6034299],
      [0.9543892, 0.9617562, 1.0425361],
      [0.9365028, 0.7615616, 1.0831452],
      [-0.0837274, 0.0044048, 0.0665876],
    ],
    [
      [1.2574024, 2.455781, 0.3736253],
      [-1.031379, -2.3367161, -0.2568349],
      [0.027298, -0.144756, -1.2586621],
      [-0.0675165, 0.0348452, 0.0671596],
    ],
    0.4824391,
    -0.2612949,
  ),
  "infonce": (
    4.4117605,
    [
      [-0.8603661, -2.2641201, -1.8050698],
      [0.5838949, 1.5398769, 1.1437742],
      [0.4194945, 0.5598982, 0.6193258],
      [-0.0051863, 0.000152, -2.36e-05],
    ],
    [
      [1.4762126, 3.0670286, 0.4535137],
      [-1.2465696, -2.662234, -0.1176185],
      [-0.279334, -0.5884008, -0.9872252],
      [0.0042346, 0.0188349, 0.0044589],
    ],
    0.6009904,
    0.0,
  ),
}


def few_rows():
  rng = np.random.default_rng(5)
  image, text = (rng.normal(size=(4, 3)) for _ in range(2))
  image, text = (jnp.array(x / np.linalg.norm(x, axis=1, keepdims=True), jnp.float32) for x in (image, text))
  there = jnp.ones(4, bool)
  return contrastive.LossInputs(image, there, text, there, jnp.arange(4, dtype=jnp.uint32))


@pytest.mark.parametrize("kind", LOSSES)
def test_contrastive_loss_of_one_caption_equals_open_clip(kind):
  loss, grads = value_and_grads(kind, few_rows(), 7.0, -4.0)
  expected, *expected_grads = OPEN_CLIP[kind]
  assert float(loss) == pytest.approx(expected, abs=1e-5)
  for ours, theirs in zip(grads, expected_grads, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)


def looped(kind, rows, image, text, scale, bias, mask_equal):
  """The mean loss of the captions that are present, pair by pair, in float64."""
  captions = len(text) // len(image)
  present, pictures, same = (
    np.asarray(x).tolist() for x in (rows.text_present, rows.image_present, rows.same)
  )
  logits = scale * image @ text.T + bias

  def counts(i, j):
    own_texts = same[i * captions : (i + 1) * captions]
    return present[j] and pictures[i] and (i == j // captions or not (mask_equal and same[j] in own_texts))

  total = 0.0
  for j in range(len(text)):
    if not present[j]:
      continue
    i = j // captions
    candidates = [other for other in range(len(image)) if counts(other, j)]
    if kind == "sigmoid":
      total += sum(np.log1p(np.exp(logits[p, j] * (-1 if p == i else 1))) for p in candidates)
      continue
    others = [other for other in range(len(text)) if other // captions != i and counts(i, other)]
    own = np.exp(logits[i, j])
    total -= np.log(own / sum(np.exp(logits[p, j]) for p in candidates)) / 2
    total -= np.log(own / (own + sum(np.exp(logits[i, other]) for other in others))) / 2
  return total / sum(present)


def differences(function, arguments, step=1e-5):
  """Gradients of a function of arrays and numbers, by central differences."""
  found = []
  for number, argument in enumerate(arguments):
    gradient = np.zeros(np.shape(argument))
    for place in np.ndindex(gradient.shape):
      values = []
      for sign in (1, -1):
        moved = np.array(argument, np.float64)
        moved[place] += sign * step
        values.append(function(*arguments[:number], moved, *arguments[number + 1 :]))
      gradient[place] = (values[0] - values[1]) / (2 * step)
    found.append(gradient)
  return found


@pytest.mark.parametrize(
  "present, mask_equal", [(None, False), ([1, 1, 1, 0, 1, 1, 0, 0, 0, 1, 1, 0], True)], ids=["all", "some"]
)
@pytest.mark.parametrize("kind", LOSSES)
def test_contrastive_loss_of_several_captions_equals_a_loop(kind, present, mask_equal):
  rows = rows_of(4, 3, present=present if present is None else np.array(present, bool))
  # Captions 1 and 4 of two pictures are the same text, and so are 2 and 10.
  rows = rows._replace(same=rows.same.at[4].set(1).at[10].set(2))
  scale, bias = 5.0, -2.0 if kind == "sigmoid" else 0.0

  def loss(image, text, scale, bias):
    return mean_loss(kind, rows._replace(image=image, text=text), scale, bias, mask_equal)

  arguments = [np.asarray(rows.image, np.float64), np.asarray(rows.text, np.float64), scale, bias]
  value, grads = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3)))(rows.image, rows.text, scale, bias)
  assert float(value) == pytest.approx(looped(kind, rows, *arguments, mask_equal), rel=1e-5)
  expected = differences(lambda *moved: looped(kind, rows, *moved, mask_equal), arguments)
  for ours, theirs in zip(grads, expected, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
