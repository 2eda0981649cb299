"""The state of a run, which its checkpoints hold."""

from typing import Any

import flax.struct
import jax


class TrainState(flax.struct.PyTreeNode):
  """Everything that a run carries from step to step; the data's position and the random keys follow from `step`.

  Attributes:
    step: int32 [], steps done, skipped ones included.
    params, opt_state: trees of float32.
    skipped: int32 [], number of steps skipped because the loss or gradient was not finite.
    skipped_in_a_row: int32 [], number of steps skipped since the last step that was not.
  """

  step: jax.Array
  params: Any
  opt_state: Any
  skipped: jax.Array
  skipped_in_a_row: jax.Array
