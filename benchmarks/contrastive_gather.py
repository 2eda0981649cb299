"""The contrastive step as one would write it first: similarities of all pictures and captions, which XLA divides."""

from unittest import mock

import gin

from xmcap.families.dual import objective as contrastive


@gin.configurable
class Gathered(contrastive.ContrastiveObjective):
  """`ContrastiveObjective` without its ring: XLA gathers what a device needs."""

  def loss(self, params, batch, rng, deterministic):
    def whole(losses, mask_equal):
      return lambda rows, scale, bias: losses(rows, scale, bias, mask_equal, (), 1)

    with mock.patch.object(contrastive, "spread", whole):
      return super().loss(params, batch, rng, deterministic)
