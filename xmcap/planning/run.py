"""What gin files say of a run, as far as a plan needs it: read without its data, its vocabulary or its devices."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import gin
import numpy as np

from xmcap import configuration
from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError, XmcapError
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.planning.topologies import Topology
from xmcap.training import sharding
from xmcap.training.optimizer import Optimizer
from xmcap.training.run_arguments import Arguments

_REMAT = {(False, False): "no", (True, False): "vit", (False, True): "t5", (True, True): "all"}


@dataclasses.dataclass(frozen=True)
class Variant:
  """What may be changed about a run without changing what it computes, but for `captions_per_image`.

  Attributes:
    data, fsdp, model: of `Partitioning`.
    captions_per_image: K; the batch keeps its captions.
    microbatches: of `train`.
    remat: of which configurations: `no`, `vit`, `t5` or `all`.
    scan: of any of them.
  """

  data: int
  fsdp: int
  model: int
  captions_per_image: int
  microbatches: int
  remat: str
  scan: bool


@dataclasses.dataclass(frozen=True)
class Run:
  """A run that gin is configured for.

  Attributes:
    objective: of `train`.
    optimizer: of `train`.
    partitioning: of `train`, its mesh that of the variant.
    variant: what the search may change.
    batch_size: captions a step of all hosts.
    shapes: name -> (shape, dtype) of a batch of all hosts.
    total_steps: of the run; None where that follows from data.
    seed, rng_impl: of `train`.
  """

  objective: Any
  optimizer: Optimizer
  partitioning: sharding.Partitioning
  variant: Variant
  batch_size: int
  shapes: Mapping[str, tuple[tuple[int, ...], Any]]
  total_steps: int | None
  seed: int
  rng_impl: str | None

  @property
  def pictures(self) -> int:
    """A step, of all hosts."""
    return self.batch_size // self.variant.captions_per_image


def of_gin(topology: Topology, **changes: Any) -> Run:
  """The run that gin is configured for, on slices of chips.

  Args:
    topology: the slices.
    changes: fields of a `Variant` that differ from what gin says.

  Raises:
    UsageError: the files lack something, or it does not go together.
  """
  sizes = _stream_options()
  mesh = {axis: changes[axis] for axis in sharding.MESH_AXES if axis in changes}
  partitioning = dataclasses.replace(Arguments()["partitioning"](), **mesh)
  bound = {
    **dict(zip(sharding.MESH_AXES, partitioning.sizes(topology.chips, topology.slices), strict=True)),
    "captions_per_image": sizes["captions_per_image"],
    "microbatches": Arguments()["microbatches"](),
    "remat": _REMAT[option(ViTConfig, "remat"), option(T5Config, "remat")],
    "scan": option(ViTConfig, "scan") or option(T5Config, "scan"),
  }
  variant = Variant(**{**bound, **changes})
  if "remat" in changes:
    (vit, t5), *_ = (both for both, name in _REMAT.items() if name == changes["remat"])
    gin.bind_parameter("ViTConfig.remat", vit)
    gin.bind_parameter("T5Config.remat", t5)
  for kind in (ViTConfig, T5Config):
    if "scan" in changes:
      gin.bind_parameter(f"{kind.__name__}.scan", changes["scan"])
    # What 'auto' comes to on the slice; here it would be a CPU's float32.
    if option(kind, "dtype") == "auto":
      gin.bind_parameter(f"{kind.__name__}.dtype", "bfloat16")
  run = Arguments()
  try:
    total_steps = run["total_steps"]()
  except XmcapError:
    total_steps = None
  partitioning = dataclasses.replace(partitioning, data=variant.data, fsdp=variant.fsdp, model=variant.model)
  _check_batch(sizes["batch_size"], variant)
  return Run(
    run["objective"](), run["optimizer"](), partitioning, variant, sizes["batch_size"], _shapes(sizes, variant),
    total_steps, run["seed"](), run["rng_impl"](),
  )  # fmt: skip


def _check_batch(batch_size: int, variant: Variant) -> None:
  groups = variant.data * variant.fsdp
  pictures, rest = divmod(batch_size, variant.captions_per_image)
  if rest or pictures % (groups * variant.microbatches):
    raise UsageError(
      f"a batch of {batch_size:,} captions, {variant.captions_per_image} a picture, does not divide over data x fsdp = "
      f"{groups} chips and {variant.microbatches} microbatches: change one of them"
    )


def _stream_options() -> dict[str, Any]:
  """The arguments of the stream that say how large a batch is; nothing of its data is opened."""
  bound = gin.get_bindings("train", resolve_references=False).get("stream")
  kind = getattr(bound, "selector", "").rsplit(".", 1)[-1]
  if kind != "CaptionStream":
    raise UsageError(
      f"xmcap plan: train.stream is {bound}: only a run on @CaptionStream() can be planned; add a run's gin file, "
      "such as --gin_file=runs/train_coco35l.gin"
    )
  wanted = ("batch_size", "captions_per_image", "prompt_length", "target_length", "image_size")
  return {name: option(CaptionStream, name) for name in wanted}


def option(kind: type, argument: str) -> Any:
  """What gin binds for an argument of a configurable class, else its default; nothing is made of the class."""
  bound = gin.get_bindings(kind.__name__, resolve_references=False)
  if argument in bound:
    return configuration.resolve(bound[argument])
  return inspect.signature(kind).parameters[argument].default


def _shapes(sizes: dict[str, Any], variant: Variant) -> dict[str, tuple[tuple[int, ...], Any]]:
  captions, side = variant.captions_per_image, sizes["image_size"]
  pictures = sizes["batch_size"] // captions
  targets = (pictures, captions, sizes["target_length"])
  return {
    "image": ((pictures, side, side, 3), np.uint8),
    "prompt_tokens": ((pictures, captions, sizes["prompt_length"]), np.int32),
    "target_tokens": (targets, np.int32),
    "target_weights": (targets, np.float32),
  }
