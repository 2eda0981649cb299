"""Parameters of a model in its shapes, drawn by numpy: to compile what draws them takes longer than most tests."""

import jax
import numpy as np


def like(shapes, seed=0, scale=0.3):
  """Normal noise around 1 for what is named `scale`, and around 0 for all else."""
  rng = np.random.default_rng(seed)

  def leaf(path, shape):
    return (float(path[-1].key == "scale") + scale * rng.standard_normal(shape.shape)).astype(shape.dtype)

  return jax.tree_util.tree_map_with_path(leaf, shapes)


def of(init, *arguments, seed=0, scale=0.3):
  """`init(key, *arguments)["params"]`, drawn."""
  return like(jax.eval_shape(init, jax.random.key(0), *arguments)["params"], seed, scale)
